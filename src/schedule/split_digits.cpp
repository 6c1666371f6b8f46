// A reduction over a reshaped tensor counts through several of its dimensions at once (a group norm's sums: one number
// for channel, line and point), and where these do not follow one another in memory each element would be found by
// divisions and gathered. It becomes a reduction for each dimension, the one that is apart the most outermost; what
// then runs through memory in one line is joined again by collapse_loops.
#include "loop_passes/rewrite.h"
#include "schedule/new_loops.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// By how much the variable is divided to give `e`: 1 for itself, a * b for (v // a) // b. 0: it is something else.
Expr divisor_of(const Expr& e, const std::string& var) {
  if (e.is_symbol()) return e.name() == var ? 1 : 0;
  if (e.op() != ExprOp::floordiv || mentions(e.args()[1], var)) return 0;
  return divisor_of(e.args()[0], var) * e.args()[1];
}

// Where one digit of the variable ends and the next one begins: numbers, or products of sizes.
void collect_radices(const Expr& e, const std::string& var, std::vector<Expr>& out) {
  if (e.op() == ExprOp::constant || e.op() == ExprOp::symbol || e.op() == ExprOp::float_constant) return;
  for (const Expr& arg : e.args()) collect_radices(arg, var, out);
  const auto add = [&](const Expr& radix) {
    const bool known =
        radix.is_constant(0) || radix.is_constant(1) || std::find(out.begin(), out.end(), radix) != out.end();
    if (!known) out.push_back(radix);
  };
  add(divisor_of(e, var));
  if (e.op() == ExprOp::mod && !mentions(e.args()[1], var)) add(divisor_of(e.args()[0], var) * e.args()[1]);
}

// a / b where nothing is left over, whatever the sizes are.
std::optional<Expr> whole_quotient(const Expr& a, const Expr& b) {
  Expr quotient = floordiv(a, b);
  if (!(quotient * b == a)) return {};
  return quotient;
}

bool divides_any(const Expr& e, const std::set<std::string>& vars) {
  return std::any_of(vars.begin(), vars.end(), [&](const std::string& var) { return divides(e, var); });
}

class DigitSplitter : NewLoops {
 public:
  DigitSplitter(LoopProgram& program, Kernel& kernel, Log& log) : program_(program), kernel_(kernel), log_(log) {
    used_ = variables_of(kernel);
    for (const auto& [name, info] : program.symbols) used_.insert(name);
  }

  bool visit(Body& body) {
    bool changed = false;
    for (Stmt& stmt : body) {
      if (!stmt.loop) continue;
      changed |= visit(stmt.loop->body);
      changed |= visit(stmt.loop->after);
      if (const Stmt* across = gathered(*stmt.loop)) changed |= split(stmt, *across);
    }
    return changed;
  }

 private:
  // The first load of a plain reduction that goes through memory by leaps and bounds.
  const Stmt* gathered(const Loop& loop) const {
    const bool plain = loop.role == AxisRole::reduce && reduce_info(loop.reduce).accumulators == 1 &&
                       loop.only == no_value && loop.directives == AxisDirectives() && loop.order == SumOrder() &&
                       loop.after.empty();
    if (!plain) return nullptr;
    const Stmt* found = nullptr;
    const RangeEnv env = kernel_ranges(kernel_, program_);
    for (const Stmt& stmt : loop.body) {
      if (stmt.kind != StmtKind::load && stmt.kind != StmtKind::op && stmt.kind != StmtKind::constant &&
          stmt.kind != StmtKind::index_value)
        return nullptr;
      if (stmt.kind != StmtKind::load || found) continue;
      const Expr address = address_of(stmt, program_, env);
      if (mentions(address, loop.var) && !affine_in(address, loop.var)) found = &stmt;
    }
    return found;
  }

  struct Digit {
    std::string var;
    Expr extent, radix;
    double distance = 0;  // in memory, from one of its numbers to the next
  };

  // Empty: the places where the variable is taken apart do not fit each other.
  std::vector<Digit> digits_of(const Loop& loop) {
    std::vector<Expr> radices;
    for (const Stmt& stmt : loop.body) {
      collect_radices(stmt.expr, loop.var, radices);
      for (const Expr& e : stmt.index) collect_radices(e, loop.var, radices);
    }
    const RangeEnv env = program_.ranges();
    std::erase_if(radices, [&](const Expr& radix) { return prove_le(loop.extent, radix, env) == Proof::yes; });
    radices.push_back(loop.extent);
    std::stable_sort(radices.begin(), radices.end(),
                     [&](const Expr& a, const Expr& b) { return estimate(a, program_) < estimate(b, program_); });
    if (!(radices.back() == loop.extent)) return {};
    std::vector<Digit> out;
    Expr last = 1;
    for (const Expr& radix : radices) {
      const auto extent = whole_quotient(radix, last);
      if (!extent) return {};
      if (extent->is_constant(1)) continue;
      out.push_back({"", *extent, last});
      last = radix;
    }
    return out.size() > 1 ? out : std::vector<Digit>();
  }

  bool split(Stmt& stmt, const Stmt& across) {
    Loop& loop = *stmt.loop;
    std::vector<Digit> digits = digits_of(loop);
    if (digits.empty()) return false;
    RangeEnv env = kernel_ranges(kernel_, program_);
    Expr number = 0;
    std::set<std::string> vars;
    for (Digit& digit : digits) {
      digit.var = unused_name(used_, "r");
      used_.insert(digit.var);
      vars.insert(digit.var);
      const int64_t high = range_of(digit.extent, env).high;
      env.ranges[digit.var] = {0, high == INT64_MAX ? high : std::max<int64_t>(0, high - 1)};
      env.upper[digit.var] = digit.extent - 1;
      number = number + Expr::symbol(digit.var) * digit.radix;
    }
    const Substitution map{{loop.var, number}};
    const auto place = static_cast<size_t>(&across - loop.body.data());
    Body body = clone(loop.body);
    for (Stmt& inner : body) {
      inner.expr = simplify(substitute(inner.expr, map), env);
      for (Expr& e : inner.index) e = simplify(substitute(e, map), env);
      if (divides_any(inner.expr, vars)) return false;
      if (inner.kind == StmtKind::load && divides_any(address_of(inner, program_, env), vars)) return false;
    }
    const Expr address = address_of(body[place], program_, env);
    for (Digit& digit : digits)
      if (const auto along = affine_in(address, digit.var))
        digit.distance = std::abs(estimate(along->coefficient, program_));
    std::stable_sort(digits.begin(), digits.end(),
                     [](const Digit& a, const Digit& b) { return a.distance < b.distance; });
    nest(stmt, digits, std::move(body));
    rename_in_names(kernel_, map);
    log_.add([&] {
      return Decision{"take apart",
                      loop.var,
                      "of",
                      kernel_.name,
                      str("it counts through ", digits.size(), " dimensions that lie in another order"),
                      true,
                      ""};
    });
    return true;
  }

  // The digits from the inside out.
  void nest(Stmt& stmt, const std::vector<Digit>& digits, Body body) {
    std::vector<ValueId> yields = stmt.loop->yields;
    const DType dtype = stmt.loop->reduce_dtype;
    for (size_t i = 0; i + 1 < digits.size(); ++i) {
      Stmt inner = reduction_stmt(digits[i].var, digits[i].extent, AxisRole::reduce, stmt.loop->reduce, dtype);
      inner.loop->body = std::move(body);
      inner.loop->yields = std::move(yields);
      inner.results = {new_value(kernel_, dtype)};
      yields = inner.results;
      body.clear();
      body.push_back(std::move(inner));
    }
    stmt.loop->var = digits.back().var;
    stmt.loop->extent = digits.back().extent;
    stmt.loop->body = std::move(body);
    stmt.loop->yields = std::move(yields);
  }

  LoopProgram& program_;
  Kernel& kernel_;
  Log& log_;
};

}  // namespace

bool split_digits(LoopProgram& program, const Target& target, Log& log) {
  if (target.is_gpu()) return false;
  bool changed = false;
  for_each_item(program.block, [&](Item& item) {
    if (auto* kernel = std::get_if<Kernel>(&item.what))
      changed |= DigitSplitter(program, *kernel, log).visit(kernel->body);
  });
  return changed;
}

}  // namespace kiln::loops
