#include "check/check.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <set>

#include "base/file.h"
#include "check/check_json.h"

namespace kiln {
namespace {

CaseResult result_of(const std::string& path, CaseStatus status) {
  CaseResult result;
  result.path = path;
  result.status = status;
  result.rescued = 2;
  result.notes = {"moved to the CPU"};
  result.message = "a \"quoted\" message\nof two lines";
  return result;
}

// Behaves as the path says.
CaseResult act(const std::string& path) {
  if (path == "crash") {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  }
  if (path == "hang")
    for (;;) pause();
  if (path == "leave") _exit(7);
  if (path == "throw") throw std::runtime_error("thrown out of a case");
  if (path == "noise") {
    printf("said on stdout\n");
    fflush(stdout);
    return result_of(path, CaseStatus::failed);
  }
  return result_of(path, path == "skip" ? CaseStatus::skipped : CaseStatus::passed);
}

CheckSummary check_all(const std::vector<std::string>& cases, int jobs = 2) {
  CheckOptions options;
  options.jobs = jobs;
  options.timeout_seconds = 0.5;
  options.run_case = act;
  return check_cases(cases, options);
}

TEST(Check, CountsAndKeepsTheOrder) {
  const CheckSummary summary = check_all({"a", "skip", "noise", "b"});
  EXPECT_EQ(summary_line(summary), "2 passed, 1 failed, 1 skipped");
  EXPECT_EQ(summary.rescued, 8);
  ASSERT_EQ(summary.cases.size(), 4u);
  EXPECT_EQ(summary.cases[1].path, "skip");
  EXPECT_EQ(summary.cases[3].path, "b");
  EXPECT_EQ(summary.cases[0].message, "a \"quoted\" message\nof two lines");
}

TEST(Check, ACrashFailsOneCaseOnly) {
  const CheckSummary summary = check_all({"a", "crash", "b"});
  EXPECT_EQ(summary_line(summary), "2 passed, 1 failed, 0 skipped");
  EXPECT_EQ(summary.cases[1].message, "its process died of SIGSEGV");
  EXPECT_EQ(summary.cases[1].path, "crash");
}

TEST(Check, AHangIsKilled) {
  const CheckSummary summary = check_all({"hang", "a"}, 1);
  EXPECT_EQ(summary_line(summary), "1 passed, 1 failed, 0 skipped");
  EXPECT_EQ(summary.cases[0].message, "still running after 0.5 s; killed");
}

TEST(Check, AnEarlyExitAndAnExceptionAreFailures) {
  const CheckSummary summary = check_all({"leave", "throw"});
  EXPECT_EQ(summary_line(summary), "0 passed, 2 failed, 0 skipped");
  EXPECT_EQ(summary.cases[0].message, "its process ended with exit code 7 and no result");
  EXPECT_EQ(summary.cases[1].message, "unexpected: thrown out of a case");
}

TEST(Check, KeepsWhatAFailingCasePrinted) {
  EXPECT_EQ(check_all({"noise"}).cases[0].log, "said on stdout\n");
  EXPECT_EQ(check_all({"a"}).cases[0].log, "");
}

TEST(Check, AProcessTakesManyCases) {
  CheckOptions options;
  options.run_case = [](const std::string& path) {
    CaseResult result = result_of(path, CaseStatus::passed);
    result.message = std::to_string(getpid());
    return result;
  };
  const auto processes = [&](int cases_per_process) {
    options.cases_per_process = cases_per_process;
    std::set<std::string> pids;
    for (const CaseResult& result : check_cases({"a", "b", "c", "d", "e"}, options).cases) pids.insert(result.message);
    return pids.size();
  };
  EXPECT_EQ(processes(100), 1u);
  EXPECT_EQ(processes(2), 3u);
  EXPECT_EQ(processes(1), 5u);
}

TEST(Check, AfterACrashANewProcessTakesTheRest) {
  const CheckSummary summary = check_all({"a", "b", "crash", "c", "hang", "leave", "d", "noise", "e"}, 1);
  EXPECT_EQ(summary_line(summary), "5 passed, 4 failed, 0 skipped");
  EXPECT_EQ(summary.cases[2].message, "its process died of SIGSEGV");
  EXPECT_EQ(summary.cases[4].message, "still running after 0.5 s; killed");
  EXPECT_EQ(summary.cases[5].message, "its process ended with exit code 7 and no result");
  EXPECT_EQ(summary.cases[7].log, "said on stdout\n");
  for (size_t i : {0u, 1u, 3u, 6u, 8u}) {
    EXPECT_EQ(summary.cases[i].status, CaseStatus::passed) << i;
    EXPECT_EQ(summary.cases[i].notes.size(), 1u) << i;  // nothing was doubted
  }
}

TEST(Check, WithoutJobsAllRunHere) {
  CheckOptions options;
  options.jobs = 0;
  int runs = 0;
  options.run_case = [&](const std::string& path) {
    ++runs;
    return result_of(path, CaseStatus::passed);
  };
  EXPECT_EQ(summary_line(check_cases({"a", "b"}, options)), "2 passed, 0 failed, 0 skipped");
  EXPECT_EQ(runs, 2);
}

// A context that an illegal access has ended fails whatever comes after: those cases are not at fault, and it is said.
TEST(Check, WhatFailsBehindAnotherIsRunAlone) {
  CheckOptions options;
  options.run_case = [spoilt = false](const std::string& path) mutable {
    if (path == "spoils") spoilt = true;
    CaseResult result = result_of(path, spoilt && path != "spoils" ? CaseStatus::failed : CaseStatus::passed);
    result.message = spoilt ? "spoilt" : "";
    return result;
  };
  const CheckSummary summary = check_cases({"a", "spoils", "b", "c"}, options);
  EXPECT_EQ(summary_line(summary), "4 passed, 0 failed, 0 skipped");
  ASSERT_EQ(summary.cases[2].notes.size(), 2u);
  EXPECT_EQ(summary.cases[2].notes[1], "in a process that had run 2 cases before it failed: spoilt");
  EXPECT_EQ(summary.cases[3].notes.size(), 1u);
}

TEST(Check, ReportsProgress) {
  CheckOptions options;
  options.run_case = act;
  std::vector<int> done;
  options.progress = [&](const CaseResult&, int count, int total) {
    EXPECT_EQ(total, 2);
    done.push_back(count);
  };
  check_cases({"a", "b"}, options);
  EXPECT_EQ(done, (std::vector<int>{1, 2}));
}

TEST(Check, JsonHasEverything) {
  const Json json = summary_json(check_all({"a", "crash"}));
  EXPECT_EQ(json.at("passed").as_int(), 1);
  EXPECT_EQ(json.at("failed").as_int(), 1);
  ASSERT_EQ(json.at("cases").items().size(), 2u);
  EXPECT_EQ(json.at("cases").items()[1].at("status").as_string(), "failed");
}

TEST(Check, AResultThatIsCutOffIsNotAResult) {
  const std::string whole = json_text(case_to_json(result_of("a", CaseStatus::passed)));
  EXPECT_EQ(case_from_json(whole).path, "a");
  EXPECT_THROW(case_from_json(whole.substr(0, whole.size() - 3)), Error);
}

TEST(FindCases, SearchesFolders) {
  const TemporaryDirectory root;
  for (const char* name : {"b/two", "a"}) {
    make_directories(join_path(root.path(), name));
    write_file_atomic(join_path(root.path(), str(name, "/model.pt2")), "");
  }
  const std::vector<std::string> expected = {join_path(root.path(), "a"), join_path(root.path(), "b/two")};
  EXPECT_EQ(find_cases({root.path()}), expected);
  EXPECT_EQ(find_cases({expected[1]}), std::vector<std::string>{expected[1]});
  const std::string model = join_path(root.path(), "a/model.pt2");
  EXPECT_EQ(find_cases({model}), std::vector<std::string>{model});
  EXPECT_THROW(find_cases({join_path(root.path(), "none")}), Error);
  make_directories(join_path(root.path(), "empty"));
  EXPECT_THROW(find_cases({join_path(root.path(), "empty")}), Error);
}

}  // namespace
}  // namespace kiln
