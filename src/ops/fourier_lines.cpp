// A transform of n = n1 n2 … elements as stages of short ones (ops/fourier_codelets.h), after Cooley, Tukey and
// Stockham:
//
//   for line {
//     for r in n/n1 { n1 elements x[c n/n1 + r]; transformed; times exp(2πi k1 r/n); part[r, k1] }
//     for r in … { for k1 { n2 elements part[c … + r, k1]; transformed; times …; part[r, k2, k1] } }
//     for k2 { for k1 { the last elements; transformed; y[k1 + n1 k2 + n1 n2 k3] } } }
//
// The innermost loop of each stage runs along memory, of what it reads and of what it writes, so that lanes do; only
// the first stage reads along one way and writes along another, which is neighbours for the printer to turn. What
// passes between the stages is a temporary that has a place for each line, and becomes scratch where items are known.
//
// Half a spectrum: of real numbers the first stage has k1 up to n1/2, and the last one gives each of its results, or
// its conjugate, to the place in the first half. To real numbers the same is done the other way round.
//
// Along another dimension than the innermost one, lanes are neighbours beside the lines: no stage turns anything. Where
// the result has its transformed dimension innermost, as eager's has, and its argument has not, the first stage turns.
#include "ops/fourier_lines.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "loops/estimate.h"
#include "ops/elementwise.h"
#include "ops/fourier_codelets.h"
#include "ops/lower_call.h"

namespace kiln {

using loops::BufferId;
using loops::KernelBuilder;
using loops::ValueId;

namespace {

constexpr int64_t longest_line = 1 << 14, longest_stage = 36;  // elements
constexpr int64_t beside = 16;                                 // neighbours beside a line that go together
constexpr double many_lines = 12;                              // that fill a vector, about
constexpr double vector_lanes = 16;                            // for weighing alone

using Index = std::vector<Expr>;
using List = std::vector<int64_t>;

// ---- Stages
// -------------------------------------------------------------------------------------------------------

enum class Spectrum : uint8_t { complex, half, to_real };

double vectors(int64_t count) { return std::ceil(static_cast<double>(count) / vector_lanes); }

// What a line costs in these stages, in operations of vectors. Along the line itself lanes are its own elements.
double cost_of(const List& stages, Spectrum kind, bool along) {
  constexpr double moved = 4;  // an element from one stage to the next
  const int64_t first = stages[0];
  int64_t n = 1;
  for (int64_t s : stages) n *= s;
  const int64_t kept = kind == Spectrum::complex ? first : first / 2 + 1;
  const double share = kind == Spectrum::complex ? 1 : 0.6;
  if (!along) {
    double cost = 0;
    for (size_t s = 0; s < stages.size(); ++s) {
      const double times = static_cast<double>(s == 0 ? n / first : n / stages[s] / first * kept);
      cost += times * (Codelet::cost(stages[s]) * (s == 0 ? share : 1) + moved * static_cast<double>(stages[s]));
    }
    return cost;
  }
  double cost = vectors(n / first) * (Codelet::cost(first) * share + moved * static_cast<double>(first)) +
                vectors(n / first) * vectors(kept) * 80;
  for (size_t s = 1; s < stages.size(); ++s)
    cost += static_cast<double>(n / first / stages[s]) * vectors(kept) *
            (Codelet::cost(stages[s]) + moved * static_cast<double>(stages[s]));
  return cost;
}

// What may be written out at once: of f64, whose vectors are pairs of registers, a C++ compiler keeps no more than this
// many values in them.
constexpr double most_of_f64 = 220;

// The stages of the least cost, of short ones; empty: there are none.
List stages_within(int64_t n, Spectrum kind, bool along, double lines, double most) {
  const auto takes = [&](int64_t stage, bool halved) {
    return Codelet::takes(stage) && Codelet::cost(stage) * (halved ? 0.5 : 1) <= most;
  };
  const bool halves = kind != Spectrum::complex;
  const auto takes_stage = [&](int64_t stage) { return stage <= longest_stage && takes(stage, false); };
  const auto takes_first = [&](int64_t stage) { return stage <= longest_stage && takes(stage, halves); };
  // Many lines fill the lanes of short ones better than these themselves do.
  if (takes(n, halves) && (along ? takes_first(n) || lines >= many_lines : n <= 16)) return {n};
  List best;
  double least = 0;
  const auto weigh = [&](const List& stages) {
    // Which half a result is in must be seen from its last digit (or, of what is read, from the first).
    if (kind == Spectrum::half && stages.size() > 2 && stages.back() % 2 != 0) return;
    if (kind == Spectrum::to_real && stages.size() > 2 && stages.front() % 2 != 0) return;
    const double cost =
        cost_of(stages, kind == Spectrum::to_real && stages.size() > 2 ? Spectrum::complex : kind, along);
    if (best.empty() || cost < least) best = stages, least = cost;
  };
  if (takes_first(n)) weigh({n});
  for (int64_t a = 2; a < n; ++a) {
    if (n % a != 0 || !takes_first(a)) continue;
    const int64_t rest = n / a;
    if (takes_stage(rest)) weigh({a, rest});
    for (int64_t b = 2; b < rest; ++b)
      if (rest % b == 0 && takes_stage(b) && takes_stage(rest / b)) weigh({a, b, rest / b});
  }
  return best;
}

List stages_of(int64_t n, Spectrum kind, bool along, double lines, DType dtype) {
  if (n < 1 || n > longest_line) return {};
  constexpr double any = 1e9;
  const List best = stages_within(n, kind, along, lines, dtype == DType::f64 ? most_of_f64 : any);
  return best.empty() ? stages_within(n, kind, along, lines, any) : best;
}

// ---- Tables of roots
// -------------------------------------------------------------------------------------------------------

// [part, a, b]: exp(sign 2πi a b/n) times a scale, computed when weights are loaded, in f64 and rounded once.
BufferId roots(LowerCall& call, DType dtype, int64_t n, int64_t rows, int64_t columns, int sign, double scale) {
  loops::LoopProgram& program = call.program();
  const std::string name = str("roots_", sign < 0 ? "m" : "p", n, "_", rows, "x", columns, "_", dtype_name(dtype),
                               scale == 1 ? "" : str("_by_", scale));
  for (size_t b = 0; b < program.buffers.size(); ++b)
    if (program.buffers[b].name == name && program.buffers[b].role == loops::BufferRole::derived)
      return static_cast<BufferId>(b);
  const Sizes sizes = {Expr(2), Expr(rows), Expr(columns)};
  const BufferId table = program.add_buffer(
      loops::buffer_of_tensor(name, dtype, sizes, contiguous_strides(sizes), loops::BufferRole::derived));
  loops::Kernel kernel;
  kernel.name = name;
  kernel.op_names = {"roots"};
  kernel.origins = call.node().origins;
  KernelBuilder k(program, kernel);
  k.parallel({Expr(rows), Expr(columns)}, [&](const Index& i) {
    // In quarters of the unit 1/n: from the whole turn to half of it, to a quarter, to an eighth.
    const Expr turn = mod(i[0] * i[1], Expr(n)), half = min_expr(turn, Expr(n) - turn) * 4,
               quarter = min_expr(half, Expr(2 * n) - half), eighth = min_expr(quarter, Expr(n) - quarter);
    const auto below = [&](const Expr& a, int64_t limit) {
      return k.op(ScalarOp::le, k.index_value(a), k.constant(DType::i64, Scalar(limit)));
    };
    const auto number = [&](double x) { return k.constant(DType::f64, Scalar(x)); };
    const ValueId angle =
        k.op(ScalarOp::mul, k.index_value(eighth, DType::f64), number(std::numbers::pi / 2 / static_cast<double>(n)));
    const ValueId c = k.op(ScalarOp::cos, angle), s = k.op(ScalarOp::sin, angle), near = below(quarter * 2, n);
    const ValueId x = k.select(near, c, s), y = k.select(near, s, c);
    const ValueId cos = k.select(below(half, n), x, k.op(ScalarOp::neg, x));
    const ValueId sin = k.select(below(turn * 2, n), y, k.op(ScalarOp::neg, y));
    k.store(table, {Expr(0), i[0], i[1]}, k.as(dtype, k.op(ScalarOp::mul, cos, number(scale))));
    k.store(table, {Expr(1), i[0], i[1]}, k.as(dtype, k.op(ScalarOp::mul, sin, number(sign * scale))));
  });
  program.init.push_back(loops::Item{std::move(kernel)});
  return table;
}

// ---- One operator
// -------------------------------------------------------------------------------------------------------

class Lines {
 public:
  Lines(LowerCall& call, int64_t n, Spectrum kind, int sign)
      : call_(call),
        kind_(kind),
        n_(n),
        sign_(sign),
        scale_(std::get<Scalar>(call.scalar("scale")).as_double()),
        in_(call.input("self")),
        out_(call.output()),
        dtype_(buffer(out_).dtype),
        dim_(static_cast<size_t>(call.constant_integer("dim"))),
        rank_(buffer(in_).tensor_sizes().size()) {
    find_lanes();
    stages_ = stages_of(n_, kind_, !beside_ || turns_, count_lines(), dtype_);
    KILN_CHECK(!stages_.empty(), str("a transform of ", n_, " elements as loops"));
    if (kind_ == Spectrum::to_real && stages_.size() > 2) mirrored_ = true;
  }

  void lower() {
    call_.kernel([&](KernelBuilder& k) {
      if (stages_.size() == 1) return lower_single(k);
      const Sizes sizes = buffer(in_).tensor_sizes();
      std::vector<Expr> extents;
      for (size_t d = 0; d < rank_; ++d)
        if (d != dim_ && d != beside_) extents.push_back(sizes[d]);
      if (beside_) extents.push_back(blocks());
      if (extents.empty()) extents.emplace_back(1);
      outer_sizes_ = extents;
      const bool back = kind_ == Spectrum::to_real && !mirrored_;
      make_parts(back);
      k.parallel(extents, [&](const Index& i) {
        outer_ = i;
        back ? lower_to_real(k) : lower_stages(k);
      });
    });
  }

 private:
  const loops::Buffer& buffer(BufferId id) const { return call_.program().buffers[static_cast<size_t>(id)]; }

  // How many there are, about, where that is not known.
  double count_lines() const {
    double lines = 1;
    for (const Expr& size : buffer(in_).tensor_sizes()) lines *= std::max(1.0, loops::estimate(size, call_.program()));
    return lines / std::max(1.0, loops::estimate(buffer(in_).tensor_sizes()[dim_], call_.program()));
  }

  // Lanes run along what is innermost in memory.
  void find_lanes() {
    const auto innermost = [&](BufferId id) -> std::optional<size_t> {
      const Sizes sizes = buffer(id).tensor_sizes(), strides = buffer(id).tensor_strides();
      for (size_t d = rank_; d-- > 0;)
        if (strides[d].is_constant(1) && !sizes[d].is_constant(1)) return d;
      return std::nullopt;
    };
    const auto read = innermost(in_), written = innermost(out_);
    if (read && *read != dim_ && written) beside_ = read, turns_ = *written == dim_;
  }

  // ---- Places
  Expr blocks() const { return ceildiv(buffer(in_).tensor_sizes()[*beside_], Expr(beside)); }
  Expr block_width() const {
    const Expr all = buffer(in_).tensor_sizes()[*beside_];
    return all.is_constant() && all.value() % beside == 0 ? Expr(beside)
                                                          : min_expr(Expr(beside), all - outer_.back() * beside);
  }
  // The element `at` of the line at hand, of the argument or the result.
  Index place(const Expr& at, const Expr& lane) const {
    Index out;
    size_t next = 0;
    for (size_t d = 0; d < rank_; ++d)
      out.push_back(d == dim_ ? at : beside_ && d == *beside_ ? outer_.back() * beside + lane : outer_[next++]);
    return out;
  }
  static Index part(Index index, int which) {
    index.emplace_back(which);
    return index;
  }

  Codelet::Complex load(KernelBuilder& k, Codelet& c, const Index& at, bool conjugate = false) {
    if (!buffer(in_).complex) return {c.value(k.load(in_, at)), {}};
    const Codelet::Complex z = {c.value(k.load(in_, part(at, 0))), c.value(k.load(in_, part(at, 1)))};
    return conjugate ? Codelet::conj(z) : z;
  }
  void store(KernelBuilder& k, Codelet& c, const Index& at, Codelet::Complex z) {
    if (!buffer(out_).complex) return c.want(z.re, [this, &k, at](ValueId v) { k.store(out_, at, v); });
    c.want(z, [this, &k, at](ValueId re, ValueId im) {
      k.store(out_, part(at, 0), re);
      k.store(out_, part(at, 1), im);
    });
  }
  // Element `at` of the spectrum whose first half is there: directly, or the conjugate of its mirror image.
  Codelet::Complex load_of_half(KernelBuilder& k, Codelet& c, const Expr& at, bool direct, const Expr& lane) {
    return direct ? load(k, c, place(at, lane)) : load(k, c, place(Expr(n_) - at, lane), true);
  }

  // ---- What passes between the stages: [outer…, lane where it turns, stage's own dimensions, lane]
  BufferId make_part(const std::string& name, const List& own) {
    std::vector<Expr> sizes = outer_sizes_;
    if (turns_) sizes.emplace_back(beside);
    for (int64_t size : own) sizes.emplace_back(size);
    if (beside_ && !turns_) sizes.emplace_back(beside);
    return call_.temp(dtype_, sizes, name);
  }
  void make_parts(bool back) {
    const int64_t kept = kind_ == Spectrum::complex || mirrored_ ? stages_[0] : stages_[0] / 2 + 1;
    int64_t rest = n_, before = 1;
    for (size_t s = 0; s + 1 < stages_.size(); ++s) {
      rest /= stages_[s];
      const List own = back ? List{kept, stages_[1]} : s == 0 ? List{rest, kept} : List{rest, stages_[s], before, kept};
      parts_.push_back({make_part(str("stage", s, "_real"), own), make_part(str("stage", s, "_imag"), own)});
      if (s > 0) before *= stages_[s];
    }
  }
  Index part_place(const Index& own, const Expr& lane) const {
    Index out = outer_;
    if (turns_) out.push_back(lane);
    out.insert(out.end(), own.begin(), own.end());
    if (beside_ && !turns_) out.push_back(lane);
    return out;
  }
  Codelet::Complex load_part(KernelBuilder& k, Codelet& c, size_t stage, const Index& own, const Expr& lane) {
    const Index at = part_place(own, lane);
    const ValueId re = k.load(parts_[stage][0], at), im = k.load(parts_[stage][1], at);
    return {c.value(re), c.value(im)};
  }
  void store_part(KernelBuilder& k, Codelet& c, size_t stage, const Index& own, const Expr& lane, Codelet::Complex z) {
    const Index at = part_place(own, lane);
    c.want(z, [this, &k, stage, at](ValueId re, ValueId im) {
      k.store(parts_[stage][0], at, re);
      k.store(parts_[stage][1], at, im);
    });
  }

  // Times the table's element in row `a`.
  Codelet::Complex turned(KernelBuilder& k, Codelet& c, Codelet::Complex z, BufferId table, int64_t a, const Expr& b,
                          double scale) {
    if (a == 0) return c.times(z, scale);
    const ValueId re = k.load(table, {Expr(0), Expr(a), b}), im = k.load(table, {Expr(1), Expr(a), b});
    return c.times(z, {c.value(re), c.value(im)});
  }

  // ---- Loops
  // Around one stage: its own loops, the innermost of which runs in lanes, or the neighbours beside the line do.
  void loops(KernelBuilder& k, const List& own, bool first, const std::function<void(const Index&, const Expr&)>& f) {
    std::vector<Expr> extents;
    const bool outside = turns_ && !first;
    if (outside) extents.push_back(block_width());
    for (int64_t size : own)
      if (size > 1) extents.emplace_back(size);
    if (beside_ && !outside) extents.push_back(block_width());
    if (extents.empty()) extents.emplace_back(1);
    k.parallel(extents, [&](const Index& i) {
      Index at;
      size_t next = outside ? 1 : 0;
      for (int64_t size : own) at.push_back(size > 1 ? i[next++] : Expr(0));
      f(at, beside_ ? outside ? i[0] : i.back() : Expr(0));
    });
  }

  // A line that is written out as a whole: lanes are lines.
  void lower_single(KernelBuilder& k) {
    const Sizes sizes = buffer(in_).tensor_sizes();
    std::vector<Expr> extents;
    std::vector<size_t> order;
    for (size_t d = 0; d < rank_; ++d)
      if (d != dim_ && d != beside_) order.push_back(d);
    if (beside_) order.push_back(*beside_);
    for (size_t d : order) extents.push_back(sizes[d]);
    if (extents.empty()) extents.emplace_back(1);
    k.parallel(extents, [&](const Index& i) {
      const auto at = [&](int64_t element) {
        Index out(rank_, Expr(element));
        for (size_t d = 0; d < order.size(); ++d) out[order[d]] = i[d];
        return out;
      };
      Codelet c(k, dtype_);
      Codelet::Complexes x, y;
      const int64_t given = kind_ == Spectrum::to_real ? n_ / 2 + 1 : n_;
      for (int64_t e = 0; e < given; ++e) x.push_back(load(k, c, at(e)));
      if (kind_ == Spectrum::to_real) {
        for (const Codelet::Real& r : c.to_real(x, n_)) y.push_back({r, {}});
      } else {
        y = transformed(c, x, kind_ == Spectrum::half);
      }
      for (size_t e = 0; e < y.size(); ++e) store(k, c, at(static_cast<int64_t>(e)), c.times(y[e], scale_));
      c.write();
    });
  }
  Codelet::Complexes transformed(Codelet& c, const Codelet::Complexes& x, bool half) const {
    if (!half) return c.transform(x, sign_);
    Codelet::Reals real;
    for (const Codelet::Complex& e : x) real.push_back(e.re);
    return c.of_real(real, sign_);
  }

  void lower_stages(KernelBuilder& k) {
    const size_t last = stages_.size() - 1;
    const bool half = kind_ == Spectrum::half;
    const int64_t first = stages_[0], kept = half ? first / 2 + 1 : first;
    int64_t rest = n_ / first, before = 1;
    loops(k, {rest}, true, [&](const Index& i, const Expr& lane) {
      const BufferId table = roots(call_, dtype_, n_, kept, rest, sign_, scale_);
      Codelet c(k, dtype_);
      Codelet::Complexes x;
      for (int64_t e = 0; e < first; ++e) {
        const Expr at = Expr(e * rest) + i[0];
        x.push_back(mirrored_ ? load_of_half(k, c, at, e < first / 2, lane) : load(k, c, place(at, lane)));
      }
      const Codelet::Complexes y = transformed(c, x, half);
      for (int64_t k1 = 0; k1 < kept; ++k1)
        store_part(k, c, 0, {i[0], Expr(k1)}, lane, turned(k, c, y[static_cast<size_t>(k1)], table, k1, i[0], scale_));
      c.write();
    });
    for (size_t s = 1; s <= last; ++s) {
      const int64_t n = stages_[s];
      rest /= n;
      // Numbers of what is still to come, digits that are there already, and the first digit.
      List own = {rest};
      if (s > 1) own.push_back(stages_[s - 1]), own.push_back(before / stages_[s - 1]);
      own.push_back(kept);
      loops(k, own, false, [&](const Index& i, const Expr& lane) {
        const Expr& to_come = i[0];
        const Expr& digit = i.back();
        const Expr between = s > 1 ? i[1] * (before / stages_[s - 1]) + i[2] : Expr(0);
        Codelet c(k, dtype_);
        Codelet::Complexes x;
        for (int64_t e = 0; e < n; ++e) {
          const Expr at = Expr(e * rest) + to_come;
          x.push_back(load_part(k, c, s - 1, s > 1 ? Index{at, i[1], i[2], digit} : Index{at, digit}, lane));
        }
        const Codelet::Complexes y = c.transform(x, sign_);
        for (int64_t e = 0; e < n; ++e) {
          const Codelet::Complex z = y[static_cast<size_t>(e)];
          if (s < last) {
            const BufferId table = roots(call_, dtype_, n * rest, n, rest, sign_, 1);
            store_part(k, c, s, {to_come, Expr(e), between, digit}, lane, turned(k, c, z, table, e, to_come, 1));
            continue;
          }
          const Expr at = digit + (between + Expr(e * before)) * first;
          const bool direct = !half || e <= (n - 1) / 2;
          store(k, c, place(direct ? at : Expr(n_) - at, lane), direct ? z : Codelet::conj(z));
        }
        c.write();
      });
      before *= n;
    }
  }

  // n = n1 n2: of k = k1 + n1 k2, with k1 up to n1/2, over k2; then from the half over k1 to real numbers.
  void lower_to_real(KernelBuilder& k) {
    const int64_t first = stages_[0], second = stages_[1], kept = first / 2 + 1;
    loops(k, {kept}, true, [&](const Index& i, const Expr& lane) {
      const BufferId table = roots(call_, dtype_, n_, second, kept, 1, scale_);
      Codelet c(k, dtype_);
      Codelet::Complexes x;
      for (int64_t e = 0; e < second; ++e)
        x.push_back(load_of_half(k, c, i[0] + Expr(first * e), e <= (second - 1) / 2, lane));
      const Codelet::Complexes y = c.transform(x, 1);
      for (int64_t e = 0; e < second; ++e)
        store_part(k, c, 0, {i[0], Expr(e)}, lane, turned(k, c, y[static_cast<size_t>(e)], table, e, i[0], scale_));
      c.write();
    });
    loops(k, {second}, false, [&](const Index& i, const Expr& lane) {
      Codelet c(k, dtype_);
      Codelet::Complexes x;
      for (int64_t e = 0; e < kept; ++e) x.push_back(load_part(k, c, 0, {Expr(e), i[0]}, lane));
      const Codelet::Reals y = c.to_real(x, first);
      for (int64_t e = 0; e < first; ++e)
        store(k, c, place(i[0] + Expr(e * second), lane), {y[static_cast<size_t>(e)], {}});
      c.write();
    });
  }

  LowerCall& call_;
  Spectrum kind_;
  int64_t n_;
  int sign_;
  double scale_;
  BufferId in_, out_;
  DType dtype_;
  size_t dim_, rank_;
  std::optional<size_t> beside_;  // the dimension whose neighbours are the lanes, where it is not the line itself
  bool turns_ = false;            // the result's lines are innermost nevertheless
  bool mirrored_ = false;         // half a spectrum is read as a whole one
  List stages_;
  Index outer_;
  std::vector<Expr> outer_sizes_;
  std::vector<std::array<BufferId, 2>> parts_;
};

// ---- The operators
// -------------------------------------------------------------------------------------------------------

std::vector<bool> innermost_of(const OpCall& call, size_t rank) {
  std::vector<bool> out(rank);
  for (int64_t d : call.constant_integers("innermost")) out.at(static_cast<size_t>(d)) = true;
  return out;
}

int64_t line_length(const OpCall& call) {
  const Sizes& sizes = call.tensor("self")->type.sizes;
  const Expr& n = sizes.at(static_cast<size_t>(call.constant_integer("dim")));
  if (!n.is_constant())
    fail_unsupported("K0202", str(call.schema().name, " needs a length that is known when compiling"), call.where());
  return n.value();
}

Tensor scaled(ReferenceCall& call, Tensor work, const OpCall& typed) {
  const double scale = call.real("scale");
  for (int64_t i = 0; i < work.numel(); ++i) work.as<std::complex<double>>()[i] *= scale;
  const Tensor self = call.tensor("self");
  Sizes strides = fft_strides(to_exprs(work.sizes), to_exprs(self.strides), innermost_of(typed, work.sizes.size()));
  Tensor out = Tensor::empty_strided(call.result_dtype(), work.sizes, to_numbers(strides));
  copy_into(work, out);
  return out;
}

void add_line(Registry& r) {
  OpRecord record;
  record.name_space = "kiln";
  record.schema_text =
      "fft_line(Tensor self, int dim, int[] innermost, bool forward, bool half, float scale) -> Tensor";
  record.facts = complex_by(ComplexRule::native);
  record.infer = [](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    Sizes sizes = self.sizes;
    const int64_t n = line_length(call);
    if (call.boolean("half")) sizes[static_cast<size_t>(call.constant_integer("dim"))] = Expr(n / 2 + 1);
    call.results = {strided_type(complex_of(self.dtype), sizes,
                                 fft_strides(sizes, self.strides, innermost_of(call, sizes.size())), self.device)};
  };
  record.lower = [](LowerCall& call) {
    Lines(call, line_length(call), call.boolean("half") ? Spectrum::half : Spectrum::complex,
          call.boolean("forward") ? -1 : 1)
        .lower();
  };
  auto parsed = std::make_shared<const Schema>(parse_schema(record.schema_text, "kiln"));
  record.reference = [parsed](ReferenceCall& call) {
    OpCall typed(call.node(), *parsed);
    const Tensor self = convert(call.tensor("self"), DType::c128);
    const auto dim = static_cast<size_t>(call.integer("dim"));
    const int64_t n = self.sizes[dim];
    call.results = {Datum{
        scaled(call, dft(self, dim, call.boolean("half") ? n / 2 + 1 : n, call.boolean("forward") ? -1 : 1), typed)}};
  };
  const auto sample = [](std::vector<int64_t> sizes, DType dtype, int64_t dim, List innermost, bool forward, bool half,
                         double scale = 1) {
    return Sample{{Sample::TensorSpec{std::move(sizes), dtype}, Scalar(dim), std::move(innermost), Scalar(forward),
                   Scalar(half), Scalar(scale)}};
  };
  record.samples = {
      sample({3, 8}, DType::c64, 1, {1}, true, false),
      sample({21, 5}, DType::c64, 1, {1}, false, false, 1.0 / 3),
      sample({2, 31}, DType::c128, 1, {1}, true, false),
      sample({40}, DType::c64, 0, {0}, true, false, 0.5),
      sample({2, 400}, DType::f32, 1, {1}, true, true),
      sample({3, 224}, DType::f32, 1, {1}, true, true),
      sample({2, 75}, DType::f64, 1, {1}, true, true),
      sample({2, 63}, DType::f32, 1, {1}, true, false),
      sample({2, 62, 3}, DType::c64, 1, {1}, true, false),
      sample({2, 48, 21}, DType::c64, 1, {0, 1, 2}, true, false, 0.25),
      sample({2, 12, 5}, DType::c64, 1, {0, 1, 2}, false, false),
      sample({2, 40, 5}, DType::f32, 1, {1}, true, true),
      sample({2048}, DType::f32, 0, {0}, true, true),
      sample({2, 2000}, DType::c64, 1, {1}, false, false, 1.0 / 2000),
      sample({2, 7, 3}, DType::f32, 1, {0, 1, 2}, true, true),
  };
  r.add(std::move(record));
}

void add_line_to_real(Registry& r) {
  OpRecord record;
  record.name_space = "kiln";
  record.schema_text = "fft_line_to_real(Tensor self, int dim, int[] innermost, int n, float scale) -> Tensor";
  record.facts = complex_by(ComplexRule::native);
  record.infer = [](InferCall& call) {
    const TensorType& self = call.tensor("self")->type;
    Sizes sizes = self.sizes;
    sizes[static_cast<size_t>(call.constant_integer("dim"))] = call.integer("n");
    call.results = {strided_type(complex_part(self.dtype), sizes,
                                 fft_strides(sizes, self.strides, innermost_of(call, sizes.size())), self.device)};
  };
  record.lower = [](LowerCall& call) { Lines(call, call.constant_integer("n"), Spectrum::to_real, 1).lower(); };
  auto parsed = std::make_shared<const Schema>(parse_schema(record.schema_text, "kiln"));
  record.reference = [parsed](ReferenceCall& call) {
    OpCall typed(call.node(), *parsed);
    const auto dim = static_cast<size_t>(call.integer("dim"));
    const int64_t n = call.integer("n");
    const Tensor whole = whole_spectrum(convert(call.tensor("self"), DType::c128), dim, n);
    call.results = {Datum{scaled(call, dft(whole, dim, n, 1), typed)}};
  };
  const auto sample = [](std::vector<int64_t> sizes, DType dtype, int64_t dim, List innermost, int64_t n,
                         double scale) {
    return Sample{
        {Sample::TensorSpec{std::move(sizes), dtype}, Scalar(dim), std::move(innermost), Scalar(n), Scalar(scale)}};
  };
  record.samples = {
      sample({3, 5}, DType::c64, 1, {1}, 8, 0.125),         sample({18, 4}, DType::c64, 1, {1}, 7, 1),
      sample({2, 257}, DType::c64, 1, {1}, 512, 1.0 / 512), sample({2, 38}, DType::c128, 1, {1}, 75, 1),
      sample({2, 201}, DType::c64, 1, {1}, 400, 1),         sample({2, 25, 18}, DType::c64, 1, {0, 1, 2}, 48, 1),
      sample({2, 21, 3}, DType::c64, 1, {1}, 40, 1),        sample({2, 1025}, DType::c64, 1, {1}, 2048, 0.5),
      sample({2, 4, 3}, DType::c64, 1, {0, 1, 2}, 6, 1),
  };
  r.add(std::move(record));
}

}  // namespace

// Of real numbers, forwards and backwards, and of complex ones, along any dimension.
bool takes_fourier_line(int64_t n) {
  for (Spectrum kind : {Spectrum::complex, Spectrum::half, Spectrum::to_real})
    for (bool along : {false, true})
      if (stages_of(n, kind, along, 1, DType::f32).empty()) return false;
  return true;
}

void register_fourier_lines(Registry& r) {
  add_line(r);
  add_line_to_real(r);
}

}  // namespace kiln
