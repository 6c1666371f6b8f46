#include "inspect/inspect.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/zip.h"
#include "inspect/inspect_table.h"

namespace kiln {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Program small_program() {
  Program program;
  program.name = "small";
  program.torch_version = "2.15";
  Value* weight = program.graph.add_input("p_weight", ValueKind::tensor);
  weight->type = contiguous_type(DType::f32, {4});
  Value* x = program.graph.add_input("x", ValueKind::tensor);
  x->type = contiguous_type(DType::f32, {Expr::symbol("s0"), 4});
  Node* node = program.graph.add_node("aten.add.Tensor", "add");
  node->args = {{"self", Argument(x)}, {"other", Argument(weight)}};
  Value* sum = program.graph.add_result(node, "add", ValueKind::tensor);
  sum->type = x->type;
  program.graph.outputs = {Argument(sum)};
  program.input_specs.resize(2);
  program.input_specs[0].kind = InputKind::parameter;
  program.input_specs[0].target = "layer.weight";
  program.output_specs.resize(1);
  program.symbols["s0"] = {"s0", {2, 1024}, 8, false};
  program.guards.push_back({Expr::make(ExprOp::le, {Expr::symbol("s0"), Expr(1024)}), "range of s0 in the export"});
  program.constants["layer.weight"] = Tensor::empty(DType::f32, {4});
  return program;
}

TEST(Inspect, AProgramsSections) {
  const std::string text = inspect_program(small_program(), "m.pt2");
  for (const char* part :
       {"m.pt2: exported program 'small', 1 node", "torch 2.15", "device cpu", "0  x  float32[s0, 4]",
        "0  add  float32[s0, 4]", "s0  2 … 1024  hint 8  x.size(0)", "because: range of s0 in the export",
        "weights, 16 B in all", "layer.weight  float32[4]", "parameter", "aten.add.Tensor"})
    EXPECT_TRUE(has(text, part)) << part << "\nis not in\n" << text;
}

format::Plan small_plan() {
  format::Plan plan;
  plan.model_name = "small";
  plan.kiln_version = "0.1.0";
  plan.exprs = {{{}, false, "s0"}, {{}, false, "4"}};
  plan.symbols = {{"s0", format::SymbolSource::input_size, 0, 0, 2, 1024}};
  format::Input input;
  input.name = "x";
  input.buffer = 0;
  plan.inputs = {input};
  format::Output output;
  output.name = "add";
  output.buffer = 1;
  plan.outputs = {output};
  plan.buffers.resize(2);
  for (format::Buffer& buffer : plan.buffers) {
    buffer.dtype = DType::f32;
    buffer.sizes = {0, 1};
  }
  plan.guards = {{0, "s0 <= 1024", "range of s0 in the export"}};
  plan.kernels.resize(1);
  format::Step kernel;
  kernel.name = "cpp_fused_add_0";
  kernel.number = 3;
  kernel.kernel = 0;
  kernel.items = 0;
  format::Step branch;
  branch.kind = format::StepKind::cond;
  branch.number = 4;
  branch.blocks = {{kernel}, {}};
  plan.steps = {kernel, branch};
  plan.code = {{"x86-64-v3", "entry"}};
  return plan;
}

TEST(Inspect, APlansSections) {
  format::Origins origins;
  origins.steps = {{3, {"add"}, {"aten.add.Tensor"}, {"layers.3"}, {"model.py:42 in forward:  y = x + 1"}, {}, {}}};
  const std::string text = inspect_plan(small_plan(), {0, "x86-64-v3"}, &origins, "m.kiln.pt2");
  for (const char* part :
       {"m.kiln.pt2: package of 'small' by Kiln 0.1.0", "code for x86-64-v3", "0  x  float32[s0, 4]",
        "s0  2 … 1024  x.size(0)", "s0 <= 1024  because: range of s0 in the export", "3  cpp_fused_add_0  items s0",
        "aten.add.Tensor (add) in layers.3  at model.py:42 in forward:  y = x + 1", "then", "else"})
    EXPECT_TRUE(has(text, part)) << part << "\nis not in\n" << text;
}

TEST(Inspect, SaysWhenOriginsAreMissing) {
  EXPECT_TRUE(has(inspect_plan(small_plan(), {}, nullptr, "m"), "no origins: the debug section was stripped"));
}

TEST(Inspect, SaysWhichTargetIsShownAndWhatIsFrozen) {
  format::Plan plan = small_plan();
  plan.code.push_back({"x86-64-v4", "other"});
  EXPECT_TRUE(has(inspect_plan(plan, {1, "x86-64-v4", "plan_4", true}, nullptr, "m"),
                  "code for x86-64-v3, x86-64-v4; shown is x86-64-v4, which this machine runs\n"));
  EXPECT_TRUE(has(inspect_plan(plan, {0, "x86-64-v3"}, nullptr, "m"), "the first: this machine runs none of them"));
  format::Step packing = plan.steps[0];
  packing.name = "cpp_fused_pack_0";
  packing.args = {{0, Access::read}, {1, Access::write}};
  plan.init = {packing};
  const TargetPlan target{0, "x86-64-v3"};
  EXPECT_TRUE(has(inspect_plan(plan, target, nullptr, "m"), "steps when weights are loaded\n  3  cpp_fused_pack_0"));
  plan.buffers[1].role = format::BufferRole::derived;
  plan.buffers[1].entry = "packed/0";
  const std::string frozen = inspect_plan(plan, target, nullptr, "m");
  EXPECT_TRUE(has(frozen, "steps whose results are in the package, for x86-64-v3 (freezing)")) << frozen;
  EXPECT_FALSE(has(frozen, "steps when weights are loaded")) << frozen;
  EXPECT_TRUE(has(json_text(inspect_plan_json(plan, target, nullptr)), R"("steps_when_loaded":[])"));
}

TEST(Inspect, VerifiesEveryByte) {
  std::string archive;
  ZipWriter zip([&](ByteSpan bytes) { archive += as_text(bytes); });
  zip.add("m/plan", std::string_view("a plan"));
  zip.add("m/weights/weight_0", std::string(5000, 'w'));
  zip.finish();
  const TemporaryDirectory folder;
  const std::string path = join_path(folder.path(), "m.pt2");
  write_file_atomic(path, archive);
  const Verified good = verify_file(path);
  EXPECT_TRUE(good.sound);
  EXPECT_TRUE(has(good.text, "2 entries, ")) << good.text;
  EXPECT_TRUE(has(good.text, "every entry has its checksum")) << good.text;
  archive[archive.find("wwww") + 4321] ^= 16;
  write_file_atomic(path, archive);
  const Verified bad = verify_file(path);
  EXPECT_FALSE(bad.sound);
  EXPECT_TRUE(has(bad.text, "ok       m/plan")) << bad.text;
  EXPECT_TRUE(has(bad.text, "DAMAGED  m/weights/weight_0")) << bad.text;
  EXPECT_TRUE(has(bad.text, "1 of 2 entries is damaged")) << bad.text;
}

TEST(Inspect, TablesAlignByCharacters) {
  TextTable table;
  table.row({"a…b", "x"});
  table.row({"abcd", "y"});
  EXPECT_EQ(table.text(), "  a…b   x\n  abcd  y\n");
  EXPECT_EQ(text_section("title", TextTable()), "");
  EXPECT_EQ(text_section("title", TextTable(), "none"), "\ntitle\n  none\n");
}

}  // namespace
}  // namespace kiln
