// Finds arguments for a sample's call among the values that a program already has.
#pragma once
#include "../campaign/dice.h"
#include "ops/op_record.h"
#include "program.h"

namespace kiln::random_programs {

using campaign::Dice;

// A value that can be built on: all finite, between low and high (of complex numbers: their size).
struct PoolValue {
  std::string name;
  double low, high;
};

struct FitState {
  RandomProgram program;
  std::vector<PoolValue> pool;
  FitState clone() const { return {program.clone(), pool}; }
};

class Fit {
 public:
  Fit(FitState& state, Dice& dice) : state_(state), program_(state.program.program), dice_(dice) {}

  Argument argument(const SchemaArg& declared, const Sample::SampleArg& arg);

 private:
  Value* tensor(const SchemaArg& declared, const Sample::TensorSpec& spec);
  Value* fresh(const std::string& name, const Sample::TensorSpec& spec);
  Value* fitted(const PoolValue& from, const Sample::TensorSpec& spec);
  Value* with_dtype(Value* value, DType dtype);
  Value* with_sizes(Value* value, const std::vector<Expr>& sizes);
  Value* cut_out(Value* value, const std::vector<Expr>& sizes);
  Value* in_range(Value* value, double low, double high);
  Value* node(const std::string& op, std::vector<Argument> args);
  std::vector<Expr> sizes_of(const std::vector<int64_t>& sizes);

  FitState& state_;
  Program& program_;
  Dice& dice_;
};

}  // namespace kiln::random_programs
