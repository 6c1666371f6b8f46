// check_plan: what the runtime relies on without looking again.
#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"
#include "package/plan_io.h"
#include "package/step_plan.h"

namespace kiln::format {
namespace {

bool known(DType dtype) { return static_cast<int>(dtype) < dtype_count; }
bool known(DeviceType device) { return device == DeviceType::cpu || device == DeviceType::cuda; }
bool known(Access access) { return access >= Access::read && access <= Access::update; }

class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan) {}

  void run() {
    for (size_t i = 0; i < plan_.exprs.size(); ++i) expression(i);
    symbols();
    guards();
    inputs();
    outputs();
    for (const Constant& c : plan_.constants) {
      require(c.origin <= ConstantOrigin::other, str("constant ", c.name, " is of an unknown origin"));
      require(c.storage_offset >= 0 && c.bytes >= 0 && c.storage_offset <= INT64_MAX - c.bytes,
              str("constant ", c.name, " has a negative offset or size"));
    }
    for (size_t i = 0; i < plan_.buffers.size(); ++i) buffer(i);
    for (size_t i = 0; i < plan_.buffers.size(); ++i) alias(i);  // of any other, once all are known to be good
    require(known(plan_.device), "it is for an unknown device");
    for (const CodeObject& c : plan_.code) require(known(c.device), str("the code for ", c.target, " is for none"));
    require(plan_.metadata_keys.size() == plan_.metadata_values.size(), "metadata keys and values differ in number");
    steps(plan_.init, 0);
    steps(plan_.steps, 0);
    packed_constants();
  }

 private:
  static void require(bool ok, const std::string& message) {
    if (!ok) fail_user("K0503", str("the plan of this package is inconsistent: ", message));
  }
  template <class T>
  void index(int64_t i, const std::vector<T>& table, const std::string& what, bool optional = false) const {
    if (optional && i == none) return;
    if (i < 0 || i >= static_cast<int64_t>(table.size())) require(false, str(what, " is ", i, " of ", table.size()));
  }
  void expr(ExprIndex e, const std::string& what, bool optional = false) const {
    index(e, plan_.exprs, what, optional);
  }

  static int operands(ExprCode code) {
    switch (code) {
      case ExprCode::constant:
      case ExprCode::symbol:
      case ExprCode::float_constant:
        return 0;
      case ExprCode::neg:
      case ExprCode::logical_not:
      case ExprCode::to_float:
      case ExprCode::to_int:
      case ExprCode::floor_to_int:
      case ExprCode::ceil_to_int:
      case ExprCode::sqrt:
      case ExprCode::float_neg:
        return 1;
      case ExprCode::ite:
        return 3;
      default:
        return 2;
    }
  }

  void expression(size_t i) const {
    int depth = 0;
    std::string what = str("expression ", i);
    for (const ExprInstruction& in : plan_.exprs[i].code) {
      require(in.code <= ExprCode::float_mod, what + " has an unknown instruction");
      if (in.code == ExprCode::symbol) index(in.operand, plan_.symbols, what + ": symbol");
      int takes = operands(in.code);
      require(depth >= takes, what + " takes more than its stack has");
      depth += 1 - takes;
      require(depth <= max_expr_depth, what + " is too deep");
    }
    require(depth == 1, what + " does not leave one value");
  }

  void symbols() const {
    for (size_t i = 0; i < plan_.symbols.size(); ++i) {
      const Symbol& s = plan_.symbols[i];
      solvable(s, i);
      require(s.source <= SymbolSource::iteration, str("symbol ", s.name, " has an unknown source"));
      require(s.low <= s.high, str("symbol ", s.name, " has an empty range"));
      if (s.source == SymbolSource::input_size || s.source == SymbolSource::input_value) {
        index(s.input, plan_.inputs, str("symbol ", s.name, ": input"));
        const Input& in = plan_.inputs[static_cast<size_t>(s.input)];
        bool of_tensor = s.source == SymbolSource::input_size;
        require(of_tensor == (in.what == InputWhat::tensor),
                str("symbol ", s.name, ": input ", in.name, " is of another kind"));
        if (of_tensor) {
          index(in.buffer, plan_.buffers, str("input ", in.name, ": buffer"));
          index(s.dim, plan_.buffers[static_cast<size_t>(in.buffer)].sizes, str("symbol ", s.name, ": dimension"));
        }
      }
    }
  }

  void solvable(const Symbol& s, size_t slot) const {
    require(s.scale != 0 && s.scale != INT64_MIN, str("symbol ", s.name, " has no scale"));
    expr(s.rest, str("symbol ", s.name, ": rest"), true);
    if (s.rest == none) return;
    for (const ExprInstruction& in : plan_.exprs[static_cast<size_t>(s.rest)].code)
      require(in.code != ExprCode::symbol || in.operand < static_cast<int64_t>(slot),
              str("symbol ", s.name, " depends on a later one"));
  }

  void guards() const {
    for (const Guard& g : plan_.guards) expr(g.condition, str("guard ", g.text, ": condition"));
  }

  void inputs() const {
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const Input& in = plan_.inputs[i];
      std::string what = str("input ", i, " (", in.name, ")");
      require(in.what <= InputWhat::ignored && in.constant_kind <= ConstantKind::string,
              what + " is of an unknown kind");
      if (in.what == InputWhat::tensor) {
        index(in.buffer, plan_.buffers, what + ": buffer");
        const Buffer& b = plan_.buffers[static_cast<size_t>(in.buffer)];
        require(b.role == BufferRole::input && b.position == static_cast<int64_t>(i),
                what + ": its buffer is another one's");
      } else if (in.what <= InputWhat::sym_bool) {
        index(in.symbol, plan_.symbols, what + ": symbol", true);
      }
    }
  }

  void outputs() const {
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const Output& out = plan_.outputs[i];
      std::string what = str("output ", i);
      require(out.what <= OutputWhat::string, what + " is of an unknown kind");
      if (out.what == OutputWhat::tensor)
        index(out.buffer, plan_.buffers, what + ": buffer");
      else if (out.what == OutputWhat::string)
        require(out.text.find('\0') == std::string::npos, what + " is a text with a zero byte in it");
      else if (out.what != OutputWhat::none)
        expr(out.expr, what + ": expression");
    }
  }

  void buffer(size_t i) const {
    const Buffer& b = plan_.buffers[i];
    std::string what = str("buffer ", b.name);
    require(known(b.dtype) && b.role <= BufferRole::temp && known(b.device),
            what + " has an unknown dtype, role or device");
    require(b.sizes.size() == b.strides.size() && b.sizes.size() <= 64, what + " has a wrong number of strides");
    for (ExprIndex e : b.sizes) expr(e, what + ": size");
    for (ExprIndex e : b.strides) expr(e, what + ": stride");
    expr(b.offset, what + ": offset", true);
    bool allocated = b.role == BufferRole::temp || b.role == BufferRole::derived || b.role == BufferRole::output;
    expr(b.bytes, what + ": bytes", !allocated || b.same_memory_as != none);
    require(b.alignment >= 1 && b.alignment <= 4096 && (b.alignment & (b.alignment - 1)) == 0,
            what + " has a bad alignment");
    require(b.entry.empty() || (b.role == BufferRole::derived && b.same_memory_as == none),
            what + " has an entry and is not derived");
    if (b.role == BufferRole::input) {
      index(b.position, plan_.inputs, what + ": input");
      require(plan_.inputs[static_cast<size_t>(b.position)].buffer == static_cast<int64_t>(i),
              what + " is not its input's buffer");
    }
    if (b.role == BufferRole::constant) index(b.position, plan_.constants, what + ": constant");
    if (b.role == BufferRole::output) {
      index(b.position, plan_.outputs, what + ": output");
      require(plan_.outputs[static_cast<size_t>(b.position)].what == OutputWhat::tensor,
              what + ": its output is no tensor");
      // Its memory is the output's: any other buffer there would leave this one without.
      require(plan_.outputs[static_cast<size_t>(b.position)].buffer == static_cast<int64_t>(i),
              what + " is not its output's buffer");
    }
  }

  // What the package has only in packed form is read by nothing but the step that packs it.
  void packed_constants() const {
    const auto packed = [&](int32_t b) {
      const Buffer& buffer = plan_.buffers[static_cast<size_t>(b)];
      return buffer.role == BufferRole::constant &&
             plan_.constants[static_cast<size_t>(buffer.position)].packed_in != none;
    };
    for (const Constant& c : plan_.constants) {
      if (c.packed_in == none) continue;
      index(c.packed_in, plan_.buffers, str("constant ", c.name, ": packed form"));
      require(!plan_.buffers[static_cast<size_t>(c.packed_in)].entry.empty() && c.entry.empty() && !c.mutated,
              str("constant ", c.name, " has no packed form"));
    }
    for (size_t i = 0; i < plan_.constants.size(); ++i) {
      const Constant& c = plan_.constants[i];
      if (c.same_as == none) continue;
      require(c.same_as >= 0 && static_cast<size_t>(c.same_as) < i, str("constant ", c.name, " is a later one's"));
      const Constant& first = plan_.constants[static_cast<size_t>(c.same_as)];
      require(first.same_as == none && first.bytes == c.bytes && first.mutated == c.mutated,
              str("constant ", c.name, " is not what ", first.name, " is"));
    }
    for (const Output& out : plan_.outputs)
      require(out.what != OutputWhat::tensor || !packed(out.buffer),
              str("output ", out.name, " is a constant that is there in packed form only"));
    for (const Step& s : plan_.init) packing(s, packed);
    const std::function<void(const std::vector<Step>&)> none_of = [&](const std::vector<Step>& block) {
      for (const Step& s : block) {
        for (const KernelArg& a : buffers_used(s))
          require(!packed(a.buffer), str("step ", s.name, " reads a constant that is there in packed form only"));
        for (const auto& inner : s.blocks) none_of(inner);
      }
    };
    none_of(plan_.steps);
    for (const Step& s : plan_.init)
      for (const auto& inner : s.blocks) none_of(inner);
  }

  template <class Packed>
  void packing(const Step& s, const Packed& packed) const {
    const std::vector<KernelArg> used = buffers_used(s);
    if (std::none_of(used.begin(), used.end(), [&](const KernelArg& a) { return packed(a.buffer); })) return;
    require(s.kind == StepKind::kernel, str("step ", s.name, " packs a constant and is no kernel"));
    for (const KernelArg& a : used)
      require(!writes(a.access) || !plan_.buffers[static_cast<size_t>(a.buffer)].entry.empty(),
              str("step ", s.name, " reads a constant that is there in packed form only"));
  }

  void alias(size_t i) const {
    const Buffer& b = plan_.buffers[i];
    if (b.same_memory_as == none) return;
    require(b.role == BufferRole::temp || b.role == BufferRole::output,
            str("buffer ", b.name, " may not share memory"));
    index(b.same_memory_as, plan_.buffers, str("buffer ", b.name, ": same_memory_as"));
    require(plan_.buffers[static_cast<size_t>(b.same_memory_as)].device == b.device,
            str("buffer ", b.name, " shares memory with one of another device"));
    size_t at = i, hops = 0;
    while (plan_.buffers[at].same_memory_as != none) {
      index(plan_.buffers[at].same_memory_as, plan_.buffers, str("buffer ", b.name, ": same_memory_as"));
      at = static_cast<size_t>(plan_.buffers[at].same_memory_as);
      require(++hops <= plan_.buffers.size(), str("buffer ", b.name, " shares memory in a circle"));
    }
    BufferRole root = plan_.buffers[at].role;
    require(root != BufferRole::derived, str("buffer ", b.name, " would overwrite a derived constant"));
    if (root == BufferRole::input)
      require(plan_.inputs[static_cast<size_t>(plan_.buffers[at].position)].mutated,
              str("buffer ", b.name, " would overwrite an input that nothing mutates"));
    if (root == BufferRole::constant)
      require(plan_.constants[static_cast<size_t>(plan_.buffers[at].position)].mutated,
              str("buffer ", b.name, " would overwrite a constant that nothing mutates"));
    require(b.role != BufferRole::output || root == BufferRole::temp,
            str("output buffer ", b.name, " shares the memory of an input, a constant or another output"));
  }

  void steps(const std::vector<Step>& block, int depth) {
    require(depth <= max_block_depth, "blocks are nested too deeply");
    for (const Step& s : block) step(s, depth);
  }

  void step(const Step& s, int depth) {
    std::string what = str("step ", s.name);
    require(s.kind <= StepKind::while_loop, what + " is of an unknown kind");
    require(numbers_.insert(s.number).second, what + " has a number that another step has");
    require(known(s.device), what + " runs nowhere");
    for (const KernelArg& a : s.args) {
      index(a.buffer, plan_.buffers, what + ": argument");
      require(known(a.access), what + " has an argument without access");
      require(s.kind != StepKind::kernel || plan_.buffers[static_cast<size_t>(a.buffer)].device == s.device,
              str(what, " and its argument ", plan_.buffers[static_cast<size_t>(a.buffer)].name,
                  " are on different devices"));
      if (writes(a.access)) writable(a.buffer, what);
    }
    for (ExprIndex e : s.ints) expr(e, what + ": integer");
    expr(s.items, what + ": item count", s.kind != StepKind::kernel);
    expr(s.grain, what + ": grain", true);
    expr(s.scratch, what + ": scratch", true);
    require(s.scratch == none || s.kind == StepKind::kernel, what + " wants scratch and is no kernel");
    expr(s.condition, what + ": condition", true);
    for (int32_t b : s.outputs) index(b, plan_.buffers, what + ": output"), writable(b, what);
    for (int32_t b : s.mutates) index(b, plan_.buffers, what + ": mutated argument"), writable(b, what);
    for (int32_t i : s.sites) index(i, plan_.sites, what + ": site");
    for (int32_t d : s.defines) defined_symbol(d, what);
    for (const CallArg& a : s.call_args) call_arg(a, what);
    by_kind(s, what);
    index(s.iteration_symbol, plan_.symbols, what + ": iteration symbol", true);
    if (s.iteration_symbol != none)
      require(plan_.symbols[static_cast<size_t>(s.iteration_symbol)].source == SymbolSource::iteration,
              what + ": wrong iteration symbol");
    for (const auto& block : s.blocks) steps(block, depth + 1);
  }

  void by_kind(const Step& s, const std::string& what) const {
    auto args = s.args.size();
    switch (s.kind) {
      case StepKind::kernel:
        index(s.kernel, plan_.kernels, what + ": kernel");
        break;
      case StepKind::bind_symbol:
        require(args == 1 && s.defines.size() == 1, what + ": a binding has one buffer, one symbol");
        break;
      case StepKind::assert_that:
        require(s.condition != none, what + " asserts nothing");
        break;
      case StepKind::cond:
        require(s.blocks.size() == 2 && (args == 1) != (s.condition != none),
                what + ": a cond has a predicate, two blocks");
        break;
      case StepKind::while_loop:
        require(s.blocks.size() == 2 && (args == 1) != (s.condition != none),
                what + ": a loop has a predicate, two blocks");
        break;
      default:
        require(!s.target.empty(), what + " has no target");
    }
    if (s.kind == StepKind::cond || s.kind == StepKind::while_loop) return;
    require(s.blocks.empty(), what + " has blocks");
  }

  void writable(int32_t b, const std::string& what) const {
    size_t at = static_cast<size_t>(b);
    const Buffer& buffer = plan_.buffers[at];
    if (buffer.role == BufferRole::constant)
      require(plan_.constants[static_cast<size_t>(buffer.position)].mutated,
              str(what, " writes constant ", buffer.name, ", which is not mutable"));
    if (buffer.role == BufferRole::input)
      require(plan_.inputs[static_cast<size_t>(buffer.position)].mutated,
              str(what, " writes input ", buffer.name, ", which is not mutable"));
  }

  void defined_symbol(int32_t d, const std::string& what) const {
    index(d, plan_.symbols, what + ": defined symbol");
    require(plan_.symbols[static_cast<size_t>(d)].source == SymbolSource::step,
            what + " defines a symbol of the inputs");
  }

  void call_arg(const CallArg& a, const std::string& what) const {
    std::string arg = str(what, ": argument ", a.name);
    require(a.kind <= ArgKind::dtype, arg + " is of an unknown kind");
    bool single = a.kind == ArgKind::buffer || a.kind == ArgKind::expr || a.kind == ArgKind::dtype;
    if (single) require(a.items.size() == 1, arg + " has not one item");
    for (int32_t item : a.items) {
      if (a.is_tensors()) index(item, plan_.buffers, arg, a.kind == ArgKind::buffers);
      if (a.is_integers()) expr(item, arg);
      if (a.kind == ArgKind::dtype) require(item >= 0 && item < dtype_count, arg + " is no dtype");
    }
  }

  const Plan& plan_;
  std::set<int32_t> numbers_;
};

}  // namespace

void check_plan(const Plan& plan) { Checker(plan).run(); }

}  // namespace kiln::format
