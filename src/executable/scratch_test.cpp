// Memory of an item: a softmax over rows whose exponentials, and whose row of scores, never leave the thread.
#include <gtest/gtest.h>

#include "executable/loops_package_test.h"

namespace kiln {
namespace {

// Rows of a product and their softmax, as attention has them. The number of rows and of columns is not known before.
std::string softmax_of_product(int lanes) {
  return replace_all(R"(loops rows
symbol s0 in [1, 4096] hint 8
symbol s1 in [1, 4096] hint 8
buffer q f32[s0, 8] strides [8, 1] input position 0
buffer k f32[s1, 8] strides [8, 1] input position 1
buffer scores f32[s1] strides [1] scratch
buffer shifted f32[2, s1] strides [s1, 1] scratch
buffer y f32[s0, s1] strides [s1, 1] output position 0
input q = buffer q
input k = buffer k
output buffer y
main {
  kernel cpp_fused_softmax_0 ops [softmax] {
    schedule items [s0] grain 1 lanes LANES
    for i0 in [s0] parallel @item {
      for i1 in [s1] parallel {
        %0 = for r0 in [8] reduce sum.f32 {
          %1 = load.f32 q[i0, r0]
          %2 = load.f32 k[i1, r0]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store scores[i1] = %0
      }
      %4 = for r1 in [s1] reduce max.f32 @lane(LANES, mask) {
        %5 = load.f32 scores[r1]
        yield %5
      }
      for i2 in [s1] parallel @lane(LANES, mask) {
        %6 = load.f32 scores[i2]
        %7 = sub.f32 %6, %4
        %8 = exp.f32 %7
        store shifted[1, i2] = %8
      }
      %9 = for r2 in [s1] reduce sum.f32 @lane(LANES, mask) {
        %10 = load.f32 shifted[1, r2]
        yield %10
      }
      for i3 in [s1] parallel @lane(LANES, mask) {
        %11 = load.f32 shifted[1, i3]
        %12 = div.f32 %11, %9
        store y[i0, i3] = %12
      }
    }
  }
}
)",
                     "LANES", std::to_string(lanes));
}

int host_lanes() { return codegen::cpu_backend().target(codegen::cpu_backend().host_target_name()).lanes; }

std::vector<Datum> inputs_of(int64_t rows, int64_t columns) {
  return {{filled(DType::f32, {rows, 8}, 1)}, {filled(DType::f32, {columns, 8}, 2)}};
}

TEST(Scratch, RunsAlikeInterpretedCompiledInThreadsAndChecked) {
  const std::string text = softmax_of_product(host_lanes());
  EXPECT_EQ(loops::print(loops::parse_loops(text)),
            loops::print(loops::parse_loops(loops::print(loops::parse_loops(text)))));
  const LoopsPackage package(text);
  // Two buffers, each at a multiple of 64 bytes; the plan has neither, and says how many bytes a thread wants.
  EXPECT_NE(package.source().find("scratch1_bytes"), std::string::npos);
  const format::Plan& plan = package.plan();
  EXPECT_EQ(plan.buffers.size(), 3u);
  ASSERT_NE(plan.steps.at(0).scratch, format::none);
  EXPECT_NE(plan.exprs[static_cast<size_t>(plan.steps[0].scratch)].text.find("s1"), std::string::npos);
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {7, 5}, {33, 129}, {64, 16}, {5, 1000}}) {
    const std::vector<Datum> inputs = inputs_of(rows, columns);
    const std::vector<Datum> want = package.interpreted(inputs);
    for (const char* threads : {"cpp.threads=1", "cpp.threads=3"}) {
      const std::vector<Datum> have = package.run(inputs, {threads});
      expect_near(have, want, 1e-6);
      expect_near(package.run(inputs, {threads, "check_bounds=1"}), want, 1e-6);
      expect_near(package.run(inputs, {threads, "PYTORCH_NO_CUDA_MEMORY_CACHING=1"}), want, 1e-6);
    }
    // The number of threads does not show.
    expect_near(package.run(inputs, {"cpp.threads=1"}), package.run(inputs, {"cpp.threads=3"}), 0);
  }
}

TEST(Scratch, OneInstanceTakesLargerAndSmallerSizes) {
  const LoopsPackage package(softmax_of_product(host_lanes()));
  PackageOptions options;
  options.settings = {"cpp.threads=3"}, options.ignore_environment = true;
  PackageExecutable model(package.path(), options);
  for (int64_t columns : {3, 4000, 20, 4000})
    expect_near(model.call(inputs_of(9, columns)).outputs, package.interpreted(inputs_of(9, columns)), 1e-6);
}

// What the machine code does beside its scratch is seen by checked runs, and past the last of it by a guard page.
TEST(Scratch, CheckedRunsSeeCodeThatLeavesIt) {
  const LoopsPackage package(softmax_of_product(1), {}, [](std::string& source) {
    const size_t at = source.find("k_set_f32(scratch0 + ");
    ASSERT_NE(at, std::string::npos);
    source.insert(at + 21, "1 + ");
  });
  const std::string text = package.refused(inputs_of(4, 10), {"check_bounds=1"});
  for (const char* part :
       {"K0644", "writes 4 bytes of scratch0 that begin right behind its end", "cpp_fused_softmax_0"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = softmax_of_product(1);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string verify_error(const std::string& text) {
  try {
    loops::verify(loops::parse_loops(text));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Scratch, WhatIsNotSeenToBeWrittenIsRefused) {
  EXPECT_EQ(verify_error(softmax_of_product(1)), "");
  const auto expect = [](const std::string& text, const std::string& part) {
    const std::string error = verify_error(text);
    EXPECT_NE(error.find(part), std::string::npos) << part << ": " << error;
  };
  expect(changed("load.f32 scores[r1]", "load.f32 shifted[1, r1]"), "reads shifted[1, r1], scratch of which");
  expect(changed("store shifted[1, i2]", "store shifted[0, i2]"), "reads shifted[1, r2]");
  expect(changed("for i2 in [s1]", "for i2 in [s1 - 1]"), "reads shifted[1, r2]");
  expect(changed("store scores[i1]", "store scores[0]"), "iterations of i1 write scores[0] at once");
  expect(changed("buffer scores f32[s1] strides [1] scratch", "buffer scores f32[s1] strides [1] offset [2] scratch"),
         "does not begin at its start");
  expect(changed("output buffer y", "output buffer scores"), "an output uses the scratch scores");
}

// Two loops may number what they write one after the other, as slices and channels of a picture are.
TEST(Scratch, TwoLoopsWriteOneDimension) {
  const std::string text = R"(loops parts
buffer x f32[4, 3, 8] strides [24, 8, 1] input position 0
buffer terms f32[24] strides [1] scratch
buffer y f32[4] strides [1] output position 0
input x = buffer x
output buffer y
main {
  kernel cpp_fused_parts_0 ops [sum] {
    schedule items [4] grain 1 lanes 1
    for i0 in [4] parallel @item {
      for i1 in [3] parallel {
        for i2 in [8] parallel {
          %0 = load.f32 x[i0, i1, i2]
          store terms[i1*8 + i2] = %0
        }
      }
      %1 = for r0 in [24] reduce sum.f32 {
        %2 = load.f32 terms[r0]
        yield %2
      }
      store y[i0] = %1
    }
  }
}
)";
  EXPECT_EQ(verify_error(text), "");
  for (const auto& [from, to] :
       {std::pair{"i1*8 + i2", "i1*7 + i2"}, {"i1 in [3]", "i1 in [2]"}, {"i2 in [8]", "i2 in [7]"}})
    EXPECT_NE(verify_error(replace_all(text, from, to)).find("reads terms[r0], scratch of which"), std::string::npos);
}

// What stays in scratch for the items that follow one another, wherever a thread's piece of them begins.
const char* const kept_rows = R"(loops kept
buffer x f32[5, 24] strides [24, 1] input position 0
buffer w f32[7, 24] strides [24, 1] input position 1
buffer squares f32[24] strides [1] scratch
buffer y f32[5, 7] strides [7, 1] output position 0
input x = buffer x
input w = buffer w
output buffer y
init {
}
main {
  kernel cpp_fused_kept_0 ops [sum] {
    schedule items [35] grain 1 lanes 1
    for i0 in [5] parallel @item {
      for i1 in [7] parallel @item {
        for i2 in [24] parallel @kept {
          %0 = load.f32 x[i0, i2]
          %1 = mul.f32 %0, %0
          store squares[i2] = %1
        }
        %2 = for r0 in [24] reduce sum.f32 {
          %3 = load.f32 squares[r0]
          %4 = load.f32 w[i1, r0]
          %5 = mul.f32 %3, %4
          yield %5
        }
        store y[i0, i1] = %2
      }
    }
  }
}
)";

TEST(Scratch, StaysForItemsThatFollowOneAnother) {
  EXPECT_EQ(loops::print(loops::parse_loops(kept_rows)), kept_rows);
  const LoopsPackage package(kept_rows);
  EXPECT_NE(package.source().find("if (!is_kept)"), std::string::npos) << package.source();
  const std::vector<Datum> inputs = {{filled(DType::f32, {5, 24}, 1)}, {filled(DType::f32, {7, 24}, 2)}};
  for (const char* threads : {"cpp.threads=1", "cpp.threads=2", "cpp.threads=7"})
    for (const char* checks : {"check_bounds=0", "check_bounds=1", "PYTORCH_NO_CUDA_MEMORY_CACHING=1"})
      expect_near(package.run(inputs, {threads, checks}), package.interpreted(inputs), 0);
}

TEST(Scratch, WhatIsNotTheSameForThemIsNotKept) {
  EXPECT_EQ(verify_error(kept_rows), "");
  const auto expect = [](const std::string& from, const std::string& to, const std::string& part) {
    const std::string error = verify_error(replace_all(kept_rows, from, to));
    EXPECT_NE(error.find(part), std::string::npos) << part << ": " << error;
  };
  expect("x[i0, i2]", "x[i0, (i1 + i2) % 24]", "another one for each i1");
  expect("for i2 in [24] parallel @kept {\n          %0 = load.f32 x[i0, i2]",
         "%0 = load.f32 w[i1, 0]\n        for i2 in [24] parallel @kept {", "a value from outside of it");
  expect("%1 = mul.f32 %0, %0", "%1 = mul.f32 %0, %0\n          store y[i0, 0] = %1", "no scratch to keep");
  expect("store squares[i2]", "store.add squares[i2]", "no scratch to keep");
  expect("store y[i0, i1] = %2", "store squares[0] = %2\n        store y[i0, i1] = %2",
         "is kept, and written elsewhere");
  expect("for i1 in [7] parallel @item", "for i1 in [7] parallel @serial", "no plain loop of items");
  expect("reduce sum.f32 {", "reduce sum.f32 @kept {", "@kept at a reduction");
}

// The interpreter looks at elements, whatever the verifier has let through: it is asked here for one that a row lacks.
TEST(Scratch, TheInterpreterSeesElementsThatTheItemHasNotWritten) {
  loops::LoopProgram program = loops::parse_loops(softmax_of_product(1));
  loops::LoopInterpreter interpreter(program, {}, {});
  // Behind the verifier's back: the exponentials of all columns but the last.
  auto& kernel = std::get<loops::Kernel>(program.block[0].what);
  loops::for_each_stmt(kernel.body, [](loops::Stmt& stmt) {
    if (stmt.loop && stmt.loop->var == "i2") stmt.loop->extent = Expr::symbol("s1") - 1;
  });
  try {
    interpreter.run(inputs_of(2, 6));
    FAIL() << "nothing was said";
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part : {"K0526", "reads shifted[1, 5], scratch that this item has not written", "i0 = 0, r2 = 5"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace kiln
