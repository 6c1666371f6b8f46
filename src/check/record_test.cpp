// Tests made from the operators' records: every sample through the reference, the plain Loops, the scheduled Loops and
// the compiled code, with fixed and with symbolic sizes. Samples are compiled many to a package, which a C++ compiler
// likes better than a thousand small ones.
#include <gtest/gtest.h>

#include "check/compare.h"
#include "compile/pipeline.h"
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

void expect_same(const NamedProgram& named, const std::vector<Datum>& got, const std::vector<Datum>& expected) {
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
    Comparison result = compare(str("output ", i), got[i], wanted, options, fp64);
    EXPECT_TRUE(result.ok()) << named.name << ": " << result.failure;
  }
}

std::vector<Datum> reference(const NamedProgram& named) {
  ExecutableOptions options;
  options.backend = Backend::interpret;
  return make_executable(named.program, options)->call(named.program.sample_inputs).outputs;
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
  PipelineOptions plain, lowered;
  plain.schedule = false;
  lowered.stop_after = "lower";
  const PipelineResult result = run_pipeline(program, plain);
  EXPECT_EQ(loops::print(result.loops), loops::print(run_pipeline(program, lowered).loops));
  int kernels = 0;
  loops::for_each_item(result.loops.block, [&](const loops::Item& item) {
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

void check_compiled(bool symbolic) {
  std::vector<NamedProgram> samples = sample_programs(symbolic);
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
      expect_same(samples[i], own, reference(samples[i]));
    }
  }
}

TEST(RecordSamples, CompiledCodeAgreesWithTheReference) { check_compiled(false); }
TEST(RecordSamples, SymbolicCompiledCodeAgreesWithTheReference) { check_compiled(true); }

}  // namespace
}  // namespace kiln
