// Tests made from the operators' records: on each sample, what the operator compiles to (its decomposition, then Loops,
// run by the loop interpreter) agrees with its reference, with fixed and with symbolic sizes.
#include <gtest/gtest.h>

#include <cmath>

#include "loops/interpreter.h"
#include "ops/decompose_call.h"
#include "ops/lower_call.h"
#include "ops/sample_program.h"

namespace kiln {
namespace {

Datum evaluated(const Argument& arg, const std::map<const Value*, Datum>& known, const SymbolValues& symbols) {
  if (arg.is_value()) {
    if (auto found = known.find(arg.as_value()); found != known.end()) return found->second;
    return Datum{Scalar(evaluate(arg.as_value()->expr, symbols))};
  }
  if (const auto* expr = std::get_if<Expr>(&arg.value)) {
    return expr->is_float() ? Datum{Scalar(evaluate_float(*expr, symbols))} : Datum{Scalar(evaluate(*expr, symbols))};
  }
  if (!arg.is_list()) return constant_datum(arg);
  std::vector<Datum> list;
  for (const Argument& element : arg.as_list()) list.push_back(evaluated(element, known, symbols));
  return Datum{std::move(list)};
}

SymbolValues hints(const Program& program) {
  SymbolValues out;
  for (const auto& [name, info] : program.symbols)
    if (info.hint) out[name] = *info.hint;
  return out;
}

// Runs the graph node by node through references.
std::vector<Datum> run_references(const Program& program) {
  std::map<const Value*, Datum> known;
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) known[program.graph.inputs[i]] = program.sample_inputs[i];
  for (const auto& node : program.graph.nodes) {
    ReferenceCall call(*node, node->op->schema);
    OpCall access(*node, node->op->schema);
    for (const SchemaArg& declared : node->op->schema.args)
      call.values[declared.name] = evaluated(access.arg(declared.name), known, hints(program));
    node->op->reference(call);
    for (size_t i = 0; i < node->results.size(); ++i) {
      known[node->results[i]] = call.results.at(i);
      for (size_t j = 0; j < node->results[i]->items.size(); ++j)
        if (node->results[i]->items[j]) known[node->results[i]->items[j]] = call.results[i].list().at(j);
    }
  }
  std::vector<Datum> out;
  for (const Argument& output : program.graph.outputs) out.push_back(known.at(output.as_value()));
  return out;
}

void decompose_all(Program& program) {
  Graph& graph = program.graph;
  const RangeEnv ranges = program.ranges();
  for (auto at = graph.nodes.begin(); at != graph.nodes.end();) {
    Node* node = at->get();
    if (!node->op->decompose) {
      ++at;
      continue;
    }
    DecomposeCall call(*node, node->op->schema, graph, ranges);
    node->op->decompose(call);
    auto replace = [&](Value* from, size_t i) {
      ASSERT_NE(call.replacements().at(i), nullptr) << node->target << " leaves a result undefined";
      EXPECT_EQ(from->type.dtype, call.replacements()[i]->type.dtype);
      graph.replace_uses(from, call.replacements()[i]);
    };
    bool list = node->results.size() == 1 && node->results[0]->kind == ValueKind::tensor_list;
    const std::vector<Value*> results = list ? node->results[0]->items : node->results;
    for (size_t i = 0; i < results.size(); ++i) replace(results[i], i);
    graph.erase(node);
    at = graph.nodes.begin();
  }
}

// The driver of src/lower, for one straight list of nodes.
loops::LoopProgram lower_all(const Program& program) {
  int64_t draws = 0;
  loops::LoopProgram out;
  out.symbols = program.symbols;
  const RangeEnv ranges = program.ranges();
  std::map<const Value*, loops::BufferId> buffers;
  auto add = [&](const Value* value, loops::BufferRole role, int position) {
    loops::Buffer buffer;
    buffer.name = value->name;
    buffer.dtype = value->type.dtype;
    buffer.sizes = value->type.sizes;
    buffer.strides = contiguous_strides(value->type.sizes);
    buffer.role = role;
    buffer.position = position;
    buffers[value] = out.add_buffer(std::move(buffer));
  };
  for (const Value* input : program.graph.inputs) {
    int position = static_cast<int>(out.inputs.size());
    if (input->kind != ValueKind::tensor) {
      out.inputs.push_back({input->name, input->expr.name()});
      continue;
    }
    add(input, loops::BufferRole::input, position);
    out.inputs.push_back({input->name, buffers[input]});
  }
  for (const auto& node : program.graph.nodes) {
    for (const Value* result : node->results) {
      if (result->kind == ValueKind::tensor) add(result, loops::BufferRole::temp, -1);
      for (const Value* item : result->items)
        if (item) add(item, loops::BufferRole::temp, -1);
    }
    LowerCall call(*node, node->op->schema, out, out.block, buffers, ranges, draws);
    node->op->lower(call);
  }
  for (const Argument& output : program.graph.outputs) {
    loops::BufferId id = buffers.at(output.as_value());
    loops::Buffer& buffer = out.buffers[static_cast<size_t>(id)];
    if (buffer.role == loops::BufferRole::temp) {
      buffer.role = loops::BufferRole::output;
      buffer.position = static_cast<int>(out.outputs.size());
    }
    out.outputs.push_back({id});
  }
  return out;
}

struct Tolerance {
  double relative, absolute;
};
Tolerance tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {1e-7, 1e-7};
    case DType::f32:
      return {2e-5, 1e-5};
    case DType::f16:
      return {2e-3, 1e-4};
    case DType::bf16:
      return {1.6e-2, 1e-4};
    default:
      return {0, 0};
  }
}

void expect_close(const OpRecord& record, const Tensor& expected, const Tensor& got) {
  ASSERT_EQ(expected.dtype, got.dtype);
  ASSERT_EQ(expected.sizes, got.sizes);
  if (record.random) return;  // every way to run it draws numbers of its own
  auto [relative, absolute] = tolerance(complex_part(expected.dtype));
  for (int64_t i = 0; i < expected.numel(); ++i) {
    const std::complex<double> first = expected.item(i).as_complex(), second = got.item(i).as_complex();
    for (auto [a, b] : {std::pair{first.real(), second.real()}, std::pair{first.imag(), second.imag()}}) {
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      EXPECT_LE(std::fabs(a - b), absolute + relative * std::fabs(a))
          << "element " << i << ": expected " << a << ", got " << b;
    }
  }
}

// Complex values become pairs of real ones in a pass that the driver's tests of the records run.
bool is_complex_tensor(const Value* value) {
  for (const Value* item : value->items)
    if (item && is_complex_tensor(item)) return true;
  return value->kind == ValueKind::tensor && is_complex(value->type.dtype);
}

bool can_lower(const Program& program) {
  for (const Value* input : program.graph.inputs)
    if (is_complex_tensor(input)) return false;
  for (const auto& node : program.graph.nodes) {
    if (!node->op->lower) return false;
    for (const Value* result : node->results)
      if (is_complex_tensor(result)) return false;
  }
  return true;
}

// Loops run in the driver's tests of the records, which have an interpreter.
bool has_control_flow(const Program& program) {
  for (const auto& node : program.graph.nodes)
    if (node->op->kind == OpKind::control_flow) return true;
  return false;
}

void check_sample(const OpRecord& record, const Sample& sample, bool symbolic, uint64_t seed) {
  Program program = program_from_sample(record, sample, symbolic, seed);
  std::vector<Datum> expected = run_references(program);
  if (record.decompose) {
    decompose_all(program);
    verify(program);
    if (has_control_flow(program)) return;
    std::vector<Datum> parts = run_references(program);
    for (size_t i = 0; i < expected.size(); ++i) expect_close(record, expected[i].tensor(), parts.at(i).tensor());
  }
  if (!can_lower(program)) return;
  loops::LoopProgram loops = lower_all(program);
  loops::verify(loops);
  EXPECT_EQ(loops::print(loops::parse_loops(loops::print(loops))), loops::print(loops));
  // What calls library kernels runs in the driver's tests of the records, which have them.
  for (const loops::Item& item : loops.block)
    if (std::holds_alternative<loops::Call>(item.what)) return;
  loops::LoopRun run = loops::LoopInterpreter(loops, {}).run(program.sample_inputs);
  ASSERT_EQ(run.outputs.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) expect_close(record, expected[i].tensor(), run.outputs[i].tensor());
}

class Lowering : public testing::TestWithParam<const OpRecord*> {};

TEST_P(Lowering, AgreesWithReference) {
  const OpRecord& record = *GetParam();
  for (size_t i = 0; i < record.samples.size(); ++i) {
    if (record.samples[i].refused) continue;
    for (bool symbolic : {false, true}) {
      SCOPED_TRACE(str(record.name(), ", sample ", i, symbolic ? ", symbolic sizes" : ""));
      try {
        check_sample(record, record.samples[i], symbolic, i);
      } catch (const Error& error) {
        // With symbolic sizes a rule may say that it cannot decide.
        if (!symbolic || error.kind() == ErrorKind::bug) ADD_FAILURE() << error.what();
      }
    }
  }
}

std::vector<const OpRecord*> compiled_records() {
  std::vector<const OpRecord*> out;
  for (const OpRecord* record : Registry::instance().all())
    if (record->kind == OpKind::plain && !record->functional && (record->lower || record->decompose))
      out.push_back(record);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Lowering, testing::ValuesIn(compiled_records()),
                         [](const testing::TestParamInfo<const OpRecord*>& record) {
                           std::string name = record.param->name();
                           for (char& c : name)
                             if (c == '.') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace kiln
