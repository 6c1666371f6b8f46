// Copies and conversions: to, _to_copy, clone, contiguous. A conversion is a cast statement in Loops, so its rounding
// stays when kernels are fused; `--fp64` keeps the rounding of narrowing casts too.
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/layout.h"
#include "ops/view_inverse.h"

namespace kiln {

namespace {

// How one operator of the family reads its arguments.
struct CastRow {
  std::string schema;
  bool aliases = false;  // gives self itself where nothing changes
  MemoryFormat default_format = MemoryFormat::preserve;
  std::function<DType(const OpCall&)> dtype = {};  // empty: self's
  std::vector<Sample> samples = {};
};

DType wanted_dtype(const OpCall& call, const CastRow& row) {
  return row.dtype ? row.dtype(call) : call.tensor("self")->type.dtype;
}

MemoryFormat wanted_format(const OpCall& call, const CastRow& row) {
  return call.schema().find("memory_format") < 0 ? row.default_format
                                                 : memory_format(call, "memory_format", row.default_format);
}

bool wants_copy(const OpCall& call) { return call.schema().find("copy") >= 0 && call.boolean("copy"); }

Device wanted_device(const OpCall& call, Device own) {
  if (call.schema().find("device") < 0) return own;
  const auto* device = std::get_if<Device>(&call.arg("device").value);
  return device ? *device : own;
}

bool fits_format(const Sizes& sizes, const Sizes& strides, MemoryFormat format) {
  if (format == MemoryFormat::preserve) return true;
  if (format == MemoryFormat::contiguous) return is_contiguous(sizes, strides);
  Sizes expected = channels_last_strides(sizes);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!is_one(sizes[d]) && strides[d] != expected[d]) return false;
  return true;
}

void check_format(const OpCall& call, MemoryFormat format, size_t rank) {
  bool wrong =
      (format == MemoryFormat::channels_last && rank != 4) || (format == MemoryFormat::channels_last_3d && rank != 5);
  if (wrong)
    fail_user("K0201",
              str(call.schema().name, ": this memory format needs ", format == MemoryFormat::channels_last ? 4 : 5,
                  " dimensions, not ", rank),
              call.where());
}

void infer_cast(InferCall& call, const CastRow& row) {
  const TensorType& self = call.tensor("self")->type;
  DType dtype = wanted_dtype(call, row);
  MemoryFormat format = wanted_format(call, row);
  check_format(call, format, self.sizes.size());
  Device device = wanted_device(call, self.device);
  if (row.aliases && !wants_copy(call) && dtype == self.dtype && device.type == self.device.type &&
      fits_format(self.sizes, self.strides, format)) {
    call.results = {self};
    return;
  }
  Sizes strides = like_strides(self.sizes, self.strides, format, call.ranges());
  call.results = {strided_type(dtype, self.sizes, std::move(strides), device)};
}

void lower_cast(LowerCall& call) {
  DType from = call.tensor("self")->type.dtype, to = call.output_type().dtype;
  KILN_CHECK(!is_complex(from) && !is_complex(to), "complex casts are rewritten by split_complex");
  call.kernel([&](loops::KernelBuilder& k) {
    k.parallel(call.output_type().sizes, [&](const std::vector<Expr>& index) {
      k.store(call.output(), index, k.as(to, k.load(call.input("self"), index)));
    });
  });
}

// Of floats to floats, which have no more digits or range than before. (f16 and bf16 lose to each other.)
bool narrows(DType from, DType to) {
  auto part = [](DType dtype) { return dtype_bytes(dtype) / (is_complex(dtype) ? 2 : 1); };
  bool floats = (is_float(from) || is_complex(from)) && (is_float(to) || is_complex(to));
  return floats && from != to && (part(from) > part(to) || (part(from) == part(to) && is_float(from) && is_float(to)));
}

// In fp64 mode floats are stored wide, but a narrowing cast of the program still rounds.
Tensor cast_values(const ReferenceCall& call, const Tensor& self, DType from, DType to) {
  DType storage = storage_dtype(call, to);
  bool narrowing = call.fp64 && narrows(from, to);
  return convert(narrowing ? convert(self, to) : self, storage);
}

void reference_cast(ReferenceCall& call, const CastRow& row, const Schema& schema) {
  OpCall typed(call.node(), schema);
  Tensor self = call.tensor("self");
  DType from = nominal_argument_dtype(call, "self"), to = wanted_dtype(typed, row);
  MemoryFormat format = wanted_format(typed, row);
  Sizes sizes = to_exprs(self.sizes), strides = to_exprs(self.strides);
  Device device = wanted_device(typed, self.device);
  if (row.aliases && !wants_copy(typed) && from == to && device.type == self.device.type &&
      fits_format(sizes, strides, format)) {
    call.results = {Datum{self}};
    return;
  }
  Sizes wanted = like_strides(sizes, strides, format, RangeEnv{});
  Tensor out = Tensor::empty_strided(storage_dtype(call, to), self.sizes, to_numbers(wanted));
  out.device = device;
  copy_into(cast_values(call, self, from, to), out);
  call.results = {Datum{out}};
}

void add_cast(Registry& registry, CastRow row) {
  auto shared = std::make_shared<const CastRow>(row);
  auto schema = std::make_shared<const Schema>(parse_schema(row.schema));
  OpRecord record;
  record.schema_text = row.schema;
  record.infer = [shared](InferCall& call) { infer_cast(call, *shared); };
  record.lower = lower_cast;
  record.reference = [shared, schema](ReferenceCall& call) { reference_cast(call, *shared, *schema); };
  record.samples = row.samples;
  registry.add(std::move(record));
}

DType given_dtype(const OpCall& call) {
  auto dtype = call.dtype("dtype");
  return dtype ? *dtype : call.tensor("self")->type.dtype;
}
DType others_dtype(const OpCall& call) { return call.tensor("other")->type.dtype; }

std::vector<Sample> dtype_samples() {
  std::vector<Sample> out;
  for (DType from : {DType::f32, DType::bf16, DType::i64, DType::boolean, DType::f64, DType::u8})
    for (DType to : {DType::f32, DType::f16, DType::i32, DType::boolean, DType::i8})
      out.push_back({{spec({2, 3}, from), to}});
  for (DType other : {DType::f32, DType::boolean, DType::c128}) {
    out.push_back({{spec({2, 3}, DType::c64), other}});
    out.push_back({{spec({2, 3}, other), DType::c64}});
  }
  out.push_back({{spec({0}), DType::i64}});
  out.push_back({{spec({}), DType::bf16}});
  return out;
}

}  // namespace

void register_casts(Registry& r) {
  std::vector<Sample> plain = {
      {{spec({2, 3})}}, {{spec({}, DType::i64)}}, {{spec({0, 2}, DType::bf16)}}, {{spec({3}, DType::boolean)}}};
  const char* tail = "bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)";
  add_cast(r, {.schema = str("to.dtype(Tensor(a) self, ScalarType dtype, ", tail),
               .aliases = true,
               .dtype = given_dtype,
               .samples = dtype_samples()});
  std::vector<Sample> keyword = plain;
  keyword.push_back({{spec({2, 3}), DType::f16}});
  add_cast(r, {.schema = str("to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
                             "device=None, bool? pin_memory=None, ",
                             tail),
               .aliases = true,
               .dtype = given_dtype,
               .samples = keyword});
  add_cast(r, {.schema = str("to.device(Tensor(a) self, Device device, ScalarType dtype, ", tail),
               .aliases = true,
               .dtype = given_dtype,
               .samples = {{{spec({2, 3}), Argument::None{}, DType::f64}}}});
  add_cast(r, {.schema = str("to.other(Tensor(a) self, Tensor other, ", tail),
               .aliases = true,
               .dtype = others_dtype,
               .samples = {{{spec({2, 3}), spec({1}, DType::bf16)}}}});
  add_cast(r, {.schema = "type_as(Tensor self, Tensor other) -> Tensor",
               .aliases = true,
               .dtype = others_dtype,
               .samples = {{{spec({2, 3}), spec({1}, DType::bf16)}}}});
  add_cast(r, {.schema = "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
                         "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
               .dtype = given_dtype,
               .samples = dtype_samples()});
  add_cast(r, {.schema = "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", .samples = plain});
  add_cast(r, {.schema = "contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
               .aliases = true,
               .default_format = MemoryFormat::contiguous,
               .samples = plain});
  add_cast(r, {.schema = "lift_fresh_copy(Tensor self) -> Tensor", .samples = plain});
  r.describe({"_to_copy", "to", "type_as"}, complex_by(ComplexRule::cast));
  r.describe({"clone", "contiguous", "lift_fresh_copy"}, complex_by(ComplexRule::parts));
  r.describe({"contiguous", "to"}, {.inverse_view = view_inverse::itself});
  r.describe({"clone", "contiguous"}, {.moves_data = true});
  r.describe({"contiguous", "to"}, {.shares = Sharing::same_layout});
}

}  // namespace kiln
