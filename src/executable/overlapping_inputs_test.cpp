// Programs exported with an input whose elements share memory (expand): what callers give need not. tests/cases has the
// ones that PyTorch ran (expanded_*, sliding_windows); here are those that are refused, and what says so.
#include <gtest/gtest.h>

#include "executable/executable.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

const std::vector<Backend> every = {Backend::interpret, Backend::loops, Backend::compiled};

class Builder {
 public:
  Program program;

  Value* input(const std::string& name, std::vector<Expr> strides, bool buffer = false) {
    Value* value = program.graph.add_input(name, ValueKind::tensor);
    value->type = contiguous_type(DType::f32, {3, 4});
    value->type.strides = std::move(strides);
    InputSpec spec;
    if (buffer) {
      spec.kind = InputKind::buffer, spec.target = name;
      Tensor& tensor = program.constants[name] = Tensor::empty(DType::f32, {12});
      tensor.sizes = {3, 4};
      for (const Expr& stride : value->type.strides) strides_.push_back(stride.value());
      tensor.strides = strides_;
    }
    program.input_specs.push_back(spec);
    return value;
  }
  Value* call(const std::string& target, std::vector<Node::NamedArgument> args) {
    Node* node = program.graph.add_node(target, program.graph.unique_name(op_short_name(target)));
    node->args = std::move(args);
    node->op = Registry::instance().find(target);
    EXPECT_NE(node->op, nullptr) << target;
    infer_types(*node, program.graph, {});
    return node->results.at(0);
  }
  Program returning(const std::vector<Value*>& values) {
    for (Value* value : values) program.graph.outputs.push_back(Argument(value));
    program.output_specs.resize(values.size());
    return std::move(program);
  }

 private:
  std::vector<int64_t> strides_;
};

Argument numbers(const std::vector<int64_t>& values) {
  Argument::List list;
  for (int64_t value : values) list.push_back(Argument(Scalar(value)));
  return Argument(std::move(list));
}

Tensor counted(std::vector<int64_t> strides, int64_t elements) {
  Tensor storage = Tensor::empty(DType::f32, {elements});
  for (int64_t i = 0; i < elements; ++i) storage.set_item(i, Scalar(static_cast<double>(i + 1)));
  storage.sizes = {3, 4};
  storage.strides = std::move(strides);
  return storage;
}
Tensor contiguous() { return counted({4, 1}, 12); }
Tensor expanded() { return counted({0, 1}, 4); }

std::vector<double> values_of(const Datum& datum) {
  std::vector<double> out;
  for (int64_t i = 0; i < datum.tensor().numel(); ++i) out.push_back(datum.tensor().item(i).as_double());
  return out;
}

// "K0620" of the error that making or calling it throws; "" when it throws none.
std::string refusal(const Program& program, Backend backend, const Tensor& x, CallResult* result = nullptr) {
  try {
    ExecutableOptions options;
    options.backend = backend;
    CallResult got = make_executable(program, options)->call({Datum{x}});
    if (result) *result = std::move(got);
  } catch (const Error& error) {
    return error.code();
  }
  return "";
}

TEST(OverlappingInputs, EveryRowOfTheCallersTensorCounts) {
  Builder b;
  Value* x = b.input("x", {0, 1});
  const Program program = b.returning({b.call("aten.mul.Tensor", {{"self", x}, {"other", Scalar(2)}}), x});
  for (Backend backend : every) {
    CallResult result;
    ASSERT_EQ(refusal(program, backend, contiguous(), &result), "") << backend_name(backend);
    EXPECT_EQ(values_of(result.outputs[0]), (std::vector<double>{2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24}));
    EXPECT_EQ(values_of(result.outputs[1]), values_of(Datum{contiguous()}));
    EXPECT_EQ(result.outputs[1].tensor().strides, (std::vector<int64_t>{4, 1}));
    ASSERT_EQ(refusal(program, backend, expanded(), &result), "") << backend_name(backend);
    EXPECT_EQ(values_of(result.outputs[0]), (std::vector<double>{2, 4, 6, 8, 2, 4, 6, 8, 2, 4, 6, 8}));
  }
}

// An example that is one column in a thousand million: no caller's data are copied into as much memory.
TEST(OverlappingInputs, OneThatIsNearlyAllGapsIsLaidOutDensely) {
  Builder b;
  Value* x = b.input("x", {int64_t{1} << 40, 1});
  const Program program = b.returning({b.call("aten.mul.Tensor", {{"self", x}, {"other", Scalar(2)}})});
  for (Backend backend : every) {
    CallResult result;
    ASSERT_EQ(refusal(program, backend, contiguous(), &result), "") << backend_name(backend);
    EXPECT_EQ(values_of(result.outputs[0]), (std::vector<double>{2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24}));
  }
}

// Eager's follow the tensor that it is given.
TEST(OverlappingInputs, OutputsHaveTheStridesOfTheExport) {
  Builder b;
  Value* x = b.input("x", {1, 3});
  Value* turned = b.call("aten.transpose.int", {{"self", x}, {"dim0", Scalar(0)}, {"dim1", Scalar(1)}});
  const Program program = b.returning({x, b.call("aten.add.Tensor", {{"self", x}, {"other", Scalar(1)}}), turned});
  for (Backend backend : every)
    for (const Tensor& given : {contiguous(), counted({1, 3}, 12), expanded(), counted({8, 2}, 24)}) {
      CallResult result;
      ASSERT_EQ(refusal(program, backend, given, &result), "") << backend_name(backend);
      EXPECT_EQ(values_of(result.outputs[0]), values_of(Datum{given}));
      EXPECT_EQ(result.outputs[0].tensor().strides, (std::vector<int64_t>{1, 3})) << backend_name(backend);
      EXPECT_EQ(result.outputs[1].tensor().strides, (std::vector<int64_t>{1, 3})) << backend_name(backend);
      EXPECT_EQ(result.outputs[2].tensor().strides, (std::vector<int64_t>{3, 1})) << backend_name(backend);
    }
}

// x[0].add_(1): a caller's own rows are written one by one; of an expanded tensor eager changes all rows at once, which
// a functional program cannot say.
TEST(OverlappingInputs, AWrittenOneMustNotOverlapWhenItIsGiven) {
  Builder b;
  Value* x = b.input("x", {0, 1});
  Value* row = b.call("aten.select.int", {{"self", x}, {"dim", Scalar(0)}, {"index", Scalar(0)}});
  b.call("aten.add_.Tensor", {{"self", row}, {"other", Scalar(1)}});
  const Program program = b.returning({b.call("aten.mul.Tensor", {{"self", x}, {"other", Scalar(1)}})});
  const std::vector<double> first_row_more = {2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 11, 12};
  for (Backend backend : every) {
    CallResult result;
    ASSERT_EQ(refusal(program, backend, contiguous(), &result), "") << backend_name(backend);
    EXPECT_EQ(values_of(result.outputs[0]), first_row_more);
    EXPECT_EQ(values_of(result.inputs[0]), first_row_more);
  }
  EXPECT_EQ(refusal(program, Backend::loops, expanded()), "K0620");
  EXPECT_EQ(refusal(program, Backend::compiled, expanded()), "K0620");
  CallResult result;
  ASSERT_EQ(refusal(program, Backend::interpret, expanded(), &result), "");
  EXPECT_EQ(values_of(result.outputs[0]), (std::vector<double>{2, 3, 4, 5, 2, 3, 4, 5, 2, 3, 4, 5}));
}

TEST(OverlappingInputs, AWriteToAllOfItIsRefusedAsEagerRefusesIt) {
  Builder b;
  Value* x = b.input("x", {4, 1});
  const Program program = b.returning({b.call("aten.add_.Tensor", {{"self", x}, {"other", Scalar(1)}})});
  EXPECT_EQ(refusal(program, Backend::interpret, expanded()), "K0683");
  EXPECT_EQ(refusal(program, Backend::loops, expanded()), "K0620");
  EXPECT_EQ(refusal(program, Backend::loops, counted({1, 1}, 6)), "K0620");
  EXPECT_EQ(refusal(program, Backend::loops, contiguous()), "");
}

// Eager sees the write through both; code that was compiled for two tensors does not.
TEST(OverlappingInputs, TwoThatShareMemoryAreNotWritten) {
  Builder b;
  Value* x = b.input("x", {4, 1});
  Value* y = b.input("y", {4, 1});
  b.call("aten.add_.Tensor", {{"self", x}, {"other", Scalar(1)}});
  const Program program = b.returning({b.call("aten.mul.Tensor", {{"self", y}, {"other", Scalar(1)}})});
  auto code = [&](Backend backend, const Tensor& first, const Tensor& second) {
    try {
      ExecutableOptions options;
      options.backend = backend;
      make_executable(program, options)->call({Datum{first}, Datum{second}});
    } catch (const Error& error) {
      return error.code();
    }
    return std::string();
  };
  const Tensor all = counted({4, 1}, 24);
  Tensor apart = all, last_row = all;
  apart.offset = 12, last_row.offset = 8;
  for (Backend backend : {Backend::loops, Backend::compiled}) {
    EXPECT_EQ(code(backend, all, all), "K0620") << backend_name(backend);
    EXPECT_EQ(code(backend, all, last_row), "K0620") << backend_name(backend);
    EXPECT_EQ(code(backend, last_row, all), "K0620") << backend_name(backend);
    EXPECT_EQ(code(backend, all, apart), "") << backend_name(backend);
    EXPECT_EQ(code(backend, contiguous(), contiguous()), "") << backend_name(backend);
  }
  EXPECT_EQ(code(Backend::interpret, all, all), "");
}

// What as_strided shows depends on the storage, which a caller's tensor need not have.
TEST(OverlappingInputs, AsStridedOfOneIsRefused) {
  Builder b;
  Value* x = b.input("x", {0, 1});
  const Program program =
      b.returning({b.call("aten.as_strided.default", {{"self", x}, {"size", numbers({4})}, {"stride", numbers({1})}})});
  EXPECT_EQ(refusal(program, Backend::loops, contiguous()), "K0209");
}

// reshape copies the expanded example and views a contiguous tensor: whether x is written is open.
TEST(OverlappingInputs, AWriteThroughWhatMayBeACopyIsRefused) {
  Builder b;
  Value* x = b.input("x", {0, 1});
  Value* flat = b.call("aten.reshape.default", {{"self", x}, {"shape", numbers({12})}});
  Value* flat_only = b.call("aten.mul.Tensor", {{"self", flat}, {"other", Scalar(1)}});
  b.call("aten.add_.Tensor", {{"self", flat}, {"other", Scalar(1)}});
  EXPECT_EQ(refusal(b.returning({flat_only}), Backend::loops, contiguous()), "K0230");
}

TEST(OverlappingInputs, BuffersThatOverlapAreReadAndNotWritten) {
  for (bool written : {false, true}) {
    Builder b;
    Value* buffer = b.input("table", {0, 1}, true);
    Value* x = b.input("x", {4, 1});
    Value* row = b.call("aten.select.int", {{"self", buffer}, {"dim", Scalar(0)}, {"index", Scalar(0)}});
    if (written) b.call("aten.add_.Tensor", {{"self", row}, {"other", Scalar(1)}});
    const Program program = b.returning({b.call("aten.add.Tensor", {{"self", x}, {"other", buffer}})});
    EXPECT_EQ(refusal(program, Backend::loops, contiguous()), written ? "K0683" : "");
  }
}

// Windows over memory of the program's own: each place would be written three times, in an order of its own.
TEST(OverlappingInputs, WritesThroughWindowsAreRefusedUnlessTheyAreAllTheSame) {
  for (const bool fill : {false, true}) {
    Builder b;
    Value* x = b.input("x", {4, 1});
    Value* own = b.call("aten.mul.Tensor", {{"self", x}, {"other", Scalar(1)}});
    Value* windows = b.call("aten.unfold.default",
                            {{"self", own}, {"dimension", Scalar(1)}, {"size", Scalar(3)}, {"step", Scalar(1)}});
    fill ? b.call("aten.zero_.default", {{"self", windows}})
         : b.call("aten.add_.Tensor", {{"self", windows}, {"other", Scalar(1)}});
    const Program program = b.returning({b.call("aten.add.Tensor", {{"self", own}, {"other", Scalar(1)}})});
    EXPECT_EQ(refusal(program, Backend::interpret, contiguous()), fill ? "" : "K0683");
    CallResult result;
    EXPECT_EQ(refusal(program, Backend::loops, contiguous(), &result), fill ? "" : "K0230");
    if (!fill) continue;
    EXPECT_EQ(values_of(result.outputs[0]), std::vector<double>(12, 1));
  }
}

}  // namespace
}  // namespace kiln
