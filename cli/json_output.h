// --json F of every command that has it: the result for programs, in the file F; with `-` on the standard output,
// instead of the text for people.
#pragma once
#include <string>

#include "options.h"

namespace kiln::cli {

class JsonOutput {
 public:
  explicit JsonOutput(const ParsedOptions& options);  // before anything is printed
  bool wanted() const { return wanted_; }
  bool instead_of_text() const { return instead_; }  // the standard output is the JSON's
  void write(const std::string& text) const;         // one document

  static OptionSpec option();

 private:
  bool wanted_ = false, instead_ = false;
  std::string place_;
};

}  // namespace kiln::cli
