#include "judge.h"

#include <cmath>

#include "../campaign/dice.h"
#include "interp/interp.h"
#include "ops/op_record.h"

namespace kiln::random_programs {

using campaign::Dice;

namespace {

using Numbers = std::vector<std::complex<double>>;
using Meant = std::function<bool(std::complex<double>)>;

Numbers numbers(const Tensor& tensor) {
  Numbers out(static_cast<size_t>(tensor.numel()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = tensor.item(static_cast<int64_t>(i)).as_complex();
  return out;
}

bool finite(std::complex<double> v) { return std::isfinite(v.real()) && std::isfinite(v.imag()); }

bool rounds(DType dtype) { return is_float(dtype) || is_complex(dtype); }

std::vector<Tensor> tensors_of(const std::vector<Datum>& results) {
  std::vector<Tensor> out;
  for (const Datum& result : results) {
    if (result.is_tensor()) out.push_back(result.tensor());
    if (result.is_list())
      for (const Datum& item : result.list())
        if (item.is_tensor()) out.push_back(item.tensor());
  }
  return out;
}

// Moves elements by about their rounding error, twice over. `all` moves also those that happen to be exact (a sum may
// be exact in one order only), but for the whole numbers that `meant` says are meant to be what they are.
void shake(const Tensor& tensor, const Numbers& exact, bool all, const Meant& meant, Dice& dice) {
  Tensor target = tensor;  // the same memory
  double unit = dtype_epsilon(tensor.dtype), largest = 0;
  auto error_at = [&](int64_t i) { return std::abs(tensor.item(i).as_complex() - exact[static_cast<size_t>(i)]); };
  // An element that sums large numbers may be right by luck: its neighbours' errors show what it can be off by.
  for (int64_t i = 0; all && i < tensor.numel(); ++i)
    if (double off = error_at(i); std::isfinite(off)) largest = std::max(largest, off);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    std::complex<double> v = tensor.item(i).as_complex();
    double off = error_at(i);
    bool whole = v.imag() == 0 && v.real() == std::floor(v.real());
    if (!finite(v) || !std::isfinite(off) || (off == 0 && (!all || (whole && meant(v))))) continue;
    double move = 2 * std::max({off, largest, unit * std::abs(v)}) * (2 * dice.unit() - 1);
    if (is_complex(tensor.dtype))
      target.set_item(i, Scalar(v + std::complex<double>(move, -move)));
    else
      target.set_item(i, Scalar(v.real() + move));
  }
}

// A node's whole results: meant where everything it computes with is whole too, where it picks or steps to them, by
// luck where they come of numbers that are not (the cosine of two parallel vectors is 1 or one unit below).
class WholeResults {
 public:
  void note(const std::string& value, const Tensor& tensor) { known_[value] = numbers(tensor); }

  Meant of(const Node& node) const {
    static const std::set<std::string> steps = {"floor",        "ceil",      "round",    "trunc", "fix",
                                                "sign",         "sgn",       "fmod",     "div",   "remainder",
                                                "floor_divide", "heaviside", "sign_bit", "frac",  "logical"};
    // i0(0) is 1 by luck of rounding: PyTorch's own f32 value is one unit below.
    static const std::set<std::string> series = {"i0",        "lgamma", "mvlgamma", "digamma",
                                                 "polygamma", "igamma", "igammac"};
    std::string name = op_short_name(node.target);
    if (series.contains(name) || name.rfind("special_", 0) == 0) return [](auto) { return false; };
    std::vector<std::complex<double>> inputs;
    for (const auto& named : node.args) {
      if (named.arg.is_scalar()) inputs.push_back(named.arg.as_scalar().as_complex());
      for_each_value(named.arg, [&](const Value* value) {
        auto found = known_.find(value->name);
        if (found != known_.end()) inputs.insert(inputs.end(), found->second.begin(), found->second.end());
      });
    }
    bool all_whole = std::all_of(inputs.begin(), inputs.end(), [](auto v) {
      return !finite(v) || (v.imag() == 0 && v.real() == std::floor(v.real()));
    });
    if (all_whole || steps.contains(name)) return [](auto) { return true; };
    return [inputs](auto v) { return std::find(inputs.begin(), inputs.end(), v) != inputs.end(); };
  }

 private:
  std::map<std::string, Numbers> known_;
};

}  // namespace

Observed observe(const std::vector<Datum>& outputs, const std::vector<Datum>& inputs,
                 const std::map<std::string, Tensor>& state) {
  Observed out;
  for (size_t i = 0; i < outputs.size(); ++i) out.emplace_back(str("output ", i), outputs[i]);
  // Inputs keep the layout that the caller gave them: the values are compared.
  for (size_t i = 0; i < inputs.size(); ++i)
    out.emplace_back(str("input ", i, " after the call"),
                     inputs[i].is_tensor() ? Datum{inputs[i].tensor().as_contiguous()} : inputs[i]);
  for (const auto& [name, tensor] : state) out.emplace_back("buffer " + name, Datum{tensor});
  return out;
}

Judge::Judge(const RandomProgram& random) : random_(random) {
  const Program& program = random.program;
  InterpretResult narrow = Interpreter(program).run(program.sample_inputs);
  narrow_ = observe(narrow.outputs, narrow.inputs, narrow.state);
  InterpretOptions options;
  options.fp64 = true;
  InterpretResult wide = Interpreter(program, options).run(program.sample_inputs);
  wide_ = observe(wide.outputs, wide.inputs, wide.state);
  KILN_CHECK(wide_.size() == narrow_.size(), "the references give different numbers of results");
}

const std::vector<Observed>& Judge::shaken() {
  if (!shaken_.empty()) return shaken_;
  const Program& program = random_.program;
  std::map<std::string, std::vector<Numbers>> exact;
  WholeResults whole;
  const Meant always = [](auto) { return true; };
  for (size_t i = 0, user = 0; i < program.graph.inputs.size(); ++i) {
    const InputSpec& spec = program.input_specs[i];
    const Datum* given = spec.kind == InputKind::user ? &program.sample_inputs.at(user++) : nullptr;
    if (given && !given->is_tensor()) continue;
    whole.note(program.graph.inputs[i]->name, given ? given->tensor() : program.constants.at(spec.target));
  }
  InterpretOptions wide;
  wide.fp64 = true;
  wide.after_node = [&](const Node& node, const std::vector<Datum>& results) {
    for (const Tensor& tensor : tensors_of(results)) exact[node.name].push_back(numbers(tensor));
    for (size_t i = 0; i < node.results.size() && i < results.size(); ++i)
      if (results[i].is_tensor()) whole.note(node.results[i]->name, results[i].tensor());
  };
  Interpreter(program, wide).run(program.sample_inputs);
  // Elements of an expanded tensor are one place in memory; of a copy, each moves for itself.
  Program copying = program.clone();
  for (auto& node : copying.graph.nodes) {
    if (node->target != "aten.expand.default") continue;
    node->target = "aten.expand_copy.default";
    node->op = Registry::instance().find(node->target);
  }
  Dice dice(4711);
  for (auto& [name, constant] : copying.constants) {
    if (!rounds(constant.dtype)) continue;
    constant = constant.clone();
    shake(constant, numbers(constant), true, always, dice);
  }
  for (int run = 0; run < 6; ++run) {
    bool all = run >= 3;
    InterpretOptions options;
    options.after_node = [&](const Node& node, const std::vector<Datum>& results) {
      std::vector<Tensor> tensors = tensors_of(results);
      const auto& truth = exact[node.name];
      for (size_t i = 0; i < tensors.size() && i < truth.size(); ++i)
        if (rounds(tensors[i].dtype) && static_cast<size_t>(tensors[i].numel()) == truth[i].size())
          shake(tensors[i], truth[i], all, whole.of(node), dice);
    };
    std::vector<Datum> inputs = copy_inputs(program.sample_inputs);
    for (const Datum& input : inputs)
      if (all && input.is_tensor() && rounds(input.tensor().dtype))
        shake(input.tensor(), numbers(input.tensor()), all, always, dice);
    InterpretResult result = Interpreter(all ? copying : program, options).run(inputs);
    shaken_.push_back(observe(result.outputs, result.inputs, result.state));
  }
  return shaken_;
}

double Judge::own_error(const Observed& run, size_t item) const {
  if (!run[item].second.is_tensor()) return 0;
  Numbers a = numbers(run[item].second.tensor()), b = numbers(wide_[item].second.tensor());
  double worst = 0;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (finite(a[i]) && finite(b[i])) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

// Integers, or which values are finite, are not what the reference says.
bool Judge::differs(const Observed& run, size_t item) const {
  if (!run[item].second.is_tensor()) return false;
  const Tensor &x = run[item].second.tensor(), &y = narrow_[item].second.tensor();
  if (x.sizes != y.sizes) return true;
  Numbers a = numbers(x), b = numbers(y);
  for (size_t i = 0; i < a.size(); ++i)
    if (finite(a[i]) != finite(b[i]) || (!rounds(x.dtype) && a[i] != b[i])) return true;
  return false;
}

Judge::Trouble Judge::compare_item(size_t item, const Datum& got, double error, bool exact) const {
  const std::string& name = narrow_[item].first;
  if (!narrow_[item].second.is_tensor() || !got.is_tensor()) {
    bool same = narrow_[item].second.value.index() == got.value.index();
    return {!same, name + " is of another kind"};
  }
  const Tensor &have = got.tensor(), &want = narrow_[item].second.tensor();
  if (have.dtype != want.dtype || have.sizes != want.sizes)
    return {true, str(name, " is ", tensor_type_text(have), ", expected ", tensor_type_text(want))};
  if (want.numel() > 0 && dense_and_not_overlapping(want.sizes, want.strides))
    for (size_t d = 0; d < want.sizes.size(); ++d)
      if (want.sizes[d] != 1 && want.strides[d] != have.strides[d])
        return {true, str(name, " has strides [", join_map(have.strides, ", ", [](int64_t s) { return str(s); }),
                          "], expected [", join_map(want.strides, ", ", [](int64_t s) { return str(s); }), "]")};
  Numbers h = numbers(have), n = numbers(want), w = numbers(wide_[item].second.tensor());
  double mean = 0;
  for (std::complex<double> v : w) mean += finite(v) ? std::abs(v) / static_cast<double>(w.size()) : 0;
  for (size_t i = 0; i < h.size(); ++i) {
    auto trouble = [&] {
      return Trouble{true, str(name, " element ", i, ": got ", Scalar(h[i]).text(), ", f32 reference ",
                               Scalar(n[i]).text(), ", fp64 ", Scalar(w[i]).text(), ", allowed error ", error)};
    };
    if (!rounds(want.dtype)) {
      if (exact && h[i] != n[i]) return trouble();
    } else if (!finite(h[i]) || (!finite(n[i]) && !finite(w[i]))) {
      bool same = std::isnan(n[i].real()) == std::isnan(h[i].real()) &&
                  std::isnan(n[i].imag()) == std::isnan(h[i].imag()) && finite(n[i]) == finite(h[i]);
      if (exact && !same) return trouble();
    } else if (finite(w[i])) {
      double units = 8 * dtype_epsilon(want.dtype) * std::max(std::abs(w[i]), mean);
      if (std::abs(h[i] - w[i]) > 4 * error + units) return trouble();
    }
  }
  return {};
}

// In the references' order; a buffer that a backend does not mention is as it was.
std::optional<Observed> Judge::arranged(const Observed& given, std::string& why) const {
  std::map<std::string, Datum> by_name(given.begin(), given.end());
  Observed out;
  for (const auto& [name, expected] : narrow_) {
    auto found = by_name.find(name);
    if (found == by_name.end() && name.rfind("buffer ", 0) == 0) {
      out.emplace_back(name, Datum{random_.program.constants.at(name.substr(7))});
    } else if (found == by_name.end()) {
      why = "does not give " + name;
      return {};
    } else {
      out.push_back(*found);
    }
  }
  return out;
}

Verdict Judge::judge(const Observed& given, std::string& why) {
  std::optional<Observed> all = arranged(given, why);
  if (!all) return Verdict::bad;
  const Observed& got = *all;
  Verdict verdict = Verdict::good;
  for (size_t i = 0; i < got.size(); ++i) {
    Trouble trouble = compare_item(i, got[i].second, own_error(narrow_, i), true);
    if (!trouble.found) continue;
    double error = own_error(narrow_, i);
    bool exact = true;
    for (const Observed& run : shaken()) {
      error = std::max(error, own_error(run, i));
      exact &= !differs(run, i);
    }
    Trouble again = compare_item(i, got[i].second, error, exact);
    if (again.found) {
      why = again.text;
      return Verdict::bad;
    }
    verdict = Verdict::unstable;
  }
  return verdict;
}

}  // namespace kiln::random_programs
