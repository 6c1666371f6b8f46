// Operators that put tensors together: cat, stack, constant_pad_nd.
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/layout.h"

namespace kiln {

namespace {

using loops::KernelBuilder;
using List = std::vector<int64_t>;
using Specs = std::vector<Sample::TensorSpec>;

// A one-dimensional tensor without elements joins anything, by PyTorch's tradition.
bool is_skipped(const Sizes& sizes) { return sizes.size() == 1 && sizes[0].is_constant(0); }

struct CatPlan {
  std::vector<const Value*> parts;  // those that are not skipped
  size_t dim = 0;
  DType dtype = DType::f32;
};

CatPlan plan_cat(const OpCall& call) {
  CatPlan plan;
  Promotion promotion;
  auto tensors = call.tensors("tensors");
  for (const Value* tensor : tensors) {
    if (!tensor) fail_user("K0201", str(call.schema().name, ": the list must hold tensors only"), call.where());
    promotion.add_tensor(tensor->type.dtype, !tensor->type.sizes.empty());
    if (!is_skipped(tensor->type.sizes)) plan.parts.push_back(tensor);
  }
  if (tensors.empty())
    fail_user("K0201", str(call.schema().name, ": expected a non-empty list of tensors"), call.where());
  plan.dtype = promotion.result();
  int64_t rank = plan.parts.empty() ? 1 : rank_of(plan.parts[0]);
  if (rank == 0) fail_user("K0205", "zero-dimensional tensor (at position 0) cannot be concatenated", call.where());
  plan.dim = static_cast<size_t>(wrap_dim(call, call.constant_integer("dim"), rank));
  return plan;
}

void infer_cat(InferCall& call) {
  CatPlan plan = plan_cat(call);
  Device device = call.tensors("tensors")[0]->type.device;
  if (plan.parts.empty()) {
    call.results = {contiguous_type(plan.dtype, {Expr(0)}, device)};
    return;
  }
  const TensorType& first = plan.parts[0]->type;
  Sizes sizes = first.sizes;
  Expr length(0);
  bool channels_last = true;
  for (const Value* part : plan.parts) {
    const Sizes& own = part->type.sizes;
    if (own.size() != sizes.size())
      fail_user("K0206", str("Tensors must have same number of dimensions: got ", sizes.size(), " and ", own.size()),
                call.where());
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (d == plan.dim) continue;
      if (prove_eq(sizes[d], own[d], call.ranges()) == Proof::no)
        fail_user("K0206",
                  str("Sizes of tensors must match except in dimension ", plan.dim, ". Expected size ", sizes[d].text(),
                      " but got size ", own[d].text(), "."),
                  call.where());
      if (own[d].is_constant()) sizes[d] = own[d];
    }
    length = length + own[plan.dim];
    channels_last &= is_channels_last(own, part->type.strides);
  }
  sizes[plan.dim] = simplify(length, call.ranges());
  Sizes strides = channels_last ? channels_last_strides(sizes) : contiguous_strides(sizes);
  call.results = {strided_type(plan.dtype, std::move(sizes), std::move(strides), device)};
}

// One kernel per part: parts are read and written by different threads without overlap.
void lower_cat(LowerCall& call) {
  CatPlan plan = plan_cat(call);
  Expr start(0);
  for (const Value* part : plan.parts) {
    call.kernel([&](KernelBuilder& k) {
      k.parallel(part->type.sizes, [&](const std::vector<Expr>& i) {
        std::vector<Expr> to = i;
        to[plan.dim] = i[plan.dim] + start;
        k.store(call.output(), to, k.as(plan.dtype, k.load(call.buffer(part), i)));
      });
    });
    start = start + part->type.sizes[plan.dim];
  }
}

void reference_cat(ReferenceCall& call, const Schema& schema) {
  OpCall typed(call.node(), schema);
  CatPlan plan = plan_cat(typed);
  std::vector<Tensor> parts;
  for (const auto& tensor : call.tensors("tensors"))
    if (!(tensor->rank() == 1 && tensor->sizes[0] == 0)) parts.push_back(*tensor);
  if (parts.empty()) {
    call.results = {Datum{new_result(call, {0})}};
    return;
  }
  std::vector<int64_t> sizes = parts[0].sizes;
  size_t dim = plan.dim;
  sizes[dim] = 0;
  bool channels_last = true;
  for (const Tensor& part : parts) {
    if (part.sizes.size() != sizes.size())
      fail_user("K0206", "Tensors must have same number of dimensions", typed.where());
    for (size_t d = 0; d < sizes.size(); ++d)
      if (d != dim && part.sizes[d] != sizes[d])
        fail_user("K0206", str("Sizes of tensors must match except in dimension ", dim), typed.where());
    sizes[dim] += part.sizes[dim];
    channels_last &= is_channels_last(to_exprs(part.sizes), to_exprs(part.strides));
  }
  std::vector<int64_t> strides =
      channels_last ? to_numbers(channels_last_strides(to_exprs(sizes))) : contiguous_strides(sizes);
  Tensor out = Tensor::empty_strided(call.result_dtype(), sizes, strides);
  int64_t start = 0;
  for (const Tensor& part : parts) {
    Tensor slot = out;
    slot.sizes = part.sizes;
    slot.offset = start * out.strides[dim];
    copy_into(part, slot);
    start += part.sizes[dim];
  }
  call.results = {Datum{out}};
}

void register_cats(Registry& r) {
  for (const char* name : {"cat", "concat", "concatenate"}) {
    OpRecord cat;
    cat.schema_text = str(name, "(Tensor[] tensors, int dim=0) -> Tensor");
    auto schema = std::make_shared<const Schema>(parse_schema(cat.schema_text));
    cat.infer = infer_cat;
    cat.lower = lower_cat;
    cat.reference = [schema](ReferenceCall& call) { reference_cat(call, *schema); };
    cat.samples = {{{Specs{spec({2, 3}), spec({1, 3})}}},
                   {{Specs{spec({2, 3}), spec({2, 1}), spec({2, 2})}, Scalar(-1)}},
                   {{Specs{spec({0}), spec({2, 3})}, Scalar(1)}},
                   {{Specs{spec({2}, DType::i64), spec({3}), spec({1}, DType::bf16)}}},
                   {{Specs{spec({0, 3}), spec({2, 3})}}},
                   {{Specs{spec({2, 3}), spec({2, 4})}}, true},
                   {{Specs{spec({}), spec({2})}}, true},
                   {{Specs{spec({2}), spec({2, 2})}}, true}};
    r.add(std::move(cat));
  }
}

// ---- stack ----

size_t stack_dim(const OpCall& call) {
  auto tensors = call.tensors("tensors");
  if (tensors.empty() || !tensors[0]) fail_user("K0201", "stack expects a non-empty list of tensors", call.where());
  return static_cast<size_t>(wrap_dim(call, call.constant_integer("dim"), rank_of(tensors[0]) + 1));
}

DType stack_dtype(const OpCall& call) {
  Promotion promotion;
  for (const Value* tensor : call.tensors("tensors"))
    promotion.add_tensor(tensor->type.dtype, !tensor->type.sizes.empty());
  return promotion.result();
}

void register_stack(Registry& r) {
  OpRecord stack;
  stack.schema_text = "stack(Tensor[] tensors, int dim=0) -> Tensor";
  auto schema = std::make_shared<const Schema>(parse_schema(stack.schema_text));
  stack.infer = [](InferCall& call) {
    size_t dim = stack_dim(call);
    auto tensors = call.tensors("tensors");
    Sizes sizes = tensors[0]->type.sizes;
    for (const Value* tensor : tensors) {
      const Sizes& own = tensor->type.sizes;
      bool same = own.size() == sizes.size();
      for (size_t d = 0; same && d < own.size(); ++d) same = prove_eq(own[d], sizes[d], call.ranges()) != Proof::no;
      if (!same)
        fail_user("K0206",
                  str("stack expects each tensor to be equal size, but got [", shape_text(sizes), "] and [",
                      shape_text(own), "]"),
                  call.where());
    }
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(dim), Expr(static_cast<int64_t>(tensors.size())));
    call.results = {contiguous_type(stack_dtype(call), std::move(sizes), tensors[0]->type.device)};
  };
  stack.lower = [](LowerCall& call) {
    size_t dim = stack_dim(call);
    DType dtype = call.output_type().dtype;
    int64_t position = 0;
    for (const Value* tensor : call.tensors("tensors")) {
      call.kernel([&](KernelBuilder& k) {
        k.parallel(tensor->type.sizes, [&](const std::vector<Expr>& i) {
          std::vector<Expr> to = i;
          to.insert(to.begin() + static_cast<std::ptrdiff_t>(dim), Expr(position));
          k.store(call.output(), to, k.as(dtype, k.load(call.buffer(tensor), i)));
        });
      });
      ++position;
    }
  };
  stack.reference = [schema](ReferenceCall& call) {
    OpCall typed(call.node(), *schema);
    size_t dim = stack_dim(typed);
    auto tensors = call.tensors("tensors");
    std::vector<int64_t> sizes = tensors[0]->sizes;
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(dim), static_cast<int64_t>(tensors.size()));
    Tensor out = new_result(call, sizes);
    for (size_t i = 0; i < tensors.size(); ++i) {
      Tensor slot = out;
      slot.offset = static_cast<int64_t>(i) * out.strides[dim];
      slot.sizes.erase(slot.sizes.begin() + static_cast<std::ptrdiff_t>(dim));
      slot.strides.erase(slot.strides.begin() + static_cast<std::ptrdiff_t>(dim));
      if (tensors[i]->sizes != slot.sizes)
        fail_user("K0206", "stack expects each tensor to be equal size", typed.where());
      copy_into(*tensors[i], slot);
    }
    call.results = {Datum{out}};
  };
  stack.samples = {{{Specs{spec({2, 3}), spec({2, 3})}}},
                   {{Specs{spec({2, 3}), spec({2, 3})}, Scalar(-1)}},
                   {{Specs{spec({}), spec({})}}},
                   {{Specs{spec({2}, DType::i64), spec({2})}, Scalar(1)}},
                   {{Specs{spec({2}), spec({3})}}, true}};
  r.add(std::move(stack));
}

// ---- constant_pad_nd ----

struct Pads {
  Sizes before, after;  // per dimension; negative ones cut
};

Pads pads_of(const OpCall& call, const Sizes& pad, size_t rank) {
  if (pad.size() % 2 != 0 || pad.size() / 2 > rank)
    fail_user("K0201", str("constant_pad_nd: ", pad.size(), " pad values do not fit ", rank, " dimensions"),
              call.where());
  Pads out{Sizes(rank, Expr(0)), Sizes(rank, Expr(0))};
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    out.before[rank - 1 - i] = pad[2 * i];
    out.after[rank - 1 - i] = pad[2 * i + 1];
  }
  return out;
}

void lower_pad(LowerCall& call) {
  const TensorType& self = call.tensor("self")->type;
  Pads pads = pads_of(call, call.integers("pad"), self.sizes.size());
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
      std::vector<Expr> from;
      ValueId inside = loops::no_value;
      auto require = [&](ValueId condition) {
        inside = inside == loops::no_value ? condition : k.op(ScalarOp::logical_and, inside, condition);
      };
      for (size_t d = 0; d < i.size(); ++d) {
        from.push_back(i[d] - pads.before[d]);
        if (!pads.before[d].is_constant() || pads.before[d].value() > 0)
          require(k.op(ScalarOp::ge, k.index_value(from[d]), k.index_value(Expr(0))));
        if (!pads.after[d].is_constant() || pads.after[d].value() > 0)
          require(k.op(ScalarOp::lt, k.index_value(from[d]), k.index_value(self.sizes[d])));
      }
      ValueId x = k.load(call.input("self"), from, inside);
      if (inside != loops::no_value) x = k.select(inside, x, number_value(k, call.scalar("value"), self.dtype));
      k.store(call.output(), i, x);
    });
  });
}

void register_pad(Registry& r) {
  OpRecord pad;
  pad.schema_text = "constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor";
  auto schema = std::make_shared<const Schema>(parse_schema(pad.schema_text));
  pad.infer = [](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    Pads pads = pads_of(call, call.integers("pad"), self.sizes.size());
    Sizes sizes;
    for (size_t d = 0; d < self.sizes.size(); ++d) {
      sizes.push_back(self.sizes[d] + pads.before[d] + pads.after[d]);
      if (sizes[d].is_constant() && sizes[d].value() < 0)
        fail_user("K0206", str("constant_pad_nd: dimension ", d, " would have a negative size"), call.where());
    }
    Sizes strides =
        is_channels_last(self.sizes, self.strides) ? channels_last_strides(sizes) : contiguous_strides(sizes);
    call.results = {strided_type(self.dtype, std::move(sizes), std::move(strides), self.device)};
  };
  pad.lower = lower_pad;
  pad.reference = [schema](ReferenceCall& call) {
    OpCall typed(call.node(), *schema);
    Tensor self = call.tensor("self");
    Pads pads = pads_of(typed, to_exprs(call.integers("pad")), self.sizes.size());
    Tensor out = self, from = self, to;
    for (size_t d = 0; d < self.sizes.size(); ++d) out.sizes[d] += pads.before[d].value() + pads.after[d].value();
    bool last = is_channels_last(to_exprs(self.sizes), to_exprs(self.strides));
    auto strides = last ? to_numbers(channels_last_strides(to_exprs(out.sizes))) : contiguous_strides(out.sizes);
    out = Tensor::empty_strided(self.dtype, out.sizes, strides);
    Scalar value = call.scalar("value");
    copy_into(broadcast_view(Tensor::scalar(number_kind(value), value), out.sizes), out);
    // The part of self that is left, and its place in the result.
    to = out;
    for (size_t d = 0; d < self.sizes.size(); ++d) {
      int64_t before = pads.before[d].value(), after = pads.after[d].value();
      from.sizes[d] = to.sizes[d] = self.sizes[d] + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
      from.offset += std::max<int64_t>(-before, 0) * self.strides[d];
      to.offset += std::max<int64_t>(before, 0) * out.strides[d];
      if (from.sizes[d] <= 0) from.sizes[d] = to.sizes[d] = 0;
    }
    copy_into(from, to);
    call.results = {Datum{out}};
  };
  pad.samples = {{{spec({2, 3}), List{1, 2}}},
                 {{spec({2, 3}), List{0, 1, 2, 0}, Scalar(1.5)}},
                 {{spec({4}), List{-1, 2}, Scalar(7)}},
                 {{spec({3}, DType::i64), List{1, 1}, Scalar(-1)}},
                 {{spec({0}), List{2, 1}}},
                 {{spec({3}), List{1}}, true},
                 {{spec({3}), List{-2, -2}}, true}};
  r.add(std::move(pad));
}

}  // namespace

void register_joins(Registry& registry) {
  register_cats(registry);
  register_stack(registry);
  register_pad(registry);
  registry.describe({"cat", "concat", "concatenate", "constant_pad_nd", "stack"}, complex_by(ComplexRule::parts));
  registry.describe({"cat", "stack"}, autocast_to(AutocastRule::promote));
}

}  // namespace kiln
