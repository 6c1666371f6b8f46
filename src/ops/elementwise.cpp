#include "ops/elementwise.h"

#include <limits>

#include "ops/complex_reference.h"
#include "ops/dense.h"
#include "ops/layout.h"

namespace kiln {

namespace {

enum class Missing : uint8_t { error, lowest, highest };

struct Slot {
  std::string arg;
  std::string choice;  // "approximate:tanh": the string that gives 1
  Missing missing = Missing::error;
  bool condition = false;
  char bound = 0;  // '>': the result is no less than it; '<': no more
};
const char* const bool_slot = "@bool";
const char* const largest_slot = "@largest";
const char* const lone_slot = "@lone";  // "@lone:other" is 1 where that operand is a number or has no dimensions
const char* const integers_slot = "@integers";  // "@integers:other" is 1 where that operand has integers or bools

std::vector<Slot> parse_slots(std::string_view text) {
  std::vector<Slot> out;
  for (const std::string& word : split(text, ' ')) {
    if (word.empty()) continue;
    Slot slot;
    slot.arg = word;
    if (word[0] == '>' || word[0] == '<') slot.bound = word[0], slot.arg = word.substr(1);
    if (word[0] == '!') {
      slot.condition = true;
      slot.arg = word.substr(1);
    } else if (ends_with(word, "?-") || ends_with(word, "?+")) {
      slot.missing = word.back() == '-' ? Missing::lowest : Missing::highest;
      slot.arg.resize(slot.arg.size() - 2);
    } else if (size_t colon = word.find(':'); colon != std::string::npos) {
      slot.arg = word.substr(0, colon);
      slot.choice = word.substr(colon + 1);
    }
    out.push_back(std::move(slot));
  }
  return out;
}

// A row made ready: shared by the three functions of its record.
struct Row {
  Pointwise row;
  Schema schema;
  std::vector<Slot> operands, params;
};
using RowPtr = std::shared_ptr<const Row>;

bool present(const OpCall& call, const Slot& slot) { return slot.missing == Missing::error || call.given(slot.arg); }

bool takes(Takes which, DType dtype) {
  switch (which) {
    case Takes::all:
      return true;
    case Takes::no_bool:
      return dtype != DType::boolean;
    case Takes::signed_numbers:
      return is_float(dtype) || (is_integer(dtype) && is_signed(dtype));
    case Takes::floats:
      return is_float(dtype);
    case Takes::integral:
      return is_integral(dtype);
    case Takes::integers:
      return is_integer(dtype);
  }
  return false;
}

void check_takes(const OpCall& call, Takes which, DType dtype) {
  refuse_complex(call, dtype);
  if (is_complex(dtype)) return;
  if (!takes(which, dtype)) refuse_dtype(call, dtype);
}

ComputeTypes types_of(const OpCall& call, const Row& row) {
  Promotion promotion;
  for (const Slot& slot : row.operands)
    if (!slot.condition && present(call, slot)) add_operand(promotion, operand(call, slot.arg));
  DType promoted = promotion.result();
  check_takes(call, row.row.takes, promoted);
  if (is_complex(promoted)) {
    if (row.row.rule == ResultRule::boolean) return {promoted, DType::boolean};
    return {promoted, complex_form(call).gives_real ? complex_part(promoted) : promoted};
  }
  if (row.row.types) return row.row.types(call, promoted);
  if (row.row.rule == ResultRule::floating) return {to_float(promoted), to_float(promoted)};
  return {promoted, row.row.rule == ResultRule::boolean ? DType::boolean : promoted};
}

}  // namespace

Integers integers_of(DType dtype) {
  const int bits = 8 * static_cast<int>(dtype_bytes(dtype));
  if (!is_signed(dtype)) return {0, bits == 64 ? INT64_MAX : (int64_t{1} << bits) - 1};
  return {bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1)),
          bits == 64 ? INT64_MAX : (int64_t{1} << (bits - 1)) - 1};
}

namespace {

bool bounds_integers(const Slot& slot, DType common) { return slot.bound != 0 && is_integer(common); }

// A bound beyond an integer type's numbers bounds nothing; one that leaves none of them is refused, as in eager.
void check_bounds(const OpCall& call, const Row& row, DType common) {
  for (const auto* slots : {&row.operands, &row.params})
    for (const Slot& slot : *slots) {
      if (!bounds_integers(slot, common) || !call.given(slot.arg) || call.arg(slot.arg).is_value()) continue;
      const auto number = call.scalar(slot.arg);
      const auto* bound = std::get_if<Scalar>(&number);
      if (!bound) continue;
      const Integers of = integers_of(common);
      if (slot.bound == '>' ? bound->as_int() > of.highest : bound->as_int() < of.lowest)
        fail_user("K0201",
                  str("Clamp ", slot.bound == '>' ? "min" : "max", " value ", bound->as_int(),
                      " is outside the representable range of ", dtype_torch_name(common)),
                  call.where());
    }
}
std::variant<Scalar, Expr> within(const std::variant<Scalar, Expr>& bound, DType common) {
  const Integers of = integers_of(common);
  if (const auto* number = std::get_if<Scalar>(&bound))
    return Scalar(std::clamp(number->as_int(), of.lowest, of.highest));
  return max_expr(Expr(of.lowest), min_expr(std::get<Expr>(bound), Expr(of.highest)));
}

void infer_row(InferCall& call, const Row& row) {
  std::vector<const Value*> tensors;
  for (const Slot& slot : row.operands) {
    if (!present(call, slot)) continue;
    if (const Value* tensor = operand(call, slot.arg).tensor) tensors.push_back(tensor);
  }
  const ComputeTypes types = types_of(call, row);
  check_bounds(call, row, types.common);
  call.results = {elementwise_type(call, tensors, types.result)};
  if (row.row.row_major) call.results[0].strides = contiguous_strides(call.results[0].sizes);
}

void lower_row(LowerCall& call, const Row& row) {
  ComputeTypes types = types_of(call, row);
  DType compute = compute_dtype(types.common);
  call.kernel([&](loops::KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& index) {
      Emit emit{k, call, types.common, compute, {}};
      for (const Slot& slot : row.operands) {
        DType common = slot.condition ? DType::boolean : types.common;
        if (!present(call, slot)) {
          emit.x.push_back(loops::no_value);
          continue;
        }
        Operand given = operand(call, slot.arg);
        if (!given.tensor && bounds_integers(slot, common)) given.number = within(given.number, common);
        emit.x.push_back(load_operand(call, k, given, common, index, row.row.rounds_numbers));
      }
      for (const Slot& slot : row.params) {
        if (slot.arg[0] == '@') {
          emit.x.push_back(loops::no_value);
        } else if (!slot.choice.empty()) {
          bool chosen = call.given(slot.arg) && call.string(slot.arg) == slot.choice;
          emit.x.push_back(k.constant(DType::boolean, Scalar(chosen)));
        } else {
          if (!present(call, slot)) {
            emit.x.push_back(loops::no_value);
            continue;
          }
          const auto number = call.scalar(slot.arg);
          emit.x.push_back(
              number_value(k, bounds_integers(slot, types.common) ? within(number, types.common) : number, compute));
        }
      }
      k.store(call.output(), index, row.row.emit(emit));
    });
  });
}

template <class T>
T missing_value(Missing missing) {
  using Limits = std::numeric_limits<T>;
  if constexpr (Limits::has_infinity) return missing == Missing::lowest ? -Limits::infinity() : Limits::infinity();
  return missing == Missing::lowest ? Limits::min() : Limits::max();
}

const Datum& given_datum(const ReferenceCall& call, const std::string& arg) {
  auto found = call.values.find(arg);
  if (found != call.values.end() && (found->second.is_tensor() || found->second.is_scalar())) return found->second;
  fail_user("K0201", str(call.node().target, ": argument '", arg, "' must be a tensor or a number"),
            call.node().where());
}

// The operand as the kernel of eager sees it: converted to the common type, except that numbers and tensors without
// dimensions keep their precision when the common type is a narrow float.
Tensor reference_operand(const ReferenceCall& call, const Row& row, const Slot& slot, DType common) {
  const Datum& datum = given_datum(call, slot.arg);
  bool number = !datum.is_tensor();
  if (number && bounds_integers(slot, common))
    return Tensor::scalar(common, std::get<Scalar>(within(datum.scalar(), common)));
  Tensor tensor = number ? Tensor::scalar(number_kind(datum.scalar()), datum.scalar()) : datum.tensor();
  if (is_float(common)) {
    if (call.fp64) return tensor;
    bool keeps = tensor.rank() == 0 && !row.row.rounds_numbers;
    if (keeps || compute_dtype(common) == common) return tensor;
  }
  return tensor.dtype == common ? tensor : convert(tensor, common);
}

template <class T>
void reference_row(ReferenceCall& call, const Row& row, DType common,
                   const std::vector<std::optional<Tensor>>& operands, const Tensor& out,
                   void (*apply)(int64_t, const T* const*, T*)) {
  if (!apply) fail_bug(str(call.node().target, " has no reference for this type"), call.node().where());
  size_t count = static_cast<size_t>(out.numel());
  std::vector<std::vector<T>> columns;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i]) {
      columns.push_back(read_dense<T>(*operands[i], out.sizes));
    } else {
      columns.emplace_back(count, missing_value<T>(row.operands[i].missing));
    }
  }
  // Comparisons of u64 in i64: with the first bit turned over, the order is the same.
  if constexpr (std::is_same_v<T, int64_t>)
    if (common == DType::u64 && row.row.rounds_numbers)
      for (auto& column : columns)
        for (int64_t& value : column) value ^= INT64_MIN;
  for (const Slot& slot : row.params) {
    T value{};
    if (slot.arg == bool_slot) {
      value = static_cast<T>(common == DType::boolean);
    } else if (slot.arg == largest_slot) {
      value = is_float(common) ? static_cast<T>(largest_finite(common)) : T{};
    } else if (slot.arg == lone_slot) {
      const Datum& datum = given_datum(call, slot.choice);
      value = static_cast<T>(!datum.is_tensor() || datum.tensor().rank() == 0);
    } else if (slot.arg == integers_slot) {
      const Datum& datum = given_datum(call, slot.choice);
      value = static_cast<T>(datum.is_tensor() && is_integral(datum.tensor().dtype));
    } else if (!slot.choice.empty()) {
      value = static_cast<T>(call.given(slot.arg) && call.string(slot.arg) == slot.choice);
    } else if (!call.given(slot.arg)) {
      value = missing_value<T>(slot.missing);
    } else if constexpr (std::is_same_v<T, int64_t>) {
      value = call.scalar(slot.arg).as_int();
    } else {
      value = static_cast<T>(call.scalar(slot.arg).as_double());
    }
    columns.emplace_back(count, value);
  }
  std::vector<const T*> pointers;
  for (const auto& column : columns) pointers.push_back(column.data());
  std::vector<T> results(count);
  apply(static_cast<int64_t>(count), pointers.data(), results.data());
  write_dense(out, results);
}

void evaluate_row(ReferenceCall& call, const Row& row) {
  OpCall typed(call.node(), row.schema);
  ComputeTypes types = types_of(typed, row);
  std::vector<std::optional<Tensor>> operands;
  std::vector<Tensor> tensors;
  for (const Slot& slot : row.operands) {
    if (slot.missing != Missing::error && !call.given(slot.arg)) {
      operands.emplace_back(std::nullopt);
      continue;
    }
    const Datum& datum = given_datum(call, slot.arg);
    if (datum.is_tensor()) tensors.push_back(datum.tensor());
    operands.emplace_back(reference_operand(call, row, slot, slot.condition ? DType::boolean : types.common));
  }
  Tensor out = elementwise_result(call, tensors, storage_dtype(call, types.result));
  if (row.row.row_major) out.strides = contiguous_strides(out.sizes);
  DType compute = reference_compute(call, types.common);
  const Formula& formula = row.row.formula;
  if (compute == DType::f64) reference_row<double>(call, row, types.common, operands, out, formula.f64);
  if (compute == DType::f32) reference_row<float>(call, row, types.common, operands, out, formula.f32);
  if (compute == DType::i64) reference_row<int64_t>(call, row, types.common, operands, out, formula.i64);
  call.results = {Datum{out}};
}

// The shapes worth trying for n operands, and the types the operator takes.
void generate_samples(OpRecord& record, const Pointwise& row, const std::vector<Slot>& operands) {
  size_t n = operands.size();
  auto add = [&](std::vector<std::vector<int64_t>> shapes, std::vector<DType> dtypes) {
    Sample sample;
    for (size_t i = 0; i < n; ++i) {
      DType dtype = operands[i].condition ? DType::boolean : dtypes[i % dtypes.size()];
      if (!operands[i].condition && !takes(row.takes, dtype)) return;
      sample.args.push_back(spec(shapes[i % shapes.size()], dtype, row.low, row.high));
    }
    sample.args.insert(sample.args.end(), row.trailing.begin(), row.trailing.end());
    record.samples.push_back(std::move(sample));
  };
  for (DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8, DType::boolean})
    add({{2, 3}}, {dtype});
  DType usual = takes(row.takes, DType::f32) ? DType::f32 : DType::i64;
  add({{0, 3}}, {usual});
  add({{}}, {usual});
  add({{17}}, {usual});
  if (n < 2) return;
  add({{2, 1, 3}, {4, 1}}, {usual});
  add({{3}, {}}, {usual});
  add({{2, 3}, {3}}, {DType::f32, DType::i64});
  add({{2, 2}, {}}, {DType::bf16, DType::f32});
  add({{2, 2}, {2, 2}}, {DType::i32, DType::i64});
  Sample bad;
  for (size_t i = 0; i < n; ++i)
    bad.args.push_back(spec({i == 0 ? int64_t{2} : int64_t{3}}, operands[i].condition ? DType::boolean : usual));
  bad.args.insert(bad.args.end(), row.trailing.begin(), row.trailing.end());
  bad.refused = true;
  record.samples.push_back(std::move(bad));
}

}  // namespace

EmitFn scalar_op(ScalarOp op) {
  return [op](Emit& e) { return e.k.op_v(op, e.x); };
}

void add_pointwise(Registry& registry, Pointwise row) {
  auto ready = std::make_shared<Row>();
  ready->schema = parse_schema(row.schema);
  ready->operands = parse_slots(row.operands);
  ready->params = parse_slots(row.params);
  OpRecord record;
  record.schema_text = row.schema;
  record.inplace = row.inplace;
  record.facts = row.facts;
  bool operands_first = true;
  for (size_t i = 0; i < ready->operands.size(); ++i)
    operands_first &=
        ready->schema.args[i].name == ready->operands[i].arg && ready->schema.args[i].type == SchemaType::tensor;
  // Generated samples give operands and trailing arguments only; what else the schema demands must have a default.
  for (size_t i = ready->operands.size() + row.trailing.size(); i < ready->schema.args.size(); ++i)
    operands_first &= ready->schema.args[i].has_default;
  if (operands_first) generate_samples(record, row, ready->operands);
  record.samples.insert(record.samples.end(), row.samples.begin(), row.samples.end());
  ready->row = std::move(row);
  RowPtr shared = ready;
  record.infer = [shared](InferCall& call) { infer_row(call, *shared); };
  record.lower = [shared](LowerCall& call) { lower_row(call, *shared); };
  record.reference = [shared](ReferenceCall& call) { evaluate_row(call, *shared); };
  registry.add(std::move(record));
}

void add_pointwise_alias(Registry& registry, Pointwise row, std::string schema) {
  row.schema = std::move(schema);
  add_pointwise(registry, std::move(row));
}

double largest_finite(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3fn:
      return 448.0;
    case DType::f8e4m3fnuz:
      return 240.0;
    case DType::f8e5m2:
    case DType::f8e5m2fnuz:
      return 57344.0;
    case DType::f16:
      return 65504.0;
    case DType::bf16:
      return 3.3895313892515355e38;
    case DType::f32:
      return std::numeric_limits<float>::max();
    case DType::f64:
      return std::numeric_limits<double>::max();
    default:
      fail_bug(str(dtype_name(dtype), " has no largest finite number here"));
  }
}

Scalar scalar_as(const Scalar& number, DType dtype) { return Tensor::scalar(dtype, number).item(); }

ValueId number_value(loops::KernelBuilder& k, const std::variant<Scalar, Expr>& number, DType dtype) {
  if (const auto* constant = std::get_if<Scalar>(&number)) return k.constant(dtype, scalar_as(*constant, dtype));
  return k.index_value(std::get<Expr>(number), dtype);
}

ValueId load_operand(const LowerCall& call, loops::KernelBuilder& k, const Operand& operand, DType common,
                     const std::vector<Expr>& index, bool rounds_numbers) {
  DType compute = compute_dtype(common);
  bool narrow = compute != common;
  if (!operand.tensor) {
    const auto* constant = std::get_if<Scalar>(&operand.number);
    if (constant && rounds_numbers && narrow)
      return k.constant(compute, scalar_as(scalar_as(*constant, common), compute));
    ValueId value = number_value(k, operand.number, compute);
    return rounds_numbers && narrow ? k.as(compute, k.cast(common, value)) : value;
  }
  const TensorType& type = operand.tensor->type;
  ValueId loaded = k.load_compute(call.buffer(operand.tensor), call.broadcast(type.sizes, index));
  bool keeps = type.sizes.empty() && !rounds_numbers;
  // An integer meets a narrow float: eager converts it to the narrow type first, which rounds.
  if (narrow && type.dtype != common && !keeps) return k.as(compute, k.cast(common, loaded));
  return k.as(compute, loaded);
}

TensorType elementwise_type(const InferCall& call, const std::vector<const Value*>& tensors, DType dtype) {
  std::vector<Sizes> shapes;
  std::vector<Layouted> inputs;
  Device device;
  bool device_known = false;
  for (const Value* tensor : tensors) {
    shapes.push_back(tensor->type.sizes);
    inputs.push_back({tensor->type.sizes, tensor->type.strides});
    if (!device_known || device.type == DeviceType::cpu) device = tensor->type.device;
    device_known = true;
  }
  Sizes sizes = broadcast_sizes(call, shapes, call.ranges());
  Sizes strides = elementwise_strides(sizes, inputs, call.ranges());
  return strided_type(dtype, std::move(sizes), std::move(strides), device);
}

Tensor elementwise_result(const ReferenceCall& call, const std::vector<Tensor>& tensors, DType dtype) {
  size_t rank = 0;
  for (const Tensor& tensor : tensors) rank = std::max(rank, tensor.sizes.size());
  std::vector<int64_t> sizes(rank, 1);
  std::vector<Layouted> inputs;
  for (const Tensor& tensor : tensors) {
    for (size_t d = 0; d < tensor.sizes.size(); ++d) {
      int64_t& have = sizes[rank - tensor.sizes.size() + d];
      if (tensor.sizes[d] == 1 || tensor.sizes[d] == have) continue;
      if (have != 1) {
        fail_user("K0206",
                  str(call.node().target, ": sizes ", have, " and ", tensor.sizes[d], " cannot be broadcast together"),
                  call.node().where());
      }
      have = tensor.sizes[d];
    }
    inputs.push_back({to_exprs(tensor.sizes), to_exprs(tensor.strides)});
  }
  Sizes strides = elementwise_strides(to_exprs(sizes), inputs, RangeEnv{});
  return Tensor::empty_strided(dtype, std::move(sizes), to_numbers(strides));
}

}  // namespace kiln
