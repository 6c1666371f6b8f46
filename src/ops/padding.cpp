// Padding by reflection, replication and wrapping around; pad dispatches by its mode.
#include "ops/composite.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/rearrange.h"

namespace kiln {

namespace {

using List = std::vector<int64_t>;

enum class Edge : uint8_t { reflect, replicate };

// The padding starts with the last dimension: (left, right, top, bottom, …).
Sizes padded_sizes(const ViewArgs& args, size_t spatial) {
  Sizes sizes = args.self().sizes, pad = args.numbers("padding");
  if (pad.size() != 2 * spatial || (sizes.size() != spatial + 1 && sizes.size() != spatial + 2))
    refuse(args.call(), "K0201",
           str("expects ", spatial + 1, " or ", spatial + 2, " dimensions and ", 2 * spatial, " pad values"));
  for (size_t i = 0; i < spatial; ++i) {
    Expr& size = sizes[sizes.size() - 1 - i];
    size = size + pad[2 * i] + pad[2 * i + 1];
    if (size.is_constant() && size.value() < 1) refuse(args.call(), "K0201", "the output would be empty");
  }
  return sizes;
}

void add_edge_pad(Registry& r, size_t spatial, Edge edge) {
  RearrangeRow row;
  row.schema = str(edge == Edge::reflect ? "reflection_pad" : "replication_pad", spatial, "d(Tensor self, SymInt[",
                   2 * spatial, "] padding) -> Tensor");
  row.sizes = [spatial](const ViewArgs& args) { return padded_sizes(args, spatial); };
  row.index = [spatial, edge](const ViewArgs& args, const std::vector<Expr>& i) {
    std::vector<Expr> out = i;
    Sizes pad = args.numbers("padding");
    for (size_t p = 0; p < spatial; ++p) {
      size_t d = out.size() - 1 - p;
      Expr at = i[d] - pad[2 * p], last = args.self().sizes[d] - Expr(1);
      if (edge == Edge::replicate) {
        out[d] = min_expr(max_expr(at, Expr(0)), last);
      } else {
        // last - | last - |at| |
        Expr folded = last - max_expr(at, -at);
        out[d] = last - max_expr(folded, -folded);
      }
    }
    return out;
  };
  row.source = [spatial, edge](const ReferenceCall& call, const Tensor& self, const std::vector<int64_t>& at) {
    std::vector<int64_t> out = at, pad = call.integers("padding");
    for (size_t p = 0; p < spatial; ++p) {
      size_t d = out.size() - 1 - p;
      int64_t x = at[d] - pad[2 * p], n = self.sizes[d];
      if (edge == Edge::replicate)
        out[d] = std::min(std::max<int64_t>(x, 0), n - 1);
      else
        out[d] = x < 0 ? -x : x >= n ? 2 * (n - 1) - x : x;
    }
    return out;
  };
  row.needs = [spatial, edge](const OpCall& call, const NeedArgs& args) {
    const Sizes sizes = args.sizes("self"), by = args.numbers("padding");
    if (by.size() != 2 * spatial || sizes.size() <= spatial) return std::vector<SizeNeed>{};
    const std::string name = op_short_name(call.schema().name);
    std::vector<SizeNeed> needs = elements_from(name, sizes, sizes.size() - spatial - 1);
    for (size_t p = 0; p < spatial; ++p) {
      const Expr& size = sizes[sizes.size() - 1 - p];
      needs.push_back({size + by[2 * p] + by[2 * p + 1], Expr(1), name + "(): the output would be empty"});
      if (edge == Edge::replicate) continue;
      for (const Expr& pads : {by[2 * p], by[2 * p + 1]})
        needs.push_back(
            {size, pads + Expr(1), name + "(): Padding size should be less than the corresponding input dimension"});
    }
    return needs;
  };
  List sizes = {2, 3, 4, 5, 6}, pad(2 * spatial, 1);
  sizes.resize(spatial + 2);
  pad[0] = 2;
  row.samples = {{{spec(sizes), pad}},
                 {{spec(List(sizes.begin() + 1, sizes.end())), List(2 * spatial, 0)}},
                 {{spec({3}), pad}, true}};
  add_rearrangement(r, row);
}

// Wraps around: a part of the row of copies, where it wraps once at most; else the positions are computed and looked up
// along each dimension. What a negative pad cuts off is gone before the rest is wrapped.
Value* wrapped(Build& b, Value* x, const Sizes& pad) {
  for (size_t p = 0; p < pad.size() / 2; ++p) {
    int64_t dim = rank_of(x) - 1 - static_cast<int64_t>(p);
    auto number = [](const Expr& e) { return e.is_constant() ? Argument(Scalar(e.value())) : Argument(e); };
    Expr cut_before = max_expr(-pad[2 * p], Expr(0)), cut_after = max_expr(-pad[2 * p + 1], Expr(0));
    if (!cut_before.is_constant(0) || !cut_after.is_constant(0)) {
      Expr end = x->type.sizes[static_cast<size_t>(dim)] - cut_after;
      x = b("slice.Tensor", {x, Scalar(dim), number(cut_before), number(end)});
    }
    const Expr& size = x->type.sizes[static_cast<size_t>(dim)];
    Expr before = max_expr(pad[2 * p], Expr(0)), after = max_expr(pad[2 * p + 1], Expr(0));
    const RangeEnv& ranges = b.call().ranges();
    if (prove_le(before, size, ranges) == Proof::yes && prove_le(after, size, ranges) == Proof::yes) {
      Sizes copies(x->type.sizes.size(), Expr(1));
      copies[static_cast<size_t>(dim)] = Expr(3);
      const Expr start = size - before, end = size + size + after;
      x = b("slice.Tensor", {b("repeat", {x, b.ints(copies)}), Scalar(dim), number(start), number(end)});
      continue;
    }
    Value* positions = b("arange.start", {number(-before), number(size + after), DType::i64});
    positions->type.device = x->type.device;
    x = b("index_select", {x, Scalar(dim), b("remainder.Scalar", {positions, number(size)})});
  }
  return x;
}

void build_pad(Build& b) {
  DecomposeCall& call = b.call();
  Value* self = call.tensor("self");
  Sizes pad = call.integers("pad");
  std::string mode = call.string("mode");
  if (mode == "constant") {
    Argument value = call.given("value") ? call.arg("value") : Argument(Scalar(0));
    return call.result(b("constant_pad_nd", {self, b.ints(pad), value}));
  }
  if (call.given("value")) {
    auto value = call.scalar("value");
    const auto* constant = std::get_if<Scalar>(&value);
    if (!constant || constant->as_double() != 0)
      refuse(call, "K0201", str("padding mode \"", mode, "\" doesn't take in value argument"));
  }
  if (mode == "circular") return call.result(b.contiguous(wrapped(b, self, pad)));
  if (mode != "reflect" && mode != "replicate") refuse(call, "K0201", str("unknown padding mode \"", mode, "\""));
  if (pad.size() % 2 != 0 || pad.empty() || pad.size() > 6)
    refuse(call, "K0201", "2, 4 or 6 pad values are supported in this mode");
  call.result(
      b(str(mode == "reflect" ? "reflection_pad" : "replication_pad", pad.size() / 2, "d"), {self, b.ints(pad)}));
}

// pad hands reflecting and replicating over to operators that autocast casts for; there is none for reflecting three
// dimensions.
AutocastRule pad_autocast(const OpCall& call) {
  const Argument &mode = call.arg("mode"), &pad = call.arg("pad");
  const auto* name = std::get_if<std::string>(&mode.value);
  if (!name || !pad.is_list()) return AutocastRule::none;
  const bool cast = *name == "replicate" || (*name == "reflect" && pad.as_list().size() <= 4);
  return cast ? AutocastRule::single : AutocastRule::none;
}

}  // namespace

void register_padding(Registry& r) {
  for (size_t spatial : {size_t{1}, size_t{2}, size_t{3}}) {
    add_edge_pad(r, spatial, Edge::reflect);
    add_edge_pad(r, spatial, Edge::replicate);
  }
  std::vector<int64_t> pad = {1, 2};
  add_composite(r, {.schema = "pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor",
                    .build = build_pad,
                    .samples = {{{spec({2, 3, 4}), pad}},
                                {{spec({2, 3, 4}), pad, std::string("constant"), Scalar(1.5)}},
                                {{spec({2, 3, 4}), pad, std::string("reflect")}},
                                {{spec({2, 3, 4}), pad, std::string("replicate")}},
                                {{spec({2, 3, 4}), pad, std::string("circular")}},
                                {{spec({2, 5, 4}), List{-1, 1, -2, 1}, std::string("circular")}},
                                {{spec({2, 3, 4}), pad, std::string("mirror")}, true}}});
  r.describe({"pad"}, {.autocast = {.by_arguments = pad_autocast}});
  r.describe({"pad", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
              "replication_pad2d", "replication_pad3d"},
             complex_by(ComplexRule::parts));
  r.describe({"reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "replication_pad3d"},
             autocast_to(AutocastRule::single));
}

}  // namespace kiln
