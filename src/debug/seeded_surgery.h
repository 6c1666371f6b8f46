// For tests only: finding and changing statements of scheduled loops, to put defects into them. Every function throws
// when what it looks for is not there, so that a defect never goes missing silently when schedules change.
#pragma once
#include <algorithm>
#include <functional>
#include <regex>
#include <string>

#include "base/error.h"
#include "loops/loops.h"
#include "loops/statements.h"
#include "package/format.h"

namespace kiln::seeded {

// A kernel under the knife; the first one that `fits`, in the order of the program (init first).
class Surgery {
 public:
  Surgery(loops::LoopProgram& program, const std::function<bool(const loops::Stmt&)>& fits) : program_(program) {
    for (loops::Block* block : {&program.init, &program.block})
      loops::for_each_item(*block, [&](loops::Item& item) {
        auto* kernel = std::get_if<loops::Kernel>(&item.what);
        if (!kernel || stmt) return;
        loops::for_each_stmt(kernel->body, [&](loops::Stmt& s) {
          if (!stmt && fits(s)) stmt = &s, kernel_ = kernel;
        });
      });
    if (!stmt) fail_bug("no statement to put the defect into");
  }
  const std::string& kernel() const { return kernel_->name; }

  // Puts a statement with one operand behind the one that defines `value`, and gives its result to all that follow.
  loops::ValueId insert_cast(loops::ValueId value, DType dtype) {
    const auto made = static_cast<loops::ValueId>(kernel_->value_types.size());
    kernel_->value_types.push_back(dtype);
    if (!insert(kernel_->body, value, made, dtype)) fail_bug("no such value");
    for (loops::NamedValue& named : kernel_->named) named.value = named.value == value ? made : named.value;
    return made;
  }
  // The loop whose body the found statement stands in.
  loops::Stmt& loop_around() {
    loops::Stmt* found = nullptr;
    loops::for_each_stmt(kernel_->body, [&](loops::Stmt& s) {
      if (s.kind != loops::StmtKind::loop) return;
      for (const loops::Stmt& inner : s.loop->body)
        if (&inner == stmt) found = &s;
    });
    if (!found) fail_bug("no loop around the statement");
    return *found;
  }
  // Moves the found statement to the front of the body it stands in, behind `keep` statements.
  void move_up(size_t keep) {
    loops::Body& body = loop_around().loop->body;
    const auto at = std::find_if(body.begin(), body.end(), [&](const loops::Stmt& s) { return &s == stmt; });
    std::rotate(body.begin() + static_cast<int64_t>(keep), at, at + 1);
  }
  // The statements around the found one a second time, behind the first.
  void repeat_body() {
    loops::Body& body = loop_around().loop->body;
    std::map<loops::ValueId, loops::ValueId> made;
    for (size_t i = 0, count = body.size(); i < count; ++i) {
      loops::Stmt again = body[i].clone();
      for (const auto& [from, to] : made) use(again, from, to);
      for (loops::ValueId& result : again.results) {
        const auto id = static_cast<loops::ValueId>(kernel_->value_types.size());
        kernel_->value_types.push_back(kernel_->value_types[static_cast<size_t>(result)]);
        made[result] = id, result = id;
      }
      body.push_back(std::move(again));
    }
  }
  // No iteration of the kernel's reductions is left out any more.
  void leave_nothing_out() {
    loops::for_each_stmt(kernel_->body, [](loops::Stmt& s) {
      if (s.loop) s.loop->only = loops::no_value;
    });
  }
  void set_type(loops::ValueId value, DType dtype) { kernel_->value_types[static_cast<size_t>(value)] = dtype; }

  loops::Stmt* stmt = nullptr;

 private:
  static void use(loops::Stmt& s, loops::ValueId from, loops::ValueId to) {
    for (loops::ValueId& arg : s.args) arg = arg == from ? to : arg;
    if (s.mask == from) s.mask = to;
    if (!s.loop) return;
    for (loops::ValueId& y : s.loop->yields) y = y == from ? to : y;
    for (loops::Stmt& inner : s.loop->body) use(inner, from, to);
    for (loops::Stmt& inner : s.loop->after) use(inner, from, to);
  }
  bool insert(loops::Body& body, loops::ValueId value, loops::ValueId made, DType dtype) {
    for (size_t i = 0; i < body.size(); ++i) {
      if (std::count(body[i].results.begin(), body[i].results.end(), value) > 0) {
        for (size_t j = i + 1; j < body.size(); ++j) use(body[j], value, made);
        body.insert(body.begin() + static_cast<int64_t>(i) + 1,
                    loops::op_stmt_to(made, loops::ScalarOp::cast, dtype, {value}));
        return true;
      }
      if (!body[i].loop) continue;
      if (!insert(body[i].loop->body, value, made, dtype)) continue;
      for (loops::ValueId& y : body[i].loop->yields) y = y == value ? made : y;
      return true;
    }
    return false;
  }
  loops::LoopProgram& program_;
  loops::Kernel* kernel_ = nullptr;
};

// ---- What to look for
inline std::function<bool(const loops::Stmt&)> an_op(loops::ScalarOp op) {
  return [op](const loops::Stmt& s) { return s.kind == loops::StmtKind::op && s.op == op; };
}
inline std::function<bool(const loops::Stmt&)> access(loops::LoopProgram& p, loops::StmtKind kind, std::string name) {
  return [&p, kind, name](const loops::Stmt& s) {
    return s.kind == kind && p.buffers[static_cast<size_t>(s.buffer)].name == name;
  };
}
inline std::function<bool(const loops::Stmt&)> a_load(loops::LoopProgram& p, std::string name) {
  return access(p, loops::StmtKind::load, std::move(name));
}
inline std::function<bool(const loops::Stmt&)> a_store(loops::LoopProgram& p, std::string name) {
  return access(p, loops::StmtKind::store, std::move(name));
}
inline std::function<bool(const loops::Stmt&)> a_constant(double value) {
  return
      [value](const loops::Stmt& s) { return s.kind == loops::StmtKind::constant && s.constant.as_double() == value; };
}
inline std::function<bool(const loops::Stmt&)> a_reduction(loops::ReduceOp op) {
  return [op](const loops::Stmt& s) {
    return s.kind == loops::StmtKind::loop && s.loop->role == loops::AxisRole::reduce && s.loop->reduce == op;
  };
}
inline std::function<bool(const loops::Stmt&)> nth(std::function<bool(const loops::Stmt&)> fits, int n) {
  return [fits, n](const loops::Stmt& s) mutable { return fits(s) && n-- == 0; };
}

// ---- Plans
inline format::Buffer& buffer_named(format::Plan& plan, const std::string& name) {
  for (format::Buffer& buffer : plan.buffers)
    if (buffer.name == name) return buffer;
  fail_bug("no such buffer in the plan");
}
inline int32_t number_of(format::Plan& plan, const std::string& name) {
  return static_cast<int32_t>(&buffer_named(plan, name) - plan.buffers.data());
}
inline int32_t expr_named(const format::Plan& plan, const std::string& text) {
  for (size_t i = 0; i < plan.exprs.size(); ++i)
    if (plan.exprs[i].text == text) return static_cast<int32_t>(i);
  fail_bug("no such expression in the plan");
}
inline format::Step& step_of_kind(format::Plan& plan, format::StepKind kind) {
  for (format::Step& step : plan.steps)
    if (step.kind == kind) return step;
  fail_bug("no such step in the plan");
}

// ---- Generated code
inline void edit(std::string& unit, const char* pattern, const char* replacement) {
  unit = std::regex_replace(unit, std::regex(pattern), replacement);
}

}  // namespace kiln::seeded
