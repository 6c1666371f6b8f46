#include "loops/verify_order.h"

namespace kiln::loops {

std::string wrong_order(const Loop& loop) {
  const SumOrder& order = loop.order;
  const bool float_sum = loop.role == AxisRole::reduce && loop.reduce == ReduceOp::sum && is_float(loop.reduce_dtype);
  if (order != SumOrder() && !float_sum)
    return str("an order of summation for ", reduce_info(loop.reduce).name, " ", loop.var);
  if (order.fused && !summed_product(loop)) return str("sum ", loop.var, " is fused but does not end with a product");
  if (order.pairs && !order.fused) return str("sum ", loop.var, " is of pairs but not fused");
  if (order.block < 0 || !is_float(order.meet)) return str("blocks of ", order.block, " terms");
  const int64_t of_chains = order.chains * loop.directives.factor;
  const bool two = order.chains == 2 && loop.directives.binding == Binding::lane && order.block % 2 == 0 &&
                   order.block > 0 && loop.extent.is_constant() && loop.extent.value() % of_chains == 0;
  if (order.chains != 1 && !two)
    return str("sum ", loop.var, " in ", order.chains, " chains, which its vectors are not");
  return "";
}

}  // namespace kiln::loops
