// Products beyond matmul: outer, inner, tensordot, einsum, kron, cross, bilinear, as decompositions.
#include <numeric>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;
using Specs = std::vector<Sample::TensorSpec>;

// A sum over labelled dimensions of a product of two tensors, as one batched matrix product. Labels of the result that
// only one side has stay; labels that both have are batch dimensions if the result has them, and summed otherwise.
struct Labelled {
  Value* value;
  std::string labels;  // one per dimension
};

Sizes sizes_of(const Labelled& x, const std::string& labels) {
  Sizes out;
  for (char label : labels) out.push_back(x.value->type.sizes[x.labels.find(label)]);
  return out;
}

Labelled permuted(Build& b, const Labelled& x, const std::string& labels) {
  if (x.labels == labels) return x;
  Sizes order;
  for (char label : labels) order.push_back(Expr(static_cast<int64_t>(x.labels.find(label))));
  return {b("permute", {x.value, b.ints(order)}), labels};
}

// Sums away the labels that nothing else needs.
Labelled without_unused(Build& b, Labelled x, const std::string& needed, bool keeps_type) {
  Sizes dims;
  std::string left;
  for (size_t d = 0; d < x.labels.size(); ++d) {
    if (needed.find(x.labels[d]) == std::string::npos)
      dims.push_back(Expr(static_cast<int64_t>(d)));
    else
      left += x.labels[d];
  }
  if (dims.empty()) return x;
  // Of the factors of a product integers keep their type; a sum alone makes them int64.
  Argument dtype = keeps_type ? Argument(x.value->type.dtype) : Argument();
  return {b("sum.dim_IntList", {x.value, b.ints(dims), Scalar(false), dtype}), left};
}

// A size of 1 stands for any size: it is dropped, and the other side gives the label its size.
Labelled without_ones(Build& b, const Labelled& x, const Labelled& other) {
  Sizes sizes;
  std::string labels;
  for (size_t d = 0; d < x.labels.size(); ++d) {
    size_t at = other.labels.find(x.labels[d]);
    bool drop = at != std::string::npos && is_one(x.value->type.sizes[d]) && !is_one(other.value->type.sizes[at]);
    if (drop) continue;
    sizes.push_back(x.value->type.sizes[d]);
    labels += x.labels[d];
  }
  if (labels.size() == x.labels.size()) return x;
  return {b.view(x.value, sizes), labels};
}

Labelled contracted(Build& b, Labelled a, Labelled c, const std::string& result) {
  Labelled a_full = a;
  a = without_ones(b, a, c);
  c = without_ones(b, c, a_full);
  a = without_unused(b, a, result + c.labels, true);
  c = without_unused(b, c, result + a.labels, true);
  std::string batch, sum, left, right;
  for (char label : a.labels) {
    bool shared = c.labels.find(label) != std::string::npos, kept = result.find(label) != std::string::npos;
    (shared ? (kept ? batch : sum) : left) += label;
  }
  for (char label : c.labels)
    if (a.labels.find(label) == std::string::npos) right += label;
  Labelled x = permuted(b, a, batch + left + sum), y = permuted(b, c, batch + sum + right);
  Sizes batch_sizes = sizes_of(x, batch), left_sizes = sizes_of(x, left), right_sizes = sizes_of(y, right),
        sum_sizes = sizes_of(x, sum);
  Sizes x_sizes = batch_sizes, y_sizes = batch_sizes, out_sizes = batch_sizes;
  x_sizes.push_back(product(left_sizes));
  x_sizes.push_back(product(sum_sizes));
  y_sizes.push_back(product(sum_sizes));
  y_sizes.push_back(product(right_sizes));
  out_sizes.insert(out_sizes.end(), left_sizes.begin(), left_sizes.end());
  out_sizes.insert(out_sizes.end(), right_sizes.begin(), right_sizes.end());
  Value* out = b("matmul", {b.view(x.value, x_sizes), b.view(y.value, y_sizes)});
  return {b.view(out, out_sizes), batch + left + right};
}

// ---- einsum ----

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

// "…" stands for as many dimensions as are left over; they get labels of their own (control characters).
std::string expand_dots(const OpCall& call, const std::string& text, int64_t dots) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text.compare(i, 3, "...") == 0) {
      for (int64_t d = 0; d < dots; ++d) out += static_cast<char>(1 + d);
      i += 2;
    } else if ((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z')) {
      out += text[i];
    } else {
      refuse(call, "K0206", str("bad equation: '", text, "'"));
    }
  }
  return out;
}

int64_t label_count(const std::string& text) {
  int64_t n = 0;
  for (char c : text) n += c != ' ' && c != '.';
  return n;
}

Equation parse_equation(const OpCall& call, const std::string& text, const std::vector<Value*>& tensors) {
  size_t arrow = text.find("->");
  std::vector<std::string> inputs = split(text.substr(0, arrow), ',');
  if (inputs.size() != tensors.size()) refuse(call, "K0206", "the equation has another number of operands than given");
  int64_t dots = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].find("...") != std::string::npos) dots = std::max(dots, rank_of(tensors[i]) - label_count(inputs[i]));
  if (dots > 30) refuse(call, "K0206", "too many dimensions");
  Equation out;
  std::map<char, int> seen;
  for (size_t i = 0; i < inputs.size(); ++i) {
    int64_t own = rank_of(tensors[i]) - label_count(inputs[i]);
    std::string labels = expand_dots(call, inputs[i], dots);
    // Fewer dimensions behind the dots: they are aligned to the right.
    if (inputs[i].find("...") != std::string::npos && own < dots) {
      std::string kept;
      for (char c : labels)
        if (c > 30 || c > dots - own) kept += c;
      labels = kept;
    }
    if (static_cast<int64_t>(labels.size()) != rank_of(tensors[i]))
      refuse(call, "K0206", str("operand ", i, " has another number of dimensions than its labels"));
    for (char c : labels) ++seen[c];
    out.operands.push_back(labels);
  }
  if (arrow != std::string::npos) {
    out.result = expand_dots(call, text.substr(arrow + 2), dots);
    for (char c : out.result)
      if (!seen.contains(c)) refuse(call, "K0206", "the result has a label that no operand has");
  } else {
    for (auto [label, count] : seen)
      if (label <= 30) out.result += label;
    for (auto [label, count] : seen)
      if (label > 30 && count == 1) out.result += label;
  }
  return out;
}

// "ii": the diagonal.
Labelled without_repeats(Build& b, Labelled x) {
  for (size_t d = 0; d < x.labels.size(); ++d) {
    size_t again = x.labels.find(x.labels[d], d + 1);
    if (again == std::string::npos) continue;
    char label = x.labels[d];
    Value* diagonal =
        b("diagonal", {x.value, Scalar(0), Scalar(static_cast<int64_t>(d)), Scalar(static_cast<int64_t>(again))});
    std::string labels;
    for (size_t i = 0; i < x.labels.size(); ++i)
      if (i != d && i != again) labels += x.labels[i];
    return without_repeats(b, {diagonal, labels + label});
  }
  return x;
}

void build_einsum(Build& b) {
  DecomposeCall& call = b.call();
  auto tensors = call.tensors("tensors");
  if (tensors.empty()) refuse(call, "K0206", "must provide at least one operand");
  Equation equation = parse_equation(call, call.string("equation"), tensors);
  std::vector<Labelled> rest;
  for (size_t i = 0; i < tensors.size(); ++i) rest.push_back(without_repeats(b, {tensors[i], equation.operands[i]}));
  Labelled acc = rest[0];
  for (size_t i = 1; i < rest.size(); ++i) {
    std::string needed = equation.result;
    for (size_t j = i + 1; j < rest.size(); ++j) needed += rest[j].labels;
    acc = contracted(b, acc, rest[i], needed);
  }
  acc = without_unused(b, acc, equation.result, false);
  call.result(permuted(b, acc, equation.result).value);
}

// ---- The others ----

void build_tensordot(Build& b) {
  DecomposeCall& call = b.call();
  Value *self = call.tensor("self"), *other = call.tensor("other");
  auto left = call.constant_integers("dims_self"), right = call.constant_integers("dims_other");
  if (left.size() != right.size()) refuse(call, "K0206", "both dimension lists should have same length");
  Labelled a{self, {}}, c{other, {}};
  for (int64_t d = 0; d < rank_of(self); ++d) a.labels += static_cast<char>('A' + d);
  for (int64_t d = 0; d < rank_of(other); ++d) c.labels += static_cast<char>('a' + d);
  if (a.labels.size() > 20 || c.labels.size() > 20) refuse(call, "K0206", "too many dimensions");
  for (size_t i = 0; i < left.size(); ++i) {
    size_t x = static_cast<size_t>(wrap_dim(call, left[i], rank_of(self))),
           y = static_cast<size_t>(wrap_dim(call, right[i], rank_of(other)));
    const Expr &a_size = self->type.sizes.at(x), &c_size = other->type.sizes.at(y);
    if (!is_one(a_size) && !is_one(c_size) && prove_eq(a_size, c_size, call.ranges()) == Proof::no)
      refuse(call, "K0206", "contracted dimensions need to match");
    c.labels[y] = a.labels[x];
  }
  std::string result;
  for (char label : a.labels)
    if (c.labels.find(label) == std::string::npos) result += label;
  for (char label : c.labels)
    if (a.labels.find(label) == std::string::npos) result += label;
  call.result(contracted(b, a, c, result).value);
}

Value* outer(Build& b, Value* a, Value* c) {
  if (rank_of(a) != 1 || rank_of(c) != 1) refuse(b.call(), "K0206", "expects vectors");
  return b.mul(b("unsqueeze", {a, Scalar(1)}), c);
}

void build_addr(Build& b) {
  DecomposeCall& call = b.call();
  Value *self = call.tensor("self"), *first = call.tensor("vec1"), *second = call.tensor("vec2");
  Promotion promotion;
  for (const Value* v : {self, first, second}) promotion.add_tensor(v->type.dtype, true);
  auto number = [&](const char* name) {
    auto value = call.scalar(name);
    const auto* constant = std::get_if<Scalar>(&value);
    return constant ? constant->as_double() : NAN;
  };
  // Eager rounds alpha and beta to the result's type first, and multiplies the first vector by alpha.
  auto times = [&](Value* x, const char* name) {
    auto value = call.scalar(name);
    const auto* constant = std::get_if<Scalar>(&value);
    bool rounds = constant && is_float(promotion.result());
    return b.mul(x, rounds ? Argument(scalar_as(*constant, promotion.result())) : call.arg(name));
  };
  bool truths = promotion.result() == DType::boolean;
  if (number("alpha") != 1 && !truths) first = times(first, "alpha");
  Value* product_value = outer(b, first, second);
  if (truths) {
    Value* kept = number("beta") != 0 ? b("logical_and", {b("ones_like", {self}), self}) : nullptr;
    Value* scaled = number("alpha") != 0 ? product_value : b("zeros_like", {product_value});
    return call.result(kept ? b("logical_or", {kept, scaled}) : scaled);
  }
  // beta = 0 means that self is not even looked at.
  if (number("beta") == 0) return call.result(b.to(product_value, promotion.result()));
  call.result(b.add(number("beta") == 1 ? self : times(self, "beta"), product_value));
}

void build_kron(Build& b) {
  DecomposeCall& call = b.call();
  Value *self = call.tensor("self"), *other = call.tensor("other");
  size_t rank = std::max(self->type.sizes.size(), other->type.sizes.size());
  Sizes a, c, out;
  for (size_t d = 0; d < rank; ++d) {
    auto size = [&](const Value* x) {
      size_t lead = rank - x->type.sizes.size();
      return d < lead ? Expr(1) : x->type.sizes[d - lead];
    };
    a.push_back(size(self));
    a.push_back(Expr(1));
    c.push_back(Expr(1));
    c.push_back(size(other));
    out.push_back(size(self) * size(other));
  }
  call.result(b.view(b.mul(b.view(self, a), b.view(other, c)), out));
}

// a x c along a dimension of size 3.
void build_cross(Build& b, int64_t dim) {
  DecomposeCall& call = b.call();
  Value *a = call.tensor("self"), *c = call.tensor("other");
  if (rank_of(a) != rank_of(c)) refuse(call, "K0206", "inputs must have the same number of dimensions");
  Sizes sizes = broadcast_sizes(call, {a->type.sizes, c->type.sizes}, call.ranges());
  if (!sizes[static_cast<size_t>(dim)].is_constant(3))
    refuse(call, "K0206", str("dimension ", dim, " does not have size 3"));
  auto rolled = [&](Value* x, int64_t by) {
    return b("roll", {b("expand", {x, b.ints(sizes)}), b.ints({by}), b.ints({dim})});
  };
  call.result(b.sub(b.mul(rolled(a, -1), rolled(c, -2)), b.mul(rolled(a, -2), rolled(c, -1))));
}

void register_vector_products(Registry& r) {
  auto outer_product = [](const char* second) {
    return [second](Build& b) { b.call().result(outer(b, b.call().tensor("self"), b.call().tensor(second))); };
  };
  std::vector<Sample> vectors = {
      {{spec({3}), spec({4})}}, {{spec({3}, DType::i64), spec({4})}}, {{spec({2, 2}), spec({2})}, true}};
  add_composite(
      r, {.schema = "outer(Tensor self, Tensor vec2) -> Tensor", .build = outer_product("vec2"), .samples = vectors});
  add_composite(
      r, {.schema = "ger(Tensor self, Tensor vec2) -> Tensor", .build = outer_product("vec2"), .samples = vectors});
  add_composite(r, {.schema = "addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                    .build = build_addr,
                    .samples = {{{spec({3, 4}), spec({3}), spec({4})}},
                                {{spec({4}), spec({3}), spec({4}), Scalar(0.5), Scalar(2)}},
                                {{spec({3, 4}), spec({3}), spec({4}), Scalar(0)}},
                                {{spec({2, 2}, DType::boolean), spec({2}, DType::boolean), spec({2}, DType::boolean)}}},
                    .inplace = true});
  add_composite(r, {.schema = "inner(Tensor self, Tensor other) -> Tensor",
                    .build =
                        [](Build& b) {
                          Value *a = b.call().tensor("self"), *c = b.call().tensor("other");
                          if (rank_of(a) == 0 || rank_of(c) == 0) return b.call().result(b.mul(a, c));
                          Labelled x{a, {}}, y{c, {}};
                          for (int64_t d = 0; d < rank_of(a); ++d) x.labels += static_cast<char>('A' + d);
                          for (int64_t d = 0; d < rank_of(c); ++d) y.labels += static_cast<char>('a' + d);
                          x.labels.back() = y.labels.back() = 'z';
                          if (prove_eq(a->type.sizes.back(), c->type.sizes.back(), b.call().ranges()) == Proof::no)
                            refuse(b.call(), "K0206", "last dimensions must match");
                          std::string result =
                              x.labels.substr(0, x.labels.size() - 1) + y.labels.substr(0, y.labels.size() - 1);
                          b.call().result(contracted(b, x, y, result).value);
                        },
                    .samples = {{{spec({3}), spec({3})}},
                                {{spec({2, 3}), spec({4, 3})}},
                                {{spec({}), spec({2})}},
                                {{spec({2}), spec({3})}, true}}});
  add_composite(r, {.schema = "cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value* self = call.tensor("self");
                          if (call.given("dim"))
                            return build_cross(b, wrap_dim(call, call.constant_integer("dim"), rank_of(self)));
                          // The first dimension of size 3.
                          for (int64_t d = 0; d < rank_of(self); ++d)
                            if (self->type.sizes[static_cast<size_t>(d)].is_constant(3)) return build_cross(b, d);
                          refuse(call, "K0206", "no dimension of size 3 in input");
                        },
                    .samples = {{{spec({2, 3}), spec({2, 3})}},
                                {{spec({3, 2}), spec({3, 2}), Scalar(0)}},
                                {{spec({2}), spec({2})}, true}}});
  add_composite(
      r, {.schema = "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
          .build =
              [](Build& b) {
                build_cross(b, wrap_dim(b.call(), b.call().constant_integer("dim"), rank_of(b.call().tensor("self"))));
              },
          .samples = {{{spec({2, 3}), spec({2, 3})}}, {{spec({2, 3}), spec({1, 3})}}}});
}

void register_contractions(Registry& r) {
  add_composite(r, {.schema = "einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
                    .build = build_einsum,
                    .samples = {{{std::string("ij,jk->ik"), Specs{spec({2, 3}), spec({3, 4})}}},
                                {{std::string("bij,bjk"), Specs{spec({2, 2, 3}), spec({2, 3, 4})}}},
                                {{std::string("ii->i"), Specs{spec({3, 3})}}},
                                {{std::string("...i,...i->..."), Specs{spec({2, 3}), spec({4, 2, 3})}}},
                                {{std::string("i,j,k->kji"), Specs{spec({2}), spec({3}), spec({4})}}},
                                {{std::string("ij->"), Specs{spec({2, 3})}}},
                                {{std::string("ij,jk->il"), Specs{spec({2, 3}), spec({3, 4})}}, true},
                                {{std::string("ij"), Specs{spec({2})}}, true}}});
  add_composite(r, {.schema = "tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
                    .build = build_tensordot,
                    .samples = {{{spec({2, 3, 4}), spec({4, 3, 5}), List{2, 1}, List{0, 1}}},
                                {{spec({2}), spec({3}), List{}, List{}}},
                                {{spec({2}), spec({3}), List{0}, List{0}}, true}}});
  add_composite(r, {.schema = "kron(Tensor self, Tensor other) -> Tensor",
                    .build = build_kron,
                    .samples = {{{spec({2, 3}), spec({3, 2})}}, {{spec({2}), spec({2, 2})}}, {{spec({}), spec({2})}}}});
  add_composite(r, {.schema = "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
                    .build =
                        [](Build& b) {
                          DecomposeCall& call = b.call();
                          Value *x = call.tensor("input1"), *y = call.tensor("input2"), *w = call.tensor("weight");
                          if (rank_of(w) != 3 || rank_of(x) != rank_of(y) || rank_of(x) == 0)
                            refuse(call, "K0206", "sizes do not fit");
                          Sizes lead(x->type.sizes.begin(), x->type.sizes.end() - 1);
                          Expr rows = product(lead);
                          Labelled a{b.view(x, {rows, x->type.sizes.back()}), "bi"},
                              c{b.view(y, {rows, y->type.sizes.back()}), "bj"};
                          Labelled xw = contracted(b, a, {w, "oij"}, "boj");
                          Value* out = permuted(b, contracted(b, xw, c, "bo"), "bo").value;
                          lead.push_back(w->type.sizes[0]);
                          out = b.view(out, lead);
                          call.result(call.given("bias") ? b.add(out, call.tensor("bias")) : out);
                        },
                    .samples = {{{spec({2, 3}), spec({2, 4}), spec({5, 3, 4}), spec({5})}},
                                {{spec({3}), spec({4}), spec({5, 3, 4})}}}});
}

}  // namespace

void register_products_of_tensors(Registry& registry) {
  register_vector_products(registry);
  register_contractions(registry);
  registry.describe({"linalg_cross"}, complex_by(ComplexRule::native));
  registry.describe({"ger", "outer"}, complex_product({"self", "vec2", ""}));
  registry.describe({"addr"}, complex_product({"vec1", "vec2", "self"}));
  registry.describe({"einsum", "tensordot"}, autocast_to(AutocastRule::lower));
}

}  // namespace kiln
