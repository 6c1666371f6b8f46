// What the opaque handles of kiln.h are, and how exceptions become status codes.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/minifier_dump.h"
#include "runtime/model.h"

// The description of one input, output or constant, in the form kiln.h gives out: pointers into these vectors.
struct SpecText {
  std::vector<int64_t> sizes, strides;
  std::vector<std::string> texts;
  std::vector<const char*> pointers;
};

struct kiln_model {
  std::shared_ptr<kiln::runtime::Model> model;
  std::vector<SpecText> inputs, outputs;
  std::vector<int32_t> constants;  // indices of those that the user sees
  std::vector<SpecText> constant_texts;
  std::shared_ptr<kiln::runtime::MinifierDump> dump;  // null: not asked for
};

struct kiln_instance {
  explicit kiln_instance(const kiln_model& model) : instance(model.model), dump(model.dump) {}
  kiln::runtime::Instance instance;
  std::shared_ptr<kiln::runtime::MinifierDump> dump;
};

namespace kiln::runtime {

// Remembers the message for kiln_last_error of this thread. Called inside a catch block.
kiln_status report_current_exception() noexcept;
kiln_status report_misuse(const char* message) noexcept;

template <class F>
kiln_status guarded(F f) noexcept {
  try {
    f();
    return KILN_OK;
  } catch (...) {
    return report_current_exception();
  }
}

}  // namespace kiln::runtime

#define KILN_REQUIRE(condition)                                        \
  do {                                                                 \
    if (!(condition)) return kiln::runtime::report_misuse(#condition); \
  } while (0)
