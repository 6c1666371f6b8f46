// `-` where a command names a file to read: the standard input, put into a file, since models, packages and tensors are
// read at places of their own choice.
#pragma once
#include <memory>
#include <string>

#include "options.h"

namespace kiln::cli {

class StandardInput {
 public:
  StandardInput();
  ~StandardInput();
  // Reads all of it, where the command line names it; no two files can be the standard input.
  void put_in_place(const CommandSpec& command, ParsedOptions& options);

 private:
  struct Place;
  std::unique_ptr<Place> place_;
};

}  // namespace kiln::cli
