#include "debug/seeded_mutations.h"

#include <algorithm>

namespace kiln::seeded {
namespace {

using loops::Body;
using loops::Kernel;
using loops::LoopProgram;
using loops::ScalarOp;
using loops::Stmt;
using loops::StmtKind;

loops::ValueId add_value(Kernel& kernel, DType dtype) {
  kernel.value_types.push_back(dtype);
  return static_cast<loops::ValueId>(kernel.value_types.size()) - 1;
}

// The first statement that the change can be made to.
bool change_first(Kernel& kernel, const std::function<bool(Stmt&)>& change) {
  bool done = false;
  loops::for_each_stmt(kernel.body, [&](Stmt& stmt) { done = done || change(stmt); });
  return done;
}

Scalar other_number(DType dtype, const Scalar& was) {
  if (dtype == DType::boolean) return Scalar(was.as_int() == 0);
  return is_float(dtype) ? Scalar(was.as_double() * 1.25 + 0.125) : Scalar(was.as_int() + 1);
}

bool wrong_constant(LoopProgram&, Kernel& kernel) {
  return change_first(kernel, [](Stmt& stmt) {
    if (stmt.kind != StmtKind::constant || stmt.dtype == DType::boolean) return false;
    stmt.constant = other_number(stmt.dtype, stmt.constant);
    return true;
  });
}

bool swapped_operands(LoopProgram&, Kernel& kernel) {
  return change_first(kernel, [](Stmt& stmt) {
    if (stmt.kind != StmtKind::op || stmt.args.size() != 2 || stmt.args[0] == stmt.args[1]) return false;
    switch (stmt.op) {
      case ScalarOp::sub:
      case ScalarOp::div:
      case ScalarOp::lt:
      case ScalarOp::le:
      case ScalarOp::gt:
      case ScalarOp::ge:
        std::swap(stmt.args[0], stmt.args[1]);
        return true;
      default:
        return false;
    }
  });
}

bool wrong_operator(LoopProgram&, Kernel& kernel) {
  static const std::vector<std::pair<ScalarOp, ScalarOp>> others = {{ScalarOp::add, ScalarOp::sub},
                                                                    {ScalarOp::mul, ScalarOp::add},
                                                                    {ScalarOp::sub, ScalarOp::add},
                                                                    {ScalarOp::max, ScalarOp::min},
                                                                    {ScalarOp::exp, ScalarOp::exp2},
                                                                    {ScalarOp::tanh, ScalarOp::sin},
                                                                    {ScalarOp::exp_or_zero, ScalarOp::exp2},
                                                                    {ScalarOp::sin, ScalarOp::tanh},
                                                                    {ScalarOp::div, ScalarOp::mul},
                                                                    {ScalarOp::log, ScalarOp::exp},
                                                                    {ScalarOp::rsqrt, ScalarOp::sqrt},
                                                                    {ScalarOp::sqrt, ScalarOp::rsqrt},
                                                                    {ScalarOp::gt, ScalarOp::le},
                                                                    {ScalarOp::lt, ScalarOp::ge},
                                                                    {ScalarOp::neg, ScalarOp::abs}};
  return change_first(kernel, [](Stmt& stmt) {
    if (stmt.kind != StmtKind::op) return false;
    for (const auto& [from, to] : others)
      if (stmt.op == from) {
        stmt.op = to;
        return true;
      }
    return false;
  });
}

// a + b becomes a.
bool dropped_term(LoopProgram&, Kernel& kernel) {
  return change_first(kernel, [&](Stmt& stmt) {
    const bool sums = stmt.kind == StmtKind::op && (stmt.op == ScalarOp::add || stmt.op == ScalarOp::mul);
    if (!sums || stmt.args[0] == stmt.args[1]) return false;
    stmt.op = ScalarOp::cast;
    stmt.args.pop_back();
    return true;
  });
}

// Reads a dimension from its end.
bool wrong_index(LoopProgram& program, Kernel& kernel) {
  return change_first(kernel, [&](Stmt& stmt) {
    if (stmt.kind != StmtKind::load || stmt.mask != loops::no_value) return false;
    const loops::Buffer& buffer = program.buffers[static_cast<size_t>(stmt.buffer)];
    for (size_t d = buffer.sizes.size(); d-- > 0;) {
      if (buffer.sizes[d].is_constant(1) || stmt.index[d].is_constant()) continue;
      stmt.index[d] = buffer.sizes[d] - 1 - stmt.index[d];
      return true;
    }
    return false;
  });
}

// Its result in the wrong places.
bool wrong_place(LoopProgram& program, Kernel& kernel) {
  return change_first(kernel, [&](Stmt& stmt) {
    if (stmt.kind != StmtKind::store || stmt.mask != loops::no_value) return false;
    const loops::Buffer& buffer = program.buffers[static_cast<size_t>(stmt.buffer)];
    for (size_t d = 0; d < buffer.sizes.size(); ++d) {
      if (buffer.sizes[d].is_constant(1) || !stmt.index[d].is_symbol()) continue;
      stmt.index[d] = buffer.sizes[d] - 1 - stmt.index[d];
      return true;
    }
    return false;
  });
}

bool short_reduction(LoopProgram&, Kernel& kernel) {
  return change_first(kernel, [](Stmt& stmt) {
    if (!stmt.loop || stmt.loop->role != loops::AxisRole::reduce) return false;
    stmt.loop->extent = stmt.loop->extent - 1;
    return true;
  });
}

bool wrong_reduction(LoopProgram&, Kernel& kernel) {
  return change_first(kernel, [](Stmt& stmt) {
    if (!stmt.loop || stmt.loop->role == loops::AxisRole::parallel) return false;
    loops::ReduceOp& op = stmt.loop->reduce;
    if (op == loops::ReduceOp::sum)
      op = loops::ReduceOp::max;
    else if (op == loops::ReduceOp::max)
      op = loops::ReduceOp::min;
    else if (op == loops::ReduceOp::argmax)
      op = loops::ReduceOp::argmin;
    else
      return false;
    return true;
  });
}

// What stands off a mask is taken, what stands on it is not.
bool wrong_mask(LoopProgram&, Kernel& kernel) {
  return change_first(kernel, [](Stmt& stmt) {
    if (stmt.kind != StmtKind::op || stmt.op != ScalarOp::select || stmt.args[1] == stmt.args[2]) return false;
    std::swap(stmt.args[1], stmt.args[2]);
    return true;
  });
}

// One element further than it should be, at the edge out of the buffer.
bool off_by_one(LoopProgram& program, Kernel& kernel) {
  return change_first(kernel, [&](Stmt& stmt) {
    if (stmt.kind != StmtKind::load || stmt.index.empty()) return false;
    const loops::Buffer& buffer = program.buffers[static_cast<size_t>(stmt.buffer)];
    if (buffer.sizes.back().is_constant(1)) return false;
    stmt.index.back() = stmt.index.back() + 1;
    return true;
  });
}

// Puts statements before the first store of the body; gives the new value to it.
bool before_store(Body& body, const std::function<Body(Stmt&)>& make) {
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i].loop && (before_store(body[i].loop->body, make) || before_store(body[i].loop->after, make)))
      return true;
    if (body[i].kind != StmtKind::store) continue;
    Body made = make(body[i]);
    if (made.empty()) return false;
    body.insert(body.begin() + static_cast<int64_t>(i), std::make_move_iterator(made.begin()),
                std::make_move_iterator(made.end()));
    return true;
  }
  return false;
}

bool added_offset(LoopProgram&, Kernel& kernel) {
  return before_store(kernel.body, [&](Stmt& store) {
    Body out;
    const DType dtype = kernel.value_types[static_cast<size_t>(store.args[0])];
    if (dtype == DType::boolean) return out;
    Stmt constant, add;
    constant.kind = StmtKind::constant, constant.dtype = dtype;
    constant.constant = is_float(dtype) ? Scalar(0.375) : Scalar(int64_t{1});
    constant.results = {add_value(kernel, dtype)};
    add.kind = StmtKind::op, add.op = ScalarOp::add, add.dtype = dtype;
    add.args = {store.args[0], constant.results[0]};
    add.results = {add_value(kernel, dtype)};
    store.args[0] = add.results[0];
    out.push_back(std::move(constant)), out.push_back(std::move(add));
    return out;
  });
}

bool lost_precision(LoopProgram&, Kernel& kernel) {
  return before_store(kernel.body, [&](Stmt& store) {
    Body out;
    const DType dtype = kernel.value_types[static_cast<size_t>(store.args[0])];
    if (dtype != DType::f32) return out;
    for (DType to : {DType::f16, DType::f32}) {
      Stmt cast;
      cast.kind = StmtKind::op, cast.op = ScalarOp::cast, cast.dtype = to;
      cast.args = {store.args[0]};
      cast.results = {add_value(kernel, to)};
      store.args[0] = cast.results[0];
      out.push_back(std::move(cast));
    }
    return out;
  });
}

}  // namespace

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = {{"wrong constant", wrong_constant},
                                            {"dropped term", dropped_term},
                                            {"wrong index", wrong_index},
                                            {"swapped operands", swapped_operands},
                                            {"wrong operator", wrong_operator},
                                            {"added offset", added_offset},
                                            {"short reduction", short_reduction},
                                            {"wrong mask", wrong_mask},
                                            {"result in the wrong place", wrong_place},
                                            {"wrong reduction", wrong_reduction},
                                            {"off by one", off_by_one},
                                            {"lost precision", lost_precision}};
  return all;
}

}  // namespace kiln::seeded
