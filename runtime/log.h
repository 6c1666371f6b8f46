// Where the runtime's words go: the embedder's callback, or standard error.
#pragma once
#include <string>

#include "kiln/kiln.h"

namespace kiln::runtime {

struct Log {
  kiln_log_fn callback = nullptr;
  void* user = nullptr;
  // One line or several; without a callback it is written with one call and flushed, so that a crash right after loses
  // nothing.
  void write(kiln_log_level level, const std::string& text) const;
};

}  // namespace kiln::runtime
