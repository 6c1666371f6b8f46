#include "lower/lower.h"

#include "graph/element_places.h"
#include "lower/lowering.h"
#include "ops/lower_call.h"

namespace kiln {
using namespace loops;

Lowering::Lowering(const Program& source, std::map<const Value*, std::string>* names) : source_(source), names_(names) {
  program_.name = source.name;
  program_.symbols = source.symbols;
  program_.guards = source.guards;
  program_.keep_alive = source.keep_alive;
  ranges_ = source.ranges();
}

LoopProgram Lowering::run() {
  make_inputs();
  for (const auto& node : source_.graph.nodes) lower_node(*node, program_.block);
  make_outputs();
  return std::move(program_);
}

BufferId Lowering::make_buffer(const Value& value, BufferRole role) {
  BufferId id =
      program_.add_buffer(buffer_of_tensor(value.name, value.type.dtype, value.type.sizes,
                                           role == BufferRole::constant ? value.type.strides
                                           : role == BufferRole::input  ? input_strides(value.type)
                                                                        : storage_strides(value.type, source_.symbols),
                                           role));
  buffers_[&value] = id;
  if (names_) (*names_)[&value] = this->buffer(id).name;
  return id;
}

namespace {

// An example cut out of something large: whoever comes with other strides would have to be given as much memory.
bool mostly_gaps(const TensorType& type) {
  constexpr int64_t much = int64_t{1} << 28;  // elements
  int64_t count = 1, reach = 0;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (!type.sizes[d].is_constant() || !type.strides[d].is_constant()) return false;
    count *= type.sizes[d].value();
    reach += (type.sizes[d].value() - 1) * type.strides[d].value();
  }
  return count > 0 && reach > much && reach / 64 > count;
}

}  // namespace

// The strides that the runtime gives an input which comes with others. They are the example's, but for kinds that
// no caller's data can be asked to have: strides that are symbols of their own, which no size determines (row-major
// then), strides that put several elements in one place, or may do so at other sizes, and strides that are nearly all
// gaps. An example made by expand says nothing of the rows that a caller will give: such an input is laid out densely.
std::vector<Expr> Lowering::input_strides(const TensorType& type) const {
  for (const Expr& stride : type.strides)
    if (!follows_sizes(stride, type.sizes)) return contiguous_strides(type.sizes);
  return elements_apart(type, ranges_) && !mostly_gaps(type) ? type.strides : storage_strides(type, source_.symbols);
}

void Lowering::make_inputs() {
  const Graph& graph = source_.graph;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& value = *graph.inputs[i];
    const InputSpec& spec = source_.input_specs[i];
    if (spec.kind == InputKind::parameter || spec.kind == InputKind::buffer ||
        spec.kind == InputKind::constant_tensor) {
      BufferId id = make_buffer(value, BufferRole::constant);
      buffer(id).constant = spec.target;
      by_constant_[spec.target] = id;
      continue;
    }
    if (spec.kind == InputKind::token || spec.kind == InputKind::custom_object)
      fail_unsupported("K0301",
                       str("input ", value.name, " is a token or custom object; Kiln takes tensors and numbers"));
    LoopProgram::Input input;
    input.name = value.name;
    if (spec.kind == InputKind::constant_value) {
      input.what = spec.constant;
    } else if (value.kind == ValueKind::tensor) {
      BufferId id = make_buffer(value, BufferRole::input);
      buffer(id).position = static_cast<int>(program_.inputs.size());
      input.what = id;
    } else if (value.kind == ValueKind::none) {
      input.what = Argument();
    } else if (value.expr.is_symbol()) {
      input.what = value.expr.name();
    } else if (value.expr.is_constant()) {
      input.what = Argument(Scalar(value.expr.value()));
    } else {
      fail_unsupported("K0302", str("input ", value.name, " is the symbolic number ", value.expr.text(),
                                    "; only plain symbols can be passed"));
    }
    program_.inputs.push_back(std::move(input));
  }
  for (const LoopProgram::Input& input : program_.inputs) {
    if (auto* symbol = std::get_if<std::string>(&input.what)) bound_.insert(*symbol);
    if (auto* id = std::get_if<BufferId>(&input.what))
      for (const Expr& size : buffer(*id).sizes) collect_symbols(size, bound_);
  }
}

void Lowering::copy(BufferId from, BufferId to, Block& block, const std::vector<Origin>& origins) {
  Kernel kernel;
  kernel.name = "copy_" + buffer(to).name;
  kernel.op_names = {"copy"};
  kernel.origins = origins;
  KernelBuilder k(program_, kernel);
  k.parallel(buffer(to).sizes, [&](const std::vector<Expr>& i) { k.store(to, i, k.load(from, i)); });
  block.push_back(Item{std::move(kernel)});
}

// A fresh copy, for values that are about to be overwritten or must not be shared.
BufferId Lowering::copy_of(BufferId from, BufferRole role, Block& block) {
  TensorType type;
  type.dtype = buffer(from).tensor_dtype();
  type.sizes = buffer(from).tensor_sizes();
  type.strides = buffer(from).tensor_strides();
  Buffer made = buffer_of_tensor(buffer(from).name + "_copy", type.dtype, type.sizes,
                                 storage_strides(type, source_.symbols), role);
  BufferId to = program_.add_buffer(std::move(made));
  copy(from, to, block, {});
  return to;
}

void Lowering::make_outputs() {
  const Graph& graph = source_.graph;
  struct WriteBack {
    BufferId target, value;
  };
  std::vector<WriteBack> write_backs;
  std::set<BufferId> taken;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Argument& out = graph.outputs[i];
    const OutputSpec& spec = source_.output_specs[i];
    if (spec.kind == OutputKind::buffer_mutation || spec.kind == OutputKind::user_input_mutation) {
      BufferId target = no_buffer;
      if (spec.kind == OutputKind::buffer_mutation) {
        auto found = by_constant_.find(spec.target);
        KILN_CHECK(found != by_constant_.end(), str("no buffer named ", spec.target));
        target = found->second;
        refuse_shared_places(buffer(target));
      } else {
        Value* input = graph.find_value(spec.target);
        KILN_CHECK(input, str("no input named ", spec.target));
        target = buffers_.at(input);
      }
      buffer(target).mutated = true;
      write_backs.push_back({target, buffers_.at(out.as_value())});
      continue;
    }
    program_.outputs.push_back(user_output(out, static_cast<int>(program_.outputs.size()), taken));
  }
  // Write-backs come last, so that everything above saw the old values; a value that another write-back overwrites is
  // saved first (x, y = y, x).
  for (size_t i = 0; i < write_backs.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (write_backs[j].target == write_backs[i].value) {
        write_backs[i].value = copy_of(write_backs[i].value, BufferRole::temp, program_.block);
        // The copy must precede the write-backs; they are added only below.
        break;
      }
  for (const WriteBack& w : write_backs)
    if (w.target != w.value) copy(w.value, w.target, program_.block, {});
}

// The new value of such a buffer has elements that its memory has no room for; what eager leaves there depends on the
// order of its writes.
void Lowering::refuse_shared_places(const Buffer& written) const {
  TensorType type;
  type.sizes = written.sizes, type.strides = written.strides;
  if (elements_apart(type, ranges_)) return;
  fail_unsupported("K0683", str("the program writes to the buffer '", written.constant, "' of sizes [",
                                shape_text(type.sizes), "] and strides [", shape_text(type.strides),
                                "], several elements of which share a place in memory: export it with a buffer of "
                                "its own (.contiguous() or .clone())"));
}

LoopProgram::Output Lowering::user_output(const Argument& out, int position, std::set<BufferId>& taken) {
  if (!out.is_value()) return {out};
  Value* value = out.as_value();
  if (value->kind == ValueKind::none) return {Argument()};
  if (value->kind != ValueKind::tensor) return {value->expr};
  BufferId id = buffers_.at(value);
  // An output never shares memory with an input, a weight or another output.
  if (buffer(id).role != BufferRole::temp || taken.count(id)) id = copy_of(id, BufferRole::output, program_.block);
  taken.insert(id);
  buffer(id).role = BufferRole::output;
  buffer(id).position = position;
  return {id};
}

void Lowering::lower_node(const Node& node, Block& block) {
  try {
    if (node.op && node.op->kind == OpKind::control_flow) return lower_control_flow(node, block);
    if (node.op && node.op->kind == OpKind::symbolic) return lower_symbolic(node, block);
    if (node.op && node.op->kind == OpKind::assertion && !node.op->lower) return lower_assertion(node, block);
    bind_fresh_sizes(node, block);
    check_results(node);
    for (Value* result : node.results) make_result(*result);
    if (!node.op || !node.op->library.empty()) {
      lower_call(node, block);
    } else if (node.op->lower) {
      size_t before = block.size();
      LowerCall call(node, node.op->schema, program_, block, buffers_, ranges_, draws_);
      node.op->lower(call);
      forget_known_symbols(block, before);
    } else {
      fail_bug(str(node.target, " should have been decomposed before lowering"));
    }
    for (Value* result : node.results) note_bound(*result);
  } catch (Error& error) {
    Where where = node.where();
    where.pass = "lower";
    error.locate(where);
    throw;
  }
}

// The export could not decide how x[:n] cuts when n comes from data, and named the result's size by a new symbol. The
// operator's own rule knows what it is in terms of the arguments.
void Lowering::bind_fresh_sizes(const Node& node, Block& block) {
  if (!node.op || !node.op->lower || !node.op->infer || node.results.size() != 1) return;
  const Value& result = *node.results[0];
  auto is_fresh = [&](const Expr& size) { return size.is_symbol() && !bound_.count(size.name()); };
  if (result.kind != ValueKind::tensor || std::none_of(result.type.sizes.begin(), result.type.sizes.end(), is_fresh))
    return;
  InferCall call(node, node.op->schema, ranges_);
  node.op->infer(call);
  const TensorType& by_rule = call.results.at(0);
  for (size_t d = 0; d < result.type.sizes.size(); ++d) {
    if (!is_fresh(result.type.sizes[d])) continue;
    std::set<std::string> needed;
    collect_symbols(by_rule.sizes.at(d), needed);
    if (std::includes(bound_.begin(), bound_.end(), needed.begin(), needed.end()))
      bind_symbol(result.type.sizes[d].name(), by_rule.sizes[d], block);
  }
}

// An operator that finds its result's size in data does not know whether the program has named that size already
// (x[mask] + y with y of s0 rows): then the call has nothing to define, and the runtime compares the sizes.
void Lowering::forget_known_symbols(Block& block, size_t from) const {
  for (size_t i = from; i < block.size(); ++i)
    if (auto* call = std::get_if<Call>(&block[i].what))
      std::erase_if(call->defines, [&](const std::string& symbol) { return bound_.count(symbol) > 0; });
}

void Lowering::make_result(const Value& value) {
  if (value.kind == ValueKind::tensor) make_buffer(value, BufferRole::temp);
  for (Value* item : value.items)
    if (item) make_buffer(*item, BufferRole::temp);
}

void Lowering::note_bound(const Value& value) {
  if (value.kind == ValueKind::tensor)
    for (const Expr& size : value.type.sizes) collect_symbols(size, bound_);
  for (Value* item : value.items)
    if (item) note_bound(*item);
}

LoopProgram lower(const Program& program, std::map<const Value*, std::string>* names) {
  return Lowering(program, names).run();
}

}  // namespace kiln
