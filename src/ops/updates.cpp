// Changed copies: copy, fill, *_scatter.
#include "ops/updates.h"

#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/layout.h"
#include "ops/view_table.h"

namespace kiln {

using loops::KernelBuilder;

TensorType changed_type(const InferCall& call, const Value* self, bool row_major) {
  const TensorType& type = self->type;
  Sizes strides = row_major ? contiguous_strides(type.sizes)
                            : like_strides(type.sizes, type.strides, MemoryFormat::preserve, call.ranges());
  return strided_type(type.dtype, type.sizes, std::move(strides), type.device);
}

void lower_base_copy(LowerCall& call, std::string_view self) {
  call.kernel([&](KernelBuilder& k) {
    k.parallel(call.output_type().sizes,
               [&](const std::vector<Expr>& i) { k.store(call.output(), i, k.load(call.input(self), i)); });
  });
}

Tensor changed_copy(const Tensor& self, bool row_major) {
  Sizes strides = row_major ? contiguous_strides(to_exprs(self.sizes))
                            : like_strides(to_exprs(self.sizes), to_exprs(self.strides), MemoryFormat::preserve, {});
  Tensor out = Tensor::empty_strided(self.dtype, self.sizes, to_numbers(strides));
  out.device = self.device;
  copy_into(self, out);
  return out;
}

namespace {

using List = std::vector<int64_t>;

// A write to a part of self: the layout of the part (rule and reference) and where an index of src goes (lowering).
struct ScatterUpdateRow {
  std::string schema;
  LayoutFn layout;
  IndexMapFn index;
  std::vector<Sample> samples;
  bool by_address = false;  // the part is given by addresses of the storage: the copy keeps strides and offset
};

// The tensor over a copy of its whole storage.
Tensor storage_copy(const Tensor& self) {
  Tensor out = self;
  out.storage = Storage::allocate(self.storage->bytes);
  std::memcpy(out.storage->data, self.storage->data, static_cast<size_t>(self.storage->bytes));
  return out;
}

void check_source(const OpCall& call, const Sizes& part, const Sizes& source, const RangeEnv& ranges) {
  bool fits = source.size() <= part.size() && broadcast_sizes(call, {part, source}, ranges).size() == part.size();
  for (size_t d = 0; fits && d < source.size(); ++d) {
    const Expr& size = part[part.size() - source.size() + d];
    fits = is_one(source[d]) || prove_eq(source[d], size, ranges) != Proof::no;
  }
  if (!fits) {
    fail_user("K0206",
              str(call.schema().name, ": src has sizes [", shape_text(source), "], the part of self [",
                  shape_text(part), "]"),
              call.where());
  }
}

void add_scatter_update(Registry& r, ScatterUpdateRow row) {
  auto shared = std::make_shared<const ScatterUpdateRow>(std::move(row));
  auto schema = std::make_shared<const Schema>(parse_schema(shared->schema));
  OpRecord record;
  record.schema_text = shared->schema;
  record.samples = shared->samples;
  record.infer = [shared](InferCall& call) {
    SymbolicViewArgs args(call, call.ranges());
    check_source(call, shared->layout(args).sizes, call.tensor("src")->type.sizes, call.ranges());
    call.results = {shared->by_address ? call.tensor("self")->type : changed_type(call, call.tensor("self"), false)};
  };
  record.lower = [shared](LowerCall& call) {
    SymbolicViewArgs args(call, call.ranges());
    Sizes part = shared->layout(args).sizes;
    const Value* source = call.tensor("src");
    lower_base_copy(call);
    call.kernel([&](KernelBuilder& k) {
      k.parallel(part, [&](const std::vector<Expr>& i) {
        ValueId value = k.load(call.buffer(source), call.broadcast(source->type.sizes, i));
        k.store(call.output(), shared->index(args, i, part), k.as(args.self().dtype, value));
      });
    });
  };
  record.reference = [shared, schema](ReferenceCall& call) {
    OpCall typed(call.node(), *schema);
    Tensor self = call.tensor("self");
    Tensor out = shared->by_address ? storage_copy(self) : changed_copy(self, false);
    ReferenceCall over_copy(call.node(), *schema);
    over_copy.values = call.values;
    over_copy.values.insert_or_assign("self", Datum{out});
    ConcreteViewArgs args(typed, over_copy);
    ViewLayout layout = shared->layout(args);
    check_source(typed, layout.sizes, to_exprs(call.tensor("src").sizes), RangeEnv{});
    copy_into(call.tensor("src"), view_of(out, layout));
    call.results = {Datum{out}};
  };
  r.add(std::move(record));
}

// The rows of the views with the same arguments.
void register_scatters_of_views(Registry& r) {
  auto slice = slice_view(), select = select_view(), diagonal = diagonal_view();
  add_scatter_update(
      r, {"slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) "
          "-> Tensor",
          slice.layout,
          slice.index,
          {{{spec({5, 4}), spec({2, 4}), Scalar(0), Scalar(1), Scalar(3)}},
           {{spec({5, 4}), spec({5, 2}), Scalar(-1), Argument::None{}, Argument::None{}, Scalar(2)}},
           {{spec({5}, DType::i64), spec({0}, DType::i64), Scalar(0), Scalar(4), Scalar(2)}},
           {{spec({5}), spec({3}), Scalar(0), Scalar(0), Scalar(2)}, true}}});
  add_scatter_update(r, {"select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
                         select.layout,
                         select.index,
                         {{{spec({3, 4}), spec({4}), Scalar(0), Scalar(-1)}},
                          {{spec({3, 4}), spec({3}), Scalar(1), Scalar(2)}},
                          {{spec({3, 4}), spec({3}), Scalar(0), Scalar(0)}, true}}});
  add_scatter_update(
      r, {"diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
          diagonal.layout,
          diagonal.index,
          {{{spec({3, 4}), spec({3})}}, {{spec({3, 4}), spec({2}), Scalar(-1)}}, {{spec({3, 4}), spec({4})}, true}}});
  // Addresses of the result: it has the layout of self's clone.
  auto address_layout = [](const ViewArgs& args) {
    const TensorType& self = args.self();
    Expr offset = args.given("storage_offset") ? args.number("storage_offset") : self.offset;
    ViewLayout out{args.numbers("size"), args.numbers("stride"), offset};
    if (out.sizes.size() != out.strides.size())
      fail_user("K0208", str(args.call().schema().name, ": sizes and strides differ in number"), args.call().where());
    return out;
  };
  auto address_index = [address_layout](const ViewArgs& args, const std::vector<Expr>& i, const Sizes& sizes) {
    ViewLayout layout = address_layout(args);
    Expr address = layout.offset - args.self().offset;
    for (size_t d = 0; d < i.size(); ++d) address = address + i[d] * layout.strides[d];
    return index_of_address(args.call(), args.self(), address, with_indices(args.ranges(), i, sizes));
  };
  add_scatter_update(
      r, {"as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) "
          "-> Tensor",
          address_layout,
          address_index,
          {{{spec({3, 4}), spec({2, 2}), List{2, 2}, List{4, 2}}},
           {{spec({12}), spec({3}), List{3}, List{2}, Scalar(1)}},
           {{spec({4}), spec({2}), List{3}, List{1}}, true}},
          true});
}

struct FillUpdateRow {
  std::string schema;
  std::string source;  // argument with the new values: a tensor that broadcasts, a number, or "" for zero
  std::vector<Sample> samples;
};

void add_fill(Registry& r, FillUpdateRow row) {
  OpRecord record;
  record.schema_text = row.schema;
  record.samples = row.samples;
  record.inplace = true;
  record.infer = [row](InferCall& call) {
    const Value* self = call.tensor("self");
    if (!row.source.empty()) {
      Operand source = operand(call, row.source);
      if (source.tensor) check_source(call, self->type.sizes, source.tensor->type.sizes, call.ranges());
    }
    call.results = {changed_type(call, self, false)};
  };
  record.lower = [row](LowerCall& call) {
    const TensorType& type = call.output_type();
    call.kernel([&](KernelBuilder& k) {
      k.parallel(type.sizes, [&](const std::vector<Expr>& i) {
        Operand source;
        source.number = Scalar(0);
        if (!row.source.empty()) source = operand(call, row.source);
        ValueId value;
        if (source.tensor) {
          value = k.load(call.buffer(source.tensor), call.broadcast(source.tensor->type.sizes, i));
          value = k.as(type.dtype, value);  // copy_ converts: a rounding of the program
        } else {
          value = number_value(k, source.number, type.dtype);
        }
        k.store(call.output(), i, value);
      });
    });
  };
  record.reference = [row](ReferenceCall& call) {
    Tensor out = changed_copy(call.tensor("self"), false);
    Tensor source = Tensor::scalar(DType::i64, Scalar(0));
    if (!row.source.empty()) {
      const Datum& given = call.values.find(row.source)->second;
      source = given.is_tensor() ? given.tensor() : Tensor::scalar(number_kind(given.scalar()), given.scalar());
    }
    // In fp64 mode a narrowing copy of the program still rounds.
    DType nominal = nominal_argument_dtype(call, "self");
    if (call.fp64 && !row.source.empty()) {
      DType from = nominal_argument_dtype(call, row.source);
      if (promote(from, nominal) != nominal) source = convert(source, nominal);
    }
    copy_into(broadcast_view(source, out.sizes), out);
    call.results = {Datum{out}};
  };
  r.add(std::move(record));
}

}  // namespace

void register_inplace_copy(Registry& r) {
  add_fill(r, {"copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
               "src",
               {{{spec({2, 3}), spec({3})}},
                {{spec({2, 3}, DType::bf16), spec({2, 3})}},
                {{spec({2}, DType::i64), spec({}, DType::f32, -5, 5)}},
                {{spec({0, 3}), spec({3})}},
                {{spec({2, 3}), spec({2})}, true}}});
  add_fill(r, {"fill.Scalar(Tensor self, Scalar value) -> Tensor",
               "value",
               {{{spec({2, 3}), Scalar(1.5)}},
                {{spec({2, 3}, DType::i64), Scalar(1.5)}},
                {{spec({}, DType::boolean), Scalar(2)}}}});
  add_fill(r, {"fill.Tensor(Tensor self, Tensor value) -> Tensor", "value", {{{spec({2, 3}), spec({}, DType::i64)}}}});
  add_fill(r, {"zero(Tensor self) -> Tensor", "", {{{spec({2, 3})}}, {{spec({3}, DType::i32)}}}});
  register_scatters_of_views(r);
  r.describe({"copy"}, complex_by(ComplexRule::cast));
  r.describe({"zero"}, complex_by(ComplexRule::fill));
  r.describe({"as_strided_scatter", "diagonal_scatter", "fill", "select_scatter", "slice_scatter"},
             complex_by(ComplexRule::parts));
  r.describe({"fill.Scalar", "zero"}, {.fills = true});
  r.describe({"copy"}, {.moves_data = true, .takes_source = true});
  r.describe({"copy", "diagonal_scatter", "select_scatter", "slice_scatter"}, {.keeps_gaps = true});
}

}  // namespace kiln
