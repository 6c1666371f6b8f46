// LU factors taken apart: lu_unpack, linalg_lu, lu_solve. The pivots of LAPACK are exchanges done one after the other;
// the permutation they amount to is a library kernel.
#include <numeric>

#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

void add_permutation(Registry& r) {
  OpRecord record;
  record.name_space = "kiln";
  record.schema_text = "lu_permutation(Tensor pivots, SymInt n) -> Tensor";
  record.library = "lu_permutation";
  record.infer = [](InferCall& call) {
    const TensorType& pivots = call.tensor("pivots")->type;
    Sizes sizes = pivots.sizes;
    sizes.back() = call.integer("n");
    call.results = {contiguous_type(DType::i64, std::move(sizes), pivots.device)};
  };
  record.reference = [](ReferenceCall& call) {
    Tensor pivots = call.tensor("pivots");
    int64_t steps = pivots.sizes.back(), n = call.integer("n"), rows = 1;
    std::vector<int64_t> sizes = pivots.sizes, exchanged = read_dense<int64_t>(pivots), out;
    sizes.back() = n;
    for (size_t d = 0; d + 1 < sizes.size(); ++d) rows *= sizes[d];
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), int64_t{0});
      for (int64_t i = 0; i < steps; ++i) {
        int64_t other = exchanged[static_cast<size_t>(row * steps + i)] - 1;
        if (i >= n || other < 0 || other >= n)
          fail_user("K0633", "lu_unpack: pivots out of range", call.node().where());
        std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(other)]);
      }
      out.insert(out.end(), order.begin(), order.end());
    }
    Tensor result = Tensor::empty(DType::i64, sizes);
    write_dense(result, out);
    call.results = {Datum{result}};
  };
  record.samples = {{{spec({3}, DType::i32, 3, 3), Scalar(3)}},
                    {{spec({2, 3}, DType::i32, 2, 4), Scalar(4)}},
                    {{spec({0}, DType::i32), Scalar(0)}}};
  r.add(std::move(record));
}

// (P, L, U) with A = P L U; parts that are not wanted are empty.
void unpack(Build& b, Value* lu, Value* pivots, bool data, bool order) {
  DecomposeCall& call = b.call();
  const Sizes& sizes = sizes_of(lu);
  Expr rows = sizes[sizes.size() - 2], columns = sizes.back();
  Value* none = data && order ? nullptr : b("new_empty", {lu, b.ints({0})});
  if (order) {
    Value* permutation = call.call("kiln.lu_permutation.default", {pivots, number(rows)});
    Value* row = b("reshape", {b("arange", {number(rows)}), b.ints({-1, 1})});
    call.result(0, b.to(b("eq.Tensor", {row, b("unsqueeze", {permutation, Scalar(-2)})}), lu->type.dtype));
  } else {
    call.result(0, none);
  }
  if (!data) {
    call.result(1, none);
    return call.result(2, none);
  }
  Expr steps = min_expr(rows, columns);
  Value* left = b("narrow_copy", {lu, Scalar(-1), Scalar(0), number(steps)});
  Value* unit = b("eye.m", {number(rows), number(steps), lu->type.dtype});
  call.result(1, b.add(b("tril", {left, Scalar(-1)}), unit));
  call.result(2, b("triu", {b("narrow_copy", {lu, Scalar(-2), Scalar(0), number(steps)})}));
}

}  // namespace

void register_lu(Registry& r) {
  add_permutation(r);
  add_composite(r, {.schema = "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool "
                              "unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          unpack(b, call.tensor("LU_data"), call.tensor("LU_pivots"), call.boolean("unpack_data"),
                                 call.boolean("unpack_pivots"));
                        },
                    .samples = {{{spec({3, 3}), spec({3}, DType::i32, 3, 3)}},
                                {{spec({2, 3, 4}), spec({2, 3}, DType::i32, 3, 3)}},
                                {{spec({4, 3}), spec({3}, DType::i32, 3, 4), Scalar(true), Scalar(false)}}}});
  add_composite(r, {.schema = "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          bool pivot = call.boolean("pivot");
                          auto parts = b.all("linalg_lu_factor_ex", {call.tensor("A"), Scalar(pivot)});
                          unpack(b, parts[0], parts[1], true, pivot);
                        },
                    .samples = {{{spec({3, 3})}}, {{spec({2, 3, 4})}}, {{spec({4, 3}, DType::f64)}}}});
  add_composite(r, {.schema = "_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, "
                              "Tensor pivots, Tensor info)",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          auto parts = b.all("linalg_lu_factor_ex",
                                             {call.tensor("self"), call.arg("pivot"), call.arg("check_errors")});
                          for (int i = 0; i < 3; ++i) call.result(i, parts[static_cast<size_t>(i)]);
                        },
                    .samples = {{{spec({3, 3})}}}});
  add_composite(
      r,
      {.schema = "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
       .build =
           [](Build& b) {
             DecomposeCall& call = b.call();
             call.result(b("linalg_lu_solve", {call.tensor("LU_data"), call.tensor("LU_pivots"), call.tensor("self")}));
           },
       .samples = {{{spec({3, 2}), spec({3, 3}), spec({3}, DType::i32, 3, 3)}}}});
  add_composite(r, {.schema = "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value* factor = call.tensor("self");
                          Value* unit = b("eye", {number(sizes_of(factor).back()), factor->type.dtype});
                          call.result(b("cholesky_solve", {unit, factor, call.arg("upper")}));
                        },
                    .samples = {{{spec({3, 3}, DType::f32, 1, 2)}}}});
  r.describe({"linalg_lu"}, complex_by(ComplexRule::native));
  r.describe({"cholesky_inverse", "lu_solve"}, autocast_to(AutocastRule::single));
}

}  // namespace kiln
