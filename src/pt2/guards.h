// What an exported program demands of its inputs: ranges of its symbols and relations between sizes.
#pragma once
#include <map>
#include <string>

#include "base/json.h"
#include "graph/graph.h"
#include "pt2/graph_json.h"

namespace kiln {

// Fills program.symbols and program.guards from range_constraints and guards_code. `places` says where arguments lie in
// the flat list of user inputs (pytree.h). A guard that is true whenever the inputs fit their types is left out.
void read_conditions(const Json& exported, const std::map<std::string, size_t>& places, SymbolTable& symbols,
                     Program& program);

}  // namespace kiln
