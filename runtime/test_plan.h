// Plans built by hand for tests, with kernels that are plain functions of the test program.
#pragma once
#include <gtest/gtest.h>

#include <map>

#include "base/text.h"
#include "package/plan_io.h"
#include "runtime/element.h"
#include "runtime/model.h"

namespace kiln::runtime {

class FakeCode : public CodeModule {
 public:
  std::map<std::string, kiln_kernel> kernels;
  void* symbol(const std::string& name) const override {
    auto found = kernels.find(name);
    return found == kernels.end() ? nullptr : reinterpret_cast<void*>(found->second);
  }
};

struct TestPlan {
  format::Plan plan;
  format::Origins origins;
  std::unique_ptr<FakeCode> code = std::make_unique<FakeCode>();
  std::vector<ConstantData> constants;
  CustomOps custom;
  ModelOptions options;
  std::shared_ptr<const Device> device = cpu_device();
  int next_number = 0;

  TestPlan() { plan.model_name = "test", plan.kernel_abi = KILN_KERNEL_ABI_VERSION, options.threads = 1; }

  using Code = format::ExprCode;
  int32_t expr(std::vector<format::ExprInstruction> instructions, std::string text = "", bool is_float = false) {
    plan.exprs.push_back({std::move(instructions), is_float, std::move(text)});
    return static_cast<int32_t>(plan.exprs.size() - 1);
  }
  int32_t number(int64_t value) { return expr({{Code::constant, value}}, std::to_string(value)); }
  int32_t symbol_expr(int32_t slot) {
    return expr({{Code::symbol, slot}}, plan.symbols[static_cast<size_t>(slot)].name);
  }
  int32_t symbol(std::string name, format::SymbolSource source, int32_t input = -1, int32_t dim = -1, int64_t low = 0,
                 int64_t high = 1 << 20) {
    format::Symbol s;
    s.name = std::move(name), s.source = source, s.input = input, s.dim = dim, s.low = low, s.high = high;
    plan.symbols.push_back(s);
    return static_cast<int32_t>(plan.symbols.size() - 1);
  }
  int32_t product(std::vector<int32_t> exprs) {
    std::vector<format::ExprInstruction> instructions{{Code::constant, 1}};
    std::string text;
    for (int32_t e : exprs) {
      const auto& part = plan.exprs[static_cast<size_t>(e)];
      instructions.insert(instructions.end(), part.code.begin(), part.code.end());
      instructions.push_back({Code::mul, 0});
      text += (text.empty() ? "" : "*") + part.text;
    }
    return expr(std::move(instructions), text);
  }
  // Row-major; sizes are expressions.
  int32_t buffer(std::string name, DType dtype, format::BufferRole role, std::vector<int32_t> sizes,
                 int32_t position = -1) {
    format::Buffer b;
    b.name = std::move(name), b.dtype = dtype, b.role = role, b.position = position, b.sizes = sizes;
    b.alignment = 4;
    for (size_t i = 0; i < sizes.size(); ++i)
      b.strides.push_back(product(std::vector<int32_t>(sizes.begin() + static_cast<long>(i) + 1, sizes.end())));
    sizes.push_back(number(dtype_bytes(dtype)));
    b.bytes = product(sizes);
    plan.buffers.push_back(b);
    return static_cast<int32_t>(plan.buffers.size() - 1);
  }
  int32_t input(std::string name, DType dtype, std::vector<int32_t> sizes, bool mutated = false) {
    auto position = static_cast<int32_t>(plan.inputs.size());
    format::Input in;
    in.name = name, in.mutated = mutated;
    in.buffer = buffer(std::move(name), dtype, format::BufferRole::input, std::move(sizes), position);
    plan.inputs.push_back(in);
    return in.buffer;
  }
  int32_t output(std::string name, DType dtype, std::vector<int32_t> sizes) {
    auto position = static_cast<int32_t>(plan.outputs.size());
    format::Output out;
    out.name = name;
    out.buffer = buffer(std::move(name), dtype, format::BufferRole::output, std::move(sizes), position);
    plan.outputs.push_back(out);
    return out.buffer;
  }
  int32_t temp(std::string name, DType dtype, std::vector<int32_t> sizes) {
    return buffer(std::move(name), dtype, format::BufferRole::temp, std::move(sizes));
  }
  template <class T>
  int32_t constant(std::string name, DType dtype, std::vector<T> values, bool mutated = false) {
    auto position = static_cast<int32_t>(plan.constants.size());
    format::Constant c;
    c.name = name, c.mutated = mutated, c.bytes = static_cast<int64_t>(values.size() * sizeof(T));
    plan.constants.push_back(c);
    auto keep = std::make_shared<std::vector<T>>(values);
    constants.push_back({reinterpret_cast<std::byte*>(keep->data()), keep});
    return buffer(std::move(name), dtype, format::BufferRole::constant, {number(static_cast<int64_t>(values.size()))},
                  position);
  }
  format::Step kernel(std::string name, kiln_kernel function, std::vector<format::KernelArg> args, int32_t items,
                      std::vector<int32_t> ints = {}, int64_t grain = 1 << 30) {
    format::Step s;
    s.kind = format::StepKind::kernel, s.name = name, s.number = next_number++, s.args = std::move(args);
    s.items = items, s.ints = std::move(ints), s.grain = number(grain);
    s.kernel = static_cast<int32_t>(plan.kernels.size());
    plan.kernels.push_back({name});
    code->kernels[name] = function;
    return s;
  }
  format::Step step(format::StepKind kind, std::string name) {
    format::Step s;
    s.kind = kind, s.name = std::move(name), s.number = next_number++;
    return s;
  }
  // The plan goes through its bytes, so that every test also tests them.
  std::shared_ptr<Model> build() {
    ModelParts parts;
    std::string bytes = format::write_plan(plan);
    parts.plan = format::read_plan(as_bytes(bytes));
    parts.origins = origins;
    parts.code = std::move(code);
    parts.device = device;
    parts.custom_ops = custom;
    parts.constants = constants;
    return std::make_shared<Model>(std::move(parts), options);
  }
};

// A tensor over a vector, as the C interface takes it.
template <class T>
struct TestTensor {
  std::vector<T> values;
  std::vector<int64_t> sizes, strides;
  DLTensor tensor{};
  TestTensor(DType dtype, std::vector<int64_t> s, std::vector<T> v, std::vector<int64_t> st = {});
  kiln_value value() {
    kiln_value out{};
    out.kind = KILN_TENSOR, out.as.tensor = &tensor;
    return out;
  }
};

inline DLDataType test_dtype(DType dtype) { return dl_dtype(dtype); }

template <class T>
TestTensor<T>::TestTensor(DType dtype, std::vector<int64_t> s, std::vector<T> v, std::vector<int64_t> st)
    : values(std::move(v)), sizes(std::move(s)), strides(std::move(st)) {
  tensor.data = values.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int32_t>(sizes.size());
  tensor.dtype = test_dtype(dtype);
  tensor.shape = sizes.data();
  tensor.strides = strides.empty() ? nullptr : strides.data();
}

inline kiln_value int_value(int64_t v) {
  kiln_value out{};
  out.kind = KILN_INT, out.as.integer = v;
  return out;
}

// Elements of an output that Kiln allocated, in memory order.
template <class T>
std::vector<T> elements(const kiln_value& value) {
  const DLTensor& t = *value.as.tensor;
  int64_t n = 1;
  for (int32_t d = 0; d < t.ndim; ++d) n *= t.shape[d];
  const T* data = static_cast<const T*>(t.data);
  return {data, data + n};
}

inline void free_outputs(std::vector<kiln_value>& outputs) {
  for (kiln_value& value : outputs)
    if (value.owner) value.owner->deleter(value.owner);
}

// The message of the Error that f throws; "" when it throws none.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace kiln::runtime
