// Tests made from the operators' records: each record is complete, and on each of its samples the rule agrees with the
// reference, bad samples are refused, and the sample's graph survives its text.
#include <gtest/gtest.h>

#include "ops/sample_program.h"

namespace kiln {
namespace {

Datum datum_of(const Argument& arg, const Program& program) {
  if (arg.is_value()) {
    for (size_t i = 0; i < program.graph.inputs.size(); ++i)
      if (program.graph.inputs[i] == arg.as_value()) return program.sample_inputs[i];
    ADD_FAILURE() << "argument is not an input";
    return {};
  }
  if (!arg.is_list()) return constant_datum(arg);
  std::vector<Datum> list;
  for (const Argument& element : arg.as_list()) list.push_back(datum_of(element, program));
  return Datum{std::move(list)};
}

std::vector<Datum> run_reference(const OpRecord& record, const Program& program) {
  const Node& node = *program.graph.nodes.front();
  ReferenceCall call(node, record.schema);
  OpCall access(node, record.schema);
  for (const SchemaArg& declared : record.schema.args)
    call.values[declared.name] = datum_of(access.arg(declared.name), program);
  record.reference(call);
  std::vector<Datum> flat;
  for (const Datum& result : call.results) {
    if (result.is_list()) {
      flat.insert(flat.end(), result.list().begin(), result.list().end());
    } else {
      flat.push_back(result);
    }
  }
  return flat;
}

// Sizes that depend on data (symbols of the operator's own) are not known before it runs.
void expect_type(const TensorType& type, const Tensor& tensor, const Program& program) {
  SymbolValues values;
  for (const auto& [name, info] : program.symbols)
    if (info.hint) values[name] = *info.hint;
  EXPECT_EQ(type.dtype, tensor.dtype);
  ASSERT_EQ(type.sizes.size(), tensor.sizes.size());
  auto known = [&](const Expr& expr) {
    std::set<std::string> names;
    collect_symbols(expr, names);
    for (const std::string& name : names)
      if (!values.contains(name)) return false;
    return true;
  };
  bool empty = tensor.numel() == 0;
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    if (known(type.sizes[i])) {
      EXPECT_EQ(evaluate(type.sizes[i], values), tensor.sizes[i]) << "size " << i;
    }
    if (known(type.strides[i]) && tensor.sizes[i] > 1 && !empty) {
      EXPECT_EQ(evaluate(type.strides[i], values), tensor.strides[i]) << "stride " << i;
    }
  }
}

void check_record_sample(const OpRecord& record, const Sample& sample, bool symbolic, uint64_t seed) {
  Program program = program_from_sample(record, sample, symbolic, seed);
  verify(program);
  std::string text = print(program);
  Program again = parse_program(text);
  EXPECT_EQ(print(again), text);
  std::vector<Datum> results = run_reference(record, program);
  ASSERT_EQ(results.size(), program.graph.outputs.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const Value* value = program.graph.outputs[i].as_value();
    if (value->kind != ValueKind::tensor) continue;
    ASSERT_TRUE(results[i].is_tensor());
    expect_type(value->type, results[i].tensor(), program);
  }
}

class Records : public testing::TestWithParam<const OpRecord*> {};

TEST_P(Records, SamplesAgree) {
  const OpRecord& record = *GetParam();
  for (size_t i = 0; i < record.samples.size(); ++i) {
    SCOPED_TRACE(str(record.name(), ", sample ", i));
    const Sample& sample = record.samples[i];
    if (sample.refused) {
      try {
        program_from_sample(record, sample, false, i);
        ADD_FAILURE() << "a bad sample was accepted";
      } catch (const Error& error) {
        EXPECT_NE(error.kind(), ErrorKind::bug) << error.what();
      }
      continue;
    }
    try {
      check_record_sample(record, sample, false, i);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
    // With symbolic sizes a rule may say that it cannot decide, but it must not get it wrong or crash.
    try {
      check_record_sample(record, sample, true, i);
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::bug) << error.what();
    }
  }
}

// What a functional operator's sample means for the in-place variant depends on self: those that do not fit are
// refused, rightly; the tests of functionalize and of the interpreter run them.
std::vector<const OpRecord*> records_with_samples() {
  std::vector<const OpRecord*> out;
  for (const OpRecord* record : Registry::instance().all())
    if (!record->samples.empty() && !record->functional && record->infer && record->reference) out.push_back(record);
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Records, testing::ValuesIn(records_with_samples()),
                         [](const testing::TestParamInfo<const OpRecord*>& record) {
                           std::string name = record.param->name();
                           for (char& c : name)
                             if (c == '.') c = '_';
                           return name;
                         });

TEST(Registry, RecordsAreComplete) {
  std::vector<std::string> missing = incomplete_records(Registry::instance());
  EXPECT_TRUE(missing.empty()) << join(missing, "\n");
}

}  // namespace
}  // namespace kiln
