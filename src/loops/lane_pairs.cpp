#include "loops/lane_pairs.h"

#include <algorithm>

namespace kiln::loops {

std::optional<PairFactors> pair_factors(const Loop& sum) {
  const Stmt* product = summed_product(sum);
  if (!product || sum.role != AxisRole::reduce || sum.reduce_dtype != DType::f32) return {};
  const auto made = [&](ValueId v) -> const Stmt* {
    const auto found = std::find_if(sum.body.begin(), sum.body.end(),
                                    [&](const Stmt& stmt) { return stmt.results == std::vector<ValueId>{v}; });
    return found == sum.body.end() ? nullptr : &*found;
  };
  const auto loaded = [&](ValueId factor) -> const Stmt* {
    const Stmt* cast = made(factor);
    if (!cast || cast->kind != StmtKind::op || cast->op != ScalarOp::cast) return nullptr;
    const Stmt* load = made(cast->args[0]);
    const bool fits = load && load->kind == StmtKind::load && load->dtype == DType::bf16 && load->mask == no_value;
    return fits ? load : nullptr;
  };
  const PairFactors out{loaded(product->args[0]), loaded(product->args[1])};
  // Two loads, two casts and the product: nothing else needs a single term.
  if (!out.left || !out.right || out.left == out.right || sum.body.size() != 5) return {};
  return out;
}

bool takes_pairs(const Loop& sum, int lanes) {
  const AxisDirectives& directives = sum.directives;
  return directives.binding == Binding::lane && directives.factor == int64_t{2} * lanes &&
         directives.tail == Tail::exact && sum.extent.is_constant() && sum.extent.value() % directives.factor == 0 &&
         pair_factors(sum);
}

bool takes_pairs_in_tile(const Loop& sum) {
  return sum.directives.binding == Binding::unroll && sum.directives.factor == 2 && pair_factors(sum);
}

}  // namespace kiln::loops
