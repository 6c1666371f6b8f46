#include "runtime/lifetimes.h"

#include <algorithm>

namespace kiln::runtime {
namespace {

struct LoopRange {
  int32_t first, last;  // positions of the loop's own step and of the last step inside
};

struct Use {
  int32_t at;
  int32_t buffer;
  bool starts;                          // it only writes, whenever the enclosing loop's body runs
  std::vector<const LoopRange*> loops;  // innermost first
};

class Walk {
 public:
  explicit Walk(const Program& program) : program_(program), uses_(program.plan.buffers.size()) {}

  std::vector<Lifetime> run() {
    block(program_.init);
    block(program_.main);
    std::vector<Lifetime> out(program_.plan.buffers.size());
    for (size_t b = 0; b < out.size(); ++b) out[b] = lifetime(uses_[b]);
    // What is returned is copied after the last step.
    for (const format::Output& output : program_.plan.outputs) {
      if (output.what != format::OutputWhat::tensor) continue;
      Lifetime& life = out[static_cast<size_t>(program_.owner[static_cast<size_t>(output.buffer)])];
      life.last = static_cast<int32_t>(program_.steps.size());
      life.first = std::min(life.first, life.last);
    }
    return out;
  }

 private:
  int32_t last_position(const PreparedStep& step) const {
    int32_t last = step.index;
    for (const auto& inner : step.blocks)
      for (int32_t i : inner) last = std::max(last, last_position(program_.steps[static_cast<size_t>(i)]));
    return last;
  }

  void block(const std::vector<int32_t>& indices) {
    for (int32_t i : indices) visit(program_.steps[static_cast<size_t>(i)]);
  }

  void visit(const PreparedStep& step) {
    bool loop = step.step->kind == format::StepKind::while_loop;
    if (loop) {
      ranges_.push_back(std::make_unique<LoopRange>(LoopRange{step.index, last_position(step)}));
      loops_.insert(loops_.begin(), ranges_.back().get());
    }
    for (const format::KernelArg& arg : buffers_used(*step.step)) {
      auto owner = static_cast<size_t>(program_.owner[static_cast<size_t>(arg.buffer)]);
      bool starts = arg.access == Access::write && branches_ == 0 && !loop;
      uses_[owner].push_back({step.index, arg.buffer, starts, loops_});
      // A loop's predicate is read again after each iteration.
      if (loop) uses_[owner].push_back({ranges_.back()->last, arg.buffer, false, loops_});
    }
    int outer_branches = branches_;
    branches_ = loop ? 0 : branches_ + (step.step->kind == format::StepKind::cond ? 1 : 0);
    for (const auto& inner : step.blocks) block(inner);
    branches_ = outer_branches;
    if (loop) loops_.erase(loops_.begin());
  }

  static Lifetime lifetime(const std::vector<Use>& uses) {
    Lifetime life;
    for (const Use& use : uses) life.first = std::min(life.first, use.at), life.last = std::max(life.last, use.at);
    if (!life.used()) return life;
    const Use& first =
        *std::min_element(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.at < b.at; });
    // Started anew in each iteration of the innermost loop around its first use, and used nowhere else: neither that
    // loop nor those around it carry it over. (Not so for a loop further out: the inner one may run no iteration at
    // all.)
    bool local = first.starts && !first.loops.empty() && life.first >= first.loops[0]->first &&
                 life.last <= first.loops[0]->last;
    Lifetime whole = life;
    for (const Use& use : uses) {
      for (const LoopRange* loop : use.loops) {
        if (local && std::find(first.loops.begin(), first.loops.end(), loop) != first.loops.end()) continue;
        whole.first = std::min(whole.first, loop->first);
        whole.last = std::max(whole.last, loop->last);
      }
    }
    return whole;
  }

  const Program& program_;
  std::vector<std::vector<Use>> uses_;
  std::vector<const LoopRange*> loops_;
  std::vector<std::unique_ptr<LoopRange>> ranges_;
  int branches_ = 0;  // conds between here and the innermost loop
};

}  // namespace

std::vector<Lifetime> find_lifetimes(const Program& program) { return Walk(program).run(); }

}  // namespace kiln::runtime
