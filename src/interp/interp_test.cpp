#include "interp/interp.h"

#include <gtest/gtest.h>

#include "ops/op_record.h"

namespace kiln {
namespace {

Program program_of(const std::string& body, const std::string& header = "",
                   const std::map<std::string, Tensor>& constants = {}) {
  Program program = parse_program("program \"test\"\n" + header + "graph main {\n" + body + "}\n", constants);
  for (const auto& [name, tensor] : constants) program.constants[name] = tensor;
  resolve_operators(program.graph, {"mylib.twice.default"});
  verify(program);
  return program;
}

Datum tensor_of(DType dtype, std::vector<int64_t> sizes, const std::vector<double>& values) {
  Tensor out = Tensor::empty(dtype, std::move(sizes));
  for (size_t i = 0; i < values.size(); ++i) out.set_item(static_cast<int64_t>(i), Scalar(values[i]));
  return Datum{out};
}

Datum zeros(DType dtype, std::vector<int64_t> sizes) { return Datum{Tensor::empty(dtype, std::move(sizes))}; }

std::string text(const Datum& datum) {
  if (datum.is_none()) return "None";
  if (datum.is_scalar()) return datum.scalar().text();
  std::string out;
  for (int64_t i = 0; i < datum.tensor().numel(); ++i) out += str(i ? " " : "", datum.tensor().item(i).text());
  return out;
}

std::string message_of(const Program& program, const std::vector<Datum>& inputs) {
  try {
    bind_symbols(program, inputs);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.message();
  }
  return "accepted";
}

const char* const sized = "symbol s0 [2, 8] hint 4\nsymbol s1 [0, oo]\nguard {s1 % 2 == 0} because \"even\"\n";
const char* const sized_body = R"(
  input %x: f32[s0, 3] = user
  input %y: f32[s0*2 + 1] = user
  input %n: int {s1} = user
  input %k: none = constant_value value 3
  output %x = user
)";

TEST(BindSymbols, FindsValuesFromSizes) {
  Program program = program_of(sized_body, sized);
  SymbolValues values =
      bind_symbols(program, {zeros(DType::f32, {4, 3}), zeros(DType::f32, {9}), Datum{Scalar(6)}, Datum{Scalar(3)}});
  EXPECT_EQ(values.at("s0"), 4);
  EXPECT_EQ(values.at("s1"), 6);
}

TEST(BindSymbols, SolvesAffineSizes) {
  Program program = program_of("  input %y: f32[s0*2 + 1] = user\n  output %y = user\n", "symbol s0 [2, 8]\n");
  EXPECT_EQ(bind_symbols(program, {zeros(DType::f32, {9})}).at("s0"), 4);
  EXPECT_EQ(
      message_of(program, {zeros(DType::f32, {8})}),
      "Error: input_handles[0]: unmatched dim value at 0, expected: s0*2 + 1 with a whole number for s0, but got: "
      "8 (input 'y')");
}

TEST(BindSymbols, MessagesNameTheInput) {
  Program program = program_of(sized_body, sized);
  Datum x = zeros(DType::f32, {4, 3}), y = zeros(DType::f32, {9}), n{Scalar(6)}, k{Scalar(3)};
  EXPECT_EQ(message_of(program, {x, y, n, k}), "accepted");
  EXPECT_EQ(message_of(program, {x, y}), "Error: expected 4 inputs (x, y, n, k), but got 2");
  Tensor on_gpu = x.tensor();
  on_gpu.device.type = DeviceType::cuda;
  EXPECT_EQ(message_of(program, {Datum{on_gpu}, y, n, k}),
            "Error: input_handles[0]: unmatched device type, expected: 0(cpu), but got: 1(cuda) (input 'x')");
  EXPECT_EQ(message_of(program, {zeros(DType::i64, {4, 3}), y, n, k}),
            "Error: input_handles[0]: unmatched dtype, expected: 6(float32), but got: 4(int64) (input 'x')");
  EXPECT_EQ(message_of(program, {zeros(DType::f32, {4}), y, n, k}),
            "Error: input_handles[0]: unmatched number of dimensions, expected: 2, but got: 1 (input 'x')");
  EXPECT_EQ(message_of(program, {zeros(DType::f32, {4, 5}), y, n, k}),
            "Error: input_handles[0]: unmatched dim value at 1, expected: 3, but got: 5 (input 'x')");
  EXPECT_EQ(
      message_of(program, {zeros(DType::f32, {9, 3}), zeros(DType::f32, {19}), n, k}),
      "Error: input_handles[0]: dim value is too large at 0, expected it to be <= 8, but got: 9 (s0) (input 'x')");
  EXPECT_EQ(
      message_of(program, {zeros(DType::f32, {1, 3}), zeros(DType::f32, {3}), n, k}),
      "Error: input_handles[0]: dim value is too small at 0, expected it to be >= 2, but got: 1 (s0) (input 'x')");
  EXPECT_EQ(
      message_of(program, {x, zeros(DType::f32, {11}), n, k}),
      "Error: input_handles[1]: unmatched dim value at 0, expected: 9 (s0*2 + 1; s0 = 4 from input_handles[0] 'x' "
      "dim 0), but got: 11 (input 'y')");
  EXPECT_EQ(message_of(program, {x, y, Datum{Scalar(7)}, k}),
            "Error: the inputs do not satisfy s1 % 2 == 0 (even; s1 = 7 from input_handles[2] 'n')");
  EXPECT_EQ(message_of(program, {x, y, n, Datum{Scalar(4)}}),
            "Error: input_handles[3]: unmatched value, expected: 3, but got: 4 (input 'k')");
  EXPECT_EQ(message_of(program, {Datum{}, y, n, k}),
            "Error: input_handles[0]: expected: a tensor, but got: None (input 'x')");
  EXPECT_EQ(message_of(program, {x, y, x, k}),
            "Error: input_handles[2]: expected: an integer, but got: a tensor (input 'n')");
}

TEST(Interpreter, WritesGoThroughViewsAndStayOffTheCaller) {
  Program program = program_of(R"(
  input %x: f32[2, 2] = user
  %row: f32[2] offset {2} = aten.select.int(self=%x, dim=0, index=1)
  %w: f32[2] offset {2} = aten.add_.Tensor(self=%row, other=10)
  %y: f32[2, 2] = aten.mul.Tensor(self=%x, other=2)
  output %y = user
)");
  Datum x = tensor_of(DType::f32, {2, 2}, {1, 2, 3, 4});
  InterpretResult result = Interpreter(program).run({x});
  EXPECT_EQ(text(result.outputs.at(0)), "2.0 4.0 26.0 28.0");
  EXPECT_EQ(text(result.inputs.at(0)), "1.0 2.0 13.0 14.0");
  EXPECT_EQ(text(x), "1.0 2.0 3.0 4.0");
}

TEST(Interpreter, NewTensorsHaveTheLayoutThatTheGraphSays) {
  Program program = program_of(R"(
  input %x: f32[2, 3] = user
  %y: f32[2, 3] strides [1, 2] = aten.mul.Tensor(self=%x, other=2)
  %z: f32[3, 2] = aten.transpose.int(self=%y, dim0=0, dim1=1)
  output %y = user
  output %z = user
)");
  InterpretResult result = Interpreter(program).run({tensor_of(DType::f32, {2, 3}, {0, 1, 2, 3, 4, 5})});
  EXPECT_EQ(text(result.outputs[0]), "0.0 2.0 4.0 6.0 8.0 10.0");
  EXPECT_EQ(result.outputs[0].tensor().strides, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(result.outputs[1].tensor().strides, (std::vector<int64_t>{2, 1}));
}

TEST(Interpreter, AnInstanceKeepsItsBuffers) {
  Tensor weight = Tensor::empty(DType::i64, {1});
  weight.storage->writable = false;
  Program program = program_of(R"(
  input %count: i64[1] = buffer "count"
  input %x: i64[1] = user
  %w: i64[1] = aten.add_.Tensor(self=%count, other=%x)
  output %count = user
)",
                               "constant \"count\": i64[1]\n", {{"count", weight}});
  Interpreter one(program), two(program);
  Datum x = tensor_of(DType::i64, {1}, {5});
  InterpretResult first = one.run({x});
  InterpretResult second = one.run({x});
  EXPECT_EQ(text(first.outputs.at(0)), "5");
  EXPECT_EQ(text(second.outputs.at(0)), "10");
  EXPECT_EQ(text(Datum{first.state.at("count")}), "5");
  EXPECT_EQ(text(Datum{second.state.at("count")}), "10");
  EXPECT_EQ(text(two.run({x}).outputs.at(0)), "5");
  EXPECT_EQ(weight.item().as_int(), 0);
}

TEST(Interpreter, BranchesAndLoops) {
  Program program = program_of(R"(
  input %p: bool[] = user
  input %n: i64[] = user
  input %x: f32[2] = user
  %c: f32[2] = higher_order.cond(%p, graph t {
    input %a: f32[2]
    %r: f32[2] = aten.neg.default(self=%a)
    output %r
  }, graph f {
    input %a: f32[2]
    %r: f32[2] = aten.exp.default(self=%a)
    output %r
  }, [%x])
  %i: i64[], %acc: f32[2] = higher_order.while_loop(graph cond {
    input %i: i64[]
    input %acc: f32[2]
    input %step: f32[2]
    %go: bool[] = aten.gt.Scalar(self=%i, other=0)
    output %go
  }, graph body {
    input %i: i64[]
    input %acc: f32[2]
    input %step: f32[2]
    %j: i64[] = aten.sub.Tensor(self=%i, other=1)
    %next: f32[2] = aten.add.Tensor(self=%acc, other=%step)
    output %j
    output %next
  }, [%n, %c], [%x]) named loop
  output %c = user
  output %acc = user
)");
  Datum x = tensor_of(DType::f32, {2}, {1, 2});
  Datum yes = tensor_of(DType::boolean, {}, {1}), no = tensor_of(DType::boolean, {}, {0});
  Datum three = tensor_of(DType::i64, {}, {3}), zero = tensor_of(DType::i64, {}, {0});
  Interpreter interpreter(program);
  InterpretResult taken = interpreter.run({yes, three, x});
  EXPECT_EQ(text(taken.outputs.at(0)), "-1.0 -2.0");
  EXPECT_EQ(text(taken.outputs.at(1)), "2.0 4.0");
  InterpretResult other = interpreter.run({no, zero, zeros(DType::f32, {2})});
  EXPECT_EQ(text(other.outputs.at(0)), "1.0 1.0");
  EXPECT_EQ(text(other.outputs.at(1)), "1.0 1.0");
}

TEST(Interpreter, ResultsOfControlFlowAreNoAliases) {
  Program program = program_of(R"(
  input %x: f32[2] = user
  %i: f32[2] = higher_order.while_loop(graph cond {
    input %i: f32[2]
    %sum: f32[] = aten.sum.default(self=%i)
    %go: bool[] = aten.lt.Scalar(self=%sum, other=0)
    output %go
  }, graph body {
    input %i: f32[2]
    %next: f32[2] = aten.add.Tensor(self=%i, other=1)
    output %next
  }, [%x], [])
  %w: f32[2] = aten.add_.Tensor(self=%i, other=10)
  output %x = user
  output %i = user
)");
  InterpretResult result = Interpreter(program).run({tensor_of(DType::f32, {2}, {1, 2})});
  EXPECT_EQ(text(result.outputs.at(0)), "1.0 2.0");
  EXPECT_EQ(text(result.outputs.at(1)), "11.0 12.0");
  EXPECT_EQ(text(result.inputs.at(0)), "1.0 2.0");
}

TEST(Interpreter, MapAndScan) {
  Program program = program_of(R"(
  input %xs: f32[3, 2] = user
  input %init: f32[2] = user
  %m: f32[3, 2] = higher_order.map_impl(graph body {
    input %x: f32[2]
    input %k: f32[2]
    %r: f32[2] = aten.add.Tensor(self=%x, other=%k)
    output %r
  }, [%xs], [%init])
  %last: f32[2], %all: f32[3, 2] = higher_order.scan(graph combine {
    input %carry: f32[2]
    input %x: f32[2]
    %r: f32[2] = aten.add.Tensor(self=%carry, other=%x)
    %copy: f32[2] = aten.clone.default(self=%r)
    output %r
    output %copy
  }, [%init], [%xs], []) named scan
  output %m = user
  output %last = user
  output %all = user
)");
  InterpretResult result = Interpreter(program).run(
      {tensor_of(DType::f32, {3, 2}, {1, 2, 3, 4, 5, 6}), tensor_of(DType::f32, {2}, {10, 20})});
  EXPECT_EQ(text(result.outputs.at(0)), "11.0 22.0 13.0 24.0 15.0 26.0");
  EXPECT_EQ(text(result.outputs.at(1)), "19.0 32.0");
  EXPECT_EQ(text(result.outputs.at(2)), "11.0 22.0 14.0 26.0 19.0 32.0");
}

TEST(Interpreter, NumbersFromDataBindSymbols) {
  Program program = program_of(R"(
  input %t: i64[] = user
  input %x: f32[4] = user
  %item: int {u0} = aten.item.default(self=%t)
  %f: f32[u0 + 1] = aten.full.default(size=[{u0 + 1}], fill_value=2.0)
  %nz: i64[u1, 1] = aten.nonzero.default(self=%x)
  %g: f32[u1] = aten.full.default(size=[{u1}], fill_value=3.0)
  output %f = user
  output %g = user
  output %item = user
  output {u1 * 2} = user
  output None = user
)",
                               "symbol u0 [0, oo] unbacked\nsymbol u1 [0, oo] unbacked\n");
  InterpretResult result =
      Interpreter(program).run({tensor_of(DType::i64, {}, {2}), tensor_of(DType::f32, {4}, {0, 1, 0, 5})});
  EXPECT_EQ(text(result.outputs.at(0)), "2.0 2.0 2.0");
  EXPECT_EQ(text(result.outputs.at(1)), "3.0 3.0");
  EXPECT_EQ(text(result.outputs.at(2)), "2");
  EXPECT_EQ(text(result.outputs.at(3)), "4");
  EXPECT_EQ(text(result.outputs.at(4)), "None");
}

TEST(Interpreter, Fp64ModeIsMoreExactAndKeepsCasts) {
  Program program = program_of(R"(
  input %x: f32[1] = user
  %e: f32[1] = aten.exp.default(self=%x)
  %h: bf16[1] = aten._to_copy.default(self=%e, dtype=bf16)
  %i: i64[1] = aten._to_copy.default(self=%e, dtype=i64)
  output %e = user
  output %h = user
  output %i = user
)");
  InterpretOptions options;
  options.fp64 = true;
  InterpretResult result = Interpreter(program, options).run({tensor_of(DType::f32, {1}, {1})});
  EXPECT_EQ(result.outputs.at(0).tensor().dtype, DType::f64);
  EXPECT_DOUBLE_EQ(result.outputs.at(0).tensor().item().as_double(), std::exp(1.0));
  EXPECT_EQ(result.outputs.at(1).tensor().item().as_double(), 2.71875);
  EXPECT_EQ(result.outputs.at(2).tensor().dtype, DType::i64);
}

TEST(Interpreter, CustomOperatorsAndHooks) {
  Program program = program_of(R"(
  input %x: f32[2] = user
  %a: f32[2] = mylib.twice.default(x=%x, times=2)
  output %a = user
)");
  Datum x = tensor_of(DType::f32, {2}, {1, 2});
  try {
    Interpreter(program).run({x});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0200");
    EXPECT_EQ(error.where().node, "a");
  }
  InterpretOptions options;
  options.custom = [](const Node& node, const std::map<std::string, Datum, std::less<>>& args) {
    EXPECT_EQ(node.target, "mylib.twice.default");
    EXPECT_EQ(args.at("x").tensor().dtype, DType::f32);
    Tensor out = args.at("x").tensor().clone();
    for (int64_t i = 0; i < out.numel(); ++i)
      out.set_item(i, Scalar(out.item(i).as_double() * args.at("times").scalar().as_double()));
    return std::vector<Datum>{Datum{out}};
  };
  std::vector<std::string> seen;
  options.after_node = [&](const Node& node, const std::vector<Datum>& results) {
    seen.push_back(node.name + "=" + text(results.at(0)));
  };
  EXPECT_EQ(text(Interpreter(program, options).run({x}).outputs.at(0)), "2.0 4.0");
  EXPECT_EQ(seen, std::vector<std::string>{"a=2.0 4.0"});
  options.fp64 = true;
  EXPECT_EQ(Interpreter(program, options).run({x}).outputs.at(0).tensor().dtype, DType::f64);
}

TEST(Interpreter, AnAssertionThatFailsIsAnError) {
  Program program = program_of(R"(
  input %t: i64[] = user
  %item: int {u0} = aten.item.default(self=%t)
  %le: boolean {u0 <= 3} = _operator.le(a=%item, b=3)
  aten._assert_scalar.default(self=%le, assert_msg="u0 is too large") named check
  output %item = user
)",
                               "symbol u0 [0, oo] unbacked\n");
  EXPECT_EQ(text(Interpreter(program).run({tensor_of(DType::i64, {}, {3})}).outputs.at(0)), "3");
  try {
    Interpreter(program).run({tensor_of(DType::i64, {}, {4})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("u0 is too large"), std::string::npos);
    EXPECT_EQ(error.where().node, "check");
  }
}

TEST(Interpreter, AutocastRegionsRun) {
  Program program = program_of(R"(
  input %x: f32[1, 1] = user
  %y: bf16[1, 1] = higher_order.wrap_with_autocast("cpu", bf16, true, false, graph g {
    input %a: f32[1, 1]
    %mm: bf16[1, 1] = aten.mm.default(self=%a, mat2=%a)
    output %mm
  }, %x)
  output %y = user
)");
  InterpretResult result = Interpreter(program).run({tensor_of(DType::f32, {1, 1}, {1.01})});
  EXPECT_EQ(result.outputs.at(0).tensor().dtype, DType::bf16);
  EXPECT_EQ(text(result.outputs.at(0)), "1.015625");
}

}  // namespace
}  // namespace kiln
