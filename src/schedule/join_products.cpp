// Products of the same rows with different weights (queries, keys and values) become one product, whose columns are
// those of all of them: it starts once. The weights lie below one another in a derived constant, which is made when
// they are loaded; who read one of the results reads its columns of the common one.
//
// On a GPU its tiles are three times as many. On a CPU the weights are packed in panels, each from where it lies
// (packing.cpp), so that none is there more often than before; a single row's product reads its
// weight as it lies, and a copy of that would be one too many.
#include "loop_passes/rewrite.h"
#include "schedule/joined_weights.h"
#include "schedule/schedule.h"
#include "schedule/template.h"

namespace kiln::loops {
namespace {

constexpr double most_joined_bytes = 32 << 20;  // of weights, which a GPU then has twice
constexpr double most_joined_rows = 1024;       // more rows have tiles enough for a GPU
constexpr size_t joined_window = 12;            // how far down a partner is looked for
constexpr double least_joined_terms = 128;      // of a single row

class ProductJoiner {
 public:
  ProductJoiner(LoopProgram& program, const Target& target, Log& log) : program_(program), target_(target), log_(log) {}

  bool run(Block& block) {
    bool changed = false;
    std::vector<bool> gone(block.size());
    for (size_t i = 0; i < block.size(); ++i) {
      auto* first = std::get_if<Kernel>(&block[i].what);
      if (gone[i] || !first || !is_candidate(*first)) continue;
      std::vector<size_t> others;
      Accesses between;
      for (size_t j = i + 1; j < block.size() && j <= i + joined_window; ++j) {
        if (gone[j]) continue;
        auto* other = std::get_if<Kernel>(&block[j].what);
        const Accesses own = accesses(block[j]);
        if (other && is_candidate(*other) && !conflict(own, between) && same(*first, *other)) {
          others.push_back(j);
          continue;
        }
        if (!other) break;
        between.reads.insert(own.reads.begin(), own.reads.end());
        between.writes.insert(own.writes.begin(), own.writes.end());
      }
      if (others.empty() || !join(block, i, others)) continue;
      for (size_t j : others) gone[j] = true;
      changed = true;
    }
    erase_items(block, gone);
    return changed;
  }

 private:
  Buffer& buffer(BufferId id) { return program_.buffers[static_cast<size_t>(id)]; }
  const Buffer& buffer(BufferId id) const { return program_.buffers[static_cast<size_t>(id)]; }
  static const std::string& columns(const Kernel& kernel) {
    return kernel.contraction ? kernel.contraction->columns[0] : kernel.body[0].loop->var;
  }

  // A product of a single row, which is no contraction: one loop, and in it a sum.
  bool is_one_row(const Kernel& kernel) const {
    if (kernel.body.size() != 1 || !kernel.body[0].loop || kernel.body[0].loop->role != AxisRole::parallel)
      return false;
    const Stmt* sum = nullptr;
    for (const Stmt& stmt : kernel.body[0].loop->body) {
      if (stmt.loop && sum) return false;
      if (stmt.loop) sum = &stmt;
    }
    return sum && sum->loop->role == AxisRole::reduce && sum->loop->reduce == ReduceOp::sum &&
           summed_product(*sum->loop) && estimate(sum->loop->extent, program_) >= least_joined_terms &&
           std::none_of(sum->loop->body.begin(), sum->loop->body.end(),
                        [](const Stmt& s) { return s.loop != nullptr; });
  }
  bool is_product(const Kernel& kernel) const {
    if (!kernel.contraction) return target_.is_gpu() && is_one_row(kernel);
    if (!kernel.contraction->batch.empty() || kernel.contraction->columns.size() != 1 ||
        kernel.contraction->sums.size() != 1)
      return false;
    const ContractionNest nest = contraction_nest(kernel);
    if (nest.whole_rows()) return false;
    return target_.is_gpu() ? estimate(nest.row_count(), program_) <= most_joined_rows
                            : constant_right_factor(kernel, program_) != nullptr;
  }

  bool is_weight(BufferId id) const {
    const Buffer& b = buffer(id);
    return (b.role == BufferRole::constant && !b.mutated) || b.role == BufferRole::derived;
  }

  // The dimension that the columns number; -1: none, or more than that.
  static int column_dimension(const Stmt& access, const std::string& var) {
    int found = -1;
    for (size_t d = 0; d < access.index.size(); ++d) {
      if (!mentions(access.index[d], var)) continue;
      if (found >= 0 || !access.index[d].is_symbol()) return -1;
      found = static_cast<int>(d);
    }
    return found;
  }

  // A product of few rows, whose right factor is a weight, with one result that only kernels read.
  bool is_candidate(const Kernel& kernel) {
    if (kernel.schedule || raises(kernel.body) || !is_product(kernel)) return false;
    const Expr extent = column_loop(const_cast<Kernel&>(kernel)).extent;
    if (!extent.is_constant() || extent.value() % 16 != 0) return false;
    const std::string& var = columns(kernel);
    int stores = 0;
    bool fine = true;
    double bytes = 0;
    for_each_stmt(kernel.body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::random) fine = false;
      if (mentions(stmt.expr, var)) fine = false;  // the number of a column
      if (stmt.kind == StmtKind::store) {
        const Buffer& to = buffer(stmt.buffer);
        ++stores;
        const int d = column_dimension(stmt, var);
        fine &= stmt.mode == StoreMode::plain && stmt.mask == no_value && to.role == BufferRole::temp &&
                !observable(program_, stmt.buffer) && d >= 0 && (!target_.is_gpu() || is_last(to, d)) &&
                to.strides[static_cast<size_t>(d)] == Expr(1) && to.sizes[static_cast<size_t>(d)] == extent &&
                !order_of(to).empty() && only_loaded(stmt.buffer, kernel);
      }
      if (stmt.kind != StmtKind::load) return;
      bool along = false;
      for (const Expr& e : stmt.index) along |= mentions(e, var);
      if (!along) return;
      const int d = column_dimension(stmt, var);
      fine &= d >= 0 && is_weight(stmt.buffer) && stmt.mask == no_value &&
              buffer(stmt.buffer).sizes[static_cast<size_t>(d)] == extent;
      for (const Expr& size : buffer(stmt.buffer).sizes) fine &= size.is_constant();
      if (fine) bytes += estimate(buffer_bytes(buffer(stmt.buffer)), program_);
    });
    return fine && stores == 1 && (!target_.is_gpu() || bytes <= most_joined_bytes);
  }
  static bool is_last(const Buffer& b, int d) { return d + 1 == static_cast<int>(b.sizes.size()); }
  // The dimensions of a dense buffer, from the innermost on; nothing: it has gaps.
  static std::vector<size_t> order_of(const Buffer& b) {
    std::vector<size_t> out, left, single;
    for (size_t d = 0; d < b.sizes.size(); ++d) (b.sizes[d] == Expr(1) ? single : left).push_back(d);
    for (Expr stride = 1; !left.empty();) {
      const auto next = std::find_if(left.begin(), left.end(), [&](size_t d) { return b.strides[d] == stride; });
      if (next == left.end()) return {};
      stride = stride * b.sizes[*next];
      out.push_back(*next);
      left.erase(next);
    }
    out.insert(out.end(), single.begin(), single.end());
    return out;
  }
  // All other kernels only load it, and nothing else knows it.
  bool only_loaded(BufferId id, const Kernel& by) {
    bool fine = true;
    for (const Block* block : {&program_.init, &program_.block})
      for_each_item(*block, [&](const Item& item) {
        const auto* kernel = std::get_if<Kernel>(&item.what);
        const bool nested = std::holds_alternative<Cond>(item.what) || std::holds_alternative<While>(item.what);
        if (kernel == &by) return;
        fine &= kernel ? !kernel->schedule && !accesses(kernel->body).writes.contains(id)
                       : nested || !accesses(item).touches(id);
        if (const auto* cond = std::get_if<Cond>(&item.what))
          fine &= !std::holds_alternative<BufferId>(cond->predicate) || std::get<BufferId>(cond->predicate) != id;
        if (const auto* loop = std::get_if<While>(&item.what))
          fine &= !std::holds_alternative<BufferId>(loop->predicate) || std::get<BufferId>(loop->predicate) != id;
      });
    return fine;
  }

  static std::vector<Stmt*> buffer_accesses(Kernel& kernel) {
    std::vector<Stmt*> out;
    for_each_stmt(kernel.body, [&](Stmt& stmt) {
      if (stmt.buffer != no_buffer) out.push_back(&stmt);
    });
    return out;
  }
  static Loop& column_loop(Kernel& kernel) {
    Loop* found = nullptr;
    for_each_stmt(kernel.body, [&](Stmt& stmt) {
      if (stmt.loop && stmt.loop->var == columns(kernel)) found = stmt.loop.get();
    });
    return *found;
  }

  // Whether the other one does the same with weights and a result of its own.
  bool same(const Kernel& a, const Kernel& b) {
    if (columns(a) != columns(b) || a.contraction.has_value() != b.contraction.has_value()) return false;
    Kernel x = a.clone(), y = b.clone();
    const std::vector<Stmt*> from = buffer_accesses(x), to = buffer_accesses(y);
    if (from.size() != to.size()) return false;
    std::map<BufferId, BufferId> instead;
    for (size_t i = 0; i < from.size(); ++i) {
      const BufferId theirs = to[i]->buffer, mine = from[i]->buffer;
      if (from[i]->kind != to[i]->kind || from[i]->index.size() != to[i]->index.size()) return false;
      if (const auto [at, inserted] = instead.emplace(theirs, mine); !inserted && at->second != mine) return false;
      if (theirs == mine) continue;
      const Buffer &p = buffer(mine), &q = buffer(theirs);
      const int d = column_dimension(*from[i], columns(a));
      if (d < 0 || p.dtype != q.dtype || p.sizes.size() != q.sizes.size()) return false;
      for (size_t k = 0; k < p.sizes.size(); ++k)
        if (static_cast<int>(k) != d && p.sizes[k] != q.sizes[k]) return false;
    }
    for (size_t i = 0; i < from.size(); ++i) {
      // What is shared must be the rows' own; one weight for two would be no gain.
      if (from[i]->buffer == to[i]->buffer && column_dimension(*from[i], columns(a)) >= 0) return false;
      to[i]->buffer = from[i]->buffer;
    }
    column_loop(y).extent = column_loop(x).extent;
    for (Kernel* kernel : {&x, &y}) {
      kernel->name = "same";
      kernel->op_names.clear(), kernel->origins.clear(), kernel->named.clear();
    }
    return print(x, program_) == print(y, program_);
  }

  // A buffer of which each product has a part, along the dimension that the columns number.
  struct Common {
    BufferId id = no_buffer;
    StmtKind kind = StmtKind::load;
    std::vector<JoinedPart> parts;
  };

  bool join(Block& block, size_t at, const std::vector<size_t>& others) {
    std::vector<Kernel*> all = {&std::get<Kernel>(block[at].what)};
    for (size_t j : others) all.push_back(&std::get<Kernel>(block[j].what));
    Kernel joined = all[0]->clone();
    const std::string var = columns(joined);
    std::vector<int64_t> widths, offsets;
    int64_t total = 0;
    for (Kernel* kernel : all) {
      offsets.push_back(total);
      widths.push_back(column_loop(*kernel).extent.value());
      total += widths.back();
    }
    column_loop(joined).extent = Expr(total);
    const std::vector<Stmt*> mine = buffer_accesses(joined);
    std::map<BufferId, Common> made;
    for (size_t i = 0; i < mine.size(); ++i) {
      const int d = column_dimension(*mine[i], var);
      if (d < 0) continue;
      const BufferId old = mine[i]->buffer;
      if (!made.contains(old)) {
        Common& common = made[old];
        common.kind = mine[i]->kind;
        for (size_t k = 0; k < all.size(); ++k)
          common.parts.push_back({buffer_accesses(*all[k])[i]->buffer, static_cast<size_t>(d), offsets[k], widths[k]});
        common.id = add_common(common, total);
      }
      mine[i]->buffer = made[old].id;
    }
    for (const auto& [old, common] : made)
      common.kind == StmtKind::store ? redirect_readers(common) : fill_joined(program_, common.id, common.parts);
    for (size_t k = 1; k < all.size(); ++k) {
      joined.op_names.insert(joined.op_names.end(), all[k]->op_names.begin(), all[k]->op_names.end());
      joined.origins.insert(joined.origins.end(), all[k]->origins.begin(), all[k]->origins.end());
      // Of a value's columns only those are its own that its index has.
      for (NamedValue named : all[k]->named) {
        const bool of_columns =
            std::any_of(named.index.begin(), named.index.end(), [&](const Expr& e) { return mentions(e, var); });
        for (Expr& e : named.index) e = substitute(e, {{var, Expr::symbol(var) - Expr(offsets[k])}});
        if (of_columns) joined.named.push_back(std::move(named));
      }
    }
    log_.add([&] {
      return Decision{
          "products joined in", joined.name, "", "", str(all.size(), " products of the same rows"), true, ""};
    });
    block[at].what = std::move(joined);
    return true;
  }

  // As the first part, but with the columns of all: results in the same order, weights one below the other.
  BufferId add_common(const Common& common, int64_t total) {
    Buffer made = buffer(common.parts[0].from);
    made.complex = false;
    const bool result = common.kind == StmtKind::store;
    std::vector<size_t> order = result ? order_of(made) : std::vector<size_t>();
    for (size_t d = made.sizes.size(); !result && d-- > 0;) order.push_back(d);
    made.name += "_joined";
    if (!result) made.role = BufferRole::derived, made.constant.clear(), made.position = -1;
    made.sizes[common.parts[0].dimension] = Expr(total);
    made.offset = Expr(0);
    Expr stride = 1;
    for (size_t d : order) {
      made.strides[d] = stride;
      stride = stride * made.sizes[d];
    }
    return program_.add_buffer(std::move(made));
  }

  // Readers of a part read its columns of the common result.
  void redirect_readers(const Common& common) {
    for_each_item(program_.block, [&](Item& item) {
      auto* kernel = std::get_if<Kernel>(&item.what);
      if (!kernel) return;
      for_each_stmt(kernel->body, [&](Stmt& stmt) {
        if (stmt.kind != StmtKind::load) return;
        for (const JoinedPart& part : common.parts) {
          if (stmt.buffer != part.from) continue;
          stmt.buffer = common.id;
          Expr& column = stmt.index[part.dimension];
          column = column + Expr(part.offset);
          return;
        }
      });
    });
  }

  LoopProgram& program_;
  const Target& target_;
  Log& log_;
};

}  // namespace

bool join_products(LoopProgram& program, const Target& target, Log& log) {
  if (!target.is_gpu() && target.lanes == 1) return false;  // scalar code packs nothing
  return ProductJoiner(program, target, log).run(program.block);
}

}  // namespace kiln::loops
