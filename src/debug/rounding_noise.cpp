#include "minify/rounding_noise.h"

#include <random>

namespace kiln::minify {
namespace {

using Random = std::mt19937_64;

bool rounds(DType dtype) { return dtype_epsilon(dtype) > 0 && dtype != DType::f64 && dtype != DType::c128; }

// In place; the tensor holds values of `dtype` in a type that is at least as wide.
void disturb(Tensor tensor, DType dtype, Random& random) {
  std::uniform_real_distribution<double> unit(-1, 1);
  const double epsilon = dtype_epsilon(dtype);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const double factor = 1 + epsilon * unit(random);
    const Scalar item = tensor.item(i);
    tensor.set_item(i,
                    is_complex(tensor.dtype) ? Scalar(item.as_complex() * factor) : Scalar(item.as_double() * factor));
  }
}

// The reference widens what is narrower than f64 into memory of its own, so that nothing of the program is written
// here.
void disturb(const Value& value, const Datum& datum, Random& random) {
  if (datum.is_list()) {
    for (size_t i = 0; i < datum.list().size() && i < value.items.size(); ++i)
      if (value.items[i]) disturb(*value.items[i], datum.list()[i], random);
  } else if (datum.is_tensor() && value.kind == ValueKind::tensor && rounds(value.type.dtype) &&
             datum.tensor().dtype != value.type.dtype) {
    disturb(datum.tensor(), value.type.dtype, random);
  }
}

}  // namespace

CallResult rounded_result(const Program& program, const std::vector<std::string>& custom_op_libs, int sample) {
  Random random(static_cast<uint64_t>(sample) + 1);
  ExecutableOptions options;
  options.backend = Backend::interpret;
  options.fp64 = true;
  options.custom_op_libs = custom_op_libs;
  // Inputs and constants, as the graph sees them.
  options.before_graph = [&](const Graph& graph, const std::vector<Datum>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) disturb(*graph.inputs[i], inputs[i], random);
  };
  options.after_node = [&](const Node& node, const std::vector<Datum>& results) {
    for (size_t i = 0; i < results.size() && i < node.results.size(); ++i)
      disturb(*node.results[i], results[i], random);
  };
  return make_executable(program, options)->call(program.sample_inputs);
}

}  // namespace kiln::minify
