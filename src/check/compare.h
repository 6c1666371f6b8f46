// Compares what a backend gave with what was expected, strictly, as docs/commands.md ("kiln check") defines it:
// number, kind, dtype, sizes, strides and values.
//
// - Strides count where the expected tensor is dense and does not overlap itself; dimensions of size 1 and empty
// tensors aside.
// - Tolerances are those of torch.testing.assert_close for the dtype. Integers, bools and 8-bit floats are exact,
//   whatever tolerance is given; NaN equals NaN; an infinity equals only itself.
// - A float further away is rescued only if the fp64 reference lies within 10 times the tolerance of the expected value
//   and the result is at most twice as far from the reference as the expected value is. Rescues are counted.
// - Of bf16 and f16, whose roundings are larger than any tolerance near zero, also where it is at most twice as far
// from
//   the reference as the furthest of the expected values that are like it (check/usual_error.h).
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "types/tensor.h"

namespace kiln {

struct Tolerance {
  double rtol = 0, atol = 0;
  bool operator==(const Tolerance&) const = default;
};
Tolerance default_tolerance(DType dtype);

struct CompareOptions {
  std::optional<double> rtol, atol;  // of the case or the command line; otherwise the dtype's
  bool shapes_only = false;          // values are random: everything but the values
  // Products of f32 rounded their factors to bf16, as float32_matmul_precision asked; what is expected did not. Without
  // a tolerance of the case or the command line.
  bool rounded_factors = false;
};

// The fp64 reference's counterpart of what is being compared; nullptr when there is none. Asked only when a value is
// out of tolerance, because making it costs a run of the interpreter.
using Fp64Lookup = std::function<const Datum*()>;

struct Comparison {
  std::string failure;  // empty: equal. Otherwise one line: what differs, where, how far
  int64_t rescued = 0;  // values that only the fp64 reference let pass
  double worst = 0;     // largest error in units of the tolerance, over the values that passed
  bool ok() const { return failure.empty(); }
  void add(const Comparison& other);  // keeps the first failure, sums the rescues
};

// `what` names the thing in the failure's text: "output 0".
Comparison compare(const std::string& what, const Datum& got, const Datum& expected, const CompareOptions& options,
                   const Fp64Lookup& fp64 = {});
// Flat lists: `what` is "output"; items are named "output 0", "output 1", …
Comparison compare_lists(const std::string& what, const std::vector<Datum>& got, const std::vector<Datum>& expected,
                         const CompareOptions& options, const std::function<const Datum*(size_t)>& fp64 = {});
// State by name: every expected name must be there. Names that only `got` has are of no concern.
Comparison compare_state(const std::map<std::string, Tensor>& got, const std::map<std::string, Tensor>& expected,
                         const CompareOptions& options,
                         const std::function<const Datum*(const std::string&)>& fp64 = {});
// Inputs that a program must not write: bit for bit as they were.
// `written`: the inputs that the program says it writes, for the message.
Comparison compare_unchanged(const std::vector<Datum>& after, const std::vector<Datum>& before,
                             const std::vector<bool>& written = {});

}  // namespace kiln
