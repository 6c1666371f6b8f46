#include "types/expr.h"

#include <bit>
#include <limits>

#include "types/checked.h"
#include "types/expr_node.h"
#include "types/float_symbol.h"
#include "types/polynomial.h"

namespace kiln {

// ---- Nodes ---------------------------------------------------------------------------------------------------------

static size_t mix(size_t seed, size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2));
}

static bool gives_float(ExprOp op, const std::vector<Expr>& args) {
  switch (op) {
    case ExprOp::float_constant:
    case ExprOp::to_float:
    case ExprOp::truediv:
    case ExprOp::sqrt:
      return true;
    case ExprOp::add:
    case ExprOp::mul:
    case ExprOp::floordiv:
    case ExprOp::mod:
    case ExprOp::pow:
    case ExprOp::min:
    case ExprOp::max:
      return std::any_of(args.begin(), args.end(), [](const Expr& a) { return a.is_float(); });
    case ExprOp::ite:
      return args[1].is_float() || args[2].is_float();
    default:
      return false;
  }
}

static bool gives_boolean(ExprOp op) {
  switch (op) {
    case ExprOp::eq:
    case ExprOp::ne:
    case ExprOp::lt:
    case ExprOp::le:
    case ExprOp::logical_and:
    case ExprOp::logical_or:
    case ExprOp::logical_not:
      return true;
    default:
      return false;
  }
}

Expr Expr::Node::raw(ExprOp op, std::vector<Expr> args) {
  auto node = std::make_shared<Node>();
  node->op = op;
  node->is_float = gives_float(op, args);
  node->is_boolean = gives_boolean(op);
  size_t hash = mix(0x51ed, static_cast<size_t>(op));
  for (const Expr& arg : args) hash = mix(hash, arg.hash());
  node->hash = hash;
  node->args = std::move(args);
  return Expr(std::move(node));
}

Expr::Expr(int64_t value) {
  auto make_node = [](int64_t v) {
    auto node = std::make_shared<Node>();
    node->op = ExprOp::constant;
    node->value = v;
    node->hash = mix(0xc0, static_cast<size_t>(v));
    return std::shared_ptr<const Node>(std::move(node));
  };
  // Small constants are everywhere (offset 0, stride 1): they share their nodes.
  static const std::vector<std::shared_ptr<const Node>> small = [&] {
    std::vector<std::shared_ptr<const Node>> nodes;
    for (int64_t v = 0; v <= 64; ++v) nodes.push_back(make_node(v));
    return nodes;
  }();
  node_ = value >= 0 && value <= 64 ? small[static_cast<size_t>(value)] : make_node(value);
}

bool is_float_symbol(std::string_view name) {
  std::string_view number = name.substr(std::min<size_t>(name.size(), name.substr(0, 3) == "zuf" ? 3 : 2));
  bool prefix = name.substr(0, 3) == "zuf" || name.substr(0, 2) == "zf";
  return prefix && !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
}

Expr Expr::symbol(std::string name) {
  auto node = std::make_shared<Node>();
  node->op = ExprOp::symbol;
  node->is_float = is_float_symbol(name);
  node->hash = mix(0x5e, std::hash<std::string>{}(name));
  node->name = std::move(name);
  return Expr(std::shared_ptr<const Node>(std::move(node)));
}

Expr Expr::float_constant(double value) {
  if (value != value) value = std::numeric_limits<double>::quiet_NaN();  // one NaN, so that it prints and reads back
  auto node = std::make_shared<Node>();
  node->op = ExprOp::float_constant;
  node->is_float = true;
  node->number = value;
  node->hash = mix(0xf1, std::bit_cast<uint64_t>(value));
  return Expr(std::shared_ptr<const Node>(std::move(node)));
}

ExprOp Expr::op() const { return node_->op; }
int64_t Expr::value() const { return node_->value; }
double Expr::float_value() const { return node_->number; }
const std::string& Expr::name() const { return node_->name; }
const std::vector<Expr>& Expr::args() const { return node_->args; }
size_t Expr::hash() const { return node_->hash; }
bool Expr::is_float() const { return node_->is_float; }
bool Expr::is_boolean() const { return node_->is_boolean; }

bool Expr::same(const Expr& other) const {
  if (node_ == other.node_) return true;
  return node_->hash == other.node_->hash && Node::compare(*this, other) == 0;
}
bool Expr::operator<(const Expr& other) const { return Node::compare(*this, other) < 0; }

// s2 before s10: the letters, then the number.
static int compare_names(const std::string& a, const std::string& b) {
  auto stem = [](const std::string& name) {
    size_t n = name.size();
    while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9') --n;
    return n;
  };
  size_t sa = stem(a), sb = stem(b);
  if (int c = std::string_view(a).substr(0, sa).compare(std::string_view(b).substr(0, sb))) return c < 0 ? -1 : 1;
  if (a.size() - sa != b.size() - sb) return a.size() - sa < b.size() - sb ? -1 : 1;
  int c = a.compare(sa, std::string::npos, b, sb, std::string::npos);
  return c < 0 ? -1 : c > 0 ? 1 : 0;
}

int Expr::Node::compare(const Expr& a, const Expr& b) {
  const Node &x = *a.node_, &y = *b.node_;
  if (&x == &y) return 0;
  if (x.op != y.op) {
    // Symbols first, then operators: sums read "i0*64 + i1 // 8 + 3".
    auto rank = [](ExprOp op) { return op == ExprOp::symbol ? -1 : static_cast<int>(op); };
    return rank(x.op) < rank(y.op) ? -1 : 1;
  }
  if (x.op == ExprOp::constant) return x.value < y.value ? -1 : x.value > y.value ? 1 : 0;
  if (x.op == ExprOp::symbol) return compare_names(x.name, y.name);
  if (x.op == ExprOp::float_constant) {
    auto p = std::bit_cast<int64_t>(x.number), q = std::bit_cast<int64_t>(y.number);
    return p < q ? -1 : p > q ? 1 : 0;
  }
  for (size_t i = 0; i < x.args.size() && i < y.args.size(); ++i)
    if (int c = compare(x.args[i], y.args[i])) return c;
  return x.args.size() < y.args.size() ? -1 : x.args.size() > y.args.size() ? 1 : 0;
}

// ---- Normalising constructors ---------------------------------------------------------------------------------------

static bool is_number(const Expr& e) { return e.op() == ExprOp::constant || e.op() == ExprOp::float_constant; }
static double number_of(const Expr& e) {
  return e.op() == ExprOp::constant ? static_cast<double>(e.value()) : e.float_value();
}

static Expr make_add(const std::vector<Expr>& args) {
  std::vector<Term> terms;
  for (const Expr& arg : args) {
    Polynomial part = Polynomial::of(arg);
    terms.insert(terms.end(), part.terms.begin(), part.terms.end());
  }
  return Polynomial::collect(std::move(terms)).expr();
}

static Expr make_mul(const std::vector<Expr>& args) {
  // A name times a number, the most frequent of all: in the normal form as it is.
  if (args.size() == 2 && args[0].is_symbol() && args[1].is_constant() && !args[1].is_constant(0) &&
      !args[1].is_constant(1))
    return Expr::Node::raw(ExprOp::mul, args);
  // Products are opened first: a sum inside one was kept because multiplying out would have made too many terms.
  std::vector<Expr> factors;
  for (const Expr& arg : args) {
    if (arg.op() == ExprOp::mul)
      factors.insert(factors.end(), arg.args().begin(), arg.args().end());
    else
      factors.push_back(arg);
  }
  if (expandable(factors)) {
    Polynomial out = Polynomial::of(1);
    for (const Expr& factor : factors) out = out * Polynomial::of(factor);
    return out.expr();
  }
  Term term{1, {}};
  for (const Expr& factor : factors) {
    if (factor.is_constant())
      term.coefficient = checked::mul(term.coefficient, factor.value());
    else
      term.atoms.push_back(factor);
  }
  std::sort(term.atoms.begin(), term.atoms.end());
  return Polynomial::collect({term}).expr();
}

static Expr make_pow(const Expr& base, const Expr& exponent) {
  constexpr int64_t multiply_up_to = 8;
  if (exponent.is_constant() && exponent.value() >= 0) {
    if (base.is_constant()) return checked::pow(base.value(), exponent.value());
    if (exponent.value() == 0) return 1;
    if (exponent.value() <= multiply_up_to)
      return make_mul(std::vector<Expr>(static_cast<size_t>(exponent.value()), base));
  }
  return Expr::Node::raw(ExprOp::pow, {base, exponent});
}

// a - b where that is a constant.
static std::optional<int64_t> constant_difference(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) {
    int64_t out = 0;
    if (__builtin_sub_overflow(a.value(), b.value(), &out)) return a.value() < b.value() ? INT64_MIN : INT64_MAX;
    return out;
  }
  if (a == b) return 0;
  Polynomial p = Polynomial::of(a), q = Polynomial::of(b);
  // Cheap test before any arithmetic: the same terms apart from the constant.
  auto variable = [](const Polynomial& x) { return x.terms.size() - (x.constant_part() != 0 ? 1 : 0); };
  if (variable(p) != variable(q)) return {};
  for (size_t i = 0; i < variable(p); ++i)
    if (p.terms[i].coefficient != q.terms[i].coefficient || compare_atoms(p.terms[i].atoms, q.terms[i].atoms) != 0)
      return {};
  int64_t out = 0;
  if (__builtin_sub_overflow(p.constant_part(), q.constant_part(), &out)) return {};
  return out;
}

static Expr make_min_max(ExprOp op, const std::vector<Expr>& args) {
  std::vector<Expr> kept;
  auto consider = [&](const Expr& candidate) {
    for (Expr& k : kept)
      if (auto d = constant_difference(candidate, k)) {
        if (op == ExprOp::min ? *d < 0 : *d > 0) k = candidate;
        return;
      }
    kept.push_back(candidate);
  };
  for (const Expr& arg : args) {
    if (arg.op() == op)
      for (const Expr& inner : arg.args()) consider(inner);
    else
      consider(arg);
  }
  if (kept.size() == 1) return kept[0];
  std::sort(kept.begin(), kept.end());
  return Expr::Node::raw(op, std::move(kept));
}

static Expr make_relation(ExprOp op, Expr a, Expr b) {
  if (is_number(a) && is_number(b) && (a.is_float() || b.is_float())) {
    double x = number_of(a), y = number_of(b);
    return op == ExprOp::eq ? x == y : op == ExprOp::ne ? x != y : op == ExprOp::lt ? x < y : x <= y;
  }
  if (!a.is_float() && !b.is_float())
    if (auto d = constant_difference(a, b))
      return op == ExprOp::eq ? *d == 0 : op == ExprOp::ne ? *d != 0 : op == ExprOp::lt ? *d < 0 : *d <= 0;
  if ((op == ExprOp::eq || op == ExprOp::ne) && (is_number(a) || (!is_number(b) && b < a))) std::swap(a, b);
  return Expr::Node::raw(op, {a, b});
}

static Expr as_condition(const Expr& e) { return e.is_boolean() || e.is_constant() ? e : compare_ne(e, 0); }

static Expr make_and_or(ExprOp op, const std::vector<Expr>& args) {
  const bool absorbing = op == ExprOp::logical_or;  // the constant that decides the result
  std::vector<Expr> kept;
  std::function<bool(const Expr&)> take = [&](const Expr& arg) {
    if (arg.op() == op) return std::all_of(arg.args().begin(), arg.args().end(), take);
    Expr condition = as_condition(arg);
    if (is_number(condition)) return (number_of(condition) != 0) != absorbing;
    if (std::find(kept.begin(), kept.end(), condition) == kept.end()) kept.push_back(condition);
    return true;
  };
  for (const Expr& arg : args)
    if (!take(arg)) return absorbing ? 1 : 0;
  if (kept.empty()) return absorbing ? 0 : 1;
  if (kept.size() == 1) return kept[0];
  std::sort(kept.begin(), kept.end());
  return Expr::Node::raw(op, std::move(kept));
}

static Expr make_not(const Expr& arg) {
  Expr e = as_condition(arg);
  if (is_number(e)) return number_of(e) == 0 ? 1 : 0;
  if (e.op() == ExprOp::logical_not) return e.args()[0];
  if (e.op() == ExprOp::eq) return compare_ne(e.args()[0], e.args()[1]);
  if (e.op() == ExprOp::ne) return compare_eq(e.args()[0], e.args()[1]);
  bool floats = (e.op() == ExprOp::lt || e.op() == ExprOp::le) && (e.args()[0].is_float() || e.args()[1].is_float());
  if (!floats && e.op() == ExprOp::lt) return compare_le(e.args()[1], e.args()[0]);
  if (!floats && e.op() == ExprOp::le) return compare_lt(e.args()[1], e.args()[0]);
  return Expr::Node::raw(ExprOp::logical_not, {e});
}

// Operators that give floats, or take floats and give an integer: constants are folded, nothing is reordered.
static Expr make_float(ExprOp op, std::vector<Expr> args) {
  if (std::all_of(args.begin(), args.end(), is_number)) {
    std::vector<double> numbers;
    for (const Expr& arg : args) numbers.push_back(number_of(arg));
    double result = 0;
    bool folded = fold_float(op, numbers, result);
    bool to_integer = op == ExprOp::to_int || op == ExprOp::floor_to_int || op == ExprOp::ceil_to_int;
    if (folded) return to_integer ? Expr(static_cast<int64_t>(result)) : Expr::float_constant(result);
  }
  if ((op == ExprOp::to_int || op == ExprOp::floor_to_int || op == ExprOp::ceil_to_int)) {
    if (!args[0].is_float()) return args[0];
    if (args[0].op() == ExprOp::to_float) return args[0].args()[0];
  }
  if (op == ExprOp::to_float && args[0].is_float()) return args[0];
  return Expr::Node::raw(op, std::move(args));
}

static void check_arity(ExprOp op, size_t count) {
  size_t low = 2, high = 2;
  switch (op) {
    case ExprOp::constant:
    case ExprOp::symbol:
    case ExprOp::float_constant:
      fail_bug("Expr::make: constants and symbols have constructors of their own");
    case ExprOp::add:
    case ExprOp::mul:
    case ExprOp::min:
    case ExprOp::max:
    case ExprOp::logical_and:
    case ExprOp::logical_or:
      low = 1, high = SIZE_MAX;
      break;
    case ExprOp::ite:
      low = high = 3;
      break;
    case ExprOp::logical_not:
    case ExprOp::to_float:
    case ExprOp::to_int:
    case ExprOp::floor_to_int:
    case ExprOp::ceil_to_int:
    case ExprOp::sqrt:
      low = high = 1;
      break;
    default:
      break;
  }
  KILN_CHECK(count >= low && count <= high, str("Expr::make: ", count, " operands"));
}

Expr Expr::make(ExprOp op, std::vector<Expr> args) {
  check_arity(op, args.size());
  switch (op) {
    case ExprOp::eq:
    case ExprOp::ne:
    case ExprOp::lt:
    case ExprOp::le:
      return make_relation(op, args[0], args[1]);
    case ExprOp::logical_and:
    case ExprOp::logical_or:
      return make_and_or(op, args);
    case ExprOp::logical_not:
      return make_not(args[0]);
    case ExprOp::ite: {
      Expr condition = as_condition(args[0]);
      if (is_number(condition)) return number_of(condition) != 0 ? args[1] : args[2];
      if (args[1] == args[2]) return args[1];
      return Node::raw(op, {condition, args[1], args[2]});
    }
    default:
      break;
  }
  if (args.size() == 1 && (op == ExprOp::add || op == ExprOp::mul || op == ExprOp::min || op == ExprOp::max))
    return args[0];
  if (gives_float(op, args) || op == ExprOp::to_int || op == ExprOp::floor_to_int || op == ExprOp::ceil_to_int) {
    // Floats are neither associative nor sorted: more than two operands are combined from the left.
    if (args.size() > 2) {
      Expr out = args[0];
      for (size_t i = 1; i < args.size(); ++i) out = make(op, {out, args[i]});
      return out;
    }
    return make_float(op, std::move(args));
  }
  switch (op) {
    case ExprOp::add:
      return make_add(args);
    case ExprOp::mul:
      return make_mul(args);
    case ExprOp::floordiv:
      return normal_floordiv(args[0], args[1]);
    case ExprOp::mod:
      return normal_mod(args[0], args[1]);
    case ExprOp::pow:
      return make_pow(args[0], args[1]);
    case ExprOp::min:
    case ExprOp::max:
      return make_min_max(op, args);
    default:
      fail_bug("Expr::make: operator without a constructor");
  }
}

// Addresses are summed up from 0, over strides of 1: what changes nothing is not multiplied out.
Expr operator+(const Expr& a, const Expr& b) {
  if (a.is_constant(0) && !b.is_float()) return b;
  if (b.is_constant(0) && !a.is_float()) return a;
  return Expr::make(ExprOp::add, {a, b});
}
Expr operator-(const Expr& a) {
  if (a.op() == ExprOp::float_constant) return Expr::float_constant(-a.float_value());
  return Expr::make(ExprOp::mul, {a, -1});
}
Expr operator-(const Expr& a, const Expr& b) {
  if (a.is_constant() && b.is_constant()) return checked::sub(a.value(), b.value());
  if (b.is_constant(0) && !a.is_float()) return a;
  return Expr::make(ExprOp::add, {a, -b});
}
Expr operator*(const Expr& a, const Expr& b) {
  if (a.is_constant(1) && !b.is_float()) return b;
  if (b.is_constant(1) && !a.is_float()) return a;
  if (a.is_constant() && b.is_constant()) return checked::mul(a.value(), b.value());
  return Expr::make(ExprOp::mul, {a, b});
}
Expr floordiv(const Expr& a, const Expr& b) { return Expr::make(ExprOp::floordiv, {a, b}); }
Expr ceildiv(const Expr& a, const Expr& b) {
  if (b.is_constant() && b.value() > 0) return floordiv(a + (b - 1), b);  // reads better than the general form
  return -floordiv(-a, b);
}
Expr mod(const Expr& a, const Expr& b) { return Expr::make(ExprOp::mod, {a, b}); }
Expr min_expr(const Expr& a, const Expr& b) { return Expr::make(ExprOp::min, {a, b}); }
Expr max_expr(const Expr& a, const Expr& b) { return Expr::make(ExprOp::max, {a, b}); }
Expr compare_eq(const Expr& a, const Expr& b) { return Expr::make(ExprOp::eq, {a, b}); }
Expr compare_ne(const Expr& a, const Expr& b) { return Expr::make(ExprOp::ne, {a, b}); }
Expr compare_lt(const Expr& a, const Expr& b) { return Expr::make(ExprOp::lt, {a, b}); }
Expr compare_le(const Expr& a, const Expr& b) { return Expr::make(ExprOp::le, {a, b}); }

// ---- Symbols
// ------------------------------------------------------------------------------------------------------------

Expr substitute(const Expr& expr, const Substitution& map) {
  if (map.empty()) return expr;
  if (expr.is_symbol()) {
    auto found = map.find(expr.name());
    return found == map.end() ? expr : found->second;
  }
  if (expr.args().empty()) return expr;
  std::vector<Expr> args;
  args.reserve(expr.args().size());
  bool changed = false;
  for (const Expr& arg : expr.args()) {
    args.push_back(substitute(arg, map));
    changed = changed || !args.back().same(arg);
  }
  return changed ? Expr::make(expr.op(), std::move(args)) : expr;
}

void collect_symbols(const Expr& expr, std::set<std::string>& out) {
  if (expr.is_symbol()) out.insert(expr.name());
  for (const Expr& arg : expr.args()) collect_symbols(arg, out);
}

bool mentions(const Expr& expr, std::string_view symbol) {
  if (expr.is_symbol()) return expr.name() == symbol;
  return std::any_of(expr.args().begin(), expr.args().end(), [&](const Expr& arg) { return mentions(arg, symbol); });
}

std::optional<Affine> affine_in(const Expr& expr, std::string_view symbol) {
  if (expr.is_float() || expr.is_boolean()) {
    if (mentions(expr, symbol)) return {};
    return Affine{0, expr};
  }
  Polynomial coefficient, rest;
  for (const Term& term : Polynomial::of(expr).terms) {
    Term without{term.coefficient, {}};
    int degree = 0;
    for (const Expr& atom : term.atoms) {
      if (atom.is_symbol() && atom.name() == symbol)
        ++degree;
      else if (mentions(atom, symbol))
        return {};
      else
        without.atoms.push_back(atom);
    }
    if (degree > 1) return {};
    (degree == 1 ? coefficient : rest).terms.push_back(std::move(without));
  }
  return Affine{Polynomial::collect(coefficient.terms).expr(), Polynomial::collect(rest.terms).expr()};
}

// ---- Shapes
// ---------------------------------------------------------------------------------------------------------------

// PyTorch takes max(size, 1) of inner sizes. For a constant 0 that matters; a symbol that is 0 has no element whose
// place could come out wrong, so its plain product is kept.
std::vector<Expr> contiguous_strides(const std::vector<Expr>& sizes) {
  std::vector<Expr> strides(sizes.size());
  Expr stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    if (!sizes[i].is_constant(0)) stride = stride * sizes[i];
  }
  return strides;
}

Expr product(const std::vector<Expr>& factors) {
  if (factors.empty()) return 1;
  return Expr::make(ExprOp::mul, factors);
}

std::string shape_text(const std::vector<Expr>& sizes) {
  return join_map(sizes, ", ", [](const Expr& e) { return e.text(); });
}

}  // namespace kiln
