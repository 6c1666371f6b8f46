#include "graph_passes/fold_constants.h"

#include <cmath>
#include <cstring>
#include <unordered_map>

#include "graph_passes/node_kinds.h"
#include "ops/common_operators.h"
#include "ops/dense.h"
#include "ops/layout.h"
#include "ops/op_record.h"

namespace kiln {

namespace {

constexpr int64_t max_result_bytes = 64 << 10;
constexpr int64_t max_input_bytes = 1 << 20;

class Folder {
 public:
  Folder(Program& program, PassContext& context) : program_(program), graph_(program.graph), context_(context) {}

  bool run() {
    find_constants();
    for (auto& node : graph_.nodes)
      if (foldable(*node)) evaluate(*node);
    return replace();
  }

 private:
  void find_constants() {
    std::set<std::string> written;
    for (const OutputSpec& spec : program_.output_specs) written.insert(spec.target);
    for (size_t i = 0; i < graph_.inputs.size() && i < program_.input_specs.size(); ++i) {
      const InputSpec& spec = program_.input_specs[i];
      if (spec.kind != InputKind::constant_tensor || written.contains(spec.target)) continue;
      auto constant = program_.constants.find(spec.target);
      if (constant == program_.constants.end() || !constant->second.defined()) continue;
      if (bytes_of(constant->second) <= max_input_bytes) known_[graph_.inputs[i]] = constant->second;
    }
  }

  static int64_t bytes_of(const Tensor& tensor) { return tensor.numel() * dtype_bytes(tensor.dtype); }

  // Fills are better left to fusion; they take part in folding only as arguments of something else. Of the tensor that
  // a fill is to be like (new_zeros, zeros_like) nothing but the sizes counts.
  bool is_fill(const Node& node) const {
    const auto unknown = [&](const auto& named) { return named.arg.is_value() && !is_known(named.arg); };
    const auto tensor = [](const auto& named) { return named.arg.is_value(); };
    return node.op->facts.fills && (std::none_of(node.args.begin(), node.args.end(), tensor) ||
                                    std::any_of(node.args.begin(), node.args.end(), unknown));
  }

  bool small_static(const Value& value) const {
    if (value.kind != ValueKind::tensor) return false;
    int64_t bytes = dtype_bytes(value.type.dtype);
    for (const Expr& size : value.type.sizes) {
      if (!size.is_constant() || size.value() < 0 || size.value() > max_result_bytes) return false;
      bytes *= size.value();
      if (bytes > max_result_bytes) return false;
    }
    return true;
  }

  bool is_known(const Argument& arg) const {
    if (arg.is_value()) return known_.contains(arg.as_value());
    if (arg.is_list()) {
      for (const Argument& element : arg.as_list())
        if (!is_known(element)) return false;
      return true;
    }
    if (const auto* expr = std::get_if<Expr>(&arg.value))
      return expr->is_constant() || expr->op() == ExprOp::float_constant;
    return !arg.is_graph();
  }

  bool foldable(const Node& node) const {
    if (!node.op || node.op->kind != OpKind::plain || !node.op->reference) return false;
    if (has_effect(node) || is_random(node)) return false;
    for (const auto& named : node.args)
      if (!is_known(named.arg) && !(node.op->facts.fills && is_static(named.arg))) return false;
    for (const Value* result : node.results)
      if (!small_static(*result)) return false;
    return true;
  }

  static bool is_static(const Argument& arg) {
    if (!arg.is_value() || arg.as_value()->kind != ValueKind::tensor) return false;
    const std::vector<Expr>& sizes = arg.as_value()->type.sizes;
    return std::all_of(sizes.begin(), sizes.end(), [](const Expr& size) { return size.is_constant(); });
  }

  // One number in the sizes of a tensor whose elements are not known.
  static Tensor stand_in(const TensorType& type) {
    std::vector<int64_t> sizes;
    for (const Expr& size : type.sizes) sizes.push_back(size.value());
    return broadcast_view(Tensor::scalar(type.dtype, Scalar(0)), sizes);
  }

  Datum datum(const Argument& arg) const {
    if (arg.is_value()) {
      const auto known = known_.find(arg.as_value());
      return Datum{known != known_.end() ? known->second : stand_in(arg.as_value()->type)};
    }
    if (!arg.is_list()) return constant_datum(arg);
    std::vector<Datum> list;
    for (const Argument& element : arg.as_list()) list.push_back(datum(element));
    return Datum{std::move(list)};
  }

  void evaluate(const Node& node) {
    ReferenceCall call(node, node.op->schema);
    OpCall access(node, node.op->schema);
    for (const SchemaArg& declared : node.op->schema.args)
      call.values[declared.name] = datum(access.arg(declared.name));
    try {
      node.op->reference(call);
    } catch (const Error& error) {
      // It will fail in the same way when it runs; that is the place to say so.
      context_.note(str("not folded: ", node.name, ": ", error.message()));
      return;
    }
    if (call.results.size() != node.results.size()) return;
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (!call.results[i].is_tensor()) return;
      const Tensor& tensor = call.results[i].tensor();
      if (tensor.dtype != node.results[i]->type.dtype) return;
    }
    const bool stays = is_fill(node);
    for (size_t i = 0; i < node.results.size(); ++i) known_[node.results[i]] = call.results[i].tensor();
    if (!stays) folded_.push_back(&node);
  }

  // What a node that stays, or an output, still reads becomes a constant, a fill or a triangle.
  bool replace() {
    std::set<const Node*> folded(folded_.begin(), folded_.end());
    std::vector<Value*> needed;
    std::set<const Value*> seen;
    auto need = [&](Value* value) {
      if (value->producer && folded.contains(value->producer) && seen.insert(value).second) needed.push_back(value);
    };
    for (auto& node : graph_.nodes)
      if (!folded.contains(node.get()))
        for (const auto& named : node->args) for_each_value(named.arg, std::function<void(Value*)>(need));
    for (const Argument& output : graph_.outputs) for_each_value(output, std::function<void(Value*)>(need));
    bool changed = false;
    for (Value* value : needed) {
      const Tensor& tensor = known_.at(value);
      Value* made = is_uniform(tensor) ? add_fill(*value, tensor) : add_mask(*value, tensor);
      if (!made) made = add_constant(*value, tensor);
      if (!made) continue;
      context_.note(str("folded: ", value->name, " = ", value->producer->target));
      graph_.replace_uses(value, made);
      changed = true;
    }
    return changed;
  }

  static bool is_uniform(const Tensor& tensor) {
    if (tensor.numel() == 0 || is_complex(tensor.dtype)) return false;
    auto size = static_cast<size_t>(dtype_bytes(tensor.dtype));
    for (int64_t i = 1; i < tensor.numel(); ++i) {
      const std::byte* at = tensor.data() + tensor.element_offset(i) * dtype_bytes(tensor.dtype);
      if (std::memcmp(at, tensor.data() + tensor.element_offset(0) * dtype_bytes(tensor.dtype), size) != 0)
        return false;
    }
    return true;
  }

  // A node in place of the one that made `old`.
  Value* add_node(const OpRecord& op, const Value& old, std::vector<Node::NamedArgument> args, TensorType type) {
    Node* node = graph_.add_node(op.name(), graph_.unique_name(op_short_name(op.name())), old.producer);
    node->op = &op;
    node->origins = old.producer->origins;
    node->args = std::move(args);
    Value* made = graph_.add_result(node, node->name, ValueKind::tensor);
    made->type = std::move(type);
    return made;
  }

  Value* add_fill(const Value& old, const TensorType& type, const std::vector<int64_t>& of, const Scalar& number) {
    Argument::List sizes;
    for (int64_t size : of) sizes.emplace_back(Scalar(size));
    return add_node(
        common_operators::fill(), old,
        {{"size", Argument(std::move(sizes))}, {"fill_value", Argument(number)}, {"dtype", Argument(type.dtype)}},
        type);
  }
  Value* add_fill(const Value& old, const Tensor& tensor) {
    return add_fill(old, old.type, tensor.sizes, tensor.item());
  }

  // One matrix of two numbers, parted along a diagonal: so far beyond a row's own number its first one reaches.
  static std::optional<int64_t> parted_along(const Tensor& tensor) {
    const size_t rank = tensor.sizes.size();
    if (rank < 2) return {};
    const int64_t rows = tensor.sizes[rank - 2], columns = tensor.sizes[rank - 1];
    if (rows * columns != tensor.numel() || tensor.numel() == 0) return {};
    const Scalar first = tensor.item(0);
    int64_t ahead = 0;
    while (ahead + 1 < columns && tensor.item(ahead + 1) == first) ++ahead;
    if (ahead + 1 == columns) return {};
    const Scalar other = tensor.item(ahead + 1);
    for (int64_t i = 0; i < tensor.numel(); ++i)
      if (!(tensor.item(i) == (i % columns <= i / columns + ahead ? first : other))) return {};
    return ahead;
  }

  // A causal mask stays a formula of its indices: that is cheaper than to read it, and says which keys no row sees.
  Value* add_mask(const Value& old, const Tensor& tensor) {
    const bool boolean = tensor.dtype == DType::boolean;
    if (!boolean && tensor.dtype != DType::f32) return nullptr;
    const std::optional<int64_t> ahead = parted_along(tensor);
    if (!ahead || !is_contiguous(old.type.sizes, old.type.strides)) return nullptr;
    const Scalar first = tensor.item(0), last = tensor.item(tensor.sizes.back() - 1);
    if (!boolean && (first.as_double() != 0 || last.as_double() != -INFINITY)) return nullptr;
    TensorType type = old.type;
    type.dtype = DType::boolean;
    const bool lower = !boolean || first.as_int() != 0;
    const OpRecord& triangle = lower ? common_operators::lower_triangle() : common_operators::upper_triangle();
    Value* seen = add_node(triangle, old,
                           {{triangle.schema.args[0].name, Argument(add_fill(old, type, tensor.sizes, Scalar(true)))},
                            {triangle.schema.args[1].name, Argument(Scalar(lower ? *ahead : *ahead + 1))}},
                           type);
    if (boolean) return seen;
    TensorType number = old.type;
    number.sizes.clear(), number.strides.clear();
    return add_node(common_operators::choose(), old,
                    {{"condition", Argument(seen)},
                     {"self", Argument(add_fill(old, number, {}, first))},
                     {"other", Argument(add_fill(old, number, {}, last))}},
                    old.type);
  }

  Value* add_constant(const Value& old, const Tensor& tensor) {
    std::string name;
    do name = str("_folded_", next_++);
    while (program_.constants.contains(name));
    // In the layout that the file says: it may be an output.
    std::vector<int64_t> strides;
    for (const Expr& stride : old.type.strides) strides.push_back(stride.value());
    Tensor kept = Tensor::empty_strided(tensor.dtype, tensor.sizes, dense_strides_like(tensor.sizes, strides));
    copy_into(tensor, kept);
    kept.device = old.type.device;
    // Before the user's inputs, where the file's constants stand.
    size_t at = 0;
    while (at < program_.input_specs.size() && program_.input_specs[at].kind != InputKind::user &&
           program_.input_specs[at].kind != InputKind::constant_value)
      ++at;
    Value* made = graph_.new_value(str("c", name), ValueKind::tensor);
    made->type = old.type;
    made->type.sizes.assign(kept.sizes.begin(), kept.sizes.end());
    made->type.strides.assign(kept.strides.begin(), kept.strides.end());
    made->type.offset = Expr(0);
    graph_.inputs.insert(graph_.inputs.begin() + static_cast<std::ptrdiff_t>(at), made);
    InputSpec spec;
    spec.kind = InputKind::constant_tensor;
    spec.target = name;
    program_.input_specs.insert(program_.input_specs.begin() + static_cast<std::ptrdiff_t>(at), spec);
    program_.constants[name] = std::move(kept);
    return made;
  }

  Program& program_;
  Graph& graph_;
  PassContext& context_;
  std::unordered_map<const Value*, Tensor> known_;
  std::vector<const Node*> folded_;
  int next_ = 0;
};

}  // namespace

bool fold_constants(Program& program, PassContext& context) { return Folder(program, context).run(); }

}  // namespace kiln
