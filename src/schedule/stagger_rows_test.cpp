// Rows that would meet in one set of the cache: text in, text out, and what is computed stays the same.
#include <gtest/gtest.h>

#include "loop_passes/pass_test.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

// A product of rows of `width` numbers, which stand in a temporary of this role and these strides.
std::string rows_of(int64_t width, const std::string& strides, const std::string& role, const std::string& outputs) {
  return str(R"(loops rows
buffer x f32[2, 5, )",
             width, R"(] strides [)", 5 * width, ", ", width, R"(, 1] input position 0
buffer w f32[)",
             width, R"(, 8] strides [8, 1] constant named "w"
buffer h f32[2, 5, )",
             width, "] strides [", strides, "] ", role, R"(
buffer y f32[2, 5, 8] strides [40, 8, 1] output position 0
input x = buffer x
)",
             outputs, R"(output buffer y
init {
}
main {
  kernel make ops [neg] {
    for i0 in [2] parallel {
      for i1 in [5] parallel {
        for i2 in [)",
             width, R"(] parallel {
          %0 = load.f32 x[i0, i1, i2]
          %1 = neg.f32 %0
          store h[i0, i1, i2] = %1
        }
      }
    }
  }
  kernel product ops [linear] {
    for i0 in [2] parallel {
      for i1 in [5] parallel {
        for i2 in [8] parallel {
          %0 = for r0 in [)",
             width, R"(] reduce sum.f32 {
            %1 = load.f32 h[i0, i1, r0]
            %2 = load.f32 w[r0, i2]
            %3 = mul.f32 %1, %2
            yield %3
          }
          store y[i0, i1, i2] = %0
        }
      }
    }
  }
}
)");
}

std::string after(const std::string& text) {
  LoopProgram program = parsed(text);
  Log log;
  find_contractions(program, log);
  stagger_rows(program, Target(), log);
  verify(program);
  const std::string printed = print(program);
  EXPECT_EQ(print(parse_loops(printed)), printed);
  const size_t at = printed.find("buffer h ");
  return printed.substr(at, printed.find('\n', at) - at);
}

TEST(StaggerRows, LeavesAGapWhereRowsMeetInOneSet) {
  EXPECT_EQ(after(rows_of(1024, "5120, 1024, 1", "temp", "")), "buffer h f32[2, 5, 1024] strides [5200, 1040, 1] temp");
  EXPECT_EQ(after(rows_of(3072, "15360, 3072, 1", "temp", "")),
            "buffer h f32[2, 5, 3072] strides [15440, 3088, 1] temp");
}

TEST(StaggerRows, LeavesOtherRows) {
  EXPECT_EQ(after(rows_of(768, "3840, 768, 1", "temp", "")), "buffer h f32[2, 5, 768] strides [3840, 768, 1] temp");
}

// A product whose columns' factor is a part of rows of `width` numbers: the values of a head, or its keys.
std::string part_of_rows(int64_t width, const std::string& read) {
  return str(R"(loops parts
buffer x f32[5, 64] strides [64, 1] input position 0
buffer h f32[64, )",
             width, "] strides [", width, R"(, 1] temp
buffer y f32[5, 64] strides [64, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel make ops [full] {
    for i0 in [64] parallel {
      for i1 in [)",
             width, R"(] parallel {
        %0 = constant.f32 1.0
        store h[i0, i1] = %0
      }
    }
  }
  kernel product ops [matmul] {
    for i0 in [5] parallel {
      for i1 in [64] parallel {
        %0 = for r0 in [64] reduce sum.f32 {
          %1 = load.f32 x[i0, r0]
          %2 = load.f32 h)",
             read, R"(
          %3 = mul.f32 %1, %2
          yield %3
        }
        store y[i0, i1] = %0
      }
    }
  }
}
)");
}

TEST(StaggerRows, SpreadsRowsOfWhichAPartIsRead) {
  for (const char* read : {"[r0, i1 + 64]", "[i1, r0 + 64]"}) {
    EXPECT_EQ(after(part_of_rows(512, read)), "buffer h f32[64, 512] strides [528, 1] temp") << read;
    EXPECT_EQ(after(part_of_rows(768, read)), "buffer h f32[64, 768] strides [784, 1] temp") << read;
    EXPECT_EQ(after(part_of_rows(160, read)), "buffer h f32[64, 160] strides [160, 1] temp") << read;
  }
}

TEST(StaggerRows, LeavesWhatIsNotDense) {
  EXPECT_EQ(after(rows_of(1024, "6144, 1024, 1", "temp", "")), "buffer h f32[2, 5, 1024] strides [6144, 1024, 1] temp");
}

TEST(StaggerRows, LeavesWhatTheUserSees) {
  EXPECT_EQ(after(rows_of(1024, "5120, 1024, 1", "output position 1", "output buffer h\n")),
            "buffer h f32[2, 5, 1024] strides [5120, 1024, 1] output position 1");
}

TEST(StaggerRows, IsForACpuWithVectors) {
  for (const bool gpu : {false, true}) {
    LoopProgram program = parsed(rows_of(1024, "5120, 1024, 1", "temp", ""));
    Log log;
    find_contractions(program, log);
    Target target;
    target.lanes = gpu ? 32 : 1;
    target.device = gpu ? DeviceType::cuda : DeviceType::cpu;
    EXPECT_FALSE(stagger_rows(program, target, log));
  }
}

}  // namespace
}  // namespace kiln::loops
