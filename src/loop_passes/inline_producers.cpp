#include "loop_passes/contraction.h"
#include "loop_passes/passes.h"
#include "loop_passes/pointwise_form.h"
#include "loop_passes/rewrite.h"
#include "loop_passes/roundings.h"
#include "loops/walk.h"

namespace kiln::loops {
namespace {

constexpr int cheap_cost = 4;        // adds and multiplies; below this computing again beats a trip through memory
constexpr size_t largest_body = 96;  // statements; beyond that a producer is inlined only where it is used once

struct Producer {
  Kernel* kernel = nullptr;
  int block = 0, position = 0;  // where it stands
};

// What the pass knows of the whole program before it starts.
struct Index {
  std::map<BufferId, Producer> producers;    // of buffers written by exactly one item, a kernel
  std::map<BufferId, int> readers, writers;  // number of items that read and write it, those with blocks aside
  std::map<BufferId, std::vector<std::pair<int, int>>> writes;  // (block, position) of every item that writes it
  std::set<BufferId> in_products;                               // read inside a matrix product, many times per element
};

int statement_cost(const Body& body) {
  int cost = 0;
  for (const Stmt& stmt : body)
    if (stmt.kind == StmtKind::op && stmt.op != ScalarOp::cast && stmt.op != ScalarOp::select)
      cost += scalar_op_info(stmt.op).cost;
  return cost;
}

class Inliner {
 public:
  Inliner(LoopProgram& program, Log& log) : program_(program), log_(log), roundings_(program) {}

  bool run() {
    int blocks = 0;
    index_block(program_.block, blocks);
    blocks = 0;
    visit_block(program_.block, blocks);
    for (Kernel* kernel : checked_by_reader_) kernel->body.clear(), kernel->named.clear();
    return changed_;
  }

 private:
  void index_products(const Body& body, std::vector<const Loop*>& enclosing) {
    for (const Stmt& stmt : body) {
      if (!stmt.loop) continue;
      if (is_contraction(*stmt.loop, enclosing))
        for (BufferId r : accesses(stmt.loop->body).reads) index_.in_products.insert(r);
      enclosing.push_back(stmt.loop.get());
      index_products(stmt.loop->body, enclosing);
      enclosing.pop_back();
    }
  }

  void index_block(Block& block, int& next_block) {
    int id = next_block++;
    for (size_t i = 0; i < block.size(); ++i) {
      Item& item = block[i];
      Accesses a = accesses(item);
      std::vector<const Loop*> enclosing;
      if (auto* kernel = std::get_if<Kernel>(&item.what)) index_products(kernel->body, enclosing);
      bool outer = false;
      for_each_block(item, [&](Block&) { outer = true; });
      if (outer)
        ++index_.readers[predicate_of(item)];
      else
        for (BufferId r : a.reads) ++index_.readers[r];
      for (BufferId w : a.writes) {
        index_.writes[w].push_back({id, static_cast<int>(i)});
        if (!outer) ++index_.writers[w];
        if (auto* kernel = std::get_if<Kernel>(&item.what)) index_.producers[w] = {kernel, id, static_cast<int>(i)};
      }
      for_each_block(item, [&](Block& inner) { index_block(inner, next_block); });
    }
  }

  static BufferId predicate_of(const Item& item) {
    const std::variant<BufferId, Expr>* predicate = nullptr;
    if (const auto* cond = std::get_if<Cond>(&item.what)) predicate = &cond->predicate;
    if (const auto* loop = std::get_if<While>(&item.what)) predicate = &loop->predicate;
    return predicate && std::holds_alternative<BufferId>(*predicate) ? std::get<BufferId>(*predicate) : no_buffer;
  }

  void visit_block(Block& block, int& next_block) {
    int id = next_block++;
    for (size_t i = 0; i < block.size(); ++i) {
      if (auto* kernel = std::get_if<Kernel>(&block[i].what)) visit_kernel(*kernel, id, static_cast<int>(i));
      for_each_block(block[i], [&](Block& inner) { visit_block(inner, next_block); });
    }
  }

  void visit_kernel(Kernel& kernel, int block, int position) {
    std::vector<const Loop*> enclosing;
    used_ = variables_of(kernel);  // kept here: while a body is rewritten, parts of it are not in the kernel
    visit_body(kernel, kernel.body, enclosing, block, position);
  }

  void visit_body(Kernel& kernel, Body& body, std::vector<const Loop*>& enclosing, int block, int position) {
    Body out;
    for (Stmt& stmt : body) {
      if (stmt.kind == StmtKind::loop) {
        enclosing.push_back(stmt.loop.get());
        visit_body(kernel, stmt.loop->body, enclosing, block, position);
        visit_body(kernel, stmt.loop->after, enclosing, block, position);
        enclosing.pop_back();
      } else if (stmt.kind == StmtKind::load) {
        if (const Producer* producer = wanted(stmt, kernel, enclosing, block, position)) {
          if (producer->block == block && raises(producer->kernel->body) && reads_all(stmt, enclosing))
            checked_by_reader_.insert(producer->kernel);
          expand(stmt, *producer->kernel, kernel, out);
          continue;
        }
      }
      out.push_back(std::move(stmt));
    }
    body = std::move(out);
  }

  // The producer to inline at this load, if that is right and pays.
  const Producer* wanted(const Stmt& load, const Kernel& consumer, const std::vector<const Loop*>& enclosing, int block,
                         int position) {
    auto found = index_.producers.find(load.buffer);
    if (found == index_.producers.end() || found->second.kernel == &consumer) return nullptr;
    const Producer& producer = found->second;
    if (index_.writers[load.buffer] != 1) return nullptr;
    if (program_.buffers[static_cast<size_t>(load.buffer)].role != BufferRole::temp &&
        program_.buffers[static_cast<size_t>(load.buffer)].role != BufferRole::output)
      return nullptr;
    std::optional<PointwiseForm> form = pointwise_form(*producer.kernel);
    if (!form || form->store->buffer != load.buffer) return nullptr;
    const std::string& name = program_.buffers[static_cast<size_t>(load.buffer)].name;
    // What the producer reads must still be there, unchanged, when the consumer runs.
    for (const Stmt& stmt : *form->body)
      if (stmt.kind == StmtKind::load && !unchanged(stmt.buffer, producer, block, position)) {
        return keep(name, [&] {
          return str(program_.buffers[static_cast<size_t>(stmt.buffer)].name, " is overwritten before ", consumer.name);
        });
      }
    int cost = statement_cost(*form->body);
    bool raising = raises(*form->body);
    double iterations = 1, elements = 1;
    bool in_reduction_over_products = false;
    for (const Loop* loop : enclosing) {
      iterations *= std::max(1.0, estimate(loop->extent, program_));
      if (is_contraction(*loop, enclosing)) in_reduction_over_products = true;
    }
    for (const Expr& size : program_.buffers[static_cast<size_t>(load.buffer)].sizes)
      elements *= std::max(1.0, estimate(size, program_));
    double factor = iterations / elements;
    // From inside of a loop what stands in front of it is read many times.
    const int readers = index_.readers[load.buffer] + (producer.block != block ? 1 : 0);
    bool free = cost == 0 && !raising && loads(*form->body) <= 1;
    if (raising && (factor > 1.0 || readers > 1 || load.mask != no_value))
      return keep(name, [] { return "it checks indices and is not read exactly once"; });
    const int64_t element = dtype_bytes(program_.buffers[static_cast<size_t>(load.buffer)].dtype);
    // A product reads its operands many times: what is rounded to fewer bytes is read as that.
    if (in_reduction_over_products && factor > 1.0 && loads_of_full_rank(*form) > element)
      return keep(name, [&] { return str(consumer.name, " reads less of it than of what it is made from"); });
    if (free) return accept(name, consumer, "it only moves data", producer);
    if (in_reduction_over_products && factor > 1.0) {
      bool widens = cost <= cheap_cost && loads_of_full_rank(*form) < element;
      if (widens) return accept(name, consumer, "it widens a narrower operand of a product", producer);
      return keep(name,
                  [&] { return str(consumer.name, " would compute it ", static_cast<int64_t>(factor), " times"); });
    }
    if (reads_window(load, enclosing) && follows_product(*form))
      return keep(name, [&] { return str("the product before it computes it for nothing, ", consumer.name, " not"); });
    if (form->body->size() > largest_body && readers > 1)
      return keep(name, [&] { return str("its body is large and ", readers, " kernels read it"); });
    if (readers > 1 && index_.in_products.count(load.buffer))
      return keep(name, [] { return "a matrix product needs it in memory anyway"; });
    if (readers == 1 && factor <= 1.0) return accept(name, consumer, "it is read once", producer);
    // What is made of indices alone (a causal mask) needs no memory at all.
    if (cost <= cheap_cost && loads(*form->body) == 0)
      return accept(name, consumer, "it reads nothing and is cheap to compute", producer);
    if (cost <= cheap_cost && factor <= 4.0 && loads(*form->body) <= 2 && readers <= 4)
      return accept(name, consumer, "computing it again is cheaper than storing it", producer);
    return keep(name,
                [&] { return str("cost ", cost, ", ", readers, " readers, read ", float_text(factor), " times"); });
  }

  // A window that slides over a picture, as a pool's does: an index goes along a parallel loop and one that reduces.
  static bool reads_window(const Stmt& load, const std::vector<const Loop*>& enclosing) {
    return std::any_of(load.index.begin(), load.index.end(), [&](const Expr& e) {
      const auto along = [&](AxisRole role) {
        return std::any_of(enclosing.begin(), enclosing.end(),
                           [&](const Loop* loop) { return loop->role == role && mentions(e, loop->var); });
      };
      return along(AxisRole::parallel) && along(AxisRole::reduce);
    });
  }

  // It goes over what a product makes and nobody else reads: it will be done with the product's sums still in
  // registers.
  bool follows_product(const PointwiseForm& form) {
    return std::any_of(form.body->begin(), form.body->end(), [&](const Stmt& stmt) {
      if (stmt.kind != StmtKind::load || index_.writers[stmt.buffer] != 1 || index_.readers[stmt.buffer] != 1 ||
          stmt.index != form.store->index ||
          program_.buffers[static_cast<size_t>(stmt.buffer)].role != BufferRole::temp)
        return false;
      const auto made = index_.producers.find(stmt.buffer);
      return made != index_.producers.end() && has_contraction(made->second.kernel->body);
    });
  }

  // Whether the load reads every element of its buffer, each once: its loops count through the places of the buffer as
  // digits count through numbers. Then it makes all checks that stood at the stores, and the producer need not.
  bool reads_all(const Stmt& load, const std::vector<const Loop*>& enclosing) const {
    const RangeEnv env = program_.ranges();
    const Buffer& buffer = program_.buffers[static_cast<size_t>(load.buffer)];
    if (load.mask != no_value || buffer.role != BufferRole::temp) return false;
    Expr place(0), elements(1);
    for (size_t d = buffer.sizes.size(); d-- > 0; elements = elements * buffer.sizes[d])
      place = place + load.index[d] * elements;
    Expr digit(1);
    std::vector<const Loop*> left;
    for (const Loop* loop : enclosing)
      if (!loop->extent.is_constant(1)) left.push_back(loop);
    while (!left.empty()) {
      const auto next = std::find_if(left.begin(), left.end(), [&](const Loop* loop) {
        const auto affine = affine_in(place, loop->var);
        return affine && prove_eq(affine->coefficient, digit, env) == Proof::yes;
      });
      if (next == left.end() || (*next)->role == AxisRole::scan) return false;
      place = substitute(place, Substitution{{(*next)->var, Expr(0)}});
      digit = digit * (*next)->extent;
      left.erase(next);
    }
    return prove_eq(simplify(place, env), Expr(0), env) == Proof::yes && prove_eq(digit, elements, env) == Proof::yes;
  }

  const Producer* accept(const std::string& buffer, const Kernel& consumer, const char* why, const Producer& producer) {
    log_.add([&] { return Decision{"inline", buffer, "into", consumer.name, why, true, ""}; });
    changed_ = true;
    return &producer;
  }

  template <class Why>
  const Producer* keep(const std::string& buffer, Why why) {
    log_.add([&] { return Decision{"keep", buffer, "", "", why(), false, ""}; });
    return nullptr;
  }

  static int loads(const Body& body) {
    int count = 0;
    for (const Stmt& stmt : body) count += stmt.kind == StmtKind::load;
    return count;
  }

  // Bytes read per element from operands that vary over every axis of the producer (scales and zero points do not).
  int64_t loads_of_full_rank(const PointwiseForm& form) const {
    int64_t bytes = 0;
    for (const Stmt& stmt : *form.body) {
      if (stmt.kind != StmtKind::load) continue;
      size_t used = 0;
      for (const Loop* loop : form.loops)
        for (const Expr& e : stmt.index)
          if (mentions(e, loop->var)) {
            ++used;
            break;
          }
      if (used == form.loops.size()) bytes += dtype_bytes(program_.buffers[static_cast<size_t>(stmt.buffer)].dtype);
    }
    return bytes;
  }

  // Nobody writes the buffer between the producer and the consumer, the consumer itself included: inlined, its reads
  // would stand among its own writes.
  bool unchanged(BufferId buffer, const Producer& producer, int block, int position) {
    auto found = index_.writes.find(buffer);
    if (found == index_.writes.end()) return true;
    // Written once, and that before the producer, which reads it: it cannot change afterwards. An input or constant has
    // a value before its first write (a cache that is updated in place, before or after both).
    const BufferRole role = program_.buffers[static_cast<size_t>(buffer)].role;
    if (found->second.size() == 1 &&
        (role == BufferRole::temp || role == BufferRole::output || role == BufferRole::derived))
      return true;
    if (producer.block != block) return false;
    for (auto [b, p] : found->second)
      if (b != block || (p > producer.position && p <= position)) return false;
    return true;
  }

  void expand(const Stmt& load, const Kernel& producer, Kernel& consumer, Body& out) {
    PointwiseForm form = *pointwise_form(producer);
    Copier copier(producer, consumer, used_);
    copier.mask = load.mask;
    bind_store_index(form, load.index, copier.variables);
    for (const Stmt& stmt : *form.body) {
      if (&stmt == form.store) continue;
      Stmt copied = copier.copy(stmt, out);
      out.push_back(std::move(copied));
    }
    copier.copy_names(out);
    used_ = copier.used();
    ValueId stored = copier.value(form.store->args[0]);
    // The load's result keeps its number: it becomes a cast, which simplify_bodies drops or merges. A masked-off load
    // gives 0, whatever the producer computes from zeros.
    DType have = consumer.value_types[static_cast<size_t>(stored)];
    const bool zero_already = std::any_of(out.begin(), out.end(), [&](const Stmt& stmt) {
      return stmt.kind == StmtKind::load && stmt.mask == load.mask && stmt.results[0] == stored;
    });
    if (load.mask != no_value && !zero_already) {
      const Scalar nothing = have == DType::boolean ? Scalar(false)
                             : kiln::is_float(have) ? Scalar(0.0)
                                                    : Scalar(int64_t{0});
      const ValueId zero = append(out, constant_stmt(consumer, have, nothing));
      stored = append(out, op_stmt(consumer, ScalarOp::select, have, {load.mask, stored, zero}));
    }
    out.push_back(roundings_.forwarded(load, stored, consumer));
    for (const Origin& origin : producer.origins) consumer.origins.push_back(origin);
    consumer.op_names.insert(consumer.op_names.begin(), producer.op_names.begin(), producer.op_names.end());
  }

  LoopProgram& program_;
  Log& log_;
  Roundings roundings_;
  Index index_;
  std::set<std::string> used_;
  std::set<Kernel*> checked_by_reader_;  // producers that are left with nothing to do, not even their checks
  bool changed_ = false;
};

}  // namespace

bool inline_producers(LoopProgram& program, Log& log) { return Inliner(program, log).run(); }

}  // namespace kiln::loops
