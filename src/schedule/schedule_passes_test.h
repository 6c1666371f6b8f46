// A pass of this folder on a small program in text: what it writes down, and that the program computes the same.
#pragma once
#include "schedule/sample_run_test.h"

namespace kiln::loops {

class SchedulePasses : public testing::Test {
 protected:
  void given(const std::string& text) {
    program_ = parse_loops(text);
    verify(program_);
    before_ = run_on_samples(program_);
  }
  std::string after() {
    verify(program_);
    const std::string text = print(program_);
    EXPECT_EQ(print(parse_loops(text)), text);
    const std::vector<Datum> now = run_on_samples(program_);
    for (size_t o = 0; o < now.size(); ++o)
      for (int64_t i = 0; i < now[o].tensor().numel(); ++i)
        EXPECT_NEAR(now[o].tensor().item(i).as_double(), before_[o].tensor().item(i).as_double(), 1e-4) << text;
    return text;
  }
  LoopProgram program_;
  Log log_;
  Target target_;

 private:
  std::vector<Datum> before_;
};

}  // namespace kiln::loops
