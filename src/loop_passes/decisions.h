// What the passes over Loops decided, and why. A pass adds a Decision where it fuses or refuses to; the fusion log, the
// trace and the report are made of them. A log that nobody wants builds no text at all: `add` takes a function.
#pragma once
#include <string>
#include <vector>

namespace kiln::loops {

// Reads "<verdict> <subject> [<link> <other>][: <reason>]":
//   inline t into exp: it is read once
//   no merge of sum with exp: the kernel would be too large
struct Decision {
  std::string verdict;  // "inline", "keep", "merge", "no merge of", …
  std::string subject;  // the buffer or kernel that it is about, by its name at that time
  std::string link;     // "into", "with"; empty where there is no `other`
  std::string other;
  std::string reason;
  bool taken = true;  // false: a fusion that was refused
  std::string pass;   // filled in by whoever runs the passes
  std::string text() const;
};

class Log {
 public:
  explicit Log(bool wanted = true) : wanted_(wanted) {}
  bool wanted() const { return wanted_; }
  // `make` gives a Decision; it is called only when somebody wants to know.
  template <class Make>
  void add(Make make) {
    if (wanted_) decisions_.push_back(make());
  }
  // A value was given another one's buffer. Always recorded: the debug tools need it to know what a buffer holds.
  void merged(std::string value, std::string buffer) { merged_.emplace_back(std::move(value), std::move(buffer)); }
  const std::vector<std::pair<std::string, std::string>>& merges() const { return merged_; }
  // Names the pass of the decisions that have none yet.
  void close_pass(const std::string& pass);
  const std::vector<Decision>& decisions() const { return decisions_; }
  std::vector<Decision> take() { return std::move(decisions_); }
  size_t size() const { return decisions_.size(); }

 private:
  bool wanted_;
  std::vector<Decision> decisions_;
  std::vector<std::pair<std::string, std::string>> merged_;
};

}  // namespace kiln::loops
