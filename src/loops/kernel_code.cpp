// Translates a kernel; kernel_run.cpp executes the result.
#include "loops/kernel_code.h"

namespace kiln::loops {
namespace {

ScalarFunction reduction_operator(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::sum:
      return scalar_function(ScalarOp::add, dtype, dtype);
    case ReduceOp::prod:
      return scalar_function(ScalarOp::mul, dtype, dtype);
    case ReduceOp::max:
      return scalar_function(ScalarOp::max, dtype, dtype);
    case ReduceOp::min:
      return scalar_function(ScalarOp::min, dtype, dtype);
    case ReduceOp::any:
      return scalar_function(ScalarOp::bit_or, dtype, dtype);
    case ReduceOp::all:
      return scalar_function(ScalarOp::bit_and, dtype, dtype);
    default:
      return nullptr;
  }
}

ScalarFunction store_operator(StoreMode mode, DType dtype) {
  switch (mode) {
    case StoreMode::plain:
      return nullptr;
    case StoreMode::add:
    case StoreMode::atomic_add:
      return scalar_function(ScalarOp::add, dtype, dtype);
    case StoreMode::min:
      return scalar_function(ScalarOp::min, dtype, dtype);
    case StoreMode::max:
      return scalar_function(ScalarOp::max, dtype, dtype);
    case StoreMode::prod:
      return scalar_function(ScalarOp::mul, dtype, dtype);
  }
  return nullptr;
}

class Translator {
 public:
  explicit Translator(KernelCode& code) : code_(code) {
    const ItemLoops items = item_loops(code.kernel);
    if (!items.loops.empty()) innermost_item_ = items.loops.back();
  }

  std::vector<Instruction> body(const Body& statements) {
    std::vector<Instruction> out;
    out.reserve(statements.size());
    for (const Stmt& s : statements) {
      if (s.kind == StmtKind::constant)  // values never change: constants are there from the start
        code_.constants.emplace_back(s.results[0], cell_of(s.dtype, s.constant));
      else
        out.push_back(instruction(s));
    }
    return out;
  }

 private:
  using Kind = Instruction::Kind;
  DType type(ValueId v) const { return code_.kernel.value_types[static_cast<size_t>(v)]; }

  Instruction instruction(const Stmt& s) {
    Instruction i;
    i.source = &s;
    i.dtype = s.dtype;
    i.mask = s.mask;
    if (!s.results.empty()) i.result = s.results[0];
    if (!s.args.empty()) i.a = s.args[0];
    if (s.args.size() > 1) i.b = s.args[1];
    if (s.args.size() > 2) i.c = s.args[2];
    switch (s.kind) {
      case StmtKind::op:
        op(s, i);
        break;
      case StmtKind::index_value:
        i.kind = Kind::index;
        break;
      case StmtKind::random:
        i.kind = Kind::random;
        break;
      case StmtKind::load:
        access(s, i, Kind::load);
        break;
      case StmtKind::store:
        access(s, i, Kind::store);
        i.function = store_operator(s.mode, compute_dtype(i.dtype));
        break;
      case StmtKind::check_index:
        i.kind = Kind::check_index;
        i.slot = code_.slots.slot(s.index_var);
        break;
      case StmtKind::raise_if:
        i.kind = Kind::raise_if;
        break;
      case StmtKind::loop:
        i.kind = Kind::loop;
        i.loop = loop(s);
        break;
      case StmtKind::constant:
        fail_bug("constants are not executed");
    }
    if (i.kind == Kind::index || i.kind == Kind::random || i.kind == Kind::check_index)
      i.index.emplace_back(s.expr, code_.slots);
    // An index expression is an i64 (or a double) that is converted to the statement's type.
    if (i.kind == Kind::index) i.function = cast_function(s.expr.is_float() ? DType::f64 : DType::i64, s.dtype);
    return i;
  }

  void op(const Stmt& s, Instruction& i) {
    i.operand = type(s.args[s.op == ScalarOp::select ? 1 : 0]);
    i.kind = s.op == ScalarOp::bitcast ? Kind::bitcast
             : s.args.size() == 1      ? Kind::unary
             : s.args.size() == 2      ? Kind::binary
                                       : Kind::ternary;
    if (i.kind != Kind::bitcast) i.function = scalar_function(s.op, s.dtype, i.operand);
  }

  void access(const Stmt& s, Instruction& i, Kind kind) {
    i.kind = kind;
    i.dtype = code_.program.buffers[static_cast<size_t>(s.buffer)].dtype;
    i.bytes = dtype_bytes(i.dtype);
    i.scratch = code_.program.buffers[static_cast<size_t>(s.buffer)].role == BufferRole::scratch;
    std::vector<BufferId>& known = i.scratch ? code_.scratch : code_.buffers;
    auto found = std::find(known.begin(), known.end(), s.buffer);
    i.buffer = static_cast<int>(found - known.begin());
    if (found == known.end()) known.push_back(s.buffer);
    for (const Expr& e : s.index) i.index.emplace_back(e, code_.slots);
  }

  std::unique_ptr<LoopCode> loop(const Stmt& s) {
    const Loop& l = *s.loop;
    auto out = std::make_unique<LoopCode>();
    out->slot = code_.slots.slot(l.var);
    out->extent = IndexCode(l.extent, code_.slots);
    out->source = &l;
    out->starts_item = &l == innermost_item_;
    out->results = s.results;
    if (l.role != AxisRole::parallel) out->update = reduction_operator(l.reduce, l.reduce_dtype);
    if (l.role == AxisRole::reduce && l.reduce == ReduceOp::sum)
      for (const Stmt& made : l.body)
        if (made.kind == StmtKind::op && made.op == ScalarOp::mul && made.results[0] == l.yields[0])
          out->product = &made;
    out->body = body(l.body);
    out->after = body(l.after);
    if (l.role == AxisRole::reduce && l.reduce == ReduceOp::welford)
      for (Instruction& i : out->body)
        if (i.loop && i.loop->source->reduce == ReduceOp::welford && i.loop->results == l.yields)
          i.loop->goes_on = true;
    return out;
  }

  KernelCode& code_;
  const Loop* innermost_item_ = nullptr;
};

}  // namespace

KernelCode::KernelCode(const Kernel& k, const LoopProgram& p) : kernel(k), program(p) {
  body = Translator(*this).body(k.body);
  std::set<std::string> variables;
  for_each_stmt(k.body, [&](const Stmt& s) {
    if (s.loop) variables.insert(s.loop->var);
    if (s.kind == StmtKind::check_index) variables.insert(s.index_var);
  });
  for (int slot = 0; slot < static_cast<int>(slots.size()); ++slot)
    if (!variables.count(slots.name(slot))) symbols.push_back(slot);
}

}  // namespace kiln::loops
