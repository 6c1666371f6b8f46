// The invariants of Loops. A broken one is a bug of the pass that ran last, and is reported as such.
#include <set>

#include "base/side_by_side.h"
#include "loops/loops.h"
#include "loops/verify_order.h"
#include "loops/verify_schedule.h"
#include "loops/verify_scratch.h"

namespace kiln::loops {
namespace {

class KernelVerifier {
 public:
  KernelVerifier(const LoopProgram& program, const Kernel& kernel, const std::set<std::string>& symbols)
      : program_(program),
        kernel_(kernel),
        program_symbols_(symbols),
        visible_(kernel.value_types.size(), false),
        defined_(kernel.value_types.size(), false) {}

  void run() {
    body(kernel_.body);
    for (const NamedValue& named : kernel_.named) {
      const auto exists = [&](ValueId id) { return id >= 0 && static_cast<size_t>(id) < defined_.size(); };
      KILN_VERIFY(exists(named.value) && (named.mask == no_value || exists(named.mask)),
                  str(named.name, " is the name of a value that does not exist"));
    }
    if (kernel_.contraction) contraction_nest(kernel_);
    if (kernel_.schedule) index_expr(kernel_.schedule->items);
    verify_schedule(program_, kernel_);
    verify_scratch(program_, kernel_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    fail_bug(str("kernel ", kernel_.name, ": ", what), where_of(kernel_.origins));
  }
  static std::string v(ValueId id) { return str("%", id); }

  DType type(ValueId id) const { return kernel_.value_types[static_cast<size_t>(id)]; }
  void use(ValueId id) const {
    KILN_VERIFY(id >= 0 && static_cast<size_t>(id) < visible_.size(), str("value ", v(id), " does not exist"));
    KILN_VERIFY(visible_[static_cast<size_t>(id)], str("value ", v(id), " is used where it is not defined"));
  }
  void define(ValueId id, DType dtype) {
    KILN_VERIFY(id >= 0 && static_cast<size_t>(id) < visible_.size(), str("value ", v(id), " does not exist"));
    KILN_VERIFY(!defined_[static_cast<size_t>(id)], str("value ", v(id), " is defined twice"));
    KILN_VERIFY(type(id) == dtype, str("value ", v(id), " is ", dtype_name(type(id)),
                                       " in the table but its statement gives ", dtype_name(dtype)));
    defined_[static_cast<size_t>(id)] = visible_[static_cast<size_t>(id)] = true;
    scope_.push_back(id);
  }
  void expect_type(ValueId id, DType dtype, const char* what) const {
    KILN_VERIFY(type(id) == dtype, str(what, " ", v(id), " is ", dtype_name(type(id)), ", not ", dtype_name(dtype)));
  }

  void index_expr(const Expr& expr) const {
    std::set<std::string> names;
    collect_symbols(expr, names);
    for (const std::string& name : names)
      KILN_VERIFY(variables_.count(name) || program_symbols_.count(name),
                  str("symbol ", name, " of ", expr.text(), " is not known here"));
  }
  void integer_expr(const Expr& expr) const {
    KILN_VERIFY(!expr.is_float(), str("index expression ", expr.text(), " is a float"));
    index_expr(expr);
  }

  // ---- Statements
  // ------------------------------------------------------------------------------------------------------
  void body(const Body& statements) {
    size_t values = scope_.size(), names = names_.size();
    inner(statements);
    leave(values, names);
  }
  void inner(const Body& statements) {
    for (const Stmt& s : statements) statement(s);
  }
  void leave(size_t values, size_t names) {
    for (; scope_.size() > values; scope_.pop_back()) visible_[static_cast<size_t>(scope_.back())] = false;
    for (; names_.size() > names; names_.pop_back()) variables_.erase(names_.back());
  }
  void declare(const std::string& name) {
    KILN_VERIFY(!name.empty(), "a variable has no name");
    KILN_VERIFY(!program_symbols_.count(name) && variables_.insert(name).second,
                str("variable ", name, " hides another one"));
    names_.push_back(name);
  }

  void statement(const Stmt& s) {
    KILN_VERIFY((s.kind == StmtKind::loop) == (s.loop != nullptr),
                "a loop without its contents, or contents without a loop");
    for (ValueId a : s.args) use(a);
    if (s.mask != no_value) {
      use(s.mask);
      expect_type(s.mask, DType::boolean, "mask");
    }
    switch (s.kind) {
      case StmtKind::op:
        return op(s);
      case StmtKind::constant:
        KILN_VERIFY(!s.constant.is_complex(), "a complex constant");
        return one_result(s, 0);
      case StmtKind::index_value:
        index_expr(s.expr);
        return one_result(s, 0);
      case StmtKind::random:
        integer_expr(s.expr);
        return one_result(s, 0);
      case StmtKind::load:
        access(s);
        KILN_VERIFY(s.dtype == buffer(s).dtype, str("load of ", buffer(s).name, " as ", dtype_name(s.dtype)));
        return one_result(s, 0);
      case StmtKind::store:
        return store(s);
      case StmtKind::check_index:
        return check_index(s);
      case StmtKind::raise_if:
        KILN_VERIFY(s.args.size() == 1 && s.results.empty(), "raise_if takes one value and gives none");
        expect_type(s.args[0], DType::boolean, "condition");
        return site(s);
      case StmtKind::loop:
        return loop(s);
    }
    fail("unknown kind of statement");
  }
  void one_result(const Stmt& s, size_t args) {
    KILN_VERIFY(s.results.size() == 1 && s.args.size() == args,
                "a statement with a wrong number of operands or results");
    KILN_VERIFY(!is_complex(s.dtype), "a complex value");
    define(s.results[0], s.dtype);
  }
  const Buffer& buffer(const Stmt& s) const {
    KILN_VERIFY(s.buffer >= 0 && static_cast<size_t>(s.buffer) < program_.buffers.size(), "access to no buffer");
    return program_.buffers[static_cast<size_t>(s.buffer)];
  }
  void access(const Stmt& s) const {
    const Buffer& b = buffer(s);
    KILN_VERIFY(s.index.size() == b.sizes.size(),
                str(b.name, " has ", b.sizes.size(), " dimensions but is accessed with ", s.index.size(), " indices"));
    for (const Expr& e : s.index) integer_expr(e);
  }
  void store(const Stmt& s) const {
    access(s);
    const Buffer& b = buffer(s);
    KILN_VERIFY(s.args.size() == 1 && s.results.empty(), "store takes one value and gives none");
    bool given = b.role == BufferRole::input || b.role == BufferRole::constant;
    KILN_VERIFY(!given || b.mutated, str("store to ", b.name, ", which is not marked as mutated"));
    DType dtype = type(s.args[0]);
    KILN_VERIFY(dtype == b.dtype || dtype == compute_dtype(b.dtype),
                str("store of ", dtype_name(dtype), " to ", b.name, " of ", dtype_name(b.dtype)));
  }
  void site(const Stmt& s) const {
    KILN_VERIFY(s.site >= 0 && static_cast<size_t>(s.site) < program_.sites.size(), str("there is no site ", s.site));
  }
  void check_index(const Stmt& s) {
    KILN_VERIFY(s.args.size() == 1 && is_integer(type(s.args[0])), "check_index takes one integer");
    KILN_VERIFY(s.dtype == DType::i64, "check_index gives i64");
    integer_expr(s.expr);
    site(s);
    one_result(s, 1);
    declare(s.index_var);
  }

  void op(const Stmt& s) {
    const ScalarOpInfo& info = scalar_op_info(s.op);
    KILN_VERIFY(static_cast<int>(s.args.size()) == info.arity, str(info.name, " with ", s.args.size(), " operands"));
    const size_t first = info.rule == TypeRule::select ? 1 : 0;
    const DType operand = type(s.args[first]);
    for (size_t i = first; i < s.args.size(); ++i) expect_type(s.args[i], operand, info.name);
    if (first) expect_type(s.args[0], DType::boolean, "condition");
    DType result = operand;
    if (info.rule == TypeRule::compare || info.rule == TypeRule::predicate) result = DType::boolean;
    if (info.rule == TypeRule::convert) result = s.dtype;
    if (info.rule == TypeRule::boolean) KILN_VERIFY(operand == DType::boolean, str(info.name, " takes bool"));
    KILN_VERIFY(s.dtype == result, str(info.name, " of ", dtype_name(operand), " does not give ", dtype_name(s.dtype)));
    KILN_VERIFY(!info.floats_only || is_float(operand), str(info.name, " does not take ", dtype_name(operand)));
    if (s.op == ScalarOp::bitcast)
      KILN_VERIFY(dtype_bytes(operand) == dtype_bytes(s.dtype), "bitcast between different widths");
    else
      KILN_VERIFY(scalar_function(s.op, s.dtype, operand), str(info.name, " does not take ", dtype_name(operand)));
    one_result(s, s.args.size());
  }

  void loop(const Stmt& s) {
    const Loop& l = *s.loop;
    integer_expr(l.extent);
    size_t values = scope_.size(), names = names_.size();
    declare(l.var);
    inner(l.body);
    if (l.role == AxisRole::parallel) {
      KILN_VERIFY(s.results.empty() && l.yields.empty() && l.running.empty() && l.after.empty() && l.only == no_value,
                  str("parallel loop ", l.var, " with results"));
    } else {
      accumulators(s, l);
      inner(l.after);
    }
    leave(values, names);
    for (size_t i = 0; i < s.results.size(); ++i) define(s.results[i], l.accumulator_dtype(static_cast<int>(i)));
  }
  void accumulators(const Stmt& s, const Loop& l) {
    const ReduceInfo& info = reduce_info(l.reduce);
    auto count = static_cast<size_t>(info.accumulators);
    KILN_VERIFY(l.yields.size() == static_cast<size_t>(info.yields) || l.yields.size() == count,
                str(info.name, " ", l.var, " yields ", l.yields.size(), " values"));
    KILN_VERIFY(s.results.size() == count, str(info.name, " ", l.var, " has ", s.results.size(), " results"));
    KILN_VERIFY(l.running.size() == (l.role == AxisRole::scan ? count : 0),
                str("scan ", l.var, " without its running values"));
    KILN_VERIFY(l.role == AxisRole::scan || l.after.empty(), str("reduce ", l.var, " with a part after its update"));
    bool logical = l.reduce == ReduceOp::any || l.reduce == ReduceOp::all;
    KILN_VERIFY(logical ? l.reduce_dtype == DType::boolean : !is_complex(l.reduce_dtype),
                str(info.name, " of ", dtype_name(l.reduce_dtype)));
    const std::string wrong = wrong_order(l);
    KILN_VERIFY(wrong.empty(), wrong);
    KILN_VERIFY(l.only == no_value || l.role == AxisRole::reduce, str("scan ", l.var, " that leaves out iterations"));
    if (l.only != no_value) {
      const bool own = std::any_of(l.body.begin(), l.body.end(), [&](const Stmt& stmt) {
        return stmt.kind != StmtKind::loop && stmt.results == std::vector<ValueId>{l.only};
      });
      KILN_VERIFY(own, str(info.name, " ", l.var, " is left out by a value that is not of its body"));
      expect_type(l.only, DType::boolean, "condition");
    }
    KILN_VERIFY(l.reduce != ReduceOp::welford || is_float(l.reduce_dtype), "welford takes floats");
    for (size_t i = 0; i < l.yields.size(); ++i) {
      use(l.yields[i]);
      expect_type(l.yields[i], l.accumulator_dtype(static_cast<int>(i)), "yielded");
    }
    for (size_t i = 0; i < l.running.size(); ++i) define(l.running[i], l.accumulator_dtype(static_cast<int>(i)));
  }

  const LoopProgram& program_;
  const Kernel& kernel_;
  const std::set<std::string>& program_symbols_;
  std::vector<bool> visible_, defined_;
  std::vector<ValueId> scope_;
  std::set<std::string> variables_;
  std::vector<std::string> names_;
};

class ProgramVerifier {
 public:
  explicit ProgramVerifier(const LoopProgram& program) : program_(program) {}

  void run() {
    for (const auto& [name, info] : program_.symbols) {
      KILN_VERIFY(name == info.name, str("symbol ", name, " is called ", info.name));
      symbols_.insert(name);
    }
    // Symbols that steps define may appear in sizes of buffers, which are listed before all steps.
    for (const Block* block : {&program_.init, &program_.block})
      for_each_item(*block, [&](const Item& i) { defines(i); });
    std::set<std::string> names;
    for (const Buffer& b : program_.buffers) {
      KILN_VERIFY(!b.name.empty() && names.insert(b.name).second, str("two buffers are called ", b.name));
      buffer(b);
    }
    for (const Guard& g : program_.guards) expr(g.condition);
    for (const auto& in : program_.inputs) input(in);
    for (const auto& out : program_.outputs) {
      if (auto* id = std::get_if<BufferId>(&out.what)) known(*id);
      if (auto* e = std::get_if<Expr>(&out.what)) expr(*e);
    }
    block(program_.init);
    block(program_.block);
    side_by_side(kernels_.size(), [&](size_t i) { KernelVerifier(program_, *kernels_[i], symbols_).run(); });
    verify_scratch_users(program_);
  }

 private:
  [[noreturn]] static void fail(const std::string& what) { fail_bug(what); }
  void known(BufferId id) const {
    KILN_VERIFY(id >= 0 && static_cast<size_t>(id) < program_.buffers.size(), str("there is no buffer ", id));
  }
  void expr(const Expr& e) const {
    std::set<std::string> names;
    collect_symbols(e, names);
    for (const std::string& name : names)
      KILN_VERIFY(symbols_.count(name), str("symbol ", name, " of ", e.text(), " is not known"));
  }
  void buffer(const Buffer& b) const {
    KILN_VERIFY(b.sizes.size() == b.strides.size(), str("buffer ", b.name, " has not as many strides as sizes"));
    for (const auto* list : {&b.sizes, &b.strides})
      for (const Expr& e : *list) expr(e);
    expr(b.offset);
    KILN_VERIFY(!is_complex(b.dtype), str("buffer ", b.name, " has complex elements"));
    KILN_VERIFY(!b.complex || (is_float(b.dtype) && !b.sizes.empty() && b.sizes.back().is_constant(2) &&
                               b.strides.back().is_constant(1) && b.role != BufferRole::scratch),
                str("buffer ", b.name, " is complex, but its last dimension is not two neighbours"));
    KILN_VERIFY(b.role != BufferRole::constant || !b.constant.empty(),
                str("constant buffer ", b.name, " names no constant"));
  }
  void input(const LoopProgram::Input& in) const {
    if (auto* id = std::get_if<BufferId>(&in.what)) {
      known(*id);
      KILN_VERIFY(program_.buffers[static_cast<size_t>(*id)].role == BufferRole::input,
                  str("input ", in.name, " is no input buffer"));
    }
    if (auto* name = std::get_if<std::string>(&in.what))
      KILN_VERIFY(symbols_.count(*name), str("input symbol ", *name, " is not known"));
  }
  void defines(const Item& item) {
    if (auto* call = std::get_if<Call>(&item.what)) symbols_.insert(call->defines.begin(), call->defines.end());
    if (auto* bind = std::get_if<BindSymbol>(&item.what)) symbols_.insert(bind->symbol);
    if (auto* loop = std::get_if<While>(&item.what))
      if (!loop->iteration_symbol.empty()) symbols_.insert(loop->iteration_symbol);
  }

  void block(const Block& b) {
    for (const Item& item : b) std::visit([&](const auto& what) { check_item(what); }, item.what);
  }
  void block(const std::unique_ptr<Block>& b) {
    KILN_VERIFY(b != nullptr, "a branch or loop without its block");
    block(*b);
  }
  void check_item(const Kernel& kernel) { kernels_.push_back(&kernel); }
  void check_item(const Call& call) const {
    for (const Call::Arg& arg : call.args) {
      if (auto* id = std::get_if<BufferId>(&arg.value); id && *id != no_buffer) known(*id);
      if (auto* ids = std::get_if<std::vector<BufferId>>(&arg.value))
        for (BufferId id : *ids)
          if (id != no_buffer) known(id);
      if (auto* e = std::get_if<Expr>(&arg.value)) expr(*e);
      if (auto* es = std::get_if<std::vector<Expr>>(&arg.value))
        for (const Expr& e : *es) expr(e);
    }
    for (BufferId id : call.outputs) known(id);
    for (BufferId id : call.mutates) known(id);
    for (const auto* written : {&call.outputs, &call.mutates})
      for (BufferId id : *written) {
        const Buffer& b = program_.buffers[static_cast<size_t>(id)];
        bool given = b.role == BufferRole::input || b.role == BufferRole::constant;
        KILN_VERIFY(!given || b.mutated,
                    str("call ", call.name, " writes ", b.name, ", which is not marked as mutated"));
      }
  }
  void check_item(const BindSymbol& bind) const { known(bind.buffer); }
  void check_item(const AssertThat& that) const { expr(that.condition); }
  void predicate(const std::variant<BufferId, Expr>& p) const {
    if (auto* id = std::get_if<BufferId>(&p))
      known(*id);
    else
      expr(std::get<Expr>(p));
  }
  void check_item(const Cond& cond) {
    predicate(cond.predicate);
    block(cond.then_block);
    block(cond.else_block);
  }
  void check_item(const While& loop) {
    predicate(loop.predicate);
    block(loop.condition_block);
    block(loop.body_block);
  }

  const LoopProgram& program_;
  std::set<std::string> symbols_;
  std::vector<const Kernel*> kernels_;
};

}  // namespace

void verify(const LoopProgram& program) { ProgramVerifier(program).run(); }

}  // namespace kiln::loops
