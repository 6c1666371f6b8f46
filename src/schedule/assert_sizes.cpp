#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// What the kernel asks for, where it is nothing but one comparison of sizes.
std::optional<AssertThat> asked_of_sizes(const Kernel& kernel, const LoopProgram& program) {
  std::map<ValueId, Expr> sizes;
  std::map<ValueId, Expr> opposites;  // of conditions
  std::optional<AssertThat> out;
  for (const Stmt& stmt : kernel.body) {
    if (stmt.kind == StmtKind::index_value && is_integral(stmt.dtype)) {
      sizes.emplace(stmt.results[0], stmt.expr);
    } else if (stmt.kind == StmtKind::op && stmt.op == ScalarOp::lt && sizes.contains(stmt.args[0]) &&
               sizes.contains(stmt.args[1])) {
      opposites.emplace(stmt.results[0], compare_le(sizes.at(stmt.args[1]), sizes.at(stmt.args[0])));
    } else if (stmt.kind == StmtKind::raise_if && stmt.mask == no_value && opposites.contains(stmt.args[0]) && !out) {
      const Site& site = program.sites[static_cast<size_t>(stmt.site)];
      out = AssertThat{opposites.at(stmt.args[0]), site.message, {site.origin}};
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

bool assert_sizes(LoopProgram& program, const Target& target, Log& log) {
  if (!target.is_gpu()) return false;
  bool changed = false;
  for_each_item(program.block, [&](Item& item) {
    const auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel) return;
    std::optional<AssertThat> asked = asked_of_sizes(*kernel, program);
    if (!asked) return;
    log.add(
        [&] { return Decision{"assert", kernel->name, "", "", "sizes are known before it is launched", true, ""}; });
    item.what = std::move(*asked);
    changed = true;
  });
  return changed;
}

}  // namespace kiln::loops
