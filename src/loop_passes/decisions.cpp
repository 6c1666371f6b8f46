#include "loop_passes/decisions.h"

#include "base/text.h"

namespace kiln::loops {

std::string Decision::text() const {
  std::string out = str(verdict, " ", subject);
  if (!other.empty()) out += str(" ", link, " ", other);
  if (!reason.empty()) out += str(": ", reason);
  return out;
}

void Log::close_pass(const std::string& pass) {
  for (size_t i = decisions_.size(); i-- > 0 && decisions_[i].pass.empty();) decisions_[i].pass = pass;
}

}  // namespace kiln::loops
