// Executes translated kernels, one statement at a time.
#include "loops/kernel_code.h"
#include "loops/random.h"

namespace kiln::loops {
namespace {

class Machine {
 public:
  Machine(const KernelCode& code, const std::vector<BufferView>& views, uint64_t seed)
      : code_(code), views_(views), seed_(seed), slots_(code.slots.size(), 0), cells_(code.kernel.value_types.size()) {
    for (const auto& [value, cell] : code.constants) cells_[static_cast<size_t>(value)] = cell;
  }

  // Scratch has the sizes that the symbols give it. Nothing of it is written when an item begins.
  void make_scratch(const SymbolValues& symbols) {
    for (BufferId id : code_.scratch) {
      const Buffer& buffer = code_.program.buffers[static_cast<size_t>(id)];
      Scratch& made = scratch_.emplace_back();
      for (const Expr& e : buffer.sizes) made.sizes.push_back(evaluate(e, symbols));
      for (const Expr& e : buffer.strides) made.strides.push_back(evaluate(e, symbols));
      made.memory.resize(static_cast<size_t>(evaluate(buffer_bytes(buffer), symbols)), std::byte{0xff});
      made.written.resize(made.memory.size() / static_cast<size_t>(dtype_bytes(buffer.dtype)));
    }
    for (Scratch& made : scratch_)
      scratch_views_.push_back({made.memory.data(), made.sizes.data(), made.strides.data()});
  }

  void set(int slot, int64_t value) { slots_[static_cast<size_t>(slot)] = value; }

  void run(const std::vector<Instruction>& body) {
    for (const Instruction& i : body) step(i);
  }

 private:
  Cell& cell(ValueId v) { return cells_[static_cast<size_t>(v)]; }
  bool off(const Instruction& i) { return i.mask != no_value && cell(i.mask).i == 0; }

  void step(const Instruction& i) {
    switch (i.kind) {
      case Instruction::Kind::unary:
        i.function(&cell(i.a), cell(i.result));
        return;
      case Instruction::Kind::binary: {
        Cell args[2] = {cell(i.a), cell(i.b)};
        i.function(args, cell(i.result));
        return;
      }
      case Instruction::Kind::ternary: {
        Cell args[3] = {cell(i.a), cell(i.b), cell(i.c)};
        i.function(args, cell(i.result));
        return;
      }
      case Instruction::Kind::bitcast:
        evaluate_scalar(ScalarOp::bitcast, i.dtype, i.operand, &cell(i.a), cell(i.result));
        return;
      case Instruction::Kind::index:
        return index_value(i);
      case Instruction::Kind::load:
        if (off(i))
          cell(i.result).i = 0;  // the bits of 0.0 as well
        else
          cell(i.result) = read_cell(i.dtype, address(i));
        return;
      case Instruction::Kind::store:
        return store(i);
      case Instruction::Kind::check_index:
        return check_index(i);
      case Instruction::Kind::raise_if:
        if (!off(i) && cell(i.a).i != 0) raise(i, "");
        return;
      case Instruction::Kind::random:
        cell(i.result) = random_cell(i.dtype, seed_, static_cast<uint64_t>(i.index[0].evaluate(slots_.data())));
        return;
      case Instruction::Kind::loop:
        return loop(*i.loop);
    }
  }

  void index_value(const Instruction& i) {
    Cell raw;
    if (i.index[0].is_float())
      raw.f = i.index[0].evaluate_float(slots_.data());
    else
      raw.i = i.index[0].evaluate(slots_.data());
    i.function(&raw, cell(i.result));
  }

  const BufferView& view_of(const Instruction& i) const {
    return (i.scratch ? scratch_views_ : views_)[static_cast<size_t>(i.buffer)];
  }

  std::byte* address(const Instruction& i) {
    const BufferView& view = view_of(i);
    int64_t offset = 0;
    for (size_t d = 0; d < i.index.size(); ++d) {
      int64_t at = i.index[d].evaluate(slots_.data());
      if (at < 0 || at >= view.sizes[d]) out_of_bounds(i, d);
      offset += at * view.strides[d];
    }
    if (i.scratch) visit_scratch(i, static_cast<size_t>(offset));
    return view.data + offset * i.bytes;
  }

  void visit_scratch(const Instruction& i, size_t offset) {
    uint8_t& written = scratch_[static_cast<size_t>(i.buffer)].written[offset];
    const bool reads = i.kind == Instruction::Kind::load || i.function;
    if (reads && !written) never_written(i);
    written = written || i.kind == Instruction::Kind::store;
  }

  void store(const Instruction& i) {
    if (off(i)) return;
    std::byte* at = address(i);
    if (!i.function) return write_cell(i.dtype, at, cell(i.a));
    Cell args[2] = {read_cell(i.dtype, at), cell(i.a)}, result;
    i.function(args, result);
    write_cell(i.dtype, at, result);
  }

  void check_index(const Instruction& i) {
    int64_t value = 0;
    if (!off(i)) {
      int64_t extent = i.index[0].evaluate(slots_.data());
      value = cell(i.a).i;
      if (value < -extent || value >= extent) raise(i, str(": ", value, " is not in [", -extent, ", ", extent, ")"));
      if (value < 0) value += extent;
    }
    set(i.slot, value);
    cell(i.result).i = value;
  }

  void loop(const LoopCode& l) {
    const int64_t extent = l.extent.evaluate(slots_.data());
    const Loop& source = *l.source;
    active_.push_back(l.slot);
    Cell accumulators[3], yields[3];
    const bool reduces = source.role != AxisRole::parallel;
    // A sum may be grouped freely and products fused into it. Compiled code sums in lanes and blocks, whose errors are
    // smaller than those of the plain order; this is rounded once.
    const bool wide =
        source.role == AxisRole::reduce && source.reduce == ReduceOp::sum && source.reduce_dtype == DType::f32;
    double sum = 0;
    if (reduces) start_accumulators(source.reduce, source.reduce_dtype, accumulators);
    for (int64_t v = 0; v < extent; ++v) {
      set(l.slot, v);
      if (l.starts_item) forget_scratch();
      run(l.body);
      if (!reduces) continue;
      if (wide) {
        sum += l.product ? cell(l.product->args[0]).f * cell(l.product->args[1]).f : cell(source.yields[0]).f;
      } else if (l.update) {
        Cell args[2] = {accumulators[0], cell(source.yields[0])};
        l.update(args, accumulators[0]);
      } else {
        for (size_t k = 0; k < source.yields.size(); ++k) yields[k] = cell(source.yields[k]);
        update_accumulators(source.reduce, source.reduce_dtype, yields, source.yields.size(), v, accumulators);
      }
      if (source.role != AxisRole::scan) continue;
      for (size_t k = 0; k < source.running.size(); ++k) cell(source.running[k]) = accumulators[k];
      run(l.after);
    }
    active_.pop_back();
    if (wide) accumulators[0].f = sum;
    const bool moments = source.role == AxisRole::reduce && source.reduce == ReduceOp::welford;
    if (wide || (moments && source.reduce_dtype == DType::f32 && !l.goes_on))
      for (size_t k = 0; k < l.results.size(); ++k)
        accumulators[k].f = static_cast<double>(static_cast<float>(accumulators[k].f));
    for (size_t k = 0; k < l.results.size(); ++k) cell(l.results[k]) = accumulators[k];
  }

  void forget_scratch() {
    for (Scratch& made : scratch_) std::fill(made.written.begin(), made.written.end(), uint8_t{0});
  }

  // ---- Errors
  // ----------------------------------------------------------------------------------------------------------
  std::string variables_text() const {
    std::string text = join_map(
        active_, ", ", [&](int slot) { return str(code_.slots.name(slot), " = ", slots_[static_cast<size_t>(slot)]); });
    return text.empty() ? "outside of loops" : "at " + text;
  }

  [[noreturn]] void never_written(const Instruction& i) {
    const std::string index =
        join_map(i.index, ", ", [&](const IndexCode& e) { return str(e.evaluate(slots_.data())); });
    throw Error(
        ErrorKind::bug, "K0526",
        str("kernel ", code_.kernel.name, " reads ", code_.program.buffers[static_cast<size_t>(i.source->buffer)].name,
            "[", index, "], scratch that this item has not written, ", variables_text()),
        where_of(code_.kernel.origins));
  }

  [[noreturn]] void out_of_bounds(const Instruction& i, size_t dim) {
    const BufferView& view = view_of(i);
    const Buffer& buffer = code_.program.buffers[static_cast<size_t>(i.source->buffer)];
    std::vector<std::string> index, sizes;
    for (size_t d = 0; d < i.index.size(); ++d) {
      const Expr& e = i.source->index[d];
      int64_t at = i.index[d].evaluate(slots_.data());
      index.push_back(e.is_constant() ? str(at) : str(e.text(), " = ", at));
      sizes.push_back(str(view.sizes[d]));
    }
    throw Error(ErrorKind::bug, "K0330",
                str("kernel ", code_.kernel.name, i.kind == Instruction::Kind::load ? " loads " : " stores ",
                    buffer.name, "[", join(index, ", "), "] outside of its sizes [", join(sizes, ", "), "] (dimension ",
                    dim, "), ", variables_text()),
                where_of(code_.kernel.origins));
  }

  [[noreturn]] void raise(const Instruction& i, const std::string& detail) {
    const Site& site = code_.program.sites[static_cast<size_t>(i.source->site)];
    fail_user("K0630", site.message + detail, where_of({site.origin}));
  }

  const KernelCode& code_;
  const std::vector<BufferView>& views_;
  uint64_t seed_;
  std::vector<int64_t> slots_;
  std::vector<Cell> cells_;
  std::vector<int> active_;  // slots of the loops around the current statement
  struct Scratch {
    std::vector<std::byte> memory;
    std::vector<uint8_t> written;  // by element
    std::vector<int64_t> sizes, strides;
  };
  std::vector<Scratch> scratch_;
  std::vector<BufferView> scratch_views_;
};

}  // namespace

void run_kernel(const KernelCode& code, const std::vector<BufferView>& views, const SymbolValues& symbols,
                uint64_t seed) {
  Machine machine(code, views, seed);
  for (int slot : code.symbols) {
    auto found = symbols.find(code.slots.name(slot));
    if (found == symbols.end()) fail_user("K0211", str("the value of symbol ", code.slots.name(slot), " is not known"));
    machine.set(slot, found->second);
  }
  machine.make_scratch(symbols);
  machine.run(code.body);
}

}  // namespace kiln::loops
