// No false alarm: bisect says nothing about packages that are right. Programs that PyTorch exported (tests/cases, and
// some of the corpus where it is at hand), each with all its inputs, and operators' samples with fixed and with
// symbolic sizes. What is not run is printed. tools/bisect_cases.sh does the same with whole folders.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "check/check_case_files.h"
#include "compile/compile.h"
#include "debug/bisect.h"
#include "debug/seeded_processes.h"
#include "ops/op_record.h"
#include "ops/sample_program.h"

namespace kiln {
namespace {

constexpr size_t corpus_stride = 6,
                 sample_stride = 100;  // of the corpus's programs and the operators' samples: every nth

struct Clean {
  std::string name;
  std::string model;  // a .pt2; empty: `program`
  Program program;
  std::vector<std::vector<Datum>> inputs;
  int runs = 0;
  std::string alarm, not_run;
};

std::vector<std::string> case_folders() {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  const std::string root = source ? source : ".";
  std::vector<std::string> out;
  for (const std::string& name : list_directory(root + "/tests/cases")) out.push_back(root + "/tests/cases/" + name);
  const char* corpus = std::getenv("KILN_CORPUS");
  const std::string programs = (corpus ? corpus : root + "/../shared/corpus") + std::string("/programs");
  if (!is_directory(programs)) return out;
  const std::vector<std::string> names = list_directory(programs);
  for (size_t i = 0; i < names.size(); i += corpus_stride) out.push_back(join_path(programs, names[i]));
  return out;
}

std::vector<Clean> clean_models() {
  std::vector<Clean> out;
  for (const std::string& folder : case_folders()) {
    Clean clean;
    clean.name = file_name(folder);
    if (!file_exists(join_path(folder, "model.pt2"))) continue;
    const CaseFiles files = read_case_files(folder);
    clean.model = files.model;
    for (const CaseFiles::Call& call : files.calls) clean.inputs.push_back(call.inputs);
    for (const std::string& need : files.needs) clean.not_run = "needs " + need;
    out.push_back(std::move(clean));
  }
  size_t number = 0;
  for (const OpRecord* record : Registry::instance().all()) {
    if (record->kind != OpKind::plain || record->functional) continue;
    for (size_t i = 0; i < record->samples.size(); ++i) {
      // Its kernel fills a buffer and then updates it, which once looked like a missing dependency.
      const bool always = record->name() == "aten.embedding_bag.padding_idx";
      if (record->samples[i].refused || (number++ % sample_stride != 0 && !always)) continue;
      Clean clean;
      const bool symbolic = number / sample_stride % 2 == 1;
      clean.name = str(record->name(), " sample ", i, symbolic ? " symbolic" : "");
      try {
        clean.program = program_from_sample(*record, record->samples[i], symbolic, 7 + i);
      } catch (const Error& error) {
        clean.not_run = error.what();  // with symbolic sizes a rule may say that it cannot decide
      }
      clean.inputs.push_back(clean.program.sample_inputs);
      out.push_back(std::move(clean));
    }
  }
  return out;
}

void bisect_clean(Clean& clean) {
  TemporaryDirectory folder;
  const std::string path = join_path(folder.path(), "model.kiln.pt2");
  CompileOptions options;
  options.extra_flags = {"-O0"};  // the compiler's time is most of this test's
  try {
    clean.model.empty() ? compile(clean.program, path, options) : compile(clean.model, path, options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) clean.alarm = error.what();
    clean.not_run = error.what();
    return;
  }
  for (const std::vector<Datum>& inputs : clean.inputs) {
    try {
      const BisectResult result = bisect(path, inputs, {});
      if (result.fault != FaultClass::none) clean.alarm = result.text;
    } catch (const Error& error) {
      clean.alarm = error.what();
    }
    ++clean.runs;
  }
}

// What the process that bisected it wrote.
void read_end(const std::string& text, Clean& clean) {
  const std::vector<std::string> head = split(text, '\n');
  if (head.size() < 3) {
    clean.alarm = "the process that bisected it died";
    return;
  }
  clean.runs = std::stoi(head[0]);
  const std::string rest = text.substr(head[0].size() + head[1].size() + 2);
  clean.not_run = rest.substr(0, std::stoul(head[1]));
  clean.alarm = rest.substr(clean.not_run.size());
}

TEST(CleanModels, RaiseNoAlarm) {
  std::vector<Clean> models = clean_models();
  const std::vector<std::string> ends = seeded::in_processes(models.size(), [&](size_t i) {
    Clean& clean = models[i];
    if (clean.not_run.empty()) bisect_clean(clean);
    return str(clean.runs, "\n", clean.not_run.size(), "\n", clean.not_run, clean.alarm);
  });
  for (size_t i = 0; i < models.size(); ++i) read_end(ends[i], models[i]);
  int judged = 0, runs = 0;
  for (const Clean& clean : models) {
    EXPECT_EQ(clean.alarm, "") << clean.name;
    if (!clean.not_run.empty()) printf("not run: %s: %s\n", clean.name.c_str(), clean.not_run.c_str());
    judged += clean.not_run.empty(), runs += clean.runs;
  }
  printf("%d models, %d runs\n", judged, runs);
  EXPECT_GE(judged, 50);
}

}  // namespace
}  // namespace kiln
