#include "debug/bisect.h"

#include <chrono>
#include <cstdio>

#include "base/counted.h"
#include "debug/bisect_checks.h"
#include "debug/bisect_report.h"
#include "debug/bisection.h"
#include "debug/package_debug.h"

namespace kiln {
namespace {

class Bisect {
 public:
  Bisect(const std::string& path, const std::vector<Datum>& inputs, const BisectOptions& options)
      : path_(path), inputs_(inputs), options_(options), package_(path, options.weights) {
    package_.graph();  // read here once, for all children
    const std::vector<codegen::Target>& targets = package_.compilation().targets();
    const size_t target = package_.target();
    asked_ = target < targets.size() && targets[target].rounds_to_bf16;
    options_.tolerance.rounded_factors = asked_ || (target < targets.size() && rounds_weights(targets[target]));
  }

  BisectResult find() {
    BisectResult found = find_fault();
    if (options_.tolerance.rounded_factors && !options_.tolerance.rtol && !options_.tolerance.atol)
      found.text += str(
          "\n",
          asked_ ? "factors of products are rounded to bf16 (float32_matmul_precision=medium)"
                 : "weights of an attention over bf16 are rounded to bf16, as eager's kernel rounds them",
          ": differences up to 1/128 of a tensor's largest value are taken for that; --rtol and --atol ask for less");
    return found;
  }

 private:
  // Whether the compiler did so, of its own accord: only of programs with an attention is it asked.
  bool rounds_weights(const codegen::Target& target) {
    static const std::set<std::string, std::less<>> attention = names_with(&OpFacts::rounds_weights);
    const auto& nodes = package_.graph().graph.nodes;
    if (!target.bf16_pairs || std::none_of(nodes.begin(), nodes.end(), [&](const std::unique_ptr<Node>& node) {
          return std::any_of(node->origins.begin(), node->origins.end(),
                             [&](const Origin& origin) { return attention.contains(origin.op); });
        }))
      return false;
    const std::vector<PassReport>& passes = package_.compilation().passes(package_.target()).passes();
    return std::any_of(passes.begin(), passes.end(),
                       [](const PassReport& pass) { return pass.name == "round_factors" && pass.changed; });
  }

  BisectResult find_fault() {
    BisectResult planned = in_child([](BisectionRun&) {});
    if (planned.fault == FaultClass::overlap && planned.unexplained)
      if (BisectResult culprit = in_child([&](BisectionRun& run) { run.watched = planned.buffer; });
          culprit.fault == FaultClass::outside)
        return culprit;
    const bool crashed = planned.fault == FaultClass::crash, uncertain = planned.fault == FaultClass::uncertain;
    if (planned.fault != FaultClass::none && !crashed && !uncertain) return planned;
    // Nothing so far, or nobody to blame, or a crash: now with each buffer alone, where it shows which of them is left.
    BisectResult guarded = in_child([&](BisectionRun& run) { run.guarded = true, run.compare = false; });
    if (guarded.fault == FaultClass::outside || (guarded.fault != FaultClass::none && planned.step.empty()))
      return guarded;
    if (crashed && !died_looking_.empty()) return without_looking();
    if (crashed || uncertain) return planned;
    if (guarded.output_sums != planned.output_sums) {
      BisectResult compared = in_child([&](BisectionRun& run) { run.guarded = true; });
      if (compared.fault != FaultClass::none) return compared;
    }
    planned.text =
        str("no divergence: ", counted(static_cast<uint64_t>(planned.steps), "step"), " of ",
            counted(static_cast<uint64_t>(options_.calls), "call"), ", ", planned.against_graph,
            " compared with the fp64 reference of their operators, ", planned.against_loops,
            " with their own loops only", planned.by_loops.empty() ? "" : str(" (", join(planned.by_loops, ", "), ")"));
    if (!planned.untold.empty())
      planned.text += str("\nnot compared with anything, for want of a reference: ", join(planned.untold, ", "));
    return planned;
  }

  // A step's result is wrong, no step leaves a buffer, and this process's own code does not survive a look inside.
  BisectResult without_looking() {
    options_.inside = false;
    BisectResult result = in_child([](BisectionRun&) {});
    result.text += str("\n  which operator inside it is at fault is not known: looking for it ended with ",
                       died_looking_, ", which is a bug in Kiln; please report it");
    return result;
  }

  // Who watches hears what is done, at which step, and for how long by now.
  std::function<void(const ChildProgress&)> telling(const std::string& doing) const {
    if (!options_.told) return {};
    return [this, doing](const ChildProgress& at) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
      options_.told(str(
          doing, at.step[0] ? str(", call ", at.call, " of ", options_.calls, ", step ", at.number, " ", at.step) : "",
          at.looks_inside ? ": looking inside" : "",
          seconds < 1 ? "" : str(", ", static_cast<int64_t>(seconds), " s by now")));
    };
  }

  BisectResult in_child(const std::function<void(BisectionRun&)>& choose) {
    ChildProgress unused;
    BisectionRun asked{unused, true, false, 0, "", ""};
    choose(asked);
    const std::string doing = asked.guarded ? "each buffer alone" : "comparing";
    ChildEnd end = run_watched(options_.hang_seconds, telling(doing), [&](ChildProgress& progress) {
      BisectionRun run{progress, asked.compare, asked.guarded, 0, "", asked.watched};
      try {
        return report_text(run_bisection(package_, path_, inputs_, options_, run));
      } catch (const Error& error) {
        return report_text(error);
      }
    });
    if (end.how != ChildEnd::How::reported && end.progress.looks_inside) died_looking_ = end.signal_text();
    BisectResult result = end.how == ChildEnd::How::reported ? read_report(end.report) : ended(end);
    if (end.how == ChildEnd::How::reported && !end.errors.empty()) {
      if (options_.told) options_.told("");
      fputs(end.errors.c_str(), stderr);
    }
    if (result.fault == FaultClass::outside && end.how == ChildEnd::How::reported)
      look_inside(end.progress.launches, result.buffer, result);
    return result;
  }

  // A crash or a step without end: who and where.
  BisectResult ended(const ChildEnd& end) {
    const bool hung = end.how == ChildEnd::How::hung;
    const ChildProgress& at = end.progress;
    BisectResult result;
    result.fault = hung ? FaultClass::hang : FaultClass::crash;
    const std::string call = at.call > 1 ? str(", call ", at.call) : "";
    if (!at.inside_step) {
      result.text = str("the process ended with ", end.signal_text(),
                        at.launches == 0 ? " before the first step ran"
                                         : str(" outside of any step; the last that had run was ", at.step, " (step ",
                                               at.number, call,
                                               "). Which step is at fault is uncertain: one of those "
                                               "before has damaged memory"),
                        end.errors.empty() ? "" : "\n", end.errors);
      return result;
    }
    result.step = at.step;
    result.text = str("first divergence: kernel ", at.step, " (step ", at.number, call, ") ",
                      hung ? str("was still running after ", options_.hang_seconds, " seconds")
                           : str("ends the process with ", end.signal_text()));
    // The runtime's handler has said which argument the address is outside of: then it is no wild pointer.
    for (const std::string& line : split(end.errors, '\n')) {
      if (line.find(" of buffer ") == std::string::npos || line.find("address ") == std::string::npos) continue;
      result.buffer = buffer_in(line, " of buffer ");
      result.fault = FaultClass::outside;
      result.text += str("\n  ", trim(line));
    }
    look_inside(at.launches, result.buffer, result);
    return result;
  }

  // What can be said about a step without running it, in a process of its own again.
  void look_inside(int64_t launch, const std::string& buffer, BisectResult& result) {
    if (!options_.inside) return;
    const std::string doing = "looking for the operator";
    const ChildEnd end = run_watched(options_.hang_seconds, telling(doing), [&](ChildProgress& progress) {
      BisectionRun run{progress, true, false, launch, buffer, ""};
      try {
        return report_text(run_bisection(package_, path_, inputs_, options_, run));
      } catch (const Error& error) {
        return report_text(error);
      }
    });
    if (end.how != ChildEnd::How::reported) return;
    BisectResult inside;
    try {
      inside = read_report(end.report);
    } catch (const Error&) {
      return;  // the kernel has its name; that is all there is to say
    }
    if (inside.step != result.step) return;
    result.op = inside.op, result.value = inside.value, result.node = inside.node;
    result.candidates = inside.candidates;
    if (inside.fault == FaultClass::out_of_bounds) result.fault = inside.fault;
    result.text += inside.text;
  }

  const std::string& path_;
  const std::vector<Datum>& inputs_;
  BisectOptions options_;
  PackageDebug package_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::string died_looking_;  // how a child ended that looked inside a kernel
  bool asked_ = false;        // float32_matmul_precision: factors are rounded because the user wants it
};

}  // namespace

BisectResult bisect(const std::string& path, const std::vector<Datum>& inputs, const BisectOptions& options) {
  return Bisect(path, inputs, options).find();
}

}  // namespace kiln
