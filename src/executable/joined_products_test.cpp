// Products of the same rows as one: the plain nests run by the loop interpreter, and what the scheduler makes of them
// compiled, checked, and in several threads.
#include <gtest/gtest.h>

#include "executable/loops_package_test.h"
#include "schedule/schedule.h"

namespace kiln {
namespace {

// Widths that panels of whatever tile do not divide.
const std::vector<std::pair<std::string, int64_t>> widths = {{"a", 208}, {"b", 80}, {"c", 96}};

std::string products(int64_t rows, int64_t terms) {
  std::string buffers, kernels, last = "        %0 = constant.f32 0.0\n";
  int value = 0;
  for (const auto& [name, width] : widths) {
    buffers += str("buffer w_", name, " f32[", width, ", ", terms, "] strides [", terms, ", 1] constant named \"w_",
                   name, "\"\nbuffer b_", name, " f32[", width, "] strides [1] constant named \"b_", name,
                   "\"\nbuffer ", name, " f32[", rows, ", ", width, "] strides [", width, ", 1] temp\n");
    kernels +=
        str("  kernel ", name, " ops [linear] {\n    for i0 in [", rows, "] parallel {\n      for i1 in [", width,
            "] parallel {\n        %0 = for r0 in [", terms,
            "] reduce sum.f32 {\n          %1 = load.f32 x[i0, r0]\n          %2 = load.f32 w_", name,
            "[i1, r0]\n          %3 = mul.f32 %1, %2\n          yield %3\n        }\n        %4 = load.f32 b_", name,
            "[i1]\n        %5 = add.f32 %0, %4\n        store ", name, "[i0, i1] = %5\n      }\n    }\n  }\n");
    last += str("        %", value + 1, " = load.f32 ", name, "[i0, i1 + ", width - 80, "]\n        %", value + 2,
                " = sub.f32 %", value + 1, ", %", value, "\n");
    value += 2;
  }
  return str("loops products\nbuffer x f32[", rows, ", ", terms, "] strides [", terms, ", 1] input position 0\n",
             buffers, "buffer y f32[", rows, ", 80] strides [80, 1] output position 0\n",
             "input x = buffer x\noutput buffer y\ninit {\n}\nmain {\n", kernels,
             "  kernel y ops [sub] {\n    for i0 in [", rows, "] parallel {\n      for i1 in [80] parallel {\n", last,
             "        store y[i0, i1] = %", value, "\n      }\n    }\n  }\n}\n");
}

TEST(JoinedProducts, RunAsThePlainNestsDo) {
  const codegen::Target target = codegen::cpu_backend().target(codegen::cpu_backend().host_target_name());
  if (target.lanes == 1) GTEST_SKIP();
  for (const int64_t rows : {5, 64, 130}) {
    const int64_t terms = 70;
    const std::string text = products(rows, terms);
    std::map<std::string, Tensor> constants;
    int seed = 1;
    for (const auto& [name, width] : widths) {
      constants["w_" + name] = filled(DType::f32, {width, terms}, seed++);
      constants["b_" + name] = filled(DType::f32, {width}, seed++);
    }
    const std::vector<Datum> inputs = {{filled(DType::f32, {rows, terms}, seed)}};
    const loops::LoopProgram plain = loops::parse_loops(text);
    const std::vector<Datum> want = loops::LoopInterpreter(plain, constants, {}).run(inputs).outputs;
    loops::LoopProgram program = loops::parse_loops(text);
    loops::Log log;
    loops::find_contractions(program, log);
    ASSERT_TRUE(loops::join_products(program, target, log));
    schedule_axes(program, target, log);
    const LoopsPackage package(loops::print(program), constants);
    EXPECT_EQ(package.plan().steps.size(), 2u);
    expect_near(package.interpreted(inputs), want, 2e-5);
    expect_runs(package, inputs, want, 2e-5);
  }
}

}  // namespace
}  // namespace kiln
