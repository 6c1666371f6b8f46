// A group norm's statistics over a picture whose channels are innermost in memory: the groups are the items, and each
// of them sums up its few channels of every point.
//
//   for i in [32] { s = sum over line, point, r in [2] of x[line, point, i*2 + r]; … }
//
// That is narrower than a vector, and each group reads all lines of memory again. Here the channels are summed up side
// by side in lanes, for parts of the picture that are items, and what the kernel was is left with the parts' sums:
//
//   for p in [parts] { for c in [64] @lane { t[p, c] = sum over the part's lines, point of x[line, point, c] } }
//   for i in [32] { s = sum over p, r in [2] of t[p, i*2 + r]; … }
//
// A sum that needs another one's result (the variance needs the mean) gets it from a kernel in between, which stores it
// for each channel. An instance norm's groups are of one channel. Which part has what does not depend on threads.
#include "loop_passes/passes.h"
#include "loop_passes/rewrite.h"
#include "schedule/contractions.h"
#include "schedule/new_loops.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr double elements_of_part = 32 << 10;  // about what is worth a thread; fewer are not worth more kernels
constexpr double least_points = 64;            // that meet in a channel's sum
constexpr int64_t most_parts = 64;

bool is_value(const Stmt& stmt) {
  return stmt.kind == StmtKind::op || stmt.kind == StmtKind::constant || stmt.kind == StmtKind::index_value ||
         stmt.kind == StmtKind::load;
}

// Sums of sums, the outermost first: each yields what the next one gives. Empty: something else is among them.
std::vector<const Loop*> sums_of(const Stmt& stmt) {
  std::vector<const Loop*> out;
  for (const Stmt* at = &stmt; at;) {
    const Loop& loop = *at->loop;
    const bool plain = loop.role == AxisRole::reduce && loop.reduce == ReduceOp::sum &&
                       loop.reduce_dtype == DType::f64 && loop.only == no_value && loop.order == SumOrder() &&
                       loop.directives == AxisDirectives() && !loop.body.empty();
    if (!plain) return {};
    out.push_back(&loop);
    const Stmt& last = loop.body.back();
    for (const Stmt& inner : loop.body)
      if (!is_value(inner) && !(inner.loop && &inner == &last)) return {};
    if (last.loop && last.results != loop.yields) return {};
    at = last.loop ? &last : nullptr;
  }
  return out;
}

// Which loops count through the channels, which are neighbours in memory.
struct Channels {
  size_t item = 0;     // the parallel loop over the groups
  int64_t each = 1;    // channels of a group,
  std::string within;  // and the sum over them where there are several
  int64_t count = 0;   // of all groups
};

// The loop that is cut into parts, and how.
struct Parts {
  size_t level = 0;
  int64_t count = 0;
  Expr chunk;
};

// A nest of sums, and what becomes of it.
struct Sums {
  size_t at = 0;  // its place in the kernel's body
  std::vector<const Loop*> loops;
  Channels channels;
  Parts parts;
};

class SumsBeside : NewLoops {
 public:
  SumsBeside(LoopProgram& program, Kernel& kernel, const Target& target)
      : program_(program), kernel_(kernel), target_(target), env_(kernel_ranges(kernel, program)) {}

  // The kernels that run before this one. None: it stays as it is.
  std::vector<Kernel> run() {
    body_ = &enter_items();
    if (items_.empty()) return {};
    for (size_t at = 0; at < body_->size(); ++at)
      if ((*body_)[at].loop) split(at);
    if (!made_.empty()) simplify_body(program_, kernel_);
    return std::move(made_);
  }

 private:
  // The body inside of the parallel loops that have nothing beside the next of them.
  Body& enter_items() {
    Body* body = &kernel_.body;
    while (body->size() == 1 && body->front().loop) {
      const Loop& loop = *body->front().loop;
      if (loop.role != AxisRole::parallel || loop.directives != AxisDirectives() || !has_fixed_extent(loop)) break;
      items_.push_back(&loop);
      body = &body->front().loop->body;
    }
    return *body;
  }
  bool has_fixed_extent(const Loop& loop) const {
    std::set<std::string> symbols;
    collect_symbols(loop.extent, symbols);
    return std::all_of(symbols.begin(), symbols.end(),
                       [&](const std::string& name) { return program_.symbols.contains(name); });
  }

  void split(size_t at) {
    Sums sums;
    sums.at = at;
    sums.loops = sums_of((*body_)[at]);
    const auto fixed = [&](const Loop* loop) { return has_fixed_extent(*loop); };
    if (sums.loops.empty() || !std::all_of(sums.loops.begin(), sums.loops.end(), fixed)) return;
    const std::optional<Channels> channels = channels_of(sums.loops);
    if (!channels || !is_worth_it(sums.loops, *channels) || reads_what_is_written(*sums.loops[0])) return;
    const std::optional<std::vector<ValueId>> results = results_needed(at);
    if (!results) return;
    sums.channels = *channels;
    sums.parts = parts_of(sums.loops, *channels);
    if (!results->empty()) made_.push_back(kernel_of_results(sums, *results));
    Buffer partial = buffer_of("parts", DType::f64, *channels);
    partial.sizes.insert(partial.sizes.end() - 1, Expr(sums.parts.count));
    const BufferId buffer = add_dense(std::move(partial));
    made_.push_back(kernel_of_parts(sums, buffer));
    (*body_)[at] = sum_of_parts(sums, buffer);
    sums_of_parts_.insert((*body_)[at].results[0]);
  }

  // ---- What is looked for

  std::optional<Channels> channels_of(const std::vector<const Loop*>& sums) const {
    std::optional<Channels> found;
    for (const Stmt& stmt : sums.back()->body)
      for (size_t i = items_.size(); i-- > 0 && stmt.kind == StmtKind::load && !found;)
        found = channels_of(stmt, i, sums);
    if (!found) return {};
    for (const Loop* loop : sums)
      for (const Stmt& stmt : loop->body)
        if (stmt.kind == StmtKind::load && !runs_along(stmt, *found)) return {};
    return found;
  }
  std::optional<Channels> channels_of(const Stmt& load, size_t item, const std::vector<const Loop*>& sums) const {
    const Loop& groups = *items_[item];
    const int64_t each = distance(load, groups.var);
    if (each < 1 || !groups.extent.is_constant() || groups.extent.value() < 2) return {};
    if (each == 1) return Channels{item, 1, "", groups.extent.value()};
    for (const Loop* loop : sums)
      if (loop->extent.is_constant(each) && distance(load, loop->var) == 1)
        return Channels{item, each, loop->var, each * groups.extent.value()};
    return {};
  }
  // From one element to the next along the variable; -1: not the same everywhere.
  int64_t distance(const Stmt& load, const std::string& var) const {
    const auto along = affine_in(address_of(load, program_, env_), var);
    return along && along->coefficient.is_constant() ? along->coefficient.value() : -1;
  }
  // Neighbours for neighbouring channels, or the same for all of them.
  bool runs_along(const Stmt& load, const Channels& channels) const {
    const int64_t group = distance(load, items_[channels.item]->var);
    const int64_t channel = channels.within.empty() ? group : distance(load, channels.within);
    return (group == channels.each && channel == 1) || (group == 0 && channel == 0);
  }

  bool is_worth_it(const std::vector<const Loop*>& sums, const Channels& channels) const {
    const bool many_points = terms_of(sums) >= least_points * static_cast<double>(channels.each);
    return channels.count >= target_.lanes && many_points && elements_of(sums, channels) >= elements_of_part;
  }
  double terms_of(const std::vector<const Loop*>& sums) const {
    double terms = 1;
    for (const Loop* loop : sums) terms *= std::max(1.0, estimate(loop->extent, program_));
    return terms;
  }
  double elements_of(const std::vector<const Loop*>& sums, const Channels& channels) const {
    return terms_of(sums) * static_cast<double>(channels.count / channels.each);
  }
  bool reads_what_is_written(const Loop& sums) const {
    const Accesses inside = accesses(sums.body), all = accesses(kernel_.body);
    return std::any_of(inside.reads.begin(), inside.reads.end(), [&](BufferId b) { return all.writes.contains(b); });
  }

  // The statements of the body whose results this one reads, itself or by values in between, in order.
  std::vector<const Stmt*> needed_by(size_t at, const std::map<ValueId, BufferId>& known = {}) const {
    std::set<ValueId> needed = read_by((*body_)[at]);
    std::vector<const Stmt*> out;
    for (size_t i = at; i-- > 0;) {
      const Stmt& stmt = (*body_)[i];
      const bool here = std::any_of(stmt.results.begin(), stmt.results.end(),
                                    [&](ValueId v) { return needed.contains(v) && !known.contains(v); });
      if (!here) continue;
      needed.merge(read_by(stmt));
      out.insert(out.begin(), &stmt);
    }
    return out;
  }
  static std::set<ValueId> read_by(const Stmt& stmt) {
    std::set<ValueId> out(stmt.args.begin(), stmt.args.end());
    out.insert(stmt.mask);
    if (!stmt.loop) return out;
    out.insert(stmt.loop->yields.begin(), stmt.loop->yields.end());
    for (const Stmt& inner : stmt.loop->body) out.merge(read_by(inner));
    return out;
  }

  // What a sum reads of the results of sums before it. Nothing: it reads what other kernels cannot find.
  std::optional<std::vector<ValueId>> results_needed(size_t at) const {
    const std::set<ValueId> read = read_by((*body_)[at]);
    std::set<ValueId> from_sums;
    std::vector<ValueId> out;
    for (const Stmt* stmt : needed_by(at)) {
      const bool sum = stmt->loop && sums_of_parts_.contains(stmt->results[0]);
      const bool by_group = stmt->kind == StmtKind::load && !by_channel_.contains(stmt->results[0]);
      if (!sum && (!is_value(*stmt) || by_group)) return {};
      const std::set<ValueId> of = read_by(*stmt);
      const bool later = sum || std::any_of(of.begin(), of.end(), [&](ValueId v) { return from_sums.contains(v); });
      if (!later) continue;
      from_sums.insert(stmt->results[0]);
      if (read.contains(stmt->results[0])) out.push_back(stmt->results[0]);
    }
    return out;
  }

  Parts parts_of(const std::vector<const Loop*>& sums, const Channels& channels) const {
    const auto enough = static_cast<int64_t>(elements_of(sums, channels) / elements_of_part);
    const int64_t wanted = std::clamp(enough, int64_t{2}, most_parts);
    const auto length = [&](size_t level) {
      return sums[level]->var == channels.within ? 0.0 : estimate(sums[level]->extent, program_);
    };
    size_t level = 0;  // the outermost one that is long enough, else the longest
    for (size_t i = 1; i < sums.size(); ++i)
      if (length(level) < static_cast<double>(wanted) && length(i) > length(level)) level = i;
    const Expr& whole = sums[level]->extent;
    if (!whole.is_constant()) return {level, wanted, ceildiv(whole, Expr(wanted))};
    const int64_t most = std::min(wanted, whole.value());
    for (int64_t count = most; count * 2 > most; --count)  // without a rest where that is possible
      if (whole.value() % count == 0) return {level, count, Expr(whole.value() / count)};
    const int64_t chunk = (whole.value() + most - 1) / most;
    return {level, (whole.value() + chunk - 1) / chunk, Expr(chunk)};
  }

  // ---- What is made

  // Of all items but the groups, and then all channels.
  Buffer buffer_of(const char* what, DType dtype, const Channels& channels) const {
    Buffer out;
    out.name = str(kernel_.name, "_", what);
    out.dtype = dtype;
    for (size_t i = 0; i < items_.size(); ++i)
      if (i != channels.item) out.sizes.push_back(items_[i]->extent);
    out.sizes.push_back(Expr(channels.count));
    return out;
  }
  BufferId add_dense(Buffer buffer) {
    buffer.strides.assign(buffer.sizes.size(), Expr(1));
    for (size_t d = buffer.sizes.size(); d-- > 1;) buffer.strides[d - 1] = buffer.strides[d] * buffer.sizes[d];
    return program_.add_buffer(std::move(buffer));
  }
  // Where such a buffer is read or written by the kernel itself, up to the channel.
  std::vector<Expr> index_here(const Channels& channels) const {
    std::vector<Expr> out;
    for (size_t i = 0; i < items_.size(); ++i)
      if (i != channels.item) out.push_back(Expr::symbol(items_[i]->var));
    return out;
  }

  Kernel new_kernel(const char* what) {
    Kernel out;
    out.name = str(kernel_.name, "_", what);
    out.op_names = kernel_.op_names;
    out.origins = kernel_.origins;
    use_names({});
    return out;
  }
  void use_names(std::set<std::string> taken) {
    used_ = std::move(taken);
    for (const auto& [name, info] : program_.symbols) used_.insert(name);
  }

  // Loops of a new kernel, and what the variables of this one's are there.
  struct Nest {
    std::vector<Stmt> loops;
    std::vector<Expr> index;
    Substitution variables;
    Expr add(Stmt loop) {
      loops.push_back(std::move(loop));
      return index.emplace_back(variable(loops.back()));
    }
    Body around(Body body) {
      for (size_t i = loops.size(); i-- > 0;) {
        loops[i].loop->body = std::move(body);
        body.clear();
        body.push_back(std::move(loops[i]));
      }
      return body;
    }
  };
  Nest around_groups(const Channels& channels) {
    Nest out;
    for (size_t i = 0; i < items_.size(); ++i)
      if (i != channels.item) out.variables[items_[i]->var] = out.add(loop("i", items_[i]->extent));
    return out;
  }

  // Finds what is needed of the sums so far, for each channel. From here on this kernel reads it too.
  Kernel kernel_of_results(const Sums& sums, const std::vector<ValueId>& results) {
    const Channels& channels = sums.channels;
    Kernel out = new_kernel("results");
    Nest nest = around_groups(channels);
    std::vector<Expr> index = nest.index;
    const Expr group = nest.add(loop("i", items_[channels.item]->extent));
    nest.variables[items_[channels.item]->var] = group;
    Stmt within = loop("i", Expr(channels.each));
    index.push_back(group * channels.each + variable(within));
    Copier copier(kernel_, out, used_);
    copier.variables = nest.variables;
    Body body;
    for (const Stmt* stmt : needed_by(sums.at)) append(body, copier.copy(*stmt, body));
    for (const ValueId value : results) {
      const DType dtype = kernel_.value_types[static_cast<size_t>(value)];
      const BufferId buffer = add_dense(buffer_of("results", dtype, channels));
      append(within.loop->body, store_stmt(dtype, buffer, index, copier.value(value)));
      by_channel_[value] = buffer;
      read_instead(value, buffer, channels);
    }
    append(body, std::move(within));
    out.body = nest.around(std::move(body));
    simplify_body(program_, out);
    return out;
  }
  void read_instead(ValueId value, BufferId buffer, const Channels& channels) {
    std::vector<Expr> index = index_here(channels);
    index.push_back(Expr::symbol(items_[channels.item]->var) * channels.each);
    Stmt load = load_stmt(kernel_, kernel_.value_types[static_cast<size_t>(value)], buffer, index);
    load.results = {value};
    for (Stmt& stmt : *body_)
      if (stmt.results == load.results) {
        stmt = std::move(load);
        return;
      }
  }

  Kernel kernel_of_parts(const Sums& sums, BufferId partial) {
    const Channels& channels = sums.channels;
    Kernel out = new_kernel("parts");
    Nest nest = around_groups(channels);
    std::vector<Expr> of_channel = nest.index;
    const Expr part = nest.add(loop("p", Expr(sums.parts.count)));
    const int64_t vectors = channels.count >= 2 * target_.lanes ? vectors_beside() : 1;
    const Expr channel = nest.add(loop("c", Expr(channels.count), Binding::lane, target_.lanes * vectors));
    of_channel.push_back(channel);
    nest.variables[items_[channels.item]->var] = floordiv(channel, Expr(channels.each));
    if (!channels.within.empty()) nest.variables[channels.within] = mod(channel, Expr(channels.each));
    Copier copier(kernel_, out, used_);
    copier.variables = nest.variables;
    Body body;
    for (const auto& [value, buffer] : by_channel_) {
      const DType dtype = kernel_.value_types[static_cast<size_t>(value)];
      copier.values[value] = append(body, load_stmt(out, dtype, buffer, of_channel));
    }
    for (const Stmt* stmt : needed_by(sums.at, by_channel_)) append(body, copier.copy(*stmt, body));
    const ValueId sum = copy_sums(sums, 0, part, copier, out, body);
    append(body, store_stmt(DType::f64, partial, nest.index, sum));
    out.body = nest.around(std::move(body));
    simplify_body(program_, out);
    return out;
  }
  // That read whole lines of memory, and whose additions do not wait for one another, while f64 takes two registers.
  int64_t vectors_beside() const { return std::max(1, target_.vector_registers / 8); }

  // Without the sum over the channels of a group, and of the loop that is cut only a part.
  ValueId copy_sums(const Sums& sums, size_t level, const Expr& part, Copier& copier, Kernel& out, Body& body) {
    if (level == sums.loops.size()) return copier.value(sums.loops.back()->yields[0]);
    const Loop& source = *sums.loops[level];
    if (source.var == sums.channels.within) {
      copy_values(source.body, copier, body);
      return copy_sums(sums, level + 1, part, copier, out, body);
    }
    used_.insert(copier.used().begin(), copier.used().end());
    Stmt stmt = reduction_stmt(fresh("r"), source.extent, AxisRole::reduce, ReduceOp::sum, DType::f64);
    Expr number = Expr::symbol(stmt.loop->var);
    if (level == sums.parts.level) {
      const Expr &chunk = sums.parts.chunk, begin = part * chunk;
      const bool even = source.extent.is_constant() && chunk.value() * sums.parts.count == source.extent.value();
      stmt.loop->extent = even ? chunk : max_expr(Expr(0), min_expr(chunk, source.extent - begin));
      number = begin + number;
    }
    copier.variables[source.var] = number;
    copy_values(source.body, copier, stmt.loop->body);
    stmt.loop->yields = {copy_sums(sums, level + 1, part, copier, out, stmt.loop->body)};
    stmt.results = {new_value(out, DType::f64)};
    return append(body, std::move(stmt));
  }
  static void copy_values(const Body& from, Copier& copier, Body& to) {
    for (const Stmt& stmt : from)
      if (!stmt.loop) to.push_back(copier.copy(stmt, to));
  }

  // What is left of the sums in this kernel.
  Stmt sum_of_parts(const Sums& sums, BufferId partial) {
    const Channels& channels = sums.channels;
    use_names(variables_of(kernel_));
    Stmt stmt = reduction_stmt(fresh("p"), Expr(sums.parts.count), AxisRole::reduce, ReduceOp::sum, DType::f64);
    Stmt within = reduction_stmt(fresh("r"), Expr(channels.each), AxisRole::reduce, ReduceOp::sum, DType::f64);
    std::vector<Expr> index = index_here(channels);
    index.push_back(variable(stmt));
    index.push_back(Expr::symbol(items_[channels.item]->var) * channels.each + variable(within));
    within.loop->yields = {append(within.loop->body, load_stmt(kernel_, DType::f64, partial, index))};
    within.results = {new_value(kernel_, DType::f64)};
    stmt.loop->yields = {append(stmt.loop->body, std::move(within))};
    stmt.results = (*body_)[sums.at].results;
    return stmt;
  }

  LoopProgram& program_;
  Kernel& kernel_;
  const Target& target_;
  const RangeEnv env_;
  std::vector<const Loop*> items_;
  Body* body_ = nullptr;
  std::vector<Kernel> made_;
  std::set<ValueId> sums_of_parts_;         // results of what is left of the sums
  std::map<ValueId, BufferId> by_channel_;  // results that are stored for each channel
};

// A matrix product of f64 runs in tiles.
bool is_product(const Kernel& kernel, const LoopProgram& program) {
  bool found = false;
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    found |= stmt.loop && stmt.loop->reduce_dtype == DType::f64 && summed_product(*stmt.loop);
  });
  if (!found) return false;
  Kernel copy = kernel.clone();
  return recognise_contraction(copy, program).contraction.has_value();
}

bool visit(Block& block, LoopProgram& program, const Target& target, Log& log) {
  bool changed = false;
  for (size_t i = 0; i < block.size(); ++i) {
    if (auto* cond = std::get_if<Cond>(&block[i].what)) {
      changed |= visit(*cond->then_block, program, target, log);
      changed |= visit(*cond->else_block, program, target, log);
    }
    if (auto* loop = std::get_if<While>(&block[i].what)) {
      changed |= visit(*loop->condition_block, program, target, log);
      changed |= visit(*loop->body_block, program, target, log);
    }
    auto* kernel = std::get_if<Kernel>(&block[i].what);
    if (!kernel || kernel->schedule) continue;
    if (is_product(*kernel, program)) continue;
    std::vector<Kernel> before = SumsBeside(program, *kernel, target).run();
    if (before.empty()) continue;
    changed = true;
    log.add([&] {
      return Decision{"sum side by side", kernel->name, "", "", "its groups are neighbours in memory", true, ""};
    });
    for (Kernel& made : before) block.insert(block.begin() + static_cast<std::ptrdiff_t>(i++), Item{std::move(made)});
  }
  return changed;
}

}  // namespace

bool sum_beside(LoopProgram& program, const Target& target, Log& log) {
  if (target.is_gpu() || target.lanes < 2) return false;
  return visit(program.block, program, target, log);
}

}  // namespace kiln::loops
