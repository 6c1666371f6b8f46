// Windows over pictures of bf16 and f16, in text.
#pragma once
#include "base/text.h"

namespace kiln {

struct WindowSizes {
  int64_t lines, points, channels, columns;
};

// A window of 3 by 3 over a picture of this type, zeros beyond its border.
inline std::string window_of_three(const std::string& dtype, const WindowSizes& sizes) {
  const auto [lines, points, channels, columns] = sizes;
  return str("loops window\nbuffer x ", dtype, "[", lines, ", ", points, ", ", channels, "] strides [",
             points * channels, ", ", channels, ", 1] input position 0\nbuffer w ", dtype, "[", columns, ", ", channels,
             ", 3, 3] strides [", channels * 9, ", 9, 3, 1] constant named \"w\"\nbuffer y f32[", lines, ", ", points,
             ", ", columns, "] strides [", points * columns, ", ", columns,
             ", 1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\nmain {\n",
             "  kernel window ops [convolution] {\n    for i2 in [", lines, "] parallel {\n      for i3 in [", points,
             "] parallel {\n        for i1 in [", columns,
             "] parallel {\n          %0 = for r1 in [3] reduce sum.f32 {\n",
             "            %1 = index.i64 [i2 + r1 - 1]\n            %2 = index.i64 [0]\n            %3 = index.i64 [",
             lines, "]\n            %4 = index.i64 [", points, R"(]
            %5 = ge.bool %1, %2
            %6 = lt.bool %1, %3
            %7 = logical_and.bool %5, %6
            %8 = for r2 in [3] reduce sum.f32 {
              %9 = index.i64 [i3 + r2 - 1]
              %10 = ge.bool %9, %2
              %11 = logical_and.bool %7, %10
              %12 = lt.bool %9, %4
              %13 = logical_and.bool %11, %12
              %14 = for r0 in [)",
             channels, R"(] reduce sum.f32 {
                %15 = load.)",
             dtype, R"( x[i2 + r1 - 1, i3 + r2 - 1, r0] mask %13
                %16 = cast.f32 %15
                %17 = load.)",
             dtype, R"( w[i1, r0, r1, r2]
                %18 = cast.f32 %17
                %19 = mul.f32 %16, %18
                yield %19
              }
              yield %14
            }
            yield %8
          }
          store y[i2, i3, i1] = %0
        }
      }
    }
  }
}
)");
}

}  // namespace kiln
