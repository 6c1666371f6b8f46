// Matrix products: mm, bmm, matmul, linear and the forms that add a tensor. All are one nest: parallel axes of the
// result around a sum over k of a load times a load, then the addend. Templates recognise that nest; batch and leading
// dimensions stay axes of their own, so that indices stay affine.
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/layout.h"
#include "ops/matmul_reference.h"

namespace kiln {

namespace {

using loops::KernelBuilder;
using loops::ReduceOp;

struct MatmulRow {
  std::string schema;
  std::string a, b;
  std::string addend = {};     // beta * addend + alpha * (a @ b)
  int a_rank = 0, b_rank = 0;  // 0: any, with matmul's rules
  bool b_transposed = false;   // linear: weight is [n, k]
  bool sums_batch = false;     // addbmm
  bool widens = false;         // _int_mm: i8 or u8 times i8 gives i32
  bool scales = true;          // has alpha and beta
  std::vector<Sample> samples = {};
  bool conjugates = false;  // a complex first factor: vdot
};

// How the sizes of both operands fall into batch, m, k and n.
struct Plan {
  Sizes batch_a, batch_b, batch;
  bool has_m = true, has_n = true;
  Expr m{1}, k{1}, n{1};
  Sizes result() const {
    Sizes out = batch;
    if (has_m) out.push_back(m);
    if (has_n) out.push_back(n);
    return out;
  }
};

[[noreturn]] void refuse_sizes(const OpCall& call, const Sizes& a, const Sizes& b) {
  fail_user("K0206",
            str(call.schema().name, ": sizes [", shape_text(a), "] and [", shape_text(b), "] cannot be multiplied"),
            call.where());
}

Plan make_plan(const OpCall& call, const MatmulRow& row, const Sizes& a, const Sizes& b, const RangeEnv& ranges) {
  if (a.empty() || b.empty() || (row.a_rank && a.size() != static_cast<size_t>(row.a_rank)) ||
      (row.b_rank && b.size() != static_cast<size_t>(row.b_rank)) || (row.b_transposed && b.size() > 2))
    refuse_sizes(call, a, b);
  Plan plan;
  plan.has_m = a.size() > 1;
  plan.has_n = b.size() > 1;
  plan.k = a.back();
  if (plan.has_m) plan.m = a[a.size() - 2];
  const Expr& b_k = !plan.has_n || row.b_transposed ? b.back() : b[b.size() - 2];
  if (plan.has_n) plan.n = row.b_transposed ? b[b.size() - 2] : b.back();
  if (prove_eq(plan.k, b_k, ranges) == Proof::no) refuse_sizes(call, a, b);
  if (b_k.is_constant()) plan.k = b_k;
  if (plan.has_m) plan.batch_a.assign(a.begin(), a.end() - 2);
  if (plan.has_n) plan.batch_b.assign(b.begin(), b.end() - 2);
  plan.batch = broadcast_sizes(call, {plan.batch_a, plan.batch_b}, ranges);
  if (row.a_rank == 3 && prove_eq(a[0], b[0], ranges) == Proof::no) refuse_sizes(call, a, b);
  return plan;
}

DType product_dtype(const OpCall& call, const MatmulRow& row) {
  DType a = call.tensor(row.a)->type.dtype, b = call.tensor(row.b)->type.dtype;
  if (a != b && !(row.widens && a == DType::u8 && b == DType::i8)) {
    fail_user("K0203",
              str(call.schema().name, ": expected both matrices to have the same dtype, but got ", dtype_torch_name(a),
                  " and ", dtype_torch_name(b)),
              call.where());
  }
  refuse_complex(call, a);
  if (a == DType::boolean || (row.widens && a != DType::i8 && a != DType::u8)) refuse_dtype(call, a);
  if (row.widens && b != DType::i8) refuse_dtype(call, b);
  if (!row.addend.empty())
    if (const Value* addend = call.tensor_or_null(row.addend); addend && addend->type.dtype != a) {
      fail_user("K0203",
                str(call.schema().name, ": ", row.addend, " and the matrices must have the same dtype, but got ",
                    dtype_torch_name(addend->type.dtype), " and ", dtype_torch_name(a)),
                call.where());
    }
  return row.widens ? DType::i32 : a;
}

void infer_matmul(InferCall& call, const MatmulRow& row) {
  const TensorType& a = call.tensor(row.a)->type;
  DType dtype = product_dtype(call, row);
  Plan plan = make_plan(call, row, a.sizes, call.tensor(row.b)->type.sizes, call.ranges());
  if (row.sums_batch) plan.batch.clear();
  Sizes sizes = plan.result();
  if (!row.addend.empty()) {
    if (const Value* addend = call.tensor_or_null(row.addend))
      if (broadcast_sizes(call, {addend->type.sizes, sizes}, call.ranges()).size() != sizes.size())
        refuse_sizes(call, addend->type.sizes, sizes);
  }
  call.results = {contiguous_type(dtype, std::move(sizes), a.device)};
}

// 1 for a constant 1, so that plain additions stay plain.
ValueId scaled(LowerCall& call, KernelBuilder& k, std::string_view factor, ValueId x) {
  auto number = call.scalar(factor);
  const auto* constant = std::get_if<Scalar>(&number);
  if (constant && constant->as_double() == 1) return x;
  return k.op(ScalarOp::mul, number_value(k, number, k.type(x)), x);
}

bool is_zero(const OpCall& call, std::string_view factor) {
  auto number = call.scalar(factor);
  const auto* constant = std::get_if<Scalar>(&number);
  return constant && constant->as_double() == 0;
}

void lower_matmul(LowerCall& call, const MatmulRow& row) {
  const TensorType &a = call.tensor(row.a)->type, &b = call.tensor(row.b)->type;
  DType compute = row.widens ? DType::i32 : compute_dtype(a.dtype);
  Plan plan = make_plan(call, row, a.sizes, b.sizes, call.ranges());
  const Value* addend = row.addend.empty() ? nullptr : call.tensor_or_null(row.addend);
  // beta = 0 means that the addend is not even looked at: its NaNs do not count.
  if (addend && row.scales && is_zero(call, "beta")) addend = nullptr;
  Sizes outer = row.sums_batch ? Sizes{plan.m, plan.n} : plan.result();
  Sizes extents = row.sums_batch ? Sizes{plan.batch[0], plan.k} : Sizes{plan.k};
  call.kernel([&](KernelBuilder& k) {
    k.parallel(outer, [&](const std::vector<Expr>& i) {
      ValueId sum = k.reduce_one(ReduceOp::sum, compute, extents, [&](const std::vector<Expr>& r) {
        size_t batch_rank = row.sums_batch ? 0 : plan.batch.size();
        std::vector<Expr> batch(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(batch_rank));
        if (row.sums_batch) batch.push_back(r[0]);
        std::vector<Expr> at_a = call.broadcast(plan.batch_a, batch), at_b = call.broadcast(plan.batch_b, batch);
        size_t next = batch_rank;
        if (plan.has_m) at_a.push_back(i[next++]);
        at_a.push_back(r.back());
        if (plan.has_n && row.b_transposed) at_b.push_back(i[next]);
        at_b.push_back(r.back());
        if (plan.has_n && !row.b_transposed) at_b.push_back(i[next]);
        return k.op(ScalarOp::mul, k.as(compute, k.load_compute(call.input(row.a), at_a)),
                    k.as(compute, k.load_compute(call.input(row.b), at_b)));
      });
      if (row.scales && !row.addend.empty()) sum = scaled(call, k, "alpha", sum);
      if (addend) {
        ValueId more = k.load_compute(call.buffer(addend), call.broadcast(addend->type.sizes, i));
        sum = k.op(ScalarOp::add, sum, row.scales ? scaled(call, k, "beta", more) : more);
      }
      k.store(call.output(), i, sum);
    });
  });
}

// The operand as [batch, rows, columns], row-major.
template <class T>
std::vector<T> read_matrices(const Tensor& tensor, const Sizes& batch, bool vector_is_row, bool transposed) {
  Tensor view = tensor;
  if (view.rank() == 1) {
    view.sizes.insert(vector_is_row ? view.sizes.begin() : view.sizes.end(), 1);
    view.strides.insert(vector_is_row ? view.strides.begin() : view.strides.end(), 0);
  } else if (transposed) {
    std::swap(view.sizes[view.sizes.size() - 1], view.sizes[view.sizes.size() - 2]);
    std::swap(view.strides[view.strides.size() - 1], view.strides[view.strides.size() - 2]);
  }
  std::vector<int64_t> sizes = to_numbers(batch);
  sizes.insert(sizes.end(), view.sizes.end() - 2, view.sizes.end());
  return read_dense<T>(view, view.rank() == 2 ? view.sizes : sizes);
}

template <class T>
std::vector<T> multiply(const MatmulRow& row, const Plan& plan, const Tensor& a, const Tensor& b) {
  int64_t m = plan.m.value(), k = plan.k.value(), n = plan.n.value(), batches = 1;
  for (const Expr& size : plan.batch) batches *= size.value();
  auto left = read_matrices<T>(a, plan.batch, true, false),
       right = read_matrices<T>(b, plan.batch, false, row.b_transposed);
  // A matrix without batch dimensions is used for every batch.
  int64_t left_step = a.rank() > 2 ? m * k : 0, right_step = b.rank() > 2 ? k * n : 0;
  int64_t out_step = row.sums_batch ? 0 : m * n;
  std::vector<T> out(static_cast<size_t>((row.sums_batch ? 1 : batches) * m * n));
  for (int64_t i = 0; i < batches; ++i)
    accumulate_product(left.data() + i * left_step, right.data() + i * right_step, out.data() + i * out_step, m, k, n);
  return out;
}

template <class T>
void evaluate(ReferenceCall& call, const MatmulRow& row, const Plan& plan) {
  std::vector<T> out = multiply<T>(row, plan, call.tensor(row.a), call.tensor(row.b));
  Sizes sizes = row.sums_batch ? Sizes{plan.m, plan.n} : plan.result();
  bool scales = row.scales && !row.addend.empty();
  T alpha = 1, beta = 1;
  if (scales) {
    alpha = static_cast<T>(call.scalar("alpha").as_double());
    beta = static_cast<T>(call.scalar("beta").as_double());
  }
  std::vector<T> addend;
  if (!row.addend.empty() && call.given(row.addend) && beta != 0)
    addend = read_dense<T>(call.tensor(row.addend), to_numbers(sizes));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] *= alpha;
    if (!addend.empty()) out[i] += beta * addend[i];
  }
  Tensor result = new_result(call, to_numbers(sizes));
  write_dense(result, out);
  call.results = {Datum{result}};
}

void add_matmul(Registry& registry, MatmulRow row, bool inplace = false) {
  auto schema = std::make_shared<const Schema>(parse_schema(row.schema));
  auto shared = std::make_shared<const MatmulRow>(std::move(row));
  OpRecord record;
  record.schema_text = shared->schema;
  record.samples = shared->samples;
  record.inplace = inplace;
  if (!shared->widens) record.facts = complex_product({shared->a, shared->b, shared->addend, shared->conjugates});
  record.infer = [shared](InferCall& call) { infer_matmul(call, *shared); };
  record.lower = [shared](LowerCall& call) { lower_matmul(call, *shared); };
  record.reference = [shared, schema](ReferenceCall& call) {
    OpCall typed(call.node(), *schema);
    Plan plan =
        make_plan(typed, *shared, to_exprs(call.tensor(shared->a).sizes), to_exprs(call.tensor(shared->b).sizes), {});
    if (reference_compute(call, product_dtype(typed, *shared)) == DType::i64)
      evaluate<int64_t>(call, *shared, plan);
    else
      evaluate<double>(call, *shared, plan);
  };
  registry.add(std::move(record));
}

std::vector<Sample> pairs(std::vector<int64_t> a, std::vector<int64_t> b) {
  std::vector<Sample> out;
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64, DType::u8})
    out.push_back({{spec(a, dtype), spec(b, dtype)}});
  out.push_back({{spec(a), spec(b, DType::f64)}, true});
  return out;
}

void register_matrix_products(Registry& r) {
  std::vector<Sample> mm = pairs({3, 4}, {4, 5});
  mm.push_back({{spec({3, 0}), spec({0, 2})}});
  mm.push_back({{spec({0, 4}), spec({4, 2})}});
  mm.push_back({{spec({3, 4}), spec({3, 4})}, true});
  mm.push_back({{spec({3}), spec({3, 4})}, true});
  add_matmul(r, {.schema = "mm(Tensor self, Tensor mat2) -> Tensor",
                 .a = "self",
                 .b = "mat2",
                 .a_rank = 2,
                 .b_rank = 2,
                 .samples = mm});
  add_matmul(r, {.schema = "_int_mm(Tensor self, Tensor mat2) -> Tensor",
                 .a = "self",
                 .b = "mat2",
                 .a_rank = 2,
                 .b_rank = 2,
                 .widens = true,
                 .samples = {{{spec({3, 4}, DType::i8, -99, 99), spec({4, 2}, DType::i8, -99, 99)}},
                             {{spec({3, 4}, DType::u8, 0, 99), spec({4, 2}, DType::i8, -99, 99)}},
                             {{spec({3, 4}), spec({4, 2})}, true}}});
  add_matmul(r, {.schema = "bmm(Tensor self, Tensor mat2) -> Tensor",
                 .a = "self",
                 .b = "mat2",
                 .a_rank = 3,
                 .b_rank = 3,
                 .samples = pairs({2, 3, 4}, {2, 4, 5})});
  std::vector<Sample> general = pairs({2, 3, 4}, {4, 5});
  for (auto [a, b] : std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{{{4}, {4}},
                                                                                        {{3, 4}, {4}},
                                                                                        {{4}, {4, 5}},
                                                                                        {{4}, {2, 4, 5}},
                                                                                        {{2, 3, 4}, {4}},
                                                                                        {{6, 1, 3, 4}, {5, 4, 2}},
                                                                                        {{3, 4}, {2, 4, 5}},
                                                                                        {{2, 0, 4}, {4, 5}}})
    general.push_back({{spec(a), spec(b)}});
  general.push_back({{spec({}), spec({2})}, true});
  add_matmul(r,
             {.schema = "matmul(Tensor self, Tensor other) -> Tensor", .a = "self", .b = "other", .samples = general});
  add_matmul(r, {.schema = "mv(Tensor self, Tensor vec) -> Tensor",
                 .a = "self",
                 .b = "vec",
                 .a_rank = 2,
                 .b_rank = 1,
                 .samples = pairs({3, 4}, {4})});
  add_matmul(r, {.schema = "dot(Tensor self, Tensor tensor) -> Tensor",
                 .a = "self",
                 .b = "tensor",
                 .a_rank = 1,
                 .b_rank = 1,
                 .samples = pairs({7}, {7})});
  add_matmul(r, {.schema = "vdot(Tensor self, Tensor other) -> Tensor",
                 .a = "self",
                 .b = "other",
                 .a_rank = 1,
                 .b_rank = 1,
                 .samples = pairs({7}, {7}),
                 .conjugates = true});
}

void register_sums_of_products(Registry& r) {
  add_matmul(r, {.schema = "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
                 .a = "input",
                 .b = "weight",
                 .addend = "bias",
                 .b_transposed = true,
                 .scales = false,
                 .samples = {{{spec({3, 4}), spec({5, 4}), spec({5})}},
                             {{spec({2, 3, 4}), spec({5, 4})}},
                             {{spec({4}), spec({5, 4}), spec({5})}},
                             {{spec({2, 3, 4}, DType::bf16), spec({5, 4}, DType::bf16), spec({5}, DType::bf16)}},
                             {{spec({0, 4}), spec({5, 4}), spec({5})}},
                             {{spec({2, 4}), spec({4})}},
                             {{spec({3, 4}), spec({5, 3})}, true}}});
  auto with = [](std::vector<int64_t> c, std::vector<int64_t> a, std::vector<int64_t> b) {
    std::vector<Sample> out;
    for (DType dtype : {DType::f32, DType::bf16, DType::i64})
      out.push_back({{spec(c, dtype), spec(a, dtype), spec(b, dtype)}});
    out.push_back({{spec(c), spec(a), spec(b), Scalar(0.5), Scalar(2.0)}});
    out.push_back({{spec(c), spec(a), spec(b), Scalar(0), Scalar(2)}});
    out.push_back({{spec(c), spec(a), spec(a, DType::f64)}, true});
    return out;
  };
  std::string tail = ", *, Scalar beta=1, Scalar alpha=1) -> Tensor";
  std::vector<Sample> addmm = with({5}, {3, 4}, {4, 5});
  addmm.push_back({{spec({3, 5}), spec({3, 4}), spec({4, 5})}});  // what addmm_ can write to
  add_matmul(r,
             {.schema = "addmm(Tensor self, Tensor mat1, Tensor mat2" + tail,
              .a = "mat1",
              .b = "mat2",
              .addend = "self",
              .a_rank = 2,
              .b_rank = 2,
              .samples = std::move(addmm)},
             true);
  add_matmul(r,
             {.schema = "baddbmm(Tensor self, Tensor batch1, Tensor batch2" + tail,
              .a = "batch1",
              .b = "batch2",
              .addend = "self",
              .a_rank = 3,
              .b_rank = 3,
              .samples = with({2, 3, 5}, {2, 3, 4}, {2, 4, 5})},
             true);
  add_matmul(r,
             {.schema = "addbmm(Tensor self, Tensor batch1, Tensor batch2" + tail,
              .a = "batch1",
              .b = "batch2",
              .addend = "self",
              .a_rank = 3,
              .b_rank = 3,
              .sums_batch = true,
              .samples = with({3, 5}, {2, 3, 4}, {2, 4, 5})},
             true);
  add_matmul(r,
             {.schema = "addmv(Tensor self, Tensor mat, Tensor vec" + tail,
              .a = "mat",
              .b = "vec",
              .addend = "self",
              .a_rank = 2,
              .b_rank = 1,
              .samples = with({3}, {3, 4}, {4})},
             true);
}

}  // namespace

void register_matmul(Registry& registry) {
  register_matrix_products(registry);
  register_sums_of_products(registry);
  registry.describe({"addbmm", "addmm", "baddbmm", "bmm", "linear", "matmul", "mm"}, autocast_to(AutocastRule::lower));
  registry.describe({"addmm", "bmm", "linear", "mm"}, {.matrix_product = true});
  registry.describe({"addbmm", "addmm", "baddbmm", "bmm", "linear", "matmul", "mm"}, {.rounds_factors = true});
}

}  // namespace kiln
