#include "toolchain/compiler.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "toolchain/object_check.h"
#include "toolchain/process.h"

namespace kiln {

Compiler find_compiler(const std::string& wish) {
  std::vector<std::string> candidates =
      wish.empty() ? std::vector<std::string>{"g++", "clang++", "c++"} : std::vector<std::string>{wish};
  std::vector<std::string> tried;
  for (const std::string& candidate : candidates) {
    std::string path = find_program(candidate);
    tried.push_back(path.empty() ? candidate : str(candidate, ", which does not answer to --version"));
    if (path.empty()) continue;
    ProcessResult version = run_process({path, "--version"});
    if (version.exit_code != 0) continue;
    return {path, std::string(trim(split(version.output, '\n')[0]))};
  }
  fail_user("K0410", str("no C++ compiler found (looked for ", join(tried, ", "), "); install g++ or set KILN_CXX"));
}

std::vector<std::string> flags_for(const Compiler& compiler, std::vector<std::string> flags) {
  const bool gnu = compiler.identity.find("clang") == std::string::npos;
  const auto level = std::find(flags.begin(), flags.end(), "-O2");
  if (!gnu || level == flags.end()) return flags;
  *level = "-O1";
  // The last two: without them accumulators of instructions that the assembler alone knows (pairs of bf16) are copied
  // around each of them, and where registers are few they go through memory.
  for (const char* pass : {"gcse", "expensive-optimizations", "strict-aliasing", "tree-vrp", "code-hoisting",
                           "cse-follow-jumps", "rerun-cse-after-loop"})
    if (std::find(flags.begin(), flags.end(), str("-fno-", pass)) == flags.end()) flags.push_back(str("-f", pass));
  // Which bits of integers are known is worth nothing to addresses of kernels, and a twentieth of the time.
  flags.emplace_back("-fno-tree-bit-ccp");
  return flags;
}

namespace {

std::string cache_key(const Compiler& compiler, const BuildRequest& request) {
  Sha256 hash;
  hash.add(compiler.identity);
  for (const std::string& flag : flags_for(compiler, request.flags)) hash.add(str("\nflag ", flag));
  for (const std::string& source : request.sources) hash.add(str("\nsource ", source.size(), "\n")), hash.add(source);
  return hash.hex() + ".so";
}

// The first error of a compiler's output and a few lines around it: enough to see, not a page.
std::string first_lines(const std::string& output) {
  std::vector<std::string> lines = split(output, '\n');
  if (lines.size() > 12) lines.resize(12);
  return join(lines, "\n  ");
}

void check(const ProcessResult& result, const Compiler& compiler, TemporaryDirectory& directory) {
  if (result.exit_code == 0) return;
  const std::string before = directory.path(), kept = directory.keep();
  fail_user("K0411",
            str("the C++ compiler ", compiler.path, " failed (exit code ", result.exit_code,
                ") on generated code, kept in ", kept, ":\n  ", first_lines(replace_all(result.output, before, kept))));
}

// What the compiler left at `path`: a file of this form, or an error of the compiler.
std::string made_object(const std::string& path, const Compiler& compiler, const BuildRequest& request,
                        const std::string& output) {
  std::string bytes, problem = "there is no output";
  if (file_exists(path)) {
    bytes = read_file(path);
    problem = shared_object_problem(bytes, request.functions);
  }
  if (!problem.empty())
    fail_user("K0405", str("the C++ compiler ", compiler.path, " (", compiler.identity,
                           ") ended without an error but made no shared object of the kernels: ", problem,
                           trim(output).empty() ? "" : str("; it said:\n  ", first_lines(output))));
  return bytes;
}

// g++ 12 sometimes breaks down on correct code at -O2 (its bug in compute_live_loop_exits); with -O1 it does not.
bool compiler_broke_down(const ProcessResult& result) {
  return result.exit_code != 0 && result.output.find("internal compiler error") != std::string::npos;
}

// Times of the jobs, for whoever wants them.
class JobClock {
 public:
  explicit JobClock(const BuildRequest& request) : request_(request) {}
  double now() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began_).count();
  }
  void done(const std::string& name, double start) const {
    if (request_.job) request_.job(name, start, now() - start);
  }

 private:
  const BuildRequest& request_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace

BuildResult build_shared_object(const Compiler& compiler, const BuildRequest& request, const KernelCache& cache) {
  const JobClock clock(request);
  std::string key = cache_key(compiler, request);
  // Once per process: directories of compiles that were killed.
  [[maybe_unused]] static const std::vector<std::string> strays = remove_stray_directories();
  if (auto found = cache.get(key); found && shared_object_problem(*found, request.functions).empty()) {
    clock.done("from the cache", 0);
    return {std::move(*found), true, ""};
  }
  TemporaryDirectory directory("kiln-build");
  int total = static_cast<int>(request.sources.size()), done = 0;
  std::string output = join_path(directory.path(), "kernels.so");
  const std::vector<std::string> flags = flags_for(compiler, request.flags);
  auto command = [&](std::vector<std::string> tail, bool plain = false) {
    std::vector<std::string> arguments = {compiler.path};
    const std::vector<std::string>& given = plain ? request.flags : flags;
    arguments.insert(arguments.end(), given.begin(), given.end());
    arguments.insert(arguments.end(), tail.begin(), tail.end());
    return arguments;
  };
  std::string said;  // by the last run of the compiler
  auto check_or_retry = [&](ProcessResult result, std::vector<std::string> tail) {
    if (compiler_broke_down(result)) {
      tail.insert(tail.begin(), "-O1");
      result = run_process(command(std::move(tail), true), directory.path());
    }
    check(result, compiler, directory);
    said = std::move(result.output);
  };
  // -s: symbols for dlsym, gdb and perf stay (they are dynamic); only the static symbol table goes.
  const std::vector<std::string> link = {"-shared",
                                         "-nostdlib",
                                         "-Wl,--build-id=none",
                                         "-Wl,-z,noexecstack",
                                         "-Wl,--hash-style=gnu",
                                         "-Wl,-z,noseparate-code",
                                         "-s",
                                         "-o",
                                         output};
  auto source_path = [&](int i) { return join_path(directory.path(), str("kernels_", i, ".cpp")); };
  auto object_path = [&](int i) { return join_path(directory.path(), str("kernels_", i, ".o")); };
  for (int i = 0; i < total; ++i) write_file_atomic(source_path(i), request.sources[static_cast<size_t>(i)]);
  if (request.progress) request.progress(0, total);
  if (total == 1) {
    std::vector<std::string> tail = link;
    tail.push_back(source_path(0));
    const double start = clock.now();
    check_or_retry(run_process(command(tail), directory.path()), tail);
    clock.done("kernels and link", start);
  } else {
    auto compile_one = [&](int i) { return std::vector<std::string>{"-c", source_path(i), "-o", object_path(i)}; };
    // The longest first, and the next one as soon as any has ended: no core waits for another at the end.
    std::vector<int> order(request.sources.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return request.sources[static_cast<size_t>(a)].size() > request.sources[static_cast<size_t>(b)].size();
    });
    struct Job {
      int unit;
      double start;
      Process process;
    };
    std::list<Job> running;
    size_t at_once = std::max(1u, std::thread::hardware_concurrency());
    auto finish_one = [&] {
      std::vector<Process*> processes;
      for (Job& job : running) processes.push_back(&job.process);
      const auto ended = std::next(running.begin(), static_cast<std::ptrdiff_t>(Process::wait_any(processes)));
      check_or_retry(ended->process.wait(), compile_one(ended->unit));
      ++done;
      clock.done(str("kernels ", ended->unit + 1, " of ", total), ended->start);
      running.erase(ended);
      if (request.progress) request.progress(done, total);
    };
    for (int i : order) {
      if (running.size() >= at_once) finish_one();
      running.push_back({i, clock.now(), Process(command(compile_one(i)), directory.path())});
    }
    while (!running.empty()) finish_one();
    std::vector<std::string> tail = link;
    for (int i = 0; i < total; ++i) tail.push_back(object_path(i));
    const double start = clock.now();
    ProcessResult linked = run_process(command(tail), directory.path());
    check(linked, compiler, directory);
    said = std::move(linked.output);
    clock.done("link", start);
  }
  if (request.progress) request.progress(total, total);
  BuildResult result{made_object(output, compiler, request, said), false, ""};
  result.not_kept = cache.put(key, result.shared_object);
  return result;
}

void check_syntax(const Compiler& compiler, const BuildRequest& request) {
  TemporaryDirectory directory("kiln-build");
  for (size_t i = 0; i < request.sources.size(); ++i) {
    const std::string path = join_path(directory.path(), str("kernels_", i, ".cpp"));
    write_file_atomic(path, request.sources[i]);
    std::vector<std::string> arguments = {compiler.path};
    arguments.insert(arguments.end(), request.flags.begin(), request.flags.end());
    arguments.insert(arguments.end(), {"-fsyntax-only", path});
    check(run_process(arguments, directory.path()), compiler, directory);
  }
}

}  // namespace kiln
