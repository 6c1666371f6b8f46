#include "debug/kernel_blame.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "debug/instrumented_kernel.h"
#include "debug/operator_trace.h"
#include "debug/step_copy.h"
#include "driver/compare.h"
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

class Blame {
 public:
  explicit Blame(const BlameRequest& request)
      : r_(request), steps_(request.package.steps()), kernel_(*steps_.kernel(request.step.name)) {}

  KernelBlame find() {
    StepCopy copy(r_.step, r_.inputs);
    try {
      steps_.run(copy.step());
    } catch (const Error& error) {
      if (error.code() != "K0330") throw;
      out_.fault = FaultClass::out_of_bounds;
      out_.notes += str("\n  ", error.message());
      out_.op = r_.truth.nodes.size() == 1 ? r_.truth.nodes[0].node : operator_of_access(error.message());
      return out_;
    }
    find_operator();
    if (!find_difference(copy.output(r_.buffer), r_.truth.fp64, r_.truth.nominal, r_.tolerance))
      blame_code();
    else
      blame_loops(copy.output(r_.buffer));
    return out_;
  }

 private:
  void find_operator() {
    if (r_.truth.nodes.size() == 1) out_.op = r_.truth.nodes[0].node;
    trace_ = std::make_unique<OperatorTrace>(r_.truth.nodes, kernel_.value_types);
    follow_store(kernel_.body);
    StepCopy copy(r_.step, r_.inputs);
    const loops::ValueTrace see = [&](loops::ValueId id, const loops::Cell& cell) { trace_->see(id, cell); };
    steps_.run(copy.step(), &see);
    trace_->finish(copy.output(r_.buffer));
  }

  void follow_store(const loops::Body& body) {
    for (const loops::Stmt& stmt : body) {
      if (stmt.loop) follow_store(stmt.loop->body);
      if (stmt.kind != loops::StmtKind::store) continue;
      if (steps_.program().buffers[static_cast<size_t>(stmt.buffer)].name != r_.buffer) continue;
      std::vector<loops::ValueId> beside;
      for (const loops::Stmt& other : body) beside.insert(beside.end(), other.results.begin(), other.results.end());
      trace_->follow(stmt.args[0], beside);
    }
  }

  // An operator that only moves values (a view, an alias, a copy) is at fault when what was computed are the right
  // values in other places; else it is the operator whose values it moves.
  const Node* behind_moves(const Node* op, const Tensor& got) const {
    std::vector<double> computed = sorted(got);
    for (bool moved = true; moved && op;) {
      moved = false;
      const TruthNode* at = node_of(op);
      if (!at || is_complex(got.dtype)) return op;
      for (const auto& named : op->args)
        for_each_value(named.arg, [&](Value* value) {
          const TruthNode* from = value && value->producer ? node_of(value->producer) : nullptr;
          if (moved || !from || from->value != value || sorted(from->truth) != sorted(at->truth)) return;
          if (same(computed, sorted(from->truth), got.dtype)) return;
          op = value->producer, moved = true;
        });
    }
    return op;
  }
  const TruthNode* node_of(const Node* op) const {
    for (const TruthNode& node : r_.truth.nodes)
      if (node.node == op) return &node;
    return nullptr;
  }
  static std::vector<double> sorted(const Tensor& tensor) {
    std::vector<double> out;
    if (is_complex(tensor.dtype)) return out;
    for (int64_t i = 0; i < tensor.numel(); ++i) out.push_back(tensor.item(i).as_double());
    std::sort(out.begin(), out.end());
    return out;
  }
  static bool same(const std::vector<double>& a, const std::vector<double>& b, DType dtype) {
    const Tolerance tolerance = default_tolerance(dtype);
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](double x, double y) {
      return std::abs(x - y) <= tolerance.atol + tolerance.rtol * std::abs(y);
    });
  }

  // The message of a checked access says "loads x[…" or "stores to x[…": the operator is the one whose result the loop
  // around such an access stores.
  const Node* operator_of_access(const std::string& message) {
    std::string stored;
    loops::for_each_stmt(kernel_.body, [&](const loops::Stmt& loop) {
      if (loop.kind != loops::StmtKind::loop) return;
      bool accesses = false;
      std::string here;
      loops::for_each_stmt(loop.loop->body, [&](const loops::Stmt& s) {
        if (s.buffer == loops::no_buffer) return;
        const std::string& name = steps_.program().buffers[static_cast<size_t>(s.buffer)].name;
        accesses |= message.find(str(" ", name, "[")) != std::string::npos;
        if (s.kind == loops::StmtKind::store && here.empty()) here = name;
      });
      if (accesses && !here.empty()) stored = here;  // inner loops come later
    });
    for (const TruthNode& node : r_.truth.nodes)
      if (node.value->name == stored) return node.node;
    return nullptr;
  }

  void blame_loops(const Tensor& interpreted) {
    if (!out_.op) {
      out_.op = trace_->first_wrong();
      if (out_.op == last_operator()) out_.op = behind_moves(out_.op, interpreted);
      if (out_.op) out_.method = "loop interpreter";
    }
    // The same loops on memory that nobody wrote, filled in two ways.
    std::map<std::string, Tensor> written = r_.inputs;
    for (const std::string& name : r_.internal) written.erase(name);
    StepCopy one(r_.step, written, first_poison), other(r_.step, written, second_poison);
    steps_.run(one.step()), steps_.run(other.step());
    const BitDifference bits = differing_bits(one.output(r_.buffer), other.output(r_.buffer));
    if (bits.count == 0) return;
    if (bits.untouched == bits.count) {
      out_.notes += str("\n  ", bits.count, " elements of ", r_.buffer, " are not written at all");
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
      out_.notes += str("\n  the operator inside it cannot be named: ", error.message());
    }
  }

  codegen::CpuTarget target() const {
    std::string name = codegen::host_target_name();
    const auto& code = r_.package.plan().code;
    const auto same = [&](const format::CodeObject& object) { return object.target == name; };
    if (!code.empty() && std::none_of(code.begin(), code.end(), same)) name = code.front().target;
    int simdlen = 0;
    for (const std::string& line : split(r_.package.entry("debug/settings.txt").value_or(""), '\n'))
      if (starts_with(line, "cpp.simdlen=")) simdlen = std::atoi(line.c_str() + std::strlen("cpp.simdlen="));
    return codegen::cpu_target(name, simdlen);
  }

  bool wrong_numbers() {
    const format::Plan& plan = r_.package.plan();
    const format::Step* step = format::find_step(plan, r_.step.number);
    if (!step) return false;
    const codegen::PrintedKernel printed = codegen::KernelPrinter(kernel_, steps_.program(), target().lanes).print();
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
    const InstrumentedResult rebuilt =
        run_instrumented({steps_.program(), kernel_, target(), r_.step, r_.inputs, r_.source, r_.compiler});
    if (rebuilt.first == loops::no_value) {
      const bool wrong =
          find_difference(rebuilt.outputs.at(r_.buffer), r_.truth.fp64, r_.truth.nominal, r_.tolerance).has_value();
      out_.notes += wrong
                        ? "\n  an instrumented rebuild is wrong only where it stores its result"
                        : "\n  an instrumented rebuild of the kernel is right: the package's machine code is not what "
                          "this Kiln and this compiler make of its loops";
      if (wrong && !out_.op) out_.op = last_operator();
      if (wrong) out_.method = "instrumented rebuild";
      return;
    }
    out_.notes += str("\n  in an instrumented rebuild the first wrong statement is %", rebuilt.first, ", ",
                      rebuilt.text, " (expected: the loops)");
    out_.method = "instrumented rebuild";
    if (out_.op) return;
    // A statement that is only a part of an operator belongs to the next one that is complete.
    auto at = std::find(rebuilt.order.begin(), rebuilt.order.end(), rebuilt.first);
    for (; at != rebuilt.order.end() && !out_.op; ++at) out_.op = trace_->node_of(*at);
    if (!out_.op) out_.op = last_operator();
  }

  const Node* last_operator() const {
    for (const TruthNode& node : r_.truth.nodes)
      if (node.wanted) return node.node;
    return nullptr;
  }

  const BlameRequest& r_;
  StepInterpreter& steps_;
  const loops::Kernel& kernel_;
  std::unique_ptr<OperatorTrace> trace_;
  KernelBlame out_;
};

}  // namespace

KernelBlame blame_kernel(const BlameRequest& request) {
  if (request.package.steps().kernel(request.step.name)) return Blame(request).find();
  KernelBlame out;  // a library kernel or custom operator: one operator, no loops
  if (request.truth.nodes.size() == 1) out.op = request.truth.nodes[0].node;
  return out;
}

}  // namespace kiln
