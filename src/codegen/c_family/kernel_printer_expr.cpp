// Index expressions and literals in C++.
#include "codegen/c_family/kernel_printer.h"
#include "schedule/schedule.h"

namespace kiln::codegen {
using namespace loops;

Expr KernelPrinter::address(const Stmt& access) const { return address_of(access, program_, env_); }

// x // 32 is the same for 16 lanes that begin at a multiple of 16, and x % 32 counts up in them: scales of a quantised
// weight are one load then, not a gather.
Expr KernelPrinter::by_lane(const Expr& e) const {
  if (!lanes_ || !lanes_->aligned) return e;
  const auto& args = e.args();
  switch (e.op()) {
    case ExprOp::add:
    case ExprOp::mul: {
      Expr all = by_lane(args[0]);
      for (size_t i = 1; i < args.size(); ++i)
        all = e.op() == ExprOp::add ? all + by_lane(args[i]) : all * by_lane(args[i]);
      return all;
    }
    case ExprOp::floordiv:
    case ExprOp::mod: {
      const auto affine = affine_in(args[0], lanes_->var);
      const bool shared = affine && affine->coefficient.is_constant(1) && args[1].is_constant() &&
                          args[1].value() > 0 && args[1].value() % lane_count_ == 0 &&
                          prove_eq(mod(affine->rest, Expr(lane_count_)), Expr(0), env_) == Proof::yes;
      if (!shared) return e;
      const Expr quotient = Expr::symbol(str("(", args[0].text(), ") // ", args[1].text()));
      return e.op() == ExprOp::floordiv ? quotient : args[0] - args[1] * quotient;
    }
    default:
      return e;
  }
}

std::optional<Affine> KernelPrinter::lane_affine(const Expr& address) const {
  auto affine = affine_in(by_lane(address), lanes_->var);
  if (!affine || varies(affine->coefficient) || varies(affine->rest)) return std::nullopt;
  // The distance is printed; a quotient that stands for more than its name is not.
  const auto plain = affine_in(address, lanes_->var);
  if (!affine->coefficient.is_constant() && !plain) return std::nullopt;
  return affine;
}

bool KernelPrinter::varies(const Expr& e) const {
  if (!lanes_) return false;
  std::set<std::string> symbols;
  collect_symbols(by_lane(e), symbols);
  if (symbols.count(lanes_->var)) return true;
  for (const std::string& s : symbols)
    if (varying_index_.count(s)) return true;
  return false;
}

bool KernelPrinter::local(const Expr& e) const {
  std::set<std::string> symbols;
  collect_symbols(e, symbols);
  for (const std::string& s : symbols)
    if (!program_.symbols.count(s)) return true;
  return false;
}

std::string KernelPrinter::parameter(const Expr& e) {
  auto [found, inserted] = int_numbers_.emplace(e.text(), static_cast<int>(int_numbers_.size()));
  if (inserted) result_.step.ints.push_back(e);
  return str("n", found->second);
}

std::string KernelPrinter::parameter_or_constant(const Expr& e) { return e.is_constant() ? expr(e) : parameter(e); }

// Each place has an argument of its own: which of them are equal differs from kernel to kernel.
std::string KernelPrinter::size(int64_t value, int64_t small) {
  if (!sizes_given_ || std::abs(value) <= (in_init_ ? 1 : small)) return literal(DType::i64, Scalar(value));
  const int next = static_cast<int>(int_numbers_.size());
  if (place_) {
    const auto [found, inserted] = size_numbers_.emplace(std::pair(place_, sizes_of_place_++), next);
    if (!inserted && result_.step.ints[static_cast<size_t>(found->second)].is_constant(value))
      return str("n", found->second);
  }
  int_numbers_.emplace(str("size ", next), next);
  result_.step.ints.push_back(Expr(value));
  return str("n", next);
}

std::string KernelPrinter::divisor(const Expr& e) {
  return e.is_constant() ? literal(DType::i64, Scalar(e.value())) : expr(e);
}

// Items of `init` run once, and those of a kernel with scratch are long: dividing does not count.
std::string KernelPrinter::item_extent(const Expr& e) {
  if (in_init_) return expr(e);
  bool scratch = false;
  for_each_stmt(kernel_.body, [&](const Stmt& stmt) {
    scratch |=
        stmt.kind == StmtKind::store && program_.buffers[static_cast<size_t>(stmt.buffer)].role == BufferRole::scratch;
  });
  return scratch && e.is_constant() ? size(e.value(), 1) : divisor(e);
}

std::string KernelPrinter::expr(const Expr& e) {
  auto all = [&](const char* separator) {
    return "(" + join_map(e.args(), separator, [&](const Expr& a) { return expr(a); }) + ")";
  };
  auto call = [&](const char* function) {
    return str(function, "((i64)", expr(e.args()[0]), ", (i64)", divisor(e.args()[1]), ")");
  };
  switch (e.op()) {
    case ExprOp::constant:
      return size(e.value());
    case ExprOp::symbol:
      return local(e) ? e.name() : parameter(e);
    case ExprOp::add:
      return all(" + ");
    case ExprOp::mul:
      return all(" * ");
    case ExprOp::floordiv:
    case ExprOp::mod: {
      bool plain = range_of(e.args()[0], env_).low >= 0 && range_of(e.args()[1], env_).low >= 1;
      if (plain) {
        const std::string a = expr(e.args()[0]), b = divisor(e.args()[1]);
        return e.op() == ExprOp::mod ? str("(", dialect_.remainder(a, b), ")") : dialect_.quotient(a, b);
      }
      return call(e.op() == ExprOp::mod ? "k_mod" : "k_floordiv");
    }
    case ExprOp::min:
    case ExprOp::max: {
      std::string text = expr(e.args()[0]);
      for (size_t i = 1; i < e.args().size(); ++i)
        text = str(e.op() == ExprOp::min ? "k_min" : "k_max", "((i64)", text, ", (i64)", expr(e.args()[i]), ")");
      return text;
    }
    case ExprOp::eq:
      return all(" == ");
    case ExprOp::ne:
      return all(" != ");
    case ExprOp::lt:
      return all(" < ");
    case ExprOp::le:
      return all(" <= ");
    case ExprOp::logical_and:
      return all(" && ");
    case ExprOp::logical_or:
      return all(" || ");
    case ExprOp::logical_not:
      return str("!", expr(e.args()[0]));
    case ExprOp::ite:
      return str("(", expr(e.args()[0]), " ? ", expr(e.args()[1]), " : ", expr(e.args()[2]), ")");
    default:
      if (!local(e) && !e.is_float()) return parameter(e);
      fail_unsupported("K0402", str("the expression ", e.text(), " cannot be computed inside a kernel"));
  }
}

std::string KernelPrinter::vector_expr(const Expr& e) {
  if (!varies(e)) return SimdDialect::splat(DType::i64, expr(e));
  auto fold = [&](const char* function) {
    std::string text = vector_expr(e.args()[0]);
    for (size_t i = 1; i < e.args().size(); ++i) text = str(function, "(", text, ", ", vector_expr(e.args()[i]), ")");
    return text;
  };
  auto quotient = [&](const char* function) {
    const Expr& by = e.args()[1];
    return str(function, "(", vector_expr(e.args()[0]), ", ",
               by.is_constant() ? SimdDialect::splat(DType::i64, divisor(by)) : vector_expr(by), ")");
  };
  auto infix = [&](const char* separator) {
    return "(" + join_map(e.args(), separator, [&](const Expr& a) { return vector_expr(a); }) + ")";
  };
  switch (e.op()) {
    case ExprOp::symbol:
      if (e.name() == lanes_->var) return SimdDialect::iota(e.name());
      return e.name();  // an index variable that differs by lane
    case ExprOp::add:
      return infix(" + ");
    case ExprOp::mul:
      return infix(" * ");
    case ExprOp::floordiv:
      return quotient("k_floordiv");
    case ExprOp::mod:
      return quotient("k_mod");
    case ExprOp::min:
      return fold("k_min");
    case ExprOp::max:
      return fold("k_max");
    default:
      fail_unsupported("K0402", str("the expression ", e.text(), " cannot be computed lane by lane"));
  }
}

std::string KernelPrinter::literal(DType dtype, const Scalar& value) const {
  if (dtype == DType::boolean)
    return value.as_int() != 0 || (value.is_float() && value.as_double() != 0) ? "true" : "false";
  if (!kiln::is_float(dtype)) {
    int64_t v = value.as_int();
    if (v == INT64_MIN) return str("(", c_type(dtype), ")(-9223372036854775807l - 1)");
    if (dtype == DType::i64) return str(v, "l");
    return str("(", c_type(dtype), ")", v, "l");
  }
  double v = value.as_double();
  bool single = dtype != DType::f64;
  if (std::isnan(v)) return single ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")";
  if (single && std::isfinite(v)) v = static_cast<double>(static_cast<float>(v));
  if (std::isinf(v)) return str(v < 0 ? "-" : "", single ? "__builtin_inff()" : "__builtin_inf()");
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, single ? "%af" : "%a", v);
  return buffer;
}

}  // namespace kiln::codegen
