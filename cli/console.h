// What appears on a terminal while something runs: one line that is rewritten in place. Where stderr is no terminal,
// nothing appears at all.
#pragma once
#include <chrono>
#include <string>

namespace kiln::cli {

class ProgressLine {
 public:
  ProgressLine();  // on stderr
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  bool visible() const { return visible_; }
  void show(const std::string& text);  // at most about ten times a second, except the first
  void clear();                        // before anything else is printed

 private:
  bool visible_;
  size_t columns_ = 80;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

// 0.0123 -> "12.3 ms"
std::string seconds_text(double seconds);

}  // namespace kiln::cli
