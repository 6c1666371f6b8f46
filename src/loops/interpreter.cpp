#include "loops/interpreter.h"

#include <bit>
#include <cstring>

#include "base/self_overlap.h"
#include "loops/kernel_code.h"
#include "loops/random.h"
#include "types/checked.h"
#include "types/float_symbol.h"

namespace kiln::loops {

// ---- Calls
// -----------------------------------------------------------------------------------------------------------

static Datum number_of(const Expr& expr, const SymbolValues& values) {
  if (expr.is_float()) return {Scalar(evaluate_float(expr, values))};
  int64_t value = evaluate(expr, values);
  return {expr.is_boolean() ? Scalar(value != 0) : Scalar(value)};
}

Datum CallFrame::argument(const Call::Arg& arg) {
  struct Convert {
    RunState& state;
    Datum operator()(std::monostate) const { return {}; }
    Datum operator()(BufferId id) const { return id == no_buffer ? Datum{} : Datum{state.buffer(id)}; }
    Datum operator()(const std::vector<BufferId>& ids) const {
      std::vector<Datum> list;
      for (BufferId id : ids) list.push_back((*this)(id));
      return {std::move(list)};
    }
    Datum operator()(const Expr& e) const { return number_of(e, state.symbols()); }
    Datum operator()(const std::vector<Expr>& exprs) const {
      std::vector<Datum> list;
      for (const Expr& e : exprs) list.push_back((*this)(e));
      return {std::move(list)};
    }
    Datum operator()(const Scalar& s) const { return {s}; }
    Datum operator()(const std::string& s) const { return {s}; }
    Datum operator()(DType d) const { return {Scalar(dtype_schema_number(d))}; }  // as PyTorch passes it
  };
  return std::visit(Convert{state_}, arg.value);
}

std::map<std::string, Datum, std::less<>> CallFrame::arguments() {
  std::map<std::string, Datum, std::less<>> out;
  for (const Call::Arg& arg : call_.args) out[arg.name] = argument(arg);
  return out;
}

void CallFrame::set_result(size_t output, Tensor result) {
  KILN_CHECK(output < results_.size(), str(call_.name, " has no output ", output));
  results_[output] = std::move(result);
}

// ---- The interpreter
// -------------------------------------------------------------------------------------------------

static std::string sizes_text(const std::vector<int64_t>& sizes) {
  return "[" + join_map(sizes, ", ", [](int64_t s) { return str(s); }) + "]";
}

// A copy with the same strides, for writing.
static Tensor writable_copy(const Tensor& tensor) {
  Tensor out = Tensor::empty_strided(tensor.dtype, tensor.sizes, tensor.strides);
  out.device = tensor.device;
  copy_into(tensor, out);
  return out;
}

// Whether some byte may belong to both, as the runtime sees it: from the first element of each to the last.
static bool memory_meets(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto range = [](const Tensor& tensor) {
    int64_t low = tensor.offset, high = tensor.offset;
    for (size_t d = 0; d < tensor.sizes.size(); ++d)
      (tensor.strides[d] < 0 ? low : high) += (tensor.sizes[d] - 1) * tensor.strides[d];
    const int64_t element = dtype_bytes(tensor.dtype);
    return std::pair(tensor.storage->data + low * element, tensor.storage->data + (high + 1) * element);
  };
  const auto [a_begin, a_end] = range(a);
  const auto [b_begin, b_end] = range(b);
  return std::less<>()(a_begin, b_end) && std::less<>()(b_begin, a_end);
}

class LoopInterpreter::Impl : public RunState {
 public:
  Impl(const LoopProgram& program, const std::map<std::string, Tensor>& constants, LoopRunOptions options)
      : program_(program), options_(std::move(options)), memory_(program.buffers.size()) {
    verify(program);
    for (size_t i = 0; i < program.buffers.size(); ++i)
      if (program.buffers[i].role == BufferRole::constant) bind_constant(i, constants);
    for_each_item(program.init, [&](const Item& item) {
      if (const auto* kernel = std::get_if<Kernel>(&item.what))
        for_each_stmt(kernel->body, [&](const Stmt& stmt) {
          prepares_inputs_ |= stmt.kind == StmtKind::load && info(stmt.buffer).role == BufferRole::input;
        });
    });
    if (!prepares_inputs_) run_block(program.init);
  }

  LoopRun run(const std::vector<Datum>& inputs) {
    symbols_ = bind_symbols(program_, inputs);
    for (size_t i = 0; i < memory_.size(); ++i) {
      BufferRole role = program_.buffers[i].role;
      if (role != BufferRole::constant && role != BufferRole::derived) memory_[i] = Tensor();
    }
    refuse_shared_writes(inputs);
    LoopRun out;
    out.inputs = inputs;
    for (size_t i = 0; i < inputs.size(); ++i) bind_input(i, out.inputs[i]);
    if (prepares_inputs_) run_block(program_.init);
    run_block(program_.block);
    for (const auto& output : program_.outputs) out.outputs.push_back(output_of(output));
    for (size_t i = 0; i < program_.buffers.size(); ++i)
      if (program_.buffers[i].role == BufferRole::constant && program_.buffers[i].mutated)
        out.state[program_.buffers[i].constant] = writable_copy(memory_[i]);
    ++runs_;
    return out;
  }

  // ---- RunState
  // ------------------------------------------------------------------------------------------------------
  Tensor buffer(BufferId id) override {
    ensure(id);
    return memory_[static_cast<size_t>(id)];
  }
  const SymbolValues& symbols() const override { return symbols_; }

 private:
  const Buffer& info(BufferId id) const { return program_.buffers[static_cast<size_t>(id)]; }

  void bind_constant(size_t i, const std::map<std::string, Tensor>& constants) {
    const Buffer& b = program_.buffers[i];
    auto found = constants.find(b.constant);
    if (found == constants.end() || !found->second.defined())
      fail_user("K0601", str("no values were given for the constant ", b.constant));
    const Tensor& tensor = found->second;
    if (tensor.dtype != b.tensor_dtype() || tensor.sizes != values(b.tensor_sizes()))
      fail_user("K0604", str("the constant ", b.constant, " is ", tensor_type_text(tensor), " but the program needs ",
                             dtype_name(b.tensor_dtype()), sizes_text(values(b.tensor_sizes()))));
    memory_[i] = b.mutated ? writable_copy(tensor) : tensor;
  }

  void refuse_shared_writes(const std::vector<Datum>& inputs) const {
    const auto tensor_of = [&](size_t i) -> const Tensor* {
      const auto* id = std::get_if<BufferId>(&program_.inputs[i].what);
      return id ? &inputs[i].tensor() : nullptr;
    };
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor* written = tensor_of(i);
      if (!written || !info(std::get<BufferId>(program_.inputs[i].what)).mutated) continue;
      for (size_t j = 0; j < inputs.size(); ++j)
        if (const Tensor* other = tensor_of(j); j != i && other && memory_meets(*written, *other))
          fail_user("K0620",
                    str("Error: input_handles[", i, "]: the program writes to it, and it shares memory with input '",
                        program_.inputs[j].name, "' (input '", program_.inputs[i].name, "')"));
    }
  }

  // The tensor's own strides are used, whatever the export had; a mutated input is copied first.
  void bind_input(size_t i, Datum& datum) {
    auto* id = std::get_if<BufferId>(&program_.inputs[i].what);
    if (!id) return;
    if (info(*id).mutated) {
      if (overlaps_itself(datum.tensor().sizes, datum.tensor().strides))
        fail_user("K0620", str("Error: input_handles[", i,
                               "]: the program writes to it, and several of its elements share memory (input '",
                               program_.inputs[i].name, "')"));
      datum.value = writable_copy(datum.tensor());
    }
    memory_[static_cast<size_t>(*id)] = datum.tensor();
  }

  std::vector<int64_t> values(const std::vector<Expr>& exprs) const {
    std::vector<int64_t> out;
    for (const Expr& e : exprs) out.push_back(evaluate(e, symbols_));
    return out;
  }

  // Memory for a buffer at the current values of the symbols. New memory is filled with NaNs (all bits set), so that
  // reading what nobody wrote shows.
  void ensure(BufferId id) {
    const Buffer& b = info(id);
    Tensor& tensor = memory_[static_cast<size_t>(id)];
    if (b.role == BufferRole::input || b.role == BufferRole::constant) {
      KILN_CHECK(tensor.defined(), str("buffer ", b.name, " is not bound"));
      return;
    }
    std::vector<int64_t> sizes = values(b.tensor_sizes()), strides = values(b.tensor_strides());
    int64_t offset = evaluate(b.tensor_offset(), symbols_);
    if (tensor.defined() && tensor.sizes == sizes && tensor.strides == strides && tensor.offset == offset) return;
    auto negative = [](int64_t v) { return v < 0; };
    if (offset < 0 || std::any_of(sizes.begin(), sizes.end(), negative) ||
        std::any_of(strides.begin(), strides.end(), negative))
      fail_user("K0605",
                str("buffer ", b.name, " would have sizes ", sizes_text(sizes), " and strides ", sizes_text(strides)));
    Tensor made;
    made.dtype = b.tensor_dtype();
    int64_t bytes = storage_bytes_needed(made.dtype, sizes, strides, offset);
    made.storage = Storage::allocate(bytes);
    if (bytes > 0) std::memset(made.storage->data, 0xff, static_cast<size_t>(bytes));
    made.sizes = std::move(sizes);
    made.strides = std::move(strides);
    made.offset = offset;
    tensor = std::move(made);
  }

  Datum output_of(const LoopProgram::Output& output) {
    if (auto* id = std::get_if<BufferId>(&output.what)) return {buffer(*id)};
    if (auto* expr = std::get_if<Expr>(&output.what)) return number_of(*expr, symbols_);
    return constant_of(std::get<Argument>(output.what));
  }
  static Datum constant_of(const Argument& arg) {
    if (arg.is_scalar()) return {arg.as_scalar()};
    if (auto* text = std::get_if<std::string>(&arg.value)) return {*text};
    if (!arg.is_list()) return {};
    std::vector<Datum> list;
    for (const Argument& item : arg.as_list()) list.push_back(constant_of(item));
    return {std::move(list)};
  }

  // ---- Items
  // -----------------------------------------------------------------------------------------------------------
  void run_block(const Block& block) {
    for (const Item& item : block) {
      std::visit([&](const auto& what) { execute(what); }, item.what);
      if (options_.after_item && &block != &program_.init) options_.after_item(item, *this);
    }
  }

  void execute(const Kernel& kernel) {
    auto& code = kernels_[&kernel];
    if (!code) code = std::make_unique<KernelCode>(kernel, program_);
    std::vector<Tensor> seen;
    for (BufferId id : code->buffers) {
      ensure(id);
      seen.push_back(parts_seen(memory_[static_cast<size_t>(id)]));
    }
    std::vector<BufferView> views;
    for (const Tensor& t : seen) views.push_back({t.data(), t.sizes.data(), t.strides.data()});
    try {
      run_kernel(*code, views, symbols_, options_.seed + runs_ * 0x632BE59BD9B4E019ull + loop_seed_);
    } catch (Error& error) {
      error.locate(where_of(kernel.origins));
      throw;
    }
  }

  void execute(const Call& call) {
    if (!options_.call)
      fail_unsupported("K0332", str("the loop interpreter was given no way to call ", call.target),
                       where_of(call.origins));
    CallFrame frame(call, *this);
    try {
      options_.call(call, frame);
    } catch (Error& error) {
      error.locate(where_of(call.origins));
      throw;
    }
    for (size_t i = 0; i < call.outputs.size(); ++i) define_symbols(call, info(call.outputs[i]), frame.results()[i]);
    for (const std::string& symbol : call.defines) {
      KILN_CHECK(symbols_.count(symbol), str(call.name, " did not give a value to ", symbol));
      check_range(symbol, symbols_[symbol], call.origins);
    }
    for (size_t i = 0; i < call.outputs.size(); ++i) store_result(call, call.outputs[i], frame.results()[i]);
  }

  void define_symbols(const Call& call, const Buffer& b, const Tensor& result) {
    KILN_CHECK(result.defined(), str(call.name, " gave no result for ", b.name));
    const std::vector<Expr> sizes = b.tensor_sizes();
    if (result.sizes.size() != sizes.size()) wrong_result(call, b, result);
    for (size_t d = 0; d < sizes.size(); ++d)
      for (const std::string& symbol : call.defines) {
        auto affine = affine_in(sizes[d], symbol);
        if (!affine || affine->coefficient.is_constant(0)) continue;
        SymbolValues known = symbols_;
        known.erase(symbol);
        std::set<std::string> others;
        collect_symbols(affine->coefficient, others);
        collect_symbols(affine->rest, others);
        if (!std::all_of(others.begin(), others.end(), [&](const std::string& s) { return known.count(s) > 0; }))
          continue;
        int64_t coefficient = evaluate(affine->coefficient, known),
                rest = checked::sub(result.sizes[d], evaluate(affine->rest, known));
        if (coefficient != 0 && checked::mod(rest, coefficient) == 0)
          symbols_[symbol] = checked::floordiv(rest, coefficient);
      }
  }

  void store_result(const Call& call, BufferId id, const Tensor& result) {
    if (result.dtype != info(id).tensor_dtype() || result.sizes != values(info(id).tensor_sizes()))
      wrong_result(call, info(id), result);
    ensure(id);
    if (memory_[static_cast<size_t>(id)].storage != result.storage) copy_into(result, memory_[static_cast<size_t>(id)]);
  }

  [[noreturn]] void wrong_result(const Call& call, const Buffer& b, const Tensor& result) const {
    fail_user("K0333",
              str(call.target, " gave ", tensor_type_text(result), " for ", b.name, ", which is ",
                  dtype_name(b.tensor_dtype()), "[", shape_text(b.tensor_sizes()), "]"),
              where_of(call.origins));
  }

  Scalar only_element(BufferId id) {
    Tensor t = buffer(id);
    if (t.numel() != 1) fail_user("K0334", str("one value is needed but ", info(id).name, " is ", tensor_type_text(t)));
    return t.item();
  }

  void execute(const BindSymbol& bind) {
    Scalar value = only_element(bind.buffer);
    if (is_float_symbol(bind.symbol)) {
      symbols_[bind.symbol] = std::bit_cast<int64_t>(value.as_double());
      return;
    }
    check_range(bind.symbol, value.as_int(), bind.origins);
    symbols_[bind.symbol] = value.as_int();
  }

  // Passes take a symbol's range for granted, so a value found in data is checked when it appears.
  void check_range(const std::string& symbol, int64_t value, const std::vector<Origin>& origins) const {
    auto found = program_.symbols.find(symbol);
    if (found == program_.symbols.end() || found->second.range.contains(value)) return;
    fail_user("K0634",
              str("the value ", value, " of ", symbol, " is outside of its range [", found->second.range.low, ", ",
                  found->second.range.high, "]"),
              where_of(origins));
  }

  void execute(const AssertThat& that) {
    if (evaluate(that.condition, symbols_) != 0) return;
    fail_user("K0631", str(that.message, " (", that.condition.text(), ")"), where_of(that.origins));
  }

  bool truth(const std::variant<BufferId, Expr>& predicate) {
    if (auto* expr = std::get_if<Expr>(&predicate)) return evaluate(*expr, symbols_) != 0;
    Tensor t = buffer(std::get<BufferId>(predicate));
    if (t.numel() != 1) fail_user("K0334", str("a condition must be one value but is ", tensor_type_text(t)));
    return t.item().as_double() != 0;
  }

  void execute(const Cond& cond) { run_block(truth(cond.predicate) ? *cond.then_block : *cond.else_block); }

  void execute(const While& loop) {
    uint64_t outer = loop_seed_;
    for (int64_t iteration = 0;; ++iteration) {
      // Each iteration draws numbers of its own, in loops within loops too.
      loop_seed_ = random_bits(outer + 1, static_cast<uint64_t>(iteration));
      if (!loop.iteration_symbol.empty()) symbols_[loop.iteration_symbol] = iteration;
      run_block(*loop.condition_block);
      if (!truth(loop.predicate)) break;
      run_block(*loop.body_block);
    }
    loop_seed_ = outer;
  }

  const LoopProgram& program_;
  LoopRunOptions options_;
  bool prepares_inputs_ = false;  // the init section reads inputs (hold_given_weights): it belongs to each run
  std::vector<Tensor> memory_;    // by BufferId
  std::map<const Kernel*, std::unique_ptr<KernelCode>> kernels_;
  SymbolValues symbols_;
  uint64_t runs_ = 0, loop_seed_ = 0;
};

LoopInterpreter::LoopInterpreter(const LoopProgram& program, const std::map<std::string, Tensor>& constants,
                                 LoopRunOptions options)
    : impl_(std::make_unique<Impl>(program, constants, std::move(options))) {}
LoopInterpreter::~LoopInterpreter() = default;
LoopInterpreter::LoopInterpreter(LoopInterpreter&&) noexcept = default;
LoopRun LoopInterpreter::run(const std::vector<Datum>& inputs) { return impl_->run(inputs); }

}  // namespace kiln::loops
