#include "loop_passes/contraction.h"
#include "loop_passes/rewrite.h"
#include "loops/walk.h"
#include "schedule/merge_loops.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr int window = 24;                  // how far back a partner is looked for
constexpr double large_matrix = 128 << 10;  // elements: more are not read again from the nearest cache
constexpr size_t largest_kernel = 400;      // statements: beyond that the compiler's time grows faster than the gain

// A measure of all the iterations of a body.
double body_work(const Body& body, const LoopProgram& program) {
  double work = 0;
  for (const Stmt& stmt : body)
    work += stmt.kind == StmtKind::loop
                ? std::max(1.0, estimate(stmt.loop->extent, program)) * (body_work(stmt.loop->body, program) + 1)
                : 1;
  return work;
}

// Whether a window slides over a picture in it: a reduction of what lies at a loop's variable and its own together.
bool slides_window(const Body& body, std::vector<const Loop*>& around) {
  for (const Stmt& stmt : body) {
    if (stmt.kind == StmtKind::load)
      for (const Expr& e : stmt.index) {
        const auto with = [&](AxisRole role) {
          return std::any_of(around.begin(), around.end(),
                             [&](const Loop* loop) { return loop->role == role && mentions(e, loop->var); });
        };
        if (with(AxisRole::parallel) && with(AxisRole::reduce)) return true;
      }
    if (!stmt.loop) continue;
    around.push_back(stmt.loop.get());
    const bool found = slides_window(stmt.loop->body, around);
    around.pop_back();
    if (found) return true;
  }
  return false;
}

bool is_pool(const Kernel& kernel) {
  std::vector<const Loop*> around;
  return !has_contraction(kernel.body) && slides_window(kernel.body, around);
}

class Merger {
 public:
  Merger(LoopProgram& program, Log& log) : program_(program), log_(log), ranges_(program.ranges()) {}

  // Items move over one by one, so that one which is gone leaves a gap only among the last few.
  bool run(Block& block) {
    bool changed = false;
    Block merged;
    merged.reserve(block.size());
    for (Item& item : block) {
      for_each_block(item, [&](Block& nested) { changed |= run(nested); });
      merged.push_back(std::move(item));
      if (std::holds_alternative<Kernel>(merged.back().what)) changed |= merge_upwards(merged, merged.size() - 1);
    }
    block = std::move(merged);
    return changed;
  }

 private:
  // Tries to merge block[i] with an earlier kernel; on success block[i] is gone.
  bool merge_upwards(Block& block, size_t i) {
    Accesses mine = accesses(block[i]);
    Accesses between;  // of the items passed over so far
    size_t last = i > window ? i - window : 0;
    for (size_t j = i; j-- > last;) {
      Accesses other = accesses(block[j]);
      if (std::holds_alternative<Kernel>(block[j].what)) {
        bool up = !conflict(mine, between);     // block[i] can move up to j
        bool down = !conflict(other, between);  // block[j] can move down to i
        if ((up || down) && related(mine, other) && try_merge(block, j, i, up)) return true;
      }
      between.reads.insert(other.reads.begin(), other.reads.end());
      between.writes.insert(other.writes.begin(), other.writes.end());
      // Nothing moves past what checks something or gives a symbol its value.
      if (is_barrier(block[j])) break;
    }
    return false;
  }

  static bool is_barrier(const Item& item) {
    auto* call = std::get_if<Call>(&item.what);
    return std::holds_alternative<AssertThat>(item.what) || std::holds_alternative<BindSymbol>(item.what) ||
           (call && !call->defines.empty());
  }

  static bool related(const Accesses& a, const Accesses& b) {
    for (BufferId id : a.reads)
      if (b.touches(id)) return true;
    for (BufferId id : a.writes)
      if (b.touches(id)) return true;
    return false;
  }

  bool try_merge(Block& block, size_t first, size_t second, bool up) {
    Kernel& a = std::get<Kernel>(block[first].what);
    Kernel& b = std::get<Kernel>(block[second].what);
    if (has_contraction(a.body) && has_contraction(b.body))
      return refuse(a, b, "each is a matrix product with a schedule of its own");
    if ((has_contraction(a.body) && is_pool(b)) || (has_contraction(b.body) && is_pool(a)))
      return refuse(a, b, "a pool takes its points as it likes, and so does a matrix product");
    if (statement_count(a.body) + statement_count(b.body) > largest_kernel)
      return refuse(a, b, "the kernel would be too large");
    Kernel merged = a.clone();
    std::string reason;
    if (!merge_into(merged, b, program_, ranges_, reason)) return refuse(a, b, reason);
    if (!worthwhile(a, b, merged, reason)) return refuse(a, b, reason);
    for (const Kernel* part : {&a, &b})
      if (has_contraction(part->body) && is_tileable(part->body) && !is_tileable(merged.body))
        return refuse(a, b, "the matrix product could no longer run in tiles");
    if (has_contraction(a.body) && is_tileable(a.body) && !needs_whole_rows(a.body) && needs_whole_rows(merged.body)) {
      if (products_of_a_row(a.body, program_) > large_matrix)
        return refuse(a, b, "the matrix would have to pass once for every few rows");
      if (has_groups(a.body)) return refuse(a, b, "each group is a product of its own, and this wants all of them");
    }
    log_.add([&] { return Decision{"merge", b.name, "into", a.name, reason, true, ""}; });
    size_t keep = up ? first : second, drop = up ? second : first;
    block[keep].what = std::move(merged);
    block.erase(block.begin() + static_cast<std::ptrdiff_t>(drop));
    return true;
  }

  // Merging must not leave fewer threads' worth of outer iterations than the parts had, when the work is large.
  bool worthwhile(const Kernel& a, const Kernel& b, const Kernel& merged, std::string& reason) {
    double kept = parallel_width(merged.body), had = std::min(parallel_width(a.body), parallel_width(b.body));
    double work = body_work(merged.body, program_);
    if (kept < 64 && kept < had && work > 100000) {
      reason = str("only ", static_cast<int64_t>(kept), " of ", static_cast<int64_t>(had),
                   " iterations would stay parallel");
      return false;
    }
    reason = str("same loops over ", static_cast<int64_t>(kept), " iterations");
    return true;
  }

  // Product of the extents of the perfectly nested outer parallel loops.
  double parallel_width(const Body& body) const {
    if (body.size() != 1 || body[0].kind != StmtKind::loop || body[0].loop->role != AxisRole::parallel) return 1;
    return std::max(1.0, estimate(body[0].loop->extent, program_)) * parallel_width(body[0].loop->body);
  }

  bool refuse(const Kernel& a, const Kernel& b, const std::string& reason) {
    log_.add([&] { return Decision{"no merge of", b.name, "with", a.name, reason, false, ""}; });
    return false;
  }

  LoopProgram& program_;
  Log& log_;
  RangeEnv ranges_;
};

}  // namespace

bool merge_kernels(LoopProgram& program, Log& log) {
  Merger merger(program, log);
  return merger.run(program.block);
}

}  // namespace kiln::loops
