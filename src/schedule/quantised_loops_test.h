// Products of numbers that were quantised to bytes, in text.
#pragma once
#include "base/text.h"

namespace kiln {

struct QuantisedSizes {
  int64_t lines, points, channels, columns;
};

// t = x to the nearest sixteenth, a byte of this type with a zero point; y = a window of so many points (1 or 3) over
// t, nothing beyond its border, with weights of i8 that have a scale and a zero point for each column.
inline std::string quantised_window(const QuantisedSizes& sizes, const std::string& byte, int zero, int64_t window) {
  const auto [lines, points, channels, columns] = sizes;
  const std::string range = byte == "u8" ? "0.0 255.0" : "-128.0 127.0";
  const std::vector<std::string> ends = split(range, ' ');
  return str("loops quantised\nbuffer x f32[", lines, ", ", points, ", ", channels, "] strides [", points * channels,
             ", ", channels, ", 1] input position 0\nbuffer w i8[", columns, ", ", channels, ", ", window, ", ", window,
             "] strides [", channels * window * window, ", ", window * window, ", ", window,
             ", 1] constant named \"w\"\nbuffer s f32[", columns, "] strides [1] constant named \"s\"\nbuffer z i64[",
             columns, "] strides [1] constant named \"z\"\nbuffer t f32[", lines, ", ", points, ", ", channels,
             "] strides [", points * channels, ", ", channels, ", 1] temp\nbuffer y f32[", lines, ", ", points, ", ",
             columns, "] strides [", points * columns, ", ", columns,
             ", 1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\nmain {\n",
             "  kernel steps ops [quantize] {\n    for i0 in [", lines, "] parallel {\n      for i1 in [", points,
             "] parallel {\n        for i2 in [", channels, R"(] parallel {
          %0 = load.f32 x[i0, i1, i2]
          %1 = constant.f32 16.0
          %2 = mul.f32 %0, %1
          %3 = round.f32 %2
          %4 = constant.f32 )",
             zero, R"(.0
          %5 = add.f32 %3, %4
          %6 = constant.f32 )",
             ends[0], R"(
          %7 = max.f32 %5, %6
          %8 = constant.f32 )",
             ends[1], R"(
          %9 = min.f32 %7, %8
          %10 = cast.)",
             byte, R"( %9
          %11 = cast.f32 %10
          %12 = sub.f32 %11, %4
          %13 = constant.f32 0.0625
          %14 = mul.f32 %12, %13
          store t[i0, i1, i2] = %14
        }
      }
    }
  }
  kernel window ops [convolution] {
    for i2 in [)",
             lines, "] parallel {\n      for i3 in [", points, "] parallel {\n        for i1 in [", columns,
             "] parallel {\n          %0 = for r1 in [", window,
             "] reduce sum.f32 {\n            %1 = index.i64 [i2 + r1 - ", window / 2,
             "]\n            %2 = index.i64 [0]\n            %3 = index.i64 [", lines,
             "]\n            %4 = index.i64 [", points, R"(]
            %5 = ge.bool %1, %2
            %6 = lt.bool %1, %3
            %7 = logical_and.bool %5, %6
            %8 = for r2 in [)",
             window, "] reduce sum.f32 {\n              %9 = index.i64 [i3 + r2 - ", window / 2, R"(]
              %10 = ge.bool %9, %2
              %11 = logical_and.bool %7, %10
              %12 = lt.bool %9, %4
              %13 = logical_and.bool %11, %12
              %14 = for r0 in [)",
             channels, "] reduce sum.f32 {\n                %15 = load.f32 t[i2 + r1 - ", window / 2, ", i3 + r2 - ",
             window / 2, R"(, r0] mask %13
                %16 = load.i8 w[i1, r0, r1, r2]
                %17 = cast.i64 %16
                %18 = load.i64 z[i1]
                %19 = sub.i64 %17, %18
                %20 = cast.f32 %19
                %21 = load.f32 s[i1]
                %22 = mul.f32 %20, %21
                %23 = mul.f32 %15, %22
                yield %23
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
