// Eigenvalues of general matrices, packed Householder reflections, factors of symmetric matrices: what LAPACK's geev,
// geqrf, orgqr, ormqr, sytrf and sytrs compute, by library kernels.
#include "lapack/ldl.h"
#include "ops/composite.h"
#include "ops/families.h"
#include "ops/lapack_matrices.h"
#include "ops/linalg_parts.h"

namespace kiln {

namespace {

using Complex = std::complex<double>;

RefMatrix column_of(const std::vector<Complex>& values) {
  RefMatrix out(static_cast<int64_t>(values.size()), 1);
  out.values = values;
  return out;
}

// ---- Eigenvalues ----

void add_eig(Registry& r) {
  OpRecord record;
  record.schema_text = "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)";
  record.library = "linalg_eig";
  record.infer = [](InferCall& call) {
    const TensorType& a = checked_matrix(call, "self", true);
    DType dtype = a.dtype == DType::f32 || a.dtype == DType::c64 ? DType::c64 : DType::c128;
    call.results = {contiguous_type(dtype, with(batch_of(a), {a.sizes.back()}), a.device),
                    matrix_type(dtype, a.sizes, a.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor a = call.tensor("self");
    std::vector<int64_t> batch = batch_of(a, 2);
    std::vector<RefMatrix> values, vectors;
    for (const RefMatrix& matrix : read_matrices(a, batch)) {
      if (!all_finite(matrix)) fail_not_finite(call, a, values.size(), "linalg.eig");
      RefMatrix columns;
      values.push_back(column_of(reference_eig(matrix, columns, precision_of(call, "self"))));
      vectors.push_back(columns);
    }
    call.results = {write_matrices(call, values, joined_sizes(batch, {a.sizes.back()}), 0, 1),
                    write_matrices(call, vectors, a.sizes, 1)};
  };
  record.samples = {{{spec({4, 4})}}, {{spec({2, 3, 3}, DType::c64)}}, {{spec({5, 5}, DType::f64)}},
                    {{spec({0, 0})}}, {{spec({2, 3})}, true},          {{spec({2, 2}, DType::i64)}, true}};
  r.add(std::move(record));
  for (const char* name : {"linalg_eigvals", "_linalg_eigvals"})
    add_composite(r, {.schema = str(name, "(Tensor self) -> Tensor"),
                      .build = [](Build& b) { b.call().result(b("linalg_eig", {b.call().tensor("self")})); },
                      .samples = {{{spec({4, 4})}}, {{spec({2, 3, 3}, DType::c64)}}}});
}

// ---- Reflections ----

void add_geqrf(Registry& r) {
  OpRecord record;
  record.schema_text = "geqrf(Tensor self) -> (Tensor a, Tensor tau)";
  record.library = "linalg_geqrf";
  record.infer = [](InferCall& call) {
    const TensorType& a = checked_matrix(call, "self", false);
    Expr steps = min_expr(a.sizes[a.sizes.size() - 2], a.sizes.back());
    call.results = {matrix_type(a.dtype, a.sizes, a.device),
                    contiguous_type(a.dtype, with(batch_of(a), {steps}), a.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor a = call.tensor("self");
    std::vector<int64_t> batch = batch_of(a, 2);
    std::vector<RefMatrix> factors, taus;
    for (RefMatrix& matrix : read_matrices(a, batch)) {
      RefReflections packed;
      reference_qr(matrix, &packed);
      for (int64_t i = 0; i < matrix.rows; ++i)
        for (int64_t j = 0; j < std::min(i, matrix.columns); ++j) matrix.at(i, j) = packed.below.at(i, j);
      factors.push_back(matrix);
      taus.push_back(column_of(packed.tau));
    }
    int64_t steps = std::min(a.sizes.back(), a.sizes[a.sizes.size() - 2]);
    call.results = {write_matrices(call, factors, a.sizes, 0),
                    write_matrices(call, taus, joined_sizes(batch, {steps}), 1, 1)};
  };
  record.samples = {{{spec({4, 3})}}, {{spec({2, 3, 5})}}, {{spec({3, 3}, DType::c64)}}, {{spec({3})}, true}};
  r.add(std::move(record));
}

void add_householder(Registry& r) {
  OpRecord record;
  record.schema_text = "linalg_householder_product(Tensor input, Tensor tau) -> Tensor";
  record.library = "linalg_householder_product";
  record.infer = [](InferCall& call) {
    const TensorType& a = checked_matrix(call, "input", false);
    if (prove_le(a.sizes.back(), a.sizes[a.sizes.size() - 2], call.ranges()) == Proof::no)
      fail_user("K0201",
                "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to "
                "input.shape[-1]",
                call.where());
    call.results = {matrix_type(a.dtype, a.sizes, a.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor a = call.tensor("input");
    std::vector<int64_t> batch = batch_of(a, 2);
    auto matrices = read_matrices(a, batch), taus = read_matrices(call.tensor("tau"), batch, 1);
    std::vector<RefMatrix> out;
    for (size_t i = 0; i < matrices.size(); ++i)
      out.push_back(first_columns(reference_q(matrices[i], taus[i]), matrices[i].columns));
    call.results = {write_matrices(call, out, a.sizes, 0)};
  };
  record.samples = {{{spec({4, 3}), spec({3})}},
                    {{spec({2, 4, 4}), spec({2, 2})}},
                    {{spec({3, 2}, DType::c64), spec({2}, DType::c64)}},
                    {{spec({2, 3}), spec({2})}, true}};
  r.add(std::move(record));
  add_composite(
      r, {.schema = "orgqr(Tensor self, Tensor input2) -> Tensor",
          .build =
              [](Build& b) {
                b.call().result(b("linalg_householder_product", {b.call().tensor("self"), b.call().tensor("input2")}));
              },
          .samples = {{{spec({4, 3}), spec({3})}}}});
}

void add_ormqr(Registry& r) {
  OpRecord record;
  record.schema_text =
      "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor";
  record.library = "linalg_ormqr";
  record.infer = [](InferCall& call) {
    const TensorType &a = checked_matrix(call, "self", false), &other = checked_matrix(call, "input3", false);
    const Expr& side = other.sizes[other.sizes.size() - (call.boolean("left") ? 2 : 1)];
    if (prove_eq(a.sizes[a.sizes.size() - 2], side, call.ranges()) == Proof::no)
      fail_user("K0201", "torch.ormqr: other.shape must fit input.shape[-2]", call.where());
    call.results = {matrix_type(other.dtype, other.sizes, other.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor other = call.tensor("input3");
    std::vector<int64_t> batch = batch_of(other, 2);
    auto matrices = read_matrices(call.tensor("self"), batch), taus = read_matrices(call.tensor("input2"), batch, 1);
    auto others = read_matrices(other, batch);
    std::vector<RefMatrix> out;
    for (size_t i = 0; i < matrices.size(); ++i) {
      RefMatrix q = reference_q(matrices[i], taus[i]);
      if (call.boolean("transpose")) q = adjoint(q);
      out.push_back(call.boolean("left") ? times(q, others[i]) : times(others[i], q));
    }
    call.results = {write_matrices(call, out, other.sizes, 0)};
  };
  Scalar yes(true), no(false);
  record.samples = {{{spec({4, 3}), spec({3}), spec({4, 2})}},
                    {{spec({2, 3, 3}), spec({2, 3}), spec({2, 4, 3}), no, yes}},
                    {{spec({3, 2}, DType::c64), spec({2}, DType::c64), spec({3, 2}, DType::c64), yes, yes}},
                    {{spec({4, 3}), spec({3}), spec({3, 2})}, true}};
  r.add(std::move(record));
}

// ---- Symmetric factors ----

// The steps define pivots and factors, so the reference takes them as they are.
void add_ldl_factor(Registry& r) {
  OpRecord record;
  record.schema_text =
      "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor "
      "pivots, Tensor info)";
  record.library = "linalg_ldl_factor";
  record.infer = [](InferCall& call) {
    const TensorType& a = checked_matrix(call, "self", true);
    call.results = {matrix_type(a.dtype, a.sizes, a.device),
                    contiguous_type(DType::i32, with(batch_of(a), {a.sizes.back()}), a.device),
                    contiguous_type(DType::i32, batch_of(a), a.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor a = call.tensor("self");
    std::vector<int64_t> batch = batch_of(a, 2);
    std::vector<RefMatrix> factors, pivots, infos;
    for (const RefMatrix& given : read_matrices(a, batch))
      with_real_or_complex(precision_of(call, "self").real, [&](auto zero) {
        auto matrix = narrowed<decltype(zero)>(given);
        std::vector<int64_t> order;
        int64_t info = lapack::factor_ldl(matrix, order, call.boolean("hermitian"));
        if (info && call.boolean("check_errors"))
          fail_run(call, str("torch.linalg.ldl_factor_ex: ", batch_text(a, factors.size()), "D[", info, ",", info,
                             "] is zero and using it on ldl_solve would result in a division by zero."));
        factors.push_back(widened(matrix));
        pivots.push_back(vector_of(order));
        infos.push_back(number_matrix(static_cast<double>(info)));
      });
    call.results = {write_matrices(call, factors, a.sizes, 0),
                    write_matrices(call, pivots, joined_sizes(batch, {a.sizes.back()}), 1, 1),
                    write_matrices(call, infos, batch, 2, 0)};
  };
  record.samples = {{{spec({5, 5})}},
                    {{spec({2, 4, 4}, DType::c64), Scalar(true)}},
                    {{spec({3, 3}, DType::c64)}},
                    {{spec({2, 3})}, true}};
  r.add(std::move(record));
  add_composite(
      r, {.schema = "linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
          .build =
              [](Build& b) {
                DecomposeCall& call = b.call();
                auto parts = b.all("linalg_ldl_factor_ex", {call.tensor("self"), call.arg("hermitian"), Scalar(true)});
                call.result(0, parts[0]);
                call.result(1, parts[1]);
              },
          .samples = {{{spec({4, 4})}}}});
}

void add_ldl_solve(Registry& r) {
  OpRecord record;
  record.schema_text = "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor";
  record.library = "linalg_ldl_solve";
  record.infer = [](InferCall& call) {
    const TensorType &f = checked_matrix(call, "LD", true), &b = checked_matrix(call, "B", false);
    Sizes sizes = broadcast_sizes(call, {batch_of(f), batch_of(b)}, call.ranges());
    call.results = {matrix_type(f.dtype, with(sizes, {b.sizes[b.sizes.size() - 2], b.sizes.back()}), f.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor f = call.tensor("LD"), b = call.tensor("B");
    std::vector<int64_t> batch = f.sizes.size() > b.sizes.size() ? batch_of(f, 2) : batch_of(b, 2);
    auto factors = read_matrices(f, batch), orders = read_matrices(call.tensor("pivots"), batch, 1);
    auto rights = read_matrices(b, batch);
    std::vector<RefMatrix> out;
    for (size_t i = 0; i < factors.size(); ++i)
      with_real_or_complex(precision_of(call, "LD").real, [&](auto zero) {
        using T = decltype(zero);
        std::vector<int64_t> order;
        for (Complex number : orders[i].values) order.push_back(static_cast<int64_t>(number.real()));
        Matrix<T> right = narrowed<T>(rights[i]);
        if (!lapack::solve_ldl(narrowed<T>(factors[i]), order, right, call.boolean("hermitian")))
          fail_run(call, "linalg.ldl_solve: pivots out of range");
        out.push_back(widened(right));
      });
    call.results = {write_matrices(call, out, joined_sizes(batch, {b.sizes[b.sizes.size() - 2], b.sizes.back()}), 0)};
  };
  record.samples = {{{spec({3, 3}, DType::f32, 1, 2), spec({3}, DType::i32, 3, 3), spec({3, 2})}}};
  r.add(std::move(record));
}

// ---- What follows from singular values and eigenvalues ----

void add_roots(Registry& r) {
  add_composite(r, {.schema = "linalg_polar(Tensor A) -> (Tensor U, Tensor H)",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          auto parts = b.all("_linalg_svd", {call.tensor("A"), Scalar(false)});
                          Value* vh = b.contiguous(parts[2]);
                          Value* v = b(is_complex(vh->type.dtype) ? "mH" : "mT", {vh});
                          call.result(0, b("matmul", {parts[0], vh}));
                          call.result(1, b("matmul", {v, b.mul(b("unsqueeze", {parts[1], Scalar(-1)}), vh)}));
                        },
                    .samples = {{{spec({4, 3})}}, {{spec({2, 3, 3}, DType::f64)}}}});
  add_composite(r, {.schema = "linalg_matrix_sqrth(Tensor self) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          auto parts = b.all("linalg_eigh", {call.tensor("self")});
                          Value* root = b("sqrt", {b("clamp_min", {parts[0], Scalar(0.0)})});
                          Value* other = b(is_complex(parts[1]->type.dtype) ? "mH" : "mT", {parts[1]});
                          call.result(b("matmul", {b.mul(parts[1], b("unsqueeze", {root, Scalar(-2)})), other}));
                        },
                    .samples = {{{spec({3, 3})}}, {{spec({2, 2, 2}, DType::f64)}}}});
}

}  // namespace

void register_linalg_factors(Registry& r) {
  add_eig(r);
  add_geqrf(r);
  add_householder(r);
  add_ormqr(r);
  add_ldl_factor(r);
  add_ldl_solve(r);
  add_roots(r);
  r.describe(
      {"_linalg_eigvals", "geqrf", "linalg_eig", "linalg_eigvals", "linalg_householder_product", "linalg_ldl_factor",
       "linalg_ldl_factor_ex", "linalg_ldl_solve", "linalg_matrix_sqrth", "linalg_polar", "orgqr", "ormqr"},
      complex_by(ComplexRule::native));
  r.describe({"_linalg_eigvals", "linalg_eig"}, {.of_near_matrix = true});
  r.describe(
      {"geqrf", "linalg_eig", "linalg_eigvals", "linalg_householder_product", "linalg_matrix_sqrth", "orgqr", "ormqr"},
      autocast_to(AutocastRule::single));
}

}  // namespace kiln
