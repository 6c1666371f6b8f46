#include "graph/graph.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

// Every kind of value, argument, input and output, nested graphs, origins, names that need quotes.
const char* const sample_text = R"TEXT(program "a \"model\""
torch "2.15"
schema 8 20
opset 10
in_spec "[1, {}]"
out_spec "[2]"
forward_arg "x"
symbol s0 [2, 1024] hint 10
symbol u0 [0, oo] unbacked
symbol z [-oo, -3]
guard {s0 <= 512} because "L['x'].size()[0] <= 512"
constant "c": i64[3]
constant "flag": bool[]
constant "lin.weight": f32[16, 10] strides [1, 16] offset {4} hash 0123456789abcdef
graph main {
  input %p_w: f32[16, 10] strides [1, 16] offset {4} = parameter "lin.weight"
  input %b: bool[] = buffer "flag" non_persistent
  input %c: i64[3] = constant_tensor "c"
  input %x: f32[s0, 10] = user
  input %n: int {s0} = user
  input %k: none = constant_value value 3
  input %none: none = constant_value value None
  %t: f32[10, 16] = aten.t.default(self=%p_w) @0  # model.py:7 in forward: return x @ w.T
  %mm: f32[s0, 16] = aten.mm.default(self=%x, mat2=%t) @0,1  # model.py:7 in forward: return x @ w.T
  %two: int {s0*2} = _operator.mul(a=%n, b=2)
  %values: f32[s0, 2], %indices: i64[s0, 2] device cuda:0 = aten.topk.default(self=%mm, k=2, largest=false) named topk
  %split: list(%split_a: f32[s0, 8] strides [16, 1], None, %split_b: f32[s0, 8] strides [16, 1] offset {8}) = aten.split.Tensor(self=%mm, split_size=8, dim=1)
  %item: float {u0} = aten.item.default(self=%b)
  %pred: boolean {s0 <= 4} = _operator.le(%n, 4)
  aten._assert_scalar.default(self=%pred, assert_msg="x > 0\n") named assert_1
  %"odd name": f32[] = "<built-in function ge>"("a b"=1.5, c=[1, -2, [inf, -inf, nan]], d=(1.0,-2.5), e=f32, f=device(cuda:1), g=strided, h=channels_last, i={s0 + 1}, j=None, k=true, "text", l="s")
  %out: f32[2] = higher_order.cond(%pred, graph true_0 {
    input %a: f32[s0, 10]
    value %free: int {s0 + 2}
    %r: f32[2] = aten.full.default(size=[2], fill_value=%free) @1
    output %r
  }, graph false_0 {
    input %a: f32[s0, 10]
    output %a
    output None
  }, [%x])
  output %c = buffer_mutation "c"
  output %x = user_input_mutation "x"
  output %out = user
  output 3 = user
  output {s0 + 1} = user
  output None = user
  output %split_b = loss
}
line 0 "main.py":3 in "<module>": "m(x)"
line 1 "model.py":7 in "forward": "return x @ w.T"
origin 0 node "linear" op "aten.linear.default" module "lin" stack 0 1
origin 1 node "mm" op "aten.mm.default" module "" stack
)TEXT";

TEST(GraphText, ReadsAndPrintsEverything) {
  Program program = parse_program(sample_text);
  verify(program);
  std::string once = print(program);
  Program again = parse_program(once);
  EXPECT_EQ(print(again), once);
  EXPECT_EQ(program.symbols.at("u0").unbacked, true);
  EXPECT_EQ(program.symbols.at("z").range, (Interval{INT64_MIN, -3}));
  EXPECT_EQ(program.constants.at("lin.weight").strides, (std::vector<int64_t>{1, 16}));
  EXPECT_EQ(program.graph.inputs.size(), 7u);
  EXPECT_FALSE(program.input_specs[1].persistent);
  const Node& first = *program.graph.nodes.front();
  ASSERT_NE(first.origins.at(0).line(), nullptr);
  EXPECT_EQ(first.origins[0].line()->file, "model.py");
  EXPECT_EQ(first.where().module_path, "lin");
  Value* list = program.graph.find_value("split");
  ASSERT_EQ(list->items.size(), 3u);
  EXPECT_EQ(list->items[1], nullptr);
  EXPECT_EQ(list->items[2]->producer, list->producer);
}

// The printer's own form: what is written above is what it writes.
TEST(GraphText, PrintsTheSameText) {
  std::string once = print(parse_program(sample_text));
  std::string expected = sample_text;
  // Free values are printed before the inputs.
  expected = replace_all(expected, "    input %a: f32[s0, 10]\n    value %free: int {s0 + 2}\n",
                         "    value %free: int {s0 + 2}\n    input %a: f32[s0, 10]\n");
  EXPECT_EQ(once, expected);
}

TEST(GraphText, CloneIsDeep) {
  Program program = parse_program(sample_text);
  Program copy = program.clone();
  verify(copy);
  EXPECT_EQ(print(copy), print(program));
  copy.graph.find_value("mm")->type.dtype = DType::f64;
  EXPECT_EQ(program.graph.find_value("mm")->type.dtype, DType::f32);
  for (auto& node : copy.graph.nodes)
    for (auto& named : node->args)
      if (named.arg.is_graph()) named.arg.as_graph()->name = "changed";
  EXPECT_EQ(print(program).find("changed"), std::string::npos);
}

TEST(GraphText, ConstantsAreCheckedAgainstTheText) {
  Program program;
  program.constants["c"] = Tensor::empty(DType::f32, {2});
  std::string text = print(program);
  EXPECT_EQ(print(parse_program(text)), text);
  std::map<std::string, Tensor> same{{"c", Tensor::empty(DType::f32, {2})}};
  EXPECT_TRUE(parse_program(text, same).constants.at("c").defined());
  std::map<std::string, Tensor> other{{"c", Tensor::empty(DType::f32, {2})}};
  other["c"].set_item(1, Scalar(1.0));
  EXPECT_THROW(parse_program(text, other), Error);
}

TEST(GraphText, BadTextIsAnErrorWithItsLine) {
  const char* const bad[] = {
      "",
      "program",
      "program \"x\" graph",
      "program \"x\"\ngraph main {\n  input %a: f32[2]\n}",
      "program \"x\"\ngraph main {\n  input %a: f99[2] = user\n}",
      "program \"x\"\ngraph main {\n  input %a: f32[2 = user\n}",
      "program \"x\"\ngraph main {\n  input %a: f32[2] = user\n  input %a: f32[2] = user\n}",
      "program \"x\"\ngraph main {\n  %b: f32[2] = aten.relu.default(self=%a)\n}",
      "program \"x\"\ngraph main {\n  aten.relu.default()\n}",
      "program \"x\"\ngraph main {\n  %a: f32[] = f(x=@)\n}",
      "program \"x\"\ngraph main {\n  %a: f32[] = f(x=99999999999999999999)  \n}",
      "program \"x\"\ngraph main {\n  %a: f32[] = f() @3\n}",
      "program \"x\"\ngraph main {\n  output 3 = nowhere\n}",
      "program \"x\"\nsymbol s0 [1, 2]\nsymbol s0 [1, 2]\ngraph main { }",
      "program \"x\"\nconstant \"c\": f32[s0]\ngraph main { }",
      "program \"x\"\ngraph main { } trailing",
      "program \"x\"\ngraph main {\n  %a: f32[2] strides [1, 2] = f()\n}",
      "program \"open",
  };
  for (const char* text : bad) {
    try {
      parse_program(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), "K0220") << text << "\n" << error.what();
      EXPECT_NE(error.message().find("line "), std::string::npos);
    }
  }
  std::string deep = "program \"x\"\ngraph main { %a: f32[] = f(x=" + std::string(100000, '[');
  EXPECT_THROW(parse_program(deep), Error);
}

TEST(GraphText, EveryTruncationIsRefused) {
  std::string whole = sample_text;
  for (size_t end = 0; end < whole.rfind("line 0"); ++end) {
    try {
      Program program = parse_program(std::string_view(whole).substr(0, end));
      // Cut inside the tables at the end the text may still be whole.
      ADD_FAILURE() << "accepted when cut at " << end;
    } catch (const Error&) {
    }
  }
}

TEST(Graph, NamesAndUses) {
  Graph graph;
  Value* x = graph.add_input("x", ValueKind::tensor);
  Node* a = graph.add_node("aten.relu.default", "a");
  a->args = {{"self", Argument(x)}};
  Value* av = graph.add_result(a, "x", ValueKind::tensor);
  EXPECT_EQ(av->name, "x_1");
  EXPECT_EQ(graph.unique_name("x"), "x_2");
  Node* before = graph.add_node("aten.neg.default", "before", a);
  before->args = {{"self", Argument(x)}};
  Value* bv = graph.add_result(before, "b", ValueKind::tensor);
  EXPECT_EQ(graph.nodes.front().get(), before);
  graph.outputs = {Argument(Argument::List{Argument(x), Argument(av)})};
  graph.replace_uses(x, bv);
  EXPECT_EQ(a->args[0].arg.as_value(), bv);
  EXPECT_EQ(graph.outputs[0].as_list()[0].as_value(), bv);
  before->args[0].arg = Argument(x);
  EXPECT_EQ(uses_of(graph).at(bv).size(), 1u);
  graph.outputs.clear();
  graph.erase(a);
  EXPECT_EQ(graph.find_value("x_1"), nullptr);
  EXPECT_EQ(graph.nodes.size(), 1u);
}

TEST(Verify, BrokenInvariantsAreFound) {
  auto broken = [](auto change) {
    Program program = parse_program(sample_text);
    change(program);
    EXPECT_THROW(verify(program), Error);
  };
  broken([](Program& p) { p.input_specs.pop_back(); });
  broken([](Program& p) { p.output_specs.pop_back(); });
  broken([](Program& p) { p.graph.find_value("mm")->type.strides.pop_back(); });
  broken([](Program& p) { p.graph.find_value("mm")->producer = nullptr; });
  broken([](Program& p) { p.graph.find_value("indices")->result = 0; });
  broken([](Program& p) { p.constants.erase("c"); });
  broken([](Program& p) { p.output_specs[0].target = "nothing"; });
  broken([](Program& p) { std::swap(p.graph.nodes.front(), p.graph.nodes.back()); });
  broken([](Program& p) { p.graph.nodes.front()->args.push_back(p.graph.nodes.front()->args[0]); });
  Program other = parse_program(sample_text);
  broken([&](Program& p) { p.graph.nodes.front()->args[0].arg = Argument(other.graph.find_value("x")); });
}

}  // namespace
}  // namespace kiln
