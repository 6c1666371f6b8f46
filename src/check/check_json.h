// A case's result as JSON: the line that travels from a case's process to `kiln check`, and the entry in --json's file.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"
#include "check/check_case.h"

namespace kiln {

Json case_to_json(const CaseResult& result);
// Throws (the process died in the middle of writing) when the text is not a whole result.
CaseResult case_from_json(std::string_view text);

}  // namespace kiln
