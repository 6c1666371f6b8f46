// Runs the reference of a sample's only node. For tests.
#pragma once
#include <gtest/gtest.h>

#include "ops/sample_program.h"

namespace kiln {

inline Datum datum_of(const Argument& arg, const Program& program) {
  if (arg.is_value()) {
    for (size_t i = 0; i < program.graph.inputs.size(); ++i)
      if (program.graph.inputs[i] == arg.as_value()) return program.sample_inputs[i];
    ADD_FAILURE() << "argument is not an input";
    return {};
  }
  if (!arg.is_list()) return constant_datum(arg);
  std::vector<Datum> list;
  for (const Argument& element : arg.as_list()) list.push_back(datum_of(element, program));
  return Datum{std::move(list)};
}

inline std::vector<Datum> run_reference(const OpRecord& record, const Program& program) {
  const Node& node = *program.graph.nodes.front();
  ReferenceCall call(node, record.schema);
  OpCall access(node, record.schema);
  for (const SchemaArg& declared : record.schema.args)
    call.values[declared.name] = datum_of(access.arg(declared.name), program);
  record.reference(call);
  std::vector<Datum> flat;
  for (const Datum& result : call.results) {
    if (result.is_list()) {
      flat.insert(flat.end(), result.list().begin(), result.list().end());
    } else {
      flat.push_back(result);
    }
  }
  return flat;
}

}  // namespace kiln
