// What a child process found, as text for its parent.
#pragma once
#include <string>

#include "base/error.h"
#include "debug/bisect.h"

namespace kiln {

std::string report_text(const BisectResult& result);
std::string report_text(const Error& error);
BisectResult read_report(const std::string& text);  // throws the error that it reports

}  // namespace kiln
