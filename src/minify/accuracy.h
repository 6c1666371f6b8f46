// Whether results are wrong, judged against the fp64 reference so that harmless rounding is no failure: a value out of
// tolerance counts only if it is also much further from the fp64 reference than float arithmetic itself is, as the
// plain reference shows it or as rounding at every operator does (debug/rounding_noise.h).
#pragma once
#include <optional>

#include "executable/executable.h"
#include "minify/failure.h"

namespace kiln::minify {

struct AccuracyOptions {
  std::optional<double> rtol, atol;  // otherwise those of the dtype
  std::vector<std::string> custom_op_libs;
  const CallResult* expected = nullptr;  // the plain reference's, where they are known; else it is run
  // What `kiln check` calls wrong is wrong, without the look whether the program magnifies rounding: that takes several
  // runs of the reference, minutes for a large model.
  bool as_check = false;
  bool rounded_factors = false;  // of products of f32, as float32_matmul_precision asked (check/compare.h)
};

// Failure of kind accuracy, or none; then its message says what rounding explained, if anything. Throws what the
// reference throws.
Failure judge(const Program& program, const CallResult& got, const AccuracyOptions& options);

}  // namespace kiln::minify
