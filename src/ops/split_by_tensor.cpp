// tensor_split with a tensor of places (or of a number of sections): the sizes of the pieces depend on data, so it is a
// library kernel. The pieces are copies; how many there are is known from the graph.
#include "ops/dense.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/layout.h"

namespace kiln {

namespace {

// A 1-dimensional tensor of n places gives n + 1 pieces; a number of sections is known only from the list's users.
size_t piece_count(const OpCall& call) {
  const TensorType& at = call.tensor("tensor_indices_or_sections")->type;
  const auto& results = call.node().results;
  if (at.sizes.size() == 1 && at.sizes[0].is_constant()) return static_cast<size_t>(at.sizes[0].value()) + 1;
  if (!results.empty() && !results[0]->items.empty()) return results[0]->items.size();
  fail_unsupported("K0202", str(call.schema().name, ": the number of pieces must be known"), call.where());
}

void infer_pieces(InferCall& call) {
  const TensorType& self = call.tensor("self")->type;
  const TensorType& at = call.tensor("tensor_indices_or_sections")->type;
  if (at.dtype != DType::i64 || at.sizes.size() > 1)
    fail_user("K0201", str(call.schema().name, ": expected a tensor of int64 of at most one dimension"), call.where());
  if (self.sizes.empty()) fail_user("K0205", str(call.schema().name, ": needs at least one dimension"), call.where());
  auto dim = static_cast<size_t>(wrap_dim(call, call.constant_integer("dim"), rank_of(call.tensor("self"))));
  const auto& results = call.node().results;
  for (size_t i = 0; i < piece_count(call); ++i) {
    Sizes sizes = self.sizes;
    const Value* typed = !results.empty() && i < results[0]->items.size() ? results[0]->items[i] : nullptr;
    bool known = typed && typed->type.sizes.size() == sizes.size();
    sizes[dim] = known ? typed->type.sizes[dim] : Expr::symbol(str("u_", call.node().name, "_", i));
    call.results.push_back(contiguous_type(self.dtype, sizes, self.device));
  }
}

// Where each piece begins and how long it is, by the rules of Python's slices.
std::vector<std::pair<int64_t, int64_t>> reference_pieces(const std::vector<int64_t>& at, bool sections, int64_t size) {
  std::vector<std::pair<int64_t, int64_t>> out;
  if (sections) {
    int64_t begin = 0;
    for (int64_t i = 0; i < at[0]; ++i) {
      int64_t length = size / at[0] + (i < size % at[0] ? 1 : 0);
      out.push_back({begin, length});
      begin += length;
    }
    return out;
  }
  auto place = [&](int64_t index) { return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size); };
  for (size_t i = 0; i <= at.size(); ++i) {
    int64_t begin = i == 0 ? 0 : place(at[i - 1]), end = i == at.size() ? size : place(at[i]);
    out.push_back({begin, std::max<int64_t>(end - begin, 0)});
  }
  return out;
}

void reference_split(ReferenceCall& call) {
  Tensor self = call.tensor("self"), places = call.tensor("tensor_indices_or_sections");
  std::vector<int64_t> at;
  for (int64_t i = 0; i < places.numel(); ++i) at.push_back(places.item(i).as_int());
  bool sections = places.rank() == 0;
  if (sections && at[0] <= 0) fail_user("K0630", "the number of sections must be larger than 0", call.node().where());
  int64_t dim = call.integer("dim");
  auto d = static_cast<size_t>(dim < 0 ? dim + self.rank() : dim);
  std::vector<Datum> pieces;
  for (auto [begin, length] : reference_pieces(at, sections, self.sizes[d])) {
    Tensor piece = self;
    piece.offset += begin * self.strides[d];
    piece.sizes[d] = length;
    Tensor copy = Tensor::empty(self.dtype, piece.sizes);
    copy_into(piece, copy);
    pieces.push_back(Datum{copy});
  }
  call.results = {Datum{std::move(pieces)}};
}

}  // namespace

void register_split_by_tensor(Registry& r) {
  OpRecord record;
  record.schema_text =
      "tensor_split.tensor_indices_or_sections(Tensor self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor[]";
  record.library = "tensor_split";
  record.reads_data = true;
  record.infer = infer_pieces;
  record.reference = reference_split;
  record.samples = {{{spec({5, 3}), spec({2}, DType::i64, 0, 5)}},
                    {{spec({3, 4}), spec({3}, DType::i64, -4, 4), Scalar(-1)}},
                    {{spec({}), spec({2}, DType::i64, 0, 5)}, true}};
  r.add(std::move(record));
  r.describe({"tensor_split"}, complex_by(ComplexRule::parts));
}

}  // namespace kiln
