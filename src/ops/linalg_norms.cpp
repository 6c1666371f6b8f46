// Norms and condition numbers of matrices: sums of absolute values, or of singular values.
#include <cmath>
#include <limits>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/size_needs.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

double order_of(DecomposeCall& call) {
  auto number = call.scalar("ord");
  const auto* constant = std::get_if<Scalar>(&number);
  if (!constant) fail_unsupported("K0202", str(call.schema().name, ": the order must be a constant"), call.where());
  return constant->as_double();
}

[[noreturn]] void refuse_order(DecomposeCall& call, const std::string& order) {
  fail_user("K0201", str("linalg.matrix_norm: Order ", order, " not supported."), call.where());
}

struct MatrixDims {
  int64_t rows, columns;
  bool keep;
};

Value* restore_dims(Build& b, Value* x, const MatrixDims& dims) {
  if (!dims.keep) return x;
  for (int64_t dim : {std::min(dims.rows, dims.columns), std::max(dims.rows, dims.columns)})
    x = b("unsqueeze", {x, Scalar(dim)});
  return x;
}

// The largest of nothing is 0 here; the smallest of nothing is refused.
Value* extreme(Build& b, Value* x, int64_t dim, bool keep, const char* reduce) {
  if (std::string_view(reduce) == "amax") return largest_or_zero(b.call(), x, {dim}, keep);
  return b(reduce, {x, b.ints({dim}), Scalar(keep)});
}

Value* values_norm(Build& b, Value* x, const MatrixDims& dims, const char* reduce) {
  Value* last = b("movedim.intlist", {x, b.ints({dims.rows, dims.columns}), b.ints({-2, -1})});
  Value* s = singular_values(b, last);
  Value* out = std::string_view(reduce) == "sum" ? b.sum(s, {-1}, false) : extreme(b, s, -1, false, reduce);
  return restore_dims(b, out, dims);
}

Value* sums_norm(Build& b, Value* x, int64_t summed, int64_t kept, const char* reduce, const MatrixDims& dims) {
  Value* sums = b.sum(b("abs", {x}), {summed}, true);
  Value* out = extreme(b, sums, kept, true, reduce);
  if (dims.keep) return out;
  return b("squeeze.dims", {out, b.ints({dims.rows, dims.columns})});
}

Value* matrix_norm(Build& b, Value* x, std::variant<double, std::string> order, MatrixDims dims) {
  auto rank = static_cast<int64_t>(sizes_of(x).size());
  dims.rows = wrap_dim(b.call(), dims.rows, rank);
  dims.columns = wrap_dim(b.call(), dims.columns, rank);
  if (dims.rows == dims.columns) fail_user("K0205", "linalg.matrix_norm: dims must be different", b.call().where());
  if (auto* name = std::get_if<std::string>(&order)) {
    if (*name == "nuc") return values_norm(b, x, dims, "sum");
    if (*name != "fro") refuse_order(b.call(), *name);
    return b("linalg_vector_norm", {x, Scalar(2.0), b.ints({dims.rows, dims.columns}), Scalar(dims.keep)});
  }
  double p = std::get<double>(order);
  if (std::abs(p) == 2) return values_norm(b, x, dims, p > 0 ? "amax" : "amin");
  const char* reduce = p > 0 ? "amax" : "amin";
  if (std::abs(p) == 1) return sums_norm(b, x, dims.rows, dims.columns, reduce, dims);
  if (std::isinf(p)) return sums_norm(b, x, dims.columns, dims.rows, reduce, dims);
  refuse_order(b.call(), str(p));
}

Value* converted_self(Build& b) {
  Value* x = b.call().tensor("self");
  if (auto dtype = b.call().dtype("dtype")) return b.to(x, *dtype);
  return x;
}

void build_matrix_norm(Build& b, bool named) {
  DecomposeCall& call = b.call();
  List dim = call.constant_integers("dim");
  if (dim.size() != 2) fail_user("K0205", "linalg.matrix_norm: dim must be a 2-tuple", call.where());
  std::variant<double, std::string> order;
  if (named)
    order = call.string("ord");
  else
    order = order_of(call);
  call.result(matrix_norm(b, converted_self(b), order, {dim[0], dim[1], call.boolean("keepdim")}));
}

// A vector norm of everything where neither order nor dimensions are given; otherwise by the number of dimensions.
void build_norm(Build& b, bool named) {
  DecomposeCall& call = b.call();
  Value* x = converted_self(b);
  auto rank = static_cast<int64_t>(sizes_of(x).size());
  bool keep = call.boolean("keepdim");
  List dim;
  if (call.given("dim")) dim = call.constant_integers("dim");
  bool matrix = dim.size() == 2 || (!call.given("dim") && rank == 2);
  if (call.given("ord") && matrix) {
    if (dim.empty()) dim = {0, 1};
    std::variant<double, std::string> order;
    if (named)
      order = call.string("ord");
    else
      order = order_of(call);
    return call.result(matrix_norm(b, x, order, {dim[0], dim[1], keep}));
  }
  if (named) refuse_order(call, call.string("ord"));
  Argument dims = call.given("dim") ? b.ints(Sizes(dim.begin(), dim.end())) : Argument();
  double order = call.given("ord") ? order_of(call) : 2.0;
  call.result(b("linalg_vector_norm", {x, Scalar(order), dims, Scalar(keep)}));
}

void add_norms(Registry& r) {
  const char* tail = "bool keepdim=False, *, ScalarType? dtype=None) -> Tensor";
  double inf = std::numeric_limits<double>::infinity();
  add_composite(r, {.schema = str("linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2,-1], ", tail),
                    .build = [](Build& b) { build_matrix_norm(b, false); },
                    .samples = {{{spec({3, 4}), Scalar(1)}},
                                {{spec({2, 3, 4}), Scalar(-inf), List{0, 2}, Scalar(true)}},
                                {{spec({3, 4}), Scalar(2)}},
                                {{spec({3, 0}), Scalar(1)}},
                                {{spec({2, 0, 3}), Scalar(inf)}},
                                {{spec({0, 3}), Scalar(-inf)}, true},
                                {{spec({3, 4}), Scalar(3)}, true}}});
  add_composite(r, {.schema = str("linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2,-1], ", tail),
                    .build = [](Build& b) { build_matrix_norm(b, true); },
                    .samples = {{{spec({3, 4})}},
                                {{spec({2, 3, 4}), std::string("nuc"), List{2, 0}, Scalar(true)}},
                                {{spec({3, 4}), std::string("max")}, true}}});
  add_composite(r, {.schema = str("linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, ", tail),
                    .build = [](Build& b) { build_norm(b, false); },
                    .samples = {{{spec({3, 4})}}, {{spec({3, 4}), Scalar(1)}}, {{spec({5}), Scalar(3)}}}});
  add_composite(r, {.schema = str("linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, ", tail),
                    .build = [](Build& b) { build_norm(b, true); },
                    .samples = {{{spec({3, 4}), std::string("nuc")}}}});
  add_composite(r, {.schema = "nuclear_norm(Tensor self, bool keepdim=False) -> Tensor",
                    .build =
                        [](Build& b) {
                          b.call().result(matrix_norm(b, b.call().tensor("self"), std::string("nuc"),
                                                      {-2, -1, b.call().boolean("keepdim")}));
                        },
                    .samples = {{{spec({3, 4})}}}});
}

// The condition number: of the norm given, or the ratio of the extreme singular values.
void build_condition(Build& b, bool named) {
  DecomposeCall& call = b.call();
  Value* a = call.tensor("self");
  if (!named) {
    double p = 2;
    if (call.given("p")) {
      auto number = call.scalar("p");
      if (!std::holds_alternative<Scalar>(number))
        fail_unsupported("K0202", "linalg.cond: the order must be a constant", call.where());
      p = std::get<Scalar>(number).as_double();
    }
    if (std::abs(p) == 2) {
      Value* s = singular_values(b, a);
      Value *most = b("amax", {s, b.ints({-1}), Scalar(false)}), *least = b("amin", {s, b.ints({-1}), Scalar(false)});
      return call.result(p > 0 ? b.div(most, least) : b.div(least, most));
    }
    Value* inverse = b("linalg_inv_ex", {a});
    return call.result(b.mul(matrix_norm(b, a, p, {-2, -1, false}), matrix_norm(b, inverse, p, {-2, -1, false})));
  }
  std::string p = call.string("p");
  Value* inverse = b("linalg_inv_ex", {a});
  call.result(b.mul(matrix_norm(b, a, p, {-2, -1, false}), matrix_norm(b, inverse, p, {-2, -1, false})));
}

void add_conditions(Registry& r) {
  add_composite(r, {.schema = "linalg_cond(Tensor self, Scalar? p=None) -> Tensor",
                    .build = [](Build& b) { build_condition(b, false); },
                    .samples = {{{spec({4, 3})}}, {{spec({3, 3}), Scalar(1)}}}});
  add_composite(r, {.schema = "linalg_cond.p_str(Tensor self, str p) -> Tensor",
                    .build = [](Build& b) { build_condition(b, true); },
                    .samples = {{{spec({3, 3}), std::string("fro")}}}});
}

}  // namespace

void register_linalg_norms(Registry& r) {
  add_norms(r);
  add_conditions(r);
  r.describe({"linalg_cond", "linalg_matrix_norm", "linalg_norm"}, complex_by(ComplexRule::native));
  r.describe({"linalg_cond"}, autocast_to(AutocastRule::single));
}

}  // namespace kiln
