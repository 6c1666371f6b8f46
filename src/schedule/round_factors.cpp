// On a CPU that multiplies pairs of bf16, with float32_matmul_precision=medium: the factors of products of f32 are
// rounded to bf16, sums and all that follows them stay f32. Without that setting too the weights of a long attention
// over bf16 are, which are f32 in between only: eager's kernel rounds all of them, and where keys are many the second
// product is much of the time. A weight is rounded in
// the init section (and while it is packed, where it is: packing.cpp). Who stores a product's rows stores them a second
// time, as bf16, or as that alone where nobody else reads them; an input is rounded by a kernel of its own. From here
// on it is a product of bf16 as any other.
#include "loop_passes/contraction.h"
#include "loop_passes/rewrite.h"
#include "loops/walk.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

constexpr double least_rounded_columns = 8;             // with fewer no template takes the product
constexpr double long_attention = 512, many_rows = 64;  // keys from which on weights are rounded, of so many rows

class FactorRounder {
 public:
  FactorRounder(LoopProgram& program, Log& log, const RoundedOperators& operators, bool all)
      : program_(program), log_(log), operators_(operators), all_(all) {
    for_each_item(program.block, [&](Item& item) {
      auto* kernel = std::get_if<Kernel>(&item.what);
      if (std::holds_alternative<Cond>(item.what) || std::holds_alternative<While>(item.what)) return;
      for (BufferId w : accesses(item).writes) kernel ? void(writers_[w].push_back(kernel)) : void(foreign_.insert(w));
    });
  }

  bool run() {
    for_each_item(program_.block, [&](Item& item) {
      auto* kernel = std::get_if<Kernel>(&item.what);
      if (!kernel || kernel->schedule || !is_product(*kernel)) return;
      kernel_ = kernel;
      std::vector<const Loop*> enclosing;
      visit(kernel->body, enclosing);
    });
    drop_unread_stores();
    program_.block.insert(program_.block.begin(), std::make_move_iterator(first_.begin()),
                          std::make_move_iterator(first_.end()));
    return !narrow_.empty();
  }

 private:
  Buffer& buffer(BufferId id) { return program_.buffers[static_cast<size_t>(id)]; }

  // Other sums over products (a picture that is scaled) are none of the setting's.
  bool is_product(const Kernel& kernel) const {
    return std::any_of(kernel.op_names.begin(), kernel.op_names.end(),
                       [&](const std::string& name) { return operators_.products.contains(name); });
  }

  bool is_of_attention() const {
    return std::any_of(kernel_->origins.begin(), kernel_->origins.end(),
                       [&](const Origin& call) { return operators_.attention.contains(call.op); });
  }

  // All kernels that store the rows come from the call of an attention that the product comes from.
  bool are_weights_of_attention(BufferId rows) const {
    const auto comes_from = [](const Kernel& kernel, const Origin& call) {
      return std::any_of(kernel.origins.begin(), kernel.origins.end(),
                         [&](const Origin& origin) { return origin.node == call.node && origin.op == call.op; });
    };
    const auto writers = writers_.find(rows);
    return std::any_of(kernel_->origins.begin(), kernel_->origins.end(), [&](const Origin& call) {
      return operators_.attention.contains(call.op) && writers != writers_.end() &&
             std::all_of(writers->second.begin(), writers->second.end(),
                         [&](const Kernel* writer) { return comes_from(*writer, call); });
    });
  }

  void visit(Body& body, std::vector<const Loop*>& enclosing) {
    for (Stmt& stmt : body) {
      if (!stmt.loop) continue;
      enclosing.push_back(stmt.loop.get());
      if (is_contraction(*stmt.loop, enclosing)) round(*stmt.loop, enclosing);
      visit(stmt.loop->body, enclosing);
      visit(stmt.loop->after, enclosing);
      enclosing.pop_back();
    }
  }

  // The load of f32 that is the factor, with nothing in between.
  static Stmt* loaded(Body& body, ValueId factor) {
    for (Stmt& stmt : body)
      if (stmt.kind == StmtKind::load && stmt.results[0] == factor && stmt.dtype == DType::f32) return &stmt;
    return nullptr;
  }

  static bool uses(const Stmt& load, const std::string& var) {
    return std::any_of(load.index.begin(), load.index.end(), [&](const Expr& e) { return mentions(e, var); });
  }

  bool is_weight(BufferId id) {
    const Buffer& b = buffer(id);
    return (b.role == BufferRole::constant && !b.mutated) || b.role == BufferRole::derived;
  }

  // Some parallel loop numbers columns: the weight alone varies with it.
  bool has_columns(const Stmt& rows, const Stmt& weight, const std::vector<const Loop*>& enclosing) const {
    return std::any_of(enclosing.begin(), enclosing.end(), [&](const Loop* loop) {
      return loop->role == AxisRole::parallel && uses(weight, loop->var) && !uses(rows, loop->var) &&
             estimate(loop->extent, program_) >= least_rounded_columns;
    });
  }

  // Terms come in pairs that lie beside one another, of which a mask takes none apart.
  bool has_pairs(const Stmt& rows, const std::vector<const Loop*>& enclosing) {
    const Expr address = address_of(rows, program_, kernel_ranges(*kernel_, program_));
    return std::any_of(enclosing.begin(), enclosing.end(), [&](const Loop* loop) {
      if (loop->role != AxisRole::reduce || !loop->extent.is_constant() || loop->extent.value() % 2 != 0) return false;
      const auto along = affine_in(address, loop->var);
      return along && along->coefficient.is_constant(1);
    });
  }

  void round(Loop& sum, const std::vector<const Loop*>& enclosing) {
    const Stmt* product = sum.reduce_dtype == DType::f32 ? summed_product(sum) : nullptr;
    if (!product) return;
    Stmt *rows = loaded(sum.body, product->args[0]), *weight = loaded(sum.body, product->args[1]);
    if (rows && !weight) return round_beside(sum, *rows, product->args[1], enclosing);
    if (!rows && weight) return round_beside(sum, *weight, product->args[0], enclosing);
    if (!all_) return;
    if (!rows || rows == weight) return;
    if (is_weight(rows->buffer)) std::swap(rows, weight);
    if (!is_weight(rows->buffer) && !is_weight(weight->buffer) && is_of_attention())
      return round_both(sum, *rows, *weight, enclosing);
    if (is_weight(rows->buffer) || !is_weight(weight->buffer) || weight->mask != no_value)
      return no("none of them is a weight");
    if (!has_columns(*rows, *weight, enclosing)) return no("the weight has no columns of its own");
    if (!has_pairs(*rows, enclosing)) return no("its terms are no pairs that lie beside one another");
    const BufferId narrow_rows = narrowed(rows->buffer);
    if (narrow_rows == no_buffer) return no("what it multiplies is written by others than kernels");
    const BufferId narrow_weight = narrowed(weight->buffer);
    yes();
    const std::pair<ValueId, BufferId> loads[] = {{rows->results[0], narrow_rows}, {weight->results[0], narrow_weight}};
    for (const auto& [value, instead] : loads) load_narrow(sum.body, value, instead);
  }

  // Two computed values: queries and keys, or the weights of keys and their values. Of few rows (a step of decoding)
  // they are read once, and rounding a cache would take longer than the products do.
  void round_both(Loop& sum, const Stmt& one, const Stmt& other, const std::vector<const Loop*>& enclosing) {
    const bool first_is_rows = are_many(one, other, enclosing);
    const Stmt &rows = first_is_rows ? one : other, &columns = first_is_rows ? other : one;
    if (!are_many(rows, columns, enclosing)) return no("its rows are few");
    if (!has_columns(rows, columns, enclosing) || !has_pairs(rows, enclosing))
      return no("its columns are few, or its terms are no pairs that lie beside one another");
    const ValueId values[] = {rows.results[0], columns.results[0]};
    const BufferId wide[] = {rows.buffer, columns.buffer};
    if (!can_be_narrowed(wide[0]) || !can_be_narrowed(wide[1]))
      return no("what it multiplies is written by others than kernels");
    yes();
    for (size_t i = 0; i < 2; ++i) load_narrow(sum.body, values[i], narrowed(wide[i]));
  }

  bool are_many(const Stmt& rows, const Stmt& other, const std::vector<const Loop*>& enclosing) const {
    return std::any_of(enclosing.begin(), enclosing.end(), [&](const Loop* loop) {
      return loop->role == AxisRole::parallel && uses(rows, loop->var) && !uses(other, loop->var) &&
             estimate(loop->extent, program_) >= many_rows;
    });
  }

  bool is_long(const Loop& keys, const Stmt& rows, const std::vector<const Loop*>& enclosing) const {
    return estimate(keys.extent, program_) >= long_attention &&
           std::any_of(enclosing.begin(), enclosing.end(), [&](const Loop* loop) {
             return loop->role == AxisRole::parallel && uses(rows, loop->var) &&
                    estimate(loop->extent, program_) >= many_rows;
           });
  }

  // What is computed, where the other factor is bf16 as it is: the weights of attention in front of its values.
  void round_beside(Loop& sum, const Stmt& rows, ValueId other, const std::vector<const Loop*>& enclosing) {
    if (!all_ && (!are_weights_of_attention(rows.buffer) || !is_long(sum, rows, enclosing))) return;
    const auto made = std::find_if(sum.body.begin(), sum.body.end(), [&](const Stmt& stmt) {
      return stmt.results.size() == 1 && stmt.results[0] == other;
    });
    if (made == sum.body.end() || made->kind != StmtKind::op || made->op != ScalarOp::cast ||
        kernel_->value_types[static_cast<size_t>(made->args[0])] != DType::bf16)
      return;
    const auto load = std::find_if(sum.body.begin(), sum.body.end(), [&](const Stmt& stmt) {
      return stmt.kind == StmtKind::load && stmt.results[0] == made->args[0];
    });
    if (load == sum.body.end()) return;
    if (is_weight(rows.buffer) || !has_columns(rows, *load, enclosing))
      return no("its rows are a weight, or its columns have no factor of their own");
    const BufferId narrow_rows = writers_.contains(rows.buffer) ? narrowed(rows.buffer) : no_buffer;
    if (narrow_rows == no_buffer) return no("what it multiplies is written by others than kernels");
    yes();
    load_narrow(sum.body, rows.results[0], narrow_rows);
  }

  void no(const char* why) {
    log_.add([&] { return Decision{"no rounding of the factors of", kernel_->name, "", "", why, false, ""}; });
  }
  void yes() {
    log_.add([&] {
      return Decision{"round the factors of",
                      kernel_->name,
                      "",
                      "",
                      all_ ? "float32_matmul_precision is medium" : "they are weights of a long attention over bf16",
                      true,
                      ""};
    });
  }

  // load f32   becomes   load bf16; cast
  void load_narrow(Body& body, ValueId value, BufferId instead) {
    const auto load = std::find_if(body.begin(), body.end(), [&](const Stmt& stmt) {
      return stmt.results.size() == 1 && stmt.results[0] == value;
    });
    load->buffer = instead;
    load->dtype = DType::bf16;
    load->results[0] = new_value(*kernel_, DType::bf16);
    const ValueId narrow = load->results[0];
    body.insert(load + 1, op_stmt_to(value, ScalarOp::cast, DType::f32, {narrow}));
  }

  bool can_be_narrowed(BufferId from) {
    const Buffer& source = buffer(from);
    const bool written = writers_.contains(from);
    if (is_weight(from)) return !written || plainly_stored(from);
    return !source.mutated && !foreign_.contains(from) &&
           (written ? plainly_stored(from) : source.role == BufferRole::input);
  }

  // The buffer that has the same numbers rounded to bf16; no_buffer: it cannot be had.
  BufferId narrowed(BufferId from) {
    if (const auto found = narrow_.find(from); found != narrow_.end()) return found->second;
    if (!can_be_narrowed(from)) return no_buffer;
    const Buffer source = buffer(from);
    const bool weight = is_weight(from), written = writers_.contains(from);
    Buffer made;
    made.name = source.name + "_bf16";
    made.dtype = DType::bf16;
    made.sizes = source.sizes;
    made.strides = source.strides;
    made.role = weight ? BufferRole::derived : BufferRole::temp;
    if (!written) dense(made);
    const BufferId to = narrow_[from] = program_.add_buffer(std::move(made));
    if (written)
      for (Kernel* writer : writers_[from]) store_twice(writer->body, from, to);
    else
      (weight ? program_.init : first_).push_back(Item{rounding(from, to)});
    return to;
  }

  // What an input or a weight has may overlap or have gaps.
  static void dense(Buffer& made) {
    for (size_t d = made.sizes.size(); d-- > 0;)
      made.strides[d] = d + 1 == made.sizes.size() ? Expr(1) : made.strides[d + 1] * made.sizes[d + 1];
  }

  bool plainly_stored(BufferId id) {
    bool plain = true;
    for (const Kernel* writer : writers_[id])
      for_each_stmt(writer->body, [&](const Stmt& stmt) {
        if (stmt.kind == StmtKind::store && stmt.buffer == id)
          plain &=
              stmt.mode == StoreMode::plain && writer->value_types[static_cast<size_t>(stmt.args[0])] == DType::f32;
      });
    return plain;
  }

  static void store_twice(Body& body, BufferId from, BufferId to) {
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i].loop) store_twice(body[i].loop->body, from, to), store_twice(body[i].loop->after, from, to);
      if (body[i].kind != StmtKind::store || body[i].buffer != from) continue;
      Stmt narrow = store_stmt(DType::bf16, to, body[i].index, body[i].args[0]);
      narrow.mask = body[i].mask;
      body.insert(body.begin() + static_cast<std::ptrdiff_t>(++i), std::move(narrow));
    }
  }

  Kernel rounding(BufferId from, BufferId to) {
    const Buffer source = buffer(from);
    Kernel kernel;
    kernel.name = "round_" + source.name;
    kernel.op_names = {"round"};
    kernel.origins = kernel_->origins;
    Body body;
    const std::vector<Expr> index = nest_index(source.sizes.size());
    const ValueId value = append(body, load_stmt(kernel, DType::f32, from, index));
    body.push_back(store_stmt(DType::bf16, to, index, value));
    kernel.body = nest_of(source.sizes, std::move(body));
    return kernel;
  }

  // Rows that only products read are stored as bf16 alone.
  void drop_unread_stores() {
    const std::set<BufferId> read = read_buffers(program_.block);
    for (const auto& [from, to] : narrow_)
      if (!read.contains(from) && buffer(from).role == BufferRole::temp && !observable(program_, from))
        for (Kernel* writer : writers_[from]) drop_stores(writer->body, from);
  }

  LoopProgram& program_;
  Log& log_;
  const RoundedOperators& operators_;
  const bool all_;                                    // what the setting asks for; else weights of attention
  Kernel* kernel_ = nullptr;                          // whose products are looked at
  std::map<BufferId, std::vector<Kernel*>> writers_;  // kernels of the block, by what they store
  std::set<BufferId> foreign_;                        // what others write
  std::map<BufferId, BufferId> narrow_;               // what has been rounded, and where to
  Block first_;                                       // kernels that round inputs
};

}  // namespace

bool round_factors(LoopProgram& program, const Target& target, Log& log, const RoundedOperators& operators) {
  return target.bf16_pairs && FactorRounder(program, log, operators, target.rounds_to_bf16).run();
}

}  // namespace kiln::loops
