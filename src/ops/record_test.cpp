// Tests made from the operators' records: each record is complete, and on each of its samples the rule agrees with the
// reference, bad samples are refused, and the sample's graph survives its text.
#include <gtest/gtest.h>

#include "ops/record_lists_test.h"
#include "ops/sample_program.h"
#include "ops/sample_reference_test.h"

namespace kiln {
namespace {

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
    // With symbolic sizes a rule may say that it cannot decide, where the list says so.
    const auto listed = symbolic_refusals().find(str(record.name(), "/", i));
    const std::string expected = listed == symbolic_refusals().end() ? "" : listed->second;
    std::string refused;
    try {
      check_record_sample(record, sample, true, i);
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::bug) << error.what();
      refused = error.code();
      EXPECT_EQ(refused, expected) << "with symbolic sizes: " << error.what();
    }
    if (refused.empty() && !expected.empty())
      ADD_FAILURE() << "is not refused with symbolic sizes any more: take it off tests/symbolic_refusals.txt";
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

TEST(SymbolicRefusals, NameSamplesThatExist) {
  for (const auto& [name, code] : symbolic_refusals()) {
    const size_t slash = name.find('/');
    ASSERT_NE(slash, std::string::npos) << name;
    const OpRecord* record = Registry::instance().find(name.substr(0, slash));
    ASSERT_NE(record, nullptr) << name;
    const size_t sample = std::stoul(name.substr(slash + 1));
    ASSERT_LT(sample, record->samples.size()) << name;
    EXPECT_FALSE(record->samples[sample].refused) << name;
  }
}

// A reference that is the decomposition over again says nothing about it: then PyTorch must have been asked. Numbers
// drawn at random cannot be compared with PyTorch's; src/driver/random_test.cpp looks at their distributions.
TEST(References, ADecompositionIsCheckedByItselfOnlyWhereACaseOfPyTorchIs) {
  const auto covered = read_test_list("operator_coverage.txt"), without = read_test_list("operators_without_case.txt");
  std::set<std::string> seen;
  for (const auto& [name, where] : covered) {
    seen.insert(name);
    const OpRecord* record = Registry::instance().find(name);
    if (record && record->functional) seen.insert(record->functional->name());
  }
  for (const OpRecord* record : Registry::instance().all()) {
    const bool excused = without.contains(record->name());
    if (!record->reference_by_parts || record->random) {
      EXPECT_FALSE(excused) << record->name() << " has a reference of its own: take it off operators_without_case.txt";
      continue;
    }
    if (seen.contains(record->name()))
      EXPECT_FALSE(excused) << record->name() << " has a case: take it off tests/operators_without_case.txt";
    else
      EXPECT_TRUE(excused) << record->name()
                           << ": its reference is its decomposition, and no case of PyTorch calls it. Give it a "
                              "reference of its own, or add a call to tests/operator_calls.txt (tests/README.md)";
  }
  for (const auto& [name, reason] : without) {
    EXPECT_NE(Registry::instance().find(name), nullptr) << name << " is no operator";
    EXPECT_FALSE(reason.empty()) << name << " has no reason";
  }
}

TEST(Registry, RecordsAreComplete) {
  std::vector<std::string> missing = incomplete_records(Registry::instance());
  EXPECT_TRUE(missing.empty()) << join(missing, "\n");
}

}  // namespace
}  // namespace kiln
