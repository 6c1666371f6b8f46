#include "ops/size_needs.h"

#include "ops/lower_call.h"

namespace kiln {

namespace {

[[noreturn]] void refuse(const OpCall& call, const SizeNeed& need) { fail_user("K0212", need.message, call.where()); }

bool fails(const SizeNeed& need, const RangeEnv& ranges) {
  return prove_le(need.least, need.value, ranges) == Proof::no;
}

void lower_need(LowerCall& call, const SizeNeed& need) {
  if (prove_le(need.least, need.value, call.ranges()) == Proof::yes) return;
  int site = call.site(need.message);
  call.kernel([&](loops::KernelBuilder& k) {
    k.raise_if(k.op(loops::ScalarOp::lt, k.index_value(need.value), k.index_value(need.least)), site);
  });
}

NeedArgs types_of(const OpCall& call) {
  return {[&call](std::string_view arg) { return call.tensor(arg)->type.sizes; },
          [&call](std::string_view arg) { return call.integers(arg); }};
}

}  // namespace

void add_needs(OpRecord& record, SizeNeeds needs) {
  auto schema = std::make_shared<const Schema>(parse_schema(record.schema_text, record.name_space));
  record.infer = [infer = std::move(record.infer), needs](InferCall& call) {
    infer(call);
    for (const SizeNeed& need : needs(call, types_of(call)))
      if (fails(need, call.ranges())) refuse(call, need);
  };
  if (record.lower)
    record.lower = [lower = std::move(record.lower), needs](LowerCall& call) {
      for (const SizeNeed& need : needs(call, types_of(call))) lower_need(call, need);
      lower(call);
    };
  if (record.decompose)
    record.decompose = [decompose = std::move(record.decompose), needs](DecomposeCall& call) {
      for (const SizeNeed& need : needs(call, types_of(call))) require(call, need);
      decompose(call);
    };
  record.reference = [reference = std::move(record.reference), needs, schema](ReferenceCall& call) {
    OpCall typed(call.node(), *schema);
    NeedArgs args{[&call](std::string_view arg) { return to_exprs(call.tensor(arg).sizes); },
                  [&call](std::string_view arg) { return to_exprs(call.integers(arg)); }};
    for (const SizeNeed& need : needs(typed, args))
      if (fails(need, RangeEnv{})) fail_user("K0630", need.message, call.node().where());
    reference(call);
  };
}

void require(DecomposeCall& call, const SizeNeed& need) {
  if (prove_le(need.least, need.value, call.ranges()) == Proof::yes) return;
  call.call_all("kiln.require_at_least.default", {number(need.value), number(need.least), need.message});
}

std::vector<SizeNeed> elements_along(std::string_view name, const Sizes& sizes, const std::vector<bool>& dims) {
  std::vector<SizeNeed> out;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (dims[d])
      out.push_back({sizes[d], Expr(1), str(name, "(): Expected reduction dim ", d, " to have non-zero size")});
  return out;
}

std::vector<SizeNeed> elements_from(std::string_view name, const Sizes& sizes, size_t first) {
  std::vector<SizeNeed> out;
  for (size_t d = first; d < sizes.size(); ++d)
    out.push_back({sizes[d], Expr(1), str(name, "(): Expected input to have non-zero size in dimension ", d)});
  return out;
}

Value* largest_or_zero(DecomposeCall& call, Value* x, const std::vector<int64_t>& dims, bool keep) {
  bool some = true;
  for (int64_t d : dims) {
    const Expr& size = x->type.sizes[static_cast<size_t>(d < 0 ? d + rank_of(x) : d)];
    some &= prove_le(Expr(1), size, call.ranges()) == Proof::yes;
  }
  Value* out = call.call("kiln.amax.default", {x, call.int_list(to_exprs(dims)), Scalar(keep)});
  return some ? out : call.call("aten.clamp_min.default", {out, Scalar(0)});
}

// What a decomposition leaves of its needs: a node of the graph that has no result.
void register_size_needs(Registry& registry) {
  OpRecord record;
  record.name_space = "kiln";
  record.schema_text = "require_at_least(SymInt value, SymInt least, str message) -> ()";
  record.kind = OpKind::assertion;
  auto need = [](const OpCall& call) -> SizeNeed {
    return {call.integer("value"), call.integer("least"), call.string("message")};
  };
  record.infer = [need](InferCall& call) {
    if (fails(need(call), call.ranges())) refuse(call, need(call));
  };
  record.lower = [need](LowerCall& call) { lower_need(call, need(call)); };
  record.reference = [](ReferenceCall& call) {
    if (call.integer("value") < call.integer("least")) fail_user("K0630", call.string("message"), call.node().where());
  };
  registry.add(std::move(record));
}

}  // namespace kiln
