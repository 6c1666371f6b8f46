#include "ops/complex_rules.h"

#include <unordered_map>

namespace kiln {

namespace {

using Table = std::unordered_map<std::string_view, ComplexRule>;

void add(Table& table, ComplexRule rule, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) table.emplace(name, rule);
}

const Table& table() {
  static const Table rules = [] {
    Table t;
    add(t, ComplexRule::parts,
        {// views and other layouts
         "alias", "alias_copy", "as_strided", "as_strided_copy", "as_strided_scatter", "broadcast_to", "chunk", "clone",
         "contiguous", "detach", "detach_", "detach_copy", "diagonal", "diagonal_copy", "diagonal_scatter", "expand",
         "expand_as", "expand_copy", "flatten", "lift", "lift_fresh", "lift_fresh_copy", "mT", "movedim", "moveaxis",
         "narrow", "narrow_copy", "numpy_T", "permute", "permute_copy", "positive", "ravel", "reshape", "reshape_as",
         "resolve_conj", "resolve_neg", "select", "select_copy", "select_scatter", "slice", "slice_copy",
         "slice_scatter", "split", "split_copy", "split_with_sizes", "split_with_sizes_copy", "squeeze", "squeeze_copy",
         "swapaxes", "swapdims", "t", "t_copy", "tensor_split", "transpose", "transpose_copy", "unbind", "unbind_copy",
         "unflatten", "unfold", "unfold_copy", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "unsqueeze",
         "unsqueeze_copy", "view", "view_as", "view_copy", "_reshape_alias", "_unsafe_view", "hsplit", "vsplit",
         "dsplit", "to", "_to_copy", "type_as",
         // elements from elsewhere
         "cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack", "constant_pad_nd",
         "copy", "diag", "diag_embed", "embedding", "fill", "flip", "gather", "index", "index_add", "index_copy",
         "index_fill", "index_put", "index_put_", "_unsafe_index", "_unsafe_index_put", "index_select", "masked_fill",
         "masked_scatter", "masked_select", "masked_take", "put", "repeat", "repeat_interleave", "roll", "rot90",
         "scatter", "scatter_add", "take", "tile", "trace", "tril", "triu", "where", "pixel_shuffle", "pixel_unshuffle",
         "pad", "im2col", "col2im", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
         "replication_pad2d", "replication_pad3d",
         // sums
         "sum", "mean", "cumsum", "sum_to_size", "diff",
         // fills
         "zeros", "zeros_like", "new_zeros", "full", "full_like", "new_full", "empty", "empty_like", "new_empty",
         "empty_strided", "new_empty_strided", "zero", "scalar_tensor"});
    add(t, ComplexRule::real_unit, {"ones", "ones_like", "new_ones", "eye"});
    add(t, ComplexRule::formula, {"add",          "sub",
                                  "rsub",         "mul",
                                  "multiply",     "div",
                                  "true_divide",  "divide",
                                  "pow",          "eq",
                                  "ne",           "neg",
                                  "negative",     "exp",
                                  "exp2",         "expm1",
                                  "log",          "log2",
                                  "log10",        "log1p",
                                  "sqrt",         "rsqrt",
                                  "reciprocal",   "square",
                                  "sin",          "cos",
                                  "tan",          "sinh",
                                  "cosh",         "tanh",
                                  "sigmoid",      "silu",
                                  "asin",         "acos",
                                  "atan",         "asinh",
                                  "acosh",        "atanh",
                                  "abs",          "absolute",
                                  "angle",        "sgn",
                                  "isnan",        "isinf",
                                  "isfinite",     "isreal",
                                  "logical_not",  "logical_and",
                                  "logical_or",   "logical_xor",
                                  "addcmul",      "addcdiv",
                                  "lerp",         "complex",
                                  "polar",        "conj",
                                  "_conj",        "conj_physical",
                                  "real",         "imag",
                                  "view_as_real", "view_as_complex",
                                  "mH",           "adjoint",
                                  "matrix_H",     "arcsin",
                                  "arccos",       "arctan",
                                  "arcsinh",      "arccosh",
                                  "arctanh"});
    add(t, ComplexRule::bilinear,
        {"mm",
         "bmm",
         "matmul",
         "addmm",
         "baddbmm",
         "addbmm",
         "addmv",
         "addr",
         "mv",
         "dot",
         "vdot",
         "linear",
         "outer",
         "ger",
         "convolution",
         "conv1d",
         "conv2d",
         "conv3d",
         "conv_transpose1d",
         "conv_transpose2d",
         "conv_transpose3d"});
    add(t, ComplexRule::magnitude, {"linalg_vector_norm", "norm"});
    add(t, ComplexRule::truth, {"any", "all", "count_nonzero", "nonzero"});
    add(t, ComplexRule::squares, {"var"});
    add(t, ComplexRule::root_squares, {"std"});
    add(t, ComplexRule::product, {"prod", "cumprod"});
    add(t, ComplexRule::native,
        {"complex_parts", "complex_join", "complex_copy", "view_bytes", "_fft_c2c", "_fft_r2c", "_fft_c2r", "geqrf",
         "ormqr", "orgqr"});
    return t;
  }();
  return rules;
}

// "aten.add.Tensor" -> "add"
std::string_view bare_name(std::string_view op) {
  size_t first = op.find('.'), last = op.rfind('.');
  return first == last ? op : op.substr(first + 1, last - first - 1);
}

}  // namespace

ComplexRule complex_rule(std::string_view op) {
  auto found = table().find(bare_name(op));
  if (found == table().end()) return op.find("linalg_") != op.npos ? ComplexRule::native : ComplexRule::none;
  // Complex numbers have no floor.
  if (op == "aten.view.dtype") return ComplexRule::native;
  return op.ends_with("_mode") ? ComplexRule::none : found->second;
}

bool takes_complex(std::string_view op) { return complex_rule(op) != ComplexRule::none; }

bool complex_gives_real(std::string_view op) {
  std::string_view name = bare_name(op);
  for (std::string_view real : {"abs", "absolute", "angle", "real", "imag", "var", "std"})
    if (name == real) return true;
  return false;
}

std::optional<BilinearArgs> bilinear_args(std::string_view op) {
  struct Row {
    std::string_view name;
    BilinearArgs args;
  };
  static constexpr Row rows[] = {{"mm", {"self", "mat2", ""}},
                                 {"bmm", {"self", "mat2", ""}},
                                 {"matmul", {"self", "other", ""}},
                                 {"addmm", {"mat1", "mat2", "self"}},
                                 {"baddbmm", {"batch1", "batch2", "self"}},
                                 {"addbmm", {"batch1", "batch2", "self"}},
                                 {"addmv", {"mat", "vec", "self"}},
                                 {"addr", {"vec1", "vec2", "self"}},
                                 {"mv", {"self", "vec", ""}},
                                 {"dot", {"self", "tensor", ""}},
                                 {"vdot", {"self", "other", "", true}},
                                 {"linear", {"input", "weight", "bias"}},
                                 {"outer", {"self", "vec2", ""}},
                                 {"ger", {"self", "vec2", ""}}};
  std::string_view name = bare_name(op);
  for (const Row& row : rows)
    if (name == row.name) return row.args;
  if (name.substr(0, 4) == "conv") return BilinearArgs{"input", "weight", "bias"};
  return std::nullopt;
}

bool is_numeric_argument(std::string_view name) {
  for (std::string_view numeric : {"self", "other", "tensors", "src", "values", "value", "fill_value", "source",
                                   "input", "weight", "bias", "s", "pad_value"})
    if (name == numeric) return true;
  return false;
}

}  // namespace kiln
