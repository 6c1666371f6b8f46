// Defects of more than thirty kinds put into packages on purpose: bisect names the kernel, or buffer and class of
// fault, of every one, and the operator where it lies in one; a checked run finds every access outside of a buffer.
#include "debug/seeded_defects.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/file.h"
#include "debug/bisect.h"
#include "driver/compile.h"
#include "driver/executable_package.h"

namespace kiln::seeded {

namespace {

struct Outcome {
  BisectResult found;
  std::string kernel;   // that was changed
  std::string checked;  // what the checked run said
  std::string problem;
};

Outcome try_defect(const Defect& defect) {
  Outcome out;
  TemporaryDirectory folder;
  const std::string path = join_path(folder.path(), "model.kiln.pt2");
  try {
    const Program program = program_of(defect.model);
    const std::vector<Datum> inputs = inputs_of(program);
    CompileOptions options;
    options.extra_flags = {"-O0"};  // the compiler's time is most of this test's
    out.kernel = defect.kernel;
    if (defect.loops) options.inject.loops = [&](loops::LoopProgram& p) { out.kernel = defect.loops(p); };
    options.inject.plan = defect.plan, options.inject.source = defect.source;
    options.inject.constants = defect.constants;
    compile(program, path, options);
    BisectOptions bisect_options;
    bisect_options.rebuilt_source = defect.source;
    out.found = bisect(path, inputs, bisect_options);
    if (!defect.out_of_bounds) return out;
    PackageOptions checked;
    checked.settings = {"check_bounds=1"}, checked.ignore_environment = true;
    try {
      PackageExecutable(path, checked).call(inputs);
    } catch (const Error& error) {
      out.checked = error.what();
    }
  } catch (const Error& error) {
    out.problem = error.what();
  }
  return out;
}

// The kernel, or buffer and class.
bool right_place(const Defect& defect, const Outcome& out) {
  const bool right = out.found.fault == defect.fault;
  if (*defect.buffer) return right && out.found.buffer == defect.buffer;
  return right && out.found.step.find(out.kernel) != std::string::npos;
}

bool right_operator(const Defect& defect, const Outcome& out) {
  return std::count(defect.ops.begin(), defect.ops.end(), out.found.op) > 0 &&
         (!*defect.value || out.found.value == defect.value);
}

TEST(SeededDefects, AreFound) {
  std::vector<Defect> defects = kernel_defects();
  for (auto more : {code_defects, plan_defects})
    for (Defect& defect : more()) defects.push_back(std::move(defect));
  std::vector<Outcome> outcomes(defects.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < defects.size(); i = next++) outcomes[i] = try_defect(defects[i]);
  };
  std::thread other(work);
  work();
  other.join();
  int placed = 0, with_operator = 0, named = 0;
  std::string table =
      "| defect | model | class | kernel or buffer | operator (by) |\n| --- | --- | --- | --- | --- |\n";
  for (size_t i = 0; i < defects.size(); ++i) {
    const Defect& defect = defects[i];
    const Outcome& out = outcomes[i];
    const bool place = right_place(defect, out), op = right_operator(defect, out);
    placed += place, with_operator += !defect.ops.empty(), named += !defect.ops.empty() && op;
    EXPECT_TRUE(place) << defect.name << " in " << out.kernel << ": " << out.problem << out.found.text;
    if (!defect.ops.empty() && !op) printf("operator of %s not found: %s\n", defect.name, out.found.text.c_str());
    if (defect.out_of_bounds) {
      EXPECT_NE(out.checked.find("K0330"), std::string::npos) << defect.name << ": " << out.checked;
      EXPECT_NE(out.checked.find(out.kernel), std::string::npos) << defect.name << ": " << out.checked;
    }
    table += str("| ", defect.name, " | ", defect.model.name, " | ", fault_class_name(out.found.fault), " | ",
                 *defect.buffer ? out.found.buffer : out.found.step, " | ",
                 defect.ops.empty() ? "–"
                                    : str(out.found.op, out.found.method.empty() ? "" : " (", out.found.method,
                                          out.found.method.empty() ? "" : ")"),
                 place && (defect.ops.empty() || op) ? "" : " **wrong**", " |\n");
  }
  printf("%s%d of %zu placed, %d of %d operators named\n", table.c_str(), placed, defects.size(), named, with_operator);
  EXPECT_GE(defects.size(), 30u);
  EXPECT_GE(with_operator, 30);
  EXPECT_GE(named * 30, with_operator * 27);
}

TEST(SeededDefects, ModelsWithoutOneAreClean) {
  TemporaryDirectory folder;
  for (const Model& model : all_models) {
    const Program program = program_of(model);
    const std::string path = join_path(folder.path(), str(model.name, ".kiln.pt2"));
    CompileOptions options;
    options.extra_flags = {"-O0"};
    compile(program, path, options);
    const BisectResult result = bisect(path, inputs_of(program), {});
    EXPECT_EQ(result.fault, FaultClass::none) << model.name << ": " << result.text;
    EXPECT_GE(result.against_graph + 1, result.steps) << model.name << ": " << result.text;
  }
}

}  // namespace
}  // namespace kiln::seeded
