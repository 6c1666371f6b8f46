// The operators and casts of generated kernels against the loop interpreter's (loops/scalar_ops.h), bit by bit.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "codegen/c_family/prelude_oracle.h"
#include "loops/random.h"
#include "loops/scalar_ops.h"

namespace kiln::codegen {
namespace {

using loops::Cell;
using loops::ScalarOp;
using oracle::Build;
using oracle::Library;

const std::vector<DType> numbers = {DType::f32, DType::f64, DType::i8,  DType::u8,  DType::i16,    DType::u16,
                                    DType::i32, DType::u32, DType::i64, DType::u64, DType::boolean};
// Without the functions that prelude_math_test.cpp measures.
const std::vector<ScalarOp> exact_ops = {
    ScalarOp::add,         ScalarOp::sub,       ScalarOp::mul,    ScalarOp::div,         ScalarOp::floordiv,
    ScalarOp::mod,         ScalarOp::fmod,      ScalarOp::neg,    ScalarOp::abs,         ScalarOp::min,
    ScalarOp::max,         ScalarOp::bit_and,   ScalarOp::bit_or, ScalarOp::bit_xor,     ScalarOp::bit_not,
    ScalarOp::shl,         ScalarOp::shr,       ScalarOp::eq,     ScalarOp::ne,          ScalarOp::lt,
    ScalarOp::le,          ScalarOp::gt,        ScalarOp::ge,     ScalarOp::logical_and, ScalarOp::logical_or,
    ScalarOp::logical_not, ScalarOp::select,    ScalarOp::is_nan, ScalarOp::is_inf,      ScalarOp::sign_bit,
    ScalarOp::copysign,    ScalarOp::nextafter, ScalarOp::fma};

std::string memory_name(DType d) { return d == DType::boolean ? "bool8" : dtype_name(d); }

bool takes(ScalarOp op, DType d) {
  const loops::ScalarOpInfo& info = loops::scalar_op_info(op);
  bool logical = info.rule == loops::TypeRule::boolean, bits = op >= ScalarOp::bit_and && op <= ScalarOp::shr;
  if (logical) return d == DType::boolean;
  if (info.floats_only) return is_float(d);
  if (bits && is_float(d)) return false;
  if (d == DType::boolean) {
    return op == ScalarOp::add || op == ScalarOp::mul || op == ScalarOp::min || op == ScalarOp::max ||
           op == ScalarOp::select || op == ScalarOp::eq || op == ScalarOp::lt || op == ScalarOp::ge ||
           op == ScalarOp::bit_and || op == ScalarOp::bit_not;
  }
  return true;
}
bool gives_bool(ScalarOp op) {
  loops::TypeRule rule = loops::scalar_op_info(op).rule;
  return rule == loops::TypeRule::compare || rule == loops::TypeRule::predicate;
}

// One loop: out[i] = k_op(x[i], y[i], z[i]); the mask of select is x < y.
std::string loop_text(ScalarOp op, DType d, int lanes) {
  const loops::ScalarOpInfo& info = loops::scalar_op_info(op);
  std::string n = dtype_name(d), m = memory_name(d), result = gives_bool(op) ? "bool" : n,
              result_memory = gives_bool(op) ? "bool8" : m;
  auto load = [&](const char* p) { return str("k_load_", n, "((const ", m, "*)", p, " + i)"); };
  std::string arguments = load("x");
  if (info.arity > 1) arguments += ", " + load("y");
  if (op == ScalarOp::select)
    arguments = str("k_lt(", load("x"), ", ", load("y"), "), ", load("x"), ", ", load("z"));
  else if (info.arity > 2)
    arguments += ", " + load("z");
  return str("extern \"C\" __attribute__((visibility(\"default\"))) void t_", info.name, "_", n,
             "(const void* x, const void* y, const void* z, void* out, i64 n) {\n  for (i64 i = 0; i < n; i += ", lanes,
             ") k_store_", result, "((", result_memory, "*)out + i, k_", info.name, "(", arguments, "));\n}\n");
}

std::string cast_text(DType from, DType to, int lanes) {
  return str("extern \"C\" __attribute__((visibility(\"default\"))) void c_", dtype_name(from), "_", dtype_name(to),
             "(const void* x, const void*, const void*, void* out, i64 n) {\n  for (i64 i = 0; i < n; i += ", lanes,
             ") k_store_", dtype_name(to), "((", memory_name(to), "*)out + i, k_cast_", dtype_name(to), "(k_load_",
             dtype_name(from), "((const ", memory_name(from), "*)x + i)));\n}\n");
}

using Loop = void(const void*, const void*, const void*, void*, int64_t);

struct Operands {
  std::vector<std::byte> bytes;
  int64_t width;
  const std::byte* at(size_t i) const { return bytes.data() + i * static_cast<size_t>(width); }
};

// Edge values and random ones; floats with many small whole numbers, so that divisions come out even now and then.
Operands operands(DType d, size_t count, uint64_t seed) {
  Operands out{std::vector<std::byte>(count * 8), dtype_bytes(d)};
  std::mt19937_64 random(seed);
  static const double edge_floats[] = {0.0,   -0.0, 1.0,    -1.0,     0.5,       -2.5, 3.0, 1e-310,
                                       1e-40, 1e30, -1e300, INFINITY, -INFINITY, NAN,  7.0, 65504.0};
  static const int64_t edge_ints[] = {0,  1,   -1,   2,   7,         31,        32,        63,
                                      64, 127, -128, 255, INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < count; i++) {
    uint64_t r = random();
    Cell cell;
    if (is_float(d)) {
      cell.f = r % 3 == 0   ? edge_floats[(r >> 8) % 16]
               : r % 3 == 1 ? static_cast<double>(static_cast<int64_t>(r >> 8) % 40 - 20)
                            : (static_cast<double>(random() >> 11) * 0x1p-52 - 1) *
                                  std::ldexp(1.0, static_cast<int>(r >> 8) % 60 - 10);
      if (d == DType::f32) cell.f = static_cast<double>(static_cast<float>(cell.f));
    } else {
      cell.i = r % 2 == 0 ? edge_ints[(r >> 8) % 16] : static_cast<int64_t>(random() >> ((r >> 8) % 64));
      if (d == DType::boolean) cell.i &= 1;
    }
    loops::write_cell(d, out.bytes.data() + i * static_cast<size_t>(out.width), cell);
  }
  return out;
}

bool same_bits(DType d, const std::byte* a, const std::byte* b) {
  if (std::memcmp(a, b, static_cast<size_t>(dtype_bytes(d))) == 0) return true;
  return is_float(d) && std::isnan(loops::read_cell(d, a).f) && std::isnan(loops::read_cell(d, b).f);
}

class PreludeOperators : public testing::TestWithParam<Build> {
 protected:
  void SetUp() override {
    if (!oracle::host_runs(GetParam().level)) GTEST_SKIP() << "this machine does not run that level";
    if (!oracle::has_compiler(GetParam().compiler)) GTEST_SKIP() << "no " << GetParam().compiler;
  }
};

TEST_P(PreludeOperators, AgreeWithTheInterpreter) {
  constexpr size_t count = 2048;
  std::string body;
  for (ScalarOp op : exact_ops) {
    for (DType d : numbers) {
      if (takes(op, d)) body += loop_text(op, d, GetParam().lanes);
    }
  }
  Library library(body, GetParam());
  for (DType d : numbers) {
    Operands x = operands(d, count, 1), y = operands(d, count, 2), z = operands(d, count, 3);
    for (ScalarOp op : exact_ops) {
      if (!takes(op, d)) continue;
      const loops::ScalarOpInfo& info = loops::scalar_op_info(op);
      DType result = gives_bool(op) ? DType::boolean : d;
      std::vector<std::byte> out(count * 8);
      library.get<Loop>(str("t_", info.name, "_", dtype_name(d)))(x.at(0), y.at(0), z.at(0), out.data(), count);
      for (size_t i = 0; i < count; i++) {
        Cell a = loops::read_cell(d, x.at(i)), b = loops::read_cell(d, y.at(i)), c = loops::read_cell(d, z.at(i)), less,
             want;
        Cell args[3] = {a, b, c};
        if (op == ScalarOp::select) {
          loops::evaluate_scalar(ScalarOp::lt, DType::boolean, d, args, less);
          args[0] = less, args[1] = a, args[2] = c;
        }
        if (!loops::evaluate_scalar(op, result, d, args, want))
          want.i = 0;  // division by zero: the kernel has raised before
        std::byte wanted[8] = {};
        loops::write_cell(result, wanted, want);
        const std::byte* got = out.data() + i * static_cast<size_t>(dtype_bytes(result));
        ASSERT_TRUE(same_bits(result, got, wanted))
            << info.name << "_" << dtype_name(d) << "(" << loops::scalar_of(d, a).text() << ", "
            << loops::scalar_of(d, b).text() << ", " << loops::scalar_of(d, c).text()
            << ") = " << loops::scalar_of(result, loops::read_cell(result, got)).text() << ", should be "
            << loops::scalar_of(result, want).text();
      }
    }
  }
}

// What does not fit included: docs/semantics.md says what x86 makes of it.
TEST_P(PreludeOperators, CastsAgreeWithTheInterpreter) {
  constexpr size_t count = 1024;
  std::vector<DType> targets = numbers;
  targets.push_back(DType::f16);
  targets.push_back(DType::bf16);
  std::string body;
  for (DType from : numbers) {
    for (DType to : targets) body += cast_text(from, to, GetParam().lanes);
  }
  Library library(body, GetParam());
  for (DType from : numbers) {
    Operands x = operands(from, count, 5);
    for (DType to : targets) {
      std::vector<std::byte> out(count * 8);
      library.get<Loop>(str("c_", dtype_name(from), "_", dtype_name(to)))(x.at(0), nullptr, nullptr, out.data(), count);
      for (size_t i = 0; i < count; i++) {
        Cell a = loops::read_cell(from, x.at(i)), want;
        loops::evaluate_scalar(ScalarOp::cast, to, from, &a, want);
        std::byte wanted[8] = {};
        loops::write_cell(to, wanted, want);
        const std::byte* got = out.data() + i * static_cast<size_t>(dtype_bytes(to));
        ASSERT_TRUE(same_bits(to, got, wanted))
            << dtype_name(from) << " " << loops::scalar_of(from, a).text() << " to " << dtype_name(to) << " gives "
            << loops::scalar_of(to, loops::read_cell(to, got)).text();
      }
    }
  }
}

// Reductions over lanes in tree order, lanes, masks.
TEST_P(PreludeOperators, ReduceLanes) {
  int lanes = GetParam().lanes;
  std::string body = R"(
extern "C" __attribute__((visibility("default"))) void sums(const f32* x, f32* out) {
  vf32 v = k_load_f32(x);
  out[0] = k_hsum(v); out[1] = k_hprod(v); out[2] = k_hmin(v); out[3] = k_hmax(v); out[4] = k_lane(v, LANES - 1);
}
extern "C" __attribute__((visibility("default"))) void sums_wide(const f64* x, f64* out) {
  vf64 v = k_load_f64(x);
  out[0] = k_hsum(v); out[1] = k_hprod(v); out[2] = k_hmin(v); out[3] = k_hmax(v); out[4] = k_lane(v, LANES - 1);
}
extern "C" __attribute__((visibility("default"))) void masks(const i64* x, i64 at, i64* out) {
  vmask m = k_eq(k_load_i64(x), k_splat_i64(at));
  out[0] = k_hany(m); out[1] = k_hall(m); out[2] = k_first_true(m); out[3] = k_hsum(k_cast_i64(m)); out[4] = k_hall(!m);
  out[5] = k_hsum(k_iota_i64()); out[6] = k_hall(k_first(LANES)); out[7] = k_hany(k_first(0));
  out[8] = k_lane(m, 0); out[9] = k_hmin(k_iota_i32());
}
)";
  Library library(replace_all(body, "LANES", std::to_string(lanes)), GetParam());
  std::vector<float> x(16);
  std::vector<double> wide(16);
  for (size_t i = 0; i < 16; i++) x[i] = 1.0f + static_cast<float>(i * i) * 0.001f, wide[i] = double{x[i]} / 3;
  auto tree = [&](auto values) {
    for (size_t n = static_cast<size_t>(lanes) / 2; n > 0; n /= 2) {
      for (size_t i = 0; i < n; i++) values[i] += values[i + n];
    }
    return values[0];
  };
  float out[5];
  library.get<void(const float*, float*)>("sums")(x.data(), out);
  EXPECT_EQ(out[0], tree(x));
  EXPECT_EQ(out[2], x[0]);
  EXPECT_EQ(out[3], x[static_cast<size_t>(lanes) - 1]);
  EXPECT_EQ(out[4], x[static_cast<size_t>(lanes) - 1]);
  double out_wide[5];
  library.get<void(const double*, double*)>("sums_wide")(wide.data(), out_wide);
  EXPECT_EQ(out_wide[0], tree(wide));
  EXPECT_EQ(out_wide[3], wide[static_cast<size_t>(lanes) - 1]);
  for (int i = 0; i < lanes; i++) {  // NaN wins wherever it stands
    std::vector<float> with = x;
    with[static_cast<size_t>(i)] = NAN;
    library.get<void(const float*, float*)>("sums")(with.data(), out);
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[2]) && std::isnan(out[3])) << i;
  }
  std::vector<int64_t> numbers_up(16);
  for (size_t i = 0; i < 16; i++) numbers_up[i] = static_cast<int64_t>(i);
  for (int at = 0; at <= lanes; at++) {
    int64_t got[10];
    library.get<void(const int64_t*, int64_t, int64_t*)>("masks")(numbers_up.data(), at, got);
    bool inside = at < lanes;
    EXPECT_EQ(got[0], inside);
    EXPECT_EQ(got[1], inside && lanes == 1);
    EXPECT_EQ(got[2], at);
    EXPECT_EQ(got[3], inside);
    EXPECT_EQ(got[4], !inside);
    EXPECT_EQ(got[5], lanes * (lanes - 1) / 2);
    EXPECT_EQ(got[6], 1);
    EXPECT_EQ(got[7], 0);
    EXPECT_EQ(got[8], at == 0);
    EXPECT_EQ(got[9], 0);
  }
}

TEST_P(PreludeOperators, RandomNumbersAgreeWithTheInterpreter) {
  std::string body;
  for (DType d : numbers) {
    body += str("extern \"C\" __attribute__((visibility(\"default\"))) void r_", dtype_name(d),
                "(u64 seed, void* out, i64 n) {\n  for (i64 i = 0; i < n; i += ", GetParam().lanes, ") k_store_",
                dtype_name(d), "((", memory_name(d), "*)out + i, k_random_", dtype_name(d),
                "(seed, k_splat_i64(i) + k_iota_i64()));\n}\n");
  }
  Library library(body, GetParam());
  for (DType d : numbers) {
    std::vector<std::byte> out(256 * 8);
    library.get<void(uint64_t, void*, int64_t)>(str("r_", dtype_name(d)))(12345, out.data(), 256);
    for (size_t i = 0; i < 256; i++) {
      std::byte wanted[8] = {};
      loops::write_cell(d, wanted, loops::random_cell(d, 12345, i));
      ASSERT_TRUE(same_bits(d, out.data() + i * static_cast<size_t>(dtype_bytes(d)), wanted))
          << dtype_name(d) << " " << i;
    }
  }
}

std::string operators_build_name(const testing::TestParamInfo<Build>& info) {
  const Build& b = info.param;
  return str(b.compiler == "g++" ? "gcc" : "clang", "_level", static_cast<int>(b.level), "_lanes", b.lanes,
             b.mask_bits == 64 ? "_mask64" : "");
}
INSTANTIATE_TEST_SUITE_P(Builds, PreludeOperators,
                         testing::Values(Build{"g++", CpuLevel::generic, 1}, Build{"g++", CpuLevel::x86_64_v2, 4},
                                         Build{"g++", CpuLevel::x86_64_v3, 8}, Build{"g++", CpuLevel::x86_64_v4, 16},
                                         Build{"g++", CpuLevel::x86_64_v4, 8, 64},
                                         Build{"clang++", CpuLevel::x86_64_v4, 16}),
                         operators_build_name);

}  // namespace
}  // namespace kiln::codegen
