// On a CPU that adds the products of four u8 with four i8 to an i32 by one instruction: sums over products of numbers
// that were quantised to bytes are made of the bytes. What a quantised model says is
//
//   sum over k of (x[m,k] - z) * s * (w[k,n] * t[n])          in f32
//
// and the same number, without the roundings of each term, is
//
//   s * t[n] * (sum over k of x[m,k] * w[k,n]  -  z * sum over k of w[k,n])
//
// The first sum is a product of bytes as any other from here on, the second one belongs to the weight and is computed
// in the init section. Who dequantises the rows stores their bytes, as u8 (of i8 128 more, which is part of z), beside
// what it stored or, where nobody else reads that, in its place. A product of integers that the program has itself
// (_int_mm) differs in that nothing is scaled.
#include "loop_passes/rewrite.h"
#include "loops/walk.h"
#include "schedule/quantised_numbers.h"
#include "schedule/row_bytes.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

class ByteMultiplier {
 public:
  ByteMultiplier(LoopProgram& program, Log& log, const KnownZeros& zeros)
      : program_(program), log_(log), zeros_(zeros), bytes_(program) {}

  bool run() {
    for_each_item(program_.block, [&](Item& item) {
      auto* kernel = std::get_if<Kernel>(&item.what);
      if (!kernel || kernel->schedule) return;
      kernel_ = kernel;
      enclosing_.clear();
      visit(kernel->body);
    });
    bytes_.finish();
    return changed_;
  }

 private:
  static constexpr int64_t together = 4;         // terms of an instruction
  static constexpr double least_columns = 16;    // with fewer no tile takes the product
  static constexpr double least_rows = 2;        // a product of one row waits for memory, not for arithmetic
  static constexpr int64_t longest_sum = 65000;  // terms: their sum stays an i32

  Buffer& buffer(BufferId id) { return program_.buffers[static_cast<size_t>(id)]; }
  const Buffer& buffer(BufferId id) const { return program_.buffers[static_cast<size_t>(id)]; }
  bool is_weight(BufferId id) const { return buffer(id).role == BufferRole::constant && !buffer(id).mutated; }
  static bool uses(const Stmt& load, const std::string& var) {
    return std::any_of(load.index.begin(), load.index.end(), [&](const Expr& e) { return mentions(e, var); });
  }

  void visit(Body& body) {
    for (size_t i = 0; i < body.size(); ++i) {
      if (!body[i].loop) continue;
      const bool outermost_sum = body[i].loop->role == AxisRole::reduce;
      if (outermost_sum) {
        multiply(body, i);
        continue;
      }
      enclosing_.push_back(body[i].loop.get());
      visit(body[i].loop->body);
      enclosing_.pop_back();
    }
  }

  // ---- What a product is made of
  // ---------------------------------------------------------------------------------------------------------------

  // Whether a zero point that is computed is a whole number, whatever its type: made of integers, here or by who
  // stored it.
  bool is_whole(const Kernel& kernel, ValueId v, int depth = 0) const {
    if (kiln::is_integral(kernel.value_types[static_cast<size_t>(v)])) return true;
    const Stmt* made = definition(kernel.body, v);
    if (is_op(made, ScalarOp::cast)) return is_whole(kernel, made->args[0], depth);
    if (!made || made->kind != StmtKind::load || depth > 2) return false;
    const auto* writers = bytes_.writers_of(made->buffer);
    if (!writers || bytes_.others_write(made->buffer)) return false;
    bool whole = true;
    for (const Kernel* writer : *writers)
      for_each_stmt(writer->body, [&](const Stmt& stmt) {
        if (stmt.kind == StmtKind::store && stmt.buffer == made->buffer)
          whole = whole && stmt.mode == StoreMode::plain && is_whole(*writer, stmt.args[0], depth + 1);
      });
    return whole;
  }

  // What a zero point or a scale is computed from, in order: numbers and loads that others do not write to meanwhile.
  // nullopt: something else.
  std::optional<std::vector<const Stmt*>> parts_of_number(const Kernel& kernel, ValueId v) const {
    std::vector<const Stmt*> out;
    std::set<ValueId> seen;
    bool plain = true;
    std::function<void(ValueId)> visit = [&](ValueId number) {
      if (!seen.insert(number).second) return;
      const Stmt* made = definition(kernel.body, number);
      plain &= made != nullptr;
      if (!plain) return;
      if (made->kind == StmtKind::load) {
        const Buffer& from = buffer(made->buffer);
        const auto* writers = bytes_.writers_of(made->buffer);
        const bool stays = !from.mutated && !bytes_.others_write(made->buffer) && (!writers || writers->size() == 1) &&
                           made->mask == no_value;
        plain &= stays;
      } else {
        plain &= made->kind == StmtKind::op || made->kind == StmtKind::constant;
      }
      if (!plain) return;
      for (ValueId arg : made->args) visit(arg);
      out.push_back(made);
    };
    visit(v);
    if (!plain || out.size() > 12) return {};
    return out;
  }

  bool is_free_of(const std::vector<const Stmt*>& parts, const std::vector<const Loop*>& loops) const {
    return std::none_of(parts.begin(), parts.end(), [&](const Stmt* stmt) {
      return std::any_of(loops.begin(), loops.end(), [&](const Loop* loop) { return uses(*stmt, loop->var); });
    });
  }

  static std::optional<int64_t> constant_number(const std::vector<const Stmt*>& parts) {
    const Stmt* number = nullptr;
    for (const Stmt* stmt : parts)
      if (stmt->kind == StmtKind::constant && !number)
        number = stmt;
      else if (!is_op(stmt, ScalarOp::cast))
        return {};
    const double value = number ? number->constant.as_double() : NAN;
    return std::abs(value) < 1e9 && value == std::floor(value) ? std::optional(static_cast<int64_t>(value))
                                                               : std::nullopt;
  }

  // ---- One product
  // ---------------------------------------------------------------------------------------------------------------

  struct Product {
    std::vector<Loop*> sums;  // outermost first
    Stmt* rows = nullptr;     // the load of what the rows are made of: bytes, or what was dequantised
    Quantised weight;
    Stmt* weight_load = nullptr;
    bool scaled = true;  // f32; else integers that the program multiplies itself
    // How the rows are made of bytes: in `made_by`, whose loops' variables are these numbers of the product's.
    const Kernel* made_by = nullptr;
    Quantised made;
    Substitution places;
    std::vector<const Stmt*> row_zero, row_scale, column_zero, column_scale;
    std::optional<int64_t> known_zero = 0;  // of the rows
  };

  void no(const char* why) {
    log_.add([&] { return Decision{"no product of bytes in", kernel_->name, "", "", why, false, ""}; });
  }

  void multiply(Body& body, size_t at) {
    Product p;
    if (!find_sums(*body[at].loop, p)) return;
    const Stmt* product = &p.sums.back()->body.back();
    bool found = false;
    for (size_t i = 0; i < 2 && !found; ++i) found = find_factors(product->args[1 - i], product->args[i], p);
    if (!found) return;
    if (!fits(p) || !find_row_bytes(p)) return;
    rewrite(body, at, p);
    changed_ = true;
    log_.add([&] {
      return Decision{"multiply bytes in", kernel_->name, "", "", "its factors were quantised to them", true, ""};
    });
  }

  bool find_sums(Loop& outer, Product& p) const {
    for (Loop* loop = &outer;;) {
      if (loop->role != AxisRole::reduce || loop->reduce != ReduceOp::sum || !loop->extent.is_constant()) return false;
      if (loop->reduce_dtype != DType::f32 && loop->reduce_dtype != DType::i32) return false;
      p.sums.push_back(loop);
      if (loop->body.empty() || loop->yields.size() != 1 || !loop->after.empty()) return false;
      Stmt& last = loop->body.back();
      if (last.results != loop->yields) return false;
      if (!last.loop) {
        p.scaled = loop->reduce_dtype == DType::f32;
        return is_op(&last, ScalarOp::mul) && last.dtype == loop->reduce_dtype;
      }
      if (std::count_if(loop->body.begin(), loop->body.end(), [](const Stmt& s) { return s.loop != nullptr; }) != 1)
        return false;
      loop = last.loop.get();
    }
  }

  Stmt* load_in_sum(const Product& p, const Stmt* load) const {
    for (Stmt& stmt : p.sums.back()->body)
      if (&stmt == load) return &stmt;
    return nullptr;
  }

  bool find_factors(ValueId rows, ValueId weight, Product& p) const {
    const auto right = quantised(*kernel_, weight);
    if (!right || !right->load || right->load->dtype != DType::i8 || right->load->mask != no_value ||
        !is_weight(right->load->buffer))
      return false;
    p.weight = *right;
    p.weight_load = load_in_sum(p, right->load);
    // In f32: rows that were dequantised, by a kernel in front or on the way; in integers: the bytes themselves.
    const Stmt* made = definition(kernel_->body, rows);
    if (p.scaled && made && made->kind == StmtKind::load && made->dtype == DType::f32) {
      p.rows = load_in_sum(p, made);
    } else if (const auto left = quantised(*kernel_, rows); left && left->load && left->load->mask == no_value) {
      if (!p.scaled && (left->zero != no_value || left->scale != no_value)) return false;
      p.rows = load_in_sum(p, left->load);
      p.made_by = kernel_;
      p.made = *left;
    }
    return p.weight_load && p.rows && !is_weight(p.rows->buffer);
  }

  // Fours of terms that lie beside one another in the rows, a number of them that an i32 can hold, columns and rows.
  bool fits(Product& p) {
    double terms = 1;
    for (const Loop* sum : p.sums) terms *= static_cast<double>(sum->extent.value());
    if (terms > static_cast<double>(longest_sum) || terms < 1) return no("its sums are too long for an i32"), false;
    const Expr address = address_of(*p.rows, program_, kernel_ranges(*kernel_, program_));
    const bool fours = std::any_of(p.sums.begin(), p.sums.end(), [&](const Loop* sum) {
      const auto along = affine_in(address, sum->var);
      return sum->extent.value() % together == 0 && along && along->coefficient.is_constant(1);
    });
    if (!fours) return no("its terms are no fours that lie beside one another"), false;
    bool columns = false, rows = false;
    for (const Loop* loop : enclosing_) {
      const bool of_weight = uses(*p.weight_load, loop->var), of_rows = uses(*p.rows, loop->var);
      const double extent = estimate(loop->extent, program_);
      if (of_weight && of_rows) return no("groups of channels have too little to share"), false;
      columns |= of_weight && extent >= least_columns && loop->extent.is_constant();
      if (of_weight && !loop->extent.is_constant()) return no("its columns are not known"), false;
      rows |= of_rows && extent >= least_rows;
    }
    if (!columns || !rows) return no("it has few columns, or one row"), false;
    const std::vector<const Loop*> sums(p.sums.begin(), p.sums.end());
    const auto number = [&](ValueId v, std::vector<const Stmt*>& parts) {
      if (v == no_value) return true;
      auto found = parts_of_number(*kernel_, v);
      if (!found || !is_free_of(*found, sums)) return false;
      parts = std::move(*found);
      return true;
    };
    if (!number(p.weight.zero, p.column_zero) || !number(p.weight.scale, p.column_scale))
      return no("the weight's scale changes along the sum"), false;
    if (!is_zero(p.column_zero)) return no("the weight's zero point is not 0"), false;
    return true;
  }

  // Made of constants: what is asked of them is asked when they are loaded.
  bool is_of_weights(const std::vector<const Stmt*>& parts) const {
    bool loads = false, weights = true;
    for (const Stmt* stmt : parts)
      if (stmt->kind == StmtKind::load) loads = true, weights &= is_weight(stmt->buffer);
    return loads && weights;
  }

  // 0 as a number, or as a constant all of whose elements are.
  bool is_zero(const std::vector<const Stmt*>& parts) const {
    if (parts.empty() || constant_number(parts) == 0) return true;
    if (std::none_of(parts.begin(), parts.end(), [](const Stmt* stmt) { return stmt->kind == StmtKind::load; }))
      return false;
    return std::all_of(parts.begin(), parts.end(), [&](const Stmt* stmt) {
      if (is_op(stmt, ScalarOp::cast)) return true;
      return stmt->kind == StmtKind::load && is_weight(stmt->buffer) && zeros_(buffer(stmt->buffer).constant);
    });
  }

  // Every kernel that stores the rows makes them of bytes, with the same zero point and scale.
  bool find_row_bytes(Product& p) {
    if (p.made_by == nullptr) {
      const auto* writers = bytes_.writers_of(p.rows->buffer);
      if (!writers || bytes_.others_write(p.rows->buffer) || buffer(p.rows->buffer).mutated)
        return no("what it multiplies is written by others than kernels"), false;
      for (const Kernel* writer : *writers) {
        bool plain = true;
        for_each_stmt(writer->body, [&](const Stmt& stmt) {
          if (stmt.kind != StmtKind::store || stmt.buffer != p.rows->buffer || !plain) return;
          const auto stored = quantised(*writer, stmt.args[0]);
          plain = stored && stmt.mode == StoreMode::plain && same_numbers(p, *writer, *stored, stmt);
        });
        if (!plain) return no("what it multiplies was not quantised to bytes"), false;
      }
      if (!p.made_by) return false;
    } else if (buffer(p.rows->buffer).dtype == DType::i8 && !bytes_.can_shift(p.rows->buffer)) {
      return no("what it multiplies is written by others than kernels"), false;
    }
    const auto number = [&](ValueId v, std::vector<const Stmt*>& parts) {
      if (v == no_value) return true;
      auto found = parts_of_number(*p.made_by, v);
      if (found) parts = std::move(*found);
      return found.has_value();
    };
    if (!number(p.made.zero, p.row_zero) || !number(p.made.scale, p.row_scale))
      return no("the rows' scale or zero point is not at hand"), false;
    p.known_zero = p.row_zero.empty() ? 0 : constant_number(p.row_zero);
    if (!p.known_zero && !is_whole(*p.made_by, p.made.zero))
      return no("the rows' zero point may be no whole number"), false;
    if (p.rows->mask != no_value && !p.known_zero) return no("padding by a zero point that is computed"), false;
    const int64_t least = p.made_by->value_types[static_cast<size_t>(p.made.bytes)] == DType::i8 ? -middle_of_bytes : 0;
    if (p.known_zero && (*p.known_zero < least || *p.known_zero > least + 255))
      return no("the rows' zero point is no byte"), false;
    const RangeEnv ranges = kernel_ranges(*kernel_, program_);
    for (const auto* parts : {&p.row_zero, &p.row_scale})
      for (const Stmt* stmt : *parts)
        for (size_t d = 0; d < stmt->index.size(); ++d) {
          const Expr here = substitute(stmt->index[d], p.places);
          for (const Loop* sum : p.sums)
            if (mentions(here, sum->var)) return no("the rows' scale changes along the sum"), false;
          // Beyond the border there is a zero point, but no scale.
          if (p.rows->mask != no_value && !is_within(here, buffer(stmt->buffer).sizes[d], ranges))
            return no("padding of rows that have scales of their own"), false;
        }
    return true;
  }

  static bool is_within(const Expr& index, const Expr& size, const RangeEnv& ranges) {
    return range_of(index, ranges).low >= 0 && prove_lt(index, size, ranges) == Proof::yes;
  }

  // Of the second store on: constants that are the same. Of the first one: places of a store are numbers of the
  // product.
  bool same_numbers(Product& p, const Kernel& writer, const Quantised& stored, const Stmt& store) const {
    if (p.made_by) {
      const auto same = [&](ValueId one, ValueId other) {
        if (one == no_value || other == no_value) return one == other;
        const auto a = parts_of_number(*p.made_by, one), b = parts_of_number(writer, other);
        return a && b && a->size() == 1 && b->size() == 1 && a->front()->kind == StmtKind::constant &&
               b->front()->kind == StmtKind::constant && a->front()->constant == b->front()->constant;
      };
      return writer.value_types[static_cast<size_t>(stored.bytes)] ==
                 p.made_by->value_types[static_cast<size_t>(p.made.bytes)] &&
             same(p.made.zero, stored.zero) && same(p.made.scale, stored.scale);
    }
    p.made_by = &writer;
    p.made = stored;
    std::set<std::string> bound;
    for (size_t d = 0; d < store.index.size(); ++d) {
      std::set<std::string> symbols;
      collect_symbols(store.index[d], symbols);
      if (symbols.size() != 1 || store.index[d] != Expr::symbol(*symbols.begin())) continue;
      if (bound.insert(*symbols.begin()).second) p.places[*symbols.begin()] = p.rows->index[d];
    }
    // Every other variable of the writer would mean something else here.
    bool known = true;
    for (ValueId v : {stored.zero, stored.scale}) {
      if (v == no_value) continue;
      const auto parts = parts_of_number(writer, v);
      if (!parts) return false;
      const std::set<std::string> own = variables_of(writer);
      for (const Stmt* stmt : *parts)
        for (const Expr& e : stmt->index) {
          std::set<std::string> symbols;
          collect_symbols(e, symbols);
          for (const std::string& s : symbols) known &= !own.contains(s) || bound.contains(s);
        }
    }
    return known;
  }

  // ---- The product of bytes
  // ---------------------------------------------------------------------------------------------------------------

  void rewrite(Body& body, size_t at, Product& p) {
    const DType byte = p.made_by->value_types[static_cast<size_t>(p.made.bytes)];
    const int64_t shift = byte == DType::i8 ? middle_of_bytes : 0;
    const BufferId sums = column_sums(p);
    const std::vector<Expr> place = place_of_columns(p);
    // What is scaled by, in front of the sum: the statements it is made of may be the sum's own, or another kernel's.
    Body after;
    const auto number = [&](const Kernel& from, const std::vector<const Stmt*>& parts, ValueId v,
                            const Substitution& places) {
      Copier copier(from, *kernel_);
      copier.variables = places;
      for (const Stmt* stmt : parts) {
        Stmt copied = copier.copy(*stmt, after);
        after.push_back(std::move(copied));
      }
      return copier.value(v);
    };
    const auto scale = [&](const Kernel& from, const std::vector<const Stmt*>& parts, ValueId v,
                           const Substitution& places, bool guarded) {
      if (parts.empty()) return no_value;
      const ValueId made = number(from, parts, v, places);
      const bool finite = guarded || (parts.size() == 1 && parts[0]->kind == StmtKind::constant &&
                                      std::isfinite(parts[0]->constant.as_double()));
      return finite ? made : finite_or_nan(made, after);
    };
    const ValueId row_scale = scale(*p.made_by, p.row_scale, p.made.scale, p.places, false),
                  column_scale = scale(*kernel_, p.column_scale, p.weight.scale, same_places(),
                                       is_of_weights(p.column_scale));  // see guard_scales
    ValueId row_zero = no_value;
    if (!p.known_zero) {
      const ValueId zero = number(*p.made_by, p.row_zero, p.made.zero, p.places);
      row_zero = append(after, op_stmt(*kernel_, ScalarOp::cast, DType::i64, {zero}));
    }
    // The sum itself, of i32.
    const ValueId result = body[at].results[0];
    Loop& inner = *p.sums.back();
    const BufferId bytes =
        bytes_.of(p.rows->buffer, kernel_->origins);  // may grow the list of buffers: no reference to one is held
    p.rows->buffer = bytes;
    p.rows->dtype = DType::u8;
    const ValueId row_byte = p.rows->results[0] = new_value(*kernel_, DType::u8);
    const ValueId weight_byte = p.weight_load->results[0], mask = p.rows->mask;
    Body sum = std::move(inner.body);
    inner.body.clear();
    sum.pop_back();
    ValueId left = append(sum, op_stmt(*kernel_, ScalarOp::cast, DType::i32, {row_byte}));
    if (mask != no_value && *p.known_zero + shift != 0) {
      const ValueId zero = append(sum, constant_stmt(*kernel_, DType::i32, Scalar(*p.known_zero + shift)));
      left = append(sum, op_stmt(*kernel_, ScalarOp::select, DType::i32, {mask, left, zero}));
    }
    const ValueId right = append(sum, op_stmt(*kernel_, ScalarOp::cast, DType::i32, {weight_byte}));
    const ValueId made = append(sum, op_stmt(*kernel_, ScalarOp::mul, DType::i32, {left, right}));
    inner.body = std::move(sum);
    inner.yields = {made};
    for (Loop* loop : p.sums) loop->reduce_dtype = DType::i32;
    drop_unused(inner);
    for (size_t i = p.sums.size(); i-- > 1;) {
      const ValueId partial = new_value(*kernel_, DType::i32);
      p.sums[i - 1]->body.back().results = {partial};
      p.sums[i - 1]->yields = {partial};
    }
    const ValueId total = new_value(*kernel_, DType::i32);
    body[at].results = {total};
    // What belongs to the zero point, and the scales.
    ValueId whole = total;
    const ValueId shifted_zero = zero_of_bytes(after, row_zero, p, shift);
    if (shifted_zero != no_value) {
      // A zero point that is computed may be any number; one that is known is a byte's.
      const DType type = p.known_zero ? DType::i32 : DType::i64;
      const auto widened = [&](ValueId v) {
        return type == DType::i32 ? v : append(after, op_stmt(*kernel_, ScalarOp::cast, type, {v}));
      };
      const ValueId of_column = widened(append(after, load_stmt(*kernel_, DType::i32, sums, place)));
      const ValueId more = append(after, op_stmt(*kernel_, ScalarOp::mul, type, {shifted_zero, of_column}));
      whole = append(after, op_stmt(*kernel_, ScalarOp::sub, type, {widened(total), more}));
    }
    if (!p.scaled) {
      (whole == total ? body[at] : after.back()).results = {result};
    } else {
      // One after the other: the product of two small scales may be too small for a number.
      ValueId scaled = append(after, op_stmt(*kernel_, ScalarOp::cast, DType::f32, {whole}));
      for (const ValueId scale : {row_scale, column_scale})
        if (scale != no_value) scaled = append(after, op_stmt(*kernel_, ScalarOp::mul, DType::f32, {scaled, scale}));
      after.back().results = {result};
    }
    body.insert(body.begin() + static_cast<std::ptrdiff_t>(at + 1), std::make_move_iterator(after.begin()),
                std::make_move_iterator(after.end()));
    drop_lost_names();
  }

  // Terms that an infinite scale makes are infinite, of both signs, and NaN where a number is the zero point: their sum
  // is NaN.
  ValueId finite_or_nan(ValueId scale, Body& after) {
    const ValueId nothing = append(after, op_stmt(*kernel_, ScalarOp::sub, DType::f32, {scale, scale}));
    return append(after, op_stmt(*kernel_, ScalarOp::add, DType::f32, {scale, nothing}));
  }

  ValueId zero_of_bytes(Body& after, ValueId row_zero, const Product& p, int64_t shift) {
    if (p.known_zero) {
      if (*p.known_zero + shift == 0) return no_value;
      return append(after, constant_stmt(*kernel_, DType::i32, Scalar(*p.known_zero + shift)));
    }
    if (shift == 0) return row_zero;
    const ValueId more = append(after, constant_stmt(*kernel_, DType::i64, Scalar(shift)));
    return append(after, op_stmt(*kernel_, ScalarOp::add, DType::i64, {row_zero, more}));
  }

  Substitution same_places() const {
    Substitution out;
    for (const Loop* loop : enclosing_) out[loop->var] = Expr::symbol(loop->var);
    return out;
  }

  // Of the sum's statements those that its yield needs.
  static void drop_unused(Loop& sum) {
    std::set<ValueId> wanted(sum.yields.begin(), sum.yields.end());
    if (sum.only != no_value) wanted.insert(sum.only);
    for (size_t i = sum.body.size(); i-- > 0;) {
      Stmt& stmt = sum.body[i];
      const bool needed =
          std::any_of(stmt.results.begin(), stmt.results.end(), [&](ValueId v) { return wanted.contains(v); }) ||
          stmt.kind == StmtKind::check_index || stmt.kind == StmtKind::raise_if;
      if (!needed) {
        sum.body.erase(sum.body.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      wanted.insert(stmt.args.begin(), stmt.args.end());
      wanted.insert(stmt.mask);
    }
  }

  void drop_lost_names() {
    std::set<ValueId> there;
    for_each_stmt(kernel_->body, [&](const Stmt& stmt) { there.insert(stmt.results.begin(), stmt.results.end()); });
    std::erase_if(kernel_->named, [&](const NamedValue& named) {
      return !there.contains(named.value) || (named.mask != no_value && !there.contains(named.mask));
    });
  }

  // The variables of the weight's columns, which number its sums.
  std::vector<Expr> place_of_columns(const Product& p) const {
    std::vector<Expr> out;
    for (const Loop* loop : enclosing_)
      if (uses(*p.weight_load, loop->var)) out.push_back(Expr::symbol(loop->var));
    return out;
  }

  // For each column the sum of its weights: a derived constant, which an update makes anew. Its kernel also sees to it
  // that zero points and scales stay what the product is made for.
  BufferId column_sums(const Product& p) {
    Buffer made;
    made.name = buffer(p.weight_load->buffer).name + "_sums";
    made.dtype = DType::i32;
    made.role = BufferRole::derived;
    Kernel kernel;
    kernel.name = "sum_" + buffer(p.weight_load->buffer).name;
    kernel.op_names = {"sum"};
    kernel.origins = kernel_->origins;
    Substitution places;
    std::vector<Expr> sizes;
    for (const Loop* loop : enclosing_)
      if (uses(*p.weight_load, loop->var)) {
        places[loop->var] = Expr::symbol(str("i", sizes.size()));
        sizes.push_back(loop->extent);
      }
    made.sizes = sizes;
    made.strides.assign(sizes.size(), Expr(1));
    for (size_t d = sizes.size(); d-- > 1;) made.strides[d - 1] = made.strides[d] * sizes[d];
    for (size_t i = 0; i < p.sums.size(); ++i) places[p.sums[i]->var] = Expr::symbol(str("r", i));
    Body body;
    guard_zero_points(kernel, p, places, body);
    guard_scales(kernel, p, places, body);
    Body term;
    std::vector<Expr> index;
    for (const Expr& e : p.weight_load->index) index.push_back(substitute(e, places));
    const ValueId byte = append(term, load_stmt(kernel, DType::i8, p.weight_load->buffer, std::move(index)));
    ValueId value = append(term, op_stmt(kernel, ScalarOp::cast, DType::i32, {byte}));
    for (size_t i = p.sums.size(); i-- > 0;) {
      Stmt sum = reduction_stmt(str("r", i), p.sums[i]->extent, AxisRole::reduce, ReduceOp::sum, DType::i32);
      sum.loop->body = std::move(term);
      sum.loop->yields = {value};
      value = new_value(kernel, DType::i32);
      sum.results = {value};
      term.clear();
      term.push_back(std::move(sum));
    }
    body.insert(body.end(), std::make_move_iterator(term.begin()), std::make_move_iterator(term.end()));
    const BufferId to = program_.add_buffer(std::move(made));
    body.push_back(store_stmt(DType::i32, to, nest_index(sizes.size()), value));
    kernel.body = nest_of(sizes, std::move(body));
    program_.init.push_back(Item{std::move(kernel)});
    return to;
  }

  void guard_zero_points(Kernel& kernel, const Product& p, const Substitution& places, Body& body) {
    if (p.column_zero.empty() || constant_number(p.column_zero)) return;
    const ValueId zero = copy_number(kernel, p.column_zero, p.weight.zero, places, body);
    const DType type = kernel.value_types[static_cast<size_t>(zero)];
    const ValueId none = append(body, constant_stmt(kernel, type, Scalar(int64_t{0})));
    refuse_if(append(body, op_stmt(kernel, ScalarOp::ne, DType::boolean, {zero, none})), p.column_zero,
              "the zero points ",
              " of a weight were 0 when the program was compiled, and its products of bytes need that", body);
  }

  void guard_scales(Kernel& kernel, const Product& p, const Substitution& places, Body& body) {
    if (!is_of_weights(p.column_scale)) return;
    const ValueId scale = copy_number(kernel, p.column_scale, p.weight.scale, places, body);
    const ValueId nothing = append(body, op_stmt(kernel, ScalarOp::sub, DType::f32, {scale, scale}));
    refuse_if(append(body, op_stmt(kernel, ScalarOp::is_nan, DType::boolean, {nothing})), p.column_scale, "the scales ",
              " of a weight are not all finite, and its products of bytes need that", body);
  }

  ValueId copy_number(Kernel& to, const std::vector<const Stmt*>& parts, ValueId v, const Substitution& places,
                      Body& body) const {
    Copier copier(*kernel_, to);
    copier.variables = places;
    for (const Stmt* stmt : parts) {
      Stmt copied = copier.copy(*stmt, body);
      body.push_back(std::move(copied));
    }
    return copier.value(v);
  }

  // When weights are loaded, by the name of the constant that the parts load.
  void refuse_if(ValueId other, const std::vector<const Stmt*>& parts, const char* what, const char* why, Body& body) {
    const Stmt* load =
        *std::find_if(parts.begin(), parts.end(), [](const Stmt* stmt) { return stmt->kind == StmtKind::load; });
    Site site;
    site.message =
        str(what, buffer(load->buffer).constant, why, "; compile with disable_pass=multiply_bytes to have others");
    if (!kernel_->origins.empty()) site.origin = kernel_->origins.front();
    program_.sites.push_back(std::move(site));
    body.push_back(raise_stmt(other, static_cast<int>(program_.sites.size()) - 1));
  }

  LoopProgram& program_;
  Log& log_;
  const KnownZeros& zeros_;
  Kernel* kernel_ = nullptr;  // whose products are looked at
  std::vector<Loop*> enclosing_;
  RowBytes bytes_;
  bool changed_ = false;
};

}  // namespace

bool multiply_bytes(LoopProgram& program, const Target& target, Log& log, const KnownZeros& zeros) {
  return target.byte_quads && ByteMultiplier(program, log, zeros).run();
}

}  // namespace kiln::loops
