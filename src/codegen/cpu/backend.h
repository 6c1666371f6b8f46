// The CPU: C++ for the levels of x86-64 and for any other processor.
#pragma once
#include "codegen/backend.h"
#include "codegen/c_family/prelude.h"

namespace kiln::codegen {

class CpuBackend : public Backend {
 public:
  DeviceType device() const override { return DeviceType::cpu; }
  const char* source_ending() const override { return "cpp"; }
  std::vector<std::string> target_names() const override;
  std::string host_target_name() const override;
  std::string host_target_for(const std::set<DType>& types) const override;
  Target target(const std::string& name, int simdlen_bits) const override;
  GeneratedCode generate(const loops::LoopProgram& program, const Target& target,
                         const loops::FaultInjection& fault) const override;
  StepCode step_code(const loops::Kernel& kernel, const loops::LoopProgram& program) const override;
  std::string unit_text(const std::string& kernels, const Target& target) const override;
  std::map<std::string, std::string> functions_of_unit(const std::string& unit) const override;
  std::string with_checked_accesses(const std::string& unit, int lanes) const override;
};

CpuLevel cpu_level(const Target& target);

}  // namespace kiln::codegen
