#include "debug/bisect_checks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "debug/step_copy.h"

namespace kiln {

uint64_t checksum(const Tensor& tensor) {
  uint64_t state = 0x243f6a8885a308d3u;
  const Tensor dense = tensor.as_contiguous();
  const auto bytes = static_cast<size_t>(dense.numel() * dtype_bytes(dense.dtype));
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, dense.data() + i, std::min<size_t>(8, bytes - i));
    state = (state ^ word) * 0x9e3779b97f4a7c15u;
    state ^= state >> 32;
  }
  return state;
}

bool writes_first(const StepInterpreter& steps, const loops::Kernel& kernel, std::string_view name) {
  std::optional<bool> store;
  loops::for_each_stmt(kernel.body, [&](const loops::Stmt& s) {
    if (store || s.buffer == loops::no_buffer) return;
    if (steps.program().buffers[static_cast<size_t>(s.buffer)].name == name)
      store = s.kind == loops::StmtKind::store && s.mode == loops::StoreMode::plain;
  });
  return store.value_or(false);
}

bool draws_random_numbers(const loops::Kernel& kernel) {
  bool found = false;
  loops::for_each_stmt(kernel.body, [&](const loops::Stmt& s) { found |= s.kind == loops::StmtKind::random; });
  return found;
}

namespace {

// How many elements a kernel of nested loops reads by this load, whose mask is `expression < limit`; -1: not known.
int64_t elements_read(const loops::Kernel& kernel, const loops::Stmt& load) {
  std::map<loops::ValueId, const loops::Stmt*> made;
  std::vector<const loops::Loop*> loops_of;
  loops::for_each_stmt(kernel.body, [&](const loops::Stmt& stmt) {
    for (loops::ValueId v : stmt.results) made[v] = &stmt;
    if (stmt.loop) loops_of.push_back(stmt.loop.get());
  });
  Expr limited = 0, limit = 1;
  if (load.mask != loops::no_value) {
    const loops::Stmt& compare = *made.at(load.mask);
    if (compare.kind != loops::StmtKind::op || compare.op != loops::ScalarOp::lt) return -1;
    limited = made.at(compare.args[0])->expr, limit = made.at(compare.args[1])->expr;
  }
  if (!limit.is_constant()) return -1;
  int64_t count = limit.value();
  for (const loops::Loop* loop : loops_of) {
    if (!loop->extent.is_constant()) return -1;
    if (!mentions(limited, loop->var)) count *= loop->extent.value();
  }
  return count;
}

int64_t count_elements(const loops::LoopProgram& program, loops::BufferId buffer) {
  int64_t count = 1;
  for (const Expr& size : program.buffers[static_cast<size_t>(buffer)].sizes)
    count *= size.is_constant() ? size.value() : 0;
  return count;
}

}  // namespace

std::vector<std::string> packed_from(const StepInterpreter& steps, const std::string& buffer) {
  const loops::LoopProgram& program = steps.program();
  std::vector<std::string> out;
  for (const loops::Item& item : program.init) {
    const auto* kernel = std::get_if<loops::Kernel>(&item.what);
    if (!kernel) continue;
    const loops::Stmt *load = nullptr, *store = nullptr;
    bool one = true;
    loops::for_each_stmt(kernel->body, [&](const loops::Stmt& stmt) {
      const loops::Stmt** place = stmt.kind == loops::StmtKind::load    ? &load
                                  : stmt.kind == loops::StmtKind::store ? &store
                                                                        : nullptr;
      if (!place) return;
      one &= *place == nullptr;
      *place = &stmt;
    });
    if (!store || program.buffers[static_cast<size_t>(store->buffer)].name != buffer) continue;
    // Moved, and nothing else; where the load is masked off there is a zero.
    const bool moves = one && load && store->mask == loops::no_value && store->args == load->results &&
                       elements_read(*kernel, *load) == count_elements(program, load->buffer);
    if (!moves || program.buffers[static_cast<size_t>(load->buffer)].constant.empty()) return {};
    out.push_back(program.buffers[static_cast<size_t>(load->buffer)].constant);
  }
  return out;
}

namespace {

// splitmix64's last steps: every bit of the word reaches every bit of the result.
uint64_t mixed(uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

// Sums of two hashes of each element: weights have many millions of them, too many to sort or to count.
std::pair<uint64_t, uint64_t> unordered_sum(const Tensor& tensor) {
  const Tensor dense = tensor.as_contiguous();
  const auto width = static_cast<size_t>(dtype_bytes(dense.dtype));
  std::pair<uint64_t, uint64_t> sums{};
  for (int64_t i = 0; i < dense.numel(); ++i) {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (size_t byte = 0; byte < width; byte += 8) {
      uint64_t word = 0;
      std::memcpy(&word, dense.data() + static_cast<size_t>(i) * width + byte, std::min<size_t>(8, width - byte));
      hash = mixed(hash + word);
    }
    sums.first += hash;
    sums.second += mixed(hash + 0x243f6a8885a308d3u);
  }
  return sums;
}

}  // namespace

bool same_values(const Tensor& a, const std::vector<Tensor>& others) {
  int64_t count = 0;
  std::pair<uint64_t, uint64_t> expected{};
  for (const Tensor& b : others) {
    count += b.numel();
    if (a.numel() < count || a.dtype != b.dtype) return true;  // a part: not to be told this way
    const auto sum = unordered_sum(b);
    expected.first += sum.first, expected.second += sum.second;
  }
  // What the first has more are the zeros between.
  Tensor zero = Tensor::empty(a.dtype, {1});
  std::memset(zero.data(), 0, static_cast<size_t>(dtype_bytes(a.dtype)));
  const auto one = unordered_sum(zero);
  const auto more = static_cast<uint64_t>(a.numel() - count);
  expected.first += more * one.first, expected.second += more * one.second;
  return unordered_sum(a) == expected;
}

std::optional<std::string> layout_fault(const loops::Buffer& buffer, const DLTensor& tensor,
                                        const SymbolValues& symbols) {
  std::vector<int64_t> sizes, strides;
  try {
    for (const Expr& e : buffer.tensor_sizes()) sizes.push_back(evaluate(e, symbols));
    for (const Expr& e : buffer.tensor_strides()) strides.push_back(evaluate(e, symbols));
  } catch (const Error&) {
    return std::nullopt;  // a symbol that has no value at this step
  }
  const auto text = [](const std::vector<int64_t>& v) {
    return "[" + join_map(v, ", ", [](int64_t i) { return std::to_string(i); }) + "]";
  };
  if (sizes_of(tensor) != sizes)
    return str(" with sizes ", text(sizes_of(tensor)), " where its loops say ", text(sizes));
  if (std::count(sizes.begin(), sizes.end(), 0) > 0) return std::nullopt;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1 && strides_of(tensor)[d] != strides[d])
      return str(" with strides ", text(strides_of(tensor)), " where its loops say ", text(strides));
  return std::nullopt;
}

std::string buffer_in(const std::string& message, const std::string& before) {
  const size_t at = message.find(before);
  if (at == std::string::npos) return "";
  const size_t begin = at + before.size(), end = message.find(" (", begin);
  return end == std::string::npos ? "" : message.substr(begin, end - begin);
}

SymbolValues symbols_of(const kiln_step& step) {
  SymbolValues out;
  for (size_t i = 0; i < step.symbol_count; ++i) out[step.symbol_names[i]] = step.symbol_values[i];
  return out;
}

std::vector<int64_t> iterations_of(const kiln_step& step) {
  return {step.iterations, step.iterations + step.loop_depth};
}

}  // namespace kiln
