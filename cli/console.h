// What appears on a terminal while something runs: one line that is rewritten in place. Where stderr is no terminal,
// nothing appears at all.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace kiln::cli {

// --quiet: no notes and no progress from now on.
void be_quiet();
bool is_quiet();
// "note: …" on stderr: what the user should know and did not ask for.
void tell_note(const std::string& text);
void tell_notes(const std::vector<std::string>& texts);

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

// Where to write what the user asked to have at `path`. Where that is the standard output (-o /dev/stdout), nothing
// else goes there from now on: what the command says goes to stderr. Call it before anything is printed.
std::string output_path(const std::string& path);

// Opens /dev/null for each of the standard descriptors that the caller has closed, so that no file of ours gets their
// number; writing to a closed standard output stays an error.
void open_standard_descriptors();
// Whether all that was printed has reached the standard output; otherwise says so on stderr.
bool standard_output_is_written();

// 0.0123 -> "12.3 ms"
std::string seconds_text(double seconds);

}  // namespace kiln::cli
