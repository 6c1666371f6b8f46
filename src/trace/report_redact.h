// What `kiln report --redact` takes out of a report: everything that tells of the model's source, its values and how
// its author calls things. What stays: sizes, times, operators, kernels by the names Kiln gave them, decisions.
//
// Names are replaced by numbered ones (weight_0, input_1, module_2, file_0, model_0), the same everywhere, so that the
// page can still be read. Texts that are not known to be free of names are left out.
#pragma once
#include "base/json.h"

namespace kiln {

// `report` as report_data makes it; gives it without those.
Json redacted_report(const Json& report);

// The string under a key; "" where there is none, or something else.
std::string text_of(const Json& object, std::string_view key);

}  // namespace kiln
