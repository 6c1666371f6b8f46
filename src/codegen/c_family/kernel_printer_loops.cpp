// Loops, reductions and lanes in C++.
#include "codegen/c_family/kernel_printer.h"
#include "loops/lane_pairs.h"

namespace kiln::codegen {
using namespace loops;

void KernelPrinter::print_loop(const Stmt& stmt) {
  const Loop& loop = *stmt.loop;
  const bool lane = loop.directives.binding == Binding::lane;
  const bool parallel = loop.role == AxisRole::parallel;
  if (dialect_.print_side_by_side(*this, loop)) return;
  if (lane && !dialect_.has_vectors() && loop.role == AxisRole::reduce) return print_shared_reduction(stmt);
  if (parallel) return lane ? print_lane_loop(loop) : print_serial_loop(loop);
  return lane && loop.role == AxisRole::reduce ? print_lane_reduction(stmt) : print_reduction(stmt);
}

void KernelPrinter::print_serial_loop(const Loop& loop) {
  const bool kept = loop.directives.binding == Binding::kept;
  if (kept) open_kept();
  open(str("for (i64 ", loop.var, " = 0; ", loop.var, " < ", expr(loop.extent), "; ++", loop.var, ")"));
  print_body(loop.body);
  close();
  if (kept) close();
}

// What the items of one number of the outer loops share is known by the first of them, and noted where the next call of
// the same launch finds it.
void KernelPrinter::open_kept() {
  if (!notes_kept_) {
    line(str("const i64 kept_items = item - ", item_loops(kernel_).loops.back()->var, ";"));
    line("const bool is_kept = *kept_for == kept_items;");
    line("*kept_for = kept_items;");
  }
  notes_kept_ = true;
  open("if (!is_kept)");
}

bool KernelPrinter::has_whole_vectors(const Loop& loop) const {
  return loop.directives.tail == Tail::exact || range_of(loop.extent, env_).high >= lane_count_;
}

void KernelPrinter::print_lane_loop(const Loop& loop) {
  if (!dialect_.has_vectors()) return print_shared_loop(loop);
  std::string extent = str("e_", loop.var);
  open("");
  line(str("const i64 ", extent, " = ", expr(loop.extent), ";"));
  line(str("i64 ", loop.var, " = 0;"));
  std::set<std::string> outer_index = varying_index_;
  if (has_whole_vectors(loop)) {
    open(str("for (; ", loop.var, " + ", lane_count_, " <= ", extent, "; ", loop.var, " += ", lane_count_, ")"));
    lanes_ = Lanes{loop.var, "", true};
    print_body(loop.body);
    close();
  }
  if (loop.directives.tail != Tail::exact) {
    open(str("if (", loop.var, " < ", extent, ")"));
    line(str("const int left = (int)(", extent, " - ", loop.var, ");"));
    lanes_ = Lanes{loop.var, "left", true};
    print_body(loop.body);
    close();
  }
  lanes_.reset();
  varying_index_ = outer_index;
  close();
}

std::string KernelPrinter::identity(const Loop& loop, int which) const {
  DType t = loop.reduce_dtype;
  bool floating = kiln::is_float(t);
  auto lowest = [&]() -> std::string {
    if (floating) return literal(t, Scalar(-INFINITY));
    if (t == DType::boolean) return "false";
    if (!is_signed(t)) return literal(t, Scalar(int64_t{0}));
    return literal(t, Scalar(static_cast<int64_t>(-(uint64_t{1} << (dtype_bytes(t) * 8 - 1)))));
  };
  auto highest = [&]() -> std::string {
    if (floating) return literal(t, Scalar(INFINITY));
    if (t == DType::boolean) return "true";
    if (t == DType::u64) return "(u64)18446744073709551615ul";
    uint64_t bits = static_cast<uint64_t>(dtype_bytes(t)) * 8;
    return literal(t, Scalar(static_cast<int64_t>((uint64_t{1} << (is_signed(t) ? bits - 1 : bits)) - 1)));
  };
  switch (loop.reduce) {
    case ReduceOp::sum:
      return literal(t, Scalar(int64_t{0}));
    case ReduceOp::prod:
      return literal(t, Scalar(int64_t{1}));
    case ReduceOp::max:
      return lowest();
    case ReduceOp::min:
      return highest();
    case ReduceOp::any:
      return "false";
    case ReduceOp::all:
      return "true";
    case ReduceOp::argmax:
      return which == 0 ? lowest() : "9223372036854775807l";
    case ReduceOp::argmin:
      return which == 0 ? highest() : "9223372036854775807l";
    case ReduceOp::welford:
      return literal(t, Scalar(int64_t{0}));
  }
  fail_bug("unknown reduction");
}

void KernelPrinter::declare_accumulators(const Stmt& stmt, std::vector<std::string>& names, bool is_vector) {
  const Loop& loop = *stmt.loop;
  for (size_t i = 0; i < stmt.results.size(); ++i) {
    ValueId v = stmt.results[i];
    std::string start = identity(loop, static_cast<int>(i));
    names.push_back(name(v));
    if (is_vector) {
      varying_.insert(v);
      line(str(vector_type(type(v)), " ", name(v), " = k_splat_", c_type(type(v)), "(", start, ");"));
    } else {
      varying_.erase(v);
      line(str(c_type(type(v)), " ", name(v), " = ", start, ";"));
    }
  }
}

// Whether the place that an argmax is given gets smaller from one iteration to the next: among equals the last one
// wins.
static bool counts_down(const Loop& loop) {
  if (loop.yields.size() < 2) return false;
  for (const Stmt& stmt : loop.body)
    if (stmt.kind == StmtKind::index_value && stmt.results[0] == loop.yields[1])
      return stmt.expr == Expr(0) - Expr::symbol(loop.var);
  return false;
}

// accumulators = update(accumulators, yields); vectors where the accumulators are.
void KernelPrinter::print_update(const Loop& loop, const std::vector<std::string>& acc) {
  auto operand = [&](size_t i) { return lanes_ ? vector(loop.yields[i]) : name(loop.yields[i]); };
  switch (loop.reduce) {
    case ReduceOp::sum:
      if (loop.order.fused) {
        const Stmt* product = summed_product(loop);
        auto factor = [&](size_t i) { return lanes_ ? vector(product->args[i]) : name(product->args[i]); };
        return line(str(acc[0], " = ", dialect_.fused(factor(0), factor(1), acc[0]), ";"));
      }
      return line(str(acc[0], " = ", dialect_.op(ScalarOp::add, loop.reduce_dtype, {acc[0], operand(0)}), ";"));
    case ReduceOp::prod:
      return line(str(acc[0], " = ", dialect_.op(ScalarOp::mul, loop.reduce_dtype, {acc[0], operand(0)}), ";"));
    case ReduceOp::max:
      return line(str(acc[0], " = ", dialect_.op(ScalarOp::max, loop.reduce_dtype, {acc[0], operand(0)}), ";"));
    case ReduceOp::min:
      return line(str(acc[0], " = ", dialect_.op(ScalarOp::min, loop.reduce_dtype, {acc[0], operand(0)}), ";"));
    case ReduceOp::any:
      return line(str(acc[0], " = ", acc[0], " | ", operand(0), ";"));
    case ReduceOp::all:
      return line(str(acc[0], " = ", acc[0], " & ", operand(0), ";"));
    case ReduceOp::argmax:
    case ReduceOp::argmin: {
      KILN_CHECK(!lanes_, "argmax is not printed in lanes");
      std::string value = operand(0), index = loop.yields.size() > 1 ? operand(1) : loop.var;
      // The better value, the smaller index among equals; NaN is better than any number.
      const char* beats = loop.reduce == ReduceOp::argmax ? " >" : " <";
      std::string better =
          str(value, beats, " ", acc[0], " || (", value, " == ", acc[0], " && ", index, " < ", acc[1], ")");
      if (kiln::is_float(loop.reduce_dtype))
        better = str(acc[0], " == ", acc[0], " ? (", better, " || ", value, " != ", value, ") : (", value,
                     " != ", value, " && ", index, " < ", acc[1], ")");
      if (counts_down(loop)) {  // a NaN stays until the next one: nothing compares with it
        better = str(value, beats, "= ", acc[0]);
        if (kiln::is_float(loop.reduce_dtype)) better += str(" || ", value, " != ", value);
      }
      return line(str("if (", better, ") { ", acc[0], " = ", value, "; ", acc[1], " = ", index, "; }"));
    }
    case ReduceOp::welford: {
      KILN_CHECK(!lanes_, "welford is not printed in lanes");
      const char* t = c_type(loop.reduce_dtype);
      if (loop.yields.size() == 3) {  // the results of an inner loop: two sets become one
        line(str("if (", operand(2), " > 0) { const ", t, " n = ", acc[2], " + ", operand(2), ", d = ", operand(0),
                 " - ", acc[0], "; ", acc[0], " += d * ", operand(2), " / n; ", acc[1], " += ", operand(1),
                 " + d * d * ", acc[2], " * ", operand(2), " / n; ", acc[2], " = n; }"));
        return;
      }
      line(str(acc[2], " += 1; { const ", t, " d = ", operand(0), " - ", acc[0], "; ", acc[0], " += d / (", t, ")",
               acc[2], "; ", acc[1], " += d * (", operand(0), " - ", acc[0], "); }"));
      return;
    }
  }
}

// Behind a condition without which the iteration changes nothing, and that all lanes share, the rest is left out.
void KernelPrinter::print_iteration(const Loop& loop) {
  for (const Stmt& stmt : loop.body) {
    print_stmt(stmt);
    if (loop.only != no_value && stmt.results == std::vector<ValueId>{loop.only} && !varying(loop.only))
      line(str("if (!", name(loop.only), ") continue;"));
  }
}

// A reduction (or scan) that runs one iteration after the other; inside lanes its accumulators are vectors.
void KernelPrinter::print_reduction(const Stmt& stmt) {
  const Loop& loop = *stmt.loop;
  std::vector<std::string> acc;
  declare_accumulators(stmt, acc, lanes_.has_value());
  const bool in_blocks = loop.order.block > 0;
  std::vector<std::string> target = acc;
  const bool wide = in_blocks && loop.order.meet != loop.reduce_dtype;
  const char* meet = c_type(loop.order.meet);
  std::string total = wide ? acc[0] + "_wide" : acc[0];
  if (wide)
    line(lanes_ ? str(vector_type(loop.order.meet), " ", total, " = k_splat_", meet, "(0);")
                : str(meet, " ", total, " = 0;"));
  if (in_blocks) {
    std::string block = str(loop.var, "_block"), step = str(loop.order.block);
    open(str("for (i64 ", block, " = 0; ", block, " < ", expr(loop.extent), "; ", block, " += ", step, ")"));
    ValueId v = stmt.results[0];
    target = {acc[0] + "_part"};
    line(lanes_
             ? str(vector_type(type(v)), " ", target[0], " = k_splat_", c_type(type(v)), "(", identity(loop, 0), ");")
             : str(c_type(type(v)), " ", target[0], " = ", identity(loop, 0), ";"));
    line(str("const i64 ", block, "_end = k_min((i64)(", block, " + ", step, "), (i64)", expr(loop.extent), ");"));
    open(str("for (i64 ", loop.var, " = ", block, "; ", loop.var, " < ", block, "_end; ++", loop.var, ")"));
  } else {
    open(str("for (i64 ", loop.var, " = 0; ", loop.var, " < ", expr(loop.extent), "; ++", loop.var, ")"));
  }
  print_iteration(loop);
  print_update(loop, target);
  if (loop.role == AxisRole::scan) {
    for (size_t i = 0; i < loop.running.size(); ++i) define(loop.running[i], acc[i], lanes_.has_value());
    print_body(loop.after);
  }
  close();
  if (!in_blocks) return;
  line(str(total, " = k_add(", total, ", ", wide ? str("k_cast_", meet, "(", target[0], ")") : target[0], ");"));
  close();
  if (wide) line(str(acc[0], " = k_cast_", c_type(loop.reduce_dtype), "(", total, ");"));
}

// As many pairs of neighbouring terms as there are lanes.
void KernelPrinter::print_pairs(const Loop& loop, const std::string& accumulator) {
  const PairFactors factors = *pair_factors(loop);
  const auto pairs = [&](const Stmt& load) {
    const auto along = affine_in(address(load), loop.var);
    KILN_CHECK(along && along->coefficient.is_constant(1),
               str(kernel_.name, " has a factor whose terms do not lie in pairs"));
    return str("k_pairs_bf16(", buffer_name(load.buffer, Access::read), " + ", expr(address(load)), ")");
  };
  const std::string left = pairs(*factors.left), right = pairs(*factors.right);
  line(str(accumulator, " = k_dot_bf16(", accumulator, ", ", left, ", ", right, ");"));
}

// Lanes run along the reduced axis: a vector of partial results, combined at the end in a fixed order.
void KernelPrinter::print_lane_reduction(const Stmt& stmt) {
  const Loop& loop = *stmt.loop;
  ValueId v = stmt.results[0];
  std::string acc = name(v) + "_lanes", extent = str("e_", loop.var),
              start = str("k_splat_", c_type(type(v)), "(", identity(loop, 0), ")");
  line(str(c_type(type(v)), " ", name(v), ";"));
  varying_.erase(v);
  open("");
  const bool in_blocks = loop.order.block > 0, wide = in_blocks && loop.order.meet != type(v);
  const char* meet = c_type(loop.order.meet);
  const auto met = [&](const std::string& part) { return wide ? str("k_cast_", meet, "(", part, ")") : part; };
  line(wide ? str(vector_type(loop.order.meet), " ", acc, " = k_splat_", meet, "(0);")
            : str(vector_type(type(v)), " ", acc, " = ", start, ";"));
  line(str("const i64 ", extent, " = ", expr(loop.extent), ";"));
  line(str("i64 ", loop.var, " = 0;"));
  const bool two = loop.order.chains == 2;
  std::string target = acc, end = extent;
  if (in_blocks) {
    std::string block = str(loop.var, "_block");
    end = block;
    target = acc + "_part";
    open(str("while (", loop.var, " + ", lane_count_, " <= ", extent, ")"));
    line(str("const i64 ", block, " = k_min((i64)(", loop.var, " + ", loop.order.block * lane_count_, "), (i64)",
             extent, ");"));
    line(str(vector_type(type(v)), " ", target, " = ", start, ";"));
    if (two) line(str(vector_type(type(v)), " ", target, "_odd = ", start, ";"));
  }
  const int64_t step = loop.directives.factor;
  open(str("for (; ", loop.var, " + ", step * loop.order.chains, " <= ", end, "; ", loop.var, " += ", step, ")"));
  std::set<std::string> outer_index = varying_index_;
  if (loop.order.pairs) {
    print_pairs(loop, target);
  } else {
    lanes_ = Lanes{loop.var, "", true};
    print_body(loop.body);
    print_update(loop, {target});
    if (two) {
      line(str(loop.var, " += ", step, ";"));
      open("");
      print_body(loop.body);
      print_update(loop, {target + "_odd"});
      close();
    }
  }
  close();
  if (in_blocks) {
    if (two) line(str(target, " = k_add(", target, ", ", target, "_odd);"));
    line(str(acc, " = k_add(", acc, ", ", met(target), ");"));
    close();
  }
  if (loop.directives.tail != Tail::exact) {
    open(str("if (", loop.var, " < ", extent, ")"));
    line(str("const int left = (int)(", extent, " - ", loop.var, ");"));
    lanes_ = Lanes{loop.var, "left", true};
    print_body(loop.body);
    // Lanes that are off count as the identity.
    line(str("const ", vector_type(type(v)), " kept = k_select(k_first(left), ", vector(loop.yields[0]), ", ", start,
             ");"));
    switch (loop.reduce) {
      case ReduceOp::any:
        line(str(acc, " = ", acc, " | kept;"));
        break;
      case ReduceOp::all:
        line(str(acc, " = ", acc, " & kept;"));
        break;
      case ReduceOp::sum:
        line(str(acc, " = k_add(", acc, ", ", met("kept"), ");"));
        break;
      case ReduceOp::prod:
        line(str(acc, " = k_mul(", acc, ", kept);"));
        break;
      case ReduceOp::max:
        line(str(acc, " = k_max(", acc, ", kept);"));
        break;
      default:
        line(str(acc, " = k_min(", acc, ", kept);"));
        break;
    }
    close();
  }
  lanes_.reset();
  varying_index_ = outer_index;
  const std::string all = SimdDialect::across(loop.reduce, acc);
  line(str(name(v), " = ", wide ? str("k_cast_", c_type(type(v)), "(", all, ")") : all, ";"));
  close();
}

}  // namespace kiln::codegen
