#include "ops/autocast.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace kiln {
namespace {

using Names = std::string_view;

// An entry without overload stands for all overloads that take the operator's usual arguments.
constexpr std::array<Names, 24> lower = {
    "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "linear", "linalg_vecdot", "_addmm_activation", "conv1d",
    "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "_convolution.deprecated", "prelu", "scaled_dot_product_attention", "_native_multi_head_attention",
    // made of products
    "einsum", "tensordot", "linalg_multi_dot", "lstm"};
constexpr std::array<Names, 3> promoted = {"cat", "stack", "index_copy"};
constexpr Names single =
    " adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits cdist "
    "cholesky_inverse cholesky_solve cosine_embedding_loss cross_entropy_loss ctc_loss fake_quantize_per_tensor_affine "
    "fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn "
    "fft_rfft "
    "fft_rfft2 fft_rfftn fractional_max_pool2d fractional_max_pool3d geqrf grid_sampler grid_sampler_2d "
    "grid_sampler_3d hinge_embedding_loss huber_loss inverse kl_div l1_loss linalg_cholesky linalg_cholesky_ex "
    "linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv "
    "linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_matrix_sqrth linalg_qr linalg_solve linalg_svd "
    "linalg_svdvals linalg_tensorinv linalg_tensorsolve lu_solve margin_ranking_loss max_pool3d max_unpool2d "
    "max_unpool3d mse_loss multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward nanquantile "
    "nll_loss nll_loss2d nll_loss_nd orgqr ormqr pinverse poisson_nll_loss polar prod quantile reflection_pad1d "
    "reflection_pad2d replication_pad1d replication_pad2d replication_pad3d smooth_l1_loss soft_margin_loss stft svd "
    "trace triangular_solve triplet_margin_loss view_as_complex ";

// pad hands reflecting and replicating over to operators of the list; there is none for reflecting three dimensions.
AutocastRule pad_rule(const Node& node) {
  const Argument *mode = node.find("mode"), *pad = node.find("pad");
  const auto* name = mode ? std::get_if<std::string>(&mode->value) : nullptr;
  if (!name || !pad || !pad->is_list()) return AutocastRule::none;
  const bool listed = *name == "replicate" || (*name == "reflect" && pad->as_list().size() <= 4);
  return listed ? AutocastRule::single : AutocastRule::none;
}

}  // namespace

AutocastRule autocast_rule(const Node& node) {
  if (!starts_with(node.target, "aten.")) return AutocastRule::none;
  const std::string_view full = std::string_view(node.target).substr(5);
  const std::string_view name = full.substr(0, full.find('.'));
  if (name == "pad") return pad_rule(node);
  auto in = [&](const auto& names) {
    return std::any_of(names.begin(), names.end(), [&](Names one) { return one == name || one == full; });
  };
  if (in(lower)) return AutocastRule::lower;
  if (in(promoted)) return AutocastRule::promote;
  return single.find(str(" ", name, " ")) != Names::npos ? AutocastRule::single : AutocastRule::none;
}

}  // namespace kiln
