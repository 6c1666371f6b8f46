// Defects of many kinds put into packages on purpose, at every place of twenty-one models: bisect names the kernel, or
// buffer and class of fault, and the operator where it lies in one. It may be uncertain; it must never be wrong. The
// table of docs/bisect-defects.md is what this test finds (KILN_UPDATE_DOCS=1 writes it; KILN_SEEDED_PER_MODEL=40 tries
// more lowerings of each model, prints what was said of each, and leaves the document alone).
#include "debug/seeded_defects.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "compile/compile.h"
#include "debug/bisect.h"
#include "debug/bisect_report.h"
#include "debug/seeded_processes.h"
#include "executable/package_executable.h"

namespace kiln::seeded {

namespace {

constexpr const char* marker = "a defect was put here";  // the node of an origin that goes with the changed kernel

// One for all: the kernels, and so the table, do not depend on the vectors of the machine that runs the test.
constexpr const char* seeded_target = "x86-64-v2";

struct Outcome {
  BisectResult found;
  std::set<std::string> kernels;  // that have it
  std::string checked;            // what the checked run said
  std::string problem;
};

// The defect in one operator's kernel, marked so that the kernels it goes into can be told.
void change_lowered(const Defect& defect, loops::LoopProgram& program) {
  bool done = false;
  loops::for_each_item(program.block, [&](loops::Item& item) {
    auto* kernel = std::get_if<loops::Kernel>(&item.what);
    if (done || !kernel || kernel->name != defect.kernel) return;
    defect.lowered(program, *kernel);
    Origin origin;
    origin.node = marker;
    kernel->origins.push_back(origin);
    done = true;
  });
}

void take_marks(loops::LoopProgram& program, std::set<std::string>& kernels) {
  for (loops::Block* block : {&program.init, &program.block})
    loops::for_each_item(*block, [&](loops::Item& item) {
      if (auto* kernel = std::get_if<loops::Kernel>(&item.what))
        if (std::erase_if(kernel->origins, [](const Origin& o) { return o.node == marker; }) > 0)
          kernels.insert(kernel->name);
    });
}

Outcome try_defect(const Defect& defect) {
  Outcome out;
  TemporaryDirectory folder;
  const std::string path = join_path(folder.path(), "model.kiln.pt2");
  try {
    const Program program = program_of(defect.model);
    const std::vector<Datum> inputs = inputs_of(program);
    CompileOptions options;
    options.targets = {seeded_target};
    options.extra_flags = {defect.flags};
    if (!defect.lowered && !defect.loops) out.kernels = {defect.kernel};
    if (defect.lowered) options.inject.lowered = [&](loops::LoopProgram& p) { change_lowered(defect, p); };
    options.inject.loops = [&](loops::LoopProgram& p) {
      if (defect.loops) out.kernels = {defect.loops(p)};
      take_marks(p, out.kernels);
    };
    options.inject.plan = defect.plan, options.inject.source = defect.source;
    options.inject.code = defect.code, options.inject.constants = defect.constants;
    compile(program, path, options);
    BisectOptions bisect_options;
    bisect_options.rebuilt_source = defect.source;
    bisect_options.hang_seconds = 4;
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

// Through a file, from the process that tried it.
std::string outcome_text(const Outcome& out) {
  Json::Array kernels;
  for (const std::string& kernel : out.kernels) kernels.emplace_back(kernel);
  return json_text(Json(Json::Object{{"found", Json(report_text(out.found))},
                                     {"kernels", Json(std::move(kernels))},
                                     {"checked", Json(out.checked)},
                                     {"problem", Json(out.problem)}}));
}
Outcome read_outcome(const std::string& text) {
  Outcome out;
  if (text.empty()) {
    out.problem = "the process that tried it died";
    return out;
  }
  const Json json = parse_json(text, "outcome");
  out.found = read_report(json.at("found").as_string());
  for (const Json& kernel : json.at("kernels").items()) out.kernels.insert(kernel.as_string());
  out.checked = json.at("checked").as_string(), out.problem = json.at("problem").as_string();
  return out;
}

// The kernel, or buffer and class.
bool right_place(const Defect& defect, const Outcome& out) {
  const BisectResult& found = out.found;
  if (!out.problem.empty() || found.fault == FaultClass::none) return false;
  if (defect.fault != FaultClass::none && found.fault != defect.fault) return false;
  if (!defect.buffer.empty()) return found.buffer == defect.buffer;
  if (defect.lowered && found.fault == FaultClass::stale_constant) return found.buffer == defect.value;
  return std::any_of(out.kernels.begin(), out.kernels.end(), [&](const std::string& kernel) {
    return defect.lowered || defect.loops ? found.step == kernel : found.step.find(kernel) != std::string::npos;
  });
}

bool right_operator(const Defect& defect, const Outcome& out) {
  if (defect.ops.empty()) return true;
  if (defect.lowered) return out.found.value == defect.value || out.found.fault == FaultClass::stale_constant;
  return std::count(defect.ops.begin(), defect.ops.end(), out.found.op) > 0 &&
         (defect.value.empty() || out.found.value == defect.value);
}

struct Score {
  int right = 0, uncertain = 0, wrong = 0;
};

std::string judge(const Defect& defect, const Outcome& out, Score& score) {
  const bool place = right_place(defect, out), op = right_operator(defect, out);
  const bool among = std::any_of(out.kernels.begin(), out.kernels.end(), [&](const std::string& kernel) {
    return out.found.fault == FaultClass::uncertain &&
           std::count(out.found.candidates.begin(), out.found.candidates.end(), kernel) > 0;
  });
  const bool uncertain =
      among || (place && !op && !out.found.candidates.empty() && out.found.text.find("uncertain") != std::string::npos);
  ++(place && op ? score.right : uncertain ? score.uncertain : score.wrong);
  EXPECT_TRUE((place && op) || uncertain)
      << defect.name << " in " << defect.model.name << " at " << defect.value << " ("
      << join(std::vector<std::string>(out.kernels.begin(), out.kernels.end()), ", ") << "): " << out.problem
      << out.found.text;
  std::string named = out.found.op;
  if (!out.found.value.empty()) named += str(" ", out.found.value);
  if (!out.found.method.empty()) named += str(" (", out.found.method, ")");
  if (!out.found.candidates.empty()) named = "uncertain: " + join(out.found.candidates, ", ");
  return str("| ", defect.name, defect.lowered ? str(" of ", defect.value) : "", " | ", defect.model.name, " | ",
             fault_class_name(out.found.fault), " | ", defect.buffer.empty() ? out.found.step : out.found.buffer, " | ",
             named.empty() ? "–" : named, (place && op) || uncertain ? "" : " **wrong**", " |\n");
}

// The document's table is between these lines.
constexpr const char* table_begin = "<!-- table: written by src/debug/seeded_defects_test.cpp -->\n";
constexpr const char* table_end = "<!-- end of the table -->\n";

void compare_with_document(const std::string& table) {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  const std::string path = str(source ? source : ".", "/docs/bisect-defects.md");
  std::string text = read_file(path);
  const size_t begin = text.find(table_begin), end = text.find(table_end);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos) << path;
  const size_t from = begin + std::string(table_begin).size();
  if (std::getenv("KILN_UPDATE_DOCS"))
    write_file_atomic(path, text.substr(0, from) + table + text.substr(end));
  else
    EXPECT_EQ(text.substr(from, end - from), table) << "run this test with KILN_UPDATE_DOCS=1";
}

TEST(SeededDefects, AreFound) {
  const char* more_lowered = std::getenv("KILN_SEEDED_PER_MODEL");
  std::vector<Defect> defects = lowered_defects(more_lowered ? std::strtoul(more_lowered, nullptr, 10) : 6);
  for (auto more : {kernel_defects, code_defects, machine_defects, plan_defects})
    for (Defect& defect : more()) defects.push_back(std::move(defect));
  const std::vector<std::string> texts =
      in_processes(defects.size(), [&](size_t i) { return outcome_text(try_defect(defects[i])); });
  Score score;
  std::string table =
      "| defect | model | class | kernel or buffer | operator (by) |\n| --- | --- | --- | --- | --- |\n";
  for (size_t i = 0; i < defects.size(); ++i) {
    const Outcome out = read_outcome(texts[i]);
    table += judge(defects[i], out, score);
    if (more_lowered)
      printf("---- %s in %s\n%s\n", defects[i].name.c_str(), defects[i].model.name, out.found.text.c_str());
    if (!defects[i].out_of_bounds) continue;
    EXPECT_NE(out.checked.find("K0330"), std::string::npos) << defects[i].name << ": " << out.checked;
    EXPECT_NE(out.checked.find(*out.kernels.begin()), std::string::npos) << defects[i].name << ": " << out.checked;
  }
  table += str("\n", defects.size(), " defects: ", score.right, " right, ", score.uncertain, " uncertain, ",
               score.wrong, " wrong.\n");
  printf("%s", table.c_str());
  EXPECT_GE(defects.size(), 100u);
  EXPECT_GE(score.right * 100, static_cast<int>(defects.size()) * 97);
  EXPECT_EQ(score.wrong, 0);
  if (!more_lowered) compare_with_document(table);
}

TEST(SeededDefects, ModelsWithoutOneAreClean) {
  const std::vector<Model> models = every_model();
  EXPECT_GE(models.size(), 15u);
  const std::vector<std::string> alarms = in_processes(models.size(), [&](size_t i) {
    TemporaryDirectory folder;
    const Program program = program_of(models[i]);
    const std::string path = join_path(folder.path(), "model.kiln.pt2");
    CompileOptions options;
    options.targets = {seeded_target};
    options.extra_flags = {"-O0"};
    compile(program, path, options);
    const BisectResult result = bisect(path, inputs_of(program), {});
    const bool compared = result.against_graph + 2 >= result.steps;
    return result.fault == FaultClass::none && compared ? std::string("clean") : result.text;
  });
  for (size_t i = 0; i < models.size(); ++i) EXPECT_EQ(alarms[i], "clean") << models[i].name;
}

}  // namespace
}  // namespace kiln::seeded
