// Fourier transforms: one dimension after the other as loops where lengths are known (ops/fourier_lines.h), else three
// library kernels (complex to complex, real to complex, complex to real), and the operators of torch.fft and the
// short-time transforms in terms of them.
#include <cmath>
#include <numbers>

#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/fourier_lines.h"

namespace kiln {

namespace {
using Complex = std::complex<double>;
using List = std::vector<int64_t>;
}  // namespace

// ---- The kernels ----

// Eager's layout: transformed dimensions innermost in their order, the others outside in the order of their strides.
Sizes fft_strides(const Sizes& sizes, const Sizes& strides, const std::vector<bool>& transformed) {
  std::vector<size_t> outer, order;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!transformed[d]) outer.push_back(d);
  bool known = true;
  for (size_t d : outer) known &= strides[d].is_constant();
  if (known)
    std::stable_sort(outer.begin(), outer.end(),
                     [&](size_t x, size_t y) { return strides[x].value() > strides[y].value(); });
  order = outer;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (transformed[d]) order.push_back(d);
  Sizes out(sizes.size(), Expr(1));
  Expr stride(1);
  for (size_t i = order.size(); i-- > 0;) {
    out[order[i]] = stride;
    stride = stride * (sizes[order[i]].is_constant(0) ? Expr(1) : sizes[order[i]]);
  }
  return out;
}

namespace {

std::vector<bool> marked(const OpCall& call, const List& dims, int64_t rank) {
  return wrap_dims(call, dims, rank, false);
}

enum class Kind : uint8_t { c2c, r2c, c2r };

void infer_fft(InferCall& call, Kind kind) {
  const TensorType& self = call.tensor("self")->type;
  bool real = kind == Kind::r2c;
  if (real ? self.dtype != DType::f32 && self.dtype != DType::f64
           : self.dtype != DType::c64 && self.dtype != DType::c128)
    refuse_dtype(call, self.dtype);
  List dims = call.constant_integers("dim");
  auto rank = static_cast<int64_t>(self.sizes.size());
  std::vector<bool> transformed = marked(call, dims, rank);
  Sizes sizes = self.sizes;
  if (!dims.empty()) {
    size_t last = static_cast<size_t>(wrap_dim(call, dims.back(), rank));
    if (real && call.boolean("onesided")) sizes[last] = floordiv(sizes[last], Expr(2)) + Expr(1);
    if (kind == Kind::c2r) sizes[last] = call.integer("last_dim_size");
  }
  DType dtype = real ? complex_of(self.dtype) : kind == Kind::c2r ? complex_part(self.dtype) : self.dtype;
  call.results = {strided_type(dtype, sizes, fft_strides(sizes, self.strides, transformed), self.device)};
}

}  // namespace

// The definition, one dimension at a time, in long double.
Tensor dft(const Tensor& from, size_t dim, int64_t outputs, double sign) {
  std::vector<int64_t> sizes = from.sizes;
  int64_t n = sizes[dim], inner = 1;
  for (size_t d = dim + 1; d < sizes.size(); ++d) inner *= sizes[d];
  sizes[dim] = outputs;
  Tensor out = Tensor::empty(DType::c128, sizes);
  if (out.numel() == 0) return out;
  using Long = std::complex<long double>;
  std::vector<Long> roots;
  for (int64_t k = 0; k < n; ++k)
    roots.push_back(std::polar(
        1.0L, sign * 2 * std::numbers::pi_v<long double> * static_cast<long double>(k) / static_cast<long double>(n)));
  const Complex* x = from.as<Complex>();
  Complex* y = out.as<Complex>();
  for (int64_t o = 0; o < out.numel() / (outputs * inner); ++o)
    for (int64_t k = 0; k < outputs; ++k)
      for (int64_t i = 0; i < inner; ++i) {
        Long sum = 0;
        for (int64_t j = 0; j < n; ++j) sum += Long(x[(o * n + j) * inner + i]) * roots[static_cast<size_t>(j * k % n)];
        y[(o * outputs + k) * inner + i] = Complex(sum);
      }
  return out;
}

// A half spectrum made whole: element n - k is the conjugate of element k; what must be real is taken as real.
Tensor whole_spectrum(const Tensor& half, size_t dim, int64_t n) {
  std::vector<int64_t> sizes = half.sizes;
  int64_t given = sizes[dim], inner = 1;
  for (size_t d = dim + 1; d < sizes.size(); ++d) inner *= sizes[d];
  sizes[dim] = n;
  Tensor out = Tensor::empty(DType::c128, sizes);
  if (out.numel() == 0) return out;
  for (int64_t o = 0; o < out.numel() / (n * inner); ++o)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t i = 0; i < inner; ++i) {
        int64_t from = k <= n / 2 ? k : n - k;
        Complex value = from < given ? half.as<Complex>()[(o * given + from) * inner + i] : Complex(0);
        if (k > n / 2) value = std::conj(value);
        if (k == 0 || 2 * k == n) value = value.real();
        out.as<Complex>()[(o * n + k) * inner + i] = value;
      }
  return out;
}

namespace {

double scale_of(int64_t normalization, double elements) {
  return normalization == 0 ? 1.0 : normalization == 1 ? 1 / std::sqrt(elements) : 1 / elements;
}

void reference_fft(ReferenceCall& call, Kind kind, const Schema& schema) {
  OpCall typed(call.node(), schema);
  Tensor self = call.tensor("self");
  Tensor work = convert(self, DType::c128);
  List dims = call.integers("dim");
  for (int64_t& dim : dims) dim = dim < 0 ? dim + self.rank() : dim;
  bool onesided = kind == Kind::r2c && call.boolean("onesided");
  double sign = kind == Kind::r2c || (kind == Kind::c2c && call.boolean("forward")) ? -1 : 1, elements = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    auto dim = static_cast<size_t>(dims[i]);
    bool last = i + 1 == dims.size();
    if (last && kind == Kind::c2r) work = whole_spectrum(work, dim, call.integer("last_dim_size"));
    int64_t n = work.sizes[dim];
    elements *= static_cast<double>(n);
    work = dft(work, dim, last && onesided ? n / 2 + 1 : n, sign);
  }
  double scale = scale_of(call.integer("normalization"), elements);
  for (int64_t i = 0; i < work.numel(); ++i) work.as<Complex>()[i] *= scale;
  Sizes strides = fft_strides(to_exprs(work.sizes), to_exprs(self.strides), marked(typed, dims, self.rank()));
  Tensor out = Tensor::empty_strided(call.result_dtype(), work.sizes, to_numbers(strides));
  copy_into(work, out);
  call.results = {Datum{out}};
}

// One dimension after the other as loops, the one that has half a spectrum at its end first or last. False: some length
// is not known, or not made of short ones.
bool build_lines(DecomposeCall& call, Kind kind) {
  Value* x = call.tensor("self");
  const auto rank = static_cast<int64_t>(x->type.sizes.size());
  List dims = call.constant_integers("dim");
  for (int64_t& dim : dims) dim = wrap_dim(call, dim, rank);
  std::vector<Expr> lengths;
  for (int64_t dim : dims) lengths.push_back(x->type.sizes[static_cast<size_t>(dim)]);
  if (kind == Kind::c2r && !dims.empty()) lengths.back() = call.integer("last_dim_size");
  double elements = 1;
  for (const Expr& n : lengths) {
    if (!n.is_constant() || !takes_fourier_line(n.value())) return false;
    elements *= static_cast<double>(n.value());
  }
  if (dims.empty()) return false;
  const double scale = scale_of(call.constant_integer("normalization"), elements);
  const Argument innermost = call.int_list(Sizes(dims.begin(), dims.end()));
  const bool forward = kind == Kind::r2c || (kind == Kind::c2c && call.boolean("forward"));
  if (kind == Kind::r2c) std::reverse(dims.begin(), dims.end());
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool last = i + 1 == dims.size();
    const Scalar factor(last ? scale : 1.0);
    if (last && kind == Kind::c2r) {
      x = call.call("kiln.fft_line_to_real.default",
                    {x, Scalar(dims[i]), innermost, Scalar(lengths.back().value()), factor});
      break;
    }
    const bool half = i == 0 && kind == Kind::r2c && call.boolean("onesided");
    x = call.call("kiln.fft_line.default", {x, Scalar(dims[i]), innermost, Scalar(forward), Scalar(half), factor});
  }
  call.result(x);
  return true;
}

// The operator itself, and the library kernel that it is where build_lines cannot.
void add_kernel(Registry& r, const char* schema, const char* library, Kind kind, std::vector<Sample> samples) {
  for (const bool calls_library : {true, false}) {
    OpRecord record;
    record.name_space = calls_library ? "kiln" : "aten";
    record.schema_text = schema;
    auto parsed = std::make_shared<const Schema>(parse_schema(record.schema_text));
    record.infer = [kind](InferCall& call) { infer_fft(call, kind); };
    record.reference = [kind, parsed](ReferenceCall& call) { reference_fft(call, kind, *parsed); };
    record.samples = samples;
    record.facts = complex_by(ComplexRule::native);
    if (calls_library) {
      record.library = library;
    } else {
      record.decompose = [kind, parsed](DecomposeCall& call) {
        if (build_lines(call, kind)) return;
        std::vector<Argument> args;
        for (const SchemaArg& arg : parsed->args) args.push_back(call.arg(arg.name));
        std::string name = parsed->name;
        name.replace(0, std::string_view("aten").size(), "kiln");
        call.result(call.call(name, std::move(args)));
      };
    }
    r.add(std::move(record));
  }
}

void add_kernels(Registry& r) {
  Scalar yes(true), no(false), none(0), root(1), whole(2);
  add_kernel(r, "_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor", "fft_c2c", Kind::c2c,
             {{{spec({3, 8}, DType::c64), List{1}, none, yes}},
              {{spec({6, 5}, DType::c128), List{0, 1}, root, no}},
              {{spec({67}, DType::c128), List{0}, whole, yes}},
              {{spec({2, 62, 3}, DType::c64), List{1}, none, yes}},
              {{spec({3}), List{0}, none, yes}, true}});
  add_kernel(r, "_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", "fft_r2c", Kind::r2c,
             {{{spec({3, 12}), List{1}, none, yes}},
              {{spec({4, 7}, DType::f64), List{0, 1}, root, yes}},
              {{spec({9}), List{0}, none, no}}});
  add_kernel(r, "_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor", "fft_c2r",
             Kind::c2r,
             {{{spec({3, 5}, DType::c64), List{1}, whole, Scalar(8)}},
              {{spec({4, 3}, DType::c128), List{0, 1}, whole, Scalar(5)}}});
}

// ---- torch.fft ----

// How a direction is normalised by the name of the norm.
int64_t normalization(DecomposeCall& call, bool forward) {
  std::string norm = call.given("norm") ? call.string("norm") : "backward";
  if (norm == "ortho") return 1;
  if (norm != "backward" && norm != "forward")
    fail_user("K0201", str("Invalid normalization mode: \"", norm, "\""), call.where());
  return (norm == "forward") == forward ? 2 : 0;
}

// The dimension cut or padded with zeros to n elements.
Value* resized(Build& b, Value* x, int64_t dim, const Expr& n) {
  auto at = static_cast<size_t>(dim);
  Expr size = x->type.sizes[at];
  if (prove_eq(size, n, b.call().ranges()) == Proof::yes) return x;
  if (n.is_constant() && n.value() < 1)
    fail_user("K0201", str("Invalid number of data points (", n.value(), ") specified"), b.call().where());
  Expr kept = min_expr(size, n);
  if (prove_le(size, n, b.call().ranges()) != Proof::yes)
    x = b("slice.Tensor", {x, Scalar(dim), Scalar(0), b.ints(Sizes{kept}).as_list()[0]});
  if (prove_le(n, size, b.call().ranges()) == Proof::yes) return x;
  Sizes pad;
  for (size_t d = x->type.sizes.size(); d-- > at;) {
    pad.push_back(Expr(0));
    pad.push_back(d == at ? n - kept : Expr(0));
  }
  return b("constant_pad_nd", {x, b.ints(pad)});
}

Value* as_float(Build& b, Value* x) { return b.to(x, to_float(x->type.dtype)); }
Value* as_complex(Build& b, Value* x) {
  x = as_float(b, x);
  return is_complex(x->type.dtype) ? x : b.to(x, complex_of(x->type.dtype));
}
Value* conj(Build& b, Value* x) { return b("conj_physical", {x}); }

Value* c2c(Build& b, Value* x, const List& dims, bool forward) {
  Argument list = b.ints(Sizes(dims.begin(), dims.end()));
  Scalar norm(normalization(b.call(), forward));
  if (is_complex(x->type.dtype)) return b("_fft_c2c", {x, list, norm, Scalar(forward)});
  Value* spectrum = b("_fft_r2c", {x, list, norm, Scalar(false)});
  return forward ? spectrum : conj(b, spectrum);
}
Value* r2c(Build& b, Value* x, const List& dims, bool forward) {
  if (is_complex(x->type.dtype))
    fail_user("K0203", str(op_short_name(b.call().schema().name), " expects a real input tensor"), b.call().where());
  Value* half = b("_fft_r2c",
                  {x, b.ints(Sizes(dims.begin(), dims.end())), Scalar(normalization(b.call(), forward)), Scalar(true)});
  return forward ? half : conj(b, half);
}
Value* c2r(Build& b, Value* x, const List& dims, const Expr& n, bool forward) {
  if (forward) x = conj(b, x);
  return b("_fft_c2r", {x, b.ints(Sizes(dims.begin(), dims.end())), Scalar(normalization(b.call(), forward)),
                        b.ints(Sizes{n}).as_list()[0]});
}

enum class Mode : uint8_t { complex, to_half, from_half };

// One dimension.
void build_fft(Build& b, Mode mode, bool forward) {
  DecomposeCall& call = b.call();
  Value* x = as_float(b, call.tensor("self"));
  int64_t dim = wrap_dim(call, call.constant_integer("dim"), rank_of(x));
  Expr size = x->type.sizes.at(static_cast<size_t>(dim));
  bool given = call.given("n");
  if (mode == Mode::from_half) {
    Expr n = given ? call.integer("n") : (size - Expr(1)) * Expr(2);
    x = resized(b, as_complex(b, x), dim, floordiv(n, Expr(2)) + Expr(1));
    return call.result(c2r(b, x, {dim}, n, forward));
  }
  if (given) x = resized(b, x, dim, call.integer("n"));
  call.result(mode == Mode::to_half ? r2c(b, x, {dim}, forward) : c2c(b, x, {dim}, forward));
}

// Several: `dim` (default: the last ones of s, or all), cut or padded to s.
void build_fftn(Build& b, Mode mode, bool forward) {
  DecomposeCall& call = b.call();
  Value* x = as_float(b, call.tensor("self"));
  int64_t rank = rank_of(x);
  Sizes s;
  if (call.given("s")) s = call.integers("s");
  List dims;
  if (call.given("dim")) {
    dims = call.constant_integers("dim");
  } else {
    int64_t count = s.empty() ? rank : static_cast<int64_t>(s.size());
    for (int64_t d = rank - count; d < rank; ++d) dims.push_back(d);
  }
  for (int64_t& dim : dims) dim = wrap_dim(call, dim, rank);
  if (!s.empty() && s.size() != dims.size())
    fail_user("K0201", "When given, dim and shape arguments must have the same length", call.where());
  Expr last_size;
  if (mode == Mode::from_half) x = as_complex(b, x);
  for (size_t i = 0; i < dims.size(); ++i) {
    Expr own = x->type.sizes[static_cast<size_t>(dims[i])];
    bool last = i + 1 == dims.size(), keeps = s.empty() || s[i].is_constant(-1);
    Expr n = keeps ? own : s[i];
    if (last && mode == Mode::from_half) {
      last_size = keeps ? (own - Expr(1)) * Expr(2) : n;
      n = floordiv(last_size, Expr(2)) + Expr(1);
    }
    x = resized(b, x, dims[i], n);
  }
  if (mode == Mode::from_half) return call.result(c2r(b, x, dims, last_size, forward));
  if (mode == Mode::to_half && !forward && dims.size() > 1) {
    // One direction, then the others, as eager does it: the layout of the result shows it.
    Value* half = r2c(b, x, {dims.back()}, forward);
    return call.result(c2c(b, half, List(dims.begin(), dims.end() - 1), forward));
  }
  if (mode == Mode::to_half) return call.result(r2c(b, x, dims, forward));
  if (dims.empty()) return call.result(as_complex(b, x));
  call.result(c2c(b, x, dims, forward));
}

void add_transforms(Registry& r) {
  struct Row {
    const char* name;
    Mode mode;
    bool forward;
  };
  const Row rows[] = {{"fft", Mode::complex, true},    {"ifft", Mode::complex, false},
                      {"rfft", Mode::to_half, true},   {"irfft", Mode::from_half, false},
                      {"hfft", Mode::from_half, true}, {"ihfft", Mode::to_half, false}};
  for (const Row& row : rows) {
    DType dtype = row.mode == Mode::to_half ? DType::f32 : DType::c64;
    add_composite(
        r, {.schema = str("fft_", row.name, "(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"),
            .build = [row](Build& b) { build_fft(b, row.mode, row.forward); },
            .samples = {{{spec({3, 8}, dtype)}},
                        {{spec({6, 3}, dtype), Scalar(9), Scalar(0), std::string("ortho")}},
                        {{spec({3, 8}), Scalar(5)}}}});
    auto build = [row](Build& b) { build_fftn(b, row.mode, row.forward); };
    std::vector<Sample> samples = {{{spec({3, 8}, dtype)}}, {{spec({2, 4, 3}, dtype), List{4, 4}, List{1, 2}}}};
    add_composite(r, {.schema = str("fft_", row.name,
                                    "2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2,-1], str? norm=None) -> Tensor"),
                      .build = build,
                      .samples = samples});
    add_composite(r, {.schema = str("fft_", row.name,
                                    "n(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"),
                      .build = build,
                      .samples = samples});
  }
}

void add_shifts(Registry& r) {
  for (bool inverse : {false, true})
    add_composite(
        r, {.schema = str(inverse ? "fft_ifftshift" : "fft_fftshift", "(Tensor self, int[1]? dim=None) -> Tensor"),
            .build =
                [inverse](Build& b) {
                  DecomposeCall& call = b.call();
                  Value* x = call.tensor("self");
                  int64_t rank = rank_of(x);
                  List dims;
                  if (call.given("dim"))
                    dims = call.constant_integers("dim");
                  else
                    for (int64_t d = 0; d < rank; ++d) dims.push_back(d);
                  Sizes shifts, at;
                  for (int64_t dim : dims) {
                    at.push_back(Expr(wrap_dim(call, dim, rank)));
                    Expr size = x->type.sizes[static_cast<size_t>(wrap_dim(call, dim, rank))];
                    shifts.push_back(floordiv(inverse ? size + Expr(1) : size, Expr(2)));
                  }
                  call.result(b("roll", {x, b.ints(shifts), b.ints(at)}));
                },
            .samples = {{{spec({5, 4})}}, {{spec({5, 4}), List{0}}}}});
}

// ---- Frequencies ----

DType dtype_or_default(DecomposeCall& call) { return call.dtype("dtype").value_or(default_float); }

void add_frequencies(Registry& r) {
  for (bool half : {false, true})
    add_composite(
        r, {.schema = str(half ? "fft_rfftfreq" : "fft_fftfreq",
                          "(int n, float d=1.0, *, ScalarType? dtype=None, Layout? layout=None, Device? "
                          "device=None, bool? pin_memory=None) -> Tensor"),
            .build =
                [half](Build& b) {
                  DecomposeCall& call = b.call();
                  int64_t n = call.constant_integer("n");
                  double d = std::get<Scalar>(call.scalar("d")).as_double();
                  Value* i = b("arange", {Scalar(half ? n / 2 + 1 : n), DType::i64});
                  if (!half) i = b("where.self", {b("lt.Scalar", {i, Scalar((n + 1) / 2)}), i, b.sub(i, Scalar(n))});
                  call.result(b.mul(b.to(i, dtype_or_default(call)), Scalar(1.0 / (static_cast<double>(n) * d))));
                },
            .samples = {{{Scalar(7)}}, {{Scalar(8), Scalar(0.5)}}}});
}

// ---- Short-time transforms ----

// The window in the middle of n_fft elements.
Value* padded_window(Build& b, Value* window, int64_t n_fft, int64_t length) {
  if (length == n_fft) return window;
  int64_t left = (n_fft - length) / 2;
  return b("constant_pad_nd", {window, b.ints({left, n_fft - length - left})});
}

int64_t integer_or(DecomposeCall& call, const char* name, int64_t otherwise) {
  return call.given(name) ? call.constant_integer(name) : otherwise;
}

void build_stft(Build& b, bool centered) {
  DecomposeCall& call = b.call();
  Value* x = call.tensor("self");
  int64_t n_fft = call.constant_integer("n_fft"), hop = integer_or(call, "hop_length", n_fft / 4);
  int64_t length = integer_or(call, "win_length", n_fft);
  if (n_fft <= 0 || hop <= 0 || length <= 0 || length > n_fft)
    fail_user("K0201", "stft: expected 0 < win_length <= n_fft and 0 < hop_length", call.where());
  bool single = rank_of(x) == 1;
  if (single) x = b("unsqueeze", {x, Scalar(0)});
  if (rank_of(x) != 2) fail_user("K0201", "stft: expected a 1D or 2D tensor", call.where());
  if (centered && call.boolean("center")) {
    Sizes sizes = x->type.sizes;
    Value* three = b("unsqueeze", {x, Scalar(0)});
    x = b("squeeze.dim", {b("pad", {three, b.ints({n_fft / 2, n_fft / 2}), call.string("pad_mode")}), Scalar(0)});
  }
  Value* frames = b("unfold", {x, Scalar(-1), Scalar(n_fft), Scalar(hop)});
  Value* window = call.tensor_or_null("window");
  if (!window && length < n_fft) window = b("ones", {b.ints({length}), complex_part(x->type.dtype)});
  if (window) frames = b.mul(frames, padded_window(b, window, n_fft, length));
  bool complex = is_complex(frames->type.dtype);
  bool onesided = call.given("onesided") ? call.boolean("onesided") : !complex;
  Scalar norm(call.boolean("normalized") ? 1 : 0);
  Value* out = complex ? b("_fft_c2c", {frames, b.ints({2}), norm, Scalar(true)})
                       : b("_fft_r2c", {frames, b.ints({2}), norm, Scalar(onesided)});
  out = b("transpose.int", {out, Scalar(1), Scalar(2)});
  if (single) out = b("squeeze.dim", {out, Scalar(0)});
  bool keeps = call.given("return_complex") ? call.boolean("return_complex") : complex;
  call.result(keeps ? out : b("view_as_real", {out}));
}

// Frames back by the inverse transform, added where they overlap, divided by the sum of the squared windows there.
void build_istft(Build& b) {
  DecomposeCall& call = b.call();
  Value* x = call.tensor("self");
  int64_t n_fft = call.constant_integer("n_fft"), hop = integer_or(call, "hop_length", n_fft / 4);
  int64_t width = integer_or(call, "win_length", n_fft);
  bool single = rank_of(x) == 2;
  if (single) x = b("unsqueeze", {x, Scalar(0)});
  bool complex = call.boolean("return_complex"), center = call.boolean("center");
  bool onesided = call.given("onesided") ? call.boolean("onesided")
                                         : prove_eq(x->type.sizes[1], Expr(n_fft), call.ranges()) != Proof::yes;
  Scalar norm(call.boolean("normalized") ? 1 : 2);
  Value* spectra = b("transpose.int", {x, Scalar(1), Scalar(2)});
  Value* frames = nullptr;
  if (complex) {
    frames = b("_fft_c2c", {spectra, b.ints({2}), norm, Scalar(false)});
  } else {
    if (!onesided) spectra = b("slice.Tensor", {spectra, Scalar(2), Scalar(0), Scalar(n_fft / 2 + 1)});
    frames = b("_fft_c2r", {spectra, b.ints({2}), norm, Scalar(n_fft)});
  }
  DType dtype = complex_part(x->type.dtype);
  Value* window = call.tensor_or_null("window");
  if (!window) window = b("ones", {b.ints({width}), dtype});
  window = padded_window(b, window, n_fft, width);
  Expr count = x->type.sizes[2], total = (count - Expr(1)) * Expr(hop) + Expr(n_fft);
  // Overlapping frames are summed by an indexed addition: frame f, element k goes to f * hop + k.
  Argument frame_count = b.ints(Sizes{count}).as_list()[0];
  Value* starts = b("unsqueeze", {b.mul(b("arange", {frame_count, DType::i64}), Scalar(hop)), Scalar(1)});
  Value* places = b("reshape", {b.add(starts, b("arange", {Scalar(n_fft), DType::i64})), b.ints({-1})});
  Value* flat = b("reshape", {b.mul(frames, window), b.ints(Sizes{x->type.sizes[0], count * Expr(n_fft)})});
  Value* none = b("zeros", {b.ints(Sizes{x->type.sizes[0], total}), flat->type.dtype});
  Value* summed = b("index_add", {none, Scalar(1), places, flat});
  Value* squares =
      b("reshape", {b("expand", {b.mul(window, window), b.ints(Sizes{count, Expr(n_fft)})}), b.ints({-1})});
  Value* weight = b("index_add", {b("zeros", {b.ints(Sizes{total}), squares->type.dtype}), Scalar(0), places, squares});
  int64_t start = center ? n_fft / 2 : 0;
  Expr wanted = call.given("length") ? call.integer("length") : total - Expr(center ? 2 * (n_fft / 2) : 0);
  Expr kept = min_expr(wanted, total - Expr(start));
  auto cut = [&](Value* y, int64_t dim) {
    Expr end = Expr(start) + kept;
    return b("slice.Tensor", {y, Scalar(dim), Scalar(start), b.ints(Sizes{end}).as_list()[0]});
  };
  Value* out = b.div(cut(summed, 1), cut(weight, 0));
  out = resized(b, out, 1, wanted);
  call.result(single ? b("squeeze.dim", {out, Scalar(0)}) : out);
}

void add_short_time(Registry& r) {
  const char* tail =
      "bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? "
      "align_to_window=None) -> Tensor";
  const char* head = "(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, ";
  add_composite(r, {.schema = str("stft", head, tail),
                    .build = [](Build& b) { build_stft(b, false); },
                    .samples = {{{spec({20}), Scalar(8), Scalar(4), Argument::None{}, spec({8}), Scalar(true),
                                  Argument::None{}, Scalar(true)}},
                                {{spec({2, 20}), Scalar(8), Scalar(3), Scalar(6), spec({6}), Scalar(false),
                                  Scalar(false), Scalar(false)}}}});
  add_composite(r, {.schema = str("stft.center", head, "bool center=True, str pad_mode='reflect', ", tail),
                    .build = [](Build& b) { build_stft(b, true); },
                    .samples = {{{spec({20}), Scalar(8), Scalar(4), Argument::None{}, spec({8}), Scalar(true),
                                  std::string("reflect"), Scalar(false), Argument::None{}, Scalar(true)}}}});
  add_composite(r, {.schema = str("istft", head,
                                  "bool center=True, bool normalized=False, bool? onesided=None, int? length=None, "
                                  "bool return_complex=False) -> Tensor"),
                    .build = build_istft,
                    .samples = {{{spec({5, 7}, DType::c64), Scalar(8), Scalar(2), Argument::None{},
                                  spec({8}, DType::f32, 0.5, 1)}}}});
}

}  // namespace

void register_fourier(Registry& r) {
  add_kernels(r);
  register_fourier_lines(r);
  add_transforms(r);
  add_shifts(r);
  add_frequencies(r);
  add_short_time(r);
  register_windows(r);
  r.describe({"fft_fft", "fft_fft2", "fft_fftn", "fft_hfft", "fft_ifft", "fft_ifft2", "fft_ifftn", "fft_ihfft",
              "fft_irfft", "fft_irfft2", "fft_irfftn", "fft_rfft", "fft_rfft2", "fft_rfftn", "stft"},
             autocast_to(AutocastRule::single));
}

}  // namespace kiln
