#include "ops/common_operators.h"

namespace kiln::common_operators {

namespace {

const OpRecord& declared(std::string_view name) {
  const OpRecord* record = Registry::instance().find(name);
  if (!record) fail_bug(str(name, " is not declared"));
  return *record;
}

}  // namespace

const OpRecord& cast() { return declared("aten._to_copy.default"); }
const OpRecord& copy() { return declared("aten.clone.default"); }
const OpRecord& fill() { return declared("aten.full.default"); }
const OpRecord& slice() { return declared("aten.slice.Tensor"); }
const OpRecord& select() { return declared("aten.select.int"); }
const OpRecord& strided_view() { return declared("aten.as_strided.default"); }
const OpRecord& move_dimension() { return declared("aten.movedim.int"); }
const OpRecord& repeat() { return declared("aten.repeat.default"); }
const OpRecord& lower_triangle() { return declared("aten.tril.default"); }
const OpRecord& upper_triangle() { return declared("aten.triu.default"); }
const OpRecord& choose() { return declared("aten.where.self"); }

}  // namespace kiln::common_operators
