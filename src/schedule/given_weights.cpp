// Weights of windows that are given with each call (a program whose parameters are inputs) are worth what it takes to
// lay them out, as those of the package are: each is read once for every point of a picture. While kernels are
// scheduled they pass for derived constants, whose copies the init section makes; at the end these copies are made
// where they are wanted, in each call.
#include <tuple>

#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"
#include "schedule/single_nest.h"

namespace kiln::loops {
namespace {

constexpr const char* hold_name = "hold";
// Fewer points than that, and laying out a weight takes as long as reading it where it is.
constexpr double least_held_points = 32;
// Fewer products than that take no time worth another kernel, and as they are they are summed in more digits
// (widen_sums).
constexpr double least_held_products = 1 << 20;

class Given {
 public:
  Given(LoopProgram& program, const OperatorNames& convolutions, Log& log)
      : program_(program), convolutions_(convolutions), log_(log) {}

  bool run() {
    bool changed = false;
    for (Item& item : program_.block)
      if (auto* kernel = std::get_if<Kernel>(&item.what))
        if (const Stmt* load = weight_of(*kernel)) hold(*kernel, *load), changed = true;
    return changed;
  }

 private:
  const Buffer& buffer(BufferId id) const { return program_.buffers[static_cast<size_t>(id)]; }

  bool is_given(const Stmt& load) const {
    const Buffer& from = buffer(load.buffer);
    return from.role == BufferRole::input && !from.mutated && !from.complex && load.mask == no_value &&
           std::all_of(from.sizes.begin(), from.sizes.end(), [](const Expr& size) { return size.is_constant(); });
  }

  // How much of a picture's a load is: how many of its indices are computed (a point and a place in the window), with
  // how many loops over results it varies, and whether it has several elements along the last dimension. A weight's
  // indices are loops, and it varies with channels alone.
  static std::tuple<int64_t, int64_t, bool> like_a_picture(const Stmt& load, const SingleNest& nest,
                                                           const Buffer& from) {
    const auto computed = std::count_if(load.index.begin(), load.index.end(),
                                        [](const Expr& e) { return !e.is_symbol() && !e.is_constant(); });
    const auto varies = std::count_if(nest.parallel.begin(), nest.parallel.end(), [&](const Loop* loop) {
      return !loop->extent.is_constant(1) && mentions_any(load, loop->var);
    });
    return {computed, varies, !from.sizes.empty() && !from.sizes.back().is_constant(1)};
  }

  // Of the two factors that which is no picture's, if many points read it.
  const Stmt* weight_of(const Kernel& kernel) const {
    const bool convolves = std::any_of(kernel.op_names.begin(), kernel.op_names.end(),
                                       [&](const std::string& name) { return convolutions_.contains(name); });
    const auto nest = convolves ? single_nest(kernel) : std::nullopt;
    if (!nest || nest->sums.empty() || nest->sums.back()->reduce != ReduceOp::sum) return nullptr;
    std::vector<const Stmt*> factors;
    for (const Stmt* load : nest->loads)
      if (std::any_of(nest->sums.begin(), nest->sums.end(),
                      [&](const Loop* sum) { return mentions_any(*load, sum->var); }))
        factors.push_back(load);
    if (factors.size() != 2) return nullptr;
    const auto first = like_a_picture(*factors[0], *nest, buffer(factors[0]->buffer)),
               second = like_a_picture(*factors[1], *nest, buffer(factors[1]->buffer));
    if (first == second) return nullptr;
    const Stmt* weight = factors[first < second ? 0 : 1];
    double points = 1, products = 1;
    for (const auto* loops : {&nest->parallel, &nest->sums})
      for (const Loop* loop : *loops) {
        const double count = std::max(1.0, estimate(loop->extent, program_));
        products *= count;
        if (!mentions_any(*weight, loop->var)) points *= count;
      }
    return is_given(*weight) && points >= least_held_points && products >= least_held_products ? weight : nullptr;
  }

  void hold(Kernel& kernel, const Stmt& load) {
    const BufferId from = load.buffer;
    auto& to = held_.try_emplace(from, no_buffer).first->second;
    if (to == no_buffer) to = copy_of(from, kernel);
    log_.add([&] {
      return Decision{
          "hold", buffer(from).name, "", "", str("a weight of ", kernel.name, ", given with each call"), true, ""};
    });
    for_each_stmt(kernel.body, [&](Stmt& stmt) {
      if (stmt.kind == StmtKind::load && stmt.buffer == from) stmt.buffer = to;
    });
  }

  BufferId copy_of(BufferId from, const Kernel& reader) {
    Buffer held = buffer(from);
    held.name += "_held";
    held.role = BufferRole::derived;
    held.position = -1;
    const std::vector<Expr> sizes = held.sizes;
    const BufferId to = program_.add_buffer(std::move(held));
    Kernel copy;
    copy.name = "hold_" + buffer(from).name;
    copy.op_names = {hold_name};
    copy.origins = reader.origins;
    const std::vector<Expr> index = nest_index(sizes.size());
    Body body;
    const ValueId value = append(body, load_stmt(copy, buffer(from).dtype, from, index));
    body.push_back(store_stmt(buffer(from).dtype, to, index, value));
    copy.body = nest_of(sizes, std::move(body));
    program_.init.push_back(Item{std::move(copy)});
    return to;
  }

  LoopProgram& program_;
  const OperatorNames& convolutions_;
  Log& log_;
  std::map<BufferId, BufferId> held_;
};

// What a kernel of hold_given_weights copies, and to where: each element to its own place in memory of the same
// strides.
std::optional<std::pair<BufferId, BufferId>> held_by(const Item& item) {
  const auto* kernel = std::get_if<Kernel>(&item.what);
  if (!kernel || kernel->op_names != std::vector<std::string>{hold_name}) return {};
  const Accesses touched = accesses(item);
  return std::pair(*touched.reads.begin(), *touched.writes.begin());
}

}  // namespace

bool hold_given_weights(LoopProgram& program, const Target& target, Log& log, const OperatorNames& convolutions) {
  if (target.is_gpu() || target.lanes == 1) return false;
  return Given(program, convolutions, log).run();
}

std::set<BufferId> derived_from_inputs(const LoopProgram& program) {
  std::set<BufferId> out;
  for (const Item& item : program.init) {
    const Accesses touched = accesses(item);
    if (std::any_of(touched.reads.begin(), touched.reads.end(), [&](BufferId id) {
          return out.contains(id) || program.buffers[static_cast<size_t>(id)].role == BufferRole::input;
        }))
      out.insert(touched.writes.begin(), touched.writes.end());
  }
  return out;
}

bool prepare_given_weights(LoopProgram& program, Log& log) {
  const std::set<BufferId> given = derived_from_inputs(program);
  if (given.empty()) return false;
  // What is laid out anew is laid out from where it was given.
  std::vector<bool> gone;
  for (const Item& item : program.init) {
    const auto held = held_by(item);
    gone.push_back(held.has_value());
    if (held)
      for (Block* block : {&program.init, &program.block}) replace_buffer(*block, held->second, held->first);
  }
  erase_items(program.init, gone);
  for (const BufferId id : given) program.buffers[static_cast<size_t>(id)].role = BufferRole::temp;
  // Each in front of the first that reads what it makes.
  std::vector<bool> moved(program.init.size());
  for (size_t i = program.init.size(); i-- > 0;) {
    const Accesses touched = accesses(program.init[i]);
    if (std::none_of(touched.writes.begin(), touched.writes.end(), [&](BufferId id) { return given.contains(id); }))
      continue;
    const auto reader = std::find_if(program.block.begin(), program.block.end(),
                                     [&](const Item& item) { return conflict(accesses(item), touched); });
    moved[i] = true;
    if (reader == program.block.end()) continue;
    program.block.insert(reader, std::move(program.init[i]));
  }
  erase_items(program.init, moved);
  log.add([&] { return Decision{"prepare", "weights that are given", "", "", "in each call", true, ""}; });
  return true;
}

}  // namespace kiln::loops
