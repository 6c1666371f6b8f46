#include "codegen/cpu/dialect.h"

#include "codegen/cpu/jam_printer.h"
#include "codegen/cpu/line_printer.h"
#include "codegen/cpu/matrix_printer.h"
#include "codegen/cpu/points_printer.h"
#include "codegen/cpu/tile_printer.h"

namespace kiln::codegen {
using namespace loops;

void CpuDialect::print_tile(KernelPrinter& printer) const {
  const Tile& tile = printer.kernel_.schedule->tile;
  if (tile.matrix)
    MatrixPrinter(printer).print_kernel();
  else if (takes_lines(tile))
    LinePrinter(printer).print();
  else
    TilePrinter(printer).print();
}

bool CpuDialect::print_side_by_side(KernelPrinter& printer, const Loop& loop) const {
  if (loop.role != AxisRole::parallel) return false;
  const bool unrolled = loop.directives.binding == Binding::unroll, peeled = loop.directives.tail == Tail::peel;
  const bool several_vectors = loop.directives.binding == Binding::lane && loop.directives.factor > printer.lane_count_;
  if (unrolled && peeled && !printer.lanes_ && PointsPrinter::takes(loop))
    PointsPrinter(printer, loop).print();
  else if ((unrolled && !peeled) || several_vectors)
    JamPrinter(printer, loop).print();
  else
    return false;
  return true;
}

const CpuDialect& cpu_dialect() {
  static const CpuDialect dialect;
  return dialect;
}

}  // namespace kiln::codegen
