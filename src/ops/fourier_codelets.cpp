#include "ops/fourier_codelets.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kiln {

using loops::ValueId;

namespace {

constexpr int64_t longest_codelet = 64, largest_prime = 31;

// The first of two factors; n itself where it is prime.
int64_t first_factor(int64_t n) {
  if (n > 4 && n % 4 == 0) return 4;
  for (int64_t p = 2; p * p <= n; ++p)
    if (n % p == 0) return p;
  return n;
}

// cos and sin of 2πk/n. Multiples of an eighth of a turn are exact, and equal where they should be.
struct Root {
  double cos, sin;
};
Root root_of_unity(int64_t k, int64_t n) {
  k %= n;
  const int64_t eighths = 8 * k / n, rest = 8 * k % n;
  // The angle within its eighth, or up to the next one, so that it is at most a quarter of π.
  const int64_t up = eighths % 2 ? n - rest : rest;
  const long double angle =
      std::numbers::pi_v<long double> / 4 * static_cast<long double>(up) / static_cast<long double>(n);
  const long double c = std::cos(angle), s = std::sin(angle);
  const long double x = up == n ? std::sqrt(0.5L) : c, y = up == n ? std::sqrt(0.5L) : s;
  const auto at = [](long double cos, long double sin) {
    return Root{static_cast<double>(cos), static_cast<double>(sin)};
  };
  switch (eighths) {
    case 0:
      return at(x, y);
    case 1:
      return at(y, x);
    case 2:
      return at(-y, x);
    case 3:
      return at(-x, y);
    case 4:
      return at(-x, -y);
    case 5:
      return at(-y, -x);
    case 6:
      return at(y, -x);
    default:
      return at(x, -y);
  }
}

}  // namespace

bool Codelet::takes(int64_t n) {
  if (n < 1 || n > longest_codelet) return false;
  for (int64_t p = 2; p <= n; ++p)
    for (; n % p == 0; n /= p)
      if (p > largest_prime) return false;
  return true;
}

double Codelet::cost(int64_t n) {
  if (n <= 1) return 0;
  const int64_t a = first_factor(n), b = n / a;
  const double half = static_cast<double>((a - 1) / 2);
  if (a == n) return n == 2 ? 4 : 4 * half * half + 10 * half;
  return static_cast<double>(b) * cost(a) + static_cast<double>(a) * cost(b) +
         4.0 * static_cast<double>((a - 1) * (b - 1));
}

// ---- Arithmetic
// -------------------------------------------------------------------------------------------------------

int Codelet::add_node(const Node& node) {
  const std::tuple key(node.kind, node.a, node.b, node.factor);
  if (node.kind != Kind::leaf)
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  nodes_.push_back(node);
  const int made = static_cast<int>(nodes_.size()) - 1;
  if (node.kind != Kind::leaf) known_[key] = made;
  return made;
}

Codelet::Real Codelet::plus(Real x, Real y) {
  if (x.is_zero()) return y;
  if (y.is_zero()) return x;
  if (x.negative == y.negative) {
    const auto [a, b] = std::minmax(x.node, y.node);
    return {add_node({Kind::sum, a, b, 0, loops::no_value}), x.negative};
  }
  if (x.negative) std::swap(x, y);
  if (x.node == y.node) return {};
  // a - b, or -(b - a) where that one is there already.
  if (const auto found = known_.find({Kind::difference, y.node, x.node, 0.0}); found != known_.end())
    return {found->second, true};
  return {add_node({Kind::difference, x.node, y.node, 0, loops::no_value}), false};
}

Codelet::Real Codelet::times(Real x, double factor) {
  if (x.is_zero() || factor == 0) return {};
  if (factor < 0) return minus(times(x, -factor));
  if (factor == 1) return x;
  return {add_node({Kind::scaled, x.node, -1, factor, loops::no_value}), x.negative};
}

Codelet::Real Codelet::times(Real x, Real y) {
  if (x.is_zero() || y.is_zero()) return {};
  return {add_node({Kind::product, x.node, y.node, 0, loops::no_value}), x.negative != y.negative};
}

Codelet::Complex Codelet::times(Complex x, Complex y) {
  return {plus(times(x.re, y.re), minus(times(x.im, y.im))), plus(times(x.re, y.im), times(x.im, y.re))};
}

Codelet::Complex Codelet::times_root(Complex x, int64_t k, int64_t n, int sign) {
  const auto [c, s] = root_of_unity(k, n);
  return {plus(times(x.re, c), minus(times(x.im, sign * s))), plus(times(x.im, c), times(x.re, sign * s))};
}

// ---- Transforms
// -------------------------------------------------------------------------------------------------------

// Elements j and p - j meet the same cosine and opposite sines.
Codelet::Complexes Codelet::of_prime(const Complexes& x, int sign) {
  const auto p = static_cast<int64_t>(x.size());
  if (p == 1) return x;
  if (p == 2) return {plus(x[0], x[1]), minus(x[0], x[1])};
  const int64_t half = (p - 1) / 2;
  Complexes even, odd, out(x.size());
  for (int64_t j = 1; j <= half; ++j) {
    const Complex &a = x[static_cast<size_t>(j)], &b = x[static_cast<size_t>(p - j)];
    even.push_back(plus(a, b));
    odd.push_back(minus(a, b));
  }
  out[0] = x[0];
  for (const Complex& e : even) out[0] = plus(out[0], e);
  for (int64_t k = 1; k <= half; ++k) {
    Complex cosines = x[0], sines;
    for (int64_t j = 1; j <= half; ++j) {
      const auto [c, s] = root_of_unity(j * k, p);
      cosines = plus(cosines, times(even[static_cast<size_t>(j - 1)], c));
      sines = plus(sines, times(odd[static_cast<size_t>(j - 1)], s));
    }
    out[static_cast<size_t>(k)] = plus(cosines, times_i(sines, sign));
    out[static_cast<size_t>(p - k)] = minus(cosines, times_i(sines, sign));
  }
  return out;
}

// n = a b: element j = b j1 + j2, result k = k1 + a k2.
Codelet::Complexes Codelet::transform(const Complexes& x, int sign) {
  const auto n = static_cast<int64_t>(x.size()), a = first_factor(n), b = n / a;
  if (a == n) return of_prime(x, sign);
  std::vector<Complexes> columns;
  for (int64_t j2 = 0; j2 < b; ++j2) {
    Complexes column;
    for (int64_t j1 = 0; j1 < a; ++j1) column.push_back(x[static_cast<size_t>(b * j1 + j2)]);
    columns.push_back(transform(column, sign));
  }
  Complexes out(x.size());
  for (int64_t k1 = 0; k1 < a; ++k1) {
    Complexes row;
    for (int64_t j2 = 0; j2 < b; ++j2)
      row.push_back(times_root(columns[static_cast<size_t>(j2)][static_cast<size_t>(k1)], k1 * j2, n, sign));
    row = transform(row, sign);
    for (int64_t k2 = 0; k2 < b; ++k2) out[static_cast<size_t>(k1 + a * k2)] = row[static_cast<size_t>(k2)];
  }
  return out;
}

// Likewise; rows k1 and a - k1 are each other's conjugates, so half of them are enough.
Codelet::Complexes Codelet::of_real(const Reals& x, int sign) {
  const auto n = static_cast<int64_t>(x.size()), a = first_factor(n), b = n / a;
  Complexes out;
  if (a == n) {
    for (const Real& e : x) out.push_back({e, {}});
    out = of_prime(out, sign);
    out.resize(static_cast<size_t>(n / 2 + 1));
    return out;
  }
  out.resize(static_cast<size_t>(n / 2 + 1));
  std::vector<Complexes> columns;
  for (int64_t j2 = 0; j2 < b; ++j2) {
    Reals column;
    for (int64_t j1 = 0; j1 < a; ++j1) column.push_back(x[static_cast<size_t>(b * j1 + j2)]);
    columns.push_back(of_real(column, sign));
  }
  std::vector<bool> there(out.size());
  for (int64_t k1 = 0; k1 <= a / 2; ++k1) {
    Complexes row;
    Reals real;
    for (int64_t j2 = 0; j2 < b; ++j2) {
      const Complex& z = columns[static_cast<size_t>(j2)][static_cast<size_t>(k1)];
      row.push_back(times_root(z, k1 * j2, n, sign));
      real.push_back(z.re);
    }
    row = k1 == 0 ? of_real(real, sign) : transform(row, sign);
    for (size_t k2 = 0; k2 < row.size(); ++k2) {
      const int64_t k = k1 + a * static_cast<int64_t>(k2);
      const auto place = static_cast<size_t>(std::min(k, n - k));
      if (there[place] && k != static_cast<int64_t>(place)) continue;
      there[place] = true;
      out[place] = k == static_cast<int64_t>(place) ? row[k2] : conj(row[k2]);
    }
  }
  return out;
}

// The other way round: element k = k1 + a k2, result j = j2 + b j1.
Codelet::Reals Codelet::to_real(const Complexes& half, int64_t n) {
  const int64_t a = first_factor(n), b = n / a;
  if (n == 1) return {half[0].re};
  if (n == 2) return {plus(half[0].re, half[1].re), plus(half[0].re, minus(half[1].re))};
  Reals out(static_cast<size_t>(n));
  if (a == n) {
    out[0] = half[0].re;
    for (int64_t k = 1; k <= n / 2; ++k) out[0] = plus(out[0], times(half[static_cast<size_t>(k)].re, 2));
    for (int64_t j = 1; j <= n / 2; ++j) {
      Real even = half[0].re, odd;
      for (int64_t k = 1; k <= n / 2; ++k) {
        const auto [c, s] = root_of_unity(j * k, n);
        even = plus(even, times(half[static_cast<size_t>(k)].re, 2 * c));
        odd = plus(odd, times(half[static_cast<size_t>(k)].im, 2 * s));
      }
      out[static_cast<size_t>(j)] = plus(even, minus(odd));
      out[static_cast<size_t>(n - j)] = plus(even, odd);
    }
    return out;
  }
  std::vector<Complexes> rows;
  for (int64_t k1 = 0; k1 <= a / 2; ++k1) {
    Complexes row;
    for (int64_t k2 = 0; k2 < (k1 == 0 ? b / 2 + 1 : b); ++k2) {
      const int64_t k = k1 + a * k2;
      row.push_back(k <= n / 2 ? half[static_cast<size_t>(k)] : conj(half[static_cast<size_t>(n - k)]));
    }
    if (k1 == 0) {
      const Reals real = to_real(row, b);
      row.clear();
      for (const Real& x : real) row.push_back({x, {}});
    } else {
      row = transform(row, 1);
      for (int64_t j2 = 0; j2 < b; ++j2)
        row[static_cast<size_t>(j2)] = times_root(row[static_cast<size_t>(j2)], k1 * j2, n, 1);
    }
    rows.push_back(std::move(row));
  }
  for (int64_t j2 = 0; j2 < b; ++j2) {
    Complexes column;
    for (const Complexes& row : rows) column.push_back(row[static_cast<size_t>(j2)]);
    const Reals line = to_real(column, a);
    for (int64_t j1 = 0; j1 < a; ++j1) out[static_cast<size_t>(j2 + b * j1)] = line[static_cast<size_t>(j1)];
  }
  return out;
}

// ---- Statements
// -------------------------------------------------------------------------------------------------------

void Codelet::want(Complex result, std::function<void(ValueId, ValueId)> then) {
  results_.push_back({{result.re, result.im}, 2, std::move(then)});
}
void Codelet::want(Real result, std::function<void(ValueId)> then) {
  results_.push_back({{result, {}}, 1, [then = std::move(then)](ValueId v, ValueId) { then(v); }});
}

ValueId Codelet::constant(double number) {
  const auto [found, fresh] = constants_.emplace(number, loops::no_value);
  if (fresh) found->second = k_.constant(dtype_, Scalar(number));
  return found->second;
}

// A negative zero is no better than a positive one: what is taken from 0 is never the former.
ValueId Codelet::made(Real x) {
  if (x.is_zero()) return constant(0);
  const ValueId v = values_[static_cast<size_t>(x.node)];
  return x.negative ? k_.op(ScalarOp::sub, constant(0), v) : v;
}

bool Codelet::take_product(int node, ValueId& a, ValueId& b, bool negative) {
  const Node& n = nodes_[static_cast<size_t>(node)];
  if (uses_[static_cast<size_t>(node)] != 1 || (n.kind != Kind::scaled && n.kind != Kind::product)) return false;
  a = values_[static_cast<size_t>(n.a)];
  if (n.kind == Kind::scaled)
    b = constant(negative ? -n.factor : n.factor);
  else
    b = negative ? k_.op(ScalarOp::neg, values_[static_cast<size_t>(n.b)]) : values_[static_cast<size_t>(n.b)];
  return true;
}

void Codelet::write_node(int at) {
  const Node n = nodes_[static_cast<size_t>(at)];
  ValueId& value = values_[static_cast<size_t>(at)];
  const auto operand = [&](int which) { return values_[static_cast<size_t>(which)]; };
  ValueId a = loops::no_value, b = loops::no_value;
  switch (n.kind) {
    case Kind::leaf:
      value = n.value;
      return;
    case Kind::scaled:
      value = k_.op(ScalarOp::mul, operand(n.a), constant(n.factor));
      return;
    case Kind::product:
      value = k_.op(ScalarOp::mul, operand(n.a), operand(n.b));
      return;
    case Kind::sum:
    case Kind::difference: {
      const bool difference = n.kind == Kind::difference;
      if (values_[static_cast<size_t>(n.b)] == loops::no_value) {
        take_product(n.b, a, b, difference);
        value = k_.op(ScalarOp::fma, {a, b, operand(n.a)});
      } else if (values_[static_cast<size_t>(n.a)] == loops::no_value) {
        take_product(n.a, a, b, false);
        const ValueId c = difference ? k_.op(ScalarOp::neg, operand(n.b)) : operand(n.b);
        value = k_.op(ScalarOp::fma, {a, b, c});
      } else {
        value = k_.op(difference ? ScalarOp::sub : ScalarOp::add, operand(n.a), operand(n.b));
      }
      return;
    }
  }
}

void Codelet::write() {
  const auto is_product = [&](int node) {
    const Kind kind = nodes_[static_cast<size_t>(node)].kind;
    return kind == Kind::scaled || kind == Kind::product;
  };
  uses_.assign(nodes_.size(), 0);
  values_.assign(nodes_.size(), loops::no_value);
  for (const Result& result : results_)
    for (int i = 0; i < result.count; ++i)
      if (!result.parts[i].is_zero()) uses_[static_cast<size_t>(result.parts[i].node)] += 2;
  for (size_t at = nodes_.size(); at-- > 0;) {
    if (uses_[at] == 0) continue;
    for (int from : {nodes_[at].a, nodes_[at].b})
      if (from >= 0) ++uses_[static_cast<size_t>(from)];
  }
  // Products that go into one sum are written with it: of a sum's two, the second.
  std::vector<bool> with_sum(nodes_.size());
  for (const Node& node : nodes_) {
    const auto at = static_cast<size_t>(&node - nodes_.data());
    if (uses_[at] == 0 || (node.kind != Kind::sum && node.kind != Kind::difference)) continue;
    for (int from : {node.b, node.a})
      if (is_product(from) && uses_[static_cast<size_t>(from)] == 1) {
        with_sum[static_cast<size_t>(from)] = true;
        break;
      }
  }
  std::multimap<int, const Result*> ready;
  for (const Result& result : results_) ready.emplace(std::max(result.parts[0].node, result.parts[1].node), &result);
  const auto hand_over = [&](int node) {
    for (auto [at, end] = ready.equal_range(node); at != end; ++at) {
      const Result& result = *at->second;
      const ValueId re = made(result.parts[0]);
      result.then(re, result.count > 1 ? made(result.parts[1]) : loops::no_value);
    }
  };
  hand_over(-1);
  for (size_t at = 0; at < nodes_.size(); ++at) {
    if (uses_[at] > 0 && !with_sum[at]) write_node(static_cast<int>(at));
    if (uses_[at] > 0) hand_over(static_cast<int>(at));
  }
  results_.clear();
}

}  // namespace kiln
