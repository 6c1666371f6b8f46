#include "debug/control_watch.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "debug/bisect_checks.h"
#include "loops/walk.h"
#include "trace/plan_text.h"

namespace kiln {
namespace {

const std::string* name_of(const loops::Item& item) {
  if (const auto* kernel = std::get_if<loops::Kernel>(&item.what)) return &kernel->name;
  if (const auto* call = std::get_if<loops::Call>(&item.what)) return &call->name;
  return nullptr;
}

bool has_step(const std::vector<format::Step>& steps, const std::string& name) {
  bool found = false;
  for_each_step(steps, [&](const format::Step& step, int) { found = found || step.name == name; });
  return found;
}

}  // namespace

ControlWatch::ControlWatch(const loops::LoopProgram& program) : program_(program) { index(program.block, {}); }

void ControlWatch::index(const loops::Block& block, const std::vector<Place>& path) {
  for (const loops::Item& item : block) {
    if (const std::string* name = name_of(item))
      if (!paths_.emplace(*name, path).second) repeated_names_.insert(*name);
    int which = 0;
    loops::for_each_block(item, [&](const loops::Block& inside) {
      std::vector<Place> longer = path;
      longer.push_back({&item, which++});
      index(inside, longer);
    });
  }
}

void ControlWatch::wrote(const std::string& buffer, const Tensor& value) {
  if (value.numel() == 1 && !is_complex(value.dtype)) values_[buffer] = value.item(0).as_double() != 0;
}

std::string ControlWatch::buffer_of(const Predicate& predicate) const {
  const auto* buffer = std::get_if<loops::BufferId>(&predicate);
  return buffer ? program_.buffers[static_cast<size_t>(*buffer)].name : std::string();
}

std::string ControlWatch::text_of(const Predicate& predicate) const {
  const auto* expr = std::get_if<Expr>(&predicate);
  return expr ? expr->text() : buffer_of(predicate);
}

std::optional<bool> ControlWatch::value_of(const Predicate& predicate, const SymbolValues& symbols) const {
  if (const auto* expr = std::get_if<Expr>(&predicate)) {
    try {
      return evaluate(*expr, symbols) != 0;
    } catch (const Error&) {
      return std::nullopt;  // a symbol that has no value at this step
    }
  }
  const auto found = values_.find(buffer_of(predicate));
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<ControlFault> ControlWatch::enter(const Place& place, const kiln_step& step,
                                                const SymbolValues& symbols) {
  if (const auto* cond = std::get_if<loops::Cond>(&place.item->what)) {
    const auto taken = value_of(cond->predicate, symbols);
    if (!taken || *taken == (place.block == 0)) return std::nullopt;
    return ControlFault{str(cond->name, " takes the wrong branch: its predicate ", text_of(cond->predicate), " is ",
                            *taken ? "true" : "false", ", but ", step.name, " of the ",
                            place.block == 0 ? "true" : "false", " branch runs"),
                        buffer_of(cond->predicate), ""};
  }
  const auto* loop = std::get_if<loops::While>(&place.item->what);
  if (!loop || place.block == 0 || value_of(loop->predicate, symbols).value_or(true)) return std::nullopt;
  return ControlFault{str(loop->name, " runs an iteration too many: its condition ", text_of(loop->predicate),
                          " is false, but ", step.name, " of its body runs at iteration ", step.iteration),
                      buffer_of(loop->predicate), ""};
}

std::optional<ControlFault> ControlWatch::before(const kiln_step& step) {
  const auto found = paths_.find(step.name);
  if (found == paths_.end()) return std::nullopt;
  if (auto fault = left_loops(found->second)) return fault;
  const SymbolValues symbols = symbols_of(step);
  const std::vector<int64_t> iterations = iterations_of(step);
  for (const Place& place : found->second) {
    // Only the first step of a block: later ones may have changed the predicate for the next time.
    const auto entered = entered_.find({place.item, place.block});
    const bool first = entered == entered_.end() || entered->second != iterations;
    entered_[{place.item, place.block}] = iterations;
    if (std::holds_alternative<loops::While>(place.item->what))
      active_[place.item] = {iterations, symbols, place.block == 1};
    if (!first) continue;
    if (auto fault = enter(place, step, symbols)) return fault;
  }
  if (repeated_names_.count(step.name)) return std::nullopt;
  const auto ran = ran_.find(step.name);
  const bool again = ran != ran_.end() && ran->second == iterations;
  ran_[step.name] = iterations;
  if (!again) return std::nullopt;
  std::string written;
  for (size_t i = 0; i < step.arg_count && written.empty(); ++i)
    if (step.args[i].access & 2) written = step.args[i].name;
  return ControlFault{str(step.name, " runs a second time where its loops run it once"), written, ""};
}

// Loops that the run has left must have ended because their condition said so.
std::optional<ControlFault> ControlWatch::left_loops(const std::vector<Place>& path) {
  for (auto it = active_.begin(); it != active_.end();) {
    const bool inside =
        std::any_of(path.begin(), path.end(), [&](const Place& place) { return place.item == it->first; });
    if (inside) {
      ++it;
      continue;
    }
    const auto& loop = std::get<loops::While>(it->first->what);
    Active last = it->second;
    it = active_.erase(it);
    if (std::holds_alternative<Expr>(loop.predicate)) {
      if (!last.in_body || last.iterations.empty()) continue;
      last.symbols[loop.iteration_symbol] = last.iterations.back() + 1;
    }
    if (!value_of(loop.predicate, last.symbols).value_or(false)) continue;
    return ControlFault{str(loop.name, " ended too early: its condition ", text_of(loop.predicate), " is still true"),
                        buffer_of(loop.predicate), ""};
  }
  return std::nullopt;
}

std::optional<ControlFault> ControlWatch::missing_step(const format::Plan& plan) const {
  std::optional<ControlFault> found;
  loops::for_each_item(program_.block, [&](const loops::Item& item) {
    const std::string* name = name_of(item);
    if (!name || found || has_step(plan.steps, *name)) return;
    std::string written;
    if (const auto* kernel = std::get_if<loops::Kernel>(&item.what))
      loops::for_each_stmt(kernel->body, [&](const loops::Stmt& stmt) {
        if (stmt.kind == loops::StmtKind::store) written = program_.buffers[static_cast<size_t>(stmt.buffer)].name;
      });
    found = {str(*name, " is not in the plan: what its loops compute is never computed"), written, *name};
  });
  return found;
}

}  // namespace kiln
