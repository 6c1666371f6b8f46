// Several programs side by side in one: a C++ compiler likes one file of many kernels better than many files of few.
#pragma once
#include "judge.h"

namespace kiln::random_programs {

class Combiner {
 public:
  void add(const RandomProgram& from);
  const Program& program() const { return out_; }
  const std::vector<Datum>& given_inputs() const { return given_inputs_; }
  // The part of a call's result that belongs to program number i.
  Observed part(const CallResult& result, size_t i) const;

 private:
  struct Span {
    size_t outputs, inputs;  // where they begin
  };
  Program out_;
  std::vector<Datum> given_inputs_;
  std::vector<Span> spans_;
  size_t count_ = 0;
};

}  // namespace kiln::random_programs
