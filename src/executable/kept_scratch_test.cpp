// What `@kept` leaves in scratch stays for the later calls of one launch on the same thread, and for those alone.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "executable/loops_package_test.h"
#include "kiln/kernel_abi.h"
#include "toolchain/compiler.h"

namespace kiln {
namespace {

constexpr const char* squares_of_blocks = R"(loops kept
buffer x f32[3, 4] strides [4, 1] input position 0
buffer squares f32[4] strides [1] scratch
buffer out f32[3, 2, 4] strides [8, 4, 1] output position 0
input x = buffer x
output buffer out
init {
}
main {
  kernel k ops [mul] {
    schedule items [6] grain 1 lanes 1
    for i0 in [3] parallel @item {
      for i1 in [2] parallel @item {
        for i2 in [4] parallel @kept {
          %0 = load.f32 x[i0, i2]
          %1 = mul.f32 %0, %0
          store squares[i2] = %1
        }
        for i3 in [4] parallel {
          %2 = load.f32 squares[i3]
          store out[i0, i1, i3] = %2
        }
      }
    }
  }
}
)";

TEST(KeptScratch, StaysForTheCallsOfOneLaunch) {
  loops::LoopProgram program = loops::parse_loops(squares_of_blocks);
  loops::verify(program);
  const codegen::GeneratedCode code =
      codegen::cpu_backend().generate(program, codegen::cpu_backend().target("generic"));
  const std::string object =
      build_shared_object(find_compiler(), {code.sources, code.flags, code.symbols, {}, {}}, KernelCache(""))
          .shared_object;
  TemporaryDirectory directory("kiln-kept-test");
  const std::string path = join_path(directory.path(), "kernels.so");
  write_file_atomic(path, object);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto kernel = reinterpret_cast<kiln_kernel>(dlsym(library, code.symbols.at(0).c_str()));
  ASSERT_NE(kernel, nullptr);

  float x[12], out[24];
  alignas(64) float scratch[16];
  void* buffers[] = {x, out};
  kiln_error_slot slot{};
  int64_t kept = -1;
  kiln_kernel_context context{KILN_KERNEL_ABI_VERSION, 0, scratch, sizeof scratch, &slot, 0, &kept};
  const auto fill = [&](float value) { std::fill(std::begin(x), std::end(x), value); };
  // The item's first value.
  const auto run = [&](int64_t item) {
    EXPECT_EQ(kernel(&context, buffers, nullptr, item, item + 1), 0);
    return out[item * 4];
  };
  fill(2);
  EXPECT_EQ(run(0), 4);
  fill(3);
  EXPECT_EQ(run(1), 4) << "its neighbour's squares are there";
  EXPECT_EQ(run(2), 9) << "another block";
  EXPECT_EQ(run(0), 9) << "and back";
  fill(4);
  kept = -1;
  EXPECT_EQ(run(1), 16) << "another launch";
  fill(5);
  context.kept = nullptr;
  EXPECT_EQ(run(0), 25);
  fill(6);
  EXPECT_EQ(run(1), 36) << "nothing stays from call to call";
  dlclose(library);
}

}  // namespace
}  // namespace kiln
