#include "runtime/program.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "runtime/lifetimes.h"

namespace kiln::runtime {
namespace {

using format::none;

[[noreturn]] void inconsistent(const std::string& message) {
  fail_user("K0503", str("the plan of this package is inconsistent: ", message));
}

// "mylib.foo.default" -> "mylib::foo"; another overload keeps its name: "mylib::foo.out"
std::string custom_name(const std::string& target) {
  size_t first = target.find('.'), last = target.rfind('.');
  if (first == std::string::npos) return target;
  std::string name = str(target.substr(0, first), "::", target.substr(first + 1));
  if (last > first && ends_with(name, ".default")) name.resize(name.size() - 8);
  return name;
}

}  // namespace

// One run has one queue: what a plan has on the host beside another device's kernels are library kernels and custom
// operators, which get copies.
void Program::check_devices() const {
  auto refuse = [&](const std::string& what, DeviceType device) {
    fail_unsupported("K0527", str(what, " is for ", device_type_name(device), " in a plan for ",
                                  device_type_name(plan.device), ": this runtime runs a plan on one device"));
  };
  for (const format::Buffer& b : plan.buffers)
    if (b.device != plan.device) refuse(str("buffer ", b.name), b.device);
  for (const PreparedStep& step : steps) {
    const format::Step& s = *step.step;
    if (step.kernel && s.device != plan.device) refuse(str("kernel ", s.name), s.device);
    if (step.library && s.device != DeviceType::cpu) refuse(str("library kernel ", s.name), s.device);
  }
}

Program::Program(format::Plan given, const CodeModule* code, const CustomOps& custom) : plan(std::move(given)) {
  classify_symbols();
  init = add_steps(plan.init, code, custom);
  size_t init_steps = steps.size();
  main = add_steps(plan.steps, code, custom);
  group_buffers();
  index_late_symbols();
  for (const format::Buffer& b : plan.buffers) {
    dims_at.push_back(dims_count);
    dims_count += static_cast<uint32_t>(2 * b.sizes.size());
  }
  check_devices();
  lifetime = find_lifetimes(*this);
  check_sections(init_steps);
  for (const format::Constant& c : plan.constants) stateful = stateful || c.mutated;
  for (const PreparedStep& step : steps) raises = raises || !step.step->sites.empty();
  find_stretches(main);
}

// Neighbours whose launches are the same whenever the sizes are: neither a step of the host nor a value that is found
// while running stands between them. What is asserted of sizes alone does not count as one: sizes for which the
// launches come again have passed it before.
void Program::find_stretches(const std::vector<int32_t>& block) {
  int32_t length = 0, kernels = 0;
  for (size_t i = block.size(); i-- > 0;) {
    PreparedStep& step = steps[static_cast<size_t>(block[i])];
    const bool fixed = step.kernel && !step.late &&
                       std::none_of(step.args.begin(), step.args.end(), [&](int32_t b) { return is_late(b); });
    const bool passed = step.step->kind == format::StepKind::assert_that && !step.late && length > 0;
    length = fixed || passed ? length + 1 : 0;
    kernels = fixed ? kernels + 1 : passed ? kernels : 0;
    if (fixed) step.stretch = length, step.launches = kernels;
    for (const auto& inner : step.blocks) find_stretches(inner);
  }
}

void Program::check_sections(size_t init_steps) {
  auto boundary = static_cast<int32_t>(init_steps);
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const format::Buffer& buffer = plan.buffers[b];
    bool starts_in_init = lifetime[b].used() && lifetime[b].first < boundary;
    in_init.push_back(starts_in_init);
    if (!starts_in_init) continue;
    if (buffer.role == format::BufferRole::temp && lifetime[b].last >= boundary)
      inconsistent(str("temp ", buffer.name, " is shared by the init section and the program"));
    if (buffer.role == format::BufferRole::input || buffer.role == format::BufferRole::output)
      inconsistent(str("the init section uses ", buffer.name));
    if (buffer.role == format::BufferRole::constant && plan.constants[static_cast<size_t>(buffer.position)].mutated)
      inconsistent(str("the init section uses the mutable buffer ", buffer.name));
  }
  for (size_t i = 0; i < init_steps; ++i)
    if (steps[i].late || !steps[i].step->defines.empty()) inconsistent("the init section depends on data");
}

std::vector<int32_t> Program::symbols_of(format::ExprIndex expr) const {
  std::set<int32_t> found;
  if (expr != none)
    for (const format::ExprInstruction& in : plan.exprs[static_cast<size_t>(expr)].code)
      if (in.code == format::ExprCode::symbol) found.insert(static_cast<int32_t>(in.operand));
  return {found.begin(), found.end()};
}

void Program::classify_symbols() {
  std::set<int32_t> decide_sizes;
  auto sizing = [&](format::ExprIndex e) {
    for (int32_t s : symbols_of(e)) decide_sizes.insert(s);
  };
  for (const format::Buffer& b : plan.buffers) {
    for (format::ExprIndex e : b.sizes) sizing(e);
    for (format::ExprIndex e : b.strides) sizing(e);
    sizing(b.offset), sizing(b.bytes);
  }
  for (const format::Guard& g : plan.guards) sizing(g.condition);
  for (size_t s = 0; s < plan.symbols.size(); ++s) {
    format::SymbolSource source = plan.symbols[s].source;
    auto slot = static_cast<int32_t>(s);
    bool given = source == format::SymbolSource::input_value && !decide_sizes.contains(slot);
    bool late = given || source == format::SymbolSource::step || source == format::SymbolSource::iteration;
    symbol_late.push_back(late);
    if (given) late_inputs.push_back(slot);
    if (!late) early.push_back(slot);
    has_late = has_late || late;
  }
  for (size_t e = 0; e < plan.exprs.size(); ++e) {
    std::vector<int32_t> mentioned = symbols_of(static_cast<format::ExprIndex>(e));
    std::erase_if(mentioned, [&](int32_t s) { return !symbol_late[static_cast<size_t>(s)]; });
    expr_late.push_back(!mentioned.empty());
    symbols_in.push_back(std::move(mentioned));
  }
}

void Program::group_buffers() {
  size_t n = plan.buffers.size();
  owner.resize(n);
  for (size_t b = 0; b < n; ++b) {
    auto at = static_cast<int32_t>(b);
    while (buffer(at).same_memory_as != none) at = buffer(at).same_memory_as;
    owner[b] = at;
  }
  // A temp that an output lives in is that output's memory.
  std::map<int32_t, int32_t> output_of;
  for (size_t b = 0; b < n; ++b) {
    if (plan.buffers[b].role != format::BufferRole::output || owner[b] == static_cast<int32_t>(b)) continue;
    if (!output_of.emplace(owner[b], static_cast<int32_t>(b)).second)
      inconsistent(str("output ", plan.buffers[b].name, " shares its memory with another output"));
  }
  for (int32_t& o : owner)
    if (auto found = output_of.find(o); found != output_of.end()) o = found->second;
  members.resize(n);
  for (size_t b = 0; b < n; ++b) members[static_cast<size_t>(owner[b])].push_back(static_cast<int32_t>(b));
}

void Program::index_late_symbols() {
  exprs_of.resize(plan.symbols.size());
  owners_of.resize(plan.symbols.size());
  guards_of.resize(plan.symbols.size());
  late_symbols.resize(plan.buffers.size());
  for (size_t e = 0; e < plan.exprs.size(); ++e)
    for (int32_t s : symbols_in[e]) exprs_of[static_cast<size_t>(s)].push_back(static_cast<int32_t>(e));
  for (size_t g = 0; g < plan.guards.size(); ++g)
    for (int32_t s : symbols_in[static_cast<size_t>(plan.guards[g].condition)])
      guards_of[static_cast<size_t>(s)].push_back(static_cast<int32_t>(g));
  for (size_t o = 0; o < plan.buffers.size(); ++o) {
    std::set<int32_t> waits;
    for (int32_t member : members[o]) {
      const format::Buffer& b = buffer(member);
      std::vector<format::ExprIndex> exprs = b.sizes;
      exprs.insert(exprs.end(), b.strides.begin(), b.strides.end());
      exprs.insert(exprs.end(), {b.offset, b.bytes});
      bool fixed = b.role == format::BufferRole::constant || b.role == format::BufferRole::derived;
      for (format::ExprIndex e : exprs)
        if (fixed && !symbols_of(e).empty())
          inconsistent(str("constant ", b.name, " has sizes that depend on symbols"));
      for (format::ExprIndex e : exprs)
        if (e != none)
          waits.insert(symbols_in[static_cast<size_t>(e)].begin(), symbols_in[static_cast<size_t>(e)].end());
      bool known_early = b.role != format::BufferRole::temp && b.role != format::BufferRole::output;
      if (known_early && !waits.empty()) inconsistent(str("buffer ", b.name, " has sizes found while running"));
    }
    late_symbols[o].assign(waits.begin(), waits.end());
    for (int32_t s : waits) owners_of[static_cast<size_t>(s)].push_back(static_cast<int32_t>(o));
  }
}

bool Program::step_is_late(const format::Step& step) const {
  auto late = [&](format::ExprIndex e) { return e != none && expr_late[static_cast<size_t>(e)]; };
  if (late(step.items) || late(step.grain) || late(step.scratch) || late(step.condition)) return true;
  return std::any_of(step.ints.begin(), step.ints.end(), late);
}

std::vector<int32_t> Program::add_steps(const std::vector<format::Step>& block, const CodeModule* code,
                                        const CustomOps& custom) {
  std::vector<int32_t> indices;
  for (const format::Step& step : block) {
    size_t at = steps.size();
    indices.push_back(static_cast<int32_t>(at));
    PreparedStep& prepared = steps.emplace_back();
    prepared.step = &step;
    prepared.index = static_cast<int32_t>(at);
    prepared.late = step_is_late(step);
    for (const format::KernelArg& arg : step.args) prepared.args.push_back(arg.buffer);
    resolve(prepared, code, custom);
    max_args = std::max(max_args, step.args.size());
    max_ints = std::max(max_ints, step.ints.size());
    for (const auto& inner : step.blocks) {
      std::vector<int32_t> added = add_steps(inner, code, custom);
      steps[at].blocks.push_back(std::move(added));
    }
  }
  return indices;
}

void Program::resolve(PreparedStep& prepared, const CodeModule* code, const CustomOps& custom) const {
  const format::Step& step = *prepared.step;
  switch (step.kind) {
    case format::StepKind::kernel: {
      const format::Kernel& kernel = plan.kernels[static_cast<size_t>(step.kernel)];
      prepared.kernel = code ? code->symbol(kernel.symbol) : nullptr;
      prepared.visible = true;
      if (!prepared.kernel) fail_user("K0514", str("the code of this package lacks the kernel ", kernel.symbol));
      break;
    }
    case format::StepKind::library:
      prepared.library = find_library_kernel(step.target);
      prepared.visible = true;
      if (!prepared.library)
        fail_unsupported("K0515", str("this runtime has no library kernel \"", step.target, "\" (step ", step.name,
                                      "): the package was made by a newer Kiln"));
      break;
    case format::StepKind::custom: {
      std::string name = custom_name(step.target);
      auto found = custom.find(name);
      if (found == custom.end())
        fail_user("K0515", str("the package needs the custom operator ", name, " (step ", step.name,
                               "), and no custom operator library provides it"));
      prepared.custom = found->second;
      prepared.visible = true;
      break;
    }
    default:
      break;
  }
}

}  // namespace kiln::runtime
