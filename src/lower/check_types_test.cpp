// Programs that say wrong things of their values are refused before loops are made of them.
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

std::string refusal(const std::string& body) {
  try {
    Program program = parse_program("program \"m\"\ngraph main {\n  input %x: f32[2, 3] = user\n" + body + "}\n");
    resolve_operators(program.graph, {});
    lower(program);
  } catch (const Error& error) {
    return error.code() + ": " + error.message();
  }
  return "accepted";
}

TEST(CheckTypes, WhatTheRuleGivesIsAccepted) {
  EXPECT_EQ(refusal("  %y: f32[2, 3] = aten.exp.default(self=%x)\n  output %y = user\n"), "accepted");
}

TEST(CheckTypes, OtherSizesAndTypesAreRefused) {
  for (const char* lie : {"f32[2, 4]", "f32[2]", "i64[2, 3]", "f32[20000, 3]"})
    EXPECT_EQ(refusal(str("  %y: ", lie, " = aten.exp.default(self=%x)\n  output %y = user\n")),
              str("K0237: the program says that y is ", lie, ", but aten.exp.default gives f32[2, 3]"));
}

TEST(CheckTypes, ATensorIsNoNumber) {
  EXPECT_EQ(refusal("  %y: f32[] = aten.item.default(self=%x)\n  output %y = user\n"),
            "K0237: the program says that y is a tensor, but aten.item.default gives a number");
}

TEST(CheckTypes, ArgumentsComeOnceAndResultsAreNamed) {
  EXPECT_EQ(refusal("  %y: f32[2, 3] = aten.exp.default(self=%x, self=%x)\n  output %y = user\n"),
            "K0201: aten.exp.default: argument self is given twice");
  EXPECT_EQ(refusal("  aten.exp.default(self=%x) named e\n  output %x = user\n"),
            "K0237: the program leaves out what aten.exp.default gives");
  EXPECT_EQ(refusal("  %y: f32[2, 3], %z: bool[2, 3] = aten.exp.default(self=%x)\n  output %y = user\n"),
            "K0237: the program says that aten.exp.default gives z, but it gives only 1 result");
  EXPECT_EQ(refusal("  %y: f32[2, 3] = aten._assert_tensor_metadata.default(a=%x)\n  output %y = user\n"),
            "K0237: the program says that aten._assert_tensor_metadata.default gives y, but it gives nothing");
}

TEST(CheckTypes, SubgraphsGetWhatTheySay) {
  auto loop = [](const std::string& condition_input, const std::string& body_input) {
    return refusal(str("  %y: f32[2, 3] = higher_order.while_loop(graph c {\n    input %a: ", condition_input,
                       "\n    %s: f32[] = aten.sum.default(self=%a)\n    %l: bool[] = aten.lt.Scalar(self=%s, "
                       "other=9)\n    output %l\n  }, graph b {\n    input %d: ",
                       body_input, "\n    %e: f32[2, 3] = aten.exp.default(self=%d)\n    output %e\n  }, [%x], [])\n",
                       "  output %y = user\n"));
  };
  EXPECT_EQ(loop("f32[2, 3]", "f32[2, 3]"), "accepted");
  EXPECT_EQ(loop("f32[9, 9]", "f32[2, 3]"),
            "K0237: the program says that a is f32[9, 9], but gets y, which is f32[2, 3]");
  EXPECT_EQ(loop("f32[2, 3]", "f32[2, 3]\n    input %f: f32[2, 3]"), "K0231: subgraph b takes 2 values and gets 1");
}

TEST(CheckTypes, WhatIsIteratedOverIsWhatTheSubgraphTakes) {
  auto map = [](const std::string& input, const std::string& output, const std::string& result) {
    return refusal(str("  %y: ", result, " = higher_order.map_impl(graph b {\n    input %a: ", input, "\n    %e: ",
                       output, " = aten.exp.default(self=%a)\n    output %e\n  }, [%x], [])\n  output %y = user\n"));
  };
  EXPECT_EQ(map("f32[3]", "f32[3]", "f32[2, 3]"), "accepted");
  EXPECT_EQ(map("f32[300]", "f32[300]", "f32[2, 300]"), "K0237: x is f32[2, 3], but 2 times a is f32[2, 300]");
  EXPECT_EQ(map("f32[3]", "f32[3]", "f32[2, 2]"), "K0237: y is f32[2, 2], but 2 times e is f32[2, 3]");
  EXPECT_EQ(map("f32[3]", "f32[3]", "f32[1, 3]"), "K0237: y is f32[1, 3], but 2 times e is f32[2, 3]");
}

TEST(CheckTypes, SizesOfSubgraphsThatSymbolsLeaveOpenAreAsserted) {
  Program program = parse_program(
      "program \"m\"\nsymbol s0 [2, 64] hint 5\nsymbol s1 [2, 64] hint 5\ngraph main {\n"
      "  input %x: f32[s0, 3] = user\n  input %z: f32[s1, 3] = user\n  input %p: bool[] = user\n"
      "  %y: f32[s1, 3] = higher_order.cond(%p, graph t {\n    input %a: f32[s0, 3]\n"
      "    %e: f32[s0, 3] = aten.exp.default(self=%a)\n    output %e\n  }, graph f {\n    input %b: f32[s0, 3]\n"
      "    %g: f32[s0, 3] = aten.neg.default(self=%b)\n    output %g\n  }, [%x])\n  output %y = user\n}\n");
  resolve_operators(program.graph, {});
  const std::string text = loops::print(lower(program));
  EXPECT_NE(text.find("assert"), std::string::npos) << text;
  EXPECT_NE(text.find("the program says that size 0 of y is s1, but it is s0"), std::string::npos) << text;
}

// A number that is read from data, by what the file says of it: the loops, or the code of the refusal.
std::string reading(const std::string& body) {
  try {
    Program program = parse_program(
        "program \"m\"\nsymbol s0 [2, 64] hint 5\nsymbol u0 [0, 64] unbacked\n"
        "symbol u1 [0, 64] unbacked\ngraph main {\n  input %x: f32[s0] = user\n"
        "  input %n: i64[] = user\n  input %p: bool[] = user\n  input %f: f32[] = user\n" +
        body + "}\n");
    resolve_operators(program.graph, {});
    return loops::print(lower(program));
  } catch (const Error& error) {
    return error.code();
  }
}

TEST(CheckTypes, ANumberReadFromDataIsBoundOnceAndComparedAfterwards) {
  auto item = [](const std::string& said, const std::string& tensor, const std::string& kind) {
    return reading(str("  %k: ", kind, " {", said, "} = aten.item.default(self=%", tensor, ")\n  output %k = user\n"));
  };
  const std::string relies = "the number read from a tensor is not the one that the program relies on";
  EXPECT_EQ(item("u0", "n", "int").find(relies), std::string::npos);
  EXPECT_NE(item("s0", "n", "int").find(relies), std::string::npos);
  EXPECT_NE(item("s0 == 3", "p", "boolean").find(relies), std::string::npos);
  EXPECT_EQ(item("u0 == 1", "p", "boolean").find(relies), std::string::npos);
  EXPECT_EQ(item("u0*2", "n", "int"), "K0304");
  EXPECT_EQ(item("u0 + u1", "n", "int"), "K0304");
  EXPECT_EQ(item("2.5", "f", "float"), "K0304");
}

TEST(CheckTypes, ASizeIsNotReadFromData) {
  EXPECT_EQ(reading("  %k: int {u0} = aten.sym_size.int(self=%x, dim=0)\n  output %k = user\n"), "K0304");
}

// The strides that the plan asks of an input, for what the file says of it.
std::string input_strides(const std::string& type) {
  Program program = parse_program(str("program \"m\"\nsymbol s0 [2, 64] hint 5\ngraph main {\n  input %x: ", type,
                                      " = user\n  output %x = user\n}\n"));
  resolve_operators(program.graph, {});
  return shape_text(lower(program).buffers.at(0).strides);
}

TEST(CheckTypes, AnInputIsNotCopiedIntoALayoutWhereElementsMeet) {
  EXPECT_EQ(input_strides("f32[2, 3] strides [1, 2]"), "1, 2");
  EXPECT_EQ(input_strides("f32[2, 3] strides [8, 2]"), "8, 2");
  EXPECT_EQ(input_strides("f32[2, 3] strides [0, 1]"), "3, 1");
  EXPECT_EQ(input_strides("f32[2, 3] strides [2, 1]"), "3, 1");
  EXPECT_EQ(input_strides("f32[3, s0] strides [s0, 1]"), "s0, 1");
  EXPECT_EQ(input_strides("f32[3, s0] strides [2*s0, 2]"), "s0*2, 2");
  EXPECT_EQ(input_strides("f32[3, s0] strides [5, 1]"), "s0, 1");  // apart for the export's 5, not for 6
}

}  // namespace
}  // namespace kiln
