// Linear algebra that PyTorch defines in terms of the factorisations of linalg.cpp.
#include <cmath>
#include <limits>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/size_needs.h"

namespace kiln {

namespace {

Value* kiln_call(Build& b, const char* op, std::vector<Argument> args, int result = 0) {
  return b.call().call_all(op, std::move(args))[static_cast<size_t>(result)];
}
Value* adjoint(Build& b, Value* x) { return b(is_complex(x->type.dtype) ? "mH" : "mT", {x}); }

// ---- Solving ----

bool is_vector_case(const Value* a, const Value* b, const RangeEnv& ranges) {
  const Sizes &as = sizes_of(a), &bs = sizes_of(b);
  if (bs.size() == 1) return true;
  if (as.size() - 1 != bs.size()) return false;
  for (size_t d = 0; d < bs.size(); ++d)
    if (prove_eq(as[d], bs[d], ranges) != Proof::yes) return false;
  return true;
}

std::vector<Value*> solve(Build& b, bool checks) {
  DecomposeCall& call = b.call();
  Value *a = call.tensor("A"), *right = call.tensor("B");
  bool vector = is_vector_case(a, right, call.ranges());
  return call.call_all("kiln.linalg_solve.default",
                       {a, right, Scalar(call.boolean("left")), Scalar(checks), Scalar(vector)});
}

void add_solving(Registry& r) {
  std::vector<Sample> square = {{{spec({3, 3})}}, {{spec({2, 3, 3}, DType::f64)}}};
  add_composite(r, {.schema = "linalg_inv(Tensor A) -> Tensor",
                    .build =
                        [](Build& b) {
                          b.call().result(b("linalg_inv_ex", {b.call().tensor("A"), Scalar(true)}));
                        },
                    .samples = square});
  add_composite(r, {.schema = "inverse(Tensor self) -> Tensor",
                    .build =
                        [](Build& b) {
                          b.call().result(b("linalg_inv_ex", {b.call().tensor("self"), Scalar(true)}));
                        },
                    .samples = square});
  std::vector<Sample> systems = {{{spec({3, 3}), spec({3})}}, {{spec({2, 3, 3}), spec({2, 3, 4})}}};
  add_composite(r, {.schema = "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
                    .build = [](Build& b) { b.call().result(solve(b, true)[0]); },
                    .samples = systems});
  add_composite(r, {.schema = "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> "
                              "(Tensor result, Tensor info)",
                    .build =
                        [](Build& b) {
                          auto parts = solve(b, b.call().boolean("check_errors"));
                          b.call().result(0, parts[0]);
                          b.call().result(1, parts[3]);
                        },
                    .samples = systems});
  add_composite(r, {.schema = "_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> "
                              "(Tensor result, Tensor LU, Tensor pivots, Tensor info)",
                    .build =
                        [](Build& b) {
                          auto parts = solve(b, b.call().boolean("check_errors"));
                          for (int i = 0; i < 4; ++i) b.call().result(i, parts[static_cast<size_t>(i)]);
                        },
                    .samples = systems});
  add_composite(r, {.schema = "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
                    .build =
                        [](Build& b) {
                          auto parts = b.all("linalg_lu_factor_ex",
                                             {b.call().tensor("A"), Scalar(b.call().boolean("pivot")), Scalar(true)});
                          b.call().result(0, parts[0]);
                          b.call().result(1, parts[1]);
                        },
                    .samples = square});
  for (const char* name : {"linalg_cholesky", "cholesky"})
    add_composite(r, {.schema = str(name, "(Tensor self, ", std::string_view(name) == "cholesky" ? "" : "*, ",
                                    "bool upper=False) -> Tensor"),
                      .build =
                          [](Build& b) {
                            b.call().result(b("linalg_cholesky_ex", {b.call().tensor("self"),
                                                                     Scalar(b.call().boolean("upper")), Scalar(true)}));
                          },
                      .samples = {{{spec({1, 1}, DType::f32, 1, 2)}}}});
  add_composite(r, {.schema = "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
                    .build =
                        [](Build& b) {
                          Value* factor = b.call().tensor("input2");
                          bool upper = b.call().boolean("upper");
                          Value* other = adjoint(b, factor);
                          Value* first = b("linalg_solve_triangular",
                                           {upper ? other : factor, b.call().tensor("self"), Scalar(false)});
                          b.call().result(b("linalg_solve_triangular", {upper ? factor : other, first, Scalar(true)}));
                        },
                    .samples = {{{spec({3, 2}), spec({3, 3}, DType::f32, 1, 2)}}}});
  add_composite(r, {.schema = "_cholesky_solve_helper(Tensor self, Tensor A, bool upper) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          call.result(b("cholesky_solve", {call.tensor("self"), call.tensor("A"), call.arg("upper")}));
                        },
                    .samples = {{{spec({3, 2}), spec({3, 3}, DType::f32, 1, 2), Scalar(false)}}}});
  add_composite(r,
                {.schema = "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool "
                           "unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
                 .build =
                     [](Build& b) {
                       DecomposeCall& call = b.call();
                       Value* a = call.tensor("A");
                       bool upper = call.boolean("upper"), flips = call.boolean("transpose");
                       call.result(0, b("linalg_solve_triangular",
                                        {flips ? b("mT", {a}) : a, call.tensor("self"), Scalar(upper != flips),
                                         Scalar(true), Scalar(call.boolean("unitriangular"))}));
                       call.result(1, b("mT", {b("clone", {b("mT", {a}), MemoryFormat::contiguous})}));  // column-major
                     },
                 .samples = {{{spec({3, 2}), spec({3, 3}, DType::f32, 1, 2)}}}});
}

// ---- Determinants ----

struct Determinant {
  Value *diagonal, *sign, *lu, *pivots;
};

// What eager factorises for a determinant: of a row-major real matrix the transposed one, which lies in memory as
// LAPACK wants it. It shows in LU and pivots, and in the rounding of what is made of them.
Value* as_eager_factorises(Build& b, Value* a) {
  const bool transposes = !is_complex(a->type.dtype) && is_contiguous(a->type.sizes, a->type.strides);
  return transposes ? b("mT", {a}) : a;
}

// The sign of the exchanges as a number of the matrix's type.
Determinant factored(Build& b, Value* a) {
  auto parts = b.all("linalg_lu_factor_ex", {as_eager_factorises(b, a)});
  Value* diagonal = b("diagonal", {parts[0], Scalar(0), Scalar(-2), Scalar(-1)});
  Value* own = b("cumsum", {b("ones_like", {parts[1]}), Scalar(-1)});
  Value* exchanges = b.sum(b("ne.Tensor", {parts[1], own}), {-1}, false);
  Value* odd = b("remainder.Scalar", {exchanges, Scalar(2)});
  Value* sign = b.sub(Scalar(1), b.mul(odd, Scalar(2)));
  return {diagonal, b.to(sign, complex_part(a->type.dtype)), parts[0], parts[1]};
}

Value* determinant(Build& b, const Determinant& d) {
  return b.mul(b("prod.dim_int", {d.diagonal, Scalar(-1)}), d.sign);
}
Value* sign_of(Build& b, const Determinant& d) {
  return b.mul(b("prod.dim_int", {b("sgn", {d.diagonal}), Scalar(-1)}), d.sign);
}
Value* log_of(Build& b, const Determinant& d) { return b.sum(b("log", {b("abs", {d.diagonal})}), {-1}, false); }

void add_determinants(Registry& r) {
  std::vector<Sample> square = {{{spec({3, 3})}}, {{spec({2, 3, 3}, DType::f64)}}, {{spec({2, 2}, DType::c64)}}};
  for (auto [name, arg] : {std::pair{"linalg_det", "A"}, std::pair{"det", "self"}})
    add_composite(
        r, {.schema = str(name, "(Tensor ", arg, ") -> Tensor"),
            .build = [arg = arg](Build& b) { b.call().result(determinant(b, factored(b, b.call().tensor(arg)))); },
            .samples = square});
  add_composite(r, {.schema = "_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
                    .build =
                        [](Build& b) {
                          Determinant d = factored(b, b.call().tensor("A"));
                          b.call().result(0, determinant(b, d));
                          b.call().result(1, d.lu);
                          b.call().result(2, d.pivots);
                        },
                    .samples = square});
  for (auto [name, arg] : {std::pair{"linalg_slogdet", "A"}, std::pair{"slogdet", "self"}})
    add_composite(r, {.schema = str(name, "(Tensor ", arg, ") -> (Tensor sign, Tensor logabsdet)"),
                      .build =
                          [arg = arg](Build& b) {
                            Determinant d = factored(b, b.call().tensor(arg));
                            b.call().result(0, sign_of(b, d));
                            b.call().result(1, log_of(b, d));
                          },
                      .samples = square});
  add_composite(r, {.schema = "_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
                    .build =
                        [](Build& b) {
                          Determinant d = factored(b, b.call().tensor("A"));
                          b.call().result(0, sign_of(b, d));
                          b.call().result(1, log_of(b, d));
                          b.call().result(2, d.lu);
                          b.call().result(3, d.pivots);
                        },
                    .samples = square});
  add_composite(r, {.schema = "logdet(Tensor self) -> Tensor",
                    .build =
                        [](Build& b) {
                          Determinant d = factored(b, b.call().tensor("self"));
                          // NaN where the determinant is negative, -inf where it is 0.
                          b.call().result(b.add(log_of(b, d), b("log", {sign_of(b, d)})));
                        },
                    .samples = {{{spec({3, 3})}}, {{spec({2, 3, 3}, DType::f64)}}}});
}

// ---- Singular values and what follows from them ----

void add_spectral(Registry& r) {
  std::vector<Sample> any = {{{spec({4, 3})}}, {{spec({2, 3, 4}, DType::f64)}}};
  add_composite(
      r, {.schema = "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor "
                    "S, Tensor Vh)",
          .build =
              [](Build& b) {
                auto parts = b.all("_linalg_svd", {b.call().tensor("A"), Scalar(b.call().boolean("full_matrices"))});
                for (int i = 0; i < 3; ++i) b.call().result(i, parts[static_cast<size_t>(i)]);
              },
          .samples = {{{spec({4, 3}), Scalar(false)}}, {{spec({3, 3}, DType::c64)}}}});
  add_composite(r,
                {.schema = "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
                 .build =
                     [](Build& b) {
                       auto parts = b.all("_linalg_svd", {b.call().tensor("self"), Scalar(!b.call().boolean("some"))});
                       b.call().result(0, parts[0]);
                       b.call().result(1, parts[1]);
                       b.call().result(2, adjoint(b, parts[2]));
                     },
                 .samples = {{{spec({4, 3})}}}});
  add_composite(r, {.schema = "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
                    .build = [](Build& b) { b.call().result(singular_values(b, b.call().tensor("A"))); },
                    .samples = any});
  auto upper = [](Build& b) {
    std::string triangle = b.call().string("UPLO");
    bool is_upper = triangle == "U" || triangle == "u";
    if (!is_upper && triangle != "L" && triangle != "l")
      fail_user("K0201", str("Expected UPLO argument to be 'L' or 'U', but got ", triangle), b.call().where());
    return Scalar(is_upper);
  };
  std::vector<Sample> square = {{{spec({3, 3})}}, {{spec({2, 3, 3}), std::string("U")}}};
  for (auto [name, arg] : {std::pair{"linalg_eigh(Tensor self, str UPLO='L')", "self"},
                           std::pair{"_linalg_eigh(Tensor A, str UPLO='L', bool compute_v=True)", "A"}})
    add_composite(r, {.schema = str(name, " -> (Tensor eigenvalues, Tensor eigenvectors)"),
                      .build =
                          [upper, arg = arg](Build& b) {
                            bool vectors = b.call().schema().find("compute_v") < 0 || b.call().boolean("compute_v");
                            auto parts = b.call().call_all("kiln.linalg_eigh.default",
                                                           {b.call().tensor(arg), Scalar(vectors), upper(b)});
                            b.call().result(0, parts[0]);
                            b.call().result(1, parts[1]);
                          },
                      .samples = square});
  add_composite(r, {.schema = "linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor",
                    .build =
                        [upper](Build& b) {
                          b.call().result(kiln_call(b, "kiln.linalg_eigh.default",
                                                    {b.call().tensor("self"), Scalar(false), upper(b)}));
                        },
                    .samples = square});
}

// ---- Tolerances: what counts as zero among singular values ----

// A tolerance is a number, a tensor (one per matrix) or not given.
Argument tolerance(Build& b, const char* name) {
  DecomposeCall& call = b.call();
  if (call.schema().find(name) < 0 || !call.given(name)) return {};
  const Argument& arg = call.arg(name);
  if (arg.is_value() && arg.as_value()->kind == ValueKind::tensor) return Argument(b("unsqueeze", {arg, Scalar(-1)}));
  return arg;
}

// 0 where there is none.
Value* largest_of(Build& b, Value* s) { return largest_or_zero(b.call(), s, {-1}, true); }

// max(atol, rtol * largest singular value); rtol is the larger side times epsilon unless one of the two is given.
Value* limit_of(Build& b, Value* a, Value* s) {
  Argument atol = tolerance(b, "atol"), rtol = tolerance(b, "rtol");
  Value* largest = largest_of(b, s);
  if (rtol.is_none()) {
    const Sizes& sizes = sizes_of(a);
    Expr side = max_expr(sizes[sizes.size() - 2], sizes.back());
    if (!side.is_constant()) {
      // The number is only known in the call: it scales the largest value, where no absolute tolerance replaces it.
      Value* usual = b.mul(b.mul(largest, number(side)), Scalar(dtype_epsilon(a->type.dtype)));
      if (atol.is_none()) return usual;
      if (atol.is_scalar()) return atol.as_scalar().as_double() > 0 ? b("full_like", {usual, atol}) : usual;
      Value* wanted = b.to(atol.as_value(), usual->type.dtype);
      return b("where.self", {b("gt.Scalar", {wanted, Scalar(0)}), wanted, usual});
    }
    double usual = static_cast<double>(side.value()) * dtype_epsilon(a->type.dtype);
    bool absolute = atol.is_scalar() && atol.as_scalar().as_double() > 0;
    rtol = Argument(Scalar(absolute ? 0.0 : usual));
    if (atol.is_value())
      rtol = Argument(b("where.Scalar", {b("gt.Scalar", {atol, Scalar(0)}), Scalar(0.0), Scalar(usual)}));
  }
  Value* limit = b.mul(largest, rtol);
  if (atol.is_value()) return b("maximum", {limit, b.to(atol.as_value(), limit->type.dtype)});
  return atol.is_scalar() ? b("clamp_min", {limit, atol}) : limit;
}

// Sizes of singular values; of a Hermitian matrix (its lower triangle) those of the eigenvalues.
Value* spectrum(Build& b, Value* a) {
  if (!b.call().boolean("hermitian")) return singular_values(b, a);
  return b("abs", {kiln_call(b, "kiln.linalg_eigh.default", {a, Scalar(false)})});
}

void build_pseudo_inverse(Build& b, const std::function<Value*(Value*)>& limit) {
  Value* a = b.call().tensor("self");
  auto inverse = [&](Value* s, Value* size) {
    Value* kept = b("gt.Tensor", {size, limit(size)});
    return b("unsqueeze", {b("where.ScalarOther", {kept, b("reciprocal", {s}), Scalar(0.0)}), Scalar(-2)});
  };
  if (b.call().boolean("hermitian")) {
    auto parts = b.call().call_all("kiln.linalg_eigh.default", {a, Scalar(true)});
    Value* scaled = b.mul(parts[1], inverse(parts[0], b("abs", {parts[0]})));
    return b.call().result(b("matmul", {scaled, adjoint(b, parts[1])}));
  }
  auto parts = b.all("_linalg_svd", {a, Scalar(false)});
  Value* scaled = b.mul(adjoint(b, parts[2]), inverse(parts[1], parts[1]));
  b.call().result(b("matmul", {scaled, adjoint(b, parts[0])}));
}

void add_ranks(Registry& r) {
  std::vector<Sample> any = {{{spec({4, 3})}}, {{spec({2, 3, 4}, DType::f64)}}};
  add_composite(r, {.schema = "linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
                    .build =
                        [](Build& b) {
                          build_pseudo_inverse(
                              b, [&](Value* s) { return b.mul(largest_of(b, s), b.call().arg("rcond")); });
                        },
                    .samples = {{{spec({4, 3}), Scalar(1e-5)}},
                                {{spec({3, 3}), Scalar(1e-5), Scalar(true)}},
                                {{spec({2, 0, 3}), Scalar(1e-5)}}}});
  add_composite(r, {.schema = "linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor",
                    .build =
                        [](Build& b) {
                          build_pseudo_inverse(
                              b, [&](Value* s) { return b.mul(largest_of(b, s), tolerance(b, "rcond")); });
                        },
                    .samples = {{{spec({4, 3}), spec({}, DType::f32, 0.1, 0.2)}},
                                {{spec({2, 3, 3}), spec({2}, DType::f32, 0.1, 0.2), Scalar(true)}}}});
  for (bool tensor : {false, true}) {
    const char* matrix = tensor ? "input" : "self";  // PyTorch's own names
    add_composite(
        r, {.schema = str("linalg_matrix_rank", tensor ? ".tol_tensor(Tensor input, Tensor" : "(Tensor self, float",
                          " tol, bool hermitian=False) -> Tensor"),
            .build =
                [matrix](Build& b) {
                  Argument tol = tolerance(b, "tol");
                  Value* s = spectrum(b, b.call().tensor(matrix));
                  Value* kept = b(tol.is_scalar() ? "gt.Scalar" : "gt.Tensor", {s, tol});
                  b.call().result(b.sum(kept, {-1}, false));
                },
            .samples = {tensor ? Sample{{spec({2, 4, 3}), spec({2}, DType::f32, 0.5, 1)}}
                               : Sample{{spec({4, 3}), Scalar(0.5)}}}});
  }
  add_composite(r, {.schema = "pinverse(Tensor self, float rcond=1e-15) -> Tensor",
                    .build =
                        [](Build& b) {
                          b.call().result(b("linalg_pinv", {b.call().tensor("self"), b.call().arg("rcond")}));
                        },
                    .samples = {{{spec({4, 3})}}}});
  for (const char* kind : {"Tensor", "float"}) {
    std::string tail =
        str("(Tensor ", "self", ", *, ", kind, "? atol=None, ", kind, "? rtol=None, bool hermitian=False) -> Tensor");
    std::string overload = std::string_view(kind) == "Tensor" ? ".atol_rtol_tensor" : ".atol_rtol_float";
    add_composite(r, {.schema = str("linalg_pinv", overload, tail),
                      .build =
                          [](Build& b) {
                            build_pseudo_inverse(b, [&](Value* s) { return limit_of(b, b.call().tensor("self"), s); });
                          },
                      .samples = any});
    const char* matrix = std::string_view(overload).ends_with("tensor") ? "input" : "self";  // PyTorch's own names
    tail.replace(tail.find("self"), 4, matrix);
    add_composite(r, {.schema = str("linalg_matrix_rank", overload, tail),
                      .build =
                          [matrix](Build& b) {
                            Value* a = b.call().tensor(matrix);
                            Value* s = spectrum(b, a);
                            b.call().result(b.sum(b("gt.Tensor", {s, limit_of(b, a, s)}), {-1}, false));
                          },
                      .samples = any});
  }
}

// ---- Powers and products ----

void build_power(Build& b) {
  DecomposeCall& call = b.call();
  Value* a = call.tensor("self");
  int64_t n = call.constant_integer("n");
  if (n == 0) {
    Value* unit = b("eye.m", {Argument(sizes_of(a).back()), Argument(sizes_of(a).back()), a->type.dtype});
    return call.result(b("clone", {b("expand", {unit, b.ints(sizes_of(a))}), MemoryFormat::contiguous}));
  }
  if (n < 0) {
    a = b("linalg_inv_ex", {a, Scalar(true)});
    n = -n;
  }
  Value* power = nullptr;
  for (Value* square = a;; square = b("matmul", {square, square})) {
    if (n & 1) power = power ? b("matmul", {power, square}) : square;
    n >>= 1;
    if (n == 0) break;
  }
  call.result(power == call.tensor("self") ? b("clone", {power}) : power);
}

// Scaling and squaring in f64: 2^-10 A is small enough for a short series.
void build_exponential(Build& b) {
  Value* a = b.call().tensor("self");
  DType dtype = a->type.dtype;
  Value* x = b.mul(b.to(a, is_complex(dtype) ? DType::c128 : DType::f64), Scalar(std::ldexp(1.0, -10)));
  Value* unit = b("eye.m", {Argument(sizes_of(a).back()), Argument(sizes_of(a).back()), x->type.dtype});
  Value* sum = b.add(x, unit);
  Value* term = x;
  for (int k = 2; k <= 12; ++k) {
    term = b.mul(b("matmul", {term, x}), Scalar(1.0 / k));
    sum = b.add(sum, term);
  }
  for (int k = 0; k < 10; ++k) sum = b("matmul", {sum, sum});
  b.call().result(b.to(sum, dtype));
}

void add_products(Registry& r) {
  std::vector<Sample> powers = {{{spec({3, 3}), Scalar(3)}},
                                {{spec({2, 3, 3}), Scalar(-1)}},
                                {{spec({3, 3}), Scalar(0)}},
                                {{spec({3, 3}), Scalar(1)}}};
  for (const char* name : {"linalg_matrix_power", "matrix_power"})
    add_composite(r, {.schema = str(name, "(Tensor self, int n) -> Tensor"), .build = build_power, .samples = powers});
  for (const char* name : {"linalg_matrix_exp", "matrix_exp"})
    add_composite(r, {.schema = str(name, "(Tensor self) -> Tensor"),
                      .build = build_exponential,
                      .samples = {{{spec({3, 3})}}, {{spec({2, 2, 2}, DType::f64)}}}});
  add_composite(r, {.schema = "linalg_matmul(Tensor self, Tensor other) -> Tensor",
                    .build =
                        [](Build& b) {
                          b.call().result(b("matmul", {b.call().tensor("self"), b.call().tensor("other")}));
                        },
                    .samples = {{{spec({3, 4}), spec({4, 2})}}}});
  add_composite(r, {.schema = "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value* x = call.tensor("x");
                          if (is_complex(x->type.dtype)) x = b("conj_physical", {x});
                          call.result(b.sum(b.mul(x, call.tensor("y")), {call.constant_integer("dim")}, false));
                        },
                    .samples = {{{spec({3, 4}), spec({4})}}}});
  add_composite(r, {.schema = "linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          call.result(b("diagonal", {call.tensor("A"), Scalar(call.constant_integer("offset")),
                                                     Scalar(call.constant_integer("dim1")),
                                                     Scalar(call.constant_integer("dim2"))}));
                        },
                    .samples = {{{spec({3, 4})}}}});
  // From the left: the order that is best for chains of vectors is the compiler's business only for speed.
  for (const char* name : {"linalg_multi_dot", "chain_matmul"})
    add_composite(r, {.schema = str(name, "(Tensor[] ",
                                    std::string_view(name) == "chain_matmul" ? "matrices" : "tensors", ") -> Tensor"),
                      .build =
                          [](Build& b) {
                            auto list = b.call().tensors(b.call().schema().args[0].name);
                            if (list.size() < 2)
                              fail_user("K0201", "multi_dot(): expected at least 2 tensors", b.call().where());
                            Value* product = list[0];
                            for (size_t i = 1; i < list.size(); ++i) product = b("matmul", {product, list[i]});
                            b.call().result(product);
                          },
                      .samples = {{{std::vector<Sample::TensorSpec>{spec({2, 3}), spec({3, 4}), spec({4, 2})}}}}});
}

}  // namespace

void register_linalg_composites(Registry& r) {
  add_solving(r);
  add_determinants(r);
  add_spectral(r);
  add_ranks(r);
  add_products(r);
  r.describe({"_linalg_det",      "_linalg_eigh",    "_linalg_slogdet",   "_linalg_solve_ex",    "linalg_cholesky",
              "linalg_det",       "linalg_diagonal", "linalg_eigh",       "linalg_eigvalsh",     "linalg_inv",
              "linalg_lu_factor", "linalg_matmul",   "linalg_matrix_exp", "linalg_matrix_power", "linalg_matrix_rank",
              "linalg_multi_dot", "linalg_pinv",     "linalg_slogdet",    "linalg_solve",        "linalg_solve_ex",
              "linalg_svd",       "linalg_svdvals",  "linalg_vecdot"},
             complex_by(ComplexRule::native));
  r.describe({"linalg_multi_dot", "linalg_vecdot"}, autocast_to(AutocastRule::lower));
  r.describe(
      {"cholesky_solve", "inverse", "linalg_cholesky", "linalg_eigh", "linalg_eigvalsh", "linalg_inv",
       "linalg_matrix_rank", "linalg_solve", "linalg_svd", "linalg_svdvals", "pinverse", "svd", "triangular_solve"},
      autocast_to(AutocastRule::single));
}

}  // namespace kiln
