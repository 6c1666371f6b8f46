#include "codegen/cpu/kernel_printer.h"

#include "codegen/cpu/tile_printer.h"
#include "loop_passes/rewrite.h"
#include "schedule/schedule.h"

namespace kiln::codegen {
using namespace loops;

const char* storage_suffix(DType dtype) { return dtype_name(dtype); }
const char* storage_type(DType dtype) { return dtype == DType::boolean ? "bool8" : dtype_name(dtype); }
const char* c_type(DType dtype) {
  if (is_float(dtype)) return dtype_name(compute_dtype(dtype));
  return dtype_name(dtype);
}
std::string vector_type(DType dtype) { return dtype == DType::boolean ? "vmask" : str("v", c_type(dtype)); }

KernelPrinter::KernelPrinter(const Kernel& kernel, const LoopProgram& program)
    : kernel_(kernel),
      program_(program),
      value_types_(kernel.value_types),
      env_(kernel_ranges(kernel, program)),
      lane_count_(1) {
  KILN_CHECK(kernel.schedule, str(kernel.name, " has no schedule"));
  lane_count_ = kernel.schedule->lanes;
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
  return str("k_splat_", c_type(type(v)), "(", name(v), ")");
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
  std::string head =
      "extern \"C\" __attribute__((visibility(\"default\"))) int $NAME(const kiln_kernel_context* ctx, void* const* "
      "buffers, const i64* ints, i64 item_begin, i64 item_end) {\n";
  for (size_t i = 0; i < result_.step.buffers.size(); ++i) {
    const char* t = storage_type(program_.buffers[static_cast<size_t>(result_.step.buffers[i])].dtype);
    const char* constant = result_.step.access[i] == Access::read ? "const " : "";
    // Buffers of one kernel never overlap unless they are the same pointer for the same elements, so no restrict is
    // claimed for written ones.
    head += str("  ", constant, t, "* const b", i, " = (", constant, t, "*)buffers[", i, "];\n");
  }
  const std::string scratch = declare_scratch();
  for (size_t i = 0; i < result_.step.ints.size(); ++i) head += str("  const i64 n", i, " = ints[", i, "];\n");
  result_.text = head + scratch + "  (void)ctx; (void)buffers; (void)ints;\n" + out_ + "  return 0;\n}\n";
  return std::move(result_);
}

// Where each scratch buffer of the kernel begins in the memory of the thread, which the runtime aligns to 64 bytes, and
// how long it is, which is for checked_access.cpp.
std::string KernelPrinter::declare_scratch() {
  std::string text;
  for (size_t i = 0; i < result_.step.scratch.size(); ++i) {
    const Buffer& buffer = program_.buffers[static_cast<size_t>(result_.step.scratch[i])];
    const char* t = storage_type(buffer.dtype);
    const Expr bytes = buffer_bytes(buffer);
    text += str("  ", t, "* const scratch", i, " = (", t, "*)((char*)ctx->scratch + ",
                parameter_or_constant(result_.step.scratch_bytes), ");\n", "  const i64 scratch", i,
                "_bytes = ", parameter_or_constant(bytes), "; (void)scratch", i, "_bytes;\n");
    result_.step.scratch_bytes = result_.step.scratch_bytes + floordiv(bytes + 63, 64) * 64;
  }
  return text;
}

void KernelPrinter::print_items() {
  if (kernel_.schedule->tile.rows > 0) return TilePrinter(*this).print();
  const auto [items, body] = item_loops(kernel_);
  open("for (i64 item = item_begin; item < item_end; ++item)");
  if (items.size() == 1) {
    line(str("const i64 ", items[0]->var, " = item;"));
  } else if (items.size() > 1) {
    line("i64 rest = item;");
    for (size_t i = items.size(); i-- > 0;) {
      std::string extent = expr(items[i]->extent);
      line(i == 0 ? str("const i64 ", items[i]->var, " = rest;")
                  : str("const i64 ", items[i]->var, " = rest % ", extent, "; rest /= ", extent, ";"));
    }
  }
  print_body(*body);
  close();
}

void KernelPrinter::print_body(const Body& body) {
  for (const Stmt& stmt : body) print_stmt(stmt);
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
      return define(stmt.results[0],
                    str("k_random_", storage_suffix(stmt.dtype), "(ctx->seed, (i64)", expr(stmt.expr), ")"), false);
  }
}

void KernelPrinter::print_constant(const Stmt& stmt) {
  define(stmt.results[0], literal(stmt.dtype, stmt.constant), false);
}

void KernelPrinter::print_op(const Stmt& stmt) {
  bool vary = false;
  for (ValueId v : stmt.args) vary |= varying(v);
  auto operand = [&](size_t i) { return vary ? vector(stmt.args[i]) : name(stmt.args[i]); };
  std::string text;
  if (stmt.op == ScalarOp::cast) {
    text = str("k_cast_", storage_suffix(stmt.dtype), "(", operand(0), ")");
  } else if (stmt.op == ScalarOp::bitcast) {
    // Narrow floats are held as f32: their bits are made and taken apart by functions of their own.
    DType from = type(stmt.args[0]), to = stmt.dtype;
    text = name(stmt.args[0]);
    if (vary) text = vector(stmt.args[0]);
    if (compute_dtype(from) != from) text = str("k_bits_", storage_suffix(from), "(", text, ")");
    if (compute_dtype(to) != to)
      text = str("k_from_bits_", storage_suffix(to), "(", text, ")");
    else
      text = str("k_bitcast_", c_type(to), "(", text, ")");
  } else {
    std::vector<std::string> operands;
    for (size_t i = 0; i < stmt.args.size(); ++i) operands.push_back(operand(i));
    text = str("k_", scalar_op_info(stmt.op).name, "(", join(operands, ", "), ")");
  }
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
                  type(stmt.results[0]) == DType::f64
                      ? real
                      : str("k_cast_", storage_suffix(type(stmt.results[0])), "(", real, ")"),
                  false);
  }
  std::string text = vary ? vector_expr(stmt.expr) : expr(stmt.expr);
  if (type(stmt.results[0]) != DType::i64)
    text = str("k_cast_", storage_suffix(type(stmt.results[0])), "(", vary ? text : str("(i64)(", text, ")"), ")");
  define(stmt.results[0], text, vary);
}

std::string KernelPrinter::mask_and_left(ValueId mask) {
  std::string text;
  if (mask != no_value) text = varying(mask) ? name(mask) : str("k_splat_bool(", name(mask), ")");
  if (lanes_->left.empty()) return text;
  std::string left = str("k_first(", lanes_->left, ")");
  return text.empty() ? left : str("(", text, " & ", left, ")");
}

void KernelPrinter::print_load(const Stmt& stmt) {
  DType dtype = program_.buffers[static_cast<size_t>(stmt.buffer)].dtype;
  std::string suffix = storage_suffix(dtype), b = buffer_name(stmt.buffer, Access::read);
  Expr where = address(stmt);
  bool mask_varies = stmt.mask != no_value && varying(stmt.mask);
  if (!lanes_ || (!varies(where) && !mask_varies)) {
    std::string get = str("k_get_", suffix, "(", b, " + ", expr(where), ")");
    if (stmt.mask != no_value) get = str(name(stmt.mask), " ? ", get, " : (", c_type(dtype), ")0");
    return define(stmt.results[0], get, false);
  }
  const auto affine = lane_affine(where);
  std::string text;
  if (affine) {
    std::string p = str(b, " + ", expr(where));  // the variable's own value is that of the first lane
    bool next = affine->coefficient.is_constant(1);
    std::string stride = next ? "" : str(", ", expr(affine->coefficient));
    std::string s = next ? "" : "s";
    if (stmt.mask != no_value)
      text = str("k_load_", suffix, "_", s, "m(", p, stride, ", ", mask_and_left(stmt.mask), ")");
    else if (!lanes_->left.empty())
      text = str("k_load_", suffix, "_", s, "n(", p, stride, ", ", lanes_->left, ")");
    else
      text = str("k_load_", suffix, next ? "" : "_s", "(", p, stride, ")");
  } else {
    std::string mask = mask_and_left(stmt.mask);
    text = mask.empty() ? str("k_gather_", suffix, "(", b, ", ", vector_expr(where), ")")
                        : str("k_gather_", suffix, "_m(", b, ", ", vector_expr(where), ", ", mask, ")");
  }
  define(stmt.results[0], text, true);
}

namespace {
const char* combine_function(StoreMode mode) {
  switch (mode) {
    case StoreMode::add:
      return "k_add";
    case StoreMode::min:
      return "k_min";
    case StoreMode::max:
      return "k_max";
    case StoreMode::prod:
      return "k_mul";
    default:
      return nullptr;
  }
}
}  // namespace

void KernelPrinter::print_store(const Stmt& stmt) {
  DType dtype = program_.buffers[static_cast<size_t>(stmt.buffer)].dtype;
  bool combines = stmt.mode != StoreMode::plain;
  std::string suffix = storage_suffix(dtype), b = buffer_name(stmt.buffer, combines ? Access::update : Access::write);
  Expr where = address(stmt);
  ValueId v = stmt.args[0];
  if (!lanes_) {
    std::string p = str(b, " + ", expr(where));
    std::string guard = stmt.mask == no_value ? "" : str("if (", name(stmt.mask), ") ");
    if (stmt.mode == StoreMode::atomic_add)
      line(str(guard, "k_atomic_add_", suffix, "(", p, ", ", name(v), ");"));
    else if (combines && dtype == DType::boolean)
      line(str(guard, "k_set_bool(", p, ", k_get_bool(", p,
               stmt.mode == StoreMode::add || stmt.mode == StoreMode::max ? ") || " : ") && ", name(v), ");"));
    else if (combines)
      line(str(guard, "k_set_", suffix, "(", p, ", ", combine_function(stmt.mode), "(k_get_", suffix, "(", p, "), ",
               name(v), "));"));
    else
      line(str(guard, "k_set_", suffix, "(", p, ", ", name(v), ");"));
    return;
  }
  KILN_CHECK(!combines, "an accumulating store was bound to lanes");
  const auto affine = lane_affine(where);
  if (affine) {
    KILN_CHECK(!affine->coefficient.is_constant(0), str("all lanes of ", kernel_.name, " store to one element"));
    std::string p = str(b, " + ", expr(where));
    bool next = affine->coefficient.is_constant(1);
    std::string stride = next ? "" : str(", ", expr(affine->coefficient));
    std::string s = next ? "" : "s";
    // Arguments: pointer, value, then stride, lanes or mask, as the loads have them.
    if (stmt.mask != no_value)
      line(str("k_store_", suffix, "_", s, "m(", p, ", ", vector(v), stride, ", ", mask_and_left(stmt.mask), ");"));
    else if (!lanes_->left.empty())
      line(str("k_store_", suffix, "_", s, "n(", p, ", ", vector(v), stride, ", ", lanes_->left, ");"));
    else
      line(str("k_store_", suffix, next ? "" : "_s", "(", p, ", ", vector(v), stride, ");"));
    return;
  }
  std::string mask = mask_and_left(stmt.mask);
  line(str("k_scatter_", suffix, "(", b, ", ", vector_expr(where), ", ", vector(v), mask.empty() ? "" : ", " + mask,
           ");"));
}

// The load that a value comes from, conversions aside; nullptr: it is computed.
const Stmt* KernelPrinter::load_of(ValueId v) {
  if (definitions_.empty())
    for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
      for (ValueId result : stmt.results) definitions_[result] = &stmt;
    });
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
  line(str("if (", condition, ") return k_raise(ctx, ", site, ", ", told, ");"));
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
