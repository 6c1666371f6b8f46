// `kiln inspect`: what is in a model or a package, for people. Text, in sections: what it is, inputs, outputs, what is
// mutated, symbols with ranges, guards with reasons, weights, kernels with origins (packages), graph (models, and
// packages that carry their debug section).
#pragma once
#include <string>

#include "base/json.h"
#include "graph/graph.h"
#include "package/target_plan.h"

namespace kiln {

std::string inspect_file(const std::string& path);
Json inspect_file_json(const std::string& path);  // the same for programs

// Reads every byte of every entry of a model, a package or a package's sidecar and compares it with the entry's
// checksum.
struct Verified {
  std::string text;  // what was verified, one line per entry, and what came of it
  bool sound = true;
  Json json;
};
Verified verify_file(const std::string& path);

// `label` is the first line's name for it.
std::string inspect_program(const Program& program, const std::string& label,
                            const std::map<std::string, std::string>& metadata = {});
// "  metadata author = me": long values and those of several lines are shortened.
std::string metadata_line(const std::string& key, const std::string& value);
// The plan is that of `target`; origins may be null: then kernels are listed without them.
std::string inspect_plan(const format::Plan& plan, const TargetPlan& target, const format::Origins* origins,
                         const std::string& label);
Json inspect_plan_json(const format::Plan& plan, const TargetPlan& target, const format::Origins* origins);
// A bound of a symbol; null: there is none.
Json bound_json(int64_t bound);
// A size: a number, or the text of an expression over symbols.
Json size_json(const std::string& text);

}  // namespace kiln
