// Compilers that fail, are missing, talk, are killed or lie: scripts that stand in for one.
#include "toolchain/compiler.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>

#include "base/error.h"
#include "base/file.h"
#include "toolchain/process.h"

namespace kiln {
namespace {

class CompilerTest : public testing::Test {
 protected:
  // A program that runs these lines of shell; $real is the machine's own compiler.
  Compiler script(const std::string& lines) {
    const std::string path = join_path(folder_.path(), str("compiler_", scripts_++));
    write_file_atomic(path, str("#!/bin/sh\nreal='", find_compiler().path, "'\n", lines, "\n"));
    chmod(path.c_str(), 0755);
    return {path, "a script"};
  }
  static BuildRequest request(size_t units = 1) {
    BuildRequest out;
    for (size_t i = 0; i < units; ++i)
      out.sources.push_back(
          str("extern \"C\" __attribute__((visibility(\"default\"))) int f", i, "(int x) { return x + ", i, "; }\n"));
    for (size_t i = 0; i < units; ++i) out.functions.push_back(str("f", i));
    out.flags = {"-O0", "-fPIC"};
    return out;
  }
  static std::string failure(const Compiler& compiler, const BuildRequest& request) {
    try {
      build_shared_object(compiler, request, KernelCache(""));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static void expect(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }

  TemporaryDirectory folder_{"kiln-compiler-test"};
  int scripts_ = 0;
};

TEST_F(CompilerTest, OneThatFailsIsQuotedAndItsSourceKept) {
  for (size_t units : {size_t{1}, size_t{3}}) {
    const std::string text = failure(script("echo 'kernels.cpp:3: error: no such thing' >&2; exit 3"), request(units));
    expect(text, {"K0411", "exit code 3", "error: no such thing", "kept in "});
    const size_t at = text.find("kept in ") + 8;
    const std::string kept = text.substr(at, text.find(':', at) - at);
    EXPECT_TRUE(file_exists(join_path(kept, "kernels_0.cpp"))) << kept;
    remove_tree(kept);
  }
}

TEST_F(CompilerTest, OneThatIsMissingIsNamed) {
  try {
    find_compiler(join_path(folder_.path(), "no-such-compiler"));
    FAIL();
  } catch (const Error& error) {
    expect(error.what(), {"K0410", "no-such-compiler", "KILN_CXX"});
  }
  // One that does not even say its version is none.
  EXPECT_THROW(find_compiler(script("exit 1").path), Error);
}

TEST_F(CompilerTest, WarningsAreNoErrors) {
  EXPECT_EQ(failure(script("echo 'warning: unused' >&2; exec \"$real\" \"$@\""), request()), "");
  EXPECT_EQ(failure(script("echo 'warning: unused' >&2; exec \"$real\" \"$@\""), request(3)), "");
}

TEST_F(CompilerTest, OneThatIsKilledSaysSo) {
  expect(failure(script("kill -9 $$"), request()), {"K0411", "exit code 137"});
  expect(failure(script("case \"$*\" in *-shared*) kill -TERM $$;; *) exec \"$real\" \"$@\";; esac"), request(2)),
         {"K0411", "exit code 143"});
}

TEST_F(CompilerTest, OneThatMakesNothingOrSomethingElseIsNotBelieved) {
  expect(failure(script("echo done; exit 0"), request()), {"K0405", "there is no output", "done"});
  BuildRequest other = request();
  other.functions = {"g"};
  expect(failure(find_compiler(), other), {"K0405", "g"});
}

TEST(CompilerFlags, OnlyGnusGetItsPassesOneByOne) {
  const std::vector<std::string> asked = {"-std=c++20", "-O2", "-w"};
  EXPECT_EQ(flags_for({"g++", "g++ (Debian 12.2.0-14) 12.2.0"}, asked)[1], "-O1");
  EXPECT_GT(flags_for({"g++", "g++ (Debian 12.2.0-14) 12.2.0"}, asked).size(), asked.size());
  EXPECT_EQ(flags_for({"clang++", "Debian clang version 14.0.6"}, asked), asked);
  EXPECT_EQ(flags_for({"g++", "g++ 12"}, {"-O0"}), std::vector<std::string>{"-O0"});
  const auto without = flags_for({"g++", "g++ 12"}, {"-O2", "-fno-gcse"});
  EXPECT_EQ(std::count(without.begin(), without.end(), "-fgcse"), 0);
  EXPECT_EQ(std::count(without.begin(), without.end(), "-ftree-vrp"), 1);
}

TEST_F(CompilerTest, OneThatBreaksDownIsAskedForLess) {
  const Compiler compiler = script(
      "case \"$*\" in *-O1*) exec \"$real\" \"$@\";; *) echo 'internal compiler error: in x' >&2; exit 4;; esac");
  EXPECT_EQ(failure(compiler, request()), "");
  EXPECT_EQ(failure(compiler, request(3)).find("K0405"), std::string::npos);
}

TEST_F(CompilerTest, TheLongestUnitIsCompiledFirst) {
  BuildRequest uneven = request(4);
  uneven.sources[2] += std::string(5000, '\n');
  uneven.sources[3] += std::string(9000, '\n');
  const std::string log = join_path(folder_.path(), "log");
  const Compiler compiler =
      script(str("for a in \"$@\"; do case $a in *.cpp) basename $a >>", log, ";; esac; done; exec \"$real\" \"$@\""));
  EXPECT_EQ(failure(compiler, uneven), "");
  const std::vector<std::string> units = split(read_file(log), '\n');
  ASSERT_GE(units.size(), 4u);
  // The two that begin together may tell so in either order.
  EXPECT_EQ(std::set<std::string>(units.begin(), units.begin() + 2),
            (std::set<std::string>{"kernels_3.cpp", "kernels_2.cpp"}));
}

TEST_F(CompilerTest, ProcessesGiveTheirOutputAndHowTheyEnded) {
  EXPECT_EQ(run_process({"sh", "-c", "echo out; echo err >&2; exit 7"}).exit_code, 7);
  EXPECT_EQ(run_process({"sh", "-c", "echo out; echo err >&2"}).output, "out\nerr\n");
  EXPECT_EQ(run_process({"sh", "-c", "kill -11 $$"}).exit_code, 139);
  // More than a pipe holds, from several at once.
  std::vector<Process> many;
  for (int i = 0; i < 3; ++i) many.emplace_back(std::vector<std::string>{"sh", "-c", "yes | head -c 300000"});
  for (Process& one : many) EXPECT_EQ(one.wait().output.size(), 300000u);
  std::vector<Process> two;
  two.emplace_back(std::vector<std::string>{"sh", "-c", "echo begun; read line </dev/null; sleep 20"});
  two.emplace_back(std::vector<std::string>{"sh", "-c", "echo first; exit 3"});
  EXPECT_EQ(Process::wait_any({&two[0], &two[1]}), 1u);
  const ProcessResult first = two[1].wait();
  EXPECT_EQ(first.output, "first\n");
  EXPECT_EQ(first.exit_code, 3);
  try {
    run_process({"no-such-program-of-kiln"});
    FAIL();
  } catch (const Error& error) {
    expect(error.what(), {"K0412", "no-such-program-of-kiln"});
  }
  EXPECT_EQ(find_program("no-such-program-of-kiln"), "");
}

}  // namespace
}  // namespace kiln
