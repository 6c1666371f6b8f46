// Runs programs through the backends in a child process, so that one that crashes or hangs takes nobody along.
#pragma once
#include "generator.h"

namespace kiln::random_programs {

enum class Outcome { good, unstable, refused, failed };

struct Report {
  size_t index = 0;  // of the program, in the caller's numbering
  Outcome outcome = Outcome::good;
  bool symbolic = false;
  size_t nodes = 0;
  std::vector<std::string> operators;
  std::string message;  // refused, failed: one line; its first words say where ("loops: …", "compiled: …")
};

// Gives program number i; called in the child.
using MakeProgram = std::function<RandomProgram(size_t index)>;

// Runs all of `indices`, `jobs` children at a time with `together` programs each compiled into one package. `done` is
// called in the parent for each program.
void run_batches(const std::vector<size_t>& indices, const MakeProgram& make, size_t together, size_t jobs,
                 const std::function<void(const Report&)>& done);

}  // namespace kiln::random_programs
