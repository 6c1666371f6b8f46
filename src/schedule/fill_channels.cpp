#include "schedule/fill_channels.h"

#include "loop_passes/rewrite.h"
#include "schedule/factors.h"
#include "schedule/packing.h"

namespace kiln::loops {
namespace {

constexpr double word_cost = 8;       // of fetching a word, in products of one of its elements
constexpr double least_window = 4;    // places that read an element: a copy for fewer gains nothing
constexpr int64_t smallest_word = 4;  // bytes that come without being waited for

// So many channels that they come in words, cheapest: few words, and little that is multiplied for nothing.
int64_t filled(int64_t channels, int64_t element_bytes) {
  int64_t best = 0;
  double least = 0;
  for (int64_t bytes = 16; bytes >= smallest_word; bytes /= 2) {
    const int64_t word = bytes / element_bytes, all = (channels + word - 1) / word * word;
    const double cost = word_cost * static_cast<double>(all / word) + static_cast<double>(all);
    if (best == 0 || cost < least) best = all, least = cost;
  }
  return best;
}

// The dimension that the variable numbers, from a fixed first one on, if no other has it.
struct Numbered {
  size_t dimension = 0;
  int64_t first = 0;
};
std::optional<Numbered> numbered_by(const Stmt& load, const std::string& var) {
  std::optional<Numbered> found;
  for (size_t d = 0; d < load.index.size(); ++d) {
    if (!mentions(load.index[d], var)) continue;
    const auto along = affine_in(load.index[d], var);
    if (found || !along || !along->coefficient.is_constant(1) || !along->rest.is_constant()) return {};
    found = Numbered{d, along->rest.value()};
  }
  return found;
}

bool mask_mentions(const ContractionNest& nest, const Stmt& load, const std::string& var) {
  std::set<ValueId> needed = {load.mask};
  for (size_t s = nest.sums.size(); s-- > 0;)
    for (const auto* part : {&nest.sums[s].left, &nest.sums[s].shared})
      for (size_t i = part->size(); i-- > 0;) {
        const Stmt& stmt = *(*part)[i];
        if (&stmt == &load || !needed.contains(stmt.results[0])) continue;
        if (stmt.kind == StmtKind::load || mentions(stmt.expr, var)) return true;
        needed.insert(stmt.args.begin(), stmt.args.end());
      }
  return false;
}

// A convolution over one channel has no sum over channels: it gets one, of one term, inside of the others.
void add_channel(Kernel& kernel) {
  Contraction& names = *kernel.contraction;
  const std::set<std::string> used = variables_of(kernel);
  int number = 0;
  while (used.count(str("r", number))) ++number;
  Loop* around = nullptr;
  for_each_stmt(kernel.body, [&](Stmt& stmt) {
    if (stmt.loop && stmt.loop->var == names.sums.back()) around = stmt.loop.get();
  });
  Stmt sum = reduction_stmt(str("r", number), Expr(1), AxisRole::reduce, ReduceOp::sum, around->reduce_dtype);
  names.sums.push_back(sum.loop->var);
  sum.loop->body = std::move(around->body);
  sum.loop->yields = std::move(around->yields);
  sum.results = {new_value(kernel, around->reduce_dtype)};
  around->yields = sum.results;
  around->body.clear();
  around->body.push_back(std::move(sum));
}

// Copies the channels from `first` on of what the load reads; where its index is a number, only that.
Kernel copying(LoopProgram& program, const Stmt& load, BufferId to, std::optional<Numbered> channels, int64_t count,
               const Kernel& like) {
  Kernel copy;
  copy.name = str("copy_", program.buffers[static_cast<size_t>(to)].name);
  copy.op_names = {"layout"};
  copy.origins = like.origins;
  const Buffer &source = program.buffers[static_cast<size_t>(load.buffer)],
               &target = program.buffers[static_cast<size_t>(to)];
  const size_t last = target.sizes.size() - 1;  // channels are innermost, as they are written
  std::vector<Expr> from(source.sizes.size()), sizes(target.sizes);
  const std::vector<Expr> index = nest_index(target.sizes.size());
  for (size_t d = 0, at = 0; d < from.size(); ++d)
    from[d] = channels && d == channels->dimension ? index[last] + Expr(channels->first)
              : load.index[d].is_constant()        ? load.index[d]
                                                   : index[at++];
  Body body;
  ValueId there = no_value;
  if (!target.sizes[last].is_constant(count)) {
    const ValueId number = append(body, index_stmt(copy, DType::i64, index[last]));
    const ValueId limit = append(body, index_stmt(copy, DType::i64, Expr(count)));
    there = append(body, op_stmt(copy, ScalarOp::lt, DType::boolean, {number, limit}));
  }
  const ValueId value = append(body, load_stmt(copy, source.dtype, load.buffer, from, there));
  append(body, store_stmt(source.dtype, to, index, value));
  copy.body = nest_of(sizes, std::move(body));
  return copy;
}

}  // namespace

std::optional<Kernel> fill_channels(LoopProgram& program, Kernel& kernel) {
  ContractionNest nest = contraction_nest(kernel);
  FactorValue left = factor_value(nest, kernel.contraction->left, true);
  const FactorValue right = factor_value(nest, kernel.contraction->right, false);
  const Loop& innermost = nest.innermost_sum();
  if (!left.load || !right.load || nest.sums.size() < 2 || !innermost.extent.is_constant()) return {};
  if (left.dtype != right.dtype || (left.dtype != DType::bf16 && left.dtype != DType::f16)) return {};
  const int64_t bytes = dtype_bytes(left.dtype);
  if (chunks_of(nest, left, true, static_cast<int>(16 / bytes), kernel, program, smallest_word / bytes).chunk > 1)
    return {};
  // The innermost sum runs over channels, or, where that has but one term and is gone, along the window.
  const auto channels = numbered_by(*left.load, innermost.var);
  const int64_t count = channels ? innermost.extent.value() : 1;
  double window = channels ? 1 : static_cast<double>(innermost.extent.value());
  for (const ContractionNest::Sum& sum : nest.sums)
    if (sum.stmt->loop.get() != &innermost) window *= estimate(sum.stmt->loop->extent, program);
  const Buffer source = program.buffers[static_cast<size_t>(left.load->buffer)];
  if (window < least_window || source.role == BufferRole::scratch) return {};
  if (channels && mask_mentions(nest, *left.load, innermost.var)) return {};
  for (const Expr& e : left.load->index)  // a window moves over whole dimensions
    for (const Loop* batch : nest.batch)
      if (mentions(e, batch->var)) return {};
  const int64_t all = filled(count, bytes);
  if (channels && source.strides[channels->dimension].is_constant(1) && all == count)
    return {};  // nothing would change
  if (!gpu_packing(nest, right.load, program) || (channels && !numbered_by(*right.load, innermost.var))) return {};

  // Everything below changes the program.
  if (!channels) {
    add_channel(kernel);
    nest = contraction_nest(kernel);
    left = factor_value(nest, kernel.contraction->left, true);
  }
  const Loop& terms = nest.innermost_sum();
  auto packing = gpu_packing(nest, factor_value(nest, kernel.contraction->right, false).load, program);
  Buffer copy;
  copy.name = source.name + "_channels_last";
  copy.dtype = source.dtype;
  std::vector<Expr> index;
  for (size_t d = 0; d < source.sizes.size(); ++d) {
    if ((channels && d == channels->dimension) || left.load->index[d].is_constant()) continue;
    copy.sizes.push_back(source.sizes[d]);
    index.push_back(left.load->index[d]);
  }
  copy.sizes.push_back(Expr(all));
  index.push_back(Expr::symbol(terms.var));
  copy.strides.assign(copy.sizes.size(), Expr(1));
  for (size_t d = copy.sizes.size(); d-- > 1;) copy.strides[d - 1] = copy.strides[d] * copy.sizes[d];
  const BufferId to = program.add_buffer(std::move(copy));
  Kernel made = copying(program, *left.load, to, channels, count, kernel);
  auto* load = const_cast<Stmt*>(left.load);
  load->buffer = to;
  load->index = std::move(index);
  const_cast<Loop&>(terms).extent = Expr(all);
  packing->filled = all == count ? 0 : count;
  pack(program, kernel, *packing);
  // Values inside of the sums have elements now that the graph's do not have.
  const Contraction& names = *kernel.contraction;
  std::set<ValueId> inside;
  for (const auto* part : {&names.left_values, &names.right_values, &names.shared_values})
    inside.insert(part->begin(), part->end());
  std::erase_if(kernel.named, [&](const NamedValue& named) { return inside.contains(named.value); });
  return made;
}

}  // namespace kiln::loops
