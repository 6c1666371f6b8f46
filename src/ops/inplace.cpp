#include "ops/inplace.h"

#include "base/self_overlap.h"

namespace kiln {

bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_float(from) && is_integral(to)) return false;
  if (from != DType::boolean && to == DType::boolean) return false;
  return true;
}

namespace {

// The overloads of some in-place operators have other names than those of their functional forms.
constexpr std::pair<std::string_view, std::string_view> irregular_names[] = {
    {"aten.pow.Tensor_Scalar", "aten.pow_.Scalar"},
    {"aten.pow.Tensor_Tensor", "aten.pow_.Tensor"},
    {"aten.float_power.Tensor_Scalar", "aten.float_power_.Scalar"},
    {"aten.float_power.Tensor_Tensor", "aten.float_power_.Tensor"},
    {"aten.floor_divide.default", "aten.floor_divide_.Tensor"},
    {"aten.ldexp.Tensor", "aten.ldexp_.default"},
};

std::string inplace_name(const std::string& name) {
  for (const auto& [functional, inplace] : irregular_names)
    if (name == functional) return std::string(inplace);
  size_t overload = name.rfind('.');
  KILN_CHECK(overload != std::string::npos, "operator names end in an overload");
  return str(name.substr(0, overload), "_", name.substr(overload));
}

void check_cast(const Node& node, DType from, DType to) {
  if (can_cast(from, to)) return;
  fail_user("K0203",
            str(node.target, ": result type ", dtype_torch_name(from), " can't be cast to the desired output type ",
                dtype_torch_name(to)),
            node.where());
}

TensorType functional_type(const OpRecord& functional, Node& node, const RangeEnv& ranges) {
  InferCall inner(node, functional.schema, ranges);
  functional.infer(inner);
  KILN_CHECK(inner.results.size() == 1, "an in-place operator has one result");
  return inner.results[0];
}

void infer_inplace(const OpRecord& functional, InferCall& call) {
  Node copy = call.node();
  copy.args.at(0).name = functional.schema.args[0].name;
  TensorType type = functional_type(functional, copy, call.ranges());
  const TensorType& self = call.tensor("self")->type;
  check_cast(call.node(), type.dtype, self.dtype);
  bool fits = type.sizes.size() == self.sizes.size();
  for (size_t i = 0; fits && i < self.sizes.size(); ++i)
    fits = prove_eq(type.sizes[i], self.sizes[i], call.ranges()) != Proof::no;
  if (!fits) {
    fail_user("K0203",
              str(call.node().target, ": a result of sizes [", shape_text(type.sizes),
                  "] does not fit into self of sizes [", shape_text(self.sizes), "]"),
              call.where());
  }
  call.results = {self};
}

// The node with concrete sizes and the graph's own dtypes: what the rule says for this very call. The reference of the
// functional operator needs the functional result's dtype, which may be wider than self's.
class ConcreteNode {
 public:
  ConcreteNode(const ReferenceCall& call, const OpRecord& functional) : node_(call.node()) {
    for (auto& named : node_.args) {
      for_each_value(named.arg, std::function<void(Value*&)>([&](Value*& value) {
                       storage_.push_back(std::make_unique<Value>(*value));
                       value = storage_.back().get();
                     }));
      auto found = call.values.find(named.name);
      if (found != call.values.end()) fix(named.arg, found->second);
    }
    node_.args.at(0).name = functional.schema.args[0].name;
    result_.type = functional_type(functional, node_, RangeEnv{});
    node_.results = {&result_};
  }
  const Node& node() const { return node_; }

 private:
  void fix(Argument& arg, const Datum& datum) {
    if (arg.is_value() && datum.is_tensor() && arg.as_value()->kind == ValueKind::tensor) {
      TensorType& type = arg.as_value()->type;
      const Tensor& tensor = datum.tensor();
      type.sizes.assign(tensor.sizes.begin(), tensor.sizes.end());
      type.strides.assign(tensor.strides.begin(), tensor.strides.end());
      type.offset = Expr(tensor.offset);
    } else if (datum.is_scalar()) {
      arg = Argument(datum.scalar());
    } else if (arg.is_list() && datum.is_list() && arg.as_list().size() == datum.list().size()) {
      auto& list = std::get<Argument::List>(arg.value);
      for (size_t i = 0; i < list.size(); ++i) fix(list[i], datum.list()[i]);
    }
  }
  Node node_;
  std::vector<std::unique_ptr<Value>> storage_;
  Value result_;
};

void reference_inplace(const OpRecord& functional, ReferenceCall& call) {
  ConcreteNode concrete(call, functional);
  ReferenceCall inner(concrete.node(), functional.schema);
  inner.fp64 = call.fp64;
  inner.seed = call.seed;
  inner.values = call.values;
  if (auto self = inner.values.extract("self"); !self.empty()) {
    self.key() = functional.schema.args[0].name;
    inner.values.insert(std::move(self));
  }
  functional.reference(inner);
  KILN_CHECK(inner.results.size() == 1 && inner.results[0].is_tensor(), "an in-place operator has one result");
  Tensor self = call.tensor("self");
  const Tensor& result = inner.results[0].tensor();
  check_cast(call.node(), inner.nominal_dtype(), call.node().results.empty() ? self.dtype : call.nominal_dtype());
  if (result.sizes != self.sizes) {
    fail_user("K0203",
              str(call.node().target, ": a result ", tensor_type_text(result), " does not fit into self ",
                  tensor_type_text(self)),
              call.node().where());
  }
  if (!functional.facts.fills && overlaps_itself(self.sizes, self.strides)) {
    fail_user("K0683",
              str(call.node().target, ": more than one element of ", tensor_type_text(self), " refers to one place"),
              call.node().where());
  }
  copy_into(result, self);
  call.results = {Datum{self}};
}

}  // namespace

OpRecord make_inplace(const OpRecord& functional) {
  KILN_CHECK(functional.infer && functional.reference,
             str(functional.name(), ": in-place needs a rule and a reference"));
  OpRecord variant;
  variant.kind = functional.kind;
  variant.name_space = functional.name_space;
  variant.schema = functional.schema;
  variant.schema.name = inplace_name(functional.name());
  // PyTorch calls what is written self, also where the functional operator says input.
  KILN_CHECK(!variant.schema.args.empty(), "in-place needs something to write to");
  variant.schema.args[0].name = "self";
  for (SchemaArg* self : {&variant.schema.args[0], &variant.schema.returns.at(0)}) {
    self->alias = "a";
    self->writes = true;
  }
  variant.functional = &functional;
  variant.random = functional.random;
  variant.infer = [f = &functional](InferCall& call) { infer_inplace(*f, call); };
  variant.reference = [f = &functional](ReferenceCall& call) { reference_inplace(*f, call); };
  variant.samples = functional.samples;
  return variant;
}

}  // namespace kiln
