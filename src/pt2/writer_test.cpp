#include "pt2/writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "pt2/reader.h"

namespace kiln {
namespace {

std::string bytes_of(const Program& program, const std::vector<Datum>& samples) {
  std::string out;
  write_pt2(program, samples, [&out](ByteSpan bytes) { out += as_text(bytes); });
  return out;
}
Program read_written(const std::string& bytes) { return read_pt2(as_bytes(bytes), nullptr, "input"); }
Program again(const Program& program) { return read_written(bytes_of(program, program.sample_inputs)); }

Tensor integers(std::vector<int64_t> sizes) {
  Tensor tensor = Tensor::empty(DType::f32, std::move(sizes));
  for (int64_t i = 0; i < tensor.numel(); ++i) tensor.set_item(i, static_cast<double>(i));
  return tensor;
}

// x[s0 + 1, 3], and what `body` computes from it.
Program program_with(const std::string& body) {
  return parse_program(str("program \"model\"\nsymbol s0 [1, 64] hint 4\nguard {s0 % 4 == 0} because \"a wish\"\n",
                           "graph main {\n  input %x: f32[s0 + 1, 3] = user\n", body, "}\n"));
}

std::vector<std::string> models() {
  std::vector<std::string> out;
  const char* source = std::getenv("KILN_SOURCE_DIR");
  const std::string root = source != nullptr ? source : ".";
  for (const std::string& name : list_directory(root + "/tests/cases"))
    if (const std::string model = root + "/tests/cases/" + name + "/model.pt2"; file_exists(model))
      out.push_back(model);
  const char* corpus = std::getenv("KILN_CORPUS");
  const std::string folder = corpus != nullptr ? corpus : root + "/../shared/corpus";
  if (is_directory(folder + "/programs"))
    for (const auto& entry : std::filesystem::directory_iterator(folder + "/programs"))
      if (const std::string model = entry.path().string() + "/model.pt2"; file_exists(model)) out.push_back(model);
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Pt2Writer, ReadsBackAsTheSameProgram) {
  ASSERT_FALSE(models().empty());
  for (const std::string& path : models()) {
    SCOPED_TRACE(path);
    const Program program = read_pt2(path);
    const std::string bytes = bytes_of(program, program.sample_inputs);
    const Program back = read_written(bytes);
    verify(back);
    EXPECT_EQ(print(back), print(program));
    ASSERT_EQ(back.sample_inputs.size(), program.sample_inputs.size());
    EXPECT_EQ(bytes_of(back, back.sample_inputs), bytes);
  }
}

TEST(Pt2Writer, TheUsersOwnFilesComeAlong) {
  const Program program = read_pt2(models().front());
  const TemporaryDirectory folder;
  const std::string path = join_path(folder.path(), "copy.pt2");
  const std::map<std::string, std::string> files = {{"labels.txt", "cat\ndog"}, {"sub/empty", ""}};
  write_pt2(program, path, program.sample_inputs, files);
  EXPECT_EQ(read_extra_files(path), files);
  write_pt2(program, path);
  EXPECT_TRUE(read_extra_files(path).empty());
}

TEST(Pt2Writer, ExpressionsBecomeNodes) {
  const Program program = program_with(
      "  %y: f32[2*s0, 3] = aten.expand.default(self=%x, size=[{2*s0}, 3])\n"
      "  output %y = user\n  output {s0} = user\n");
  const Program back = again(program);
  verify(back);
  std::vector<std::string> targets;
  for (const auto& node : back.graph.nodes) targets.push_back(node->target);
  EXPECT_EQ(targets,
            (std::vector<std::string>{"aten.sym_size.int", "_operator.sub", "_operator.mul", "aten.expand.default"}));
  ASSERT_TRUE(back.graph.outputs[1].is_value());
  EXPECT_EQ(back.graph.outputs[1].as_value()->expr, Expr::symbol("s0"));
  EXPECT_EQ(back.symbols.at("s0").hint, 4);
}

TEST(Pt2Writer, SymbolsThatNothingGivesAreRefused) {
  Program program = program_with("  output %x = user\n");
  program.symbols["u7"] = SymbolInfo{"u7", {}, {}, true};
  program.graph.outputs.emplace_back(Expr::symbol("u7"));
  program.output_specs.emplace_back();
  try {
    again(program);
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0167");
  }
}

TEST(Pt2Writer, MutationsComeFirstAndNamesBecomeIdentifiers) {
  Program program = program_with(
      "  %\"in\": f32[s0 + 1, 3] = aten.relu.default(self=%x)\n"
      "  %\"1.b\": f32[s0 + 1, 3] = aten.neg.default(self=%x)\n"
      "  output %\"in\" = user\n  output %\"1.b\" = user_input_mutation \"x\"\n");
  const Program back = again(program);
  verify(back);
  ASSERT_EQ(back.output_specs.size(), 2u);
  EXPECT_EQ(back.output_specs[0].kind, OutputKind::user_input_mutation);
  EXPECT_EQ(back.graph.outputs[0].as_value()->name, "v_1_b");
  EXPECT_EQ(back.graph.outputs[1].as_value()->name, "in_1");
}

TEST(Pt2Writer, SampleInputsNeedOneForEachInput) {
  const Program program = program_with("  output %x = user\n");
  const Program back = read_written(bytes_of(program, {Datum{integers({5, 3})}}));
  ASSERT_EQ(back.sample_inputs.size(), 1u);
  EXPECT_EQ(back.sample_inputs[0].tensor().item(14).as_double(), 14.0);
  EXPECT_THROW(bytes_of(program, {Datum{integers({5, 3})}, Datum{}}), Error);
}

TEST(Pt2Writer, TreesOfPythonsOwnTypesKeepTheirSamplesFlat) {
  Program program = program_with("  output %x = user\n");
  program.in_spec = R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [)"
                    R"({"type": "builtins.tuple", "context": "null", "children_spec": [)"
                    R"({"type": "somewhere.Cache", "context": "[]", "children_spec": [)"
                    R"({"type": null, "context": null, "children_spec": []}]}]}, )"
                    R"({"type": "builtins.dict", "context": "[]", "children_spec": []}]}])";
  const Program back = read_written(bytes_of(program, {Datum{integers({5, 3})}}));
  EXPECT_EQ(back.in_spec, program.in_spec);
  EXPECT_EQ(back.sample_inputs.size(), 1u);
}

TEST(Pt2Writer, GuardsAreMadeFromSizesOfInputs) {
  Program program = parse_program(
      "program \"model\"\nsymbol s0 [1, 64] hint 4\nsymbol s1 [1, 64] hint 4\n"
      "guard {s0 % 4 == 0} because \"a wish\"\nguard {s0 + s1 <= 90} because \"L['gone'].size()[0] <= 90\"\n"
      "graph main {\n  input %x: f32[s0, s1] = user\n  output %x = user\n}\n");
  const Program back = again(program);
  ASSERT_EQ(back.guards.size(), program.guards.size() + 2);  // and the ranges of both
  std::vector<std::string> reasons;
  for (const Guard& guard : back.guards) reasons.push_back(guard.reason);
  EXPECT_NE(std::find(reasons.begin(), reasons.end(), "L['x'].size()[0] % 4 == 0"), reasons.end());
  EXPECT_EQ(print(again(back)), print(back));
}

}  // namespace
}  // namespace kiln
