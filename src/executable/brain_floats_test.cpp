// Products of bf16 by the instructions for pairs and for matrices: the same as the interpreter's, for sizes with every
// kind of rest, whatever the number of threads, with every access inside of its buffer.
#include <cmath>
#include <cstring>

#include "base/cpu_levels.h"
#include "executable/loops_package_test.h"
#include "executable/narrow_window_test.h"
#include "schedule/schedule.h"
#include "toolchain/compiler.h"
#include "toolchain/process.h"

namespace kiln {
namespace {

const char* const with_pairs = "x86-64-v4+bf16";
const char* const with_matrices = "x86-64-v4+bf16+amx";

bool runs_here(const char* target) { return check_target(target, processor_features()).runs() && allow_target(target); }

std::string scheduled_for(const char* target, const std::string& text) {
  return scheduled_tiles(loops::parse_loops(text), codegen::cpu_backend().target(target));
}

struct Sizes {
  int64_t rows, columns, terms;
};

// y = x w^T + 1, in f32: what the sums are, unrounded.
std::string product(const Sizes& s) {
  return str("loops product\nbuffer x bf16[", s.rows, ", ", s.terms, "] strides [", s.terms,
             ", 1] input position 0\nbuffer w bf16[", s.columns, ", ", s.terms, "] strides [", s.terms,
             ", 1] constant named \"w\"\nbuffer y f32[", s.rows, ", ", s.columns, "] strides [", s.columns,
             ", 1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\nmain {\n",
             "  kernel product ops [linear] {\n    for i0 in [", s.rows, "] parallel {\n      for i1 in [", s.columns,
             "] parallel {\n        %0 = for r0 in [", s.terms, R"(] reduce sum.f32 {
          %1 = load.bf16 x[i0, r0]
          %2 = cast.f32 %1
          %3 = load.bf16 w[i1, r0]
          %4 = cast.f32 %3
          %5 = mul.f32 %2, %4
          yield %5
        }
        %6 = constant.f32 1.0
        %7 = add.f32 %0, %6
        store y[i0, i1] = %7
      }
    }
  }
}
)");
}

void expect_same_bits(const std::vector<Datum>& have, const std::vector<Datum>& want, const char* what) {
  const Tensor &a = have[0].tensor(), &b = want[0].tensor();
  EXPECT_EQ(std::memcmp(a.data(), b.data(), static_cast<size_t>(a.numel()) * 4), 0) << what;
}

// `part`: what the schedule says.
void expect_right(const std::string& text, const char* target, const char* part, std::map<std::string, Tensor> weights,
                  const std::vector<Datum>& inputs) {
  const std::string made = scheduled_for(target, text);
  EXPECT_NE(made.find(part), std::string::npos) << made;
  const LoopsPackage package(made, std::move(weights));
  const std::vector<Datum> one = package.run(inputs, {"cpp.threads=1"});
  expect_near(one, package.interpreted(inputs), 1e-3);
  for (const char* threads : {"cpp.threads=2", "cpp.threads=7"})
    expect_same_bits(package.run(inputs, {threads}), one, threads);
  expect_same_bits(package.run(inputs, {"check_bounds=1"}), one, "check_bounds");
}

class BrainFloatProducts : public testing::TestWithParam<Sizes> {};

TEST_P(BrainFloatProducts, AreRight) {
  const Sizes& s = GetParam();
  if (!runs_here(with_pairs)) GTEST_SKIP() << "this processor has no " << with_pairs;
  const Tensor w = filled(DType::bf16, {s.columns, s.terms}, 3);
  const std::vector<Datum> inputs = {{filled(DType::bf16, {s.rows, s.terms}, 5)}};
  if (s.terms % 2 == 0) expect_right(product(s), with_pairs, " pairs\n", {{"w", w}}, inputs);
  if (!runs_here(with_matrices)) GTEST_SKIP() << "this processor has no " << with_matrices;
  expect_right(product(s), with_matrices, s.terms % 32 == 0 ? " matrix\n" : " matrix rows_in x_rows\n", {{"w", w}},
               inputs);
}

INSTANTIATE_TEST_SUITE_P(Sizes, BrainFloatProducts,
                         testing::Values(Sizes{32, 32, 32},     // one tile
                                         Sizes{70, 50, 64},     // rests of rows and columns
                                         Sizes{33, 40, 96},     // one row more
                                         Sizes{5, 40, 96},      // fewer rows than an instruction's
                                         Sizes{20, 17, 64},     // between one and two of them
                                         Sizes{2, 9, 32},       // nearly nothing
                                         Sizes{40, 12, 64},     // one vector of columns
                                         Sizes{37, 64, 40},     // a rest of terms: rows are copied
                                         Sizes{50, 33, 14},     // fewer terms than an instruction's
                                         Sizes{48, 32, 33},     // an odd number of them
                                         Sizes{270, 32, 32}));  // items of rows alone

// float32_matmul_precision=medium: the same of f32, whose factors are rounded.
TEST(BrainFloatProducts, OfRoundedFactorsAreRight) {
  if (!runs_here(with_pairs)) GTEST_SKIP() << "this processor has no " << with_pairs;
  const Sizes sizes{37, 50, 66};
  std::string text = replace_all(product(sizes), "bf16", "f32");
  for (const char* cast : {"          %2 = cast.f32 %1\n", "          %4 = cast.f32 %3\n"})
    text = replace_all(text, cast, "");
  loops::LoopProgram program = loops::parse_loops(replace_all(text, "mul.f32 %2, %4", "mul.f32 %1, %3"));
  codegen::Target target = codegen::cpu_backend().target(with_pairs);
  target.rounds_to_bf16 = true;
  loops::Log log;
  ASSERT_TRUE(loops::round_factors(program, target, log, {{"linear"}, {}}));
  Tensor w = filled(DType::f32, {sizes.columns, sizes.terms}, 3), x = filled(DType::f32, {sizes.rows, sizes.terms}, 5);
  for (Tensor* tensor : {&w, &x})  // more digits than bf16 has; rounded to those, sums are exact
    for (int64_t i = 0; i < tensor->numel(); ++i)
      tensor->set_item(i, Scalar(tensor->item(i).as_double() * (1 + 1.0 / 1024)));
  expect_right(loops::print(program), with_pairs, " pairs\n", {{"w", w}}, {{x}});
}

// One row, with a weight that lies along its columns, or along its terms.
std::string one_row(const char* dtype, int64_t columns, int64_t terms, bool along_terms = false) {
  return str("loops row\nbuffer x ", dtype, "[", terms, "] strides [1] input position 0\nbuffer w ", dtype, "[", terms,
             ", ", columns, "] strides [", along_terms ? str("1, ", terms) : str(columns, ", 1"),
             "] constant named \"w\"\nbuffer y f32[", columns,
             "] strides [1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\nmain {\n",
             "  kernel row ops [mm] {\n    for i0 in [", columns, "] parallel {\n      %0 = for r0 in [", terms,
             "] reduce sum.f32 {\n        %1 = load.", dtype, " x[r0]\n        %2 = cast.f32 %1\n        %3 = load.",
             dtype, R"( w[r0, i0]
        %4 = cast.f32 %3
        %5 = mul.f32 %2, %4
        yield %5
      }
      %6 = constant.f32 1.0
      %7 = add.f32 %0, %6
      store y[i0] = %7
    }
  }
}
)");
}

TEST(BrainFloatProducts, OfOneRowAreRight) {
  if (!runs_here(with_pairs)) GTEST_SKIP() << "this processor has no " << with_pairs;
  for (const auto& [columns, terms] :
       std::vector<std::array<int64_t, 2>>{{64, 128}, {100, 770}, {257, 300}, {192, 129}})
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const bool pairs = dtype == DType::bf16 && terms % 2 == 0;
      const Tensor w = filled(dtype, {terms, columns}, 3);
      expect_right(one_row(dtype_name(dtype), columns, terms), with_pairs,
                   str("tile 1 rows 4 vectors beside ", pairs ? "pairs\n" : "widened_in x_wide\n").c_str(), {{"w", w}},
                   {{filled(dtype, {terms}, 5)}});
    }
}

TEST(BrainFloatProducts, OfOneRowAcrossLanesAreRight) {
  if (!runs_here(with_pairs)) GTEST_SKIP() << "this processor has no " << with_pairs;
  for (const int64_t terms : {32, 160, 768, 9600}) {
    const int64_t columns = 37;
    Tensor w = Tensor::empty_strided(DType::bf16, {terms, columns}, {1, terms});
    for (int64_t i = 0; i < w.numel(); ++i) w.set_item(i, Scalar(static_cast<double>(i * 7919 % 211 - 105) / 64.0));
    expect_right(one_row("bf16", columns, terms, true), with_pairs, " @lane(32, exact)", {{"w", w}},
                 {{filled(DType::bf16, {terms}, 5)}});
  }
}

TEST(BrainFloatWindows, AreRight) {
  if (!runs_here(with_pairs)) GTEST_SKIP() << "this processor has no " << with_pairs;
  for (const auto& [lines, points, channels, columns] :
       std::vector<std::array<int64_t, 4>>{{7, 9, 32, 32}, {5, 11, 24, 40}, {6, 7, 64, 34}, {1, 5, 16, 10}}) {
    const Tensor w = filled(DType::bf16, {columns, channels, 3, 3}, 3);
    const std::vector<Datum> inputs = {{filled(DType::bf16, {lines, points, channels}, 5)}};
    const std::string text = window_of_three("bf16", {lines, points, channels, columns});
    expect_right(text, with_pairs, " pairs\n", {{"w", w}}, inputs);
    if (runs_here(with_matrices)) expect_right(text, with_matrices, " matrix rows_in x_rows\n", {{"w", w}}, inputs);
  }
}

// What is not a number, or not finite, comes out as such, in its row and column alone.
TEST(BrainFloatProducts, NaNAndInfinityGoThrough) {
  for (const char* target : {with_pairs, with_matrices}) {
    if (!runs_here(target)) GTEST_SKIP() << "this processor has no " << target;
    for (const int64_t terms : {64, 40}) {
      const Sizes s{40, 40, terms};
      Tensor x = filled(DType::bf16, {s.rows, s.terms}, 5), w = filled(DType::bf16, {s.columns, s.terms}, 3);
      x.set_item(3 * terms + 7, Scalar(std::nan("")));
      w.set_item(5 * terms + 9, Scalar(INFINITY));
      const LoopsPackage package(scheduled_for(target, product(s)), {{"w", w}});
      const Tensor have = package.run({{x}})[0].tensor(), want = package.interpreted({{x}})[0].tensor();
      for (int64_t i = 0; i < want.numel(); ++i) {
        const double a = have.item(i).as_double(), b = want.item(i).as_double();
        ASSERT_TRUE(std::isnan(a) ? std::isnan(b) : std::isinf(a) ? a == b : std::abs(a - b) < 1e-3) << i << " " << a;
      }
    }
  }
}

// A compiler that does not know the instruction must not move the sums around it: between the first product of a tile
// and the last, no vector goes to the stack or comes from there.
TEST(BrainFloatProducts, KeepTheirSumsInRegisters) {
  const Compiler compiler = find_compiler();
  for (const int64_t terms : {96, 384}) {  // one block of the sum, and two
    const loops::LoopProgram program = loops::parse_loops(scheduled_for(with_pairs, product({3136, 384, terms})));
    const codegen::GeneratedCode code =
        codegen::cpu_backend().generate(program, codegen::cpu_backend().target(with_pairs));
    const TemporaryDirectory folder("kiln-registers");
    const std::string source = join_path(folder.path(), "code.cpp"), made = join_path(folder.path(), "code.s");
    write_file_atomic(source, code.sources.at(0));
    std::vector<std::string> command = {compiler.path};
    for (const std::string& flag : flags_for(compiler, code.flags)) command.push_back(flag);
    command.insert(command.end(), {"-S", "-o", made, source});
    ASSERT_EQ(run_process(command).exit_code, 0);
    const std::vector<std::string> lines = split(read_file(made), '\n');
    const auto is_product = [](const std::string& line) { return line.find("vdpbf16ps") != std::string::npos; };
    const auto first = std::find_if(lines.begin(), lines.end(), is_product);
    const auto last = std::find_if(lines.rbegin(), lines.rend(), is_product).base();
    ASSERT_GE(std::count_if(lines.begin(), lines.end(), is_product), 20);
    for (auto line = first; line != last; ++line)
      EXPECT_FALSE(line->find("%zmm") != std::string::npos && line->find("(%rsp)") != std::string::npos) << *line;
  }
}

// Factors that do not lie as the instructions take them are a mistake of whoever wrote the schedule: it is said.
TEST(BrainFloatProducts, AreRefusedWhereTheWeightIsNotInPairs) {
  std::string text = scheduled_for(with_matrices, product({32, 32, 32}));
  const std::string in_pairs = "w_packed[r0 // 2, i1, r0 % 2]";
  ASSERT_NE(text.find(in_pairs), std::string::npos) << text;
  text = replace_all(text, in_pairs, "w_packed[i1 // 2, r0, i1 % 2]");
  const loops::LoopProgram program = loops::parse_loops(text);
  EXPECT_THROW(codegen::cpu_backend().generate(program, codegen::cpu_backend().target(with_matrices)), Error);
}

}  // namespace
}  // namespace kiln
