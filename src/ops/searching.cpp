// Searching in sorted rows: bucketize, searchsorted. Eager searches by halves, which matters where the rows are not
// sorted after all: its result is then the place that the halving ends at, not the number of smaller elements.
#include "ops/composite.h"
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/lower_call.h"

namespace kiln {

namespace {

using loops::ValueId;

[[noreturn]] void refuse_search(const OpCall& call, std::string_view why) {
  fail_user("K0213", str(op_short_name(call.schema().name), ": ", why), call.where());
}

// ---- The primitive: rows and values of one dtype ----

void infer_search(InferCall& call) {
  const TensorType &rows = call.tensor("rows")->type, &values = call.tensor("values")->type;
  refuse_complex(call, rows.dtype);
  if (rows.sizes.empty()) refuse_search(call, "boundaries tensor should have at least one dimension");
  if (rows.sizes.size() > 1) {
    bool same = values.sizes.size() == rows.sizes.size();
    for (size_t d = 0; same && d + 1 < values.sizes.size(); ++d)
      same = prove_eq(values.sizes[d], rows.sizes[d], call.ranges()) != Proof::no;
    if (!same) refuse_search(call, "boundaries tensor should be 1 dimension or the first N-1 dimensions must match");
  }
  DType dtype = call.boolean("out_int32") ? DType::i32 : DType::i64;
  call.results = {contiguous_type(dtype, values.sizes, values.device)};
}

template <class T>
void reference_search(ReferenceCall& call) {
  Tensor rows = call.tensor("rows"), values = call.tensor("values");
  bool right = call.boolean("right");
  std::vector<T> edges = read_dense<T>(rows), x = read_dense<T>(values);
  int64_t length = rows.sizes.back(), per_row = rows.rank() == 1 ? values.numel() : values.sizes.back();
  std::vector<int64_t> out;
  for (size_t i = 0; i < x.size(); ++i) {
    const T* begin =
        edges.data() + (rows.rank() == 1 ? 0 : static_cast<int64_t>(i) / std::max<int64_t>(per_row, 1) * length);
    auto place = right ? std::partition_point(begin, begin + length, [&](T e) { return !(e > x[i]); })
                       : std::partition_point(begin, begin + length, [&](T e) { return !(e >= x[i]); });
    out.push_back(place - begin);
  }
  Tensor result = Tensor::empty(call.nominal_dtype(), values.sizes);
  write_dense(result, out);
  call.results = {Datum{result}};
}

void add_primitive(Registry& r) {
  OpRecord record;
  record.name_space = "kiln";
  record.schema_text = "search_sorted(Tensor rows, Tensor values, bool right, bool out_int32) -> Tensor";
  record.library = "search_sorted";
  record.infer = infer_search;
  record.reference = [](ReferenceCall& call) {
    if (is_float(nominal_argument_dtype(call, "rows")))
      reference_search<double>(call);
    else
      reference_search<int64_t>(call);
  };
  // Random rows are not sorted: what comes out is where the halving ends.
  Scalar yes(true), no(false);
  record.samples = {{{spec({9}), spec({2, 8}), no, no}},
                    {{spec({2, 7}, DType::i64, -9, 9), spec({2, 6}, DType::i64, -9, 9), yes, yes}},
                    {{spec({12}, DType::bf16), spec({}, DType::bf16), yes, no}},
                    {{spec({0}, DType::f64), spec({3}, DType::f64), no, no}},
                    {{spec({2, 7}), spec({3, 2}), no, no}, true},
                    {{spec({}), spec({3, 2}), no, no}, true}};
  r.add(std::move(record));
}

// ---- The same for rows of known length: the steps written out, so that lanes take them side by side ----

constexpr int64_t longest_line = 1 << 16;

// One step: between start and end lies what is not decided yet; where that is nothing, they stay as they are.
struct Halving {
  loops::KernelBuilder& k;
  loops::BufferId rows;
  std::vector<Expr> row;  // all but the last index
  ValueId value;
  Expr length;
  bool right;
  int site;
  ValueId start, end;

  void step() {
    ValueId open = k.op(ScalarOp::lt, start, end);
    ValueId middle = k.op(ScalarOp::shr, k.op(ScalarOp::add, start, end), k.constant(DType::i64, Scalar(1)));
    std::vector<Expr> at = row;
    at.push_back(k.check_index(middle, length, site, open));
    ValueId edge = k.load_compute(rows, at, open);
    ValueId below = k.op(ScalarOp::logical_not, k.op(right ? ScalarOp::gt : ScalarOp::ge, edge, value));
    ValueId next = k.op(ScalarOp::add, middle, k.constant(DType::i64, Scalar(1)));
    start = k.select(k.op(ScalarOp::logical_and, open, below), next, start);
    end = k.select(k.op(ScalarOp::logical_and, open, k.op(ScalarOp::logical_not, below)), middle, end);
  }
};

void infer_line(InferCall& call) {
  infer_search(call);
  if (!call.tensor("rows")->type.sizes.back().is_constant())
    fail_unsupported("K0202", str(call.schema().name, ": the length of rows must be a number"), call.where());
}

void lower_search(LowerCall& call) {
  const TensorType &rows = call.tensor("rows")->type, &values = call.tensor("values")->type;
  const Expr length = rows.sizes.back();
  const int site = call.site(str("a place outside in ", call.schema().name));
  call.kernel([&](loops::KernelBuilder& k) {
    k.parallel(values.sizes, [&](const std::vector<Expr>& i) {
      std::vector<Expr> row;
      if (rows.sizes.size() > 1) row.assign(i.begin(), i.end() - 1);
      Halving halving{k,
                      call.input("rows"),
                      row,
                      k.load_compute(call.input("values"), i),
                      length,
                      call.boolean("right"),
                      site,
                      k.constant(DType::i64, Scalar(0)),
                      k.constant(DType::i64, Scalar(length.value()))};
      for (int64_t left = length.value(); left > 0; left /= 2) halving.step();
      k.store(call.output(), i, k.as(call.output_type().dtype, halving.start));
    });
  });
}

void add_written_out(Registry& r) {
  OpRecord record;
  record.name_space = "kiln";
  record.schema_text = "search_line(Tensor rows, Tensor values, bool right, bool out_int32) -> Tensor";
  record.infer = infer_line;
  record.lower = lower_search;
  record.reference = [](ReferenceCall& call) {
    if (is_float(nominal_argument_dtype(call, "rows")))
      reference_search<double>(call);
    else
      reference_search<int64_t>(call);
  };
  Scalar yes(true), no(false);
  record.samples = {{{spec({9}), spec({2, 8}), no, no}},
                    {{spec({2, 7}, DType::i64, -9, 9), spec({2, 6}, DType::i64, -9, 9), yes, yes}},
                    {{spec({12}, DType::bf16), spec({}, DType::bf16), yes, no}},
                    {{spec({1}, DType::f64), spec({3}, DType::f64), no, no}}};
  r.add(std::move(record));
}

// ---- ATen's operators: types are promoted first ----

bool searches_right(const OpCall& call) {
  bool right = call.boolean("right");
  if (call.schema().find("side") < 0 || !call.given("side")) return right;
  std::string side = call.string("side");
  if (side != "left" && side != "right") refuse_search(call, "side can only be 'left' or 'right'");
  if (right && side == "left") refuse_search(call, "side and right can't be set to opposites");
  return side == "right";
}

struct SearchRow {
  std::string schema;
  std::string rows, values;  // names of the arguments
  std::vector<Sample> samples = {};
};

void build_search(Build& b, const SearchRow& row) {
  DecomposeCall& call = b.call();
  Value* rows = call.tensor(row.rows);
  Operand values = operand(call, row.values);
  Promotion promotion;
  add_operand(promotion, values);
  promotion.add_tensor(rows->type.dtype, true);
  DType common = promotion.result();
  Value* searched =
      values.tensor ? b.to(call.tensor(row.values), common) : b("scalar_tensor", {call.arg(row.values), common});
  if (call.schema().find("sorter") >= 0 && call.given("sorter")) {
    Value* sorter = call.tensor("sorter");
    if (sorter->type.dtype != DType::i64) refuse_search(call, "sorter must be a tensor of long dtype");
    if (sorter->type.sizes.size() != rows->type.sizes.size())
      refuse_search(call, "boundary and sorter must have the same size");
    rows = b("gather", {rows, Scalar(-1), sorter});
  }
  const bool known = !rows->type.sizes.empty() && rows->type.sizes.back().is_constant() &&
                     rows->type.sizes.back().value() >= 1 && rows->type.sizes.back().value() <= longest_line;
  call.result(
      call.call(known ? "kiln.search_line.default" : "kiln.search_sorted.default",
                {b.to(rows, common), searched, Scalar(searches_right(call)), Scalar(call.boolean("out_int32"))}));
}

void add_search(Registry& r, const SearchRow& row) {
  add_composite(r, {.schema = row.schema, .build = [row](Build& b) { build_search(b, row); }, .samples = row.samples});
}

}  // namespace

void register_searching(Registry& r) {
  add_primitive(r);
  add_written_out(r);
  Sample::TensorSpec row = spec({4}, DType::f32, -1, 1), rows = spec({2, 4}, DType::i64, -1, 1), x = spec({2, 3});
  Sample::TensorSpec order = spec({4}, DType::i64, 0, 3);
  Scalar no(false);
  std::string tail = "bool out_int32=False, bool right=False) -> Tensor";
  std::string more = "bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor";
  add_search(
      r, {"bucketize.Tensor(Tensor self, Tensor boundaries, *, " + tail,
          "boundaries",
          "self",
          {{{x, row}}, {{x, row, Scalar(true), Scalar(true)}}, {{spec({3}, DType::i64), row}}, {{x, spec({})}, true}}});
  add_search(
      r, {"bucketize.Scalar(Scalar self, Tensor boundaries, *, " + tail, "boundaries", "self", {{{Scalar(1), row}}}});
  add_search(r, {"searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, " + more,
                 "sorted_sequence",
                 "self",
                 {{{row, x}},
                  {{rows, x}},
                  {{row, x, no, no, std::string("right")}},
                  {{row, x, no, no, Argument::None{}, order}},
                  {{row, x, no, no, std::string("up")}, true},
                  {{row, x, no, Scalar(true), std::string("left")}, true}}});
  add_search(r, {"searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, " + more,
                 "sorted_sequence",
                 "self",
                 {{{row, Scalar(1.5)}}}});
}

}  // namespace kiln
