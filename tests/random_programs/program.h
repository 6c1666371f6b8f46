// A random program with the values it is run on.
//
// Values are not kept: each graph input (user inputs and constants) says from what range and seed they are made, so
// that a program's text with a few lines of comment is all that a failure needs to be run again.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace kiln::random_programs {

struct ValueSource {
  double low = -2, high = 2;
  uint64_t seed = 0;
  uint64_t layout = 0;  // of a user input: 0 as exported (row-major), otherwise the seed of another one (layouts.h)
};

struct RandomProgram {
  Program program;                             // with sample_inputs and constants filled in
  std::vector<Datum> given_inputs;             // the sample inputs' values in the layouts that backends are given
  std::map<std::string, ValueSource> sources;  // by name of the graph input
  std::vector<std::string> operators;          // what was drawn, without the nodes that only fit arguments
  bool symbolic = false;
  RandomProgram clone() const { return {program.clone(), given_inputs, sources, operators, symbolic}; }
};

// The symbols' values at which a program is run: the hints.
SymbolValues hint_values(const Program& program);
// Makes the values of all graph inputs from their sources.
void fill_values(RandomProgram& random);
// The program as text, its sources in front as comments; and back. Throws Error on bad text.
std::string save_text(const RandomProgram& random, const std::string& why);
RandomProgram load_text(std::string_view text);

}  // namespace kiln::random_programs
