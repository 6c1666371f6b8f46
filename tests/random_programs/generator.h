// Makes random programs out of the operators' samples: each step draws an operator and one of its samples, and takes
// most of the sample's tensors from values that the program already has, fitted to the wanted sizes, dtype and range by
// views, casts and squashing. So outputs feed inputs, views alias, and in-place variants write to intermediates, inputs
// and buffers. The same seed gives the same program on every machine.
#pragma once
#include "ops/op_record.h"
#include "program.h"

namespace kiln::random_programs {

// The operators that programs are made of: plain ones with samples whose results are not random.
std::vector<const OpRecord*> drawable_operators();

struct DrawOptions {
  uint64_t seed = 0;
  bool symbolic = false;                  // about two of three sizes become symbols
  std::vector<const OpRecord*> required;  // drawn first, each where some sample of it fits
  int more = 3;                           // operators drawn freely afterwards
  double strided = 0.5;                   // how many of the user inputs are given in another layout than exported
};

RandomProgram draw_program(const std::vector<const OpRecord*>& operators, const DrawOptions& options);

}  // namespace kiln::random_programs
