// Says whether what a backend computed is right.
//
// A value may be off from the fp64 reference by 4 times the f32 reference's own largest error in that tensor, plus a
// few units in the last place. Integers and bools must be the reference's. Where that fails, the f32 reference is run
// again with its inexact intermediate values moved by about their rounding error: if that moves the result as far (a
// comparison of nearly equal numbers, a difference of large ones), the program is unstable and nobody's fault.
#pragma once
#include <optional>
#include <utility>

#include "executable/executable.h"
#include "program.h"

namespace kiln::random_programs {

// Everything that a call leaves behind, with names for messages: outputs, inputs and buffers after the call.
using Observed = std::vector<std::pair<std::string, Datum>>;
Observed observe(const std::vector<Datum>& outputs, const std::vector<Datum>& inputs,
                 const std::map<std::string, Tensor>& state);

enum class Verdict { good, unstable, bad };

class Judge {
 public:
  explicit Judge(const RandomProgram& random);  // runs the references
  Verdict judge(const Observed& got, std::string& why);

 private:
  struct Trouble {
    bool found = false;
    std::string text;
  };
  Trouble compare_item(size_t item, const Datum& got, double allowed_error, bool exact) const;
  std::optional<Observed> arranged(const Observed& given, std::string& why) const;
  double own_error(const Observed& run, size_t item) const;
  bool differs(const Observed& run, size_t item) const;
  const std::vector<Observed>& shaken();

  const RandomProgram& random_;
  Observed narrow_, wide_;
  std::vector<Observed> shaken_;
};

}  // namespace kiln::random_programs
