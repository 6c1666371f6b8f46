// --json F of every command that has it: the result for programs, in the file F; with `-` on the standard output,
// instead of the text for people.
#pragma once
#include <string>

#include "base/json.h"
#include "options.h"

namespace kiln::cli {

class JsonOutput {
 public:
  explicit JsonOutput(const ParsedOptions& options);  // before anything is printed
  bool wanted() const { return wanted_; }
  bool instead_of_text() const { return instead_; }  // the standard output is the JSON's
  // What a document begins with: "kind": "kiln run", "version": 1, which grows when what is there changes its meaning.
  static Json document(const char* command);
  static void add(Json& document, const Json& facts);  // the members of an object
  void write(const Json& document) const;

  static OptionSpec option();

 private:
  bool wanted_ = false, instead_ = false;
  std::string place_;
};

}  // namespace kiln::cli
