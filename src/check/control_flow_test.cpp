// map, scan, associative_scan, cond and while_loop give the same in the reference, the loops and compiled code.
#include <gtest/gtest.h>

#include "check/compare.h"
#include "executable/executable.h"
#include "ops/op_record.h"
#include "ops/sample_program.h"

namespace kiln {
namespace {

Program program_of(const std::string& text) {
  Program program = parse_program(text);
  resolve_operators(program.graph, {});
  return program;
}

Datum tensor(std::vector<int64_t> sizes, uint64_t seed) {
  Sample::TensorSpec spec;
  spec.sizes = std::move(sizes);
  return Datum{sample_tensor(spec, seed)};
}

void expect_agreement(const Program& program, const std::vector<std::vector<Datum>>& calls) {
  ExecutableOptions reference;
  reference.backend = Backend::interpret;
  for (Backend backend : {Backend::loops, Backend::compiled}) {
    ExecutableOptions options;
    options.backend = backend;
    auto executable = make_executable(program, options);
    for (const auto& inputs : calls) {
      Comparison result = compare_lists("output", executable->call(inputs).outputs,
                                        make_executable(program, reference)->call(inputs).outputs, CompareOptions{});
      EXPECT_TRUE(result.ok()) << backend_name(backend) << ": " << result.failure;
    }
  }
}

// The carry and what is stacked swap roles, so that a carried value is read after it would have been overwritten.
TEST(ControlFlow, ScanOverADynamicLength) {
  Program program = program_of(R"(program "m"
symbol s0 [0, 64] hint 5
graph main {
  input %a: f32[3] = user
  input %b: f32[3] = user
  input %x: f32[s0, 3] = user
  input %w: f32[3] = user
  %last: f32[3], %last2: f32[3], %all: f32[s0, 3] = higher_order.scan(graph body {
    input %c: f32[3]
    input %d: f32[3]
    input %e: f32[3]
    input %f: f32[3]
    %sum: f32[3] = aten.add.Tensor(self=%c, other=%e)
    %out: f32[3] = aten.mul.Tensor(self=%sum, other=%f)
    output %d
    output %sum
    output %out
  }, [%a, %b], [%x], [%w])
  output %last = user
  output %last2 = user
  output %all = user
}
)");
  std::vector<std::vector<Datum>> calls;
  for (int64_t length : {5, 1, 0, 33})
    calls.push_back({tensor({3}, 1), tensor({3}, 2), tensor({length, 3}, 3), tensor({3}, 4)});
  expect_agreement(program, calls);
}

TEST(ControlFlow, MapOfMap) {
  Program program = program_of(R"(program "m"
graph main {
  input %x: f32[4, 2, 3] = user
  %y: f32[4, 2, 3] = higher_order.map_impl(graph outer {
    input %row: f32[2, 3]
    %inner: f32[2, 3] = higher_order.map_impl(graph inner {
      input %v: f32[3]
      input %r: f32[2, 3]
      %s: f32[3] = aten.sum.dim_IntList(self=%r, dim=[0])
      %m: f32[3] = aten.mul.Tensor(self=%v, other=%s)
      output %m
    }, [%row], [%row])
    output %inner
  }, [%x], [])
  output %y = user
}
)");
  expect_agreement(program, {{tensor({4, 2, 3}, 5)}});
}

TEST(ControlFlow, AssociativeScanOfTwoTensors) {
  Program program = program_of(R"(program "m"
symbol s0 [0, 64] hint 6
graph main {
  input %g: f32[s0, 2] = user
  input %x: f32[s0, 2] = user
  %p: f32[s0, 2], %q: f32[s0, 2] = higher_order.associative_scan(graph combine {
    input %a: f32[2]
    input %b: f32[2]
    input %c: f32[2]
    input %d: f32[2]
    %g2: f32[2] = aten.mul.Tensor(self=%a, other=%c)
    %t: f32[2] = aten.mul.Tensor(self=%c, other=%b)
    %x2: f32[2] = aten.add.Tensor(self=%t, other=%d)
    output %g2
    output %x2
  }, [%g, %x], [])
  output %p = user
  output %q = user
}
)");
  expect_agreement(program, {{tensor({6, 2}, 7), tensor({6, 2}, 8)},
                             {tensor({0, 2}, 7), tensor({0, 2}, 8)},
                             {tensor({1, 2}, 7), tensor({1, 2}, 8)}});
}

TEST(ControlFlow, BranchesOfDifferentSizes) {
  Program program = program_of(R"(program "m"
symbol u0 [0, oo] unbacked
graph main {
  input %p: bool[] = user
  input %x: f32[5, 2] = user
  %y: f32[u0, 2] = higher_order.cond(%p, graph yes {
    input %a: f32[5, 2]
    %s: f32[2, 2] offset {2} = aten.slice.Tensor(self=%a, dim=0, start=1, end=3)
    %c: f32[2, 2] = aten.clone.default(self=%s)
    output %c
  }, graph no {
    input %b: f32[5, 2]
    %n: f32[5, 2] = aten.neg.default(self=%b)
    output %n
  }, [%x])
  %z: f32[u0, 2] = aten.exp.default(self=%y)
  output %z = user
}
)");
  std::vector<std::vector<Datum>> calls;
  for (bool taken : {true, false})
    calls.push_back({Datum{Tensor::scalar(DType::boolean, Scalar(taken))}, tensor({5, 2}, 9)});
  expect_agreement(program, calls);
}

}  // namespace
}  // namespace kiln
