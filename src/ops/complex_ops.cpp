// Making complex numbers and taking them apart. Real and imaginary parts and the views as pairs share memory with their
// argument in the reference; in Loops they are whatever split_complex made of the argument.
#include "ops/complex_formulas.h"
#include "ops/complex_reference.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/view_inverse.h"

namespace kiln {

namespace {

// Complex nodes are gone before lowering.
void lower_split(LowerCall& call) { fail_bug("split_complex should have rewritten this node", call.where()); }

void lower_same(LowerCall& call) {
  if (is_complex(call.tensor("self")->type.dtype)) return lower_split(call);
  call.kernel([&](loops::KernelBuilder& k) {
    k.parallel(call.output_type().sizes,
               [&](const std::vector<Expr>& i) { k.store(call.output(), i, k.load(call.input("self"), i)); });
  });
}

void need_complex(const OpCall& call, DType dtype) {
  if (!is_complex(dtype))
    fail_user("K0203",
              str(op_short_name(call.schema().name), " is not implemented for tensors with non-complex dtypes."),
              call.where());
}

TensorType part_type(const TensorType& type, int which) {
  TensorType out = type;
  out.dtype = complex_part(type.dtype);
  for (Expr& stride : out.strides) stride = stride * Expr(2);
  out.offset = type.offset * Expr(2) + Expr(which);
  return out;
}

void add_part(Registry& r, const char* name, int which) {
  OpRecord record;
  record.schema_text = str(name, "(Tensor(a) self) -> Tensor(a)");
  record.infer = [which](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    if (which == 1) need_complex(call, self.dtype);
    call.results = {is_complex(self.dtype) ? part_type(self, which) : self};
  };
  record.lower = lower_same;
  record.reference = [which](ReferenceCall& call) {
    Tensor self = call.tensor("self");
    call.results = {Datum{is_complex(self.dtype) ? complex_part_view(self, which) : self}};
  };
  record.samples = {{{spec({2, 3}, DType::c64)}}, {{spec({}, DType::c128)}}, {{spec({0, 2}, DType::c64)}}};
  if (which == 0) record.samples.push_back({{spec({3})}});
  if (which == 1) record.samples.push_back({{spec({3})}, true});
  r.add(std::move(record));
}

void add_views_as_pairs(Registry& r) {
  OpRecord real;
  real.schema_text = "view_as_real(Tensor(a) self) -> Tensor(a)";
  real.infer = [](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    need_complex(call, self.dtype);
    TensorType type = part_type(self, 0);
    type.sizes.push_back(Expr(2));
    type.strides.push_back(Expr(1));
    call.results = {type};
  };
  real.lower = lower_split;
  real.reference = [](ReferenceCall& call) {
    Tensor view = complex_part_view(call.tensor("self"), 0);
    view.sizes.push_back(2);
    view.strides.push_back(1);
    call.results = {Datum{view}};
  };
  real.samples = {{{spec({2, 3}, DType::c64)}}, {{spec({}, DType::c128)}}, {{spec({2})}, true}};
  OpRecord complex;
  complex.schema_text = "view_as_complex(Tensor(a) self) -> Tensor(a)";
  complex.infer = [](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    if (self.dtype != DType::f32 && self.dtype != DType::f64) refuse_dtype(call, self.dtype);
    if (self.sizes.empty() || prove_eq(self.sizes.back(), Expr(2), call.ranges()) == Proof::no)
      fail_user("K0201", "Tensor must have a last dimension of size 2", call.where());
    TensorType type = self;
    type.dtype = complex_of(self.dtype);
    type.sizes.pop_back();
    type.strides.pop_back();
    for (Expr& stride : type.strides) stride = floordiv(stride, Expr(2));
    type.offset = floordiv(self.offset, Expr(2));
    call.results = {type};
  };
  complex.lower = lower_split;
  complex.reference = [](ReferenceCall& call) {
    Tensor view = call.tensor("self");
    bool fits = view.strides.back() == 1 && view.offset % 2 == 0;
    for (size_t d = 0; d + 1 < view.sizes.size(); ++d) fits &= view.sizes[d] == 1 || view.strides[d] % 2 == 0;
    if (!fits && view.numel() > 0)
      fail_user("K0201", "Tensor must have a last dimension with stride 1 and even strides elsewhere",
                call.node().where());
    view.dtype = complex_of(view.dtype);
    view.sizes.pop_back();
    view.strides.pop_back();
    for (int64_t& stride : view.strides) stride /= 2;
    view.offset /= 2;
    call.results = {Datum{view}};
  };
  complex.samples = {{{spec({3, 2})}}, {{spec({2}, DType::f64)}}, {{spec({3})}, true}, {{spec({2}, DType::i64)}, true}};
  r.add(std::move(real));
  r.add(std::move(complex));
}

// complex(real, imag), polar(abs, angle).
void add_maker(Registry& r, const char* schema, std::string a, std::string b) {
  OpRecord record;
  record.schema_text = schema;
  record.infer = [a, b](InferCall& call) {
    const Value *x = call.tensor(a), *y = call.tensor(b);
    if (!is_float(x->type.dtype)) refuse_dtype(call, x->type.dtype);
    if (x->type.dtype != y->type.dtype)
      fail_user("K0203",
                str("Expected object of scalar type ", dtype_torch_name(x->type.dtype), " but got scalar type ",
                    dtype_torch_name(y->type.dtype), " for second argument"),
                call.where());
    call.results = {elementwise_type(call, {x, y}, complex_of(x->type.dtype))};
  };
  record.lower = lower_split;
  record.reference = [](ReferenceCall&) { fail_bug("evaluated by its complex formula"); };
  record.samples = {{{spec({2, 3}), spec({3})}},
                    {{spec({2}, DType::f64), spec({2}, DType::f64)}},
                    {{spec({2}), spec({2}, DType::f64)}, true}};
  r.add(std::move(record));
}

// Where a part of an element is in a complex buffer of Loops.
std::vector<Expr> part_at(std::vector<Expr> index, int which) {
  index.emplace_back(which);
  return index;
}

// What split_complex puts where complex memory meets real values: inputs, outputs, arguments of other calls.
void add_boundary(Registry& r) {
  OpRecord parts;
  parts.name_space = "kiln";
  parts.schema_text = "complex_parts(Tensor self) -> (Tensor real, Tensor imag)";
  parts.lower = [](LowerCall& call) {
    for (int which : {0, 1})
      call.kernel([&](loops::KernelBuilder& k) {
        k.parallel(call.output_type(which).sizes, [&](const std::vector<Expr>& i) {
          k.store(call.output(which), i, k.load(call.input("self"), part_at(i, which)));
        });
      });
  };
  parts.infer = [](InferCall& call) {
    TensorType type = call.tensor("self")->type;
    need_complex(call, type.dtype);
    type.dtype = complex_part(type.dtype);
    type.offset = Expr(0);
    call.results = {type, type};
  };
  parts.reference = [](ReferenceCall& call) {
    Tensor self = call.tensor("self");
    for (int which : {0, 1}) {
      Tensor out =
          Tensor::empty_strided(complex_part(self.dtype), self.sizes, dense_strides_like(self.sizes, self.strides));
      copy_into(complex_part_view(self, which), out);
      call.results.push_back(Datum{out});
    }
  };
  parts.samples = {{{spec({2, 3}, DType::c64)}}, {{spec({}, DType::c128)}}, {{spec({0, 2}, DType::c64)}}};
  OpRecord join;
  join.name_space = "kiln";
  join.schema_text = "complex_join(Tensor real, Tensor imag) -> Tensor";
  join.lower = [](LowerCall& call) {
    call.kernel([&](loops::KernelBuilder& k) {
      k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
        const loops::ValueId real = k.load(call.input("real"), i), imag = k.load(call.input("imag"), i);
        k.store(call.output(), part_at(i, 0), real);
        k.store(call.output(), part_at(i, 1), imag);
      });
    });
  };
  join.infer = [](InferCall& call) {
    TensorType type = call.tensor("real")->type;
    type.dtype = complex_of(type.dtype);
    call.results = {type};
  };
  join.reference = [](ReferenceCall& call) {
    Tensor real = call.tensor("real");
    call.results = {Datum{
        join_parts(real, call.tensor("imag"), complex_of(real.dtype), dense_strides_like(real.sizes, real.strides))}};
  };
  join.samples = {{{spec({2, 3}), spec({2, 3})}}, {{spec({}, DType::f64), spec({}, DType::f64)}}};
  for (OpRecord* record : {&parts, &join}) {
    record->facts = complex_by(ComplexRule::native);
    record->facts.moves_data = true;
  }
  r.add(std::move(parts));
  r.add(std::move(join));
}

}  // namespace

void register_complex(Registry& r) {
  add_part(r, "real", 0);
  add_part(r, "imag", 1);
  add_views_as_pairs(r);
  add_maker(r, "complex(Tensor real, Tensor imag) -> Tensor", "real", "imag");
  add_maker(r, "polar(Tensor abs, Tensor angle) -> Tensor", "abs", "angle");
  add_boundary(r);
  add_pointwise(r, {.schema = "angle(Tensor self) -> Tensor",
                    .operands = "self",
                    .rule = ResultRule::floating,
                    .emit =
                        [](Emit& e) {
                          ValueId angle = e.k.select(e.op(ScalarOp::lt, e.x[0], e.number(0)),
                                                     e.number(3.14159265358979323846), e.number(0));
                          return e.k.select(e.op(ScalarOp::is_nan, e.x[0]), e.x[0], angle);
                        },
                    .formula = float_formula<1>([](auto x) {
                      using T = decltype(x);
                      return x != x ? x : x < 0 ? static_cast<T>(3.14159265358979323846) : T{0};
                    }),
                    .inplace = false,
                    .samples = {{{spec({2, 3}, DType::c64)}}, {{spec({4}, DType::c128)}}}});
  add_pointwise(r, {.schema = "conj_physical(Tensor self) -> Tensor",
                    .operands = "self",
                    .emit = [](Emit& e) { return e.x[0]; },
                    .formula = formula<1>([](auto x) { return x; }),
                    .samples = {{{spec({2, 3}, DType::c64)}}}});
  r.describe({"angle"}, complex_by(complex_formulas::angle, true));
  r.describe({"conj_physical"}, complex_by(complex_formulas::conj));
  r.describe({"complex"}, complex_by(complex_formulas::from_parts));
  r.describe({"imag"}, complex_by(complex_formulas::imag, true));
  r.describe({"polar"}, complex_by(complex_formulas::polar));
  r.describe({"real"}, complex_by(complex_formulas::real, true));
  r.describe({"view_as_complex"}, complex_by(complex_formulas::view_as_complex));
  r.describe({"view_as_real"}, complex_by(complex_formulas::view_as_real));
  r.describe({"view_as_complex"}, {.inverse_view = view_inverse::as_complex});
  r.describe({"polar", "view_as_complex"}, autocast_to(AutocastRule::single));
  r.describe({"view_as_real"}, {.inverse_view = view_inverse::as_real});
  r.describe({"imag"}, {.inverse_view = view_inverse::imaginary_part});
  r.describe({"real"}, {.inverse_view = view_inverse::real_part});
}

}  // namespace kiln
