#include "fit.h"

#include <cmath>

namespace kiln::random_programs {

namespace {

Argument size_list(const std::vector<Expr>& sizes) {
  Argument::List list;
  for (const Expr& size : sizes) list.push_back(size.is_constant() ? Argument(Scalar(size.value())) : Argument(size));
  return Argument(std::move(list));
}

// Wider than any sample's own wish: what may be used as it is where a sample does not say what it needs.
constexpr double harmless = 20;

}  // namespace

Argument Fit::argument(const SchemaArg& declared, const Sample::SampleArg& arg) {
  if (const auto* spec = std::get_if<Sample::TensorSpec>(&arg)) return Argument(tensor(declared, *spec));
  if (const auto* specs = std::get_if<std::vector<Sample::TensorSpec>>(&arg)) {
    Argument::List list;
    for (const Sample::TensorSpec& spec : *specs) list.push_back(Argument(tensor(declared, spec)));
    return Argument(std::move(list));
  }
  if (const auto* scalar = std::get_if<Scalar>(&arg)) return Argument(*scalar);
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&arg)) {
    Argument::List list;
    for (int64_t value : *integers) list.push_back(Argument(Scalar(value)));
    return Argument(std::move(list));
  }
  if (const auto* text = std::get_if<std::string>(&arg)) return Argument(*text);
  if (const auto* dtype = std::get_if<DType>(&arg)) return Argument(*dtype);
  return {};
}

std::vector<Expr> Fit::sizes_of(const std::vector<int64_t>& sizes) {
  std::vector<Expr> out;
  for (int64_t size : sizes) {
    // The same number is the same symbol all through a program, or a number all through it.
    bool dynamic = state_.program.symbolic && size >= 2 && (static_cast<uint64_t>(size) * 2654435761u >> 3) % 3 != 0;
    if (!dynamic) {
      out.push_back(Expr(size));
      continue;
    }
    SymbolInfo info;
    info.name = str("s", size);
    info.range = {2, 4096};
    info.hint = size;
    program_.symbols[info.name] = info;
    out.push_back(Expr::symbol(info.name));
  }
  return out;
}

Value* Fit::tensor(const SchemaArg& declared, const Sample::TensorSpec& spec) {
  if (!state_.pool.empty() && dice_.chance(0.8)) {
    std::vector<PoolValue> candidates = state_.pool;
    dice_.shuffle(candidates);
    // Prefer what was computed last: chains, not stars.
    for (size_t i = 0; i < candidates.size() && i < 4; ++i)
      if (Value* value = fitted(candidates[i], spec)) return value;
  }
  return fresh(declared.name, spec);
}

Value* Fit::fresh(const std::string& name, const Sample::TensorSpec& spec) {
  std::vector<Expr> sizes = sizes_of(spec.sizes);
  bool fixed = true;
  for (const Expr& size : sizes) fixed &= size.is_constant();
  Value* value = program_.graph.add_input(program_.graph.unique_name(name), ValueKind::tensor);
  value->type = contiguous_type(spec.dtype, std::move(sizes));
  InputSpec input;
  if (fixed && dice_.chance(0.25)) {
    input.kind = dice_.chance(0.5) ? InputKind::buffer : InputKind::parameter;
    input.target = "state." + value->name;
  }
  program_.input_specs.push_back(input);
  state_.program.sources[value->name] = {spec.low, spec.high, dice_.next() >> 16};
  return value;
}

Value* Fit::fitted(const PoolValue& from, const Sample::TensorSpec& spec) {
  Value* value = program_.graph.find_value(from.name);
  DType have = value->type.dtype, want = spec.dtype;
  bool same = have == want, to_float = is_float(want) && !is_complex(have) && !is_complex(want);
  bool to_integer = is_integer(want) && (is_integer(have) || have == DType::boolean);
  bool to_bool = want == DType::boolean && !is_complex(have);
  if (!same && !to_float && !to_integer && !to_bool) return nullptr;
  // Indices and the like: only a range that they were made for will do.
  bool any_range = spec.low == -2 && spec.high == 2 && is_float(want);
  double low = any_range ? -harmless : spec.low, high = any_range ? harmless : spec.high;
  bool inside = from.low >= low && from.high <= high;
  if (is_complex(want) && !inside) return nullptr;
  bool narrow = want == DType::u8 || want == DType::i8;
  if (is_integer(want) && !inside && (narrow || have == DType::boolean)) return nullptr;
  Value* shaped = with_sizes(value, sizes_of(spec.sizes));
  if (!shaped) return nullptr;
  Value* typed = with_dtype(shaped, want);
  return inside || want == DType::boolean ? typed : in_range(typed, spec.low, spec.high);
}

Value* Fit::node(const std::string& op, std::vector<Argument> args) {
  const OpRecord* record = Registry::instance().find(op);
  KILN_CHECK(record, str("no operator ", op));
  Node* made = program_.graph.add_node(op, program_.graph.unique_name(op_short_name(op)));
  made->op = record;
  for (size_t i = 0; i < args.size(); ++i)
    if (!args[i].is_none()) made->args.push_back({record->schema.args[i].name, std::move(args[i])});
  infer_types(*made, program_.graph, program_.ranges());
  return made->results[0];
}

Value* Fit::with_dtype(Value* value, DType dtype) {
  if (value->type.dtype == dtype) return value;
  if (dtype == DType::boolean) return node("aten.gt.Scalar", {Argument(value), Argument(Scalar(0))});
  return node("aten._to_copy.default", {Argument(value), Argument(dtype)});
}

Value* Fit::in_range(Value* value, double low, double high) {
  if (is_integer(value->type.dtype)) {
    auto first = static_cast<int64_t>(std::ceil(low)), last = static_cast<int64_t>(std::floor(high));
    Value* rest = node("aten.remainder.Scalar", {Argument(value), Argument(Scalar(last - first + 1))});
    return first == 0 ? rest : node("aten.add.Scalar", {Argument(rest), Argument(Scalar(first))});
  }
  Value* unit = node("aten.sigmoid.default", {Argument(value)});
  Value* scaled = node("aten.mul.Scalar", {Argument(unit), Argument(Scalar(high - low))});
  return node("aten.add.Scalar", {Argument(scaled), Argument(Scalar(low))});
}

// A piece of the flattened value; only where all sizes are numbers.
Value* Fit::cut_out(Value* value, const std::vector<Expr>& sizes) {
  int64_t have = 1, want = 1;
  for (const Expr& size : value->type.sizes) have *= size.is_constant() ? size.value() : INT64_MIN / 8;
  for (const Expr& size : sizes) want *= size.is_constant() ? size.value() : INT64_MAX / 8;
  if (have < 0 || want < 0 || want > have) return nullptr;
  Value* flat = node("aten.reshape.default", {Argument(value), Argument(Argument::List{Argument(Scalar(-1))})});
  auto start = static_cast<int64_t>(dice_.below(static_cast<size_t>(have - want + 1)));
  Value* piece = node("aten.slice.Tensor", {Argument(flat), Argument(Scalar(0)), Argument(Scalar(start)),
                                            Argument(Scalar(start + want)), Argument(Scalar(1))});
  return node("aten.view.default", {Argument(piece), size_list(sizes)});
}

// Dimensions of equal size are matched in some order; those left over are dropped, those missing are broadcast.
Value* Fit::with_sizes(Value* value, const std::vector<Expr>& sizes) {
  if (value->type.sizes == sizes) return value;
  if (dice_.chance(0.5))
    if (Value* piece = cut_out(value, sizes)) return piece;
  size_t rank = value->type.sizes.size();
  std::vector<int> from(sizes.size(), -1);
  std::vector<bool> taken(rank);
  for (size_t d = 0; d < sizes.size(); ++d) {
    size_t start = rank ? dice_.below(rank) : 0;
    for (size_t k = 0; k < rank && from[d] < 0; ++k) {
      size_t s = (start + k) % rank;
      if (taken[s] || !value->type.sizes[s].same(sizes[d])) continue;
      taken[s] = true;
      from[d] = static_cast<int>(s);
    }
  }
  Argument::List order;  // kept dimensions in the wanted order, then those to drop
  for (int s : from)
    if (s >= 0) order.push_back(Argument(Scalar(s)));
  size_t kept = order.size();
  for (size_t s = 0; s < rank; ++s)
    if (!taken[s]) order.push_back(Argument(Scalar(static_cast<int64_t>(s))));
  if (rank > 1) value = node("aten.permute.default", {Argument(value), Argument(order)});
  for (size_t s = rank; s-- > kept;) {
    bool mean = is_float(value->type.dtype) && dice_.chance(0.4);
    Argument dim(Scalar(static_cast<int64_t>(s)));
    value = mean ? node("aten.mean.dim", {Argument(value), Argument(Argument::List{dim})})
                 : node("aten.select.int", {Argument(value), dim, Argument(Scalar(dice_.chance(0.5) ? 0 : -1))});
  }
  for (size_t d = 0; d < sizes.size(); ++d)
    if (from[d] < 0)
      value = node("aten.unsqueeze.default", {Argument(value), Argument(Scalar(static_cast<int64_t>(d)))});
  if (value->type.sizes != sizes) value = node("aten.expand.default", {Argument(value), size_list(sizes)});
  return dice_.chance(0.3) ? node("aten.clone.default", {Argument(value)}) : value;
}

}  // namespace kiln::random_programs
