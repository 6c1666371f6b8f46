#include "codegen/c_family/kernel_printer.h"

#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::codegen {
using namespace loops;

namespace {
constexpr int fused_lanes = 16;  // processors with vectors of so many elements fuse products and sums
}  // namespace

std::string vector_type(DType dtype) { return SimdDialect::type(dtype); }

KernelPrinter::KernelPrinter(const Kernel& kernel, const LoopProgram& program, const Dialect& dialect, bool any_size)
    : kernel_(kernel),
      program_(program),
      dialect_(dialect),
      value_types_(kernel.value_types),
      env_(kernel_ranges(kernel, program)),
      lane_count_(1) {
  KILN_CHECK(kernel.schedule, str(kernel.name, " has no schedule"));
  lane_count_ = kernel.schedule->lanes;
  in_init_ = std::any_of(program.init.begin(), program.init.end(),
                         [&](const Item& item) { return std::get_if<Kernel>(&item.what) == &kernel; });
  sizes_given_ = (in_init_ || any_size) && dialect.has_vectors();
}

void KernelPrinter::line(const std::string& text) {
  out_ += std::string(static_cast<size_t>(depth_) * 2, ' ') + text + "\n";
}
void KernelPrinter::open(const std::string& text) {
  line(text + " {");
  ++depth_;
}
void KernelPrinter::close() {
  --depth_;
  line("}");
}

std::string KernelPrinter::name(ValueId v) {
  auto [found, inserted] = value_numbers_.emplace(v, static_cast<int>(value_numbers_.size()));
  return str("v", found->second);
}

void KernelPrinter::define(ValueId v, const std::string& text, bool is_varying) {
  if (is_varying)
    varying_.insert(v);
  else
    varying_.erase(v);
  line(str("const ", is_varying ? vector_type(type(v)) : c_type(type(v)), " ", name(v), " = ", text, ";"));
}

std::string KernelPrinter::vector(ValueId v) {
  if (varying(v)) return name(v);
  return SimdDialect::splat(type(v), name(v));
}

std::string KernelPrinter::buffer_name(BufferId b, Access access) {
  StepCode& step = result_.step;
  const bool scratch = program_.buffers[static_cast<size_t>(b)].role == BufferRole::scratch;
  std::vector<BufferId>& known = scratch ? step.scratch : step.buffers;
  const size_t at = static_cast<size_t>(std::find(known.begin(), known.end(), b) - known.begin());
  if (at == known.size()) known.push_back(b);
  if (scratch) return str("scratch", at);
  if (at == step.access.size()) step.access.push_back(access);
  step.access[at] = step.access[at] | access;
  return str("b", at);
}

int KernelPrinter::local_site(int site) {
  auto [found, inserted] = site_numbers_.emplace(site, static_cast<int>(result_.step.sites.size()));
  if (inserted) result_.step.sites.push_back(program_.sites.at(static_cast<size_t>(site)));
  return found->second;
}

PrintedKernel KernelPrinter::print() {
  print_items();
  std::string head = dialect_.head();
  for (size_t i = 0; i < result_.step.buffers.size(); ++i)
    head += dialect_.buffer(program_.buffers[static_cast<size_t>(result_.step.buffers[i])].dtype,
                            result_.step.access[i] == Access::read, i);
  const std::string scratch = declare_scratch();
  for (size_t i = 0; i < result_.step.ints.size(); ++i) head += dialect_.integer(i);
  if (!wide_buffers_.empty())
    head += dialect_.wide(std::vector<std::string>(wide_buffers_.begin(), wide_buffers_.end()));
  if (notes_kept_) head += "  i64 nothing_kept = -1, *const kept_for = ctx->kept ? ctx->kept : &nothing_kept;\n";
  result_.text = head + scratch + dialect_.begin() + out_ + dialect_.end();
  return std::move(result_);
}

// Where each scratch buffer of the kernel begins in the memory of the thread, which the runtime aligns to 64 bytes, and
// how long it is, which is for checked_access.cpp.
std::string KernelPrinter::declare_scratch() {
  std::string text;
  for (size_t i = 0; i < result_.step.scratch.size(); ++i) {
    const Buffer& buffer = program_.buffers[static_cast<size_t>(result_.step.scratch[i])];
    const Expr bytes = buffer_bytes(buffer);
    text += dialect_.scratch(buffer.dtype, i, parameter_or_constant(result_.step.scratch_bytes));
    text += str("  const i64 scratch", i, "_bytes = ", parameter_or_constant(bytes), "; (void)scratch", i, "_bytes;\n");
    result_.step.scratch_bytes = result_.step.scratch_bytes + floordiv(bytes + 63, 64) * 64;
  }
  return text;
}

// Buffers through which the threads of an item see each other's values: those that it both reads and writes, and those
// that it writes in several places, the later over the earlier.
void KernelPrinter::find_exchanged() {
  std::set<BufferId> read, written;
  for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::load || (stmt.kind == StmtKind::store && stmt.mode != StoreMode::plain))
      read.insert(stmt.buffer);
    if (stmt.kind == StmtKind::store && !written.insert(stmt.buffer).second) read.insert(stmt.buffer);
  });
  for (BufferId b : written) {
    const bool in_registers =
        kernel_.schedule->grid.hold > 0 && program_.buffers[static_cast<size_t>(b)].role == BufferRole::scratch;
    if (read.contains(b) && !in_registers) exchanged_.insert(b);
  }
}

void KernelPrinter::print_items() {
  if (kernel_.schedule->tile.rows > 0) return dialect_.print_tile(*this);
  if (kernel_.schedule->grid.tile_rows > 0) return dialect_.print_block_tile(*this);
  if (!dialect_.leader().empty()) find_exchanged();
  const auto [items, body] = item_loops(kernel_);
  // Neighbours of the innermost loop that an item takes together.
  const int vector = items.empty() ? 1 : std::max<int>(1, static_cast<int>(items.back()->directives.factor));
  auto named = [&](size_t i) { return vector > 1 && i + 1 == items.size() ? items[i]->var + "_first" : items[i]->var; };
  const std::string times = vector > 1 ? str(" * ", vector) : "";
  open(dialect_.items());
  if (items.size() == 1) {
    line(str("const i64 ", named(0), " = item", times, ";"));
  } else if (items.size() > 1) {
    line("i64 rest = item;");
    for (size_t i = items.size(); i-- > 0;) {
      const bool last = i + 1 == items.size();
      std::string extent = item_extent(last && vector > 1 ? ceildiv(items[i]->extent, vector) : items[i]->extent);
      if (i == 0)
        line(str("const i64 ", named(i), " = rest;"));
      else
        line(str("const i64 ", named(i), " = ", dialect_.remainder("rest", extent), last ? times : "", "; ",
                 dialect_.divide("rest", extent), ";"));
    }
  }
  const size_t declared = out_.size();
  if (vector > 1)
    print_neighbours(*items.back(), named(items.size() - 1), vector, [&, inner = body] { print_body(*inner); });
  else
    print_body(*body);
  std::string rows;
  for (size_t i = 0; i < held_.size(); ++i)
    rows += str("    ", c_type(program_.buffers[static_cast<size_t>(held_[i])].dtype), " held", i, "[",
                kernel_.schedule->grid.hold * kernel_.schedule->grid.vector, "];\n");
  out_.insert(declared, rows);
  close();
}

void KernelPrinter::print_body(const Body& body) {
  find_turned(body);
  for (size_t i = 0; i < body.size(); ++i) {
    if (i + 1 < body.size() && print_interleaved(body[i], body[i + 1]))
      ++i;
    else if (!print_turned(body[i]))
      print_stmt(body[i]);
  }
}

// Two stores of bf16 that fill every other element of a scratch, each the places that the other leaves out.
bool KernelPrinter::print_interleaved(const Stmt& first, const Stmt& second) {
  const auto fits = [&](const Stmt& stmt) {
    return stmt.kind == StmtKind::store && stmt.mode == StoreMode::plain && stmt.mask == no_value &&
           program_.buffers[static_cast<size_t>(stmt.buffer)].dtype == DType::bf16 &&
           program_.buffers[static_cast<size_t>(stmt.buffer)].role == BufferRole::scratch &&
           type(stmt.args[0]) == DType::f32;
  };
  if (!lanes_ || !lanes_->left.empty() || !dialect_.has_vectors() || lane_count_ != 16 || !fits(first) ||
      !fits(second) || first.buffer != second.buffer)
    return false;
  const Expr where = address(first);
  const auto affine = lane_affine(where);
  if (!affine || !affine->coefficient.is_constant(2) || !simplify(address(second) - where, env_).is_constant(1))
    return false;
  line(str("k_interleave_bf16(", buffer_name(first.buffer, Access::write), " + ", expr(where), ", ",
           vector(first.args[0]), ", ", vector(second.args[0]), ");"));
  return true;
}

void KernelPrinter::print_stmt(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::op:
      return print_op(stmt);
    case StmtKind::constant:
      return print_constant(stmt);
    case StmtKind::index_value:
      return print_index_value(stmt);
    case StmtKind::load:
      return print_load(stmt);
    case StmtKind::store:
      return print_store(stmt);
    case StmtKind::check_index:
      return print_check_index(stmt);
    case StmtKind::raise_if:
      return print_raise(stmt);
    case StmtKind::loop:
      return print_loop(stmt);
    case StmtKind::random:
      return define(stmt.results[0], dialect_.random(stmt.dtype, expr(stmt.expr)), false);
  }
}

void KernelPrinter::print_constant(const Stmt& stmt) {
  define(stmt.results[0], literal(stmt.dtype, stmt.constant), false);
}

// x / 6 of vectors: dividing takes as long as a dozen multiplications. The product with the rounded reciprocal, taken
// back by what it leaves over, is the same number for every x and each of these divisors (tried one by one; quotients
// so small that they lose digits aside). Infinity leaves NaN over, and a zero of either sign zero: both are right
// without that.
bool KernelPrinter::print_quotient(const Stmt& stmt) {
  constexpr double largest = 1024;
  if (stmt.op != ScalarOp::div || stmt.dtype != DType::f32 || !dialect_.has_vectors() || !lanes_ ||
      lane_count_ < fused_lanes || !varying(stmt.args[0]) || varying(stmt.args[1]))
    return false;
  find_definitions();
  const auto made = definitions_.find(stmt.args[1]);
  if (made == definitions_.end() || made->second->kind != StmtKind::constant) return false;
  const double divisor = made->second->constant.as_double();
  if (divisor < 3 || divisor > largest || divisor != std::floor(divisor)) return false;
  const std::string x = name(stmt.args[0]), by = vector(stmt.args[1]), result = name(stmt.results[0]),
                    inverse =
                        str("k_splat_f32(",
                            literal(DType::f32, Scalar(static_cast<double>(1.0F / static_cast<float>(divisor)))), ")");
  line(str("const ", vector_type(DType::f32), " ", result, "_near = k_mul(", x, ", ", inverse, ");"));
  line(str("const ", vector_type(DType::f32), " ", result,
           "_over = ", dialect_.fused(str("k_neg(", result, "_near)"), by, x), ";"));
  define(stmt.results[0],
         str("k_select(k_gt(k_abs(", result, "_over), k_splat_f32(0x0p+0f)), ",
             dialect_.fused(result + "_over", inverse, result + "_near"), ", ", result, "_near)"),
         true);
  return true;
}

void KernelPrinter::print_op(const Stmt& stmt) {
  bool vary = false;
  for (ValueId v : stmt.args) vary |= varying(v);
  if (vary && print_quotient(stmt)) return;
  auto operand = [&](size_t i) { return vary ? vector(stmt.args[i]) : name(stmt.args[i]); };
  std::vector<std::string> operands;
  for (size_t i = 0; i < stmt.args.size(); ++i) operands.push_back(operand(i));
  const std::string text = stmt.op == ScalarOp::cast ? dialect_.cast(stmt.dtype, operands[0])
                           : stmt.op == ScalarOp::bitcast
                               ? dialect_.bitcast(type(stmt.args[0]), stmt.dtype, operands[0])
                               : dialect_.op(stmt.op, type(stmt.args[0]), operands);
  define(stmt.results[0], text, vary);
}

void KernelPrinter::print_index_value(const Stmt& stmt) {
  bool vary = varies(stmt.expr);
  if (stmt.expr.is_float()) {
    // A float over sizes (1 / sqrt(s0)): the host computes it and passes its bits.
    if (local(stmt.expr))
      fail_unsupported("K0402", str("the expression ", stmt.expr.text(), " cannot be computed inside a kernel"));
    std::string real = str("__builtin_bit_cast(f64, ", parameter(stmt.expr), ")");
    return define(stmt.results[0],
                  type(stmt.results[0]) == DType::f64 ? real : dialect_.cast(type(stmt.results[0]), real), false);
  }
  std::string text = vary ? vector_expr(stmt.expr) : expr(stmt.expr);
  if (type(stmt.results[0]) != DType::i64)
    text = dialect_.cast(type(stmt.results[0]), vary ? text : str("(i64)(", text, ")"));
  define(stmt.results[0], text, vary);
}

std::string KernelPrinter::mask_and_left(ValueId mask) {
  std::string text;
  if (mask != no_value) text = varying(mask) ? name(mask) : SimdDialect::splat(DType::boolean, name(mask));
  if (lanes_->left.empty()) return text;
  std::string left = SimdDialect::first(lanes_->left);
  return text.empty() ? left : str("(", text, " & ", left, ")");
}

// Which lanes an access to neighbours, or to elements equally far apart, takes.
SimdDialect::Lanes KernelPrinter::lanes_of(const Affine& affine, ValueId mask) {
  SimdDialect::Lanes lanes;
  if (!affine.coefficient.is_constant(1)) lanes.stride = expr(affine.coefficient);
  if (mask != no_value)
    lanes.mask = mask_and_left(mask);
  else
    lanes.count = lanes_->left;
  return lanes;
}

void KernelPrinter::print_load(const Stmt& stmt) {
  DType dtype = program_.buffers[static_cast<size_t>(stmt.buffer)].dtype;
  if (const std::string own = held(stmt); !own.empty()) return define(stmt.results[0], own, false);
  const std::string b = buffer_name(stmt.buffer, Access::read);
  if (const auto word = words_.find(&stmt); word != words_.end())
    return define(stmt.results[0], dialect_.get(dtype, word->second), false);
  Expr where = address(stmt);
  bool mask_varies = stmt.mask != no_value && varying(stmt.mask);
  if (!lanes_ || (!varies(where) && !mask_varies)) {
    std::string get = dialect_.get(dtype, str(b, " + ", expr(where)));
    if (stmt.mask != no_value) get = str(name(stmt.mask), " ? ", get, " : (", c_type(dtype), ")0");
    return define(stmt.results[0], get, false);
  }
  const auto affine = lane_affine(where);
  std::string text;
  if (affine) {
    std::string p = str(b, " + ", expr(where));  // the variable's own value is that of the first lane
    text = SimdDialect::load(dtype, p, lanes_of(*affine, stmt.mask));
  } else if (text = shuffled_load(dtype, where, b, stmt.mask); text.empty()) {
    text = SimdDialect::gather(dtype, b, vector_expr(where), mask_and_left(stmt.mask));
  }
  define(stmt.results[0], text, true);
}

// What some loads and shuffles give, where neither neighbours nor elements equally far apart are read; the empty text:
// they do not.
std::string KernelPrinter::shuffled_load(DType dtype, const Expr& where, const std::string& buffer, ValueId mask) {
  if (!lanes_->aligned || compute_dtype(dtype) != DType::f32 || (mask != no_value && varying(mask))) return "";
  const std::string pointer = str(buffer, " + ", expr(where));
  if (const auto grouped = grouped_lanes(where, lanes_->var, lane_count_, env_))
    return grouped_load(dtype, *grouped, pointer, mask);
  if (const auto turns = lanes_by_turns(where, lanes_->var, lane_count_, env_))
    return load_by_turns(dtype, *turns, pointer, mask);
  return "";
}

// A part of a vector from each line, of which the lanes are put together by turns: the first and the middle one of the
// lines, the second and the one behind the middle, and so again until there is one vector.
std::string KernelPrinter::load_by_turns(DType dtype, const LanesByTurns& by, const std::string& pointer,
                                         ValueId mask) {
  std::vector<std::string> parts;
  for (int64_t turn = 0; turn < by.turns; ++turn) {
    std::string count = lanes_->left.empty() ? str(lane_count_ / by.turns)
                                             : str("(", lanes_->left, " + ", by.turns - 1 - turn, ") / ", by.turns);
    if (mask != no_value) count = str(name(mask), " ? ", count, " : 0");
    parts.push_back(str("g", grouped_count_++));
    const std::string place = turn == 0 ? pointer : str(pointer, " + ", expr(by.distance * turn));
    line(str("const ", vector_type(DType::f32), " ", parts.back(), " = ",
             SimdDialect::load(dtype, place, {"", str("(int)(", count, ")"), ""}), ";"));
  }
  std::string order;
  for (int64_t lane = 0; lane < lane_count_; ++lane) order += str(", ", lane / 2 + (lane % 2) * lane_count_);
  while (parts.size() > 2) {
    const size_t half = parts.size() / 2;
    std::vector<std::string> joined;
    for (size_t i = 0; i < half; ++i) {
      joined.push_back(str("g", grouped_count_++));
      line(str("const ", vector_type(DType::f32), " ", joined.back(), " = __builtin_shufflevector(", parts[i], ", ",
               parts[i + half], order, ");"));
    }
    parts = std::move(joined);
  }
  return str("__builtin_shufflevector(", parts[0], ", ", parts[1], order, ")");
}

// What the lanes read lies within one vector: it is loaded once, no further than it goes, and dealt out.
std::string KernelPrinter::grouped_load(DType dtype, const GroupedLanes& grouped, const std::string& pointer,
                                        ValueId mask) {
  const int64_t reach = grouped.reach(lane_count_);
  std::string count = lanes_->left.empty()
                          ? str(reach)
                          : str("(", lanes_->left, " - 1) / ", grouped.each, " * ", grouped.distance, " + 1");
  if (mask != no_value) count = str(name(mask), " ? ", count, " : 0");
  const bool whole = reach == lane_count_ && lanes_->left.empty() && mask == no_value;
  const std::string part = str("g", grouped_count_++);
  line(str("const ", vector_type(DType::f32), " ", part, " = ",
           SimdDialect::load(dtype, pointer, {"", whole ? "" : str("(int)(", count, ")"), ""}), ";"));
  std::string order;
  for (int64_t lane = 0; lane < lane_count_; ++lane) order += str(", ", lane / grouped.each * grouped.distance);
  return str("__builtin_shufflevector(", part, ", ", part, order, ")");
}

namespace {
ScalarOp combining(StoreMode mode) {
  switch (mode) {
    case StoreMode::min:
      return ScalarOp::min;
    case StoreMode::max:
      return ScalarOp::max;
    case StoreMode::prod:
      return ScalarOp::mul;
    default:
      return ScalarOp::add;
  }
}
}  // namespace

void KernelPrinter::print_store(const Stmt& stmt) {
  DType dtype = program_.buffers[static_cast<size_t>(stmt.buffer)].dtype;
  bool combines = stmt.mode != StoreMode::plain;
  ValueId v = stmt.args[0];
  if (const std::string own = held(stmt); !own.empty()) return line(str(own, " = ", name(v), ";"));
  const std::string b = buffer_name(stmt.buffer, combines ? Access::update : Access::write);
  if (const auto word = words_.find(&stmt); word != words_.end())
    return line(dialect_.set(dtype, word->second, name(v)));
  Expr where = address(stmt);
  if (!lanes_) {
    std::string p = str(b, " + ", expr(where));
    const std::string once = shared_ ? "" : dialect_.leader();
    std::string guard = stmt.mask == no_value ? "" : str("if (", name(stmt.mask), ") ");
    if (!once.empty()) guard = str("if (", once, ") ", guard);
    const bool meets = !once.empty() && exchanged_.contains(stmt.buffer);
    if (meets) line(dialect_.barrier());
    if (stmt.mode == StoreMode::atomic_add)
      line(guard + dialect_.atomic_add(dtype, p, name(v)));
    else if (combines && dtype == DType::boolean)
      line(guard +
           dialect_.set(dtype, p,
                        str(dialect_.get(dtype, p),
                            stmt.mode == StoreMode::add || stmt.mode == StoreMode::max ? " || " : " && ", name(v))));
    else if (combines)
      line(guard + dialect_.set(dtype, p, dialect_.op(combining(stmt.mode), dtype, {dialect_.get(dtype, p), name(v)})));
    else
      line(guard + dialect_.set(dtype, p, name(v)));
    if (meets) line(dialect_.barrier());
    return;
  }
  const auto affine = lane_affine(where);
  KILN_CHECK(!combines || (affine && affine->coefficient.is_constant(1) && stmt.mode != StoreMode::atomic_add),
             "an accumulating store was bound to lanes that may meet");
  if (affine) {
    KILN_CHECK(!affine->coefficient.is_constant(0), str("all lanes of ", kernel_.name, " store to one element"));
    const std::string p = str(b, " + ", expr(where));
    if (combines) {
      const SimdDialect::Lanes lanes = lanes_of(*affine, stmt.mask);
      const std::string old = SimdDialect::load(dtype, p, lanes);
      return line(SimdDialect::store(dtype, p, dialect_.op(combining(stmt.mode), dtype, {old, vector(v)}), lanes));
    }
    return line(SimdDialect::store(dtype, p, vector(v), lanes_of(*affine, stmt.mask)));
  }
  const std::string index = vector_expr(where), value = vector(v);
  line(SimdDialect::scatter(dtype, b, index, value, mask_and_left(stmt.mask)));
}

void KernelPrinter::find_definitions() {
  if (definitions_.empty())
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
      for (ValueId result : stmt.results) definitions_[result] = &stmt;
    });
}

// The load that a value comes from, conversions aside; nullptr: it is computed.
const Stmt* KernelPrinter::load_of(ValueId v) {
  find_definitions();
  auto found = definitions_.find(v);
  while (found != definitions_.end() && found->second->kind == StmtKind::op && found->second->op == ScalarOp::cast)
    found = definitions_.find(found->second->args[0]);
  return found != definitions_.end() && found->second->kind == StmtKind::load ? found->second : nullptr;
}

// Which element of its tensor the value is, counted in row-major order, as C++; -1 where that is not known. `lane`: the
// lane that is meant, where lanes differ.
std::string KernelPrinter::element_text(ValueId v, const std::string& lane) {
  const Stmt* load = load_of(v);
  if (!load) return "-1";
  const std::vector<Expr>& sizes = program_.buffers[static_cast<size_t>(load->buffer)].sizes;
  Expr element(0);
  for (size_t d = 0; d < sizes.size(); ++d) element = element * sizes[d] + load->index[d];
  if (!lanes_ || !varies(element)) return expr(element);
  const auto affine = affine_in(element, lanes_->var);
  if (!affine || varies(affine->coefficient) || varies(affine->rest)) return "-1";
  return str("(", expr(element), ") + (", expr(affine->coefficient), ") * ", lane);
}

// `v`: the value that is wrong, no_value where none is to be told. `mask`: the lanes that are wrong; empty: a scalar.
void KernelPrinter::raise(const std::string& condition, int site, ValueId v, const std::string& mask) {
  const std::string lane = mask.empty() ? "" : str("k_first_true(", mask, ")");
  std::string told = "-2, 0";
  if (v != no_value && is_integral(type(v)))
    told = str(element_text(v, lane), ", ",
               mask.empty() ? str("(i64)", name(v))
               : varying(v) ? str("k_lane(k_cast_i64(", vector(v), "), ", lane, ")")
                            : str("(i64)", name(v)));
  line(str("if (", condition, ") ", dialect_.raise(site, told)));
}

void KernelPrinter::print_check_index(const Stmt& stmt) {
  ValueId v = stmt.args[0];
  std::string extent = expr(stmt.expr);
  int site = local_site(stmt.site);
  bool vary = varying(v) || (stmt.mask != no_value && varying(stmt.mask));
  const std::string& var = stmt.index_var;
  if (!vary) {
    line(str("i64 ", var, " = (i64)", name(v), ";"));
    if (stmt.mask != no_value) line(str("if (!", name(stmt.mask), ") ", var, " = 0; else"));
    raise(str("(u64)(", var, " += ", var, " < 0 ? ", extent, " : 0) >= (u64)(", extent, ")"), site, v, "");
    define(stmt.results[0], var, false);
    return;
  }
  varying_index_.insert(var);
  std::string given = str(var, "_given"), in_use = mask_and_left(stmt.mask);
  line(str("const vi64 ", given, " = k_cast_i64(", vector(v), ");"));
  line(str("const vi64 ", var, "_wrapped = k_select(k_lt(", given, ", k_splat_i64(0)), ", given, " + k_splat_i64(",
           extent, "), ", given, ");"));
  line(str("const vmask ", var, "_bad = (k_lt(", var, "_wrapped, k_splat_i64(0)) | k_ge(", var,
           "_wrapped, k_splat_i64(", extent, ")))", in_use.empty() ? "" : " & " + in_use, ";"));
  raise(str("k_hany(", var, "_bad)"), site, v, str(var, "_bad"));
  line(str("const vi64 ", var, " = ",
           in_use.empty() ? str(var, "_wrapped") : str("k_select(", in_use, ", ", var, "_wrapped, k_splat_i64(0))"),
           ";"));
  define(stmt.results[0], var, true);
}

void KernelPrinter::print_raise(const Stmt& stmt) {
  int site = local_site(stmt.site);
  ValueId v = stmt.args[0];
  // What is compared, where the condition is a comparison of something that was loaded.
  load_of(v);
  ValueId compared = no_value;
  if (const auto found = definitions_.find(v); found != definitions_.end() && found->second->kind == StmtKind::op &&
                                               !found->second->args.empty() && load_of(found->second->args[0]))
    compared = found->second->args[0];
  if (!varying(v) && !(stmt.mask != no_value && varying(stmt.mask))) {
    raise(stmt.mask == no_value ? name(v) : str(name(v), " && ", name(stmt.mask)), site, compared, "");
    return;
  }
  std::string in_use = mask_and_left(stmt.mask);
  const std::string bad = in_use.empty() ? vector(v) : str("(", vector(v), " & ", in_use, ")");
  raise(str("k_hany(", bad, ")"), site, compared, bad);
}

}  // namespace kiln::codegen
