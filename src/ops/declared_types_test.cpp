// What a program says of its values against what its operators give.
#include "ops/declared_types.h"

#include <gtest/gtest.h>

#include "ops/op_record.h"

namespace kiln {
namespace {

std::string refusal(const std::string& body) {
  try {
    Program program = parse_program(
        "program \"m\"\nsymbol s0 [2, 64] hint 5\ngraph main {\n"
        "  input %x: f32[2, 3] = user\n  input %d: f32[s0, 3] = user\n" +
        body + "}\n");
    resolve_operators(program.graph, {});
    check_declared_types(program);
  } catch (const Error& error) {
    return error.code();
  }
  return "accepted";
}

TEST(DeclaredTypes, ANewTensorMayBeLaidOutInAnyOrder) {
  auto exp = [](const std::string& type) {
    return refusal(str("  %y: ", type, " = aten.exp.default(self=%x)\n  output %y = user\n"));
  };
  EXPECT_EQ(exp("f32[2, 3]"), "accepted");
  EXPECT_EQ(exp("f32[2, 3] strides [1, 2]"), "accepted");
  EXPECT_EQ(exp("f32[2, 3] strides [0, 1]"), "K0242");
  EXPECT_EQ(exp("f32[2, 3] strides [30, 1]"), "K0242");
  EXPECT_EQ(exp("f16[2, 3]"), "K0237");
  EXPECT_EQ(exp("f64[2, 3]"), "K0237");
  EXPECT_EQ(exp("f32[2, 4]"), "K0237");
}

// On a GPU the mean and the deviation of bf16 are f32, on the CPU bf16; the result itself is what its argument is.
TEST(DeclaredTypes, StatisticsAreAsTheDeviceGivesThem) {
  auto norm = [](const std::string& y, const std::string& mean, const std::string& deviation) {
    return refusal(
        str("  %h: bf16[2, 3] = aten._to_copy.default(self=%x, dtype=bf16)\n  %w: bf16[3] = aten.select.int(self=%h, "
            "dim=0, index=0)\n  %y: ",
            y, "[2, 3], %m: ", mean, "[2, 1], %r: ", deviation,
            "[2, 1] = aten.native_layer_norm.default(input=%h, normalized_shape=[3], weight=%w, bias=%w, "
            "eps=0.1)\n  output %y = user\n  output %m = user\n  output %r = user\n"));
  };
  EXPECT_EQ(norm("bf16", "bf16", "bf16"), "accepted");
  EXPECT_EQ(norm("bf16", "f32", "f32"), "accepted");
  EXPECT_EQ(norm("f32", "f32", "f32"), "K0237");
  EXPECT_EQ(norm("bf16", "f16", "bf16"), "K0237");
}

TEST(DeclaredTypes, SoMayWhatALibraryKernelMakes) {
  auto top = [](const std::string& strides) {
    return refusal(str("  %v: f32[2, 2], %i: i64[2, 2] strides [", strides,
                       "] = aten.topk.default(self=%x, k=2)\n  output %v = user\n  output %i = user\n"));
  };
  EXPECT_EQ(top("2, 1"), "accepted");
  EXPECT_EQ(top("1, 2"), "accepted");
  EXPECT_EQ(top("2, 9"), "K0242");
}

TEST(DeclaredTypes, SoMayWhatABranchGives) {
  auto cond = [](const std::string& strides) {
    return refusal(str("  %y: f32[2, 3] strides [", strides, "] = higher_order.cond(true, graph t {\n",
                       "    input %a: f32[2, 3]\n    %e: f32[2, 3] = aten.exp.default(self=%a)\n    output %e\n",
                       "  }, graph f {\n    input %b: f32[2, 3]\n    %g: f32[2, 3] = aten.neg.default(self=%b)\n",
                       "    output %g\n  }, [%x])\n  output %y = user\n"));
  };
  EXPECT_EQ(cond("3, 1"), "accepted");
  EXPECT_EQ(cond("1, 2"), "accepted");
  EXPECT_EQ(cond("3, 9"), "K0242");
}

TEST(DeclaredTypes, AViewLiesWhereItsOperatorPutsIt) {
  auto transposed = [](const std::string& layout) {
    return refusal(str("  %y: f32[3, 2] ", layout, " = aten.t.default(self=%x)\n  output %y = user\n"));
  };
  EXPECT_EQ(transposed("strides [1, 3]"), "accepted");
  EXPECT_EQ(transposed("strides [2, 1]"), "K0242");
  EXPECT_EQ(transposed("strides [1, 3] offset {1}"), "K0242");
}

// torch.export.load forgets the offsets of views; a file that was loaded and saved again says 0.
TEST(DeclaredTypes, AViewThatSaysNothingOfItsBeginBeginsWhereItsOperatorPutsIt) {
  auto column = [](const std::string& layout) {
    return refusal(str("  %y: f32[2] ", layout, " = aten.select.int(self=%x, dim=1, index=2)\n  output %y = user\n"));
  };
  EXPECT_EQ(column("strides [3] offset {2}"), "accepted");
  EXPECT_EQ(column("strides [3]"), "accepted");
  EXPECT_EQ(column("strides [3] offset {1}"), "K0242");
}

// Sizes that fit for one value of a symbol only are refused, or looked at in the call.
TEST(DeclaredTypes, NewSizesHoldAsManyElements) {
  auto view = [](const std::string& sizes) {
    return refusal(
        str("  %y: f32[", sizes, "] = aten.view.default(self=%d, size=[", sizes, "])\n  output %y = user\n"));
  };
  EXPECT_EQ(view("5, 4, 100"), "K0207");
}

TEST(DeclaredTypes, ANumberIsWhatItsOperatorGives) {
  auto size = [](const std::string& expression) {
    return refusal(str("  %n: int {", expression, "} = aten.sym_size.int(self=%d, dim=0)\n  output %n = user\n"));
  };
  EXPECT_EQ(size("s0"), "accepted");
  EXPECT_EQ(size("3"), "K0237");
  EXPECT_EQ(size("s0 + 1"), "K0237");
}

// Assertions that the check put into the program, as text.
std::string asserted(const std::string& body) {
  Program program = parse_program(
      "program \"m\"\nsymbol s0 [1, 64] hint 5\nsymbol s1 [1, 64] hint 5\nsymbol u0 [0, 64] unbacked\n"
      "symbol u1 [0, 64] unbacked\nsymbol u2 [0, 999] unbacked\nsymbol u3 [0, 64] unbacked\nsymbol u4 [0, 999] "
      "unbacked\ngraph main {\n"
      "  input %x: f32[s0, 3] = user\n  input %y: f32[s1, 3] = user\n  input %n: i64[] = user\n"
      "  %k: int {u0} = aten.item.default(self=%n)\n" +
      body + "}\n");
  resolve_operators(program.graph, {});
  try {
    check_declared_types(program);
  } catch (const Error& error) {
    return error.code();
  }
  verify(program);
  std::vector<std::string> conditions;
  for (const auto& node : program.graph.nodes)
    if (node->op->kind == OpKind::assertion) conditions.push_back(node->find("self")->as_value()->expr.text());
  return join(conditions, "; ");
}

TEST(DeclaredTypes, WhatSymbolsLeaveOpenIsAssertedInEveryCall) {
  auto exp = [](const std::string& sizes) {
    return asserted(str("  %z: f32[", sizes, "] = aten.exp.default(self=%x)\n  output %z = user\n"));
  };
  EXPECT_EQ(exp("s0, 3"), "");
  EXPECT_EQ(exp("s1, 3"), "s0 == s1");  // the same at the export
  EXPECT_EQ(exp("5, 3"), "s0 == 5");
  EXPECT_EQ(exp("u0, 3"), "s0 == u0");
  EXPECT_EQ(exp("3, s0"), "K0237");  // another one at the export
  EXPECT_EQ(exp("s0 + 1, 3"), "K0237");
  EXPECT_EQ(exp("u1 + 1, 3"), "K0237");  // nothing gives u1 a value
  EXPECT_EQ(exp("u1, 3"), "");           // a name for what the export did not know
}

TEST(DeclaredTypes, AViewsLayoutIsAssertedWhereItMatters) {
  auto transposed = [](const std::string& strides) {
    return asserted(str("  %z: f32[3, s0] strides [", strides, "] = aten.t.default(self=%x)\n",
                        "  %w: f32[s0, 3] strides [3, 1] = aten.t.default(self=%z)\n  output %w = user\n"));
  };
  EXPECT_EQ(transposed("1, 3"), "");
  EXPECT_EQ(transposed("1, s1 - 2"), "s0 == 0 or s0 == 1 or s1 - 2 == 3");
  EXPECT_EQ(transposed("1, s1"), "K0242");
}

TEST(DeclaredTypes, ANumberIsAssertedToo) {
  auto size = [](const std::string& said) {
    return asserted(str("  %m: int {", said, "} = aten.sym_size.int(self=%x, dim=0)\n  output %m = user\n"));
  };
  EXPECT_EQ(size("s0"), "");
  EXPECT_EQ(size("s1"), "s0 == s1");
  EXPECT_EQ(size("u1"), "K0237");  // a number that has a rule has no name of its own
}

TEST(DeclaredTypes, ANameStandsForOneThing) {
  auto slices = [](const std::string& second, const std::string& more = "") {
    return asserted("  %a: f32[u1, 3] offset {u2} = aten.slice.Tensor(self=%x, dim=0, start=%k)\n" + more +
                    "  %b: f32" + second + " = aten.slice.Tensor(self=%y, dim=0, start=%k)\n  output %b = user\n");
  };
  EXPECT_EQ(slices("[u3, 3] offset {u4}"), "");
  EXPECT_EQ(slices("[u1, 3] offset {u4}").find("u1 == "), 0u);  // u1 has a value by then
  EXPECT_NE(slices("[u3, 3] offset {u2}"), "");                 // u2 has none: the offsets are compared
  EXPECT_EQ(slices("[u3, 3] offset {u4}", "  %m: int {u2} = aten.item.default(self=%n)\n"), "K0237");
}

TEST(DeclaredTypes, WhatTheProgramAssertsIsNotAssertedTwice) {
  EXPECT_EQ(asserted("  %e: boolean {s0 == s1} = _operator.eq(a={s0}, b={s1})\n"
                     "  aten._assert_scalar.default(self=%e, assert_msg=\"equal\") named a1\n"
                     "  %z: f32[s1, 3] = aten.exp.default(self=%x)\n  output %z = user\n"),
            "s0 == s1");
}

TEST(DeclaredTypes, NoSizeIsNegative) {
  EXPECT_EQ(refusal("  %y: f32[2, 3] = aten.full.default(size=[2, -3], fill_value=1)\n  output %y = user\n"), "K0201");
  EXPECT_EQ(refusal("  %y: f32[2, 3] strides [3, 1] = aten.expand.default(self=%x, size=[2, -2])\n"
                    "  output %y = user\n"),
            "K0208");
}

TEST(DeclaredTypes, RavelOfEverySecondElementIsACopy) {
  const std::string part = "  %p: f32[2, 2] strides [3, 2] = aten.slice.Tensor(self=%x, dim=1, step=2)\n";
  const std::string row = "  %q: f32[2] strides [2] = aten.select.int(self=%p, dim=0, index=0)\n";
  EXPECT_EQ(refusal(part + row + "  %y: f32[2] = aten.ravel.default(self=%q)\n  output %y = user\n"), "accepted");
}

}  // namespace
}  // namespace kiln
