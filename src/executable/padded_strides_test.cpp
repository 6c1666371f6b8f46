// Buffers whose rows lie further apart than they are long: a temporary, a prepared constant, an output and scratch, all
// with padding that nobody reads, compares or prints.
#include <gtest/gtest.h>

#include <filesystem>

#include "executable/loops_package_test.h"

namespace kiln {
namespace {

// packed = w + 1 (rows of 5 in 16 places); t = x * packed (rows 16 apart, columns first); y = t - row of t through
// scratch with gaps.
const char* const padded = R"(loops padded
symbol s0 in [1, 64] hint 4
buffer x f32[s0, 5] strides [5, 1] input position 0
buffer w f32[3, 5] strides [5, 1] constant named "w"
buffer packed f32[3, 5] strides [16, 1] derived
buffer t f32[s0, 3, 5] strides [64, 1, 12] temp
buffer spread f32[5] strides [3] scratch
buffer y f32[s0, 3, 5] strides [48, 16, 1] output position 0
input x = buffer x
output buffer y
init {
  kernel cpp_fused_pack_0 ops [pack] {
    schedule items [3] grain 1 lanes 1
    for i0 in [3] parallel @item {
      for i1 in [5] parallel {
        %0 = load.f32 w[i0, i1]
        %1 = constant.f32 1
        %2 = add.f32 %0, %1
        store packed[i0, i1] = %2
      }
    }
  }
}
main {
  kernel cpp_fused_mul_1 ops [mul] {
    schedule items [s0] grain 1 lanes 1
    for i0 in [s0] parallel @item {
      for i1 in [3] parallel {
        for i2 in [5] parallel {
          %0 = load.f32 x[i0, i2]
          %1 = load.f32 packed[i1, i2]
          %2 = mul.f32 %0, %1
          store t[i0, i1, i2] = %2
        }
      }
    }
  }
  kernel cpp_fused_sub_2 ops [sub] {
    schedule items [s0] grain 1 lanes 1
    for i0 in [s0] parallel @item {
      for i2 in [5] parallel {
        %0 = load.f32 t[i0, 0, i2]
        store spread[i2] = %0
      }
      for i1 in [3] parallel {
        for i3 in [5] parallel {
          %1 = load.f32 t[i0, i1, i3]
          %2 = load.f32 spread[i3]
          %3 = sub.f32 %1, %2
          store y[i0, i1, i3] = %3
        }
      }
    }
  }
}
)";

struct Padded {
  std::map<std::string, Tensor> constants{{"w", filled(DType::f32, {3, 5}, 3)}};
  LoopsPackage package{padded, constants};
  std::vector<Datum> inputs{{filled(DType::f32, {7, 5}, 4)}};
};

TEST(PaddedStrides, ThePlanHasRoomForTheLastElement) {
  Padded p;
  const format::Plan& plan = p.package.plan();
  const auto bytes = [&](const char* name) {
    for (const format::Buffer& b : plan.buffers)
      if (b.name == name) return plan.exprs[static_cast<size_t>(b.bytes)].text;
    return std::string();
  };
  EXPECT_EQ(bytes("packed"), "148");  // 2 rows of 16 and 5 more
  EXPECT_NE(bytes("t").find("s0"), std::string::npos);
  // ((s0 - 1) * 64 + 2 + 4 * 12 + 1) * 4
  EXPECT_EQ(bytes("x"), "s0*20");
}

TEST(PaddedStrides, RunAlikeEverywhere) {
  Padded p;
  const std::vector<Datum> want = p.package.interpreted(p.inputs);
  for (const std::vector<std::string>& settings : {std::vector<std::string>{},
                                                   {"cpp.threads=3"},
                                                   {"check_bounds=1"},
                                                   {"PYTORCH_NO_CUDA_MEMORY_CACHING=1"},
                                                   {"nan_asserts=1"}}) {
    const std::vector<Datum> have = p.package.run(p.inputs, settings);
    EXPECT_EQ(have[0].tensor().strides, (std::vector<int64_t>{48, 16, 1}));
    expect_near(have, want, 1e-6);
  }
  // Computed beside.
  const Tensor &x = p.inputs[0].tensor(), &w = p.constants["w"], &y = want[0].tensor();
  for (int64_t i = 0; i < 7; ++i)
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t k = 0; k < 5; ++k) {
        const auto at = [&](int64_t row) {
          return x.item(i * 5 + k).as_double() * (w.item(row * 5 + k).as_double() + 1);
        };
        EXPECT_NEAR(y.item((i * 3 + j) * 5 + k).as_double(), at(j) - at(0), 1e-5);
      }
}

// What is saved has the elements and their strides, twice the same; the NaNs that guarded memory is filled with, and
// whatever else lies between, are neither counted nor compared.
TEST(PaddedStrides, WatchersDoNotSeeThePadding) {
  Padded p;
  std::map<std::string, std::string> saved[2];
  for (int run : {0, 1}) {
    const std::string folder = join_path(p.package.folder(), str("saved_", run));
    std::vector<std::string> settings = {"aot_inductor.debug_intermediate_value_printer=1",
                                         "intermediate_value_dir=" + folder};
    if (run == 1) settings.push_back("PYTORCH_NO_CUDA_MEMORY_CACHING=1");
    p.package.run(p.inputs, settings);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.path().extension() == ".pt")
        saved[run][entry.path().filename().string()] = read_file(entry.path().string());
  }
  EXPECT_GE(saved[0].size(), 8u);
  for (const auto& [name, bytes] : saved[0]) EXPECT_EQ(saved[1][name].size(), bytes.size()) << name;
  EXPECT_EQ(saved[0], saved[1]);
}

}  // namespace
}  // namespace kiln
