// place_parts on concatenations in text: when a part is written where it belongs, and when it is not.
#include <gtest/gtest.h>

#include "loops/interpreter.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

const char* const part_buffers = R"(loops parts
buffer x f32[4, 3] strides [3, 1] input position 0
buffer a f32[4, 3] strides [3, 1] temp
buffer b f32[4, 2] strides [2, 1] temp
buffer c f32[4, 5] strides [5, 1] temp
buffer y f32[4, 5] strides [5, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
)";
const char* const makes_a = R"(  kernel a ops [neg] {
    for i0 in [4] parallel {
      for i1 in [3] parallel {
        %0 = load.f32 x[i0, i1]
        %1 = neg.f32 %0
        store a[i0, i1] = %1
      }
    }
  }
)";
const char* const copies_a = R"(  kernel cat ops [cat] {
    for i0 in [4] parallel {
      for i1 in [3] parallel {
        %0 = load.f32 a[i0, i1]
        store c[i0, i1 + 2] = %0
      }
    }
  }
)";
const char* const makes_b_of_a = R"(  kernel b ops [exp] {
    for i0 in [4] parallel {
      for i1 in [2] parallel {
        %0 = load.f32 a[i0, i1 + 1]
        %1 = exp.f32 %0
        store c[i0, i1] = %1
      }
    }
  }
)";
const char* const reads_c = R"(  kernel y ops [abs] {
    for i0 in [4] parallel {
      for i1 in [5] parallel {
        %0 = load.f32 c[i0, i1]
        %1 = abs.f32 %0
        store y[i0, i1] = %1
      }
    }
  }
)";

LoopProgram placed(const std::string& text) {
  LoopProgram program = parse_loops(text);
  verify(program);
  Log log;
  place_parts(program, Target(), log);
  verify(program);
  return program;
}

std::vector<double> part_outputs(const LoopProgram& program) {
  Tensor x = Tensor::empty(DType::f32, {4, 3});
  for (int64_t i = 0; i < 12; ++i) x.set_item(i, Scalar(static_cast<double>(i) * 0.25 - 1));
  LoopInterpreter interpreter(program, {});
  const Tensor y = interpreter.run({Datum{x}}).outputs.at(0).tensor();
  std::vector<double> out;
  for (int64_t i = 0; i < count_elements(y.sizes); ++i) out.push_back(y.item(i).as_double());
  return out;
}

TEST(PlaceParts, APartIsWrittenWhereItBelongs) {
  const std::string before = str(part_buffers, makes_a, copies_a, makes_b_of_a, reads_c, "}\n");
  const LoopProgram after = placed(before);
  const std::string text = print(after);
  EXPECT_NE(text.find("store c[i0, i1 + 2] = %1"), std::string::npos) << text;
  EXPECT_NE(text.find("load.f32 c[i0, i1 + 3]"), std::string::npos) << text;
  EXPECT_EQ(text.find(" a["), std::string::npos) << text;
  EXPECT_EQ(text.find("kernel cat"), std::string::npos) << text;
  EXPECT_EQ(part_outputs(after), part_outputs(parse_loops(before)));
}

TEST(PlaceParts, OthersStay) {
  auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  const std::string part = replaced(copies_a, "for i1 in [3]", "for i1 in [2]");
  const std::string overlaps = replaced(makes_b_of_a, "for i1 in [2]", "for i1 in [3]");
  const std::string transposed =
      replaced(part_buffers, "buffer a f32[4, 3] strides [3, 1]", "buffer a f32[4, 3] strides [1, 4]");
  for (const std::string& text : {
           str(part_buffers, makes_a, part, makes_b_of_a, reads_c, "}\n"),               // not all of it is copied
           str(part_buffers, makes_a, copies_a, overlaps, reads_c, "}\n"),               // another writes the part too
           str(part_buffers, makes_a, copies_a, makes_a, makes_b_of_a, reads_c, "}\n"),  // it changes after the copy
           str(part_buffers, makes_a, reads_c, copies_a, makes_b_of_a, "}\n"),           // somebody reads before
           str(transposed, makes_a, copies_a, makes_b_of_a, reads_c, "}\n"),             // it lies otherwise
       })
    EXPECT_EQ(print(placed(text)), print(parse_loops(text)));
}

}  // namespace
}  // namespace kiln::loops
