#include "check/rounding_noise.h"

#include <cmath>

#include "graph/walk.h"
#include "interp/tensor_sharing.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

// Half of those that the type has: what is computed has as few by chance only.
bool has_few_digits(double value, double epsilon) {
  if (value == 0 || !std::isfinite(value)) return true;
  int exponent = 0;
  const double scaled = std::ldexp(std::frexp(value, &exponent), static_cast<int>(std::round(-std::log2(epsilon) / 2)));
  return scaled == std::trunc(scaled);
}
bool has_few_digits(std::complex<double> value, double epsilon) {
  return has_few_digits(value.real(), epsilon) && has_few_digits(value.imag(), epsilon);
}

}  // namespace

void RoundingNoise::disturb(Tensor tensor, DType dtype) {
  const double epsilon = dtype_epsilon(dtype);
  std::uniform_real_distribution<double> off(-epsilon, epsilon);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const Scalar item = tensor.item(i);
    if (has_few_digits(item.as_complex(), epsilon)) continue;
    // Both parts of a complex number are off by as much: they are sums of one another's products.
    tensor.set_item(i, is_complex(tensor.dtype)
                           ? Scalar(item.as_complex() * (1.0 + std::complex<double>(off(random_), off(random_))))
                           : Scalar(item.as_double() * (1 + off(random_))));
  }
}

void RoundingNoise::disturb_matrix(Tensor tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i)
    if (const double size = std::abs(tensor.item(i).as_complex()); std::isfinite(size))
      largest = std::max(largest, size);
  const double most = dtype_epsilon(tensor.dtype) * largest;
  std::uniform_real_distribution<double> off(-most, most);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const Scalar item = tensor.item(i);
    tensor.set_item(i, is_complex(tensor.dtype)
                           ? Scalar(item.as_complex() + std::complex<double>(off(random_), off(random_)))
                           : Scalar(item.as_double() + off(random_)));
  }
}

void RoundingNoise::disturb_like(Tensor tensor, const Tensor& truth, const Tensor& nominal) {
  // The reference may have been lucky, and another order of the sums is further off; but not by steps of what is
  // rounded to whole ones.
  constexpr double times = 8, most_epsilons = 16;
  if (is_complex(tensor.dtype) || !is_float(tensor.dtype) || nominal.sizes != tensor.sizes ||
      truth.sizes != tensor.sizes)
    return;
  // Sums are off by as much everywhere, and relatively the more the smaller they are; exponentials are off relatively.
  double loss = 0, relative_loss = 0, largest = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const double wide = truth.item(i).as_double(), narrow = nominal.item(i).as_double();
    if (!std::isfinite(wide) || !std::isfinite(narrow)) continue;
    const double off = std::abs(wide - narrow), size = std::abs(wide);
    loss = std::max(loss, off), largest = std::max(largest, size);
    if (off > 0) relative_loss = std::max(relative_loss, size > 0 ? off / size : HUGE_VAL);
  }
  const double most = std::min(times * loss, most_epsilons * dtype_epsilon(nominal.dtype) * largest);
  if (most == 0) return;
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const double part = unit(random_), wide = truth.item(i).as_double();
    if (wide == nominal.item(i).as_double()) continue;
    const double own = wide == 0 ? most : std::min(most, times * relative_loss * std::abs(wide));
    tensor.set_item(i, Scalar(tensor.item(i).as_double() + part * own));
  }
}

void RoundingNoise::disturb(const Value& value, const Datum& datum) {
  if (datum.is_list()) {
    for (size_t i = 0; i < datum.list().size() && i < value.items.size(); ++i)
      if (value.items[i]) disturb(*value.items[i], datum.list()[i]);
    return;
  }
  if (!datum.is_tensor() || value.kind != ValueKind::tensor) return;
  const DType dtype = value.type.dtype;
  const bool rounds = dtype_epsilon(dtype) > 0 && dtype != DType::f64 && dtype != DType::c128;
  if (rounds && datum.tensor().dtype != dtype) disturb(datum.tensor(), dtype);
}

NearMatrices::NearMatrices(const Graph& graph) {
  for_each_node(graph, [&](const Node& node) {
    if (!node.op || !node.op->facts.of_near_matrix) return;
    for (const Node::NamedArgument& argument : node.args)
      for_each_value(argument.arg, [&](const Value* value) { matrices_.insert(value); });
  });
}

void NearMatrices::disturb_inputs(const std::vector<Value*>& values, std::vector<Datum>& inputs) {
  for (size_t i = 0; i < inputs.size() && i < values.size(); ++i) {
    if (!matrices_.contains(values[i]) || !inputs[i].is_tensor()) continue;
    inputs[i] = Datum{own_copy(inputs[i].tensor())};
    noise_.disturb_matrix(inputs[i].tensor());
  }
}

void NearMatrices::disturb_results(const Node& node, const std::vector<Datum>& results) {
  for (size_t i = 0; i < results.size() && i < node.results.size(); ++i)
    if (matrices_.contains(node.results[i]) && results[i].is_tensor()) noise_.disturb_matrix(results[i].tensor());
}

std::unique_ptr<Executable> rounded_executable(const Program& program, const std::vector<std::string>& custom_op_libs,
                                               int sample) {
  const auto noise = std::make_shared<RoundingNoise>(sample);
  ExecutableOptions options;
  options.backend = Backend::interpret;
  options.fp64 = true;
  options.custom_op_libs = custom_op_libs;
  // Inputs and constants, as the graph sees them.
  options.before_graph = [noise](const Graph& graph, const std::vector<Datum>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) noise->disturb(*graph.inputs[i], inputs[i]);
  };
  options.after_node = [noise](const Node& node, const std::vector<Datum>& results) {
    for (size_t i = 0; i < results.size() && i < node.results.size(); ++i) noise->disturb(*node.results[i], results[i]);
  };
  return make_executable(program, options);
}

CallResult rounded_result(const Program& program, const std::vector<std::string>& custom_op_libs, int sample) {
  return rounded_executable(program, custom_op_libs, sample)->call(program.sample_inputs);
}

}  // namespace kiln
