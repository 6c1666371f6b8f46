// What the library writes for the minifier when a call through the C interface fails.
#include <sys/stat.h>

#include <cmath>
#include <cstdlib>

#include "kiln/kiln.hpp"
#include "runtime/mlp_test.h"

namespace kiln::runtime {
namespace {

class MinifierDumpTest : public MlpTest {
 protected:
  void SetUp() override {
    MlpTest::SetUp();
    if (HasFatalFailure()) return;
    path = join_path(folder.path(), "mlp.kiln.pt2");
    write_file_atomic(path, mlp.bytes());
  }
  kiln_model* load(std::vector<std::string> settings, bool memory = false) {
    settings.push_back(str("debug_dir_root=", folder.path(), "/debug"));
    std::vector<const char*> texts;
    for (const std::string& setting : settings) texts.push_back(setting.c_str());
    kiln_load_options options{};
    options.struct_size = sizeof options;
    options.settings = texts.data(), options.setting_count = texts.size();
    options.ignore_environment = 1;
    options.log = [](void* user, kiln_log_level, const char* text) {
      *static_cast<std::string*>(user) += str(text, "\n");
    };
    options.log_user = &said;
    kiln_model* model = nullptr;
    const kiln_status status = memory ? kiln_load_memory(bytes.data(), bytes.size(), &options, &model)
                                      : kiln_load(path.c_str(), &options, &model);
    EXPECT_EQ(status, KILN_OK) << kiln_last_error();
    return model;
  }
  // A call with `columns` columns: 10 are right.
  kiln_status call(kiln_model* model, int64_t columns, float value = 0.5f) {
    kiln_instance* instance = nullptr;
    EXPECT_EQ(kiln_instance_create(model, &instance), KILN_OK);
    std::vector<float> x(80, value);
    int64_t shape[] = {2, columns};
    DLTensor tensor{x.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
    kiln_value in{}, out{};
    in.kind = KILN_TENSOR;
    in.as.tensor = &tensor;
    const kiln_status status = kiln_run(instance, &in, 1, &out, 1);
    kiln_value_clear(&out);
    kiln_instance_free(instance);
    return status;
  }
  // The launcher that the log names; empty: none.
  std::string launcher() const {
    const size_t at = said.find("Writing minified repro to:\n");
    if (at == std::string::npos) return "";
    const size_t begin = at + 27;
    return said.substr(begin, said.find('\n', begin) - begin);
  }

  TemporaryDirectory folder;
  std::string path, said, bytes;
};

// A path is the user's: in the launchers it is a word, whatever it holds.
TEST_F(MinifierDumpTest, PathsInLaunchersAreNoCode) {
  const std::string odd = join_path(folder.path(), "a\ntouch pwned\n'\"$(touch pwned)");
  make_directories(odd);
  path = join_path(odd, "mlp.kiln.pt2");
  write_file_atomic(path, mlp.bytes());
  kiln_model* model = load({"aot_inductor.dump_aoti_minifier=1", "nan_asserts=1"});
  EXPECT_NE(call(model, 10, NAN), KILN_OK);
  kiln_model_free(model);
  ASSERT_FALSE(launcher().empty()) << said;
  const std::string shell = replace_all(launcher(), ".py", ".sh"), shown = join_path(folder.path(), "shown");
  const std::string fake = join_path(folder.path(), "fake");
  write_file_atomic(fake, str("#!/bin/sh\nprintf '%s' \"$2\" > ", shown, "\n"));
  ASSERT_EQ(chmod(fake.c_str(), 0700), 0);
  ASSERT_EQ(system(str("cd ", folder.path(), " && KILN=", fake, " sh ", shell).c_str()), 0);
  EXPECT_EQ(read_file(shown), path);
  EXPECT_FALSE(file_exists(join_path(folder.path(), "pwned")));
  for (const std::string& line : split(read_file(launcher()), '\n')) EXPECT_FALSE(starts_with(line, "touch")) << line;
}

TEST_F(MinifierDumpTest, AFailedCallLeavesItsInputsAndTheCommand) {
  kiln_model* model = load({"aot_inductor.dump_aoti_minifier=1", "nan_asserts=1"});
  EXPECT_EQ(call(model, 10), KILN_OK);
  EXPECT_EQ(said, "") << "nothing failed yet";
  EXPECT_EQ(call(model, 10, NAN), KILN_ERROR_RUN);
  kiln_model_free(model);
  ASSERT_TRUE(ends_with(launcher(), "/minifier/minifier_launcher.py")) << said;
  const std::string directory = parent_path(launcher());
  EXPECT_TRUE(file_exists(join_path(directory, "checkpoints/inputs.pt")));
  const std::string python = read_file(launcher()), shell = read_file(join_path(directory, "minifier_launcher.sh"));
  EXPECT_NE(python.find("'nan_asserts': '1'"), std::string::npos) << python;
  EXPECT_NE(python.find(str("package = '", path, "'")), std::string::npos) << python;
  EXPECT_NE(python.find("command='minify'"), std::string::npos);
  EXPECT_NE(python.find("# CPU: "), std::string::npos);
  EXPECT_EQ(python.find("CPU: unknown"), std::string::npos);
  EXPECT_NE(shell.find(str(" minify ", path, " ")), std::string::npos) << shell;
  EXPECT_NE(shell.find("--inputs /"), std::string::npos) << shell;
}

TEST_F(MinifierDumpTest, LevelThreeWritesBeforeTheCall) {
  kiln_model* model = load({"aot_inductor.repro_level=3"});
  EXPECT_EQ(call(model, 10), KILN_OK);
  const std::string inputs = join_path(parent_path(launcher()), "checkpoints/inputs.pt");
  ASSERT_TRUE(file_exists(inputs)) << said;
  const std::string first = read_file(inputs);
  EXPECT_EQ(call(model, 8), KILN_ERROR_INPUT);
  EXPECT_NE(read_file(inputs), first) << "those of the last call";
  kiln_model_free(model);
}

TEST_F(MinifierDumpTest, APackageFromMemoryIsWrittenToo) {
  bytes = mlp.bytes();
  kiln_model* model = load({"TORCHDYNAMO_REPRO_AFTER=inductor", "aot_inductor.repro_level=4", "nan_asserts=1"}, true);
  EXPECT_EQ(call(model, 10, NAN), KILN_ERROR_RUN);
  kiln_model_free(model);
  ASSERT_FALSE(launcher().empty()) << said;
  EXPECT_EQ(read_file(join_path(parent_path(launcher()), "checkpoints/package.kiln.pt2")), bytes);
  const std::string shell = read_file(join_path(parent_path(launcher()), "minifier_launcher.sh"));
  EXPECT_NE(shell.find("--accuracy"), std::string::npos) << shell;
  EXPECT_NE(shell.find("--after inductor"), std::string::npos) << shell;
}

// A launcher would only meet the same refusal: what was given is kept, and said for what it is. A failure still gets
// one.
TEST_F(MinifierDumpTest, InputsThatDoNotFitAreNothingToMinify) {
  kiln_model* model = load({"aot_inductor.dump_aoti_minifier=1", "nan_asserts=1"});
  EXPECT_EQ(call(model, 9), KILN_ERROR_INPUT);
  EXPECT_EQ(launcher(), "") << said;
  EXPECT_NE(said.find("nothing to minify: the inputs of this call do not fit"), std::string::npos) << said;
  EXPECT_EQ(call(model, 10, NAN), KILN_ERROR_RUN);
  EXPECT_NE(launcher(), "") << said;
  kiln_model_free(model);
}

TEST_F(MinifierDumpTest, NobodyAskedNothingIsWritten) {
  kiln_model* model = load({});
  EXPECT_EQ(call(model, 9), KILN_ERROR_INPUT);
  kiln_model_free(model);
  EXPECT_EQ(said.find("minif"), std::string::npos) << said;
  EXPECT_NE(said.find("setting debug_dir_root does nothing without"), std::string::npos) << said;
  EXPECT_FALSE(file_exists(join_path(folder.path(), "debug")));
}

}  // namespace
}  // namespace kiln::runtime
