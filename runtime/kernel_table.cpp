#include "runtime/kernel_table.h"

#include <initializer_list>
#include <string_view>

#include "base/error.h"
#include "kiln/kernel_abi.h"

namespace kiln::runtime {
namespace {

using Words = std::initializer_list<std::string_view>;

[[noreturn]] void refuse(const std::string& label, Words what) {
  std::string message = str("the plan and the code ", label, " do not belong together: ");
  for (std::string_view word : what) message += word;
  fail_user("K0525", message);
}

std::string number(size_t value) { return std::to_string(value); }

void check_steps(const std::vector<format::Step>& block, const kiln_kernel_table& table, const std::string& label) {
  for (const format::Step& step : block) {
    for (const auto& inner : step.blocks) check_steps(inner, table, label);
    if (step.kind != format::StepKind::kernel) continue;
    const kiln_kernel_entry& kernel = table.kernels[step.kernel];
    if (step.args.size() != kernel.buffer_count || step.ints.size() != kernel.int_count)
      refuse(label, {"step ", step.name, " has ", number(step.args.size()), " buffers and ", number(step.ints.size()),
                     " numbers for the kernel ", kernel.name, ", which takes ", number(kernel.buffer_count), " and ",
                     number(kernel.int_count)});
  }
}

}  // namespace

void check_kernels(const format::Plan& plan, const CodeModule& code, const std::string& label) {
  const auto* table = static_cast<const kiln_kernel_table*>(code.symbol("kiln_kernels"));
  if (!table) refuse(label, {"the code does not say what its kernels take (no kiln_kernels); compile the model again"});
  if (table->version < KILN_KERNEL_ABI_OLDEST || table->version > KILN_KERNEL_ABI_VERSION)
    refuse(label, {"the table of kernels has version ", number(table->version)});
  if (table->count != plan.kernels.size() || !table->kernels)
    refuse(label, {"the plan names ", number(plan.kernels.size()), " kernels, the code has ", number(table->count)});
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const char* name = table->kernels[i].name ? table->kernels[i].name : "nameless";
    if (plan.kernels[i].symbol != name)
      refuse(label, {"kernel ", number(i), " is ", plan.kernels[i].symbol, " in the plan and ", name, " in the code"});
  }
  check_steps(plan.init, *table, label);
  check_steps(plan.steps, *table, label);
}

}  // namespace kiln::runtime
