#include "minify/infer_program.h"

#include "base/error.h"
#include "minify/higher_order.h"
#include "ops/op_record.h"

namespace kiln::minify {
namespace {

class Inference {
 public:
  explicit Inference(const Program& program) : ranges_(program.ranges()) {}

  void graph(Graph& graph) {
    for (auto& node : graph.nodes) {
      if (const HigherOrder* form = higher_order(*node)) {
        with_subgraphs(*node, *form);
        continue;
      }
      node->op = Registry::instance().find(node->target);
      if (!node->op || !node->op->infer) fail_unsupported("K0681", str(node->target, " has no rule for its types"));
      infer_types(*node, graph, ranges_);
    }
  }

 private:
  static const Value& tensor(const Argument& arg, const Node& node) {
    if (!arg.is_value() || arg.as_value()->kind != ValueKind::tensor)
      fail_unsupported("K0681", str(node.target, " with operands that are no tensors: types are not inferred again"));
    return *arg.as_value();
  }

  static TensorType slice_of(TensorType type, const Node& node) {
    if (type.sizes.empty()) fail_unsupported("K0681", str(node.target, " over a tensor without a dimension"));
    type.sizes.erase(type.sizes.begin());
    type.strides.erase(type.strides.begin());
    return type;
  }

  void with_subgraphs(Node& node, const HigherOrder& form) {
    std::vector<const Argument*> given;
    std::vector<TensorType> types;
    Expr length(0);
    for (const HigherOrder::Operands& operands : form.operands) {
      if (operands.argument >= node.args.size()) continue;
      for (const Argument& arg : node.args[operands.argument].arg.as_list()) {
        given.push_back(&arg);
        const bool is_tensor = arg.is_value() && arg.as_value()->kind == ValueKind::tensor;
        if (!is_tensor && !operands.sliced) {
          types.emplace_back();  // a number keeps what it is
          continue;
        }
        const TensorType& whole = tensor(arg, node).type;
        types.push_back(operands.sliced ? slice_of(whole, node) : whole);
        if (operands.sliced) length = whole.sizes[0];
      }
    }
    for (const size_t at : form.graphs) {
      Graph& inner = *node.args[at].arg.as_graph();
      if (inner.inputs.size() != types.size())
        fail_unsupported("K0681",
                         str(node.target, ": the subgraph takes ", inner.inputs.size(), " inputs, not ", types.size()));
      for (size_t i = 0; i < types.size(); ++i)
        if (inner.inputs[i]->kind == ValueKind::tensor) inner.inputs[i]->type = types[i];
      graph(inner);
    }
    set_results(node, form, types, length);
  }

  void set_results(Node& node, const HigherOrder& form, const std::vector<TensorType>& operands, const Expr& length) {
    const std::vector<Value*> results = flat_results(node);
    const Graph& body = *node.args[form.graphs[form.condition ? 1 : 0]].arg.as_graph();
    const size_t stacked = stacked_from(node, form);
    const bool carries = form.condition || (form.stacks && stacked > 0);
    for (size_t i = 0; i < results.size() && i < body.outputs.size(); ++i) {
      if (!results[i] || results[i]->kind != ValueKind::tensor) continue;
      const TensorType& type = tensor(body.outputs[i], node).type;
      if (carries && i < stacked && i < operands.size() &&
          (type.sizes != operands[i].sizes || type.dtype != operands[i].dtype))
        fail_unsupported("K0681", str(node.target, ": the body gives back another type than it takes"));
      if (i < stacked) {
        results[i]->type = type;
        results[i]->type.offset = Expr(0);
        continue;
      }
      std::vector<Expr> sizes = type.sizes;
      sizes.insert(sizes.begin(), length);
      results[i]->type = contiguous_type(type.dtype, std::move(sizes), type.device);
    }
  }

  RangeEnv ranges_;
};

}  // namespace

void infer_program(Program& program) { Inference(program).graph(program.graph); }

}  // namespace kiln::minify
