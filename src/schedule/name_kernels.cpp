#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// What is fused, shortest telling form: repeated and pure data-movement names are dropped, long lists end in a count.
std::string fused_name(const Kernel& kernel, const OperatorNames& moves) {
  std::vector<std::string> names;
  for (bool keep_moves : {false, true}) {
    for (const std::string& name : kernel.op_names)
      if ((keep_moves || !moves.contains(name)) && std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
    if (!names.empty()) break;
  }
  constexpr size_t most = 6;
  if (names.size() > most) {
    size_t left = names.size() - most;
    names.resize(most);
    names.push_back(str("and", left));
  }
  return names.empty() ? "kernel" : join(names, "_");
}

}  // namespace

bool name_kernels(LoopProgram& program, Log& log, const OperatorNames& moves, const Target& target) {
  int number = 0;
  const char* language = target.is_gpu() ? "cuda_" : "cpp_";
  auto name = [&](Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) {
      const bool tiled = kernel->schedule && (kernel->schedule->tile.rows > 0 || kernel->schedule->grid.tile_rows > 0);
      std::string fresh = str(language, tiled ? "mm" : "fused", "_", fused_name(*kernel, moves), "_", number++);
      log.add([&] { return Decision{"name", kernel->name, "as", fresh, "", true, ""}; });
      kernel->name = std::move(fresh);
    }
    if (auto* call = std::get_if<Call>(&item.what))
      if (!call->custom) call->name = str("lib_", call->library, "_", number++);
  };
  // The steps that users see come first; what runs once at loading follows.
  for_each_item(program.block, name);
  for_each_item(program.init, name);
  return true;
}

}  // namespace kiln::loops
