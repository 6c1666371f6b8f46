// aten.view.dtype: the same bytes as another type. In Loops elements are taken apart and put together with shifts; no
// memory is shared there, so a program that writes through such a view is refused when it is made functional.
#include "ops/decompose_call.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/view_inverse.h"

namespace kiln {

namespace {

DType unsigned_of(DType dtype) {
  switch (dtype_bytes(dtype)) {
    case 1:
      return DType::u8;
    case 2:
      return DType::u16;
    case 4:
      return DType::u32;
    default:
      return DType::u64;
  }
}

[[noreturn]] void refuse_view(const OpCall& call, const std::string& why) {
  fail_user("K0208", str("view(dtype): ", why), call.where());
}

void infer_view_dtype(InferCall& call) {
  const TensorType& self = call.tensor("self")->type;
  DType to = *call.dtype("dtype");
  int64_t from_bytes = dtype_bytes(self.dtype), to_bytes = dtype_bytes(to);
  TensorType type = self;
  type.dtype = to;
  if (from_bytes == to_bytes) {
    call.results = {type};
    return;
  }
  if (self.sizes.empty())
    refuse_view(call, "self.dim() cannot be 0 to view a tensor as one with elements of another size");
  Expr &size = type.sizes.back(), &stride = type.strides.back();
  if (prove_eq(stride, Expr(1), call.ranges()) == Proof::no && !is_one(size))
    refuse_view(call, "self.stride(-1) must be 1 to view as elements of another size");
  size_t outer = type.sizes.size() - 1;
  if (from_bytes > to_bytes) {
    Expr ratio(from_bytes / to_bytes);
    size = size * ratio;
    for (size_t d = 0; d < outer; ++d) type.strides[d] = type.strides[d] * ratio;
    type.offset = type.offset * ratio;
  } else {
    Expr ratio(to_bytes / from_bytes);
    if (prove_eq(mod(size, ratio), Expr(0), call.ranges()) == Proof::no)
      refuse_view(call, str("self.size(-1) must be divisible by ", ratio.text()));
    size = floordiv(size, ratio);
    for (size_t d = 0; d < outer; ++d) type.strides[d] = floordiv(type.strides[d], ratio);
    type.offset = floordiv(type.offset, ratio);
  }
  stride = Expr(1);
  call.results = {type};
}

ValueId load_bits(loops::KernelBuilder& k, loops::BufferId buffer, const std::vector<Expr>& at, DType dtype) {
  DType bits = unsigned_of(dtype);
  ValueId value = k.load(buffer, at);
  return dtype == bits ? value : dtype == DType::boolean ? k.cast(bits, value) : k.bitcast(bits, value);
}
ValueId from_bits(loops::KernelBuilder& k, ValueId bits, DType dtype) {
  return dtype == unsigned_of(dtype) ? bits : dtype == DType::boolean ? k.cast(dtype, bits) : k.bitcast(dtype, bits);
}

void lower_view_dtype(LowerCall& call) {
  DType from = call.tensor("self")->type.dtype, to = call.output_type().dtype;
  if (is_complex(from) || is_complex(to)) fail_bug("split_complex should have rewritten this node", call.where());
  int64_t from_bytes = dtype_bytes(from), to_bytes = dtype_bytes(to);
  loops::BufferId self = call.input("self");
  call.kernel([&](loops::KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
      std::vector<Expr> at = i;
      if (from_bytes == to_bytes) {
        k.store(call.output(), i, from_bits(k, load_bits(k, self, at, from), to));
      } else if (from_bytes > to_bytes) {
        Expr ratio(from_bytes / to_bytes);
        DType wide = unsigned_of(from);
        at.back() = floordiv(i.back(), ratio);
        ValueId shift = k.index_value(mod(i.back(), ratio) * Expr(8 * to_bytes), wide);
        ValueId bits = k.op(ScalarOp::shr, load_bits(k, self, at, from), shift);
        k.store(call.output(), i, from_bits(k, k.cast(unsigned_of(to), bits), to));
      } else {
        int64_t ratio = to_bytes / from_bytes;
        DType wide = unsigned_of(to);
        ValueId bits = loops::no_value;
        for (int64_t part = 0; part < ratio; ++part) {
          at.back() = i.back() * Expr(ratio) + Expr(part);
          ValueId piece = k.cast(wide, load_bits(k, self, at, from));
          ValueId shift = k.constant(wide, Scalar(part * 8 * from_bytes));
          piece = part == 0 ? piece : k.op(ScalarOp::shl, piece, shift);
          bits = part == 0 ? piece : k.op(ScalarOp::bit_or, bits, piece);
        }
        k.store(call.output(), i, from_bits(k, bits, to));
      }
    });
  });
}

void reference_view_dtype(ReferenceCall& call) {
  Tensor view = call.tensor("self");
  DType from = nominal_argument_dtype(call, "self"), to = *call.dtype("dtype");
  // fp64 mode keeps floats wide: the bits are those of the nominal type.
  bool wide = view.dtype != from;
  if (wide) view = convert(view, from);
  int64_t from_bytes = dtype_bytes(from), to_bytes = dtype_bytes(to);
  view.dtype = to;
  auto fail = [&](const char* why) { fail_user("K0208", str("view(dtype): ", why), call.node().where()); };
  if (from_bytes != to_bytes) {
    if (view.sizes.empty()) fail("self.dim() cannot be 0 to view a tensor as one with elements of another size");
    if (view.strides.back() != 1 && view.sizes.back() != 1) fail("self.stride(-1) must be 1");
    bool fits = view.sizes.back() * from_bytes % to_bytes == 0 && view.offset * from_bytes % to_bytes == 0;
    for (size_t d = 0; d + 1 < view.sizes.size(); ++d) fits &= view.strides[d] * from_bytes % to_bytes == 0;
    if (!fits) fail("sizes, strides and offset must be divisible by the ratio of the element sizes");
    for (size_t d = 0; d + 1 < view.sizes.size(); ++d) view.strides[d] = view.strides[d] * from_bytes / to_bytes;
    view.sizes.back() = view.sizes.back() * from_bytes / to_bytes;
    view.strides.back() = 1;
    view.offset = view.offset * from_bytes / to_bytes;
  }
  DType storage = storage_dtype(call, to);
  call.results = {Datum{storage == to ? view : convert(view, storage)}};
}

// A view of a view sees the first one's bytes: nothing passes through a type that cannot hold all bits (NaNs of f16).
void decompose_view_dtype(DecomposeCall& call) {
  Value* root = call.tensor("self");
  DType to = *call.dtype("dtype");
  while (root->producer && root->producer->target == "kiln.view_bytes.default")
    root = root->producer->find("self")->as_value();
  call.result(root->type.dtype == to ? root : call.call("kiln.view_bytes.default", {root, to}));
}

}  // namespace

void register_view_dtype(Registry& r) {
  OpRecord record;
  record.schema_text = "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)";
  record.infer = infer_view_dtype;
  record.decompose = decompose_view_dtype;
  record.reference = reference_view_dtype;
  record.samples = {{{spec({2, 3}), DType::i32}},
                    {{spec({2, 4}), DType::i16}},
                    {{spec({2, 4}), DType::u8}},
                    {{spec({2, 4}, DType::f16), DType::i64}},
                    {{spec({2, 8}, DType::u8), DType::f32}},
                    {{spec({4}, DType::f64), DType::i32}},
                    {{spec({4}, DType::i32), DType::f64}},
                    {{spec({3}, DType::bf16), DType::i16}},
                    {{spec({5}, DType::i16, -30000, 30000), DType::f16}},
                    {{spec({2, 2}, DType::c64), DType::f32}},
                    {{spec({2, 4}), DType::c64}},
                    {{spec({}), DType::i32}},
                    {{spec({}), DType::i16}, true},
                    {{spec({3}, DType::i16), DType::f32}, true}};
  OpRecord bytes = record;
  bytes.name_space = "kiln";
  bytes.schema_text = "view_bytes(Tensor self, ScalarType dtype) -> Tensor";
  bytes.decompose = nullptr;
  bytes.lower = lower_view_dtype;
  bytes.facts = complex_by(ComplexRule::bytes);
  r.add(std::move(record));
  r.add(std::move(bytes));
  r.describe({"view.dtype"}, complex_by(ComplexRule::native));
  r.describe({"view.dtype"}, {.inverse_view = view_inverse::as_dtype});
}

}  // namespace kiln
