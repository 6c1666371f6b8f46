#include "runtime/kernel_table.h"

#include "base/error.h"
#include "kiln/kernel_abi.h"

namespace kiln::runtime {
namespace {

[[noreturn]] void refuse(const std::string& label, const std::string& what) {
  fail_user("K0525", str("the plan and the code ", label, " do not belong together: ", what));
}

void check_steps(const std::vector<format::Step>& block, const kiln_kernel_table& table, const std::string& label) {
  for (const format::Step& step : block) {
    for (const auto& inner : step.blocks) check_steps(inner, table, label);
    if (step.kind != format::StepKind::kernel) continue;
    const kiln_kernel_entry& kernel = table.kernels[step.kernel];
    if (step.args.size() != kernel.buffer_count || step.ints.size() != kernel.int_count)
      refuse(label, str("step ", step.name, " has ", step.args.size(), " buffers and ", step.ints.size(),
                        " numbers for the kernel ", kernel.name, ", which takes ", kernel.buffer_count, " and ",
                        kernel.int_count));
  }
}

}  // namespace

void check_kernels(const format::Plan& plan, const CodeModule& code, const std::string& label) {
  const auto* table = static_cast<const kiln_kernel_table*>(code.symbol("kiln_kernels"));
  if (!table) refuse(label, "the code does not say what its kernels take (no kiln_kernels); compile the model again");
  if (table->version != KILN_KERNEL_ABI_VERSION)
    refuse(label, str("the code has interface version ", table->version, ", the plan ", KILN_KERNEL_ABI_VERSION));
  if (table->count != plan.kernels.size() || !table->kernels)
    refuse(label, str("the plan names ", plan.kernels.size(), " kernels, the code has ", table->count));
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    if (!table->kernels[i].name || plan.kernels[i].symbol != table->kernels[i].name)
      refuse(label, str("kernel ", i, " is ", plan.kernels[i].symbol, " in the plan and ",
                        table->kernels[i].name ? table->kernels[i].name : "nameless", " in the code"));
  check_steps(plan.init, *table, label);
  check_steps(plan.steps, *table, label);
}

}  // namespace kiln::runtime
