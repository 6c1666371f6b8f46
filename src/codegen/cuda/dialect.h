// CUDA C++: a lane is a thread, every value a scalar. How many threads a block has and how many of them take an item
// together is the kernel's schedule.
#pragma once
#include "codegen/c_family/dialect.h"

namespace kiln::codegen {

class CudaDialect final : public Dialect {
 public:
  explicit CudaDialect(const loops::Grid& grid) : grid_(grid) {}
  bool has_vectors() const override { return false; }
  // $BUFFERS and $INTS stand for how many the kernel takes.
  std::string head() const override;
  std::string buffer(DType dtype, bool constant, size_t number) const override;
  std::string integer(size_t number) const override;
  std::string scratch(DType dtype, size_t number, const std::string& offset) const override;
  std::string end() const override { return "}\n"; }
  std::string items() const override;
  std::string seed() const override { return "args.seed"; }
  std::string raise(int site, const std::string& told) const override;
  const char* spelling(const loops::ScalarOpInfo& info) const override { return info.cuda; }
  // Integers wrap around, which C++ does not promise of its operators.
  std::string op(loops::ScalarOp op, DType dtype, const std::vector<std::string>& operands) const override;
  std::string fused(const std::string& a, const std::string& b, const std::string& c) const override;
  std::string atomic_add(DType dtype, const std::string& pointer, const std::string& value) const override;

  std::string quotient(const std::string& a, const std::string& b) const override;
  std::string remainder(const std::string& a, const std::string& b) const override;
  std::string divide(const std::string& a, const std::string& b) const override;
  std::string wide(const std::vector<std::string>& buffers) const override;
  std::string wide_type(DType dtype, int count) const override;
  std::string wide_load(int count, const std::string& pointer, const std::string& left, bool fixed) const override;
  std::string wide_store(const std::string& pointer, const std::string& word, const std::string& left) const override;
  std::string thread() const override;
  std::string threads() const override;
  std::string over_threads(loops::ReduceOp op, const std::string& value) const override;
  std::string over_threads(loops::ReduceOp op, const std::vector<std::string>& accumulators) const override;
  std::string leader() const override;
  std::string barrier() const override;
  void print_block_tile(KernelPrinter& printer) const override;

 private:
  std::string reduced(const std::string& value, const std::string& combine) const;
  const loops::Grid grid_;
};

}  // namespace kiln::codegen
