#include "trace/plan_text.h"

#include "base/text.h"
#include "types/dtype.h"

namespace kiln {
namespace {

using format::none;

std::string bound_text(int64_t value) {
  if (value == INT64_MIN) return "-oo";
  return value == INT64_MAX ? "oo" : str(value);
}

std::string buffer_name(const format::Plan& plan, int32_t buffer) {
  return buffer == none ? "None" : plan.buffers.at(static_cast<size_t>(buffer)).name;
}

std::string call_argument(const format::Plan& plan, const format::CallArg& arg) {
  switch (arg.kind) {
    case 1:
    case 2:
      return join_map(arg.items, " ", [&](int32_t b) { return buffer_name(plan, b); });
    case 3:
    case 4:
      return join_map(arg.items, " ", [&](int32_t e) { return plan_expr(plan, e); });
    case 5:
      return float_text(arg.floating);
    case 6:
      return arg.floating != 0 ? "true" : "false";
    case 7:
      return quote(arg.string);
    case 8:
      return arg.items.empty() ? "" : dtype_name(static_cast<DType>(arg.items[0]));
    default:
      return "None";
  }
}

const char* block_name(format::StepKind kind, size_t block) {
  if (kind == format::StepKind::cond) return block == 0 ? "then" : "else";
  return block == 0 ? "while" : "do";
}

void add_steps(const format::Plan& plan, const std::vector<format::Step>& steps, int depth, std::string& out) {
  for (const format::Step& step : steps) {
    out.append(static_cast<size_t>(depth) * 2 + 2, ' ');
    out += str(step.number, "  ", plan_step_call(plan, step), "\n");
    for (size_t b = 0; b < step.blocks.size(); ++b) {
      out.append(static_cast<size_t>(depth) * 2 + 4, ' ');
      out += str(block_name(step.kind, b), ":\n");
      add_steps(plan, step.blocks[b], depth + 2, out);
    }
  }
}

}  // namespace

std::string plan_expr(const format::Plan& plan, format::ExprIndex index) {
  return index == none ? "?" : plan.exprs.at(static_cast<size_t>(index)).text;
}

std::string plan_buffer_type(const format::Plan& plan, int32_t buffer) {
  const format::Buffer& b = plan.buffers.at(static_cast<size_t>(buffer));
  return str(dtype_name(static_cast<DType>(b.dtype)), "[",
             join_map(b.sizes, ", ", [&](format::ExprIndex e) { return plan_expr(plan, e); }), "]");
}

const char* buffer_role_name(format::BufferRole role) {
  switch (role) {
    case format::BufferRole::input:
      return "input";
    case format::BufferRole::constant:
      return "constant";
    case format::BufferRole::derived:
      return "derived";
    case format::BufferRole::output:
      return "output";
    case format::BufferRole::temp:
      return "temp";
  }
  return "";
}

std::string symbol_source_text(const format::Plan& plan, const format::Symbol& symbol) {
  if (symbol.source == format::SymbolSource::iteration) return "number of the iteration of a loop";
  if (symbol.source == format::SymbolSource::step || symbol.input == none) return "from data, while running";
  const std::string& name = plan.inputs.at(static_cast<size_t>(symbol.input)).name;
  if (symbol.source == format::SymbolSource::input_value) return str("input ", name);
  std::string size = str(name, ".size(", symbol.dim, ")");
  if (symbol.rest != none) size = str("(", size, " - (", plan_expr(plan, symbol.rest), "))");
  return symbol.scale == 1 ? size : str(size, "/", symbol.scale);
}

std::string plan_step_call(const format::Plan& plan, const format::Step& step) {
  std::vector<std::string> args;
  static constexpr const char* access[] = {"", "read", "write", "read and write"};
  for (const format::KernelArg& arg : step.args)
    args.push_back(str(buffer_name(plan, arg.buffer), ": ", access[arg.access & 3]));
  for (const format::CallArg& arg : step.call_args) args.push_back(str(arg.name, "=", call_argument(plan, arg)));
  for (int32_t out : step.outputs) args.push_back(str(buffer_name(plan, out), ": write"));
  std::string text = str(step.name.empty() ? "step" : step.name, "(", join(args, ", "), ")");
  for (int32_t symbol : step.defines) text += str(" gives ", plan.symbols.at(static_cast<size_t>(symbol)).name);
  if (step.condition != none) text += str(" if ", plan_expr(plan, step.condition));
  if (step.items != none) text += str("  over ", plan_expr(plan, step.items), " items");
  if (!step.message.empty()) text += str("  ", quote(step.message));
  return text;
}

std::string plan_text(const format::Plan& plan) {
  std::string out = str("plan of ", plan.model_name, "\n");
  if (!plan.symbols.empty()) out += "symbols\n";
  for (const format::Symbol& s : plan.symbols)
    out += str("  ", s.name, " in [", bound_text(s.low), ", ", bound_text(s.high), "] = ", symbol_source_text(plan, s),
               "\n");
  if (!plan.guards.empty()) out += "guards\n";
  for (const format::Guard& guard : plan.guards) out += str("  ", guard.text, "  because ", guard.reason, "\n");
  out += "buffers\n";
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const format::Buffer& buffer = plan.buffers[b];
    out += str("  ", buffer.name, ": ", buffer_role_name(buffer.role), " ",
               plan_buffer_type(plan, static_cast<int32_t>(b)));
    if (buffer.role == format::BufferRole::constant && buffer.position != none)
      out += str("  ", plan.constants.at(static_cast<size_t>(buffer.position)).name);
    out += "\n";
  }
  if (!plan.init.empty()) {
    out += "steps when weights are loaded\n";
    add_steps(plan, plan.init, 0, out);
  }
  out += "steps of a run\n";
  add_steps(plan, plan.steps, 0, out);
  return out;
}

void for_each_step(const std::vector<format::Step>& steps, const std::function<void(const format::Step&, int)>& f,
                   int depth) {
  for (const format::Step& step : steps) {
    f(step, depth);
    for (const auto& block : step.blocks) for_each_step(block, f, depth + 1);
  }
}

std::vector<StepAccess> step_accesses(const format::Step& step) {
  std::vector<StepAccess> out;
  auto add = [&](int32_t buffer, bool writes) {
    if (buffer != none) out.push_back({buffer, writes});
  };
  auto one = [&](const format::Step& s, int) {
    for (const format::KernelArg& arg : s.args) add(arg.buffer, (arg.access & 2) != 0);
    for (const format::CallArg& arg : s.call_args)
      if (arg.kind == 1 || arg.kind == 2)
        for (int32_t b : arg.items) add(b, false);
    for (int32_t b : s.outputs) add(b, true);
    for (int32_t b : s.mutates) add(b, true);
  };
  one(step, 0);
  for (const auto& block : step.blocks) for_each_step(block, one);
  return out;
}

}  // namespace kiln
