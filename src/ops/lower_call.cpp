#include "ops/lower_call.h"

namespace kiln {

LowerCall::LowerCall(const Node& node, const Schema& schema, loops::LoopProgram& program, loops::Block& block,
                     const std::map<const Value*, loops::BufferId>& buffers, const RangeEnv& ranges, int64_t& draws)
    : OpCall(node, schema), program_(program), block_(block), buffers_(buffers), ranges_(ranges), draws_(draws) {}

loops::BufferId LowerCall::buffer(const Value* value) const {
  auto found = buffers_.find(value);
  if (found == buffers_.end()) fail_bug(str("no buffer for ", value ? value->name : "None"), where());
  return found->second;
}

loops::BufferId LowerCall::output(int result) const {
  const auto& results = node().results;
  // The elements of a list result are the outputs.
  if (results.size() == 1 && results[0]->kind == ValueKind::tensor_list)
    return buffer(results[0]->items.at(static_cast<size_t>(result)));
  return buffer(results.at(static_cast<size_t>(result)));
}

loops::BufferId LowerCall::temp(DType dtype, std::vector<Expr> sizes, std::string name) {
  loops::Buffer made;
  made.name = str(node().name, "_", name);
  made.dtype = dtype;
  made.strides = contiguous_strides(sizes);
  made.sizes = std::move(sizes);
  made.role = loops::BufferRole::temp;
  return program_.add_buffer(std::move(made));
}

void LowerCall::kernel(const std::function<void(loops::KernelBuilder&)>& build) {
  loops::Kernel made;
  made.name = node().name;
  made.op_names = {op_short_name(node().target)};
  made.origins = node().origins;
  {
    loops::KernelBuilder builder(program_, made);
    build(builder);
  }
  loops::Item item;
  item.what = std::move(made);
  block_.push_back(std::move(item));
}

void LowerCall::call(loops::Call made) {
  if (made.target.empty()) made.target = node().target;
  if (made.origins.empty()) made.origins = node().origins;
  loops::Item item;
  item.what = std::move(made);
  block_.push_back(std::move(item));
}

std::vector<Expr> LowerCall::broadcast(const std::vector<Expr>& sizes, const std::vector<Expr>& index) const {
  KILN_CHECK(sizes.size() <= index.size(), "broadcasting never drops dimensions");
  size_t skip = index.size() - sizes.size();
  std::vector<Expr> out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Interval range = range_of(sizes[i], ranges_);
    if (sizes[i].is_constant(1)) {
      out.emplace_back(0);
    } else if (!range.contains(1)) {
      out.push_back(index[i + skip]);
    } else {
      // The size may be 1 in some runs: then every index reads its only element.
      out.push_back(min_expr(index[i + skip], sizes[i] - Expr(1)));
    }
  }
  return out;
}

loops::ValueId LowerCall::scalar_value(loops::KernelBuilder& k, std::string_view arg_name, DType dtype) const {
  auto number = scalar(arg_name);
  if (const auto* constant = std::get_if<Scalar>(&number)) return k.constant(dtype, *constant);
  return k.index_value(std::get<Expr>(number), dtype);
}

int LowerCall::site(std::string message) {
  loops::Site made;
  made.message = std::move(message);
  if (!node().origins.empty()) made.origin = node().origins.front();
  program_.sites.push_back(std::move(made));
  return static_cast<int>(program_.sites.size()) - 1;
}

}  // namespace kiln
