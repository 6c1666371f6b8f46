#include "watched_package.h"

#include <cstdio>

#include "console.h"
#include "minify/package_program.h"

namespace kiln::cli {

WatchedPackage::WatchedPackage(const std::string& path, const Settings& settings, const ParsedOptions& options)
    : settings_(settings),
      dump_(
          settings, options.values("--custom-op-lib"), [path] { return minify::program_of_package(path); },
          [](const std::string& text) { fprintf(stderr, "%s\n", text.c_str()); },
          [path] { return minify::settings_of_package(path); }) {
  tell_notes(tell_of_package(path, settings));
}

void WatchedPackage::begin(const std::vector<Datum>& inputs) {
  dump_.set_inputs(inputs);
  dump_.before();
}

void WatchedPackage::failed(const Error& error) {
  dump_.failed(error.code());
  trace_error(error, settings_);
}

void WatchedPackage::fault(const std::string& text) {
  dump_.failed();
  trace_error(Error(ErrorKind::user, "K0638", text), settings_);
}

}  // namespace kiln::cli
