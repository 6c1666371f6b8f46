#include "package/plan_builder.h"

#include "kiln/kernel_abi.h"
#include "package/expr_table.h"
#include "package/symbol_sources.h"

namespace kiln {
using namespace loops;
static_assert(codegen::kernel_table_version == KILN_KERNEL_ABI_VERSION);
namespace {

class PlanBuilder {
 public:
  PlanBuilder(const LoopProgram& program, const codegen::GeneratedCode& code, DeviceType device,
              const ValueNodes& nodes)
      : program_(program), code_(code), device_(device), nodes_(nodes) {}

  BuiltPlan build() {
    plan().model_name = program_.name;
    plan().device = device_;
    plan().kernel_abi = KILN_KERNEL_ABI_VERSION;
    add_symbols();
    for (const std::string& symbol : code_.symbols) plan().kernels.push_back({symbol});
    for (const Buffer& buffer : program_.buffers) add_buffer(buffer);
    add_inputs();
    add_outputs();
    for (const Guard& guard : program_.guards)
      plan().guards.push_back({exprs_.add(guard.condition), guard.condition.text(), guard.reason});
    plan().uses_random = draws_random_numbers();
    plan().numbered_draws = true;
    plan().init = steps(program_.init);
    plan().steps = steps(program_.block);
    plan().exprs = exprs_.take();
    return std::move(built_);
  }

 private:
  format::Plan& plan() { return built_.plan; }

  bool draws_random_numbers() const {
    bool found = false;
    for_each_item(program_.block, [&](const Item& item) {
      if (auto* kernel = std::get_if<Kernel>(&item.what))
        for_each_stmt(kernel->body, [&](const Stmt& stmt) { found |= stmt.kind == StmtKind::random; });
    });
    return found;
  }

  void add_symbols() {
    for (const SymbolSourceInfo& info : symbol_sources(program_)) {
      format::Symbol symbol;
      symbol.name = info.name;
      symbol.source = info.source;
      symbol.input = info.input;
      symbol.dim = info.dim;
      symbol.low = info.range.low;
      symbol.high = info.range.high;
      symbol.scale = info.scale;
      if (!info.rest.is_constant(0)) symbol.rest = exprs_.add(info.rest);
      exprs_.define_symbol(info.name, static_cast<int>(plan().symbols.size()));
      plan().symbols.push_back(symbol);
    }
  }

  // The plan does not list scratch: a step says how much of it there is.
  int32_t place(BufferId id) const { return id == no_buffer ? format::none : places_[static_cast<size_t>(id)]; }
  std::vector<int32_t> places(const std::vector<BufferId>& ids) const {
    std::vector<int32_t> out;
    for (BufferId id : ids) out.push_back(place(id));
    return out;
  }

  void add_buffer(const Buffer& from) {
    places_.push_back(from.role == BufferRole::scratch ? format::none : static_cast<int32_t>(plan().buffers.size()));
    if (from.role == BufferRole::scratch) return;
    format::Buffer to;
    to.name = from.name;
    to.dtype = from.tensor_dtype();
    to.device = device_;
    to.sizes = exprs_.add_all(from.tensor_sizes());
    to.strides = exprs_.add_all(from.tensor_strides());
    to.bytes = exprs_.add(buffer_bytes(from));
    to.position = from.position;
    switch (from.role) {
      case BufferRole::input:
        to.role = format::BufferRole::input;
        break;
      case BufferRole::derived:
        to.role = format::BufferRole::derived;
        break;
      case BufferRole::output:
        to.role = format::BufferRole::output;
        break;
      case BufferRole::temp:
      case BufferRole::scratch:
        to.role = format::BufferRole::temp;
        break;
      case BufferRole::constant:
        to.role = format::BufferRole::constant;
        to.position = static_cast<int32_t>(plan().constants.size());
        plan().constants.push_back(constant_of(from));
        break;
    }
    // Kernels assume no more than the element's own alignment of memory that others own.
    bool ours = from.role == BufferRole::temp || from.role == BufferRole::derived;
    to.alignment = ours ? 64 : static_cast<int32_t>(std::min<int64_t>(dtype_bytes(from.dtype), 8));
    plan().buffers.push_back(std::move(to));
  }

  static format::Constant constant_of(const Buffer& from) {
    format::Constant constant;
    constant.name = from.constant;
    constant.mutated = from.mutated;
    return constant;
  }

  void add_inputs() {
    for (const LoopProgram::Input& from : program_.inputs) {
      format::Input to;
      to.name = from.name;
      if (auto* buffer = std::get_if<BufferId>(&from.what)) {
        to.buffer = place(*buffer);
        to.mutated = program_.buffers[static_cast<size_t>(*buffer)].mutated;
      } else if (auto* symbol = std::get_if<std::string>(&from.what)) {
        to.what = format::InputWhat::sym_int;
        to.symbol = exprs_.slot(*symbol);
      } else {
        constant_input(std::get<Argument>(from.what), to);
      }
      plan().inputs.push_back(std::move(to));
    }
  }

  static void constant_input(const Argument& arg, format::Input& to) {
    to.what = format::InputWhat::constant;
    if (auto* text = std::get_if<std::string>(&arg.value)) {
      to.constant_kind = format::ConstantKind::string;
      to.constant_string = *text;
    } else if (arg.is_scalar()) {
      const Scalar& scalar = arg.as_scalar();
      to.constant_kind = scalar.is_bool()  ? format::ConstantKind::boolean
                         : scalar.is_int() ? format::ConstantKind::integer
                                           : format::ConstantKind::floating;
      to.constant_int = scalar.is_float() ? 0 : scalar.as_int();
      to.constant_float = scalar.as_double();
    } else if (!arg.is_none()) {
      to.what = format::InputWhat::ignored;  // dtypes, devices, layouts: fixed by the export
    }
  }

  // What the program gives whatever its inputs. Left out, it would silently be None.
  void constant_output(size_t index, const Argument& arg, format::Output& to) {
    to.what = format::OutputWhat::none;
    if (arg.is_none()) return;
    if (const auto* text = std::get_if<std::string>(&arg.value); text && text->find('\0') == std::string::npos) {
      to.what = format::OutputWhat::string;
      to.text = *text;
    } else if (arg.is_scalar() && !arg.as_scalar().is_complex()) {
      const Scalar& scalar = arg.as_scalar();
      to.what = scalar.is_bool()  ? format::OutputWhat::boolean
                : scalar.is_int() ? format::OutputWhat::integer
                                  : format::OutputWhat::floating;
      to.expr = exprs_.add(scalar.is_float() ? Expr::float_constant(scalar.as_double()) : Expr(scalar.as_int()));
    } else {
      fail_unsupported("K0166", str("output ", index, " of the program is ", constant_text(arg),
                                    ": packages hold tensors, whole and floating-point numbers, truth values, texts "
                                    "without a zero byte, and None"));
    }
  }

  static std::string constant_text(const Argument& arg) {
    if (arg.is_scalar()) return str("the number ", arg.as_scalar().text());
    if (arg.is_list()) return "a list of constants";
    if (std::holds_alternative<std::string>(arg.value)) return "a text with a zero byte in it";
    return "a constant such as an element type, a device or a layout";
  }

  void add_outputs() {
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const LoopProgram::Output& from = program_.outputs[i];
      format::Output to;
      to.name = str("output_", i);
      if (auto* buffer = std::get_if<BufferId>(&from.what)) {
        to.buffer = place(*buffer);
        to.name = program_.buffers[static_cast<size_t>(*buffer)].name;
      } else if (auto* expr = std::get_if<Expr>(&from.what)) {
        to.expr = exprs_.add(*expr);
        to.what = expr->is_float()     ? format::OutputWhat::floating
                  : expr->is_boolean() ? format::OutputWhat::boolean
                                       : format::OutputWhat::integer;
      } else {
        constant_output(i, std::get<Argument>(from.what), to);
      }
      plan().outputs.push_back(std::move(to));
    }
  }

  std::vector<format::Step> steps(const Block& block) {
    std::vector<format::Step> out;
    for (const Item& item : block) {
      format::Step step;
      step.number = next_number_++;
      std::visit([&](const auto& what) { fill(step, what); }, item.what);
      out.push_back(std::move(step));
    }
    return out;
  }

  void add_origins(int number, const std::vector<Origin>& origins, const std::vector<BufferId>& read = {},
                   const std::vector<BufferId>& written = {}) {
    format::StepOrigin record;
    record.number = number;
    std::set<std::string> seen;
    for (const Origin& origin : origins) {
      if (!seen.insert(origin.node).second) continue;
      record.nodes.push_back(origin.node);
      record.ops.push_back(origin.op);
      record.modules.push_back(origin.module_path);
      record.lines.push_back(source_text(origin));
    }
    for (const BufferId id : written) {
      const Buffer& buffer = program_.buffers[static_cast<size_t>(id)];
      const int32_t origin = origin_of(buffer, read, record.nodes);
      if (origin == format::none) continue;
      record.values.push_back(buffer.name);
      record.value_origins.push_back(origin);
    }
    built_.origins.steps.push_back(std::move(record));
  }

  // The number of the step's operator that a value is of: the last that writes it. A weight laid out anew is of the
  // operator that reads the weight. none: that is not known.
  int32_t origin_of(const Buffer& buffer, const std::vector<BufferId>& read,
                    const std::vector<std::string>& step_nodes) const {
    if (step_nodes.size() == 1) return 0;
    int32_t found = format::none;
    const auto look = [&](const std::map<std::string, std::vector<std::string>>& nodes, const std::string& name) {
      const auto list = nodes.find(name);
      if (list == nodes.end()) return;
      for (const std::string& node : list->second)
        for (size_t i = 0; i < step_nodes.size(); ++i)
          if (step_nodes[i] == node) found = static_cast<int32_t>(i);
    };
    look(nodes_.writers, buffer.name);
    if (found == format::none && buffer.role == BufferRole::derived)
      for (const BufferId id : read)
        if (program_.buffers[static_cast<size_t>(id)].role == BufferRole::constant)
          look(nodes_.readers, program_.buffers[static_cast<size_t>(id)].name);
    return found;
  }

  void fill(format::Step& step, const Kernel& kernel) {
    const codegen::StepCode& code = code_.steps.at(&kernel);
    step.kind = format::StepKind::kernel;
    step.device = device_;
    step.name = kernel.name;
    step.kernel = code.function;
    for (size_t i = 0; i < code.buffers.size(); ++i) step.args.push_back({place(code.buffers[i]), code.access[i]});
    for (const Expr& value : code.ints) step.ints.push_back(exprs_.add(value));
    step.items = exprs_.add(kernel.schedule->items);
    step.grain = exprs_.add(Expr(kernel.schedule->grain));
    step.turns = kernel.schedule->turns;
    if (!code.scratch.empty()) step.scratch = exprs_.add(code.scratch_bytes);
    for (const Site& site : code.sites) {
      step.sites.push_back(static_cast<int32_t>(plan().sites.size()));
      plan().sites.push_back({site.message, site.origin.op, site.origin.node, source_text(site.origin)});
    }
    std::vector<BufferId> read, written;
    for (size_t i = 0; i < code.buffers.size(); ++i) {
      if (code.access[i] != Access::write) read.push_back(code.buffers[i]);
      if (code.access[i] != Access::read) written.push_back(code.buffers[i]);
    }
    add_origins(step.number, kernel.origins, read, written);
  }

  void fill(format::Step& step, const Call& call) {
    step.kind = call.custom ? format::StepKind::custom : format::StepKind::library;
    step.name = call.name;
    step.target = call.custom ? call.target : call.library;
    for (const Call::Arg& arg : call.args) step.call_args.push_back(call_arg(arg));
    step.outputs = places(call.outputs);
    step.mutates = places(call.mutates);
    for (const std::string& symbol : call.defines) step.defines.push_back(exprs_.slot(symbol));
    std::vector<BufferId> written = call.outputs;
    written.insert(written.end(), call.mutates.begin(), call.mutates.end());
    add_origins(step.number, call.origins, {}, written);
  }

  format::CallArg call_arg(const Call::Arg& arg) {
    format::CallArg out;
    out.name = arg.name;
    if (auto* id = std::get_if<BufferId>(&arg.value)) {
      out.kind = format::ArgKind::buffer;
      out.items = {place(*id)};
    } else if (auto* ids = std::get_if<std::vector<BufferId>>(&arg.value)) {
      out.kind = format::ArgKind::buffers;
      out.items = places(*ids);
    } else if (auto* expr = std::get_if<Expr>(&arg.value)) {
      out.kind = format::ArgKind::expr;
      out.items = {exprs_.add(*expr)};
    } else if (auto* list = std::get_if<std::vector<Expr>>(&arg.value)) {
      out.kind = format::ArgKind::exprs;
      out.items = exprs_.add_all(*list);
    } else if (auto* scalar = std::get_if<Scalar>(&arg.value)) {
      out.kind = scalar->is_bool() ? format::ArgKind::boolean : format::ArgKind::floating;
      out.floating = scalar->as_double();
    } else if (auto* text = std::get_if<std::string>(&arg.value)) {
      out.kind = format::ArgKind::string;
      out.string = *text;
    } else if (auto* dtype = std::get_if<DType>(&arg.value)) {
      out.kind = format::ArgKind::dtype;
      out.items = {static_cast<int32_t>(*dtype)};
    }
    return out;
  }

  void fill(format::Step& step, const BindSymbol& bind) {
    step.kind = format::StepKind::bind_symbol;
    step.name = "bind_" + bind.symbol;
    step.args = {{place(bind.buffer), Access::read}};
    step.defines = {exprs_.slot(bind.symbol)};
    add_origins(step.number, bind.origins);
  }

  void fill(format::Step& step, const AssertThat& assertion) {
    step.kind = format::StepKind::assert_that;
    step.name = "assert";
    step.condition = exprs_.add(assertion.condition);
    step.message = assertion.message;
    add_origins(step.number, assertion.origins);
  }

  void predicate(format::Step& step, const std::variant<BufferId, Expr>& predicate) {
    if (auto* buffer = std::get_if<BufferId>(&predicate))
      step.args = {{place(*buffer), Access::read}};
    else
      step.condition = exprs_.add(std::get<Expr>(predicate));
  }

  void fill(format::Step& step, const Cond& cond) {
    step.kind = format::StepKind::cond;
    step.name = cond.name;
    predicate(step, cond.predicate);
    add_origins(step.number, cond.origins);
    step.blocks.push_back(steps(*cond.then_block));
    step.blocks.push_back(steps(*cond.else_block));
  }

  void fill(format::Step& step, const While& loop) {
    step.kind = format::StepKind::while_loop;
    step.name = loop.name;
    predicate(step, loop.predicate);
    step.iteration_symbol = exprs_.knows(loop.iteration_symbol) ? exprs_.slot(loop.iteration_symbol) : format::none;
    add_origins(step.number, loop.origins);
    step.blocks.push_back(steps(*loop.condition_block));
    step.blocks.push_back(steps(*loop.body_block));
  }

  const LoopProgram& program_;
  const codegen::GeneratedCode& code_;
  const DeviceType device_;  // of buffers and kernels; library kernels and custom operators are the host's
  const ValueNodes& nodes_;
  BuiltPlan built_;
  ExprTable exprs_;
  std::vector<int32_t> places_;  // by BufferId: its number in the plan
  int next_number_ = 0;
};

}  // namespace

std::string source_text(const Origin& origin) {
  const SourceLine* line = origin.line();
  if (!line) return "";
  std::string text = str(line->file, ":", line->line);
  if (!line->function.empty()) text += " in " + line->function;
  return line->text.empty() ? text : text + ":  " + line->text;
}

BuiltPlan build_plan(const LoopProgram& program, const codegen::GeneratedCode& code, DeviceType device,
                     const ValueNodes& nodes) {
  return PlanBuilder(program, code, device, nodes).build();
}

}  // namespace kiln
