#include "codegen/cuda/dialect.h"

#include "base/error.h"

namespace kiln::codegen {
using namespace loops;

std::string CudaDialect::head() const {
  // Of a tile by matrix instructions two blocks fit, if the compiler keeps to half of the registers.
  const int64_t part = grid_.thread_rows * grid_.thread_columns / (grid_.warpgroups ? 4 : 1);
  constexpr int64_t half = 113 << 10;  // of the memory that blocks share
  const bool fits = !grid_.warpgroups || grid_.stages * 128 * (grid_.tile_rows + grid_.tile_columns) <= half;
  const bool two = grid_.tensor_cores && grid_.threads == 256 && part <= 64 * 32 && fits;
  const std::string cluster = grid_.parts > 1 ? str("__cluster_dims__(", grid_.parts, ")") : "";
  return str("extern \"C\" __global__ void __launch_bounds__(", grid_.threads, two ? ", 2" : "", ")", cluster,
             " $NAME(const kiln_arguments<$BUFFERS, $INTS> args) {\n");
}

std::string CudaDialect::buffer(DType dtype, bool constant, size_t number) const {
  const std::string type = str(constant ? "const " : "", storage_type(dtype));
  return str("  ", type, "* const b", number, " = (", type, "*)args.buffers[", number, "];\n");
}
std::string CudaDialect::integer(size_t number) const {
  return str("  const i64 n", number, " = args.ints[", number, "];\n");
}

// Each team has a part of the launch's memory.
std::string CudaDialect::scratch(DType dtype, size_t number, const std::string& offset) const {
  const char* type = storage_type(dtype);
  return str("  ", type, "* const scratch", number, " = (", type, "*)(args.scratch + (blockIdx.x * ",
             grid_.threads / grid_.team, "l + threadIdx.x / ", grid_.team, ") * args.scratch_bytes + ", offset, ");\n");
}

std::string CudaDialect::items() const {
  const int at_once = grid_.threads / grid_.team;  // items of a block
  const std::string first = at_once == 1      ? "blockIdx.x"
                            : grid_.team == 1 ? str("blockIdx.x * ", at_once, "l + threadIdx.x")
                                              : str("blockIdx.x * ", at_once, "l + threadIdx.x / ", grid_.team);
  return str("for (i64 item = ", first, "; item < args.items; item += gridDim.x * ", at_once, "l)");
}

std::string CudaDialect::raise(int site, const std::string& told) const {
  return str("{ gpu_raise(args, ", site, ", ", told, "); return; }");
}

std::string CudaDialect::op(ScalarOp op, DType dtype, const std::vector<std::string>& operands) const {
  const bool wraps = op == ScalarOp::add || op == ScalarOp::sub || op == ScalarOp::mul;
  if (wraps && is_integral(dtype) && dtype != DType::boolean)
    return str("gpu_", scalar_op_info(op).name, "(", join(operands, ", "), ")");
  return Dialect::op(op, dtype, operands);
}

std::string CudaDialect::fused(const std::string& a, const std::string& b, const std::string& c) const {
  return str("fma(", a, ", ", b, ", ", c, ")");
}

std::string CudaDialect::atomic_add(DType dtype, const std::string& pointer, const std::string& value) const {
  return str("gpu_atomic_add_", storage_suffix(dtype), "(", pointer, ", ", value, ");");
}

std::string CudaDialect::thread() const {
  return grid_.team == grid_.threads ? "threadIdx.x" : str("(threadIdx.x % ", grid_.team, ")");
}
std::string CudaDialect::threads() const { return std::to_string(grid_.team); }

std::string CudaDialect::quotient(const std::string& a, const std::string& b) const {
  return str("gpu_quotient(", a, ", ", b, ")");
}
std::string CudaDialect::remainder(const std::string& a, const std::string& b) const {
  return str("gpu_remainder(", a, ", ", b, ")");
}
std::string CudaDialect::divide(const std::string& a, const std::string& b) const {
  return str(a, " = ", quotient(a, b));
}

std::string CudaDialect::wide(const std::vector<std::string>& buffers) const {
  return str("  const bool wide = gpu_aligned(", join(buffers, ", "), ");\n");
}
std::string CudaDialect::wide_type(DType dtype, int count) const {
  return str("gpu_word<", storage_type(dtype), ", ", count, ">");
}
std::string CudaDialect::wide_load(int count, const std::string& pointer, const std::string& left, bool fixed) const {
  return str(fixed ? "gpu_fetch_fixed<" : "gpu_fetch<", count, ">(", pointer, ", wide", left.empty() ? "" : ", ", left,
             ")");
}
std::string CudaDialect::wide_store(const std::string& pointer, const std::string& word,
                                    const std::string& left) const {
  return str("gpu_put(", pointer, ", ", word, ", wide", left.empty() ? "" : ", ", left, ");");
}

std::string CudaDialect::reduced(const std::string& value, const std::string& combine) const {
  return str("team_reduce<", grid_.team, ">(", value, ", [](auto a, auto b) { return ", combine, "; })");
}

std::string CudaDialect::over_threads(ReduceOp op, const std::string& value) const {
  switch (op) {
    case ReduceOp::sum:
      return reduced(value, "gpu_add(a, b)");
    case ReduceOp::prod:
      return reduced(value, "gpu_mul(a, b)");
    case ReduceOp::max:
      return reduced(value, "k_max(a, b)");
    case ReduceOp::min:
      return reduced(value, "k_min(a, b)");
    case ReduceOp::any:
      return reduced(value, "a | b");
    case ReduceOp::all:
      return reduced(value, "a & b");
    default:
      fail_bug("a reduction to several values has several accumulators");
  }
}

std::string CudaDialect::over_threads(ReduceOp op, const std::vector<std::string>& acc) const {
  if (acc.size() == 1) return Dialect::over_threads(op, acc);
  if (op == ReduceOp::welford)
    return str("{ const auto all = ",
               reduced(str("gpu_moments<decltype(", acc[0], ")>{", join(acc, ", "), "}"), "gpu_together(a, b)"), "; ",
               acc[0], " = all.mean; ", acc[1], " = all.m2; ", acc[2], " = all.count; }");
  const char* better = op == ReduceOp::argmax ? "gpu_greatest(a, b)" : "gpu_least(a, b)";
  return str("{ const auto best = ", reduced(str("gpu_place<decltype(", acc[0], ")>{", join(acc, ", "), "}"), better),
             "; ", acc[0], " = best.value; ", acc[1], " = best.index; }");
}

std::string CudaDialect::leader() const {
  if (grid_.team == 1) return "";
  return str(thread(), " == 0");
}
std::string CudaDialect::barrier() const {
  return grid_.team == 1 ? "" : grid_.team <= 32 ? "__syncwarp();" : "__syncthreads();";
}

}  // namespace kiln::codegen
