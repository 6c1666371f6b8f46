#include "debug/kernel_blame.h"

#include <algorithm>
#include <cstring>

#include "debug/bisect_checks.h"
#include "debug/exposed_kernel.h"
#include "debug/operator_values.h"
#include "debug/step_copy.h"
#include "package/step_plan.h"

namespace kiln {
namespace {

// The same memory filled in two ways, neither of which looks like a NaN: arithmetic changes both.
constexpr int first_poison = 0x3d, second_poison = 0x3e;

// Elements of a and b that differ in their bits; `untouched`: how many of those are still poison.
struct BitDifference {
  int64_t count = 0, untouched = 0;
};
BitDifference differing_bits(const Tensor& a, const Tensor& b) {
  BitDifference out;
  const auto bytes = static_cast<size_t>(dtype_bytes(a.dtype));
  const auto is = [&](const std::byte* at, int poison) {
    return std::all_of(at, at + bytes, [&](std::byte v) { return std::to_integer<int>(v) == poison; });
  };
  for (int64_t i = 0; i < a.numel(); ++i) {
    const std::byte* at_a = a.data() + a.element_offset(i) * dtype_bytes(a.dtype);
    const std::byte* at_b = b.data() + b.element_offset(i) * dtype_bytes(b.dtype);
    if (std::memcmp(at_a, at_b, bytes) == 0) continue;
    ++out.count;
    out.untouched += is(at_a, first_poison) && is(at_b, second_poison);
  }
  return out;
}

bool reads(const std::vector<loops::ValueId>& values, loops::ValueId v) {
  return std::count(values.begin(), values.end(), v) > 0;
}

// What statements make of this value, in one step.
std::set<loops::ValueId> computed_from(const loops::Body& body, loops::ValueId v) {
  std::set<loops::ValueId> out;
  loops::for_each_stmt(body, [&](const loops::Stmt& stmt) {
    if (!reads(stmt.args, v) && stmt.mask != v && !(stmt.loop && reads(stmt.loop->yields, v))) return;
    out.insert(stmt.results.begin(), stmt.results.end());
    if (stmt.loop) out.insert(stmt.loop->running.begin(), stmt.loop->running.end());
  });
  return out;
}

class Blame {
 public:
  explicit Blame(const BlameRequest& request)
      : r_(request), steps_(request.package.steps()), kernel_(*steps_.kernel(request.step.name)) {}

  KernelBlame find() {
    out_.op = r_.truth.only_node();
    StepCopy copy(r_.step, r_.inputs);
    try {
      steps_.run(copy.step());
    } catch (const Error& error) {
      if (error.code() != "K0330") throw;
      out_.fault = FaultClass::out_of_bounds;
      out_.notes += str("\n  ", error.message());
      if (!out_.op) find_operator_of_access(error.message());
      return out_;
    }
    if (!find_difference(judged(copy.output(r_.buffer)), r_.truth.fp64, r_.truth.nominal, r_.tolerance))
      blame_code();
    else
      blame_loops();
    return out_;
  }

  KernelBlame find_without_result(const Node* near) {
    out_.fault = FaultClass::crash;
    out_.op = r_.truth.only_node();
    StepCopy copy(r_.step, r_.inputs);
    try {
      steps_.run(copy.step());
      out_.notes += "\n  the kernel's loops, interpreted, stay inside their buffers: the machine code is at fault";
      if (!out_.op) choose(near ? std::vector<const Node*>{near} : std::vector<const Node*>());
    } catch (const Error& error) {
      if (error.code() != "K0330") throw;
      out_.fault = FaultClass::out_of_bounds;
      out_.notes += str("\n  ", error.message());
      if (!out_.op) find_operator_of_access(error.message());
    }
    return out_;
  }

 private:
  Tensor judged(const Tensor& whole) const { return r_.row ? row_of(whole, *r_.row) : whole; }

  // The message of a checked access says "loads x[i0 = 3, …" or "stores x[…". Of the statements that it may mean:
  // whatever they compute belongs to the operator whose value it becomes first.
  void find_operator_of_access(const std::string& message) {
    std::set<const Node*> found;
    SymbolValues iteration = symbols_of(r_.step);
    for (const auto& [name, value] : variables_in(message)) iteration[name] = value;
    loops::for_each_stmt(kernel_.body, [&](const loops::Stmt& stmt) {
      const bool load = stmt.kind == loops::StmtKind::load;
      if (!load && stmt.kind != loops::StmtKind::store) return;
      const std::string& name = steps_.program().buffers[static_cast<size_t>(stmt.buffer)].name;
      if (!speaks_of(message, str(load ? " loads " : " stores ", name, "["), stmt)) return;
      if (load) return nodes_reached(stmt.results[0], iteration, found);
      if (const Node* node = node_named(name)) found.insert(node);
      for (const loops::NamedValue& named : kernel_.named)
        if (const Node* node = named.value == stmt.args[0] ? node_named(named.name) : nullptr) found.insert(node);
    });
    choose({found.begin(), found.end()});
  }

  // "x[i0 = 3, i1 + 1 = 30, 0]"
  static bool speaks_of(const std::string& message, const std::string& begin, const loops::Stmt& stmt) {
    size_t at = message.find(begin);
    if (at == std::string::npos) return false;
    at += begin.size();
    for (const Expr& e : stmt.index) {
      const std::string text = e.is_constant() ? e.text() : e.text() + " = ";
      if (message.compare(at, text.size(), text) != 0) return false;
      at = message.find_first_of(",]", at + text.size());
      if (at == std::string::npos) return false;
      at += message[at] == ',' ? 2 : 0;
    }
    return true;
  }

  // The iteration that the message of a checked access speaks of: ", at i0 = 3, i1 = 29".
  static SymbolValues variables_in(const std::string& message) {
    SymbolValues out;
    const size_t at = message.rfind(", at ");
    if (at == std::string::npos) return out;
    for (const std::string& part : split(message.substr(at + 5), ','))
      if (const size_t equals = part.find(" = "); equals != std::string::npos)
        out[std::string(trim(part.substr(0, equals)))] = std::atoll(part.c_str() + equals + 3);
    return out;
  }

  // In this iteration the kernel computes an element that the value does not have: who asked for it is at fault.
  bool leaves_its_value(const loops::NamedValue& named, const SymbolValues& iteration) const {
    const TruthNode* node = truth_named(named.name);
    if (!node || node->truth.sizes.size() != named.index.size()) return false;
    for (size_t d = 0; d < named.index.size(); ++d) {
      try {
        const int64_t i = evaluate(named.index[d], iteration);
        if (i < 0 || i >= node->truth.sizes[d]) return true;
      } catch (const Error&) {
        continue;  // it depends on more than the loops around the access
      }
    }
    return false;
  }

  // The operators whose values are the first to be computed from this one.
  void nodes_reached(loops::ValueId from, const SymbolValues& iteration, std::set<const Node*>& out) const {
    std::set<loops::ValueId> reached = {from};
    std::set<loops::ValueId> done;
    for (bool more = true; more;) {
      more = false;
      for (loops::ValueId v : std::set<loops::ValueId>(reached)) {
        if (!done.insert(v).second) continue;
        more = true;
        bool ends = false;
        for (const loops::NamedValue& named : kernel_.named) {
          const Node* node = named.value == v ? node_named(named.name) : nullptr;
          if (node && !leaves_its_value(named, iteration)) out.insert(node), ends = true;
        }
        if (ends) continue;
        loops::for_each_stmt(kernel_.body, [&](const loops::Stmt& stmt) {
          if (stmt.kind == loops::StmtKind::store && reads(stmt.args, v))
            if (const Node* node = node_named(steps_.program().buffers[static_cast<size_t>(stmt.buffer)].name))
              out.insert(node);
        });
        reached.merge(computed_from(kernel_.body, v));
      }
    }
  }
  const TruthNode* truth_named(const std::string& name) const {
    for (const TruthNode& node : r_.truth.nodes)
      if (node.value->name == name || node.name == name) return &node;
    return nullptr;
  }
  const Node* node_named(const std::string& name) const {
    const TruthNode* found = truth_named(name);
    return found ? found->node : nullptr;
  }

  // One of these, in the order of the graph.
  void choose(const std::vector<const Node*>& nodes) {
    std::vector<const Node*> in_order;
    for (const TruthNode& at : r_.truth.nodes)
      if (std::count(nodes.begin(), nodes.end(), at.node) > 0 && (in_order.empty() || in_order.back() != at.node))
        in_order.push_back(at.node);
    if (in_order.empty())
      for (const TruthNode& at : r_.truth.nodes)
        if (in_order.empty() || in_order.back() != at.node) in_order.push_back(at.node);
    out_.op = in_order.size() == 1 ? in_order[0] : nullptr;
    if (in_order.size() > 1) out_.candidates = in_order;
  }

  ExposeRequest expose_request() const {
    return {steps_.program(), kernel_, r_.package, r_.step, r_.inputs, r_.source, r_.compiler, r_.call};
  }

  // Values of the graph that it reads from memory.
  std::set<std::string> loaded() const {
    std::set<std::string> names;
    loops::for_each_stmt(kernel_.body, [&](const loops::Stmt& stmt) {
      if (stmt.kind == loops::StmtKind::load)
        names.insert(steps_.program().buffers[static_cast<size_t>(stmt.buffer)].name);
    });
    for (const auto& [value, buffer] : r_.package.merged())
      if (names.count(buffer)) names.insert(value);
    return names;
  }

  // By the values between the operators, as the loops or the rebuilt code gave them.
  void judge(const Exposed& exposed, const char* method) {
    out_.method = method;
    if (out_.op) return;
    const SymbolValues symbols = symbols_of(r_.step);
    const OperatorValues values(kernel_, symbols, exposed, r_.graph, loaded());
    const auto given = [&](const TruthNode& node, const std::map<std::string, Tensor>& had) -> std::optional<Truth> {
      TruthRequest request{node.name, r_.known, symbols, 0, iterations_of(r_.step)};
      for (const auto& [name, tensor] : had) request.known[name] = tensor;
      try {
        return r_.graph.compute(request);
      } catch (const Error&) {
        return std::nullopt;
      }
    };
    const OperatorVerdict verdict =
        first_wrong_operator({values, r_.truth, r_.stored, r_.tolerance, given, out_.fault == FaultClass::code});
    std::vector<const Node*> nodes;
    for (const TruthNode* node : verdict.candidates) nodes.push_back(node->node);
    if (nodes.empty() && verdict.first) nodes.push_back(verdict.first->node);
    choose(nodes);
    if (verdict.first && verdict.candidates.empty() && !verdict.text.empty())
      out_.notes += str("\n  inside it ", verdict.first->name, " is wrong ", verdict.text);
  }

  void blame_loops() {
    judge(expose_by_loops(expose_request()), "loop interpreter");
    // The same loops on memory that nobody wrote, filled in two ways.
    std::map<std::string, Tensor> written = r_.inputs;
    for (const std::string& name : r_.internal) written.erase(name);
    StepCopy one(r_.step, written, first_poison), other(r_.step, written, second_poison);
    steps_.run(one.step()), steps_.run(other.step());
    const BitDifference bits = differing_bits(judged(one.output(r_.buffer)), judged(other.output(r_.buffer)));
    if (bits.count == 0) return;
    if (bits.untouched == bits.count) {
      if (!r_.part) out_.notes += str("\n  ", bits.count, " elements of ", r_.buffer, " are not written at all");
      return;
    }
    out_.fault = FaultClass::uninitialised;
    out_.notes += str("\n  uninitialised read: ", bits.count - bits.untouched, " elements of ", r_.buffer,
                      " depend on memory that nobody has written");
  }

  // The loops are right and the code is not: the plan gives it other numbers than it was printed for, or it is wrong.
  void blame_code() {
    out_.fault = FaultClass::code;
    if (wrong_numbers()) return;
    out_.notes += str("\n  the kernel's loops, interpreted, give the expected value: the generated code or the C++ ",
                      "compiler is at fault");
    try {
      rebuild();
    } catch (const Error& error) {
      out_.notes += str("\n  its code cannot be rebuilt to look inside it: ", error.message());
      if (!out_.op) choose({});
    }
  }

  bool wrong_numbers() {
    const format::Plan& plan = r_.package.plan();
    const format::Step* step = format::find_step(plan, r_.step.number);
    if (!step) return false;
    const codegen::StepCode printed = codegen::backend_for(plan.device).step_code(kernel_, steps_.program());
    if (printed.ints.size() != step->ints.size()) return false;  // another version of Kiln printed it
    for (size_t i = 0; i < step->ints.size(); ++i) {
      const std::string& given = plan.exprs[static_cast<size_t>(step->ints[i])].text;
      if (given == printed.ints[i].text()) continue;
      out_.fault = FaultClass::layout, out_.op = nullptr;
      out_.notes += str("\n  plan fault (wrong symbol): the plan gives the kernel ", given, " as its size n", i,
                        " where the loops say ", printed.ints[i].text());
      return true;
    }
    return false;
  }

  void rebuild() {
    const Exposed rebuilt = expose_by_code(expose_request());
    const bool wrong =
        find_difference(judged(rebuilt.arguments.at(r_.buffer)), r_.truth.fp64, r_.truth.nominal, r_.tolerance)
            .has_value();
    if (wrong) return judge(rebuilt, "instrumented rebuild");
    out_.notes +=
        "\n  an instrumented rebuild of the kernel is right: the package's machine code is not what this Kiln and this "
        "compiler make of its loops";
    if (!out_.op) choose({});
  }

  const BlameRequest& r_;
  StepInterpreter& steps_;
  const loops::Kernel& kernel_;
  KernelBlame out_;
};

}  // namespace

KernelBlame blame_kernel(const BlameRequest& request) {
  if (request.package.steps().kernel(request.step.name)) return Blame(request).find();
  KernelBlame out;  // a library kernel or custom operator: one operator, no loops
  out.op = request.truth.only_node();
  return out;
}

KernelBlame blame_without_result(const BlameRequest& request, const Node* near) {
  if (request.package.steps().kernel(request.step.name)) return Blame(request).find_without_result(near);
  KernelBlame out;
  out.fault = FaultClass::crash;
  out.op = request.truth.only_node();
  return out;
}

std::vector<std::string> values_made_of(const StepInterpreter& steps, const std::string& step) {
  std::vector<std::string> out;
  const loops::Kernel* made_by = steps.kernel(step);
  if (!made_by || !made_by->named.empty()) return out;
  std::set<loops::BufferId> written;
  loops::for_each_stmt(made_by->body, [&](const loops::Stmt& stmt) {
    if (stmt.kind == loops::StmtKind::store) written.insert(stmt.buffer);
  });
  loops::for_each_item(steps.program().block, [&](const loops::Item& item) {
    const auto* kernel = std::get_if<loops::Kernel>(&item.what);
    if (!kernel || kernel == made_by) return;
    std::set<loops::ValueId> reached;
    loops::for_each_stmt(kernel->body, [&](const loops::Stmt& stmt) {
      if (stmt.kind == loops::StmtKind::load && written.count(stmt.buffer)) reached.insert(stmt.results[0]);
    });
    std::set<std::string> names;
    for (std::vector<loops::ValueId> left(reached.begin(), reached.end()); !left.empty();) {
      const loops::ValueId v = left.back();
      left.pop_back();
      bool ends = false;
      for (const loops::NamedValue& named : kernel->named)
        if (named.value == v) names.insert(named.name), ends = true;
      if (ends) continue;
      for (const loops::ValueId next : computed_from(kernel->body, v))
        if (reached.insert(next).second) left.push_back(next);
    }
    out.insert(out.end(), names.begin(), names.end());
  });
  return out;
}

std::string first_differing_value(PackageDebug& package, const kiln_step& step,
                                  const std::map<std::string, Tensor>& inputs, const DifferenceOptions& tolerance,
                                  const std::string& compiler, std::string& notes) {
  const loops::Kernel* kernel = package.steps().kernel(step.name);
  if (!kernel) return "";
  try {
    const ExposeRequest request{package.steps().program(), *kernel, package, step, inputs, {}, compiler, 1};
    const Exposed by_loops = expose_by_loops(request), by_code = expose_by_code(request);
    for (const loops::NamedValue& named : kernel->named) {
      const auto expected = by_loops.values.find(named.value), got = by_code.values.find(named.value);
      if (expected == by_loops.values.end() || got == by_code.values.end()) continue;
      if (find_difference(got->second.values, expected->second.values, {}, tolerance)) return named.name;
    }
    notes +=
        "\n  an instrumented rebuild of the kernel does as its loops: the package's machine code is not what this Kiln "
        "and this compiler make of them";
  } catch (const Error& error) {
    notes += str("\n  its code cannot be rebuilt to look inside it: ", error.message());
  }
  return "";
}

}  // namespace kiln
