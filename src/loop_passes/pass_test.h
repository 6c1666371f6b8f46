// What the tests of the passes over Loops share, here and in schedule/: programs in text, and two kernels to fuse.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

inline std::string main_of(const LoopProgram& program) {
  std::string text = print(program);
  size_t begin = text.find("main {");
  return text.substr(begin, text.find("\n}\n", begin) + 3 - begin);
}

inline LoopProgram parsed(const std::string& text) {
  LoopProgram program = parse_loops(text);
  verify(program);
  return program;
}

// x -> relu -> exp over [s0, 4], each its own kernel.
inline const std::string chain = R"(loops chain
symbol s0 in [1, 64] hint 8
buffer x f32[s0, 4] strides [4, 1] input position 0
buffer t f32[s0, 4] strides [4, 1] temp
buffer y f32[s0, 4] strides [4, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel relu ops [relu] {
    for i0 in [s0] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 x[i0, i1]
        %1 = constant.f32 0.0
        %2 = max.f32 %0, %1
        store t[i0, i1] = %2
      }
    }
  }
  kernel exp ops [exp] {
    for i0 in [s0] parallel {
      for i1 in [4] parallel {
        %0 = load.f32 t[i0, i1]
        %1 = exp.f32 %0
        store y[i0, i1] = %1
      }
    }
  }
}
)";

}  // namespace kiln::loops
