// `kiln report`: the records of a trace directory (base/trace_file.h, docs/report.md) as one HTML page that needs
// nothing else: style, script and data stand in it.
//
// The trace may come from anywhere: a line that cannot be read is counted and named on the page, never fatal; texts are
// data on the page, never markup.
#pragma once
#include <string>

#include "base/json.h"

namespace kiln {

struct ReportOptions {
  // Leaves out what tells of the model's source, values and names (report_redact.h).
  bool redact = false;
};

// What the page is drawn from: {"compiles": [...], "errors": [...], "runs": [...], ...}. Throws K0144 when the
// directory holds no trace.
Json report_data(const std::string& trace_directory, const ReportOptions& options);

std::string report_html(const Json& report);

}  // namespace kiln
