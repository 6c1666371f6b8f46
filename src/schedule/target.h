// What a schedule is made for. The backends list theirs (codegen/backend.h).
#pragma once
#include <string>

namespace kiln::loops {

struct Target {
  std::string name;           // "x86-64-v4"
  int lanes = 16;             // f32 elements of a vector; 1: scalar code
  int vector_registers = 32;  // that hold such vectors
};

}  // namespace kiln::loops
