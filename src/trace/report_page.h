// The report's page, style and script: the files of src/trace/page/, put into the program when it is built
// (tools/embed_page.cmake).
#pragma once

namespace kiln {

extern const char* const report_page_html;
extern const char* const report_page_css;
extern const char* const report_page_js;

}  // namespace kiln
