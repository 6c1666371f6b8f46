// Decompositions only make calls that exist: every argument has the kind that the called operator's schema says, so
// that a decomposed program can be written to a file that PyTorch reads.
#include <gtest/gtest.h>

#include "ops/decompose_call.h"
#include "ops/sample_program.h"

namespace kiln {
namespace {

// PyTorch takes a number for a Tensor in these operators only (should_allow_numbers_as_tensors).
bool numbers_are_tensors(const Schema& schema) {
  static const std::set<std::string> names = {"add", "sub", "mul", "div", "floor_divide", "true_divide", "copy"};
  std::string name = op_short_name(schema.name);
  if (name.ends_with('_')) name.pop_back();
  return names.contains(name);
}

bool is_number(const Argument& arg) {
  return arg.is_scalar() || std::holds_alternative<Expr>(arg.value) ||
         (arg.is_value() && arg.as_value()->kind != ValueKind::tensor &&
          arg.as_value()->kind != ValueKind::tensor_list);
}
bool is_tensor(const Argument& arg) { return arg.is_value() && arg.as_value()->kind == ValueKind::tensor; }

// What is wrong with an argument, or nothing.
std::string wrong_kind(const Argument& arg, const SchemaArg& declared, const Schema& schema) {
  if (arg.is_none()) return declared.optional ? "" : "None";
  bool whole = arg.is_scalar() && (arg.as_scalar().is_int() || arg.as_scalar().is_bool());
  switch (declared.type) {
    case SchemaType::tensor:
      if (is_tensor(arg)) return "";
      return is_number(arg) && numbers_are_tensors(schema) ? "" : "not a tensor";
    case SchemaType::integer:
      return is_number(arg) && (!arg.is_scalar() || whole) ? "" : "not an integer";
    case SchemaType::floating:
    case SchemaType::scalar:
      return is_number(arg) ? "" : "not a number";
    case SchemaType::boolean:
      return is_number(arg) ? "" : "not a bool";
    case SchemaType::string:
      return std::holds_alternative<std::string>(arg.value) ? "" : "not a string";
    default:
      return "";
  }
}

void check_calls(const OpRecord& record, const Sample& sample, bool symbolic, std::set<std::string>& wrong) {
  Program program = program_from_sample(record, sample, symbolic, 1);
  Node& node = *program.graph.nodes.front();
  RangeEnv ranges;
  DecomposeCall call(node, record.schema, program.graph, ranges);
  record.decompose(call);
  for (const auto& made : program.graph.nodes) {
    if (made.get() == &node || made->op->name_space != "aten") continue;
    OpCall access(*made, made->op->schema);
    for (const SchemaArg& declared : made->op->schema.args) {
      std::string why = wrong_kind(access.arg(declared.name), declared, made->op->schema);
      if (!why.empty()) wrong.insert(str(record.name(), " calls ", made->target, " with ", declared.name, " ", why));
    }
  }
}

TEST(Decompositions, CallsHaveTheKindsOfTheirSchemas) {
  std::set<std::string> wrong;
  for (const OpRecord* record : Registry::instance().all()) {
    if (!record->decompose) continue;
    for (const Sample& sample : record->samples) {
      if (sample.refused) continue;
      for (bool symbolic : {false, true}) {
        try {
          check_calls(*record, sample, symbolic, wrong);
        } catch (const Error& error) {
          EXPECT_TRUE(symbolic) << record->name() << ": " << error.what();
        }
      }
    }
  }
  EXPECT_TRUE(wrong.empty()) << join(std::vector<std::string>(wrong.begin(), wrong.end()), "\n");
}

// Weights of another size than the state's (an edited program, a damaged file) give too few gates, or uneven ones.
TEST(Decompositions, RecurrentWeightsOfAnotherSizeAreRefused) {
  for (const char* name : {"aten.gru.input", "aten.lstm.input", "aten.gru_cell.default", "aten.lstm_cell.default"}) {
    const OpRecord* record = Registry::instance().find(name);
    ASSERT_NE(record, nullptr) << name;
    for (const Sample& sample : record->samples)
      for (int64_t width = 1; width < 3; ++width) {  // of the state, which is 3 wide in the samples
        Program program = program_from_sample(*record, sample, false, 1);
        for (Value* input : program.graph.inputs) {
          TensorType& type = input->type;
          if (type.sizes.size() <= 2 && type.sizes[0].value() >= 9)  // rows of weights, biases
            type = contiguous_type(type.dtype, [&] {
              std::vector<Expr> sizes = type.sizes;
              sizes[0] = Expr(width);
              return sizes;
            }());
        }
        try {
          infer_types(*program.graph.nodes.front(), program.graph, {});
          ADD_FAILURE() << name << " took weights for " << width << " gates";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), "K0232") << name << ": " << error.message();
        }
      }
  }
}

}  // namespace
}  // namespace kiln
