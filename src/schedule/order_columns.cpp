// The loop that only the weights vary with is the columns of a product, and stands innermost. Where a convolution has
// channels enough, layouts see to that (choose_layouts); of few (three colours, at the end of a network that makes
// pictures) the result stays as it is, and only the loops change places.
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// The parallel loops of a nest in which nothing else stands, the outermost first.
std::vector<Loop*> chain_of(Kernel& kernel) {
  std::vector<Loop*> out;
  for (Body* body = &kernel.body;
       body->size() == 1 && body->front().loop && body->front().loop->role == AxisRole::parallel;
       body = &body->front().loop->body)
    out.push_back(body->front().loop.get());
  return out;
}

bool depends(const Stmt& access, const std::string& var) {
  return std::any_of(access.index.begin(), access.index.end(), [&](const Expr& e) { return mentions(e, var); });
}

class ColumnOrder {
 public:
  ColumnOrder(const LoopProgram& program, Kernel& kernel) : program_(program), kernel_(kernel) {}

  bool run() {
    const std::vector<Loop*> chain = chain_of(kernel_);
    if (chain.size() < 2 || !find_factors(*chain.back())) return false;
    if (!depends(*picture_, chain.back()->var) || depends(*weight_, chain.back()->var)) return false;
    for (const Loop* loop : chain)
      for (const Loop* other : chain)
        if (mentions(loop->extent, other->var)) return false;
    // The last one, which has the others' order left.
    for (size_t i = chain.size() - 1; i-- > 0;) {
      if (!depends(*weight_, chain[i]->var) || depends(*picture_, chain[i]->var)) continue;
      for (size_t at = i; at + 1 < chain.size(); ++at) {
        std::swap(chain[at]->var, chain[at + 1]->var);
        std::swap(chain[at]->extent, chain[at + 1]->extent);
      }
      return true;
    }
    return false;
  }

 private:
  // A window over a picture: nested sums of what a weight and one other load give. A single sum of few columns runs in
  // lanes along its terms, which is better.
  bool find_factors(Loop& innermost) {
    const Body* body = &innermost.body;
    size_t sums = 0;
    while (true) {
      const Stmt* inner = nullptr;
      for (const Stmt& stmt : *body) {
        if (stmt.loop && inner) return false;
        if (stmt.loop) inner = &stmt;
        if (stmt.kind == StmtKind::load && sums > 0 && !note(stmt)) return false;
      }
      if (!inner) break;
      if (inner->loop->role != AxisRole::reduce || inner->loop->reduce != ReduceOp::sum) return false;
      ++sums;
      body = &inner->loop->body;
    }
    return sums > 1 && weight_ && picture_;
  }
  bool note(const Stmt& load) {
    const Buffer& buffer = program_.buffers[static_cast<size_t>(load.buffer)];
    const bool fixed = (buffer.role == BufferRole::constant && !buffer.mutated) || buffer.role == BufferRole::derived;
    const Stmt*& to = fixed ? weight_ : picture_;
    if (to) return false;
    to = &load;
    return true;
  }

  const LoopProgram& program_;
  Kernel& kernel_;
  const Stmt *weight_ = nullptr, *picture_ = nullptr;
};

}  // namespace

bool order_columns(LoopProgram& program, const Target& target, Log& log) {
  if (target.is_gpu()) return false;
  bool changed = false;
  for_each_item(program.block, [&](Item& item) {
    auto* kernel = std::get_if<Kernel>(&item.what);
    if (!kernel || !ColumnOrder(program, *kernel).run()) return;
    changed = true;
    log.add([&] {
      return Decision{
          "order loops of", kernel->name, "", "", "what only the weights vary with goes innermost", true, ""};
    });
  });
  return changed;
}

}  // namespace kiln::loops
