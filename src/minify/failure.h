// What one run of a program showed, and the signature that says whether two runs failed the same way.
//
// A signature has the kind of the failure, the error's code, the operator it names, its message without what changes as
// a graph shrinks (numbers, names of nodes and kernels, paths), or the signal. Names of kernels are no part of it.
// Wrong values that are plainly wrong do not match values that are a little off: a search must not drift to rounding.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"

namespace kiln::minify {

enum class FailureKind : uint8_t { none, error, accuracy, signal, hang, memory };
const char* failure_kind_name(FailureKind kind);

struct Failure {
  FailureKind kind = FailureKind::none;
  std::string stage;    // compile, load, run, compare: where it happened
  std::string code;     // of an error "K0411"; of a wrong result what is wrong: values, nan, dtype, sizes, strides
  std::string op;       // the operator that an error names; may be empty
  std::string node;     // its node: a hint where to look, no part of the signature
  std::string message;  // for people
  int signal = 0;
  double error = 0;  // of wrong values: the largest distance in units of what is allowed
  bool failed() const { return kind != FailureKind::none; }
};

Json to_json(const Failure& failure);
Failure failure_from_json(const Json& json);

struct Signature {
  FailureKind kind = FailureKind::none;
  std::string code, op, message;
  std::string stage;  // of what leaves no message: a signal, a hang, no memory
  int signal = 0;
  double least_error = 0;  // of wrong values: much smaller ones are another failure
  std::string check_str;   // the message must contain it; empty: anything
};

// The message's first line without numbers, quoted names, kernels' names and paths.
std::string normalised(std::string_view message);
Signature signature_of(const Failure& failure, std::string check_str = {});
bool matches(const Signature& signature, const Failure& failure);
// One line for people: "error K0411 in aten.relu.default: 'compile' was not declared".
std::string describe(const Failure& failure);

}  // namespace kiln::minify
