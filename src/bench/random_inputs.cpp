#include "bench/random_inputs.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "base/text.h"
#include "executable/package_executable.h"

namespace kiln {
namespace {

using format::InputWhat;
using format::SymbolSource;

Expr expression_of(const format::Plan& plan, format::ExprIndex index) {
  return parse_expr(plan.exprs.at(static_cast<size_t>(index)).text);
}

const format::Input* input_of(const format::Plan& plan, const format::Symbol& symbol) {
  if (symbol.source != SymbolSource::input_size && symbol.source != SymbolSource::input_value) return nullptr;
  return symbol.input < 0 ? nullptr : &plan.inputs.at(static_cast<size_t>(symbol.input));
}

// A whole number that the inputs decide: a size, or the value of an input that is an int.
bool is_size(const format::Plan& plan, const format::Symbol& symbol) {
  const format::Input* input = input_of(plan, symbol);
  return input && (symbol.source == SymbolSource::input_size || input->what == InputWhat::sym_int);
}

std::string place_text(const format::Plan& plan, const format::Symbol& symbol) {
  const std::string& name = input_of(plan, symbol)->name;
  return symbol.source == SymbolSource::input_size ? str(name, ".size(", symbol.dim, ")") : str("input ", name);
}

std::string range_of_text(const format::Symbol& symbol) {
  const std::string low = symbol.low == INT64_MIN ? "-∞" : str(symbol.low);
  return str(low, " … ", symbol.high == INT64_MAX ? "∞" : str(symbol.high));
}

// "s0 (x.size(0), 1 … 1024)"
std::string known_symbols(const format::Plan& plan) {
  std::vector<std::string> known;
  for (const format::Symbol& symbol : plan.symbols)
    if (is_size(plan, symbol))
      known.push_back(str(symbol.name, " (", place_text(plan, symbol), ", ", range_of_text(symbol), ")"));
  return known.empty() ? "every size of this package is fixed" : str("there are ", join(known, ", "));
}

struct SizeGuard {
  Expr condition;
  std::set<std::string> symbols;
  std::string text, reason;
};

// The sizes that are given, and for the others the first combination that satisfies the guards.
class SizeSearch {
 public:
  SizeSearch(const format::Plan& plan, const SymbolValues& hints, const SymbolValues& given)
      : plan_(plan), hints_(hints), given_(given), values_(given) {
    for (const format::Symbol& symbol : plan.symbols)
      if (is_size(plan, symbol) && !given.count(symbol.name)) open_.push_back(&symbol);
    for (const format::Guard& guard : plan.guards) {
      SizeGuard one{expression_of(plan, guard.condition), {}, guard.text, guard.reason};
      collect_symbols(one.condition, one.symbols);
      guards_.push_back(std::move(one));
    }
    add_input_sizes();
  }

  SymbolValues found() {
    check_given();
    if (choose(0)) return values_;
    std::vector<std::string> names;
    for (const format::Symbol* symbol : open_) names.push_back(symbol->name);
    std::string why;
    for (const SizeGuard& guard : guards_)
      why += str("\n  ", guard.text, guard.reason.empty() ? "" : str("  because: ", guard.reason));
    fail_user("K0732", str("no sizes were found for ", join(names, ", "), " that fit",
                           given_.empty() ? "" : " the given ones", ": give them too; they must satisfy", why));
  }

 private:
  static constexpr int most_attempts = 200'000;

  // That no size of an input is negative is a guard that is not written down.
  void add_input_sizes() {
    for (const format::Input& input : plan_.inputs) {
      if (input.what != InputWhat::tensor) continue;
      for (const format::ExprIndex size : plan_.buffers.at(static_cast<size_t>(input.buffer)).sizes) {
        const Expr expr = expression_of(plan_, size);
        if (expr.is_constant() || expr.is_symbol()) continue;
        SizeGuard one{compare_le(Expr(0), expr), {}, str("0 <= ", expr.text()), str("a size of ", input.name)};
        collect_symbols(one.condition, one.symbols);
        guards_.push_back(std::move(one));
      }
    }
  }

  void check_given() const {
    for (const auto& [name, value] : given_) {
      const auto symbol = std::find_if(plan_.symbols.begin(), plan_.symbols.end(),
                                       [&, &wanted = name](const format::Symbol& s) { return s.name == wanted; });
      if (symbol == plan_.symbols.end() || !is_size(plan_, *symbol)) {
        std::vector<std::string> names;
        for (const format::Symbol& s : plan_.symbols)
          if (is_size(plan_, s)) names.push_back(s.name);
        const bool computed = symbol != plan_.symbols.end();
        fail_user("K0730", str(name,
                               computed ? " is computed while the program runs, no size of an input"
                                        : " is no size of an input of this package",
                               nearest_hint(name, names), "; ", known_symbols(plan_)));
      }
      const bool size =
          symbol->source == SymbolSource::input_size && symbol->scale == 1 && symbol->rest == format::none;
      if (value < symbol->low || value > symbol->high || (size && value < 0))
        fail_user("K0731", str(name, "=", value, " is outside of its range, ", range_of_text(*symbol), " (",
                               place_text(plan_, *symbol), ")"));
    }
    for (const SizeGuard& guard : guards_)
      if (decided(guard) && !holds(guard))
        fail_user("K0731", str("the given sizes do not satisfy ", guard.text,
                               guard.reason.empty() ? "" : str(", because: ", guard.reason)));
  }

  bool decided(const SizeGuard& guard) const {
    return std::all_of(guard.symbols.begin(), guard.symbols.end(),
                       [&](const std::string& name) { return values_.count(name) > 0; });
  }
  bool holds(const SizeGuard& guard) const {
    try {
      return evaluate(guard.condition, values_) != 0;
    } catch (const Error&) {
      return false;  // a division by zero, or beyond 64 bits
    }
  }

  std::vector<int64_t> candidates(const format::Symbol& symbol) const {
    std::vector<int64_t> out;
    const int64_t low = std::max<int64_t>(symbol.low, symbol.source == SymbolSource::input_size ? 0 : INT64_MIN);
    const auto add = [&](int64_t value) {
      if (value >= low && value <= symbol.high && std::find(out.begin(), out.end(), value) == out.end())
        out.push_back(value);
    };
    if (const auto hint = hints_.find(symbol.name); hint != hints_.end()) add(hint->second);
    add(8);
    for (const auto& [name, value] : values_)
      add(value), add(value + 1), add(value - 1), add(2 * value), add(value / 2);
    for (int64_t value = 1; value <= 64; ++value) add(value);
    for (int64_t value = 128; value <= 65536; value *= 2) add(value);
    add(0);
    if (low != INT64_MIN) add(low), add(low + 1);
    if (symbol.high != INT64_MAX && symbol.high <= 1 << 20) add(symbol.high);
    return out;
  }

  bool choose(size_t position) {
    if (position == open_.size()) return true;
    const std::string& name = open_[position]->name;
    for (const int64_t value : candidates(*open_[position])) {
      if (++attempts_ > most_attempts) return false;
      values_[name] = value;
      const bool fits = std::all_of(guards_.begin(), guards_.end(), [&](const SizeGuard& guard) {
        return !guard.symbols.count(name) || !decided(guard) || holds(guard);
      });
      if (fits && choose(position + 1)) return true;
      values_.erase(name);
    }
    return false;
  }

  const format::Plan& plan_;
  const SymbolValues& hints_;
  const SymbolValues& given_;
  SymbolValues values_;
  std::vector<const format::Symbol*> open_;
  std::vector<SizeGuard> guards_;
  int attempts_ = 0;
};

class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t count) { return std::uniform_int_distribution<int64_t>(0, count - 1)(engine_); }
  double even() { return std::uniform_real_distribution<double>(-1, 1)(engine_); }

  // Into every element, whatever the strides.
  void fill(const Tensor& tensor, const Tensor* sample) {
    const int64_t bytes = dtype_bytes(tensor.dtype), count = tensor.numel();
    for (int64_t i = 0; i < count; ++i) {
      std::byte* at = tensor.data() + tensor.element_offset(i) * bytes;
      if (sample)
        std::memcpy(at, sample->data() + below(sample->numel()) * bytes, static_cast<size_t>(bytes));
      else
        store_scalar(tensor.dtype, at, fresh(tensor.dtype));
    }
  }

 private:
  Scalar fresh(DType dtype) {
    if (is_complex(dtype)) return Scalar(std::complex<double>(even(), even()));
    if (is_integral(dtype)) return Scalar(below(2));
    return Scalar(even());
  }
  std::mt19937_64 engine_;
};

Tensor tensor_of(const format::Plan& plan, const format::Buffer& buffer, const SymbolValues& sizes) {
  const auto all = [&](const std::vector<format::ExprIndex>& exprs) {
    std::vector<int64_t> out;
    for (const format::ExprIndex index : exprs) out.push_back(evaluate(expression_of(plan, index), sizes));
    return out;
  };
  return Tensor::empty_strided(buffer.dtype, all(buffer.sizes), all(buffer.strides));
}

}  // namespace

SymbolValues symbol_values(const format::Plan& plan, const std::vector<Datum>& inputs) {
  SymbolValues values;
  if (inputs.size() != plan.inputs.size()) return values;
  for (const format::Symbol& symbol : plan.symbols) {
    if (!is_size(plan, symbol)) continue;
    const Datum& input = inputs[static_cast<size_t>(symbol.input)];
    if (symbol.source == SymbolSource::input_value) {
      if (input.is_scalar() && input.scalar().is_int()) values[symbol.name] = input.scalar().as_int();
      continue;
    }
    if (!input.is_tensor() || symbol.dim < 0 || symbol.dim >= input.tensor().rank()) continue;
    const int64_t size = input.tensor().sizes[static_cast<size_t>(symbol.dim)];
    try {
      const int64_t rest = symbol.rest == format::none ? 0 : evaluate(expression_of(plan, symbol.rest), values);
      if (symbol.scale != 0) values[symbol.name] = (size - rest) / symbol.scale;
    } catch (const Error&) {
      // A symbol of the rest has no value: this one has none either.
    }
  }
  return values;
}

RandomInputs random_inputs(const format::Plan& plan, const std::vector<Datum>& samples, const SymbolValues& given,
                           uint64_t seed) {
  const SymbolValues hints = symbol_values(plan, samples);
  const SymbolValues sizes = SizeSearch(plan, hints, given).found();
  RandomInputs result;
  Draw draw(seed);
  std::vector<std::string> without;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const format::Input& input = plan.inputs[i];
    const Datum* sample = i < samples.size() && samples.size() == plan.inputs.size() ? &samples[i] : nullptr;
    switch (input.what) {
      case InputWhat::tensor: {
        const Tensor tensor = tensor_of(plan, plan.buffers.at(static_cast<size_t>(input.buffer)), sizes);
        const bool usable =
            sample && sample->is_tensor() && sample->tensor().dtype == tensor.dtype && sample->tensor().numel() > 0;
        const Tensor values = usable ? sample->tensor().as_contiguous() : Tensor();
        if (!usable) without.push_back(input.name);
        draw.fill(tensor, usable ? &values : nullptr);
        result.inputs.push_back({tensor});
        break;
      }
      case InputWhat::sym_int:
        result.inputs.push_back({Scalar(sizes.at(plan.symbols.at(static_cast<size_t>(input.symbol)).name))});
        break;
      case InputWhat::sym_float:
        result.inputs.push_back(sample && sample->is_scalar() ? *sample : Datum{Scalar(1.0)});
        break;
      case InputWhat::sym_bool:
        result.inputs.push_back(sample && sample->is_scalar() ? *sample : Datum{Scalar(true)});
        break;
      case InputWhat::constant:
        result.inputs.push_back(constant_input(input));
        break;
      case InputWhat::ignored:
        result.inputs.emplace_back();
        break;
    }
  }
  if (!without.empty())
    result.notes.push_back(str("no sample values to draw from for ", join(without, ", "),
                               ": floats are even in [-1, 1), integers and booleans 0 or 1"));
  return result;
}

}  // namespace kiln
