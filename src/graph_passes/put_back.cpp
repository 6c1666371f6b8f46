#include "graph_passes/put_back.h"

#include "ops/decompose_call.h"

namespace kiln {

namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (std::string_view other : names)
    if (name == other) return true;
  return false;
}

// permute(permute(x, dims), inverse) == x
InverseCall inverse_permute(const OpCall& call, Value* replacement) {
  std::vector<int64_t> dims = call.constant_integers("dims");
  auto rank = static_cast<int64_t>(dims.size());
  std::vector<Argument> inverse(dims.size());
  for (int64_t i = 0; i < rank; ++i) {
    int64_t d = dims[static_cast<size_t>(i)];
    inverse[static_cast<size_t>(d < 0 ? d + rank : d)] = Argument(Scalar(i));
  }
  return {"aten.permute.default", {Argument(replacement), Argument(Argument::List(inverse.begin(), inverse.end()))}};
}

}  // namespace

Argument sizes_argument(const std::vector<Expr>& sizes) {
  Argument::List list;
  for (const Expr& size : sizes) list.push_back(number(size));
  return Argument(std::move(list));
}

std::optional<InverseCall> inverse_of_view(const Alias& alias, Value* parent_now, Value* replacement) {
  const Node& node = *alias.view->node;
  OpCall call(node, node.op->schema);
  std::string name = op_short_name(node.target);
  if (node.target == "aten.slice.Tensor") {
    return InverseCall{"aten.slice_scatter.default",
                       {Argument(parent_now), Argument(replacement), call.arg("dim"), call.arg("start"),
                        call.arg("end"), call.arg("step")}};
  }
  if (node.target == "aten.narrow.default") {
    Expr start = call.integer("start");
    if (start.is_constant() && start.value() < 0) {  // counted from the end; start + length may be 0 there
      int64_t dim = call.constant_integer("dim");
      const auto& sizes = alias.parent->type.sizes;
      start = start + sizes.at(static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim));
    }
    return InverseCall{"aten.slice_scatter.default",
                       {Argument(parent_now), Argument(replacement), call.arg("dim"), number(start),
                        number(start + call.integer("length"))}};
  }
  if (node.target == "aten.select.int") {
    return InverseCall{"aten.select_scatter.default",
                       {Argument(parent_now), Argument(replacement), call.arg("dim"), call.arg("index")}};
  }
  if (node.target == "aten.transpose.int")
    return InverseCall{"aten.transpose.int", {Argument(replacement), call.arg("dim0"), call.arg("dim1")}};
  if (node.target == "aten.t.default") return InverseCall{"aten.t.default", {Argument(replacement)}};
  if (node.target == "aten.permute.default") return inverse_permute(call, replacement);
  if (is_one_of(name,
                {"alias", "detach", "contiguous", "to", "type_as", "lift", "lift_fresh", "positive", "sum_to_size"}))
    return InverseCall{};
  // A conjugate or negative that is seen is written as what has it as its conjugate or negative.
  if (is_one_of(name, {"_conj", "conj", "_neg_view"})) return InverseCall{node.target, {Argument(replacement)}};
  bool reshapes = is_one_of(name, {"view", "_unsafe_view", "reshape", "flatten", "unflatten", "ravel", "view_as",
                                   "reshape_as", "unsqueeze", "squeeze"});
  if (reshapes && node.target != "aten.view.dtype")
    return InverseCall{"aten.reshape.default", {Argument(replacement), sizes_argument(alias.parent->type.sizes)}};
  return std::nullopt;
}

InverseCall inverse_by_strides(const Alias& alias, Value* base_now, Value* replacement) {
  return {"aten.as_strided_scatter.default",
          {Argument(base_now), Argument(replacement), sizes_argument(alias.type.sizes),
           sizes_argument(alias.type.strides), number(alias.type.offset)}};
}

}  // namespace kiln
