#include "trace/report.h"

#include <cstdio>

#include "base/file.h"
#include "base/text.h"
#include "command.h"
#include "console.h"
#include "output_files.h"

namespace kiln::cli {
namespace {

int make_report(const ParsedOptions& options) {
  settings_of_reader(options, "report");
  ReportOptions report_options;
  report_options.redact = options.has("--redact");
  const std::string path = options.value_or("--output", "report.html"), place = output_path(path);
  check_output_file(path, options);
  const Json report = report_data(options.positional[0], report_options);
  write_file_atomic(place, report_html(report));
  size_t kernels = 0;
  for (const Json& one : report.at("compiles").items()) kernels += one.at("kernels").items().size();
  const auto count = [](size_t n, const char* what) { return str(n, " ", what, n == 1 ? "" : "s"); };
  printf("%s, %s, %s, %s\n", count(report.at("compiles").items().size(), "compile").c_str(),
         count(kernels, "step").c_str(), count(report.at("runs").items().size(), "run").c_str(),
         count(report.at("errors").items().size(), "error").c_str());
  printf("%s\n", path.c_str());
  return 0;
}

}  // namespace

Command report_command() {
  CommandSpec spec;
  spec.name = "report";
  spec.positional = "TRACE_DIR";
  spec.least = spec.most = 1;
  spec.summary = "makes one page of a trace directory";
  spec.details =
      "TRACE_DIR is what TORCH_TRACE named while compiling or running. The page needs no network: errors, summary, "
      "timeline, graph at each stage, fusion decisions, kernels with their source, loops, operators and your lines, "
      "guards, memory, profiles of runs.";
  spec.options = {
      {"--output", "-o", "F", "the page (default: report.html)", false, FileUse::written},
      {"--redact", "", "", "leaves out source, code, constants, paths; numbers for names of files, modules, weights",
       false},
  };
  spec.examples = {"TORCH_TRACE=trace kiln compile model.pt2", "kiln report trace -o report.html"};
  return {spec, make_report};
}

}  // namespace kiln::cli
