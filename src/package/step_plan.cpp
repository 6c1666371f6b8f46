#include "package/step_plan.h"

#include <algorithm>
#include <map>
#include <set>

namespace kiln::format {
namespace {

const Step* find_in(const std::vector<Step>& block, int32_t number) {
  for (const Step& step : block) {
    if (step.number == number) return &step;
    for (const auto& inner : step.blocks)
      if (const Step* found = find_in(inner, number)) return found;
  }
  return nullptr;
}

class Extractor {
 public:
  Extractor(const Plan& plan, const Step& step) : plan_(plan), step_(step) {}

  StepPlan run() {
    Plan& out = result_.plan;
    out.model_name = plan_.model_name, out.build_id = plan_.build_id;
    out.kiln_version = plan_.kiln_version, out.torch_version = plan_.torch_version;
    out.kernel_abi = plan_.kernel_abi, out.device = plan_.device;
    out.exprs = plan_.exprs, out.kernels = plan_.kernels, out.sites = plan_.sites, out.code = plan_.code;
    out.custom_libraries = plan_.custom_libraries, out.uses_random = plan_.uses_random;
    out.numbered_draws = plan_.numbered_draws;
    out.symbols = plan_.symbols;
    for (const KernelArg& used : buffers_used(step_)) add_buffer(used);
    add_symbols();
    out.steps = {renumbered()};
    return std::move(result_);
  }

 private:
  void need(ExprIndex e) {
    if (e == none) return;
    for (const ExprInstruction& in : plan_.exprs[static_cast<size_t>(e)].code)
      if (in.code == ExprCode::symbol) needed_.insert(static_cast<int32_t>(in.operand));
  }

  void add_buffer(const KernelArg& used) {
    Buffer buffer = plan_.buffers[static_cast<size_t>(used.buffer)];
    for (ExprIndex e : buffer.sizes) need(e);
    for (ExprIndex e : buffer.strides) need(e);
    const auto place = static_cast<int32_t>(result_.plan.buffers.size());
    buffer.same_memory_as = none;
    buffer.entry.clear();  // of a frozen package: here its values are given, or made
    // A buffer without memory of its own to allocate (an input that is overwritten) stays an input.
    if (used.access == Access::write && buffer.bytes != none) {
      need(buffer.offset), need(buffer.bytes);
      buffer.role = BufferRole::output;
      buffer.position = static_cast<int32_t>(result_.plan.outputs.size());
      Output output;
      output.name = buffer.name, output.buffer = place;
      result_.plan.outputs.push_back(output);
      result_.outputs.push_back(used.buffer);
    } else {
      buffer.offset = buffer.bytes = none;
      buffer.role = BufferRole::input;
      buffer.position = static_cast<int32_t>(result_.plan.inputs.size());
      Input input;
      input.name = buffer.name, input.buffer = place, input.mutated = writes(used.access);
      result_.plan.inputs.push_back(input);
      result_.inputs.push_back(used.buffer);
    }
    places_[used.buffer] = place;
    result_.plan.buffers.push_back(std::move(buffer));
  }

  void add_symbols() {
    for (ExprIndex e : step_.ints) need(e);
    need(step_.items), need(step_.grain), need(step_.scratch);
    for (const CallArg& arg : step_.call_args)
      if (arg.is_integers())
        for (int32_t e : arg.items) need(e);
    for (size_t s = 0; s < plan_.symbols.size(); ++s) {
      const auto slot = static_cast<int32_t>(s);
      Symbol& symbol = result_.plan.symbols[s];
      const Symbol& was = plan_.symbols[s];
      const bool is_float = was.source == SymbolSource::input_value && was.input != none &&
                            plan_.inputs[static_cast<size_t>(was.input)].what == InputWhat::sym_float;
      symbol.scale = 1, symbol.rest = none, symbol.dim = none, symbol.input = none;
      symbol.source = SymbolSource::step;
      const bool defined = std::find(step_.defines.begin(), step_.defines.end(), slot) != step_.defines.end();
      if (!needed_.count(slot) || defined) continue;
      symbol.source = SymbolSource::input_value;
      symbol.input = static_cast<int32_t>(result_.plan.inputs.size());
      Input input;
      input.name = symbol.name, input.what = is_float ? InputWhat::sym_float : InputWhat::sym_int, input.symbol = slot;
      result_.plan.inputs.push_back(input);
      result_.symbols.push_back(slot);
    }
  }

  Step renumbered() const {
    Step step = step_;
    for (KernelArg& arg : step.args) arg.buffer = places_.at(arg.buffer);
    for (CallArg& arg : step.call_args)
      if (arg.is_tensors())
        for (int32_t& b : arg.items)
          if (b != none) b = places_.at(b);
    for (int32_t& b : step.outputs) b = places_.at(b);
    for (int32_t& b : step.mutates) b = places_.at(b);
    return step;
  }

  const Plan& plan_;
  const Step& step_;
  StepPlan result_;
  std::map<int32_t, int32_t> places_;  // buffer of the whole plan -> of the step's
  std::set<int32_t> needed_;           // symbol slots
};

}  // namespace

std::vector<KernelArg> buffers_used(const Step& step) {
  std::vector<KernelArg> used;
  auto add = [&](int32_t buffer, Access access) {
    if (buffer == none) return;
    for (KernelArg& arg : used)
      if (arg.buffer == buffer) return void(arg.access = arg.access | access);
    used.push_back({buffer, access});
  };
  for (const KernelArg& arg : step.args) add(arg.buffer, arg.access);
  for (const CallArg& arg : step.call_args)
    if (arg.is_tensors())
      for (int32_t b : arg.items) add(b, Access::read);
  for (int32_t b : step.mutates) add(b, Access::update);
  for (int32_t b : step.outputs) add(b, Access::write);
  return used;
}

const Step* find_step(const Plan& plan, int32_t number) {
  const Step* found = find_in(plan.init, number);
  return found ? found : find_in(plan.steps, number);
}

StepPlan step_plan(const Plan& plan, const Step& step) { return Extractor(plan, step).run(); }

}  // namespace kiln::format
