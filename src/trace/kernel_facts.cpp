#include "trace/kernel_facts.h"

#include <set>

#include "ops/op_record.h"
#include "trace/plan_text.h"

namespace kiln {
namespace {

const char* kind_name(format::StepKind kind) {
  switch (kind) {
    case format::StepKind::kernel:
      return "kernel";
    case format::StepKind::library:
      return "library";
    case format::StepKind::custom:
      return "custom";
    case format::StepKind::bind_symbol:
      return "bind";
    case format::StepKind::assert_that:
      return "assert";
    case format::StepKind::cond:
      return "cond";
    case format::StepKind::while_loop:
      return "while";
  }
  return "";
}

struct Axes {
  bool items = false, lanes = false, loops = false, products = false;
};

void describe(const loops::Body& body, int depth, std::string& out, Axes& axes) {
  for (const loops::Stmt& stmt : body) {
    if (stmt.kind != loops::StmtKind::loop) continue;
    const loops::Loop& loop = *stmt.loop;
    axes.loops = true;
    out.append(static_cast<size_t>(depth) * 2, ' ');
    out += str(loop.var, " in ", loop.extent.text());
    switch (loop.role) {
      case loops::AxisRole::parallel:
        break;
      case loops::AxisRole::reduce:
        out += str(", reduces by ", loops::reduce_info(loop.reduce).name);
        axes.products = axes.products || loops::summed_product(loop);
        break;
      case loops::AxisRole::scan:
        out += str(", scans by ", loops::reduce_info(loop.reduce).name);
        break;
    }
    switch (loop.directives.binding) {
      case loops::Binding::none:
      case loops::Binding::serial:
        break;
      case loops::Binding::item:
        axes.items = true;
        out += loop.directives.factor > 1 ? str(", items of ", loop.directives.factor) : std::string(", one item each");
        break;
      case loops::Binding::lane:
        axes.lanes = true;
        out += str(", ", loop.directives.factor, " lanes");
        break;
      case loops::Binding::kept:
        out += ", once for items that follow one another";
        break;
      case loops::Binding::unroll:
        out += str(", unrolled by ", loop.directives.factor);
        break;
    }
    out += "\n";
    describe(loop.body, depth + 1, out, axes);
    describe(loop.after, depth + 1, out, axes);
  }
}

void add_kernel(const loops::Kernel& kernel, const CodeEvent& event, KernelFacts& facts) {
  facts.loops = loops::print(kernel, *event.loops);
  Axes axes;
  const bool on_gpu = kernel.schedule && kernel.schedule->grid.tile_rows > 0;
  const bool tiled = on_gpu || (kernel.schedule && kernel.schedule->tile.rows > 0);
  if (tiled && kernel.contraction) {
    const loops::Contraction& names = *kernel.contraction;
    const loops::Grid& grid = kernel.schedule->grid;
    facts.schedule += str(
        "a contraction: rows ", join(names.rows, ", "), ", columns ", join(names.columns, ", "), ", summed over ",
        join(names.sums, ", "), "; in ",
        on_gpu ? str("blocks of ", grid.tile_rows, " rows by ", grid.tile_columns, " columns, ", grid.tile_terms,
                     " terms at a time")
               : str("tiles of ", kernel.schedule->tile.rows, " rows by ", kernel.schedule->tile.vectors, " vectors"),
        "\n");
  }
  describe(kernel.body, 0, facts.schedule, axes);
  if (tiled || !axes.loops) return;
  if (!axes.lanes && event.target->lanes > 1)
    facts.hints.push_back("not vectorised: no loop of it runs along neighbouring elements");
  if (!axes.items) facts.hints.push_back("runs on one thread: none of its loops is spread over items");
  static const auto products = short_names_with(&OpFacts::matrix_product);
  for (const std::string& name : kernel.op_names)
    if (axes.products && products.contains(name)) {
      facts.hints.push_back("a matrix product without the template: the fusion log has the reason");
      break;
    }
}

}  // namespace

std::vector<KernelFacts> kernel_facts(const CodeEvent& event) {
  std::map<std::string, const loops::Kernel*> kernels;
  auto index = [&](const loops::Item& item) {
    if (const auto* kernel = std::get_if<loops::Kernel>(&item.what)) kernels[kernel->name] = kernel;
  };
  loops::for_each_item(event.loops->init, index);
  loops::for_each_item(event.loops->block, index);
  std::map<int32_t, const format::StepOrigin*> origins;
  if (event.origins)
    for (const format::StepOrigin& origin : event.origins->steps) origins[origin.number] = &origin;

  std::vector<KernelFacts> out;
  bool init = true;
  auto visit = [&](const format::Step& step, int depth) {
    KernelFacts facts;
    facts.name = step.name;
    facts.step = step.number;
    facts.init = init;
    facts.depth = depth;
    facts.kind = kind_name(step.kind);
    facts.call = plan_step_call(*event.plan, step);
    if (step.kind == format::StepKind::kernel && step.kernel >= 0) {
      facts.symbol = event.code->symbols.at(static_cast<size_t>(step.kernel));
      facts.source = event.code->texts.at(static_cast<size_t>(step.kernel));
      if (const auto found = kernels.find(step.name); found != kernels.end()) {
        facts.kernel = found->second;
        add_kernel(*found->second, event, facts);
      }
    }
    // Those of init run once, when weights are given.
    if (step.kind == format::StepKind::library && !init)
      facts.hints.push_back(
          "a kernel of the runtime's library: nothing is fused with it; 'kiln profile' says its share of a call");
    if (const auto found = origins.find(step.number); found != origins.end()) {
      const format::StepOrigin& o = *found->second;
      for (size_t i = 0; i < o.nodes.size(); ++i)
        facts.origins.push_back({o.nodes[i], o.ops[i], o.modules[i], o.lines[i]});
    }
    if (step.blocks.empty()) {
      std::set<std::string> reads, writes;
      for (const StepAccess& access : step_accesses(step))
        (access.writes ? writes : reads).insert(event.plan->buffers.at(static_cast<size_t>(access.buffer)).name);
      facts.reads.assign(reads.begin(), reads.end());
      facts.writes.assign(writes.begin(), writes.end());
    }
    out.push_back(std::move(facts));
  };
  for_each_step(event.plan->init, visit);
  init = false;
  for_each_step(event.plan->steps, visit);
  return out;
}

}  // namespace kiln
