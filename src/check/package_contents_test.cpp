// What a package keeps of its model and of the compile: metadata, names of outputs, defaults of its runs; where errors
// of its kernels lie; the device.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/zip.h"
#include "check/check_case.h"
#include "compile/compile.h"
#include "compile/program_device.h"
#include "executable/package_executable.h"
#include "inspect/inspect.h"
#include "pt2/pytree.h"
#include "pt2/reader.h"

namespace kiln {
namespace {

std::string contents_case_path(const char* name) {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  return join_path(join_path(join_path(source ? source : ".", "tests/cases"), name), "model.pt2");
}

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class PackageContentsTest : public testing::Test {
 protected:
  std::string in(const char* name) const { return join_path(directory_.path(), name); }

  CompileReport compile_with(const std::string& model, const std::vector<std::string>& assignments = {},
                             const std::string& device = "") {
    Settings settings(Phase::compile);
    for (const std::string& assignment : assignments) settings.set(assignment);
    CompileOptions options;
    options.settings = &settings;
    options.device = device;
    return compile(model, in("p.pt2"), options);
  }

  // A copy of an archive with other texts in its JSON files, and more entries.
  std::string edited(const std::string& path, const std::string& from, const std::string& to,
                     const std::vector<std::pair<std::string, std::string>>& more = {}) {
    const auto file = MappedFile::open(path);
    const ZipReader zip(file->bytes(), path);
    const std::string out = in("edited.pt2");
    AtomicFile written(out);
    ZipWriter writer([&](ByteSpan bytes) { written.write(bytes); });
    for (const ZipEntry& entry : zip.entries()) {
      std::string bytes(as_text(zip.stored(entry)));
      if (!from.empty() && ends_with(entry.name, ".json")) bytes = replace_all(bytes, from, to);
      writer.add(entry.name, bytes);
    }
    const std::string root = zip.entries()[0].name.substr(0, zip.entries()[0].name.find('/') + 1);
    for (const auto& [name, text] : more) writer.add(root + name, text);
    writer.finish();
    written.commit();
    return out;
  }

  TemporaryDirectory directory_;
};

TEST_F(PackageContentsTest, SaysWhatItWasCompiledWith) {
  compile_with(contents_case_path("relu"), {"freezing=1", "float32_matmul_precision=high"});
  EXPECT_NE(inspect_file(in("p.pt2")).find("\ncompiled with\n  freezing=1\n  float32_matmul_precision=high\n"),
            std::string::npos)
      << inspect_file(in("p.pt2"));
  compile_with(contents_case_path("relu"));
  EXPECT_EQ(inspect_file(in("p.pt2")).find("compiled with"), std::string::npos);
}

TEST_F(PackageContentsTest, KeepsTheUsersMetadata) {
  const std::string model =
      edited(contents_case_path("relu"), "", "", {{"extra/author", "me"}, {"extra/notes/readme.txt", "one\ntwo"}});
  EXPECT_NE(inspect_file(model).find("metadata author = me"), std::string::npos);
  compile_with(model, {R"(aot_inductor.metadata={"stage": "test", "author": "you", "n": 3})"});
  const std::string text = inspect_file(in("p.pt2"));
  EXPECT_NE(text.find("metadata author = you\n"), std::string::npos) << text.substr(0, 600);
  EXPECT_NE(text.find("metadata stage = test\n"), std::string::npos);
  EXPECT_NE(text.find("metadata n = 3\n"), std::string::npos);
  EXPECT_NE(text.find("metadata notes/readme.txt = \"one\\ntwo\", 7 bytes\n"), std::string::npos);
}

TEST_F(PackageContentsTest, KeepsSettingsOfRunsAsDefaults) {
  const CompileReport report =
      compile_with(contents_case_path("relu"), {"nan_asserts=1", "cpp.threads=1", "check_bounds=0"});
  EXPECT_NE(join(report.notes, "\n").find("the package keeps nan_asserts=1, cpp.threads=1 for its runs"),
            std::string::npos)
      << join(report.notes, "\n");
  EXPECT_NE(inspect_file(in("p.pt2")).find("settings that its runs start with\n  nan_asserts=1\n  cpp.threads=1\n"),
            std::string::npos);
  std::vector<Datum> inputs = *package_sample_inputs(in("p.pt2"));
  std::get<Tensor>(inputs[0].value).set_item(0, Scalar(std::nan("")));
  EXPECT_NE(error_of([&] { PackageExecutable(in("p.pt2"), {}).call(inputs); }).find("K0637"), std::string::npos);
  PackageOptions over;
  over.settings = {"nan_asserts=0"};
  EXPECT_EQ(error_of([&] { PackageExecutable(in("p.pt2"), over).call(inputs); }), "");
}

TEST_F(PackageContentsTest, OutputsCarryTheKeysOfTheResult) {
  EXPECT_EQ(output_keys(R"([1, {"type": "builtins.dict", "context": "[\"last_hidden_state\", \"past\"]",
      "children_spec": [{"type": null, "context": null, "children_spec": []},
      {"type": "builtins.list", "context": "null", "children_spec": [
        {"type": null, "context": null, "children_spec": []},
        {"type": null, "context": null, "children_spec": []}]}]}])"),
            (std::vector<std::string>{"last_hidden_state", "past.0", "past.1"}));
  EXPECT_EQ(output_keys(R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [
        {"type": null, "context": null, "children_spec": []}]}])"),
            std::vector<std::string>{""});
  const std::string leaf = R"({"type": null, "context": null, "children_spec": []})";
  // A dataclass: the fields that are there, and those that are None.
  EXPECT_EQ(
      output_keys(str(R"([1, {"type": "Out", "context": "[[\"logits\", \"loss\"], [\"hidden\"]]", "children_spec": [)",
                      leaf, ", ", leaf, "]}]")),
      (std::vector<std::string>{"logits", "loss"}));
  EXPECT_EQ(output_keys(str(R"([1, {"type": "Out", "context": "[[\"a\"], [\"b\"]]", "children_spec": [)", leaf, "]}]")),
            std::vector<std::string>{"a"});
  EXPECT_EQ(
      output_keys(str(R"([1, {"type": "collections.defaultdict", "context": "[\"list\", [\"a\"]]", "children_spec": [)",
                      leaf, "]}]")),
      std::vector<std::string>{"a"});
  EXPECT_EQ(output_keys(R"([1, {"type": "modeling.BaseModelOutput", "context": "[\"logits\"]", "children_spec": [
        {"type": null, "context": null, "children_spec": []}]}])"),
            std::vector<std::string>{"logits"});
  // {"a": [·, ·], "a.0": ·}; {1: ·, "1": ·}; a tuple's bare item goes by its number, whatever keys there are.
  EXPECT_EQ(output_keys(str(R"([1, {"type": "builtins.dict", "context": "[\"a\", \"a.0\"]", "children_spec": [)",
                            R"({"type": "builtins.list", "context": "null", "children_spec": [)", leaf, ", ", leaf,
                            "]}, ", leaf, "]}]")),
            (std::vector<std::string>{"a.0", "a.1", "a.0_1"}));
  EXPECT_EQ(output_keys(str(R"([1, {"type": "builtins.dict", "context": "[1, \"1\"]", "children_spec": [)", leaf, ", ",
                            leaf, "]}]")),
            (std::vector<std::string>{"1", "1_1"}));
  EXPECT_EQ(output_keys(str(R"([1, {"type": "builtins.dict", "context": "[\"0\", \"\"]", "children_spec": [)", leaf,
                            ", ", leaf, "]}]")),
            (std::vector<std::string>{"0", ""}));
  compile_with(join_path(parent_path(parent_path(parent_path(contents_case_path("mlp")))), "docs/keyed.pt2"));
  EXPECT_EQ(package_output_keys(in("p.pt2")), (std::vector<std::string>{"last_hidden_state", "past.0", "past.1"}));
  EXPECT_NE(inspect_file(in("p.pt2")).find("\n  1  past.0 "), std::string::npos);
  compile_with(contents_case_path("mlp"));
  EXPECT_EQ(package_output_keys(in("p.pt2")), std::vector<std::string>{""});
}

TEST_F(PackageContentsTest, AnIndexOutOfRangeNamesItsElement) {
  const Program program = read_pt2(contents_case_path("embedding"));
  compile(program, in("p.pt2"), {});
  std::vector<Datum> inputs = copy_inputs(program.sample_inputs);
  size_t which = 0;
  while (inputs[which].tensor().dtype != DType::i64) ++which;
  Tensor& indices = std::get<Tensor>(inputs[which].value);
  for (const int64_t at : {int64_t{0}, indices.numel() / 2 + 1, indices.numel() - 1}) {
    std::vector<Datum> bad = copy_inputs(inputs);
    std::get<Tensor>(bad[which].value).set_item(at, Scalar(int64_t{123456}));
    const std::string text = error_of([&] { PackageExecutable(in("p.pt2"), {}).call(bad); });
    EXPECT_NE(text.find(str("(value 123456, element ", at, ")")), std::string::npos) << text;
  }
}

TEST_F(PackageContentsTest, ErrorsOfTheCompilerNameOperatorLineModuleAndPass) {
  const std::string text =
      error_of([&] { compile_with(contents_case_path("mlp"), {"cpp.inject_relu_bug_TESTING_ONLY=compile_error"}); });
  for (const char* part :
       {"error[K0411]", "aten.relu.default", "generate_cases.py:", "module ", "node cpp_", "pass compile kernels"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

TEST_F(PackageContentsTest, TheDeviceIsThatOfTheExport) {
  const std::string model =
      edited(contents_case_path("mlp"), R"("type": "cpu", "index": null)", R"("type": "cuda", "index": 0)");
  ASSERT_EQ(exported_device(read_pt2(model)), DeviceType::cuda);
  // Without being told otherwise it is compiled for a GPU, which wants NVRTC.
  const std::string refused = error_of([&] { compile_with(model, {"nvrtc=no-such-library.so"}); });
  EXPECT_NE(refused.find("K0770"), std::string::npos) << refused;
  EXPECT_FALSE(file_exists(in("p.pt2")));
  const CompileReport report = compile_with(model, {}, "cpu");
  EXPECT_NE(join(report.notes, "\n").find("exported on cuda; --device cpu moves it"), std::string::npos);
  const std::vector<Datum> inputs = *package_sample_inputs(in("p.pt2"));
  EXPECT_EQ(PackageExecutable(in("p.pt2"), {}).call(inputs).outputs.size(), 1u);
  EXPECT_NE(error_of([&] { compile_with(model, {}, "mps"); }).find("K0413"), std::string::npos);
  CaseOptions on_cpu;
  on_cpu.executable.backend = Backend::interpret;
  on_cpu.executable.device = "cpu";
  const CaseResult checked = check_case(model, on_cpu);
  EXPECT_EQ(checked.status, CaseStatus::passed) << checked.message;
  EXPECT_EQ(checked.notes,
            std::vector<std::string>{"the model was exported on cuda; --device cpu moves it to the CPU"});
}

TEST_F(PackageContentsTest, APackageThatSaysAnotherDeviceIsRefused) {
  compile_with(contents_case_path("relu"));
  const std::string other = edited(in("p.pt2"), R"("device": "cpu")", R"("device": "cuda")");
  EXPECT_NE(error_of([&] { PackageExecutable(other, {}); }).find("K0522"), std::string::npos);
}

// What a program for a GPU has on the CPU is told by its plan; of one that is on the CPU altogether nothing is.
TEST_F(PackageContentsTest, ValuesOnTheHostOfAProgramForAGpu) {
  Program all_there =
      read_pt2(edited(contents_case_path("mlp"), R"("type": "cpu", "index": null)", R"("type": "cuda", "index": 0)"));
  EXPECT_EQ(values_on_host(all_there).inputs, std::vector<bool>{false});
  EXPECT_EQ(values_on_host(all_there).outputs, std::vector<bool>{false});
  for (size_t i = 0; i < all_there.input_specs.size(); ++i)
    if (all_there.input_specs[i].kind == InputKind::user) all_there.graph.inputs[i]->type.device = {};
  EXPECT_EQ(values_on_host(all_there).inputs, std::vector<bool>{true});
  EXPECT_EQ(values_on_host(all_there).outputs, std::vector<bool>{false});
  EXPECT_EQ(values_on_host(read_pt2(contents_case_path("mlp"))).inputs, std::vector<bool>{false});
}

}  // namespace
}  // namespace kiln
