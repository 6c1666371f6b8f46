// Compares what a backend gave with what was expected, strictly, as docs/commands.md ("kiln check") defines it:
// number, kind, dtype, sizes, strides and values.
//
// - Strides count where the expected tensor is dense and does not overlap itself; dimensions of size 1 and empty
// tensors aside.
// - Tolerances are those of torch.testing.assert_close for the dtype. Integers, bools and 8-bit floats are exact,
//   whatever tolerance is given; NaN equals NaN; an infinity equals only itself.
// - A float further away is rescued only if the fp64 reference lies within 10 times the tolerance of the expected value
//   and the result is at most twice as far from the reference as the expected value is. Rescues are counted.
// - Where the whole tensor's error is what rounding does (check/usual_error.h), a value also passes that is at most
//   twice as far from the reference as the furthest of the expected values that are like it.
// - What is left is judged beside what rounding does to the reference (check/rounding_samples.h), integers too: results
//   of programs that magnify it, or decide by it (a sort of nearly equal numbers), differ from one another.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
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
  // What the program computes in is rounded as this is, where that is less exact than what a result is stored in: the
  // float32 logits of a bf16 model.
  std::optional<DType> computed_in = std::nullopt;
};

// The fp64 reference's counterpart of what is being compared; nullptr when there is none. Asked only when a value is
// out of tolerance, because making it costs a run of the interpreter. Sample 0 is the reference, the others are the
// same with what rounding may do to it (check/rounding_noise.h); who gives the reference alone takes no number.
template <class... Key>
class ReferenceLookup {
 public:
  ReferenceLookup() = default;
  template <class F>
  requires(!std::is_same_v<F, ReferenceLookup> && (std::is_invocable_r_v<const Datum*, const F&, Key..., int> ||
                                                   std::is_invocable_r_v<const Datum*, const F&, Key...>))
      ReferenceLookup(F find) {
    if constexpr (std::is_invocable_r_v<const Datum*, const F&, Key..., int>)
      find_ = std::move(find);
    else
      find_ = [find = std::move(find)](Key... key, int sample) { return sample == 0 ? find(key...) : nullptr; };
  }
  const Datum* operator()(Key... key, int sample) const { return find_ ? find_(key..., sample) : nullptr; }

 private:
  std::function<const Datum*(Key..., int)> find_;
};
using Fp64Lookup = ReferenceLookup<>;

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
                         const CompareOptions& options, const ReferenceLookup<size_t>& fp64 = {});
// State by name: every expected name must be there. Names that only `got` has are of no concern.
Comparison compare_state(const std::map<std::string, Tensor>& got, const std::map<std::string, Tensor>& expected,
                         const CompareOptions& options, const ReferenceLookup<const std::string&>& fp64 = {});
// Inputs that a program must not write: bit for bit as they were.
// `written`: the inputs that the program says it writes, for the message.
Comparison compare_unchanged(const std::vector<Datum>& after, const std::vector<Datum>& before,
                             const std::vector<bool>& written = {});

}  // namespace kiln
