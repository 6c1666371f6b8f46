// Setting nan_asserts: before and after each kernel every floating-point argument is searched for NaN and infinities;
// the first one ends the run with K0637, which says where it came from. With nan_asserts_infinities=0 infinities are as
// good as other numbers: a padding mask of -inf is what the program means.
//
// Operators are computed in parts, and a part may hold such values although the operator's result has none: attention
// makes -inf of what its mask forbids, and NaN of a row that it forbids altogether, before it takes them out again. So
// what is known to be such a part (it is no value of the exported program, and nothing that it is a copy or an in-place
// form of) ends no run by itself: whatever it spoils is a value of the program or an output, and is found there.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "runtime/observer.h"
#include "runtime/step_text.h"

namespace kiln::runtime {

struct NanAssertsNeeds {
  std::shared_ptr<const ValueOrigins> origins;
  // The source lines of a step by its name (of the kernel that made a bad input), or "".
  std::function<std::string(const char* step_name)> origins_of;
  std::string graph_text;   // of the exported program, from the debug section; "": every buffer counts as a value of it
  std::string merged_text;  // lines of a value and, behind a tab, the buffer of an equal one that holds it too
  bool infinities = true;   // they are as bad as NaN
};
std::unique_ptr<StepObserver> make_nan_asserts(NanAssertsNeeds needs);

}  // namespace kiln::runtime
