// A file says of every value what type it has, and the loops, buffers and index arithmetic rest on that. Here each
// operator's own rule is asked as well: a file that says otherwise is refused before its word becomes memory.
#include "lower/lowering.h"

namespace kiln {
using namespace loops;

namespace {

std::string type_text(DType dtype, const std::vector<Expr>& sizes) {
  return str(dtype_name(dtype), "[", shape_text(sizes), "]");
}

bool differ(const std::vector<Expr>& a, const std::vector<Expr>& b, const RangeEnv& ranges) {
  if (a.size() != b.size()) return true;
  for (size_t d = 0; d < a.size(); ++d)
    if (prove_eq(a[d], b[d], ranges) == Proof::no) return true;
  return false;
}

}  // namespace

void Lowering::check_results(const Node& node) {
  if (!node.op || !node.op->infer) return;
  InferCall call(node, node.op->schema, ranges_);
  node.op->infer(call);
  size_t next = 0;
  auto check = [&](const Value& value) {
    if (next >= call.results.size()) return;
    const TensorType& rule = call.results[next++];
    // An export made inside torch.autocast has narrower results than its operators' arguments say.
    const bool narrowed = is_float(value.type.dtype) && is_float(rule.dtype);
    if ((value.type.dtype == rule.dtype || narrowed) && !differ(value.type.sizes, rule.sizes, ranges_)) return;
    fail_user("K0237", str("the program says that ", value.name, " is ", type_text(value.type.dtype, value.type.sizes),
                           ", but ", node.target, " gives ", type_text(rule.dtype, rule.sizes)));
  };
  for (const Value* result : node.results) {
    if (result->kind == ValueKind::tensor) check(*result);
    for (const Value* item : result->items) item ? check(*item) : void(++next);
  }
}

// Sizes that the ranges of their symbols leave open are looked at in every call.
void Lowering::assert_same_sizes(const std::vector<Expr>& said, const std::string& name, const std::vector<Expr>& given,
                                 Block& block) {
  for (size_t d = 0; d < said.size(); ++d) {
    if (prove_eq(said[d], given[d], ranges_) == Proof::yes) continue;
    const std::string message =
        str("the program says that size ", d, " of ", name, " is ", said[d].text(), ", but it is ", given[d].text());
    std::set<std::string> symbols;
    collect_symbols(said[d], symbols);
    collect_symbols(given[d], symbols);
    if (!std::includes(bound_.begin(), bound_.end(), symbols.begin(), symbols.end())) fail_user("K0237", message);
    block.push_back(Item{AssertThat{compare_eq(said[d], given[d]), message, {}}});
  }
}

void Lowering::check_operand(const Value& input, BufferId operand, Block& block) {
  const Buffer& given = buffer(operand);
  const std::vector<Expr> sizes = given.tensor_sizes();
  if (input.type.dtype == given.tensor_dtype() && !differ(input.type.sizes, sizes, ranges_))
    return assert_same_sizes(input.type.sizes, input.name, sizes, block);
  fail_user("K0237", str("the program says that ", input.name, " is ", type_text(input.type.dtype, input.type.sizes),
                         ", but gets ", given.name, ", which is ", type_text(given.tensor_dtype(), sizes)));
}

void Lowering::check_same(BufferId to, BufferId from, Block& block) {
  if (buffer(to).dtype == buffer(from).dtype && !differ(buffer(to).sizes, buffer(from).sizes, ranges_))
    return assert_same_sizes(buffer(to).sizes, buffer(to).name, buffer(from).sizes, block);
  fail_user("K0237", str(buffer(to).name, " is ", type_text(buffer(to).dtype, buffer(to).sizes), " and is to become ",
                         buffer(from).name, ", which is ", type_text(buffer(from).dtype, buffer(from).sizes)));
}

void Lowering::check_slice(BufferId one, BufferId all, const Expr& count, Block& block) {
  std::vector<Expr> sizes = buffer(one).sizes;
  sizes.insert(sizes.begin(), count);
  if (buffer(one).dtype == buffer(all).dtype && !differ(sizes, buffer(all).sizes, ranges_))
    return assert_same_sizes(buffer(all).sizes, buffer(all).name, sizes, block);
  fail_user("K0237", str(buffer(all).name, " is ", type_text(buffer(all).dtype, buffer(all).sizes), ", but ",
                         count.text(), " times ", buffer(one).name, " is ", type_text(buffer(one).dtype, sizes)));
}

}  // namespace kiln
