#include "ops/complex_reference.h"
#include "ops/families.h"
#include "ops/inplace.h"
#include "ops/op_record.h"

namespace kiln {

const Registry& Registry::instance() {
  static const Registry registry = [] {
    Registry all;
    register_pointwise(all);
    register_views(all);
    register_reduce(all);
    register_matmul(all);
    register_index(all);
    register_factories(all);
    register_symbolic(all);
    register_control_flow(all);
    register_inplace_copy(all);
    register_joins(all);
    register_rearrangements(all);
    register_convolution(all);
    register_pooling(all);
    register_normalization(all);
    register_attention(all);
    register_stacking(all);
    register_products_of_tensors(all);
    register_losses(all);
    register_padding(all);
    register_upsample(all);
    register_order_statistics(all);
    register_selection(all);
    register_special_math(all);
    register_unfolding(all);
    register_grid_sampling(all);
    register_recurrent(all);
    register_complex(all);
    register_view_dtype(all);
    register_linalg(all);
    register_fourier(all);
    register_random(all);
    register_distances(all);
    register_margin_losses(all);
    register_embedding_bag(all);
    register_quantile_family(all);
    register_gradients(all);
    register_repeat_family(all);
    register_unique_family(all);
    register_split_by_tensor(all);
    register_packed_products(all);
    register_frexp(all);
    register_antialias(all);
    register_poisson(all);
    register_second_names(all);
    register_statistics(all);
    register_backward(all);
    register_backward_layers(all);
    register_by_composition(all);
    register_lu(all);
    register_searching(all);
    register_special_kernels(all);
    register_orthogonal_polynomials(all);
    register_segments(all);
    register_zeta(all);
    register_rational_functions(all);
    register_linalg_norms(all);
    register_linalg_factors(all);
    register_linalg_composites(all);
    register_grouped_products(all);
    register_boxes(all);
    register_deformed_convolution(all);
    register_quantized_decomposed(all);
    register_affine_quantisation(all);
    register_fake_quantise(all);
    register_foreach(all);
    register_prims(all);
    register_fractional_pooling(all);
    register_backward_places(all);
    all.finish();
    return all;
  }();
  return registry;
}

const OpRecord* Registry::find(std::string_view name) const {
  auto found = records_.find(name);
  return found == records_.end() ? nullptr : found->second.get();
}

std::vector<const OpRecord*> Registry::all() const {
  std::vector<const OpRecord*> out;
  for (const auto& [name, record] : records_) out.push_back(record.get());
  return out;
}

void Registry::add(OpRecord record) {
  record.schema = parse_schema(record.schema_text, record.name_space);
  std::string name = record.schema.name;
  if (records_.contains(name)) fail_bug(str("operator ", name, " is declared twice"));
  auto stored = std::make_unique<OpRecord>(std::move(record));
  const OpRecord* functional = stored.get();
  records_.emplace(name, std::move(stored));
  if (functional->inplace) {
    OpRecord variant = make_inplace(*functional);
    std::string variant_name = variant.schema.name;
    if (records_.contains(variant_name)) fail_bug(str("operator ", variant_name, " is declared twice"));
    records_.emplace(variant_name, std::make_unique<OpRecord>(std::move(variant)));
  }
}

void Registry::finish() {
  for (const auto& [name, record] : records_)
    if (record->reference && !record->functional && record->facts.complex.rule != ComplexRule::none)
      record->reference = with_complex_reference(*record);
}

std::vector<std::string> incomplete_records(const Registry& registry) {
  std::vector<std::string> out;
  for (const OpRecord* record : registry.all()) {
    if (record->kind != OpKind::plain || record->functional) continue;
    auto miss = [&](std::string_view what) { out.push_back(str(record->name(), ": ", what)); };
    if (!record->infer) miss("no shape-and-dtype rule");
    if (!record->reference) miss("no reference evaluation");
    if (record->samples.empty()) miss("no samples");
    int ways = (record->decompose ? 1 : 0) + (record->lower ? 1 : 0) + (record->library.empty() ? 0 : 1);
    if (record->schema.mutates() && !record->early) {
      if (ways != 0) miss("mutates, and so is never compiled itself: it must not say how");
    } else if (ways != 1) {
      miss(str(ways, " of decomposition, lowering and library kernel; exactly one is needed"));
    }
    for (const Sample& sample : record->samples)
      if (sample.args.size() > record->schema.args.size()) miss("a sample has more arguments than the schema");
  }
  return out;
}

}  // namespace kiln
