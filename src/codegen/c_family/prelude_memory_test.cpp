// Loads and stores of generated kernels: every form and storage type, at the end of a mapped page, so that an access
// past the lanes in use is a fault.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "codegen/c_family/prelude_oracle.h"
#include "types/tensor.h"

namespace kiln::codegen {
namespace {

using oracle::Build;
using oracle::Library;

const std::vector<DType> storage_types = {
    DType::f32,     DType::f64,      DType::i8,     DType::u8,         DType::i16,       DType::u16,
    DType::i32,     DType::u32,      DType::i64,    DType::u64,        DType::f16,       DType::bf16,
    DType::boolean, DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz};

// Two pages of which the second may not be touched. `end(n)` is a place with n bytes before the wall.
class Guarded {
 public:
  Guarded() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    base_ =
        static_cast<std::byte*>(mmap(nullptr, page_ * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + page_, page_, PROT_NONE);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, page_ * 2); }
  std::byte* end(size_t bytes) const { return base_ + page_ - bytes; }

 private:
  size_t page_;
  std::byte* base_;
};

std::string function(std::string_view name, std::string_view d, std::string_view body) {
  return str("extern \"C\" __attribute__((visibility(\"default\"))) void ", name, "_", d,
             "(const void* a, void* b, i64 s, int n, const i64* j) {\n", body, "}\n");
}

std::string body_for(DType dtype) {
  std::string d = dtype_name(dtype), memory = dtype == DType::boolean ? "bool8" : d;
  std::string from = str("(const ", memory, "*)a"), to = str("(", memory, "*)b");
  auto f = [&](std::string_view name, std::string body) {
    return function(name, d, replace_all(replace_all(std::move(body), "$A", from), "$B", to));
  };
  auto op = [&](std::string text) { return replace_all(std::move(text), "$d", d); };
  return f("whole", op("  k_store_$d($B, k_load_$d($A));\n")) +
         f("part", op("  k_store_$d_n($B, k_load_$d_n($A, n), n);\n")) +
         f("stride", op("  k_store_$d_s($B, k_load_$d_s($A, s), s);\n")) +
         f("stride_part", op("  k_store_$d_sn($B, k_load_$d_sn($A, s, n), s, n);\n")) +
         f("second", op("  k_store_$d_s($B, k_load_$d_s($A, 2), 2);\n")) +
         f("second_part", op("  k_store_$d_sn($B, k_load_$d_sn($A, 2, n), 2, n);\n")) +
         f("second_masked", op("  vmask m = k_first(n);\n  k_store_$d_sm($B, k_load_$d_sm($A, 2, m), 2, m);\n")) +
         f("masked", op("  vmask m = k_first(n);\n  k_store_$d_m($B, k_load_$d_m($A, m), m);\n")) +
         f("stride_masked", op("  vmask m = k_first(n);\n  k_store_$d_sm($B, k_load_$d_sm($A, s, m), s, m);\n")) +
         f("indexed", op("  vi64 i = k_load_i64(j);\n  k_scatter_$d($B, i, k_gather_$d($A, i));\n")) +
         f("indexed_masked", op("  vi64 i = k_load_i64(j);\n  vmask m = k_first(n);\n  k_scatter_$d($B, i, "
                                "k_gather_$d_m($A, i, m), m);\n")) +
         f("zeros", op("  k_store_$d($B, k_load_$d_n($A, n));\n")) + f("one", op("  k_set_$d($B, k_get_$d($A));\n"));
}

class PreludeMemory : public testing::TestWithParam<Build> {
 protected:
  using Call = void(const void*, void*, int64_t, int, const int64_t*);
  void SetUp() override {
    if (!oracle::host_runs(GetParam().level)) GTEST_SKIP() << "this machine does not run that level";
    if (!oracle::has_compiler(GetParam().compiler)) GTEST_SKIP() << "no " << GetParam().compiler;
    std::string body;
    for (DType d : storage_types) body += body_for(d);
    library_ = std::make_unique<Library>(body, GetParam());
  }
  int lanes() const { return GetParam().lanes; }
  // Runs one form on `n` elements `stride` apart that end at the wall; all bytes in between must stay as they were.
  void check(const std::string& form, DType dtype, int n, int stride) {
    size_t bytes = static_cast<size_t>(dtype_bytes(dtype)),
           span = (static_cast<size_t>(n - 1) * static_cast<size_t>(stride) + 1) * bytes;
    if (n == 0) span = 0;
    std::byte *a = in_.end(span), *b = out_.end(span);
    std::vector<std::byte> want(span, std::byte{0x55});
    for (size_t i = 0; i < span; i++)
      a[i] = dtype == DType::boolean ? std::byte{i % 3 == 0} : std::byte(i * 37 % 113 + 1);
    std::memset(b, 0x55, span);
    std::vector<int64_t> index(16);
    for (int i = 0; i < 16; i++) index[static_cast<size_t>(i)] = i < n ? int64_t{n - 1 - i} * stride : int64_t{1} << 40;
    for (int i = 0; i < n; i++)
      std::memcpy(want.data() + static_cast<size_t>(i * stride) * bytes, a + static_cast<size_t>(i * stride) * bytes,
                  bytes);
    library_->get<Call>(str(form, "_", dtype_name(dtype)))(a, b, stride, n, index.data());
    EXPECT_EQ(std::memcmp(b, want.data(), span), 0)
        << form << " " << dtype_name(dtype) << " n=" << n << " stride=" << stride;
  }
  std::unique_ptr<Library> library_;
  Guarded in_, out_;
};

// One test, for the library takes a few seconds to compile.
TEST_P(PreludeMemory, EveryFormTouchesWhatItShould) {
  for (DType d : storage_types) {
    check("whole", d, lanes(), 1);
    check("one", d, 1, 1);
    check("stride", d, lanes(), 3);
    check("second", d, lanes(), 2);
    check("indexed", d, lanes(), 2);
    for (int n = 0; n <= lanes(); n++) {
      check("part", d, n, 1);
      check("masked", d, n, 1);
      check("stride_part", d, n, 5);
      check("stride_masked", d, n, 2);
      check("second_part", d, n, 2);
      check("second_masked", d, n, 2);
      check("indexed_masked", d, n, 1);
    }
    // Lanes that are off give zero.
    size_t bytes = static_cast<size_t>(dtype_bytes(d)), all = bytes * static_cast<size_t>(lanes());
    for (int n = 0; n < lanes(); n++) {
      size_t span = static_cast<size_t>(n) * bytes;
      std::byte *a = in_.end(span), *b = out_.end(all);
      std::memset(a, 1, span);
      std::memset(b, 0x55, all);
      library_->get<Call>(str("zeros_", dtype_name(d)))(a, b, 1, n, nullptr);
      for (size_t i = 0; i < all; i++)
        EXPECT_EQ(b[i], std::byte{i < span}) << dtype_name(d) << " n=" << n << " byte " << i;
    }
  }
}

std::string memory_build_name(const testing::TestParamInfo<Build>& info) {
  const Build& s = info.param;
  return str(s.compiler == "g++" ? "gcc" : "clang", "_level", static_cast<int>(s.level), "_lanes", s.lanes,
             s.mask_bits == 64 ? "_mask64" : "");
}
INSTANTIATE_TEST_SUITE_P(Builds, PreludeMemory,
                         testing::Values(Build{"g++", CpuLevel::generic, 1}, Build{"g++", CpuLevel::generic, 4},
                                         Build{"g++", CpuLevel::x86_64_v3, 8}, Build{"g++", CpuLevel::x86_64_v3, 16},
                                         Build{"g++", CpuLevel::x86_64_v4, 16},
                                         Build{"g++", CpuLevel::x86_64_v4, 8, 64}, Build{"g++", CpuLevel::x86_64_v4, 4},
                                         Build{"clang++", CpuLevel::x86_64_v4, 16}),
                         memory_build_name);

// All halves to f32 and back, and f32 numbers around every half and bfloat: as types/tensor.h does it.
TEST(PreludeHalves, AgreeWithScalarConversions) {
  for (const Build& setup :
       {Build{"g++", CpuLevel::generic, 1}, Build{"g++", CpuLevel::generic, 4}, Build{"g++", CpuLevel::x86_64_v3, 8},
        Build{"g++", CpuLevel::x86_64_v4, 16}, Build{"g++", CpuLevel::x86_64_v4_bf16, 16},
        Build{"clang++", CpuLevel::x86_64_v4_bf16, 16}}) {
    if (!oracle::host_runs(setup.level) || !oracle::has_compiler(setup.compiler)) continue;
    std::string body;
    for (const char* d : {"f16", "bf16"}) {
      body += str("extern \"C\" __attribute__((visibility(\"default\"))) void widen_all_", d, "(const ", d,
                  "* a, f32* b, i64 n) { for (i64 i = 0; i < n; i += ", setup.lanes, ") k_store_f32(b + i, k_load_", d,
                  "(a + i)); }\n");
      body += str("extern \"C\" __attribute__((visibility(\"default\"))) void narrow_all_", d, "(const f32* a, ", d,
                  "* b, i64 n) { for (i64 i = 0; i < n; i += ", setup.lanes, ") k_store_", d,
                  "(b + i, k_load_f32(a + i)); }\n");
    }
    Library library(body, setup);
    for (bool brain : {false, true}) {
      std::vector<uint16_t> bits(65536), back(65536 * 5);
      std::vector<float> wide(65536), around;
      for (size_t i = 0; i < bits.size(); i++) bits[i] = static_cast<uint16_t>(i);
      library.get<void(const uint16_t*, float*, int64_t)>(brain ? "widen_all_bf16" : "widen_all_f16")(
          bits.data(), wide.data(), 65536);
      for (size_t i = 0; i < bits.size(); i++) {
        float want = brain ? bf16_to_f32(bits[i]) : f16_to_f32(bits[i]);
        ASSERT_TRUE(std::isnan(want) ? std::isnan(wide[i]) : std::memcmp(&want, &wide[i], 4) == 0)
            << brain << " " << i << " " << want << " " << wide[i];
        uint32_t at, half = brain ? 0x8000 : 0x1000;
        std::memcpy(&at, &want, 4);
        for (uint32_t step : {0u, half - 1, half, half + 1, 0x777u}) {
          uint32_t moved = at + step;
          float value;
          std::memcpy(&value, &moved, 4);
          around.push_back(value);
        }
      }
      library.get<void(const float*, uint16_t*, int64_t)>(brain ? "narrow_all_bf16" : "narrow_all_f16")(
          around.data(), back.data(), 65536 * 5);
      for (size_t i = 0; i < around.size(); i++) {
        uint16_t want = brain ? f32_to_bf16(around[i]) : f32_to_f16(around[i]);
        bool both_nan = std::isnan(around[i]) && std::isnan(brain ? bf16_to_f32(back[i]) : f16_to_f32(back[i]));
        ASSERT_TRUE(both_nan || want == back[i]) << brain << " " << around[i] << " " << want << " " << back[i];
      }
    }
  }
}

// Every code of every f8 format to f32 and to bits and back; f32 numbers at, around and halfway between the codes,
// subnormal and too large ones: as types/tensor.h does it, which was compared with PyTorch for all 16-bit numbers.
void check_f8(const Library& library, DType dtype) {
  const std::string d = dtype_name(dtype);
  std::vector<uint8_t> codes(256), bits(256);
  std::vector<float> wide(256), around = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -NAN, 3e38f, -3e38f, 1e-45f, 1e-38f};
  for (size_t i = 0; i < codes.size(); i++) codes[i] = static_cast<uint8_t>(i);
  library.get<void(const uint8_t*, float*, uint8_t*)>("widen_all_" + d)(codes.data(), wide.data(), bits.data());
  for (size_t i = 0; i < codes.size(); i++) {
    float want = f8_to_f32(dtype, codes[i]);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(wide[i]) : std::memcmp(&want, &wide[i], 4) == 0) << d << " " << i;
    ASSERT_TRUE(std::isnan(want) || bits[i] == codes[i]) << d << " " << i;
  }
  for (size_t i = 0; i + 1 < codes.size(); i++) {
    float low = f8_to_f32(dtype, codes[i]), high = f8_to_f32(dtype, codes[i + 1]), middle = (low + high) / 2;
    for (float x : {low, middle, std::nextafter(middle, low), std::nextafter(middle, high), low * 1.9f, low * 0.1f})
      around.push_back(x);
  }
  for (uint32_t i = 0; i < 1u << 16; i++) {
    uint32_t word = i * 65521u;
    float x;
    std::memcpy(&x, &word, 4);
    around.push_back(x);
  }
  while (around.size() % 16 != 0) around.push_back(0);
  std::vector<uint8_t> back(around.size());
  library.get<void(const float*, uint8_t*, int64_t)>("narrow_all_" + d)(around.data(), back.data(),
                                                                        static_cast<int64_t>(around.size()));
  for (size_t i = 0; i < around.size(); i++)
    ASSERT_EQ(int{back[i]}, int{f32_to_f8(dtype, around[i])}) << d << " " << around[i];
}

TEST(PreludeF8, AgreesWithScalarConversions) {
  const std::vector<DType> formats = {DType::f8e4m3fn, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz};
  for (const Build& setup : {Build{"g++", CpuLevel::generic, 1}, Build{"g++", CpuLevel::generic, 4},
                             Build{"g++", CpuLevel::x86_64_v3, 16}, Build{"g++", CpuLevel::x86_64_v4, 16}}) {
    if (!oracle::host_runs(setup.level)) continue;
    std::string body;
    for (DType dtype : formats) {
      std::string d = dtype_name(dtype), head = "extern \"C\" __attribute__((visibility(\"default\"))) void ";
      std::string step = str("; i += ", setup.lanes, ") ");
      body += str(head, "widen_all_", d, "(const ", d, "* a, f32* b, u8* c) { for (int i = 0; i < 256", step,
                  "{ vf32 x = k_load_", d, "(a + i); k_store_f32(b + i, x); k_store_u8(c + i, k_bits_", d,
                  "(k_from_bits_", d, "(k_bits_", d, "(x)))); } }\n");
      body += str(head, "narrow_all_", d, "(const f32* a, ", d, "* b, i64 n) { for (i64 i = 0; i < n", step, "k_store_",
                  d, "(b + i, k_load_f32(a + i)); }\n");
    }
    Library library(body, setup);
    for (DType dtype : formats) check_f8(library, dtype);
  }
}

TEST(PreludeAtomics, AddsToEveryType) {
  std::string body;
  for (const char* d : {"f32", "f64", "i32", "i64", "f16", "bf16"}) {
    body += str("extern \"C\" __attribute__((visibility(\"default\"))) void add_", d, "(", d, "* p) { k_atomic_add_", d,
                "(p, 2); k_atomic_add_", d, "(p, 3); }\n");
  }
  Library library(body, Build{"g++", CpuLevel::generic, 4});
  float f = 1;
  double g = 1;
  int32_t i = -7;
  int64_t j = 1;
  uint16_t h = f32_to_f16(0.5f), b = f32_to_bf16(0.5f);
  library.get<void(void*)>("add_f32")(&f);
  library.get<void(void*)>("add_f64")(&g);
  library.get<void(void*)>("add_i32")(&i);
  library.get<void(void*)>("add_i64")(&j);
  library.get<void(void*)>("add_f16")(&h);
  library.get<void(void*)>("add_bf16")(&b);
  EXPECT_EQ(f, 6);
  EXPECT_EQ(g, 6);
  EXPECT_EQ(i, -2);
  EXPECT_EQ(j, 6);
  EXPECT_EQ(f16_to_f32(h), 5.5f);
  EXPECT_EQ(bf16_to_f32(b), 5.5f);
}

}  // namespace
}  // namespace kiln::codegen
