// Higher-order operators: their arguments are positional, subgraphs among them.
#include "interp/graph_run.h"
#include "interp/tensor_sharing.h"
#include "ops/op_record.h"

namespace kiln {

namespace {

bool truth(const Node& node, const Datum& predicate) {
  if (predicate.is_scalar()) return predicate.scalar().as_double() != 0;
  if (predicate.is_tensor() && predicate.tensor().numel() == 1) return predicate.tensor().item().as_double() != 0;
  fail_user("K0603", str(node.target, ": the predicate must be one boolean"), node.where());
}

// Element i of the first dimension, sharing storage.
Datum slice_of(const Node& node, const Datum& datum, int64_t i) {
  if (!datum.is_tensor() || datum.tensor().rank() == 0)
    fail_user("K0603", str(node.target, ": what is iterated over must be tensors with a dimension"), node.where());
  Tensor out = datum.tensor();
  out.offset += i * out.strides[0];
  out.sizes.erase(out.sizes.begin());
  out.strides.erase(out.strides.begin());
  return Datum{std::move(out)};
}

int64_t common_length(const Node& node, const std::vector<Datum>& xs) {
  if (xs.empty()) fail_user("K0603", str(node.target, ": nothing to iterate over"), node.where());
  int64_t length = -1;
  for (const Datum& x : xs) {
    int64_t here = x.is_tensor() && x.tensor().rank() > 0 ? x.tensor().sizes[0] : -1;
    if (here < 0 || (length >= 0 && here != length))
      fail_user("K0603", str(node.target, ": what is iterated over must have the same first size"), node.where());
    length = here;
  }
  return length;
}

// Stacks the results of the iterations.
class Stacker {
 public:
  Stacker(const Node& node, int64_t length) : node_(node), length_(length) {}
  void add(int64_t i, const std::vector<Datum>& results, size_t first) {
    stacked_.resize(results.size() - first);
    for (size_t k = first; k < results.size(); ++k) {
      if (!results[k].is_tensor())
        fail_unsupported("K0603", str(node_.target, ": each iteration must give tensors"), node_.where());
      const Tensor& one = results[k].tensor();
      Tensor& all = stacked_[k - first];
      if (!all.defined()) {
        std::vector<int64_t> sizes = one.sizes;
        sizes.insert(sizes.begin(), length_);
        all = Tensor::empty(one.dtype, sizes);
        all.device = one.device;
      }
      copy_into(one, slice_of(node_, Datum{all}, i).tensor());
    }
  }
  std::vector<Datum> results() const {
    std::vector<Datum> out;
    for (const Tensor& tensor : stacked_) out.push_back(Datum{tensor});
    return out;
  }

 private:
  const Node& node_;
  int64_t length_;
  std::vector<Tensor> stacked_;
};

}  // namespace

const Graph& GraphRun::graph_argument(const Node& node, size_t index) const {
  if (index >= node.args.size() || !node.args[index].arg.is_graph() || !node.args[index].arg.as_graph())
    fail_user("K0603", str(node.target, ": argument ", index, " must be a subgraph"), node.where());
  return *node.args[index].arg.as_graph();
}

std::vector<Datum> GraphRun::list_argument(const Node& node, size_t index) {
  if (index >= node.args.size()) return {};
  Datum datum = evaluate_argument(node.args[index].arg);
  if (datum.is_none()) return {};
  if (!datum.is_list()) return {datum};
  return datum.list();
}

std::vector<Datum> GraphRun::run_subgraph(const Graph& graph, const std::vector<Datum>& inputs) {
  GraphRun inner(program_, options_, mix_seed(seed_, ~subgraph_runs_++), symbols_);
  return inner.run(graph, inputs);
}

std::vector<Datum> GraphRun::run_control_flow(const Node& node) {
  std::vector<Datum> results;
  if (node.target == "higher_order.cond") {
    results = run_cond(node);
  } else if (node.target == "higher_order.while_loop") {
    results = run_while(node);
  } else if (node.target == "higher_order.map_impl") {
    results = run_map(node);
  } else if (node.target == "higher_order.scan") {
    results = run_scan(node);
  } else if (node.target == "higher_order.associative_scan") {
    results = run_associative_scan(node);
  } else {
    fail_unsupported("K0603", str("the interpreter does not run ", node.target, " yet"), node.where());
  }
  separate(node, results);
  return results;
}

// A result is never an alias of an operand, also where a branch hands one through or a loop runs no iteration.
void GraphRun::separate(const Node& node, std::vector<Datum>& results) {
  std::set<const std::byte*> operands;
  for (const auto& named : node.args) {
    for_each_value(named.arg, [&](Value* value) {
      auto found = values_.find(value);
      if (found != values_.end() && found->second.is_tensor() && found->second.tensor().defined())
        operands.insert(found->second.tensor().storage->data);
    });
  }
  for (Datum& result : results)
    if (result.is_tensor() && operands.contains(result.tensor().storage->data))
      result = Datum{own_copy(result.tensor())};
}

std::vector<Datum> GraphRun::run_cond(const Node& node) {
  if (node.args.empty()) fail_user("K0603", "cond without a predicate", node.where());
  bool taken = truth(node, evaluate_argument(node.args[0].arg));
  return run_subgraph(graph_argument(node, taken ? 1 : 2), list_argument(node, 3));
}

std::vector<Datum> GraphRun::run_while(const Node& node) {
  const Graph& condition = graph_argument(node, 0);
  const Graph& body = graph_argument(node, 1);
  std::vector<Datum> carried = list_argument(node, 2);
  // The results are new tensors even when no iteration runs: a later write to one must not reach the initial value.
  for (Datum& datum : carried)
    if (datum.is_tensor()) datum = Datum{own_copy(datum.tensor())};
  const std::vector<Datum> additional = list_argument(node, 3);
  auto operands = [&] {
    std::vector<Datum> all = carried;
    all.insert(all.end(), additional.begin(), additional.end());
    return all;
  };
  while (true) {
    std::vector<Datum> predicate = run_subgraph(condition, operands());
    if (predicate.size() != 1) fail_user("K0603", "while_loop: the condition must give one value", node.where());
    if (!truth(node, predicate[0])) return carried;
    std::vector<Datum> next = run_subgraph(body, operands());
    if (next.size() != carried.size())
      fail_user("K0603", "while_loop: the body must give as many values as are carried", node.where());
    carried = std::move(next);
  }
}

std::vector<Datum> GraphRun::run_map(const Node& node) {
  const Graph& body = graph_argument(node, 0);
  std::vector<Datum> xs = list_argument(node, 1), additional = list_argument(node, 2);
  int64_t length = common_length(node, xs);
  Stacker stacker(node, length);
  for (int64_t i = 0; i < length; ++i) {
    std::vector<Datum> operands;
    for (const Datum& x : xs) operands.push_back(slice_of(node, x, i));
    operands.insert(operands.end(), additional.begin(), additional.end());
    stacker.add(i, run_subgraph(body, operands), 0);
  }
  return length == 0 ? empty_results(node, 0) : stacker.results();
}

// What no iteration gives: tensors of the sizes that the graph says, the first of which is 0.
std::vector<Datum> GraphRun::empty_results(const Node& node, size_t first) {
  std::vector<Datum> out;
  for (size_t i = first; i < node.results.size(); ++i) {
    const TensorType& type = node.results[i]->type;
    std::vector<int64_t> sizes;
    for (const Expr& size : type.sizes) sizes.push_back(evaluate(size, symbols_));
    out.push_back(Datum{Tensor::empty(options_.fp64 ? wide_dtype(type.dtype) : type.dtype, sizes)});
  }
  return out;
}

std::vector<Datum> GraphRun::run_scan(const Node& node) {
  const Graph& body = graph_argument(node, 0);
  std::vector<Datum> carried = list_argument(node, 1), xs = list_argument(node, 2), additional = list_argument(node, 3);
  int64_t length = common_length(node, xs);
  Stacker stacker(node, length);
  for (int64_t i = 0; i < length; ++i) {
    std::vector<Datum> operands = carried;
    for (const Datum& x : xs) operands.push_back(slice_of(node, x, i));
    operands.insert(operands.end(), additional.begin(), additional.end());
    std::vector<Datum> results = run_subgraph(body, operands);
    if (results.size() < carried.size())
      fail_user("K0603", "scan: the body must give at least what is carried", node.where());
    stacker.add(i, results, carried.size());
    std::copy_n(results.begin(), carried.size(), carried.begin());
  }
  for (Datum& result : length == 0 ? empty_results(node, carried.size()) : stacker.results())
    carried.push_back(std::move(result));
  return carried;
}

// y[0] = x[0], y[i] = combine(y[i - 1], x[i]): the order that an associative function leaves open.
std::vector<Datum> GraphRun::run_associative_scan(const Node& node) {
  const Graph& combine = graph_argument(node, 0);
  std::vector<Datum> xs = list_argument(node, 1), additional = list_argument(node, 2), last;
  int64_t length = common_length(node, xs);
  if (length == 0) return empty_results(node, 0);
  Stacker stacker(node, length);
  for (int64_t i = 0; i < length; ++i) {
    std::vector<Datum> slices;
    for (const Datum& x : xs) slices.push_back(slice_of(node, x, i));
    if (i > 0) {
      std::vector<Datum> operands = last;
      operands.insert(operands.end(), slices.begin(), slices.end());
      operands.insert(operands.end(), additional.begin(), additional.end());
      slices = run_subgraph(combine, operands);
      if (slices.size() != xs.size())
        fail_user("K0603", "associative_scan: the function must give as many values as are scanned", node.where());
    }
    stacker.add(i, slices, 0);
    last = std::move(slices);
  }
  return stacker.results();
}

}  // namespace kiln
