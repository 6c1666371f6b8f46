// The families of operators. Each function adds its family's records to the registry; registry.cpp lists them all.
// A new family is one file, one line here and one line in registry.cpp.
#pragma once

namespace kiln {

class Registry;

void register_pointwise(Registry& registry);
void register_views(Registry& registry);
void register_reduce(Registry& registry);
void register_matmul(Registry& registry);
void register_index(Registry& registry);
void register_factories(Registry& registry);
void register_symbolic(Registry& registry);
void register_control_flow(Registry& registry);
void register_inplace_copy(Registry& registry);
void register_joins(Registry& registry);
void register_rearrangements(Registry& registry);
void register_convolution(Registry& registry);
void register_pooling(Registry& registry);
void register_normalization(Registry& registry);
void register_attention(Registry& registry);
void register_stacking(Registry& registry);
void register_products_of_tensors(Registry& registry);
void register_losses(Registry& registry);
void register_padding(Registry& registry);
void register_upsample(Registry& registry);
void register_order_statistics(Registry& registry);
void register_split_by_tensor(Registry& registry);
void register_selection(Registry& registry);
void register_special_math(Registry& registry);
void register_unfolding(Registry& registry);
void register_grid_sampling(Registry& registry);
void register_recurrent(Registry& registry);
void register_complex(Registry& registry);
void register_view_dtype(Registry& registry);
void register_linalg(Registry& registry);
void register_fourier(Registry& registry);
void register_windows(Registry& registry);
void register_random(Registry& registry);
void register_distances(Registry& registry);
void register_margin_losses(Registry& registry);
void register_embedding_bag(Registry& registry);
void register_quantile_family(Registry& registry);
void register_gradients(Registry& registry);
void register_repeat_family(Registry& registry);
void register_unique_family(Registry& registry);
void register_packed_products(Registry& registry);
void register_frexp(Registry& registry);
void register_antialias(Registry& registry);
void register_poisson(Registry& registry);
void register_second_names(Registry& registry);
void register_statistics(Registry& registry);
void register_backward(Registry& registry);
void register_backward_layers(Registry& registry);
void register_by_composition(Registry& registry);
void register_lu(Registry& registry);
void register_searching(Registry& registry);
void register_special_kernels(Registry& registry);
void register_orthogonal_polynomials(Registry& registry);
void register_segments(Registry& registry);
void register_zeta(Registry& registry);
void register_rational_functions(Registry& registry);
void register_linalg_norms(Registry& registry);
void register_linalg_factors(Registry& registry);
void register_linalg_composites(Registry& registry);
void register_grouped_products(Registry& registry);
void register_boxes(Registry& registry);
void register_deformed_convolution(Registry& registry);
void register_quantized_decomposed(Registry& registry);
void register_affine_quantisation(Registry& registry);
void register_fake_quantise(Registry& registry);
void register_foreach(Registry& registry);
void register_prims(Registry& registry);
void register_fractional_pooling(Registry& registry);
void register_backward_places(Registry& registry);

}  // namespace kiln
