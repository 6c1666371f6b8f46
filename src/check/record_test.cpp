// Tests made from the operators' records: every sample through the reference, the plain Loops, the scheduled Loops and
// the compiled code, with fixed and with symbolic sizes. Samples are compiled many to a package, which a C++ compiler
// likes better than a thousand small ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "check/compare.h"
#include "compile/compilation.h"
#include "executable/executable.h"
#include "ops/op_record.h"
#include "ops/record_lists_test.h"
#include "ops/sample_program.h"

namespace kiln {
namespace {

struct NamedProgram {
  std::string name;
  Program program;
};

std::vector<Datum> reference(const NamedProgram& named) {
  ExecutableOptions options;
  options.backend = Backend::interpret;
  return make_executable(named.program, options)->call(named.program.sample_inputs).outputs;
}

// The sample with every size but 1 so many times as large, the largest odd number of times that leaves its tensors
// small: lanes, blocks and tiles show there, of which samples of three elements have none.
Sample wide(const Sample& sample) {
  constexpr int64_t most_elements = 20'000;
  Sample out;
  for (const int64_t times : {33, 17, 9, 5, 3}) {
    out = sample;
    int64_t elements = 0;
    const auto widen = [&](Sample::TensorSpec& spec) {
      int64_t all = 1;
      for (int64_t& size : spec.sizes) size *= size > 1 ? times : 1, all *= size;
      elements += all;
    };
    for (Sample::SampleArg& arg : out.args) {
      if (auto* spec = std::get_if<Sample::TensorSpec>(&arg)) widen(*spec);
      if (auto* specs = std::get_if<std::vector<Sample::TensorSpec>>(&arg))
        std::for_each(specs->begin(), specs->end(), widen);
    }
    if (elements <= most_elements) break;
  }
  return out;
}

// Matrices of random numbers may magnify rounding without bound.
bool magnifies(const Program& program) {
  Compilation compilation(program, {});
  const auto& nodes = compilation.graph().graph.nodes;
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const auto& node) { return node->op && node->op->facts.of_near_matrix; });
}

// Every so many-th of them; KILN_SAMPLE_STRIDE=1 takes all. Operators of Kiln's own are made for sizes that their
// makers choose.
std::vector<NamedProgram> wide_programs() {
  const char* asked = std::getenv("KILN_SAMPLE_STRIDE");
  const size_t stride = asked ? std::max<size_t>(1, std::stoul(asked)) : 12;
  std::vector<NamedProgram> out;
  size_t number = 0;
  for (const OpRecord* record : Registry::instance().all()) {
    if (record->kind != OpKind::plain || record->functional || record->name_space == "kiln") continue;
    for (size_t i = 0; i < record->samples.size(); ++i) {
      if (record->samples[i].refused || number++ % stride != 0) continue;
      NamedProgram named{str(record->name(), " wide sample ", i), {}};
      try {
        named.program = program_from_sample(*record, wide(record->samples[i]), false, 7 + i);
        reference(named);
        if (magnifies(named.program)) continue;
      } catch (const Error&) {
        continue;  // its other arguments belong to the sizes that it had
      }
      out.push_back(std::move(named));
    }
  }
  return out;
}

std::vector<NamedProgram> sample_programs(bool symbolic) {
  std::vector<NamedProgram> out;
  for (const OpRecord* record : Registry::instance().all()) {
    if (record->kind != OpKind::plain || record->functional) continue;
    for (size_t i = 0; i < record->samples.size(); ++i) {
      if (record->samples[i].refused) continue;
      try {
        out.push_back({str(record->name(), " sample ", i, symbolic ? " symbolic" : ""),
                       program_from_sample(*record, record->samples[i], symbolic, 7 + i)});
      } catch (const Error& error) {
        // With symbolic sizes a rule may say that it cannot decide, where the list says so; with numbers it must not.
        const auto listed = symbolic_refusals().find(str(record->name(), "/", i));
        if (!symbolic || listed == symbolic_refusals().end() || listed->second != error.code())
          ADD_FAILURE() << record->name() << " sample " << i << ": " << error.what();
      }
    }
  }
  return out;
}

double largest_of(const Tensor& tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i)
    if (const double size = std::abs(tensor.item(i).as_complex()); std::isfinite(size))
      largest = std::max(largest, size);
  return largest;
}

// Long sums are off by roundings of their largest terms, of which the largest results say something: so many of those
// are allowed.
void expect_same(const NamedProgram& named, const std::vector<Datum>& got, const std::vector<Datum>& expected,
                 double roundings = 0) {
  ASSERT_EQ(got.size(), expected.size()) << named.name;
  std::vector<Datum> truth;  // made when a value is out of tolerance
  for (size_t i = 0; i < got.size(); ++i) {
    auto fp64 = [&]() -> const Datum* {
      ExecutableOptions options;
      options.backend = Backend::interpret;
      options.fp64 = true;
      if (truth.empty()) truth = make_executable(named.program, options)->call(named.program.sample_inputs).outputs;
      return &truth[i];
    };
    Datum wanted = expected[i];
    if (wanted.is_tensor() && wanted.tensor().numel() == 0 && got[i].is_tensor() &&
        got[i].tensor().sizes == wanted.tensor().sizes) {
      Tensor empty = wanted.tensor();  // strides over no element: sizes that turn out to be 0 only while running
      empty.strides = got[i].tensor().strides;
      wanted = Datum{empty};
    }
    CompareOptions options;
    options.shapes_only = named.program.graph.nodes.front()->op->random;
    if (wanted.is_tensor() && roundings > 0) {
      const DType dtype = wanted.tensor().dtype;
      options.rtol = default_tolerance(dtype).rtol;
      options.atol = default_tolerance(dtype).atol + roundings * dtype_epsilon(dtype) * largest_of(wanted.tensor());
    }
    Comparison result = compare(str("output ", i), got[i], wanted, options, fp64);
    EXPECT_TRUE(result.ok()) << named.name << ": " << result.failure;
  }
}

void check_loops(bool symbolic, bool schedule) {
  for (const NamedProgram& named : sample_programs(symbolic)) {
    try {
      ExecutableOptions options;
      options.backend = Backend::loops;
      options.schedule = schedule;
      auto executable = make_executable(named.program, options);
      expect_same(named, executable->call(named.program.sample_inputs).outputs, reference(named));
    } catch (const std::exception& error) {
      ADD_FAILURE() << named.name << ": " << error.what();
    }
  }
}

TEST(RecordSamples, PlainLoopsAgreeWithTheReference) { check_loops(false, false); }
TEST(RecordSamples, ScheduledLoopsAgreeWithTheReference) { check_loops(false, true); }
TEST(RecordSamples, SymbolicPlainLoopsAgreeWithTheReference) { check_loops(true, false); }
TEST(RecordSamples, SymbolicScheduledLoopsAgreeWithTheReference) { check_loops(true, true); }

// What is compared as plain Loops is what lowering made: each of its kernels is of one operator.
TEST(RecordSamples, PlainLoopsAreThoseOfTheLowering) {
  Program program = parse_program(
      "program \"two\"\ngraph main {\n  input %x: f32[4] = user\n  %y: f32[4] = aten.exp.default(self=%x)\n"
      "  %z: f32[4] = aten.neg.default(self=%y)\n  output %z = user\n}\n");
  Compilation compilation(program, {});
  int kernels = 0;
  loops::for_each_item(compilation.lowered().block, [&](const loops::Item& item) {
    const auto* kernel = std::get_if<loops::Kernel>(&item.what);
    if (!kernel) return;
    ++kernels;
    EXPECT_EQ(kernel->op_names.size(), 1u) << kernel->name;
  });
  EXPECT_EQ(kernels, 2);
}

// Puts the nodes of several programs side by side into one.
class Combiner {
 public:
  void add(const Program& from) {
    std::string prefix = str("p", count_++, "_");
    Substitution symbols;
    for (const auto& [name, info] : from.symbols) {
      SymbolInfo renamed = info;
      renamed.name = prefix + name;
      symbols[name] = Expr::symbol(renamed.name);
      out.symbols[renamed.name] = renamed;
    }
    for (const Guard& guard : from.guards) out.guards.push_back({substitute(guard.condition, symbols), guard.reason});
    std::map<const Value*, Value*> values;
    auto copy_value = [&](const Value& source, Value* made) {
      made->type = source.type;
      for (Expr& e : made->type.sizes) e = substitute(e, symbols);
      for (Expr& e : made->type.strides) e = substitute(e, symbols);
      made->type.offset = substitute(made->type.offset, symbols);
      made->expr = substitute(source.expr, symbols);
      values[&source] = made;
    };
    for (size_t i = 0; i < from.graph.inputs.size(); ++i) {
      copy_value(*from.graph.inputs[i],
                 out.graph.add_input(prefix + from.graph.inputs[i]->name, from.graph.inputs[i]->kind));
      out.input_specs.push_back(from.input_specs[i]);
    }
    out.sample_inputs.insert(out.sample_inputs.end(), from.sample_inputs.begin(), from.sample_inputs.end());
    for (const auto& node : from.graph.nodes) {
      Node* made = out.graph.add_node(node->target, prefix + node->name);
      made->op = node->op;
      made->args = node->args;
      for (Node::NamedArgument& arg : made->args) {
        for_each_value(arg.arg, [&](Value*& v) { v = values.at(v); });
        rename(arg.arg, symbols);
      }
      for (Value* result : node->results) {
        Value* copied = out.graph.add_result(made, prefix + result->name, result->kind);
        copy_value(*result, copied);
        for (Value* item : result->items) {
          Value* element = out.graph.new_value(prefix + item->name, item->kind);
          copy_value(*item, element);
          element->producer = made;
          copied->items.push_back(element);
        }
      }
    }
    for (const Argument& output : from.graph.outputs) {
      Argument copied = output;
      for_each_value(copied, [&](Value*& v) { v = values.at(v); });
      out.graph.outputs.push_back(copied);
      out.output_specs.push_back({});
    }
  }
  Program out;

 private:
  static void rename(Argument& arg, const Substitution& symbols) {
    if (auto* expr = std::get_if<Expr>(&arg.value)) *expr = substitute(*expr, symbols);
    if (auto* list = std::get_if<Argument::List>(&arg.value))
      for (Argument& item : *list) rename(item, symbols);
  }
  int count_ = 0;
};

void check_compiled(const std::vector<NamedProgram>& samples, double roundings = 0) {
  constexpr size_t together = 60;
  for (size_t begin = 0; begin < samples.size(); begin += together) {
    size_t end = std::min(samples.size(), begin + together);
    Combiner combiner;
    for (size_t i = begin; i < end; ++i) combiner.add(samples[i].program);
    std::vector<Datum> outputs;
    try {
      outputs = make_executable(combiner.out, {})->call(combiner.out.sample_inputs).outputs;
    } catch (const std::exception& error) {
      ADD_FAILURE() << samples[begin].name << " … " << samples[end - 1].name << ": " << error.what();
      continue;
    }
    size_t next = 0;
    for (size_t i = begin; i < end; ++i) {
      size_t count = samples[i].program.graph.outputs.size();
      std::vector<Datum> own(outputs.begin() + static_cast<std::ptrdiff_t>(next),
                             outputs.begin() + static_cast<std::ptrdiff_t>(next + count));
      next += count;
      expect_same(samples[i], own, reference(samples[i]), roundings);
    }
  }
}

TEST(RecordSamples, CompiledCodeAgreesWithTheReference) { check_compiled(sample_programs(false)); }
TEST(RecordSamples, SymbolicCompiledCodeAgreesWithTheReference) { check_compiled(sample_programs(true)); }
TEST(RecordSamples, WideCompiledCodeAgreesWithTheReference) { check_compiled(wide_programs(), 64); }

}  // namespace
}  // namespace kiln
