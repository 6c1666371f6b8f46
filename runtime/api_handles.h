// What the opaque handles of kiln.h are, and how exceptions become status codes.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/minifier_dump.h"
#include "runtime/model.h"
#include "runtime/tools.h"

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
  std::string path;                                   // "": in memory
  std::shared_ptr<kiln::runtime::Tools> tools;        // nullptr: no setting asks for any
  std::shared_ptr<kiln::runtime::MinifierDump> dump;  // nullptr: not asked for
  bool native_stacks = false;
};

struct kiln_instance {
  explicit kiln_instance(const kiln_model& model)
      : instance(model.model),
        path(model.path),
        tools(model.tools),
        dump(model.dump),
        native_stacks(model.native_stacks),
        plain(!tools && !dump && !native_stacks) {}
  kiln::runtime::Instance instance;
  std::string path;
  std::shared_ptr<kiln::runtime::Tools> tools;
  std::shared_ptr<kiln::runtime::MinifierDump> dump;
  bool native_stacks;
  bool plain;  // nothing of these: runs ask for nothing else
};

namespace kiln::runtime {

// Remembers the message for kiln_last_error of this thread. Called inside a catch block.
kiln_status report_current_exception() noexcept;
kiln_status report_misuse(const char* function, const char* what) noexcept;

template <class F>
kiln_status guarded(F f) noexcept {
  try {
    f();
    return KILN_OK;
  } catch (...) {
    return report_current_exception();
  }
}

// As much of a struct as the caller, who may know an older one, has room for.
template <class T>
void give(const T& from, T* to) {
  const size_t size = to->struct_size;
  std::memcpy(to, &from, std::min(size, sizeof from));
  to->struct_size = size;
}

}  // namespace kiln::runtime

// What a call of the C interface must fulfil, else it returns K0660 with these words.
#define KILN_REQUIRE(condition, words)                                      \
  do {                                                                      \
    if (!(condition)) return kiln::runtime::report_misuse(__func__, words); \
  } while (0)
#define KILN_NOT_NULL(argument) KILN_REQUIRE((argument) != nullptr, #argument " is NULL")
#define KILN_STRUCT(argument)                             \
  KILN_NOT_NULL(argument);                                \
  KILN_REQUIRE((argument)->struct_size >= sizeof(size_t), \
               #argument "->struct_size is not set: it is sizeof of the struct")
#define KILN_INDEX(index, count) KILN_REQUIRE((index) < (count), "there is none with this index")
