// The debug section of a package against the package: a compile gone through again from what the section has gives the
// very loops, sources and steps that the package was made of.
#include "debug/package_debug.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "compile/compile.h"
#include "trace/plan_text.h"

namespace kiln {
namespace {

std::string cases_directory() {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  return join_path(source ? source : ".", "tests/cases");
}

std::string custom_library() {
  const char* build = std::getenv("KILN_BINARY_DIR");
  const std::string folder = join_path(build ? build : "build/release", "lib");
  for (const std::string& name : list_directory(folder))
    if (name.find("custom_ops") != std::string::npos && ends_with(name, ".so")) return join_path(folder, name);
  return "";
}

class DebugSection : public testing::Test {
 protected:
  // Compiles, reads the package's debug section and compares what is made from it with what the section says was made.
  void check(const std::string& model, const std::vector<std::string>& targets, const Settings* settings = nullptr,
             const std::vector<std::string>& extra_flags = {}) {
    SCOPED_TRACE(model);
    const std::string path = join_path(folder_.path(), "p.pt2");
    CompileOptions options;
    options.targets = targets;
    options.settings = settings;
    options.extra_flags = extra_flags;
    if (const std::string library = custom_library(); !library.empty()) options.custom_op_libs = {library};
    compile(model, path, options);
    PackageDebug package(path);
    Compilation& again = package.compilation();
    ASSERT_EQ(again.targets().size(), package.targets().size());
    for (size_t target = 0; target < package.targets().size(); ++target) {
      const std::string name = package.targets()[target];
      SCOPED_TRACE(name);
      EXPECT_EQ(loops::print(again.scheduled(target)), package.entry_of_target(target, "loops.txt").value_or(""));
      const codegen::GeneratedCode& code = again.code(target);
      for (size_t i = 0; i < code.sources.size(); ++i)
        EXPECT_EQ(code.sources[i], package.entry(str("debug/output_code_", name, "_", i, ".cpp")).value_or(""));
      EXPECT_FALSE(package.entry(str("debug/output_code_", name, "_", code.sources.size(), ".cpp")));
      kernels_ += code.symbols.size();
      if (!code.sources.empty()) {
        const std::string flags = join(again.build_request(code).flags, "\n");
        EXPECT_EQ(str("lanes ", again.targets()[target].lanes, "\n", flags, "\n"),
                  package.entry(str("debug/output_code_", name, ".flags")).value_or(""));
      }
      EXPECT_EQ(plan_text(again.plan(target).plan), plan_text(package.plan_of_target(target)));
    }
  }
  TemporaryDirectory folder_;
  size_t kernels_ = 0;
};

TEST_F(DebugSection, MakesTheKernelsOfEveryCaseAgain) {
  int cases = 0;
  for (const std::string& name : list_directory(cases_directory())) {
    const std::string model = join_path(join_path(cases_directory(), name), "model.pt2");
    if (!file_exists(model)) continue;
    ++cases;
    check(model, {});
  }
  EXPECT_GT(cases, 50);
  EXPECT_GT(kernels_, 200u);
}

TEST_F(DebugSection, OfEveryTarget) {
  check(join_path(cases_directory(), "mlp/model.pt2"), {"x86-64-v3", "x86-64-v4", "generic"});
}

TEST_F(DebugSection, AsItWasCompiled) {
  Settings settings(Phase::compile);
  settings.set("cpp.simdlen=256");
  settings.set("disable_pass=merge_kernels");
  settings.set("inject_fault_TESTING_ONLY=accuracy:relu");
  check(join_path(cases_directory(), "mlp/model.pt2"), {"x86-64-v4", "x86-64-v3"}, &settings, {"-g0"});
}

}  // namespace
}  // namespace kiln
