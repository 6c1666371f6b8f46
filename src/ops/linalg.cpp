// Linear algebra that library kernels compute: factorisations and what solves with them. What PyTorch defines in terms
// of these is in linalg_composites.cpp. Results are column-major, as LAPACK's are.
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/linalg_parts.h"

namespace kiln {

namespace {

// ---- LU ----

void add_lu_factor(Registry& r) {
  OpRecord record;
  record.schema_text =
      "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, "
      "Tensor pivots, Tensor info)";
  record.library = "linalg_lu_factor";
  record.infer = [](InferCall& call) {
    const TensorType& a = checked_matrix(call, "A", false);
    Sizes batch = batch_of(a);
    Expr steps = min_expr(a.sizes[a.sizes.size() - 2], a.sizes.back());
    call.results = {matrix_type(a.dtype, a.sizes, a.device),
                    contiguous_type(DType::i32, with(batch, {steps}), a.device),
                    contiguous_type(DType::i32, batch, a.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor a = call.tensor("A");
    std::vector<int64_t> batch = batch_of(a, 2);
    std::vector<RefMatrix> lu, pivots, info;
    for (const RefMatrix& matrix : read_matrices(a, batch)) {
      RefLu factors = reference_lu(matrix, call.boolean("pivot"));
      if (factors.info && call.boolean("check_errors"))
        fail_run(call, str("torch.linalg.lu_factor: ", batch_text(a, lu.size()), "U[", factors.info, ",", factors.info,
                           "] is zero and using it on lu_solve would result in a division by zero."));
      lu.push_back(factors.lu);
      pivots.push_back(vector_of(factors.pivots));
      info.push_back(number_matrix(static_cast<double>(factors.info)));
    }
    int64_t steps = std::min(a.sizes.back(), a.sizes[a.sizes.size() - 2]);
    call.results = {write_matrices(call, lu, a.sizes, 0),
                    write_matrices(call, pivots, joined_sizes(batch, {steps}), 1, 1),
                    write_matrices(call, info, batch, 2, 0)};
  };
  record.samples = {{{spec({4, 4})}}, {{spec({2, 3, 5})}}, {{spec({5, 3}, DType::c64)}}, {{spec({3})}, true}};
  r.add(std::move(record));
}

void add_inverse(Registry& r) {
  OpRecord record;
  record.schema_text = "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)";
  record.library = "linalg_inv";
  record.infer = [](InferCall& call) {
    const TensorType& a = checked_matrix(call, "A", true);
    call.results = {matrix_type(a.dtype, a.sizes, a.device), contiguous_type(DType::i32, batch_of(a), a.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor a = call.tensor("A");
    std::vector<int64_t> batch = batch_of(a, 2);
    std::vector<RefMatrix> inverses, infos;
    for (const RefMatrix& matrix : read_matrices(a, batch)) {
      int64_t info = 0;
      RefMatrix inverse = reference_inverse(matrix, info);
      if (info && call.boolean("check_errors"))
        fail_run(call, str("linalg.inv: ", batch_text(a, inverses.size()), "The diagonal element ", info,
                           " is zero, the inversion could not be completed because the input matrix is singular."));
      inverses.push_back(std::move(inverse));
      infos.push_back(number_matrix(static_cast<double>(info)));
    }
    call.results = {write_matrices(call, inverses, a.sizes, 0), write_matrices(call, infos, batch, 1, 0)};
  };
  record.samples = {{{spec({3, 3})}},
                    {{spec({2, 4, 4}, DType::f64)}},
                    {{spec({3, 3}, DType::c64)}},
                    {{spec({0, 0})}},
                    {{spec({2, 3})}, true},
                    {{spec({3})}, true},
                    {{spec({2, 2}, DType::i64)}, true}};
  r.add(std::move(record));
}

// aten._linalg_solve_ex with the question answered whether B is a batch of vectors.
void add_solve(Registry& r) {
  OpRecord record;
  record.name_space = "kiln";
  record.facts = complex_by(ComplexRule::native);
  record.schema_text =
      "linalg_solve(Tensor A, Tensor B, bool left, bool check_errors, bool vector) -> (Tensor result, "
      "Tensor LU, Tensor pivots, Tensor info)";
  record.library = "linalg_solve";
  record.infer = [](InferCall& call) {
    const TensorType &a = checked_matrix(call, "A", true), &b = call.tensor("B")->type;
    bool vector = call.boolean("vector");
    Sizes sizes = broadcast_sizes(call, {batch_of(a), batch_of(b, vector ? 1 : 2)}, call.ranges());
    if (vector) {
      sizes.push_back(b.sizes.back());
      call.results = {contiguous_type(a.dtype, sizes, a.device)};
    } else {
      sizes = with(sizes, {b.sizes[b.sizes.size() - 2], b.sizes.back()});
      call.results = {matrix_type(a.dtype, sizes, a.device)};
    }
    Sizes batch = batch_of(a);
    call.results.push_back(matrix_type(a.dtype, a.sizes, a.device));
    call.results.push_back(contiguous_type(DType::i32, with(batch, {a.sizes.back()}), a.device));
    call.results.push_back(contiguous_type(DType::i32, batch, a.device));
  };
  record.reference = [](ReferenceCall& call) {
    Tensor a = call.tensor("A"), b = call.tensor("B");
    int64_t inner = call.boolean("vector") ? 1 : 2;
    bool left = call.boolean("left");
    std::vector<int64_t> own = batch_of(a, 2), batch = own, other = batch_of(b, inner);
    if (other.size() > batch.size()) batch.insert(batch.begin(), other.size() - batch.size(), 1);
    for (size_t i = 0; i < other.size(); ++i) {
      int64_t& size = batch[batch.size() - other.size() + i];
      if (other[i] != 1) size = other[i];
    }
    std::vector<RefMatrix> results, lu, pivots, infos;
    for (const RefMatrix& matrix : read_matrices(a, own)) {
      RefLu factors = reference_lu(matrix, true);
      if (factors.info && call.boolean("check_errors"))
        fail_run(call, str("torch.linalg.solve: ", batch_text(a, lu.size()),
                           "The solver failed because the input matrix is singular."));
      lu.push_back(factors.lu);
      pivots.push_back(vector_of(factors.pivots));
      infos.push_back(number_matrix(static_cast<double>(factors.info)));
    }
    std::vector<RefMatrix> as = read_matrices(a, batch), bs = read_matrices(b, batch, inner);
    for (size_t i = 0; i < as.size(); ++i) {
      int64_t info = 0;
      RefMatrix inverse = reference_inverse(as[i], info);
      results.push_back(left ? times(inverse, bs[i]) : times(bs[i], inverse));
    }
    std::vector<int64_t> sizes = batch;
    sizes.insert(sizes.end(), b.sizes.end() - static_cast<std::ptrdiff_t>(inner), b.sizes.end());
    call.results = {write_matrices(call, results, sizes, 0, inner), write_matrices(call, lu, a.sizes, 1),
                    write_matrices(call, pivots, joined_sizes(own, {a.sizes.back()}), 2, 1),
                    write_matrices(call, infos, own, 3, 0)};
  };
  Scalar yes(true), no(false);
  record.samples = {{{spec({3, 3}), spec({3, 2}), yes, no, no}},
                    {{spec({2, 3, 3}), spec({2, 3}), yes, no, yes}},
                    {{spec({3, 3}, DType::f64), spec({4, 2, 3}, DType::f64), no, no, no}},
                    {{spec({2, 2}, DType::c64), spec({2, 2}, DType::c64), yes, no, no}}};
  r.add(std::move(record));
}

void add_lu_solve(Registry& r) {
  OpRecord record;
  record.schema_text =
      "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor";
  record.library = "linalg_lu_solve";
  record.infer = [](InferCall& call) {
    const TensorType &lu = checked_matrix(call, "LU", true), &b = checked_matrix(call, "B", false);
    Sizes sizes = broadcast_sizes(call, {batch_of(lu), batch_of(b)}, call.ranges());
    call.results = {matrix_type(lu.dtype, with(sizes, {b.sizes[b.sizes.size() - 2], b.sizes.back()}), lu.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor lu = call.tensor("LU"), b = call.tensor("B"), pivots = call.tensor("pivots");
    std::vector<int64_t> batch = batch_of(b, 2);
    if (lu.sizes.size() > b.sizes.size()) batch = batch_of(lu, 2);
    auto factors = read_matrices(lu, batch), orders = read_matrices(pivots, batch, 1), rights = read_matrices(b, batch);
    std::vector<RefMatrix> results;
    for (size_t i = 0; i < factors.size(); ++i) {
      int64_t n = factors[i].rows, info = 0;
      RefMatrix lower = identity_matrix(n), upper(n, n);
      for (int64_t x = 0; x < n; ++x)
        for (int64_t y = 0; y < n; ++y) (x > y ? lower : upper).at(x, y) = factors[i].at(x, y);
      RefMatrix matrix = times(lower, upper);
      for (int64_t k = n; k-- > 0;)
        for (int64_t c = 0; c < n; ++c)
          std::swap(matrix.at(k, c), matrix.at(static_cast<int64_t>(orders[i].at(k, 0).real()) - 1, c));
      RefMatrix inverse = reference_inverse(call.boolean("adjoint") ? adjoint(matrix) : matrix, info);
      results.push_back(call.boolean("left") ? times(inverse, rights[i]) : times(rights[i], inverse));
    }
    std::vector<int64_t> sizes = joined_sizes(batch, {b.sizes[b.sizes.size() - 2], b.sizes.back()});
    call.results = {write_matrices(call, results, sizes, 0)};
  };
  record.samples = {{{spec({3, 3}), spec({3}, DType::i32, 3, 3), spec({3, 2})}},
                    {{spec({3, 3}), spec({3}, DType::i32, 3, 3), spec({2, 3}), Scalar(false), Scalar(true)}}};
  r.add(std::move(record));
}

// ---- Cholesky and triangles ----

void add_cholesky(Registry& r) {
  OpRecord record;
  record.schema_text =
      "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)";
  record.library = "linalg_cholesky";
  record.infer = [](InferCall& call) {
    const TensorType& a = checked_matrix(call, "self", true);
    call.results = {matrix_type(a.dtype, a.sizes, a.device), contiguous_type(DType::i32, batch_of(a), a.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor a = call.tensor("self");
    std::vector<int64_t> batch = batch_of(a, 2);
    std::vector<RefMatrix> results, infos;
    bool upper = call.boolean("upper");
    for (const RefMatrix& matrix : read_matrices(a, batch)) {
      int64_t info = 0;
      RefMatrix lower = reference_cholesky(upper ? adjoint(matrix) : matrix, info);
      if (info && call.boolean("check_errors"))
        fail_run(call, str("linalg.cholesky: ", batch_text(a, results.size()),
                           "The factorization could not be completed because the input is not positive-definite (the "
                           "leading minor of order ",
                           info, " is not positive-definite)."));
      results.push_back(upper ? adjoint(lower) : lower);
      infos.push_back(number_matrix(static_cast<double>(info)));
    }
    call.results = {write_matrices(call, results, a.sizes, 0), write_matrices(call, infos, batch, 1, 0)};
  };
  record.samples = {{{spec({1, 1}, DType::f32, 1, 2)}}, {{spec({0, 2, 2})}}, {{spec({2, 3})}, true}};
  r.add(std::move(record));
}

void add_triangular(Registry& r) {
  OpRecord record;
  record.schema_text =
      "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool "
      "unitriangular=False) -> Tensor";
  record.library = "linalg_solve_triangular";
  record.infer = [](InferCall& call) {
    const TensorType &a = checked_matrix(call, "self", true), &b = checked_matrix(call, "B", false);
    Sizes sizes = broadcast_sizes(call, {batch_of(a), batch_of(b)}, call.ranges());
    call.results = {matrix_type(a.dtype, with(sizes, {b.sizes[b.sizes.size() - 2], b.sizes.back()}), a.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor a = call.tensor("self"), b = call.tensor("B");
    std::vector<int64_t> x = batch_of(a, 2), batch = batch_of(b, 2);
    if (x.size() > batch.size()) std::swap(x, batch);
    for (size_t i = 0; i < x.size(); ++i) {
      int64_t& size = batch[batch.size() - x.size() + i];
      if (size == 1) size = x[i];
    }
    bool left = call.boolean("left"), upper = call.boolean("upper"), unit = call.boolean("unitriangular");
    auto as = read_matrices(a, batch), bs = read_matrices(b, batch);
    std::vector<RefMatrix> results;
    for (size_t i = 0; i < as.size(); ++i)
      results.push_back(left ? reference_triangular(as[i], bs[i], upper, unit)
                             : transposed(reference_triangular(transposed(as[i]), transposed(bs[i]), !upper, unit)));
    std::vector<int64_t> sizes = joined_sizes(batch, {b.sizes[b.sizes.size() - 2], b.sizes.back()});
    call.results = {write_matrices(call, results, sizes, 0)};
  };
  record.samples = {
      {{spec({3, 3}, DType::f32, 1, 2), spec({3, 2}), Scalar(true)}},
      {{spec({2, 3, 3}, DType::f32, 1, 2), spec({2, 3}), Scalar(false), Scalar(false)}},
      {{spec({3, 3}, DType::c64, 1, 2), spec({3, 2}, DType::c64), Scalar(true), Scalar(true), Scalar(true)}}};
  r.add(std::move(record));
}

// ---- QR, singular values, eigenvalues ----

void add_qr(Registry& r) {
  OpRecord record;
  record.schema_text = "linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)";
  record.library = "linalg_qr";
  auto columns = [](const std::string& mode, auto m, auto k) { return mode == "complete" ? m : k; };
  record.infer = [columns](InferCall& call) {
    const TensorType& a = checked_matrix(call, "A", false);
    std::string mode = call.string("mode");
    if (mode != "reduced" && mode != "complete" && mode != "r")
      fail_user(
          "K0201",
          str("qr received unrecognized mode '", mode, "' but expected one of 'reduced' (default), 'r', or 'complete'"),
          call.where());
    Expr m = a.sizes[a.sizes.size() - 2], n = a.sizes.back(), inner = columns(mode, m, min_expr(m, n));
    TensorType q = mode == "r" ? contiguous_type(a.dtype, {Expr(0)}, a.device)
                               : matrix_type(a.dtype, with(batch_of(a), {m, inner}), a.device);
    call.results = {q, matrix_type(a.dtype, with(batch_of(a), {inner, n}), a.device)};
  };
  record.reference = [columns](ReferenceCall& call) {
    Tensor a = call.tensor("A");
    std::string mode = call.string("mode");
    std::vector<int64_t> batch = batch_of(a, 2);
    int64_t m = a.sizes[a.sizes.size() - 2], n = a.sizes.back(), inner = columns(mode, m, std::min(m, n));
    std::vector<RefMatrix> qs, rs;
    for (RefMatrix& matrix : read_matrices(a, batch)) {
      RefMatrix q = reference_qr(matrix);
      qs.push_back(first_columns(q, inner));
      rs.push_back(transposed(first_columns(transposed(matrix), inner)));
    }
    Datum q = mode == "r" ? Datum{Tensor::empty(call.result_dtype(0), {0})}
                          : write_matrices(call, qs, joined_sizes(batch, {m, inner}), 0);
    call.results = {q, write_matrices(call, rs, joined_sizes(batch, {inner, n}), 1)};
  };
  record.samples = {{{spec({4, 3})}},
                    {{spec({2, 3, 4}), std::string("complete")}},
                    {{spec({3, 3}, DType::c64), std::string("r")}},
                    {{spec({5, 2}), std::string("complete")}},
                    {{spec({3, 3}), std::string("full")}, true}};
  r.add(std::move(record));
}

void add_svd(Registry& r) {
  OpRecord record;
  record.schema_text =
      "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> "
      "(Tensor U, Tensor S, Tensor Vh)";
  record.library = "linalg_svd";
  record.infer = [](InferCall& call) {
    const TensorType& a = checked_matrix(call, "A", false);
    Expr m = a.sizes[a.sizes.size() - 2], n = a.sizes.back(), k = min_expr(m, n);
    Sizes batch = batch_of(a);
    TensorType none = contiguous_type(a.dtype, {Expr(0)}, a.device),
               s = contiguous_type(complex_part(a.dtype), with(batch, {k}), a.device);
    call.results = {none, s, none};
    if (!call.boolean("compute_uv")) return;
    bool full = call.boolean("full_matrices");
    call.results[0] = matrix_type(a.dtype, with(batch, {m, full ? m : k}), a.device);
    call.results[2] = matrix_type(a.dtype, with(batch, {full ? n : k, n}), a.device);
  };
  record.reference = [](ReferenceCall& call) {
    Tensor a = call.tensor("A");
    std::vector<int64_t> batch = batch_of(a, 2);
    int64_t m = a.sizes[a.sizes.size() - 2], n = a.sizes.back(), k = std::min(m, n);
    bool full = call.boolean("full_matrices");
    std::vector<RefMatrix> us, ss, vs;
    for (const RefMatrix& matrix : read_matrices(a, batch)) {
      RefMatrix u, v;
      if (!all_finite(matrix)) fail_not_finite(call, a, ss.size(), "linalg.svd");
      ss.push_back(vector_of(reference_svd(matrix, u, v, precision_of(call, "A"))));
      us.push_back(first_columns(u, full ? m : k));
      vs.push_back(adjoint(first_columns(v, full ? n : k)));
    }
    Datum none{Tensor::empty(call.result_dtype(0), {0})}, s = write_matrices(call, ss, joined_sizes(batch, {k}), 1, 1);
    call.results = {none, s, none};
    if (!call.boolean("compute_uv")) return;
    call.results[0] = write_matrices(call, us, joined_sizes(batch, {m, full ? m : k}), 0);
    call.results[2] = write_matrices(call, vs, joined_sizes(batch, {full ? n : k, n}), 2);
  };
  record.samples = {{{spec({4, 3})}},
                    {{spec({2, 3, 5}), Scalar(false), Scalar(false)}},
                    {{spec({3, 3}, DType::c64)}},
                    {{spec({3})}, true}};
  r.add(std::move(record));
}

// aten._linalg_eigh with the letter of the triangle understood.
void add_eigh(Registry& r) {
  OpRecord record;
  record.name_space = "kiln";
  record.facts = complex_by(ComplexRule::native);
  record.facts.of_near_matrix = true;
  record.schema_text =
      "linalg_eigh(Tensor A, bool compute_v=True, bool upper=False) -> (Tensor eigenvalues, Tensor eigenvectors)";
  record.library = "linalg_eigh";
  record.infer = [](InferCall& call) {
    const TensorType& a = checked_matrix(call, "A", true);
    TensorType none = contiguous_type(a.dtype, {Expr(0)}, a.device);
    call.results = {contiguous_type(complex_part(a.dtype), with(batch_of(a), {a.sizes.back()}), a.device),
                    call.boolean("compute_v") ? matrix_type(a.dtype, a.sizes, a.device) : none};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor a = call.tensor("A");
    std::vector<int64_t> batch = batch_of(a, 2);
    std::vector<RefMatrix> values, vectors;
    for (const RefMatrix& matrix : read_matrices(a, batch)) {
      RefMatrix columns;
      if (!all_finite(matrix)) fail_not_finite(call, a, values.size(), "linalg.eigh");
      values.push_back(vector_of(reference_eigh(matrix, call.boolean("upper"), columns, precision_of(call, "A"))));
      vectors.push_back(columns);
    }
    call.results = {write_matrices(call, values, joined_sizes(batch, {a.sizes.back()}), 0, 1),
                    call.boolean("compute_v") ? write_matrices(call, vectors, a.sizes, 1)
                                              : Datum{Tensor::empty(call.result_dtype(1), {0})}};
  };
  record.samples = {{{spec({4, 4})}},
                    {{spec({2, 3, 3}, DType::c64)}},
                    {{spec({3, 3}), Scalar(false)}},
                    {{spec({5, 5}), Scalar(true), Scalar(true)}}};
  r.add(std::move(record));
}

}  // namespace

void register_linalg(Registry& r) {
  add_lu_factor(r);
  add_inverse(r);
  add_solve(r);
  add_lu_solve(r);
  add_cholesky(r);
  add_triangular(r);
  add_qr(r);
  add_svd(r);
  add_eigh(r);
  r.describe({"_linalg_svd", "linalg_cholesky_ex", "linalg_inv_ex", "linalg_lu_factor_ex", "linalg_lu_solve",
              "linalg_qr", "linalg_solve_triangular"},
             complex_by(ComplexRule::native));
  r.describe({"_linalg_svd", "linalg_inv_ex", "linalg_lu_solve"}, {.of_near_matrix = true});
  r.describe({"linalg_cholesky_ex", "linalg_inv_ex", "linalg_qr"}, autocast_to(AutocastRule::single));
}

}  // namespace kiln
