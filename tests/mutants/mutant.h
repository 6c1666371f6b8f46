// What is mutated, and into what. Everything follows from the seed, the index and the list of bases.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace kiln::mutants {

struct Base {
  std::string name;         // of the case
  std::string bytes;        // the .pt2, or the package
  std::string inputs_path;  // inputs_0.pt of the case, for programs without sample inputs; may be empty
};

struct Mutant {
  std::string bytes;
  std::string what;  // one line
  bool run = true;   // false: only loaded and inspected, since its machine code does not know its plan
};

Mutant model_mutant(const Base& base, uint64_t seed);
Mutant package_mutant(const Base& base, uint64_t seed);

}  // namespace kiln::mutants
