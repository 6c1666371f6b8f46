// Products of groups: rows (or columns, or a part of the sum) belong to the group that `offs` says, and each group has
// a matrix of its own. Mixtures of experts are exported with them: PyTorch's _grouped_mm, and the operator that
// Transformers registers for what _grouped_mm does not take.
//
// offs[g] is where group g ends. A position belongs to the first group that ends after it, that is to the group whose
// number is the count of ends at or before it; positions after the last end belong to none and give 0.
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/layout.h"
#include "ops/matmul_reference.h"

namespace kiln {

namespace {

using loops::BufferId;
using loops::KernelBuilder;
using loops::ReduceOp;

// Which dimension is cut into groups follows from the ranks of both operands.
enum class Grouped : uint8_t { rows, columns, sum, batch };

struct GroupNames {
  const char *a, *b;
};

Grouped kind_of(size_t a_rank, size_t b_rank) {
  if (a_rank == 2) return b_rank == 2 ? Grouped::sum : Grouped::rows;
  return b_rank == 2 ? Grouped::columns : Grouped::batch;
}

void check_operands(const OpCall& call, const TensorType& a, const TensorType& b) {
  refuse_complex(call, a.dtype);
  if (!is_float(a.dtype)) refuse_dtype(call, a.dtype);
  if (a.dtype != b.dtype)
    fail_user("K0203",
              str(call.schema().name, ": expected both operands to have the same dtype, but got ",
                  dtype_torch_name(a.dtype), " and ", dtype_torch_name(b.dtype)),
              call.where());
  for (const TensorType* operand : {&a, &b})
    if (operand->sizes.size() != 2 && operand->sizes.size() != 3)
      refuse(call, "K0206", "operands must have 2 or 3 dimensions");
}

void check_ends(const InferCall& call, const Value* ends, const Expr* groups) {
  if (!ends) refuse(call, "K0206", "offs is needed when an operand has 2 dimensions");
  if (ends->type.dtype != DType::i32 && ends->type.dtype != DType::i64) refuse_dtype(call, ends->type.dtype);
  if (ends->type.sizes.size() != 1) refuse(call, "K0206", "offs must have 1 dimension");
  if (groups && prove_eq(ends->type.sizes[0], *groups, call.ranges()) == Proof::no)
    refuse(call, "K0206", "offs must have one element per group");
}

void infer_grouped(InferCall& call, const GroupNames& names) {
  const TensorType &a = call.tensor(names.a)->type, &b = call.tensor(names.b)->type;
  check_operands(call, a, b);
  const Value* ends = call.tensor_or_null("offs");
  const Grouped kind = kind_of(a.sizes.size(), b.sizes.size());
  if (prove_eq(a.sizes.back(), b.sizes[b.sizes.size() - 2], call.ranges()) == Proof::no)
    refuse(call, "K0206", "contraction dimension of the operands must match");
  const Expr m = a.sizes[a.sizes.size() - 2], n = b.sizes.back();
  Sizes sizes = {m, n};
  if (kind == Grouped::batch) {
    if (ends) refuse(call, "K0206", "offs is not taken when both operands have 3 dimensions");
    if (prove_eq(a.sizes[0], b.sizes[0], call.ranges()) == Proof::no) refuse(call, "K0206", "batch sizes must match");
    sizes = {a.sizes[0], m, n};
  } else {
    check_ends(call, ends, kind == Grouped::rows ? &b.sizes[0] : kind == Grouped::columns ? &a.sizes[0] : nullptr);
    if (kind == Grouped::sum) sizes = {ends->type.sizes[0], m, n};
  }
  call.results = {contiguous_type(a.dtype, std::move(sizes), a.device)};
}

// The group of each of `count` positions; the number of groups where there is none.
BufferId lower_groups(LowerCall& call, const Expr& count) {
  const Value* ends = call.tensor("offs");
  BufferId groups = call.temp(DType::i64, {count}, "group");
  call.kernel([&](KernelBuilder& k) {
    k.parallel({count}, [&](const std::vector<Expr>& at) {
      ValueId before = k.reduce_one(ReduceOp::sum, DType::i64, {ends->type.sizes[0]}, [&](const std::vector<Expr>& g) {
        ValueId end = k.as(DType::i64, k.load(call.buffer(ends), g));
        return k.as(DType::i64, k.op(ScalarOp::le, end, k.index_value(at[0])));
      });
      k.store(groups, at, before);
    });
  });
  return groups;
}

struct Product {
  BufferId a, b;
  DType compute;
  Expr inner;
};

ValueId factor_at(KernelBuilder& k, BufferId buffer, std::vector<Expr> at, DType compute) {
  return k.as(compute, k.load_compute(buffer, std::move(at)));
}

// Rows or columns in groups: one matrix is picked per row (column) by a number from data.
void lower_picked(LowerCall& call, const Product& p, bool by_rows, const Expr& group_count) {
  const Sizes& sizes = call.output_type().sizes;
  BufferId groups = lower_groups(call, sizes[by_rows ? 0 : 1]);
  int site = call.site("no groups");
  call.kernel([&](KernelBuilder& k) {
    k.parallel(sizes, [&](const std::vector<Expr>& i) {
      ValueId group = k.load(groups, {i[by_rows ? 0 : 1]});
      ValueId last = k.index_value(group_count - Expr(1));
      ValueId inside = k.op(ScalarOp::le, group, last);
      Expr pick = k.check_index(k.op(ScalarOp::min, group, last), group_count, site);
      ValueId sum = k.reduce_one(ReduceOp::sum, p.compute, {p.inner}, [&](const std::vector<Expr>& r) {
        std::vector<Expr> at_a = {i[0], r[0]}, at_b = {r[0], i[1]};
        (by_rows ? at_b : at_a).insert((by_rows ? at_b : at_a).begin(), pick);
        return k.op(ScalarOp::mul, factor_at(k, p.a, at_a, p.compute), factor_at(k, p.b, at_b, p.compute));
      });
      k.store(call.output(), i, k.select(inside, sum, k.constant(p.compute, Scalar(0.0))));
    });
  });
}

// The sum in groups: each result takes the part of the sum that is its own.
void lower_parts_of_sum(LowerCall& call, const Product& p) {
  BufferId groups = lower_groups(call, p.inner);
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
      ValueId sum = k.reduce_one(ReduceOp::sum, p.compute, {p.inner}, [&](const std::vector<Expr>& r) {
        ValueId own = k.op(ScalarOp::eq, k.load(groups, {r[0]}), k.index_value(i[0]));
        ValueId product =
            k.op(ScalarOp::mul, factor_at(k, p.a, {i[1], r[0]}, p.compute), factor_at(k, p.b, {r[0], i[2]}, p.compute));
        return k.select(own, product, k.constant(p.compute, Scalar(0.0)));
      });
      k.store(call.output(), i, sum);
    });
  });
}

void lower_grouped(LowerCall& call, const GroupNames& names) {
  const TensorType &a = call.tensor(names.a)->type, &b = call.tensor(names.b)->type;
  const Product p{call.input(names.a), call.input(names.b), compute_dtype(a.dtype), a.sizes.back()};
  switch (kind_of(a.sizes.size(), b.sizes.size())) {
    case Grouped::rows:
      return lower_picked(call, p, true, b.sizes[0]);
    case Grouped::columns:
      return lower_picked(call, p, false, a.sizes[0]);
    case Grouped::sum:
      return lower_parts_of_sum(call, p);
    case Grouped::batch:
      break;
  }
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& i) {
      ValueId sum = k.reduce_one(ReduceOp::sum, p.compute, {p.inner}, [&](const std::vector<Expr>& r) {
        return k.op(ScalarOp::mul, factor_at(k, p.a, {i[0], i[1], r[0]}, p.compute),
                    factor_at(k, p.b, {i[0], r[0], i[2]}, p.compute));
      });
      k.store(call.output(), i, sum);
    });
  });
}

// From where to where a group reaches, ends before starts and after the dimension cut off.
std::vector<std::pair<int64_t, int64_t>> spans(const ReferenceCall& call, int64_t extent) {
  std::vector<std::pair<int64_t, int64_t>> out;
  int64_t start = 0;
  for (int64_t end : read_dense<int64_t>(call.tensor("offs"))) {
    end = std::clamp<int64_t>(end, start, std::max(extent, start));
    out.emplace_back(start, end);
    start = end;
  }
  return out;
}

// Copies rows [from, to) and columns [left, right) of a row-major matrix with `width` columns.
std::vector<double> cut(const double* matrix, int64_t width, std::pair<int64_t, int64_t> rows,
                        std::pair<int64_t, int64_t> columns) {
  std::vector<double> out;
  for (int64_t r = rows.first; r < rows.second; ++r)
    out.insert(out.end(), matrix + r * width + columns.first, matrix + r * width + columns.second);
  return out;
}

void reference_grouped(ReferenceCall& call, const GroupNames& names) {
  Tensor a = call.tensor(names.a), b = call.tensor(names.b);
  const Grouped kind = kind_of(a.sizes.size(), b.sizes.size());
  const int64_t m = a.sizes[a.sizes.size() - 2], inner = a.sizes.back(), n = b.sizes.back();
  const std::vector<double> left = read_dense<double>(a), right = read_dense<double>(b);
  std::vector<std::pair<int64_t, int64_t>> groups;
  if (kind == Grouped::batch)
    groups.assign(static_cast<size_t>(a.sizes[0]), {0, 0});
  else
    groups = spans(call, kind == Grouped::rows ? m : kind == Grouped::columns ? n : inner);
  const bool many = kind == Grouped::sum || kind == Grouped::batch;
  const int64_t count = static_cast<int64_t>(groups.size());
  std::vector<double> out(static_cast<size_t>((many ? count : 1) * m * n), 0.0);
  for (int64_t g = 0; g < count; ++g) {
    const auto span = groups[static_cast<size_t>(g)];
    const auto rows = kind == Grouped::rows ? span : std::pair<int64_t, int64_t>{0, m};
    const auto columns = kind == Grouped::columns ? span : std::pair<int64_t, int64_t>{0, n};
    const auto parts = kind == Grouped::sum ? span : std::pair<int64_t, int64_t>{0, inner};
    const std::vector<double> x = cut(left.data() + (a.rank() == 3 ? g * m * inner : 0), inner, rows, parts);
    const std::vector<double> y = cut(right.data() + (b.rank() == 3 ? g * inner * n : 0), n, parts, columns);
    const int64_t high = rows.second - rows.first, wide = columns.second - columns.first;
    std::vector<double> z(static_cast<size_t>(high * wide), 0.0);
    accumulate_product(x.data(), y.data(), z.data(), high, parts.second - parts.first, wide);
    for (int64_t r = 0; r < high; ++r)
      std::copy_n(z.data() + r * wide, wide,
                  out.data() + (many ? g * m * n : 0) + (rows.first + r) * n + columns.first);
  }
  Tensor result = new_result(call, many ? std::vector<int64_t>{count, m, n} : std::vector<int64_t>{m, n});
  write_dense(result, out);
  call.results = {Datum{result}};
}

OpRecord grouped(std::string schema, std::string name_space, GroupNames names, std::vector<Sample> samples) {
  OpRecord record;
  record.schema_text = std::move(schema);
  record.name_space = std::move(name_space);
  record.infer = [names](InferCall& call) { infer_grouped(call, names); };
  record.lower = [names](LowerCall& call) { lower_grouped(call, names); };
  record.reference = [names](ReferenceCall& call) { reference_grouped(call, names); };
  record.samples = std::move(samples);
  return record;
}

Sample::TensorSpec end_at(int64_t groups, double end, DType dtype = DType::i32) {
  return spec({groups}, dtype, end, end);
}

std::vector<Sample> row_samples() {
  return {{{spec({5, 4}), spec({3, 4, 8}), end_at(3, 3)}},
          {{spec({7, 12}), spec({2, 12, 5}), end_at(2, 7, DType::i64)}},
          {{spec({6, 4}, DType::bf16), spec({1, 4, 8}, DType::bf16), end_at(1, 6)}},
          {{spec({0, 4}), spec({2, 4, 8}), end_at(2, 0)}},
          {{spec({5, 4}), spec({3, 6, 8}), end_at(3, 3)}, true},
          {{spec({5, 4}), spec({3, 4, 8}), end_at(2, 3)}, true},
          {{spec({5, 4}), spec({3, 4, 8}, DType::f16), end_at(3, 3)}, true},
          {{spec({5, 4}), spec({3, 4, 8}), spec({3})}, true}};
}

}  // namespace

void register_grouped_products(Registry& r) {
  std::vector<Sample> samples = row_samples();
  for (Sample& more :
       std::vector<Sample>{{{spec({3, 4, 8}), spec({8, 6}), end_at(3, 4)}},
                           {{spec({4, 8}), spec({8, 6}), end_at(3, 5)}},
                           {{spec({2, 4, 8}), spec({2, 8, 6})}},
                           {{spec({4, 8}), spec({8, 6})}, true},
                           {{spec({2, 4, 8}), spec({3, 8, 6})}, true},
                           {{spec({4, 8}, DType::i32), spec({2, 8, 6}, DType::i32), end_at(2, 4)}, true}})
    samples.push_back(std::move(more));
  OpRecord torch = grouped(
      "_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> "
      "Tensor",
      "aten", {"self", "mat2"}, std::move(samples));
  torch.infer = [](InferCall& call) {
    if (call.given("bias")) refuse(call, "K0206", "a bias is not supported, as in PyTorch");
    if (auto dtype = call.dtype("out_dtype"); dtype && *dtype != call.tensor("self")->type.dtype)
      refuse(call, "K0206", "out_dtype must be the operands' dtype");
    infer_grouped(call, {"self", "mat2"});
  };
  r.add(std::move(torch));
  r.add(grouped("grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor", "transformers",
                {"input", "weight"}, row_samples()));
}

}  // namespace kiln
