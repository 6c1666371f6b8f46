// Window functions of signal processing: factories whose elements follow a formula.
#include <cmath>
#include <numbers>

#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"

namespace kiln {

namespace {

const char* const tail =
    "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";

double number_or(DecomposeCall& call, const char* name, double otherwise) {
  if (call.schema().find(name) < 0) return otherwise;
  auto number = call.scalar(name);
  const auto* constant = std::get_if<Scalar>(&number);
  if (!constant) fail_unsupported("K0202", str(call.schema().name, ": ", name, " must be a constant"), call.where());
  return constant->as_double();
}

// formula(b, x, last): x counts 0, 1, …; the window is symmetric around last / 2.
using WindowFn = std::function<Value*(Build& b, Value* x, double last)>;

void build_window(Build& b, const WindowFn& formula) {
  DecomposeCall& call = b.call();
  int64_t length = call.constant_integer("window_length");
  if (length < 0) fail_user("K0201", "window_length must be non-negative", call.where());
  DType dtype = call.dtype("dtype").value_or(default_float);
  if (!is_float(dtype))
    fail_user("K0203",
              str(op_short_name(call.schema().name), " expects floating point dtypes, got: ", dtype_torch_name(dtype)),
              call.where());
  if (length <= 1) return call.result(b("ones", {b.ints({length}), dtype}));
  bool periodic = call.schema().find("periodic") < 0 || call.boolean("periodic");
  // A periodic window is one longer, without its last element.
  double last = static_cast<double>(periodic ? length : length - 1);
  Value* x = b.to(b("arange", {Scalar(length), DType::i64}), compute_dtype(dtype));
  call.result(b.to(formula(b, x, last), dtype));
}

// overloads: name and arguments, ".periodic:bool periodic, ".
void add_window(Registry& r, const std::string& name, const std::vector<std::string>& overloads,
                const std::function<WindowFn(DecomposeCall&)>& formula) {
  for (const std::string& overload : overloads) {
    size_t colon = overload.find(':');
    std::string arguments = overload.substr(colon + 1);
    std::vector<Sample> samples = {{{Scalar(8)}}, {{Scalar(1)}}, {{Scalar(0)}}, {{Scalar(-1)}, true}};
    for (Sample& sample : samples) {
      if (arguments.find("periodic") != std::string::npos) sample.args.emplace_back(Scalar(false));
      for (size_t at = arguments.find("float"); at != std::string::npos; at = arguments.find("float", at + 1))
        sample.args.emplace_back(Scalar(0.75));
    }
    add_composite(r, {.schema = str(name, overload.substr(0, colon), "(int window_length, ", arguments, tail),
                      .build = [formula](Build& b) { build_window(b, formula(b.call())); },
                      .samples = samples});
  }
}

// a - b cos(2πx/last) + c cos(4πx/last)
WindowFn cosines(double a, double b1, double c) {
  return [=](Build& b, Value* x, double last) {
    Value* angle = b.mul(x, Scalar(2 * std::numbers::pi / last));
    Value* w = b.add(b.mul(b("cos", {angle}), Scalar(-b1)), Scalar(a));
    return c == 0 ? w : b.add(w, b.mul(b("cos", {b.mul(angle, Scalar(2.0))}), Scalar(c)));
  };
}

}  // namespace

void register_windows(Registry& r) {
  add_window(r, "hann_window", {":", ".periodic:bool periodic, "}, [](DecomposeCall&) { return cosines(0.5, 0.5, 0); });
  add_window(
      r, "hamming_window",
      {":", ".periodic:bool periodic, ", ".periodic_alpha:bool periodic, float alpha, ",
       ".periodic_alpha_beta:bool periodic, float alpha, float beta, "},
      [](DecomposeCall& call) { return cosines(number_or(call, "alpha", 0.54), number_or(call, "beta", 0.46), 0); });
  add_window(r, "blackman_window", {":", ".periodic:bool periodic, "},
             [](DecomposeCall&) { return cosines(0.42, 0.5, 0.08); });
  add_window(r, "bartlett_window", {":", ".periodic:bool periodic, "}, [](DecomposeCall&) -> WindowFn {
    return [](Build& b, Value* x, double last) {
      Value* slope = b.sub(b.mul(x, Scalar(2 / last)), Scalar(1.0));
      return b.sub(Scalar(1.0), b("abs", {slope}));
    };
  });
  add_window(
      r, "kaiser_window", {":", ".periodic:bool periodic, ", ".beta:bool periodic, float beta, "},
      [](DecomposeCall& call) -> WindowFn {
        double beta = number_or(call, "beta", 12.0);
        return [beta](Build& b, Value* x, double last) {
          Value* t = b.sub(b.mul(x, Scalar(2 / last)), Scalar(1.0));
          Value* inside =
              b.mul(b("sqrt", {b("clamp_min", {b.sub(Scalar(1.0), b.mul(t, t)), Scalar(0.0)})}), Scalar(beta));
          Value* top = b("i0", {b.mul(b("ones_like", {b("select.int", {x, Scalar(0), Scalar(0)})}), Scalar(beta))});
          return b.div(b("i0", {inside}), top);
        };
      });
}

}  // namespace kiln
