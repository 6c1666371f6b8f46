// The memory plan for the trace: which buffer lives from which step to which, and how large it is for the sample's
// sizes (symbols without a sample count as their smallest value).
#pragma once
#include <map>
#include <string>

#include "base/json.h"
#include "package/format.h"
#include "types/expr.h"

namespace kiln {

SymbolValues sample_values(const std::map<std::string, SymbolInfo>& symbols);

Json memory_record(const format::Plan& plan, const std::map<std::string, SymbolInfo>& symbols);

}  // namespace kiln
