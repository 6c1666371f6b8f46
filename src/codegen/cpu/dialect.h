// The CPU's language: C++ with vector types, and the printers of the tiles, points and rows that its schedules ask for.
#pragma once
#include "codegen/c_family/dialect.h"

namespace kiln::codegen {

class CpuDialect final : public SimdDialect {
 public:
  void print_tile(KernelPrinter& printer) const override;
  bool print_side_by_side(KernelPrinter& printer, const loops::Loop& loop) const override;
};
const CpuDialect& cpu_dialect();

}  // namespace kiln::codegen
