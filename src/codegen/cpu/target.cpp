#include "base/cpu_levels.h"
#include "base/error.h"
#include "codegen/cpu/backend.h"

namespace kiln::codegen {
namespace {

struct Row {
  const char* name;
  CpuLevel level;
  int lanes, registers;
  bool brain_floats = false;  // what it adds is for bf16
  bool bytes = false;         // what it adds is for products of bytes, or for them too
  bool matrix = false;        // has instructions for tiles of matrices
};
constexpr Row rows[] = {
    {"x86-64-v4+bf16+amx", CpuLevel::x86_64_v4_amx, 16, 32, true, true, true},
    {"x86-64-v4+bf16", CpuLevel::x86_64_v4_bf16, 16, 32, true, true},
    {"x86-64-v4+vnni", CpuLevel::x86_64_v4_vnni, 16, 32, false, true},
    {"x86-64-v4", CpuLevel::x86_64_v4, 16, 32},
    {"x86-64-v3", CpuLevel::x86_64_v3, 8, 16},
    {"x86-64-v2", CpuLevel::x86_64_v2, 4, 16},
    {"generic", CpuLevel::generic, 4, 16},
};

}  // namespace

std::vector<std::string> CpuBackend::target_names() const {
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(row.name);
  return names;
}

CpuLevel cpu_level(const Target& target) {
  for (const Row& row : rows)
    if (target.name == row.name) return row.level;
  fail_bug(str(target.name, " is no target of the CPU"));
}

Target CpuBackend::target(const std::string& name, int simdlen_bits) const {
  for (const Row& row : rows) {
    if (name != row.name) continue;
    // cpp.simdlen is in bits, as in PyTorch; 1 means scalar code.
    int lanes = simdlen_bits == 0   ? row.lanes
                : simdlen_bits == 1 ? 1
                                    : std::min(row.lanes, std::max(1, simdlen_bits / 32));
    while (lanes & (lanes - 1)) --lanes;
    Target out;
    out.name = row.name, out.lanes = lanes, out.vector_registers = row.registers;
    if (row.lanes >= 16) out.page_reach = 384 << 10;  // processors with such vectors have more pages at hand
    out.bf16_pairs = row.brain_floats && lanes == row.lanes;
    out.byte_quads = row.bytes && lanes == row.lanes;
    out.matrix_tiles = row.matrix && lanes == row.lanes;
    return out;
  }
  fail_unknown_target(*this, name);
}

namespace {

// The best first; what the last asks for every processor has. Levels with instructions for bf16 or for bytes are for
// programs that have such values.
std::string host_target(bool brain_floats, bool bytes) {
  const CpuFeatures features = processor_features();
  for (const Row& row : rows) {
    const bool wanted = row.brain_floats ? brain_floats : !row.bytes || bytes;
    if (wanted && check_target(row.name, features).runs()) return row.name;
  }
  return rows[std::size(rows) - 1].name;
}

}  // namespace

std::string CpuBackend::host_target_name() const { return host_target(true, true); }
std::string CpuBackend::host_target_for(const std::set<DType>& types) const {
  return host_target(types.contains(DType::bf16), types.contains(DType::i8));
}

}  // namespace kiln::codegen
