#include "minify/trials.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <new>

#include "base/error.h"

namespace kiln::minify {
namespace {

Failure ends_well(const std::function<void(const std::string&)>&) { return {}; }
Failure fails(const std::function<void(const std::string&)>& entering) {
  entering("run");
  Failure failure;
  failure.kind = FailureKind::error;
  failure.stage = "run";
  failure.code = "K0630";
  return failure;
}

TEST(Trials, GiveTheFailureAndItsStage) {
  Trials trials(2);
  EXPECT_FALSE(trials.run(ends_well).failure.failed());
  const TrialResult result = trials.run(fails);
  EXPECT_EQ(result.failure.code, "K0630");
  EXPECT_EQ(result.failure.stage, "run");
  EXPECT_TRUE(result.seconds.contains("run"));
}

TEST(Trials, SurviveASignal) {
  Trials trials(1);
  const TrialResult result = trials.run([](const auto& entering) {
    entering("run");
    signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would make an exit of it
    raise(SIGSEGV);
    return Failure{};
  });
  EXPECT_EQ(result.failure.kind, FailureKind::signal);
  EXPECT_EQ(result.failure.signal, SIGSEGV);
  EXPECT_EQ(result.failure.stage, "run");
}

TEST(Trials, EndWhatDoesNotEnd) {
  Trials trials(1);
  trials.limits.run_seconds = 0.2;
  const TrialResult result = trials.run([](const auto& entering) {
    entering("run");
    for (;;) pause();
    return Failure{};
  });
  EXPECT_EQ(result.failure.kind, FailureKind::hang);
  EXPECT_EQ(result.failure.stage, "run");
}

TEST(Trials, AComparisonThatTakesTooLongIsNoHang) {
  Trials trials(1);
  trials.limits.run_seconds = trials.limits.judge_seconds = 0.2;
  for (const char* stage : {"compare", "bisect"}) {
    const TrialResult result = trials.run([stage](const auto& entering) {
      entering("run");
      entering(stage);
      for (;;) pause();
      return Failure{};
    });
    EXPECT_EQ(result.failure.kind, FailureKind::error);
    EXPECT_EQ(result.failure.code, not_judged);
    EXPECT_EQ(result.failure.stage, stage);
  }
}

TEST(Trials, TheFirstAcceptedInOrderWins) {
  Trials trials(3);
  std::vector<size_t> ended;
  const auto found = trials.first_accepted(
      6,
      [](size_t i) -> std::optional<Trials::Task> {
        if (i == 0) return std::nullopt;
        if (i == 1) return Trials::Task(ends_well);
        // The second is slow, the third quick: both fail, and the second wins.
        return Trials::Task([i](const auto& entering) {
          if (i == 2) usleep(200'000);
          return fails(entering);
        });
      },
      [&](size_t i, const TrialResult& result) {
        ended.push_back(i);
        return result.failure.failed();
      });
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found, 2u);
  for (const size_t i : ended) EXPECT_LT(i, 5u) << "nothing starts once one is found";
}

TEST(Trials, LeaveNoFilesAndNoProcesses) {
  std::string directory;
  {
    Trials trials(1);
    directory = trials.directory();
    trials.limits.run_seconds = 0.2;
    trials.run([](const auto& entering) {
      entering("run");
      TemporaryDirectory kept("of a trial");
      write_file_atomic(join_path(kept.path(), "file"), "text");
      if (fork() == 0)
        for (;;) pause();  // a grandchild: goes with its parent's group
      for (;;) pause();
      return Failure{};
    });
    EXPECT_TRUE(list_directory(directory).empty());
  }
  EXPECT_FALSE(file_exists(directory));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Trials, AnInterruptEndsThem) {
  Trials trials(2);
  trials.idle = [] { kill(getpid(), SIGINT); };
  EXPECT_THROW(trials.run([](const auto&) {
    for (;;) pause();
    return Failure{};
  }),
               Interrupted);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(Trials, WorkInThisProcessLooksForSignals) {
  Trials trials(1);
  kill(getpid(), SIGTERM);
  try {
    trials.look_for_signals();
    FAIL() << "the signal was not seen";
  } catch (const Interrupted& interrupted) {
    EXPECT_EQ(interrupted.signal, SIGTERM);
  }
  trials.look_for_signals();  // it has been taken
}

TEST(Trials, SignalsDoWhatTheyDidWhereNothingWouldBeLost) {
  EXPECT_EXIT(
      {
        const Trials trials(1);
        const Trials::SignalsAsBefore signals(trials);
        kill(getpid(), SIGINT);
        _exit(0);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace kiln::minify
