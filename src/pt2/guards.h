// What an exported program demands of its inputs: ranges of its symbols and relations between sizes.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "base/json.h"
#include "graph/graph.h"
#include "pt2/graph_json.h"

namespace kiln {

// The ranges that the export gives its symbols, before any of them is known; empty ones are refused by read_conditions.
RangeEnv exported_ranges(const Json& exported);

// Fills program.symbols and program.guards from range_constraints and guards_code. `places` says where arguments lie in
// the flat list of user inputs (pytree.h). A guard that is true whenever the inputs fit their types is left out.
void read_conditions(const Json& exported, const std::map<std::string, size_t>& places, SymbolTable& symbols,
                     Program& program);

// The condition that a text of guards_code means for this program; nothing if it names what the program does not have.
std::optional<Expr> read_guard(const std::string& text, const std::map<std::string, size_t>& places,
                               const Program& program);
// Of a guard that is the range of an expression: the expression's text.
std::optional<std::string> range_guard_text(const Guard& guard);
// The guard as a text of guards_code: the one it was read from while that still means the same, else one that is made
// from sizes of inputs. Nothing for a range of the export, and for what the inputs do not say.
std::optional<std::string> guard_text(const Guard& guard, const std::map<std::string, size_t>& places,
                                      const Program& program);

}  // namespace kiln
