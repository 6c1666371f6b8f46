#include "batch.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <optional>
#include <sstream>

#include "../campaign/arguments.h"
#include "base/text.h"
#include "combine.h"

namespace kiln::random_programs {

namespace {

constexpr unsigned seconds_per_child = 600;

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\t') c = ' ';
  return text.substr(0, 2000);
}

// ---- in the child ---------------------------------------------------------------------------------------------------

struct Case {
  RandomProgram random;
  std::optional<Judge> judge;
  Report report;
};

class Child {
 public:
  explicit Child(FILE* out) : out_(out) {}

  void run(const std::vector<size_t>& indices, const MakeProgram& make) {
    std::vector<std::unique_ptr<Case>> ready;
    for (size_t index : indices) {
      auto one = std::make_unique<Case>();
      one->report.index = index;
      try {
        one->random = make(index);
        one->report.symbolic = one->random.symbolic;
        one->report.nodes = one->random.program.graph.nodes.size();
        one->report.operators = one->random.operators;
        one->judge.emplace(one->random);
      } catch (const Error& error) {
        refused_alike(*one, error);
        continue;
      } catch (const std::exception& error) {
        fail(*one, str("reference: ", error.what()));
        continue;
      }
      if (run_loops(*one)) ready.push_back(std::move(one));
    }
    std::vector<Case*> all;
    for (auto& one : ready) all.push_back(one.get());
    run_compiled(all);
  }

 private:
  void print(const Report& r) {
    std::fprintf(out_, "%zu\t%d\t%d\t%zu\t%s\t%s\n", r.index, static_cast<int>(r.outcome), r.symbolic ? 1 : 0, r.nodes,
                 join(r.operators, ",").c_str(), one_line(r.message).c_str());
    std::fflush(out_);
  }
  void fail(Case& one, std::string message) {
    one.report.outcome = Outcome::failed;
    one.report.message = std::move(message);
    print(one.report);
  }
  void thrown(Case& one, const std::string& where, const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    one.report.outcome = known && known->kind() == ErrorKind::unsupported ? Outcome::refused : Outcome::failed;
    one.report.message = str(where, ": ", error.what());
    print(one.report);
  }
  // True: it may go on.
  bool judged(Case& one, const std::string& where, const Observed& got) {
    std::string why;
    Verdict verdict = one.judge->judge(got, why);
    if (verdict == Verdict::unstable) one.report.outcome = Outcome::unstable;
    if (verdict == Verdict::bad) fail(one, str(where, ": ", why));
    return verdict != Verdict::bad;
  }

  // The reference refuses what the data are (an index out of range, a singular matrix): so must every backend, with the
  // same code. Whether a matrix is singular is a matter of rounding: there it proves nothing.
  void refused_alike(Case& one, const Error& reference) {
    std::string different;
    for (const Backend backend : {Backend::loops, Backend::compiled}) {
      std::string code = "nothing";
      try {
        ExecutableOptions options;
        options.backend = backend;
        options.settings = &campaign::KernelCache::settings();
        make_executable(one.random.program, options)->call(one.random.given_inputs);
      } catch (const Error& error) {
        code = error.code();
      }
      if (code != reference.code()) different += str(different.empty() ? "" : ", ", "a backend gives ", code);
    }
    constexpr const char* singular = "K0633";
    if (reference.kind() != ErrorKind::user || (!different.empty() && reference.code() != singular))
      return fail(one, str("reference: ", reference.what(), "; ", different));
    one.report.outcome = different.empty() ? Outcome::refused : Outcome::unstable;
    one.report.message = str("reference: ", reference.what());
    print(one.report);
  }

  bool run_loops(Case& one) {
    try {
      ExecutableOptions options;
      options.backend = Backend::loops;
      CallResult result = make_executable(one.random.program, options)->call(one.random.given_inputs);
      return judged(one, "loops", observe(result.outputs, result.inputs, result.state));
    } catch (const std::exception& error) {
      thrown(one, "loops", error);
      return false;
    }
  }

  void run_compiled(const std::vector<Case*>& cases) {
    if (cases.empty()) return;
    Combiner combiner;
    for (const Case* one : cases) combiner.add(one->random);
    CallResult result;
    try {
      ExecutableOptions options;
      options.settings = &campaign::KernelCache::settings();
      result = make_executable(combiner.program(), options)->call(combiner.given_inputs());
    } catch (const std::exception& error) {
      if (cases.size() == 1) return thrown(*cases[0], "compiled", error);
      auto middle = cases.begin() + static_cast<std::ptrdiff_t>(cases.size() / 2);
      run_compiled({cases.begin(), middle});
      return run_compiled({middle, cases.end()});
    }
    for (size_t i = 0; i < cases.size(); ++i)
      if (judged(*cases[i], "compiled", combiner.part(result, i))) print(cases[i]->report);
  }

  FILE* out_;
};

// ---- in the parent --------------------------------------------------------------------------------------------------

struct Running {
  pid_t pid;
  int pipe;
  std::vector<size_t> indices;
  std::string text;
};

Running start(std::vector<size_t> indices, const MakeProgram& make) {
  int ends[2];
  if (pipe(ends) != 0) fail_user("K0101", str("pipe: ", std::strerror(errno)));
  std::fflush(nullptr);
  pid_t pid = fork();
  if (pid < 0) fail_user("K0101", str("fork: ", std::strerror(errno)));
  if (pid == 0) {
    close(ends[0]);
    alarm(seconds_per_child);
    FILE* out = fdopen(ends[1], "w");
    Child(out).run(indices, make);
    std::fclose(out);
    _exit(0);
  }
  close(ends[1]);
  return {pid, ends[0], std::move(indices), {}};
}

Report parse_report(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, '\t');) fields.push_back(field);
  fields.resize(6);
  Report report;
  report.index = std::stoull(fields[0]);
  report.outcome = static_cast<Outcome>(std::stoi(fields[1]));
  report.symbolic = fields[2] == "1";
  report.nodes = std::stoull(fields[3]);
  std::istringstream names(fields[4]);
  for (std::string name; std::getline(names, name, ',');) report.operators.push_back(name);
  report.message = fields[5];
  return report;
}

}  // namespace

void run_batches(const std::vector<size_t>& indices, const MakeProgram& make, size_t together, size_t jobs,
                 const std::function<void(const Report&)>& done) {
  std::deque<std::vector<size_t>> waiting;
  for (size_t begin = 0; begin < indices.size(); begin += together)
    waiting.emplace_back(indices.begin() + static_cast<std::ptrdiff_t>(begin),
                         indices.begin() + static_cast<std::ptrdiff_t>(std::min(indices.size(), begin + together)));
  std::vector<Running> running;
  auto finish = [&](Running& child) {
    close(child.pipe);
    int status = 0;
    waitpid(child.pid, &status, 0);
    std::set<size_t> left(child.indices.begin(), child.indices.end());
    std::istringstream lines(child.text);
    for (std::string line; std::getline(lines, line);) {
      Report report = parse_report(line);
      left.erase(report.index);
      done(report);
    }
    if (left.empty()) return;
    if (left.size() == 1) {
      Report report;
      report.index = *left.begin();
      report.outcome = Outcome::failed;
      report.message =
          WIFSIGNALED(status) ? str("compiled: ended by signal ", WTERMSIG(status)) : "compiled: no result";
      return done(report);
    }
    std::vector<size_t> rest(left.begin(), left.end());
    auto middle = rest.begin() + static_cast<std::ptrdiff_t>(rest.size() / 2);
    waiting.emplace_front(rest.begin(), middle);
    waiting.emplace_front(middle, rest.end());
  };
  while (!waiting.empty() || !running.empty()) {
    while (!waiting.empty() && running.size() < jobs) {
      running.push_back(start(std::move(waiting.front()), make));
      waiting.pop_front();
    }
    std::vector<pollfd> polls;
    for (const Running& child : running) polls.push_back({child.pipe, POLLIN, 0});
    poll(polls.data(), polls.size(), -1);
    for (size_t i = running.size(); i-- > 0;) {
      if (!polls[i].revents) continue;
      char bytes[65536];
      ssize_t count = read(running[i].pipe, bytes, sizeof bytes);
      if (count > 0) {
        running[i].text.append(bytes, static_cast<size_t>(count));
      } else {
        Running child = std::move(running[i]);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
        finish(child);
      }
    }
  }
}

}  // namespace kiln::random_programs
