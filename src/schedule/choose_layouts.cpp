// Lays out what lies between the operators as the sums over products want it: the columns that are computed side by
// side are neighbours in memory, and so are the terms that are summed first (channels last, where pictures are
// concerned). What the user sees keeps its strides; temporaries that are read and written alike are laid out alike, and
// the loops that write them run along their memory.
#include <numeric>

#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"
#include "schedule/single_nest.h"

namespace kiln::loops {
namespace {

// That a dimension of a buffer should be its innermost one, and how much work says so.
struct Wish {
  BufferId buffer;
  size_t dim;
  double weight;
  const Kernel* kernel;  // whose
  bool store;            // it writes the buffer; else it reads it
};

class Layouts {
 public:
  Layouts(LoopProgram& program, Log& log) : program_(program), log_(log), class_of_(program.buffers.size()) {
    std::iota(class_of_.begin(), class_of_.end(), 0);
  }

  bool run() {
    pinned_ = pinned_buffers(program_);
    find_made_of_weights();
    for (Item& item : program_.block)
      if (auto* kernel = std::get_if<Kernel>(&item.what)) {
        wishes_of(*kernel);
        relate(*kernel);
      }
    const bool follows = follow_others();
    if (wishes_.empty() && points_.empty()) return follows;
    std::set<BufferId> followed = choose();
    follow_pictures(followed);
    for (Item& item : program_.block)
      if (auto* kernel = std::get_if<Kernel>(&item.what)) {
        reorder_loops(*kernel, followed);
        wish_of_pool(*kernel, followed);
      }
    copy_what_is_pinned();
    return true;
  }

 private:
  const Buffer& buffer(BufferId id) const { return program_.buffers[static_cast<size_t>(id)]; }

  bool free(BufferId id) const {
    const Buffer& b = buffer(id);
    if (b.role != BufferRole::temp || pinned_.count(id) || b.sizes.size() < 3 || !b.offset.is_constant(0)) return false;
    Expr dense = 1;
    for (size_t d = b.sizes.size(); d-- > 0;) {
      if (!b.sizes[d].is_constant(1) && !(b.strides[d] == dense)) return false;
      dense = dense * b.sizes[d];
    }
    return true;
  }

  // ---- Wishes
  // -----------------------------------------------------------------------------------------------------------
  bool fixed(BufferId id) const {
    const Buffer& b = buffer(id);
    return b.role == BufferRole::constant || b.role == BufferRole::derived || made_of_weights_.contains(id);
  }
  // Weights as good as any other (a weight norm's): hoist_constants will have them computed once.
  void find_made_of_weights() {
    std::map<BufferId, int> writers;
    for (const Item& item : program_.block)
      for (BufferId id : accesses(item).writes) ++writers[id];
    for (const Item& item : program_.block) {
      const auto* kernel = std::get_if<Kernel>(&item.what);
      const Accesses all = accesses(item);
      if (!kernel || all.reads.empty() || draws(*kernel)) continue;
      const bool of_weights = std::all_of(all.reads.begin(), all.reads.end(),
                                          [&](BufferId id) { return fixed(id) && !buffer(id).mutated; });
      for (BufferId id : all.writes)
        if (of_weights && writers[id] == 1 && buffer(id).role == BufferRole::temp) made_of_weights_.insert(id);
    }
  }
  static bool draws(const Kernel& kernel) {
    bool found = false;
    for_each_stmt(kernel.body, [&](const Stmt& stmt) { found |= stmt.kind == StmtKind::random; });
    return found;
  }
  static std::optional<size_t> dim_of(const Stmt& access, const std::string& var) {
    for (size_t d = 0; d < access.index.size(); ++d)
      if (access.index[d].is_symbol() && access.index[d].name() == var) return d;
    return {};
  }

  // Results of few channels stay as they are; what they are summed up from does not.
  void wishes_of_results(const Kernel& kernel, const Stmt& store, const Stmt& input, const std::string& channels,
                         double work) {
    if (const auto d = dim_of(store, channels)) wishes_.push_back({store.buffer, *d, work, &kernel, true});
    if (const auto d = dim_of(input, channels)) wishes_.push_back({input.buffer, *d, work, &kernel, false});
    // Of a grouped sum: the group's place, and the channel in it.
    for (size_t d = 0; d < input.index.size(); ++d)
      if (!input.index[d].is_symbol() && mentions(input.index[d], channels))
        wishes_.push_back({input.buffer, d, work, &kernel, false});
  }

  // Results that read the same channels of the picture: those of a group, of which an index divides by their number.
  // 0: all of them do.
  static int64_t group_size(const Stmt& input, const std::string& channels) {
    const std::function<int64_t(const Expr&)> of = [&](const Expr& e) -> int64_t {
      if (!mentions(e, channels)) return 0;
      if (e.op() == ExprOp::symbol) return 1;
      if (e.op() == ExprOp::floordiv && e.args()[0].is_symbol() && e.args()[1].is_constant())
        return e.args()[1].value();
      int64_t most = 0;
      for (const Expr& arg : e.args()) most = std::max(most, of(arg));
      return most;
    };
    int64_t most = 0;
    for (const Expr& e : input.index) most = std::max(most, of(e));
    return most;
  }
  // Groups of 3, 5, 6 or 7 fill no vector: points run in lanes instead (points_in_lanes). So they do where small groups
  // have computed weights, which take_points leaves.
  static bool has_points_in_lanes(int64_t group, bool computed) {
    return group > 0 && group < 8 && (8 % group != 0 || computed);
  }

  // An index goes along points and the window's places, of which neighbouring points share some. (A head of an
  // attention and a place in it number the columns of a row together, and share none.)
  static bool slides_over(const SingleNest& nest, const Stmt& load) {
    const auto slides = [&](const Expr& e, const Loop& points, const Loop& window) {
      const auto step = affine_in(e, points.var), place = affine_in(e, window.var);
      return step && place && step->coefficient.is_constant() && place->coefficient.is_constant() &&
             window.extent.is_constant() && step->coefficient.value() != 0 && place->coefficient.value() != 0 &&
             std::abs(step->coefficient.value()) < std::abs(place->coefficient.value()) * window.extent.value();
    };
    for (const Expr& e : load.index)
      for (const Loop* points : nest.parallel)
        for (const Loop* window : nest.sums)
          if (slides(e, *points, *window)) return true;
    return false;
  }

  // A sum over a window of a picture with weights: only there is another order of dimensions wanted.
  void wishes_of(const Kernel& kernel) {
    const auto nest = single_nest(kernel);
    if (!nest || nest->sums.empty() || nest->sums.back()->reduce != ReduceOp::sum) return;
    std::vector<const Stmt*> weights, inputs;
    for (const Stmt* load : nest->loads) {
      const bool summed = std::any_of(nest->sums.begin(), nest->sums.end(),
                                      [&](const Loop* sum) { return mentions_any(*load, sum->var); });
      if (summed) (fixed(load->buffer) ? weights : inputs).push_back(load);
    }
    // Of two that are computed it is the one that no window slides over.
    const bool computed = weights.empty();
    if (computed && inputs.size() == 2 && slides_over(*nest, *inputs[0]) != slides_over(*nest, *inputs[1])) {
      const size_t at = slides_over(*nest, *inputs[0]) ? 1 : 0;
      weights.push_back(inputs[at]);
      inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (weights.size() != 1 || inputs.size() != 1) return;
    const Stmt *weight = weights[0], *input = inputs[0];
    if (buffer(input->buffer).sizes.size() < 3) return;
    double work = 1;
    for (const auto* loops : {&nest->parallel, &nest->sums})
      for (const Loop* loop : *loops) work *= std::max(1.0, estimate(loop->extent, program_));
    // The axis that the weights vary with: the results' channels. One that the picture varies with too counts where
    // there is no other (depthwise windows): beside another it numbers products of their own (a table for each line).
    const Loop* channels = nullptr;
    const auto better = [&](const Loop* loop) {
      if (!channels) return true;
      const bool shared = mentions_any(*input, loop->var), was_shared = mentions_any(*input, channels->var);
      if (shared != was_shared) return was_shared && estimate(loop->extent, program_) >= 8;
      return estimate(loop->extent, program_) > estimate(channels->extent, program_);
    };
    for (const Loop* loop : nest->parallel)
      if (mentions_any(*weight, loop->var) && better(loop)) channels = loop;
    if (!channels || has_points_in_lanes(group_size(*input, channels->var), computed)) return;
    if (const auto point = single_point(*nest, *channels, *weight, *input)) {
      points_[&kernel] = *point;
      return;
    }
    if (estimate(channels->extent, program_) >= 8) wishes_of_results(kernel, *nest->store, *input, channels->var, work);
    for (const Loop* sum : nest->sums)
      if (const auto d = dim_of(*input, sum->var); d && estimate(sum->extent, program_) >= 8)
        wishes_.push_back({input->buffer, *d, work, &kernel, false});
  }

  // A window as large as the picture (a classifier's first layer) makes one point: each weight is read once, as it
  // lies, and the picture, which is small beside them, should lie as they do.
  struct Point {
    BufferId picture;
    std::vector<size_t> dims;  // of the picture, in the order of the weights, outermost first
  };
  std::optional<Point> single_point(const SingleNest& nest, const Loop& channels, const Stmt& weight,
                                    const Stmt& input) const {
    for (const Loop* loop : nest.parallel)
      if (loop != &channels && !loop->extent.is_constant(1)) return {};
    const Expr weights = address_of(weight, program_, program_.ranges());
    std::vector<std::pair<int64_t, size_t>> order;
    int64_t terms = 1;
    for (const Loop* sum : nest.sums) {
      if (sum->extent.is_constant(1)) continue;
      const auto dim = dim_of(input, sum->var);
      const auto along = affine_in(weights, sum->var);
      if (!dim || !along || !along->coefficient.is_constant() || !sum->extent.is_constant() ||
          !(sum->extent == buffer(input.buffer).sizes[*dim]))
        return {};
      order.emplace_back(along->coefficient.value(), *dim);
      terms *= sum->extent.value();
    }
    // Not worth a kernel of its own: a few channels, or a few terms.
    constexpr int64_t least_terms = 256, least_channels = 16;
    if (order.size() < 2 || terms < least_terms ||
        estimate(channels.extent, program_) < static_cast<double>(least_channels))
      return {};
    for (const Expr& size : buffer(input.buffer).sizes)
      if (!size.is_constant()) return {};
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    Point point{input.buffer, {}};
    for (const auto& [stride, dim] : order) point.dims.push_back(dim);
    return point;
  }

  // A window that is reduced without weights (a pool) runs along the picture that it reads, each element of which it
  // may meet several times: its results, which are fewer, are then put into the user's order by a copy.
  void wish_of_pool(const Kernel& kernel, const std::set<BufferId>& followed) {
    const auto nest = single_nest(kernel);
    if (!nest || nest->sums.empty() || nest->loads.size() != 1 || !followed.contains(nest->loads[0]->buffer)) return;
    const Stmt& picture = *nest->loads[0];
    for (size_t d = 0; d < picture.index.size(); ++d) {
      if (!innermost(picture.buffer, d) || !picture.index[d].is_symbol()) continue;
      const auto to = dim_of(*nest->store, picture.index[d].name());
      if (to && !innermost(nest->store->buffer, *to)) wishes_.push_back({nest->store->buffer, *to, 0, &kernel, true});
    }
  }

  // ---- Buffers that are read and written alike
  // -------------------------------------------------------------------------------
  int find(int id) {
    while (class_of_[static_cast<size_t>(id)] != id) id = class_of_[static_cast<size_t>(id)];
    return id;
  }
  // The loops that a computed index goes along (a place between two lines of a picture): those that it is made of. One
  // that is loaded goes along none.
  static std::map<std::string, std::set<std::string>> computed_indices(const Kernel& kernel) {
    std::map<std::string, std::set<std::string>> out;
    std::map<ValueId, std::set<std::string>> made_of;
    for_each_stmt(kernel.body, [&](const Stmt& stmt) {
      if (stmt.loop || stmt.kind == StmtKind::load || stmt.kind == StmtKind::store) return;
      std::set<std::string> symbols;
      collect_symbols(stmt.expr, symbols);
      for (ValueId v : stmt.args) symbols.insert(made_of[v].begin(), made_of[v].end());
      if (stmt.kind == StmtKind::check_index) out[stmt.index_var] = symbols;
      for (ValueId v : stmt.results) made_of[v] = symbols;
    });
    return out;
  }
  void relate(const Kernel& kernel) {
    std::vector<const Stmt*> touching;
    const auto computed = computed_indices(kernel);
    const auto along = [&](const Expr& e) {
      std::set<std::string> symbols;
      collect_symbols(e, symbols);
      for (const auto& [index, loops] : computed)
        if (symbols.contains(index)) symbols.insert(loops.begin(), loops.end());
      return symbols;
    };
    // A vector (a scale for each channel) has one layout only, and says nothing of what else is read beside it.
    const auto has_order = [&](BufferId id) {
      const std::vector<Expr>& sizes = buffer(id).sizes;
      return sizes.size() >= 3 &&
             std::count_if(sizes.begin(), sizes.end(), [](const Expr& size) { return !size.is_constant(1); }) >= 2;
    };
    for_each_stmt(kernel.body, [&](const Stmt& stmt) {
      const bool access = stmt.kind == StmtKind::load || stmt.kind == StmtKind::store;
      if (access && !fixed(stmt.buffer) && has_order(stmt.buffer)) touching.push_back(&stmt);
    });
    for (const Stmt* a : touching)
      for (const Stmt* b : touching) {
        if (a->buffer >= b->buffer || a->index.size() != b->index.size()) continue;
        // Index for index the same axis, a window's offset aside.
        bool alike = true;
        size_t varying = 0;
        for (size_t d = 0; d < a->index.size(); ++d) {
          const std::set<std::string> x = along(a->index[d]), y = along(b->index[d]);
          const bool share = std::any_of(x.begin(), x.end(), [&](const std::string& s) { return y.count(s) > 0; });
          alike &= share || x.empty() || y.empty();
          varying += share;
        }
        if (alike && varying > 0) class_of_[static_cast<size_t>(find(a->buffer))] = find(b->buffer);
      }
  }

  // The buffers that now are as the sums want them, whoever laid them out.
  std::set<BufferId> choose() {
    std::map<int, std::map<size_t, double>> votes;
    for (const Wish& wish : wishes_) votes[find(wish.buffer)][wish.dim] += wish.weight;
    for (const auto& [id, dims] : votes) wished_.insert(id);
    std::set<BufferId> followed;
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const auto id = static_cast<BufferId>(i);
      const auto found = votes.find(find(id));
      if (found == votes.end() || fixed(id)) continue;
      const size_t dim = std::max_element(found->second.begin(), found->second.end(), [](const auto& a, const auto& b) {
                           return a.second < b.second;
                         })->first;
      if (free(id)) make_innermost(program_.buffers[i], dim);
      if (innermost(id, dim)) followed.insert(id);
    }
    return followed;
  }
  // What is made of a picture with other dimensions than it has (its channels in groups, the sum of those groups), and
  // is no part of a sum over products itself, lies in the picture's order: else who makes it would go across memory.
  void follow_pictures(std::set<BufferId>& followed) {
    std::map<BufferId, int> writers;
    for (const Item& item : program_.block)
      for (BufferId id : accesses(item).writes) ++writers[id];
    for (const Item& item : program_.block) {
      const auto* kernel = std::get_if<Kernel>(&item.what);
      if (!kernel) continue;
      for_each_stmt(kernel->body, [&](const Stmt& store) {
        if (store.kind != StmtKind::store || followed.contains(store.buffer) || wished_.contains(find(store.buffer)) ||
            writers[store.buffer] != 1 || !free(store.buffer))
          return;
        if (const auto order = order_of_picture(*kernel, store, followed)) {
          lay_out(program_.buffers[static_cast<size_t>(store.buffer)], *order);
          followed.insert(store.buffer);
        }
      });
    }
  }
  // The dimensions of what is stored, outermost first, as the loops go along the largest picture that the kernel reads;
  // nothing where there is none, or some loop does not go along it.
  std::optional<std::vector<size_t>> order_of_picture(const Kernel& kernel, const Stmt& store,
                                                      const std::set<BufferId>& followed) const {
    const Stmt* picture = nullptr;
    const auto elements = [&](const Stmt& access) {
      double all = 1;
      for (const Expr& size : buffer(access.buffer).sizes) all *= std::max(1.0, estimate(size, program_));
      return all;
    };
    for_each_stmt(kernel.body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::load && followed.contains(stmt.buffer) &&
          (!picture || elements(stmt) > elements(*picture)))
        picture = &stmt;
    });
    if (!picture) return {};
    const Expr address = address_of(*picture, program_, kernel_ranges(kernel, program_));
    std::vector<std::pair<double, size_t>> distances;
    std::vector<size_t> alone;  // dimensions of one element
    std::set<std::string> used;
    for (size_t d = 0; d < store.index.size(); ++d) {
      if (buffer(store.buffer).sizes[d].is_constant(1)) {
        alone.push_back(d);
        continue;
      }
      const Expr& at = store.index[d];
      if (!at.is_symbol() || !used.insert(at.name()).second) return {};
      const auto along = affine_in(address, at.name());
      if (!along || along->coefficient.is_constant(0)) return {};
      distances.emplace_back(estimate(along->coefficient, program_), d);
    }
    std::stable_sort(distances.begin(), distances.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<size_t> order = std::move(alone);
    for (const auto& [distance, d] : distances) order.push_back(d);
    return distances.size() < 3 ? std::nullopt : std::optional(order);
  }
  void lay_out(Buffer& b, const std::vector<size_t>& order) {
    Expr dense = 1;
    for (size_t i = order.size(); i-- > 0; dense = dense * b.sizes[order[i]]) b.strides[order[i]] = dense;
    log_.add([&] {
      return Decision{"lay out", b.name, "", "", "in the order of the picture that it is made of", true, ""};
    });
  }

  bool innermost(BufferId id, size_t dim) const {
    const Buffer& b = buffer(id);
    return dim < b.sizes.size() && b.strides[dim].is_constant(1) && !b.sizes[dim].is_constant(1);
  }

  void make_innermost(Buffer& b, size_t dim) {
    if (dim + 1 >= b.sizes.size() || b.sizes[dim].is_constant(1)) return;
    Expr dense = b.sizes[dim];
    b.strides[dim] = 1;
    for (size_t d = b.sizes.size(); d-- > 0;) {
      if (d == dim) continue;
      b.strides[d] = dense;
      dense = dense * b.sizes[d];
    }
    log_.add([&] {
      return Decision{"lay out", b.name, "", "", str("dimension ", dim, " innermost, for the sums over products"),
                      true,      ""};
    });
  }

  // ---- What the user sees
  // ---------------------------------------------------------------------------------------------------------
  // A picture that comes or goes in another order is copied: once, where the sums read each of its elements many times.
  void copy_what_is_pinned() {
    Block out;
    std::map<BufferId, BufferId> copies;  // of inputs, made so far
    for (Item& item : program_.block) {
      auto* kernel = std::get_if<Kernel>(&item.what);
      std::optional<Kernel> after;
      if (kernel) copy_for_point(*kernel, out);
      for (const Wish& wish : wishes_) {
        if (!kernel || wish.kernel != kernel || innermost(wish.buffer, wish.dim)) continue;
        const BufferRole role = buffer(wish.buffer).role;
        if (wish.store ? role != BufferRole::output : role != BufferRole::input || buffer(wish.buffer).mutated)
          continue;
        if (wish.store && !writes_whole(*kernel, wish.buffer)) continue;
        if (wish.store) {
          const BufferId own = copy_of(wish);
          replace(*kernel, StmtKind::store, wish.buffer, own);
          reorder_loops(*kernel, {own});
          after = copying(own, wish.buffer, *kernel);
          continue;
        }
        auto [copy, fresh] = copies.try_emplace(wish.buffer, no_buffer);
        if (fresh) {
          copy->second = copy_of(wish);
          out.push_back(Item{copying(wish.buffer, copy->second, *kernel)});
        }
        if (innermost(copy->second, wish.dim)) replace(*kernel, StmtKind::load, wish.buffer, copy->second);
      }
      out.push_back(std::move(item));
      if (after) out.push_back(Item{std::move(*after)});
    }
    program_.block = std::move(out);
  }

  // The picture of a single point, where it has come to lie in another order than the weights.
  void copy_for_point(Kernel& kernel, Block& before) {
    const auto found = points_.find(&kernel);
    if (found == points_.end() || lies_in_order(found->second)) return;
    const auto& [picture, dims] = found->second;
    Buffer copy = buffer(picture);
    copy.name += "_as_weights";
    copy.role = BufferRole::temp;
    copy.position = -1;
    copy.offset = 0;
    Expr dense = 1;
    for (size_t d = dims.size(); d-- > 0; dense = dense * copy.sizes[dims[d]]) copy.strides[dims[d]] = dense;
    for (size_t d = 0; d < copy.sizes.size(); ++d)
      if (std::find(dims.begin(), dims.end(), d) == dims.end()) copy.strides[d] = dense;
    const BufferId own = program_.add_buffer(std::move(copy));
    before.push_back(Item{copying(picture, own, kernel)});
    replace(kernel, StmtKind::load, picture, own);
  }
  bool lies_in_order(const Point& point) const {
    const Buffer& picture = buffer(point.picture);
    for (size_t i = 1; i < point.dims.size(); ++i) {
      const Expr &outer = picture.strides[point.dims[i - 1]], &inner = picture.strides[point.dims[i]];
      if (!outer.is_constant() || !inner.is_constant() || outer.value() < inner.value()) return false;
    }
    return true;
  }

  // Every element, once, and nobody else writes any: only then may a copy of all of it follow.
  bool writes_whole(const Kernel& kernel, BufferId id) const {
    int writers = 0;
    for (const Item& item : program_.block) writers += static_cast<int>(accesses(item).writes.count(id));
    if (writers > 1) return false;
    const auto nest = single_nest(kernel);
    if (!nest || nest->store->buffer != id || nest->store->mode != StoreMode::plain || nest->store->mask != no_value)
      return false;
    std::set<std::string> used;
    for (size_t d = 0; d < nest->store->index.size(); ++d) {
      const Expr &at = nest->store->index[d], &size = buffer(id).sizes[d];
      if (size.is_constant(1)) continue;
      const auto along = std::find_if(nest->parallel.begin(), nest->parallel.end(), [&](const Loop* loop) {
        return at.is_symbol() && at.name() == loop->var && loop->extent == size;
      });
      if (along == nest->parallel.end() || !used.insert(at.name()).second) return false;
    }
    return true;
  }

  BufferId copy_of(const Wish& wish) {
    Buffer copy = buffer(wish.buffer);
    copy.name += "_channels_last";
    copy.role = BufferRole::temp;
    copy.complex = false;
    copy.position = -1;
    copy.offset = 0;
    make_innermost(copy, wish.dim);
    return program_.add_buffer(std::move(copy));
  }

  static void replace(Kernel& kernel, StmtKind kind, BufferId from, BufferId to) {
    for_each_stmt(kernel.body, [&](Stmt& stmt) {
      if (stmt.kind == kind && stmt.buffer == from) stmt.buffer = to;
    });
  }

  Kernel copying(BufferId from, BufferId to, const Kernel& like) {
    Kernel copy;
    copy.name = str("copy_", buffer(to).name);
    copy.op_names = {"layout"};
    copy.origins = like.origins;
    const std::vector<Expr>& sizes = buffer(from).sizes;
    const DType dtype = buffer(from).dtype;
    Body body;
    const ValueId value = append(body, load_stmt(copy, dtype, from, nest_index(sizes.size())));
    append(body, store_stmt(dtype, to, nest_index(sizes.size()), value));
    copy.body = nest_of(sizes, std::move(body));
    reorder_loops(copy, {to});
    return copy;
  }

  // ---- Loops
  // --------------------------------------------------------------------------------------------------------------
  // What nobody laid out here may have its dimensions in another order all the same: a picture that came with its
  // channels innermost, whose results PyTorch keeps so. Loops in the order of the dimensions would go across memory.
  // It begins with what others see. Temporaries that have nothing to do with that may still be laid out along the
  // loops instead (straighten_rows), unless what they are made of lies as they do. Products have an order of their own.
  bool follow_others() {
    std::set<BufferId> turned, seen;
    for (size_t b = 0; b < program_.buffers.size(); ++b)
      if (has_turned_dimensions(program_.buffers[b])) turned.insert(static_cast<BufferId>(b));
    for (BufferId b : turned)
      if (program_.buffers[static_cast<size_t>(b)].role != BufferRole::temp || pinned_.contains(b)) seen.insert(b);
    if (turned.empty()) return false;
    bool changed = false;
    for (Item& item : program_.block) {
      auto* kernel = std::get_if<Kernel>(&item.what);
      if (!kernel) continue;
      if (all_across(*kernel, turned)) {
        changed |= reorder_loops(*kernel, turned);
        continue;
      }
      bool product = false;
      for_each_stmt(kernel->body, [&](const Stmt& stmt) { product |= stmt.loop && summed_product(*stmt.loop); });
      const Accesses all = accesses(item);
      if (product || std::none_of(seen.begin(), seen.end(), [&](BufferId b) { return all.touches(b); })) continue;
      changed |= reorder_loops(*kernel, turned);
      for (BufferId b : all.writes)
        if (turned.contains(b)) seen.insert(b);
    }
    return changed;
  }
  // Everything jumps along the innermost loop, and goes along another one: a transposed matrix that was divided by
  // something, which a product reads.
  bool all_across(const Kernel& kernel, const std::set<BufferId>& turned) const {
    std::vector<const Loop*> chain;
    const Body* body = &kernel.body;
    for (; body->size() == 1 && body->front().loop && body->front().loop->role == AxisRole::parallel;
         body = &body->front().loop->body)
      chain.push_back(body->front().loop.get());
    if (chain.size() < 2) return false;
    const RangeEnv env = kernel_ranges(kernel, program_);
    std::vector<Expr> addresses;
    bool written = false;
    for (const Stmt& stmt : *body) {
      if (stmt.loop || stmt.kind == StmtKind::check_index || stmt.kind == StmtKind::random) return false;
      if (stmt.kind == StmtKind::store) written |= turned.contains(stmt.buffer);
      if (stmt.kind == StmtKind::load || stmt.kind == StmtKind::store)
        addresses.push_back(address_of(stmt, program_, env));
    }
    const auto along = [&](const Expr& address, const Loop& loop) -> double {
      const auto affine = affine_in(address, loop.var);
      return affine ? estimate(affine->coefficient, program_) : -1;
    };
    if (!written) return false;
    return std::any_of(chain.begin(), chain.end() - 1, [&](const Loop* loop) {
      size_t neighbours = 0, same = 0;
      for (const Expr& address : addresses) {
        same += along(address, *loop) == 0;
        neighbours += along(address, *loop) == 1 && along(address, *chain.back()) > 1;
      }
      return neighbours >= 2 && neighbours + same == addresses.size();
    });
  }
  static bool has_turned_dimensions(const Buffer& b) {
    double last = -1;
    for (size_t d = b.sizes.size(); d-- > 0;) {
      if (b.sizes[d].is_constant(1) || !b.strides[d].is_constant()) continue;
      const auto stride = static_cast<double>(b.strides[d].value());
      if (stride < last) return true;
      last = stride;
    }
    return false;
  }

  bool reorder_loops(Kernel& kernel, const std::set<BufferId>& followed) {
    std::vector<Loop*> chain;
    for (Body* body = &kernel.body;
         body->size() == 1 && body->front().kind == StmtKind::loop && body->front().loop->role == AxisRole::parallel;
         body = &body->front().loop->body)
      chain.push_back(body->front().loop.get());
    if (chain.size() < 2) return false;
    const Stmt* store = nullptr;
    for_each_stmt(kernel.body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::store && followed.count(stmt.buffer)) store = &stmt;
    });
    if (!store) return false;
    for (const Loop* loop : chain)
      for (const Loop* other : chain)
        if (mentions(loop->extent, other->var)) return false;
    const RangeEnv env = kernel_ranges(kernel, program_);
    const Expr address = address_of(*store, program_, env);
    struct Axis {
      std::string var;
      Expr extent;
      double distance;
    };
    std::vector<Axis> axes;
    for (const Loop* loop : chain) {
      const auto along = affine_in(address, loop->var);
      if (!along) return false;
      axes.push_back({loop->var, loop->extent, estimate(along->coefficient, program_)});
    }
    std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.distance > b.distance; });
    bool changed = false;
    for (size_t i = 0; i < chain.size(); ++i) {
      changed |= chain[i]->var != axes[i].var;
      chain[i]->var = axes[i].var, chain[i]->extent = axes[i].extent;
    }
    return changed;
  }

  LoopProgram& program_;
  Log& log_;
  std::vector<int> class_of_;
  std::set<int> wished_;  // classes
  std::set<BufferId> pinned_, made_of_weights_;
  std::vector<Wish> wishes_;
  std::map<const Kernel*, Point> points_;
};

}  // namespace

bool choose_layouts(LoopProgram& program, Log& log) { return Layouts(program, log).run(); }

}  // namespace kiln::loops
