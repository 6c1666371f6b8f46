// How messages speak about a step and its arguments: the same words in the printer, the NaN checks, fault reports.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "kiln/kiln.h"
#include "package/format.h"

namespace kiln::runtime {

const char* when_text(kiln_hook_when when);  // "before_launch", "after_launch": the users' words
// " iteration 3", " iteration 1.3" in nested loops, or ""
std::string iterations_text(const int64_t* iterations, size_t depth);
std::string iterations_text(const kiln_step& step);
std::string first_line(const kiln_step& step);  // the user's source line, or ""
// "\n  --> model.py:42 …\n  module … · operator … · node …" of each operator, each source line once; `own` comes first.
std::string origins_text(const kiln_step& step, const kiln_origin* own = nullptr);
// Of the operators in the step the one that the value is named after; nullptr: none is.
const kiln_origin* named_origin(const kiln_step& step, std::string_view value);

// Which operator of its step a value is of: whoever names one asks here. The compiler has noted it; in a package that
// it did not (written by an older one, or a value that a schedule made) the names say it, where they say it plainly.
class ValueOrigins {
 public:
  explicit ValueOrigins(const format::Origins& origins);
  const kiln_origin* of(const kiln_step& step, std::string_view value) const;  // nullptr: not known

 private:
  std::map<std::pair<int32_t, std::string>, size_t, std::less<>> noted_;  // by the step's number and the value's name
};
// Memory that the kernel fills itself, seen before its launch: it holds what somebody left there.
bool not_yet_written(const kiln_step_arg& arg);
// An argument's values, where the host can read them. Throws K0528.
const DLTensor& host_tensor(const kiln_step& step, const kiln_step_arg& arg);
std::string source_of(const kiln_step_arg& arg);  // "from cpp_linear_0", "input", "constant", …
std::string dims_text(const int64_t* dims, int32_t count);
std::string tensor_text(const DLTensor& tensor);  // "float32 [8, 16] strides [16, 1] cpu"
std::string device_name(const DLDevice& device);  // "cpu", "cuda:0"

}  // namespace kiln::runtime
