#include "loops/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>

#include "loops/builder.h"
#include "loops/sample_text.h"

namespace kiln::loops {
namespace {

Tensor tensor(DType dtype, std::vector<int64_t> sizes, const std::vector<double>& values) {
  Tensor t = Tensor::empty(dtype, std::move(sizes));
  for (size_t i = 0; i < values.size(); ++i) t.set_item(static_cast<int64_t>(i), Scalar(values[i]));
  return t;
}

std::vector<double> values(const Datum& d) {
  std::vector<double> out;
  for (int64_t i = 0; i < d.tensor().numel(); ++i) out.push_back(d.tensor().item(i).as_double());
  return out;
}

// ---- The sample
// ------------------------------------------------------------------------------------------------------

std::map<std::string, Tensor> sample_constants() {
  return {{"embedding.weight", tensor(DType::bf16, {5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})},
          {"counter", tensor(DType::i64, {}, {0})}};
}
LoopRunOptions sample_options() {
  LoopRunOptions options;
  options.call = [](const Call& call, CallFrame& frame) {
    EXPECT_EQ(call.target, "aten.nonzero.default");
    auto args = frame.arguments();
    EXPECT_EQ(args["k"].scalar().as_int(), 4);
    EXPECT_EQ(args["others"].list().size(), 2u);
    const Tensor& x = args["self"].tensor();
    std::vector<double> found;
    for (int64_t i = 0; i < x.numel(); ++i)
      if (x.item(i).as_double() != 0) found.insert(found.end(), {double(i / 4), double(i % 4)});
    frame.set_result(0, tensor(DType::i64, {static_cast<int64_t>(found.size()) / 2, 2}, found));
  };
  return options;
}
std::vector<Datum> sample_inputs() {
  Datum k{std::vector<Datum>{}};
  return {{tensor(DType::f32, {2, 4}, {1, 2, 3, 4, 0, 9, 0, 9})},
          {tensor(DType::i64, {3}, {0, -1, 2})},
          {Scalar(3)},
          {std::string("fast")},
          k};
}

TEST(LoopInterpreter, RunsTheSample) {
  LoopProgram program = parse_loops(sample_text);
  LoopInterpreter interpreter(program, sample_constants(), sample_options());
  LoopRun run = interpreter.run(sample_inputs());
  ASSERT_EQ(run.outputs.size(), 12u);
  const Tensor& y = run.outputs[0].tensor();
  EXPECT_EQ(y.strides, (std::vector<int64_t>{1, 2}));
  double total = std::exp(-3) + std::exp(-2) + std::exp(-1) + 1;
  EXPECT_NEAR(y.at({0, 0}).as_double(), std::exp(-3) / total, 1e-7);
  EXPECT_NEAR(y.at({0, 3}).as_double(), 1 / total, 1e-7);
  EXPECT_EQ(values(run.outputs[1]), (std::vector<double>{5}));
  EXPECT_EQ(values(run.outputs[2]), (std::vector<double>{0, 2, 16, 18, 8, 10}));
  EXPECT_EQ(run.outputs[2].tensor().offset, 4);
  EXPECT_EQ(values(run.outputs[3]), (std::vector<double>{1, 1}));
  EXPECT_EQ(run.outputs[4].tensor().sizes, (std::vector<int64_t>{6, 2}));
  EXPECT_EQ(values(run.outputs[4])[9], 1);
  for (double v : values(run.outputs[5])) EXPECT_TRUE(v >= 0 && v < 1);
  EXPECT_EQ(values(run.outputs[6]), (std::vector<double>{2.5, 5, 4}));
  EXPECT_EQ(values(run.outputs[7]), (std::vector<double>{0x3f800000, 5 + 0 + 10 + 20}));
  EXPECT_EQ(run.outputs[8].scalar().as_int(), 2 * 2 + 6);
  EXPECT_EQ(run.outputs[9].scalar().as_double(), 1.0);
  EXPECT_TRUE(run.outputs[10].is_none());
  EXPECT_EQ(run.outputs[11].scalar().as_double(), 1.5);
  EXPECT_EQ(run.state.at("counter").item().as_int(), 1);
  // The counter is kept: the second call takes the other branch.
  LoopRun second = interpreter.run(sample_inputs());
  EXPECT_EQ(second.state.at("counter").item().as_int(), 2);
  EXPECT_EQ(values(second.outputs[7])[1], 5 + 100 + 30);
  EXPECT_EQ(run.state.at("counter").item().as_int(), 1);
}

TEST(LoopInterpreter, ParsedTextRunsAlike) {
  LoopProgram program = parse_loops(sample_text);
  LoopProgram again = parse_loops(print(program));
  LoopInterpreter a(program, sample_constants(), sample_options()), b(again, sample_constants(), sample_options());
  LoopRun x = a.run(sample_inputs()), y = b.run(sample_inputs());
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(values(x.outputs[i]), values(y.outputs[i])) << i;
}

// ---- Errors
// ------------------------------------------------------------------------------------------------------------

std::string run_error(const std::string& from, const std::string& to, std::vector<Datum> inputs = sample_inputs()) {
  std::string text = from.empty() ? sample_text : replace_all(sample_text, from, to);
  LoopProgram program = parse_loops(text);
  try {
    LoopInterpreter(program, sample_constants(), sample_options()).run(inputs);
  } catch (const Error& e) {
    return e.code() + " " + e.message();
  }
  return "";
}

TEST(LoopInterpreter, ChecksEveryAccess) {
  EXPECT_EQ(run_error("%6 = load.f32 x[i0, i1]", "%6 = load.f32 x[i0, i1 + 1]"),
            "K0330 kernel cpp_fused_softmax_0 loads x[i0 = 0, i1 + 1 = 4] outside of its sizes [2, 4] (dimension 1), "
            "at i0 = 0, i1 = 3");
  EXPECT_EQ(run_error("store stats[0] = %1", "store stats[-1] = %1"),
            "K0330 kernel numbers stores stats[-1] outside of its sizes [3] (dimension 0), outside of loops");
}

TEST(LoopInterpreter, RaisesWithTheSite) {
  auto inputs = sample_inputs();
  inputs[1] = {tensor(DType::i64, {3}, {0, 5, 2})};
  EXPECT_EQ(run_error("", "", inputs), "K0630 index out of range in aten.embedding: 5 is not in [-5, 5)");
  EXPECT_EQ(run_error("assert [u0 <= 64]", "assert [u0 <= 5]"), "K0631 too many (u0 <= 5)");
}

TEST(LoopInterpreter, ChecksInputs) {
  auto with = [](size_t i, Datum d) {
    auto inputs = sample_inputs();
    inputs[i] = std::move(d);
    return run_error("", "", inputs);
  };
  EXPECT_EQ(with(0, {tensor(DType::f64, {2, 4}, {})}),
            "K0614 Error: input_handles[0]: unmatched dtype, expected: 6(float32), but got: 7(float64) (input 'x')");
  EXPECT_EQ(with(0, {tensor(DType::f32, {2, 5}, {})}),
            "K0616 Error: input_handles[0]: unmatched dim value at 1, expected: 4, but got: 5 (input 'x')");
  EXPECT_EQ(with(0, {tensor(DType::f32, {0, 4}, {})}),
            "K0617 Error: input_handles[0]: dim value is too small at 0, expected it to be >= 1, but got: 0 (s0) "
            "(input 'x')");
  EXPECT_EQ(with(0, {tensor(DType::f32, {2}, {})}),
            "K0615 Error: input_handles[0]: unmatched number of dimensions, expected: 2, but got: 1 (input 'x')");
  EXPECT_EQ(with(0, {tensor(DType::f32, {600, 4}, {})}).substr(0, 5), "K0619");
  EXPECT_EQ(with(3, {std::string("slow")}),
            "K0612 Error: input_handles[3]: unmatched value, expected: \"fast\", but got: \"slow\" (input 'mode')");
  EXPECT_EQ(with(2, {}).substr(0, 5), "K0611");
  auto few = sample_inputs();
  few.pop_back();
  EXPECT_EQ(run_error("", "", few), "K0610 Error: expected 5 inputs (x, idx, n, mode, k), but got 4");
}

// ---- Built programs
// ------------------------------------------------------------------------------------------------------

struct Built {
  LoopProgram program;
  BufferId in = no_buffer, out = no_buffer;
  Built(DType in_dtype, std::vector<Expr> in_sizes, DType out_dtype, std::vector<Expr> out_sizes,
        bool mutated = false) {
    program.symbols["s0"] = {"s0", {0, 1 << 20}, 4, false};
    Buffer a;
    a.name = "a";
    a.dtype = in_dtype;
    a.sizes = std::move(in_sizes);
    a.strides = contiguous_strides(a.sizes);
    a.role = BufferRole::input;
    a.position = 0;
    a.mutated = mutated;
    in = program.add_buffer(a);
    Buffer b;
    b.name = "b";
    b.dtype = out_dtype;
    b.sizes = std::move(out_sizes);
    b.strides = contiguous_strides(b.sizes);
    b.role = BufferRole::output;
    b.position = 0;
    out = program.add_buffer(b);
    program.inputs.push_back({"a", in});
    program.outputs.push_back({out});
  }
  void kernel(const std::function<void(KernelBuilder&)>& f) {
    Kernel made;
    made.name = "k";
    KernelBuilder k(program, made);
    f(k);
    program.block.push_back({std::move(made)});
  }
  LoopRun run(Tensor input) { return LoopInterpreter(program, {}).run({Datum{std::move(input)}}); }
};

const Expr s0 = Expr::symbol("s0");

TEST(LoopInterpreter, ArgmaxOverSeveralDimensions) {
  for (ReduceOp op : {ReduceOp::argmax, ReduceOp::argmin}) {
    Built b(DType::f32, {s0, 3}, DType::i64, {2});
    b.kernel([&](KernelBuilder& k) {
      auto two = k.reduce(op, DType::f32, {s0, 3},
                          [&](const std::vector<Expr>& i) { return std::vector<ValueId>{k.load(b.in, i)}; });
      auto one = k.reduce(op, DType::f32, {s0}, [&](const std::vector<Expr>& i) {
        return std::vector<ValueId>{k.load(b.in, {i[0], 0})};
      });
      k.store(b.out, {0}, two[1]);
      k.store(b.out, {1}, one[1]);
    });
    double sign = op == ReduceOp::argmax ? 1 : -1;
    EXPECT_EQ(
        values(b.run(tensor(DType::f32, {2, 3}, {1 * sign, 7 * sign, 2 * sign, 3 * sign, 7 * sign, 0})).outputs[0]),
        (std::vector<double>{1, 1}));
    EXPECT_EQ(values(b.run(tensor(DType::f32, {2, 3}, {9, 7, 2, 3, NAN, NAN})).outputs[0])[0], 4);
    EXPECT_EQ(
        values(b.run(tensor(DType::f32, {1, 3}, {-INFINITY * sign, -INFINITY * sign, -INFINITY * sign})).outputs[0])[0],
        0);
  }
}

TEST(LoopInterpreter, ReductionsOfEveryKind) {
  Built b(DType::f32, {2, s0}, DType::f32, {8});
  b.kernel([&](KernelBuilder& k) {
    auto over = [&](ReduceOp op, DType dtype) {
      return k.reduce(op, dtype, {2, s0},
                      [&](const std::vector<Expr>& i) { return std::vector<ValueId>{k.load(b.in, i)}; });
    };
    int at = 0;
    auto keep = [&](ValueId v) { k.store(b.out, {at++}, k.as(DType::f32, v)); };
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min}) keep(over(op, DType::f32)[0]);
    keep(over(ReduceOp::any, DType::boolean)[0]);
    keep(over(ReduceOp::all, DType::boolean)[0]);
    auto w = over(ReduceOp::welford, DType::f32);
    keep(w[0]);
    keep(w[1]);
  });
  EXPECT_EQ(values(b.run(tensor(DType::f32, {2, 2}, {1, 2, 3, 6})).outputs[0]),
            (std::vector<double>{12, 36, 6, 1, 1, 1, 3, 14}));
  EXPECT_EQ(values(b.run(tensor(DType::f32, {2, 0}, {})).outputs[0]),
            (std::vector<double>{0, 1, -INFINITY, INFINITY, 0, 1, 0, 0}));
  auto got = values(b.run(tensor(DType::f32, {2, 1}, {NAN, 0})).outputs[0]);
  EXPECT_TRUE(std::isnan(got[2]) && std::isnan(got[3]));
  EXPECT_EQ(got[4], 1);
  EXPECT_EQ(got[5], 0);
}

// As good as any grouping that compiled code may choose: rounded to the type once, at the end.
TEST(LoopInterpreter, SumsRoundOnce) {
  Built b(DType::f32, {s0}, DType::f32, {2});
  b.kernel([&](KernelBuilder& k) {
    for (int j = 0; j < 2; ++j)
      k.store(b.out, {j},
              k.as(DType::f32, k.reduce_one(ReduceOp::sum, j ? DType::f64 : DType::f32, {s0},
                                            [&](const std::vector<Expr>& i) { return k.load(b.in, i); })));
  });
  EXPECT_EQ(values(b.run(tensor(DType::f32, {4}, {16777216, 1, 1, 0})).outputs[0]),
            (std::vector<double>{16777218, 16777218}));
}

TEST(LoopInterpreter, StridedAndMutatedInputs) {
  Built b(DType::bf16, {s0, 2}, DType::f32, {s0, 2}, true);
  b.kernel([&](KernelBuilder& k) {
    k.parallel({s0, 2}, [&](const std::vector<Expr>& i) {
      ValueId x = k.load_compute(b.in, i);
      k.store(b.out, i, x);
      k.store(b.in, i, k.op(ScalarOp::mul, x, k.constant(DType::f32, 1.01)));
    });
  });
  Tensor base = tensor(DType::bf16, {2, 2}, {1, 2, 3, 4});
  Tensor transposed = base;
  std::swap(transposed.strides[0], transposed.strides[1]);
  LoopRun run = b.run(transposed);
  EXPECT_EQ(values(run.outputs[0]), (std::vector<double>{1, 3, 2, 4}));
  EXPECT_EQ(values(run.inputs[0]), (std::vector<double>{1.0078125, 3.03125, 2.015625, 4.03125}));
  EXPECT_EQ(values({base}), (std::vector<double>{1, 2, 3, 4}));
}

TEST(LoopInterpreter, DivisionByZeroRaisesUnlessMasked) {
  Built b(DType::i32, {s0}, DType::i32, {s0});
  b.kernel([&](KernelBuilder& k) {
    k.parallel({s0}, [&](const std::vector<Expr>& i) {
      k.store(b.out, i, k.op(ScalarOp::div, k.constant(DType::i32, 10), k.load(b.in, i)));
    });
  });
  EXPECT_EQ(values(b.run(tensor(DType::i32, {2}, {3, -5})).outputs[0]), (std::vector<double>{3, -2}));
  EXPECT_THROW(b.run(tensor(DType::i32, {2}, {3, 0})), Error);
}

TEST(LoopInterpreter, CallsThatAreWrong) {
  LoopProgram program = parse_loops(sample_text);
  LoopInterpreter none(program, sample_constants());
  EXPECT_THROW(none.run(sample_inputs()), Error);
  LoopRunOptions wrong;
  wrong.call = [](const Call&, CallFrame& frame) { frame.set_result(0, Tensor::empty(DType::i64, {3, 3})); };
  LoopInterpreter bad(program, sample_constants(), wrong);
  EXPECT_THROW(bad.run(sample_inputs()), Error);
  EXPECT_THROW(LoopInterpreter(program, {}), Error);
}

TEST(LoopInterpreter, ReportsEachItem) {
  LoopProgram program = parse_loops(sample_text);
  LoopRunOptions options = sample_options();
  std::vector<std::string> seen;
  options.after_item = [&](const Item& item, RunState& state) {
    if (auto* kernel = std::get_if<Kernel>(&item.what)) seen.push_back(kernel->name);
    EXPECT_EQ(state.symbols().at("s0"), 2);
  };
  LoopInterpreter(program, sample_constants(), options).run(sample_inputs());
  EXPECT_EQ(seen.front(), "cpp_fused_softmax_0");
  EXPECT_EQ(std::count(seen.begin(), seen.end(), "step"), 3);
}

TEST(LoopInterpreter, MatrixProduct) {
  Built b(DType::f32, {s0, s0}, DType::f32, {s0, s0});
  b.kernel([&](KernelBuilder& k) {
    k.parallel({s0, s0}, [&](const std::vector<Expr>& i) {
      k.store(b.out, i, k.reduce_one(ReduceOp::sum, DType::f32, {s0}, [&](const std::vector<Expr>& r) {
        return k.op(ScalarOp::mul, k.load(b.in, {i[0], r[0]}), k.load(b.in, {r[0], i[1]}));
      }));
    });
  });
  EXPECT_EQ(values(b.run(tensor(DType::f32, {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})).outputs[0]),
            (std::vector<double>{30, 36, 42, 66, 81, 96, 102, 126, 150}));
}

}  // namespace
}  // namespace kiln::loops
