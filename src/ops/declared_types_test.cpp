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

TEST(DeclaredTypes, AViewLiesWhereItsOperatorPutsIt) {
  auto transposed = [](const std::string& layout) {
    return refusal(str("  %y: f32[3, 2] ", layout, " = aten.t.default(self=%x)\n  output %y = user\n"));
  };
  EXPECT_EQ(transposed("strides [1, 3]"), "accepted");
  EXPECT_EQ(transposed("strides [2, 1]"), "K0242");
  EXPECT_EQ(transposed("strides [1, 3] offset {1}"), "K0242");
}

TEST(DeclaredTypes, ANumberIsWhatItsOperatorGives) {
  auto size = [](const std::string& expression) {
    return refusal(str("  %n: int {", expression, "} = aten.sym_size.int(self=%d, dim=0)\n  output %n = user\n"));
  };
  EXPECT_EQ(size("s0"), "accepted");
  EXPECT_EQ(size("3"), "K0237");
  EXPECT_EQ(size("s0 + 1"), "K0237");
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
