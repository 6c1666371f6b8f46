#include "graph_passes/vmap_regions.h"

#include <gtest/gtest.h>

#include "ops/op_record.h"

namespace kiln {
namespace {

Program mapped_program_of(const std::string& body) {
  Program program = parse_program("program \"test\"\ngraph main {\n" + body + "}\n");
  resolve_operators(program.graph, {});
  return program;
}

std::string code_of(Program& program, std::string& message) {
  try {
    expand_vmap_regions(program.graph, program.ranges());
  } catch (const Error& error) {
    message = error.message();
    return error.code();
  }
  return "none";
}

TEST(VmapRegions, BecomeMaps) {
  Program program = mapped_program_of(R"(
  input %x: f32[3, 4] = user
  input %w: f32[3] = user
  torch._functorch.predispatch.lazy_load_decompositions() named lazy
  torch._functorch.predispatch._vmap_increment_nesting(4, "error") named begin
  %a: f32[3] strides [4] = torch._functorch.predispatch._add_batch_dim(%x, 1, 1)
  %b: f32[3] = aten.mul.Tensor(self=%a, other=%w)
  %y: f32[3, 4] strides [1, 3] = torch._functorch.predispatch._remove_batch_dim(%b, 1, 4, 1)
  torch._functorch.predispatch._vmap_decrement_nesting() named end
  output %y = user
)");
  EXPECT_TRUE(expand_vmap_regions(program.graph, program.ranges()));
  verify(program);
  const std::string text = print(program.graph);
  EXPECT_FALSE(has_vmap_regions(program.graph));
  EXPECT_NE(text.find("aten.movedim.int(self=%x, source=1, destination=0)"), std::string::npos) << text;
  EXPECT_NE(text.find("higher_order.map_impl(graph vmap"), std::string::npos) << text;
  EXPECT_NE(text.find("}, [%movedim], [%w])"), std::string::npos) << text;
  EXPECT_NE(text.find("source=0, destination=1)"), std::string::npos) << text;
}

TEST(VmapRegions, InsideEachOther) {
  Program program = mapped_program_of(R"(
  input %x: f32[2, 3] = user
  torch._functorch.predispatch._vmap_increment_nesting(2, "error") named begin1
  %a: f32[3] = torch._functorch.predispatch._add_batch_dim(%x, 0, 1)
  torch._functorch.predispatch._vmap_increment_nesting(3, "error") named begin2
  %b: f32[] = torch._functorch.predispatch._add_batch_dim(%a, 0, 2)
  %c: f32[] = aten.neg.default(self=%b)
  %d: f32[3] = torch._functorch.predispatch._remove_batch_dim(%c, 2, 3, 0)
  torch._functorch.predispatch._vmap_decrement_nesting() named end2
  %e: f32[2, 3] = torch._functorch.predispatch._remove_batch_dim(%d, 1, 2, 0)
  torch._functorch.predispatch._vmap_decrement_nesting() named end1
  output %e = user
)");
  EXPECT_TRUE(expand_vmap_regions(program.graph, program.ranges()));
  verify(program);
  ASSERT_EQ(program.graph.nodes.size(), 1u);
  const Node& outer = *program.graph.nodes.front();
  ASSERT_TRUE(outer.args.at(0).arg.is_graph());
  EXPECT_EQ(outer.args[0].arg.as_graph()->nodes.front()->target, "higher_order.map_impl");
}

TEST(VmapRegions, WhatCannotBecomeAMapIsRefused) {
  const std::string begin = R"(
  input %x: f32[4, 3] = user
  torch._functorch.predispatch._vmap_increment_nesting(4, "same") named begin
  %a: f32[3] = torch._functorch.predispatch._add_batch_dim(%x, 0, 1)
)";
  std::string message;
  Program open = mapped_program_of(begin + "  output %a = user\n");
  EXPECT_EQ(code_of(open, message), "K0236");
  EXPECT_NE(message.find("does not end"), std::string::npos) << message;
  Program escapes = mapped_program_of(
      begin + "  torch._functorch.predispatch._vmap_decrement_nesting() named end\n  output %a = user\n");
  EXPECT_EQ(code_of(escapes, message), "K0236");
  EXPECT_NE(message.find("a leaves the function"), std::string::npos) << message;
  Program random = mapped_program_of(begin + R"(  %r: f32[3] = aten.rand_like.default(self=%a)
  %y: f32[4, 3] = torch._functorch.predispatch._remove_batch_dim(%r, 1, 4, 0)
  torch._functorch.predispatch._vmap_decrement_nesting() named end
  output %y = user
)");
  EXPECT_EQ(code_of(random, message), "K0236");
  EXPECT_NE(message.find("the same numbers"), std::string::npos) << message;
}

}  // namespace
}  // namespace kiln
