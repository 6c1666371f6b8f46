// Points that are taken together, compiled: the same as one by one, for sizes with every kind of rest, whatever the
// number of threads; and a schedule written by hand runs as it is written.
#include "executable/loops_package_test.h"
#include "schedule/schedule.h"

namespace kiln {
namespace {

struct Shape {
  int64_t lines, points, channels, window, stride, padding, dilation, taken;  // taken: points at a time
  bool known = true;                                                          // how long a line is
};

int lanes() { return codegen::cpu_backend().target(codegen::cpu_backend().host_target_name()).lanes; }

// What is done with each point's sum: little, or so much that it stands in a loop over the points.
const char* const short_tail = R"(          %18 = constant.f32 0.5
          %19 = add.f32 %0, %18
          store y[i2, i3, i1] = %19
)";
const char* const long_tail = R"(          %18 = constant.f32 0.5
          %19 = add.f32 %0, %18
          %20 = load.f32 w[0, 0, i1]
          %21 = mul.f32 %19, %20
          %22 = sigmoid.f32 %21
          %23 = index.i64 [i3]
          %24 = cast.f32 %23
          %25 = mul.f32 %22, %24
          %26 = mul.f32 %25, %19
          store y[i2, i3, i1] = %26
)";

std::string picture(const Shape& s, const char* tail) {
  const int64_t around = 2 * s.padding - s.dilation * (s.window - 1) - 1;
  const Expr points = s.known ? Expr(s.points) : Expr::symbol("s0"), line = points * s.channels;
  const Expr out_lines = Expr((s.lines + around) / s.stride + 1), out_points = floordiv(points + around, s.stride) + 1,
             out_line = out_points * s.channels;
  auto at = [&](const char* i, const char* r) {
    return str(i, "*", s.stride, " + ", r, "*", s.dilation, " - ", s.padding);
  };
  return str("loops window\n", s.known ? "" : "symbol s0 in [1, 1000] hint 12\n", "buffer x f32[", s.lines, ", ",
             points.text(), ", ", s.channels, "] strides [", line.text(), ", ", s.channels,
             ", 1] input position 0\nbuffer w f32[", s.window, ", ", s.window, ", ", s.channels, "] strides [",
             s.window * s.channels, ", ", s.channels, ", 1] constant named \"w\"\nbuffer y f32[", out_lines.text(),
             ", ", out_points.text(), ", ", s.channels, "] strides [", out_line.text(), ", ", s.channels,
             ", 1] output position 0\ninput x = buffer x\noutput buffer y\n",
             "init {\n}\nmain {\n  kernel window ops [convolution] {\n    schedule items [", out_lines.text(),
             "] grain 1 lanes ", lanes(), "\n    for i2 in [", out_lines.text(),
             "] parallel @item {\n      for i3 in [", out_points.text(), "] parallel @unroll(", s.taken,
             ", peel) {\n        for i1 in [", s.channels, "] parallel @lane(", lanes(), ", mask) {\n",
             "          %0 = for r1 in [", s.window, "] reduce sum.f32 only %8 {\n            %1 = index.i64 [",
             at("i2", "r1"), "]\n            %2 = index.i64 [0]\n            %3 = index.i64 [", s.lines,
             "]\n            %4 = index.i64 [", points.text(),
             "]\n            %5 = ge.bool %1, %2\n            %6 = lt.bool %1, %3\n"
             "            %8 = logical_and.bool %5, %6\n            %9 = for r2 in [",
             s.window, "] reduce sum.f32 only %14 fused @unroll(", s.window,
             ", exact) {\n              %10 = index.i64 [", at("i3", "r2"),
             "]\n              %11 = ge.bool %10, %2\n              %12 = logical_and.bool %8, %11\n",
             "              %13 = lt.bool %10, %4\n              %14 = logical_and.bool %12, %13\n",
             "              %15 = load.f32 x[", at("i2", "r1"), ", ", at("i3", "r2"), ", i1] mask %14\n",
             R"(              %16 = load.f32 w[r1, r2, i1]
              %17 = mul.f32 %15, %16
              yield %17
            }
            yield %9
          }
)",
             tail, "        }\n      }\n    }\n  }\n}\n");
}

// Lines around what a group, its window and their rests are, and longer ones.
std::vector<int64_t> lengths(const Shape& s) {
  const int64_t least = std::max<int64_t>(1, s.dilation * (s.window - 1) + 1 - 2 * s.padding);
  std::vector<int64_t> out;
  for (int64_t points = least; points < least + 2 * s.taken * s.stride + 2; ++points) out.push_back(points);
  for (const int64_t points : {3 * s.taken * s.stride, int64_t{61}, int64_t{64}})
    out.push_back(std::max(points, least));
  return out;
}

class Points : public testing::TestWithParam<Shape> {};

// `rounding`: of functions of which the checked run has another form.
void expect_same_together(const Shape& s, const char* tail, double rounding) {
  const LoopsPackage package(picture(s, tail), {{"w", filled(DType::f32, {s.window, s.window, s.channels}, 3)}});
  const std::vector<Datum> inputs = {{filled(DType::f32, {s.lines, s.points, s.channels}, 5)}};
  expect_runs(package, inputs, package.interpreted(inputs), 1e-4, rounding);
}

TEST_P(Points, AreTheSameTogether) { expect_same_together(GetParam(), short_tail, 0); }
TEST_P(Points, AreTheSameTogetherWhereTheirTailIsALoop) { expect_same_together(GetParam(), long_tail, 1e-4); }

INSTANTIATE_TEST_SUITE_P(Shapes, Points,
                         testing::Values(Shape{5, 7, 16, 3, 1, 1, 1, 7},     // a line at a time
                                         Shape{5, 7, 19, 3, 1, 1, 1, 4},     // rests of points and of lanes
                                         Shape{6, 31, 16, 5, 1, 2, 1, 5},    // groups between the first and the last
                                         Shape{9, 22, 8, 5, 2, 2, 1, 3},     // every second point
                                         Shape{4, 4, 16, 7, 1, 3, 1, 2},     // padding beyond the first group
                                         Shape{12, 40, 16, 3, 1, 6, 6, 4},   // a window with gaps, wider than a group
                                         Shape{7, 12, 16, 3, 1, 0, 1, 6},    // no padding
                                         Shape{3, 3, 16, 3, 1, 5, 1, 4},     // lines that are padding alone
                                         Shape{2, 3, 16, 3, 1, 1, 1, 14}));  // fewer points than at a time

// Of lines whose length is not known a group inside of the line has no masks.
class AnyLength : public testing::TestWithParam<Shape> {};

TEST_P(AnyLength, IsTheSameTogether) {
  const Shape& s = GetParam();
  for (const char* tail : {short_tail, long_tail}) {
    const LoopsPackage package(picture(s, tail), {{"w", filled(DType::f32, {s.window, s.window, s.channels}, 3)}});
    for (const int64_t points : lengths(s)) {
      const std::vector<Datum> inputs = {{filled(DType::f32, {s.lines, points, s.channels}, 5)}};
      SCOPED_TRACE(str(points, " points"));
      expect_runs(package, inputs, package.interpreted(inputs), 1e-3, tail == long_tail ? 1e-3 : 0);
    }
    const std::string& source = package.source();
    EXPECT_NE(source.find("if (i3 >= i3_from && i3 + "), std::string::npos) << source;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AnyLength,
                         testing::Values(Shape{4, 0, 16, 3, 1, 1, 1, 7, false},    // a window as most are
                                         Shape{4, 0, 19, 3, 1, 1, 1, 4, false},    // rests of lanes
                                         Shape{3, 0, 16, 7, 1, 3, 1, 2, false},    // padding beyond the first group
                                         Shape{5, 0, 16, 3, 2, 1, 1, 5, false},    // every second point
                                         Shape{7, 0, 8, 5, 2, 1, 1, 3, false},     // less padding than window
                                         Shape{13, 0, 16, 3, 1, 6, 6, 4, false},   // a window with gaps
                                         Shape{3, 0, 16, 3, 3, 0, 1, 3, false},    // no padding
                                         Shape{3, 0, 16, 3, 1, 5, 1, 4, false}));  // more of it than window

// Points that read what others of the line may have written meanwhile are computed once each.
TEST(PointsText, OnlyWhatComesOutTheSameIsComputedTwice) {
  const char* const reads_another = R"(          %18 = load.f32 x[i2, i3, i1]
          %19 = add.f32 %0, %18
          store y[i2, i3, i1] = %19
)";
  const char* const reads_what_it_writes_to = R"(          %18 = load.f32 y[i2, i3, i1]
          %19 = add.f32 %0, %18
          store y[i2, i3, i1] = %19
)";
  const Shape shape{4, 0, 16, 3, 1, 1, 1, 4, false};
  for (const char* tail : {reads_another, reads_what_it_writes_to}) {
    const LoopsPackage package(picture(shape, tail), {{"w", filled(DType::f32, {3, 3, 16}, 3)}});
    const bool twice =
        package.source().find("const i64 i3 = k_min((i64)i3_next, (i64)(e_i3 - 4));") != std::string::npos;
    EXPECT_EQ(twice, tail == reads_another) << package.source();
  }
}

// Pictures and weights of fewer bytes widen as they are loaded.
TEST(PointsText, OfNarrowFloatsAreTheSameTogether) {
  const Shape s{6, 31, 19, 5, 1, 2, 1, 5};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const std::string name = dtype_name(dtype);
    std::string text = replace_all(picture(s, short_tail), "load.f32", "load." + name);
    text = replace_all(replace_all(text, "buffer x f32", "buffer x " + name), "buffer w f32", "buffer w " + name);
    text = replace_all(text, "%17 = mul.f32 %15, %16",
                       "%20 = cast.f32 %15\n              %21 = cast.f32 %16\n              %17 = mul.f32 %20, %21");
    const LoopsPackage package(text, {{"w", filled(dtype, {s.window, s.window, s.channels}, 3)}});
    const std::vector<Datum> inputs = {{filled(dtype, {s.lines, s.points, s.channels}, 5)}};
    expect_runs(package, inputs, package.interpreted(inputs), 1e-4);
  }
}

// The same window as a pool: what lies under it is compared, and padding counts as nothing.
std::string pool(const Shape& s, const char* order) {
  const bool greatest = std::string(order) == "max";
  std::string text = replace_all(picture(s, short_tail), "reduce sum.f32", str("reduce ", order, ".f32"));
  text = replace_all(replace_all(text, " fused @unroll", " @unroll"), "kernel window ops [convolution]",
                     "kernel window ops [max_pool2d]");
  return replace_all(
      text, "%16 = load.f32 w[r1, r2, i1]\n              %17 = mul.f32 %15, %16",
      str("%16 = constant.f32 ", greatest ? "-inf" : "inf", "\n              %17 = select.f32 %14, %15, %16"));
}

class Pools : public testing::TestWithParam<Shape> {};

TEST_P(Pools, AreTheSameTogether) {
  const Shape& s = GetParam();
  for (const char* order : {"max", "min"}) {
    const LoopsPackage package(pool(s, order), {{"w", filled(DType::f32, {s.window, s.window, s.channels}, 3)}});
    Tensor x = filled(DType::f32, {s.lines, s.points, s.channels}, 5);
    reinterpret_cast<float*>(x.data())[s.channels + 1] = NAN;
    const std::vector<Datum> inputs = {{x}};
    expect_runs(package, inputs, package.interpreted(inputs), 0);
    EXPECT_EQ(package.source().find("k_load_f32_m(b"), std::string::npos) << package.source();
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Pools,
                         testing::Values(Shape{5, 7, 16, 3, 1, 1, 1, 7},    // a line at a time
                                         Shape{5, 7, 19, 3, 1, 1, 1, 4},    // rests of points and of lanes
                                         Shape{6, 31, 16, 5, 1, 2, 1, 5},   // groups between the first and the last
                                         Shape{9, 22, 16, 5, 2, 2, 1, 3},   // every second point
                                         Shape{8, 24, 16, 2, 3, 0, 1, 4},   // windows that share nothing
                                         Shape{12, 40, 16, 3, 1, 1, 2, 4},  // a window with gaps
                                         Shape{4, 4, 16, 7, 1, 3, 1, 2}));  // padding beyond the first group

class PoolsOfAnyLength : public testing::TestWithParam<Shape> {};

TEST_P(PoolsOfAnyLength, AreTheSameTogether) {
  const Shape& s = GetParam();
  const LoopsPackage package(pool(s, "max"), {{"w", filled(DType::f32, {s.window, s.window, s.channels}, 3)}});
  for (const int64_t points : lengths(s)) {
    const std::vector<Datum> inputs = {{filled(DType::f32, {s.lines, points, s.channels}, 5)}};
    SCOPED_TRACE(str(points, " points"));
    expect_runs(package, inputs, package.interpreted(inputs), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PoolsOfAnyLength,
                         testing::Values(Shape{5, 0, 16, 3, 2, 1, 1, 4, false},    // every second point
                                         Shape{5, 0, 19, 5, 1, 2, 1, 3, false},    // rests of lanes
                                         Shape{6, 0, 16, 2, 2, 0, 1, 4, false},    // no padding
                                         Shape{9, 0, 16, 3, 1, 1, 2, 4, false}));  // a window with gaps

TEST(PointsText, AColumnUnderSeveralPointsIsComparedOnce) {
  const LoopsPackage package(pool({5, 7, 16, 3, 1, 1, 1, 7}, "max"), {{"w", filled(DType::f32, {3, 3, 16}, 3)}});
  size_t loads = 0;
  for (size_t at = 0; (at = package.source().find("k_load_f32(b", at)) != std::string::npos; ++at) ++loads;
  EXPECT_EQ(loads, 7u) << package.source();
}

TEST(PointsText, TermsInPaddingAreNotPrinted) {
  const LoopsPackage package(picture({5, 7, 16, 3, 1, 1, 1, 7}, short_tail),
                             {{"w", filled(DType::f32, {3, 3, 16}, 3)}});
  const std::string& source = package.source();
  size_t adds = 0;
  for (size_t at = source.find("k_madd(v"); at != std::string::npos; at = source.find("k_madd(v", at + 1)) ++adds;
  EXPECT_EQ(adds, 7u * 3 - 2) << source;  // one term less at both ends
  EXPECT_EQ(source.find("k_load_f32_m(b"), std::string::npos) << source;
}

// The last vector begins so early that it is whole, unless what it reads again may have been written meanwhile: another
// picture than that under the window may be where the results go.
TEST(PointsText, LanesThatAreLeftOverAreNoSecondCopy) {
  if (lanes() == 1) GTEST_SKIP() << "scalar code leaves no lanes over";
  const char* const reads_the_picture = R"(          %18 = load.f32 x[i2, i3, i1]
          %19 = add.f32 %0, %18
          store y[i2, i3, i1] = %19
)";
  const Shape shape{5, 7, 19, 3, 1, 1, 1, 7};
  const std::map<std::string, Tensor> weights = {{"w", filled(DType::f32, {3, 3, 19}, 3)}};
  for (const char* tail : {short_tail, reads_the_picture}) {
    const LoopsPackage package(picture(shape, tail), weights);
    EXPECT_EQ(package.source().find(", left)"), std::string::npos) << package.source();
    expect_same_together(shape, tail, 0);
  }
  std::string text = replace_all(picture(shape, reads_the_picture), "%18 = load.f32 x[", "%18 = load.f32 z[");
  text =
      replace_all(text, "buffer y f32", "buffer z f32[5, 7, 19] strides [133, 19, 1] input position 1\nbuffer y f32");
  text = replace_all(text, "input x = buffer x\n", "input x = buffer x\ninput z = buffer z\n");
  const LoopsPackage package(text, weights);
  EXPECT_NE(package.source().find(", left)"), std::string::npos) << package.source();
  const std::vector<Datum> inputs = {{filled(DType::f32, {5, 7, 19}, 5)}, {filled(DType::f32, {5, 7, 19}, 9)}};
  expect_runs(package, inputs, package.interpreted(inputs), 1e-4);
}

// What is stored beside the sums and read after all lanes have run (a concatenation of a picture and its window's
// sums) keeps nothing apart.
TEST(PointsText, LanesRepeatWhatIsReadAfterwards) {
  if (lanes() == 1) GTEST_SKIP() << "scalar code leaves no lanes over";
  const char* const beside = R"(          %18 = load.f32 x[i2, i3, i1]
          store y[i2, i3, i1] = %0
          store t[i2, i3, i1] = %18
        }
        for i4 in [19] parallel {
          %19 = load.f32 y[i2, i3, i4]
          %20 = load.f32 t[i2, i3, i4]
          %21 = sub.f32 %19, %20
          store y[i2, i3, i4] = %21
)";
  const Shape shape{5, 7, 19, 3, 1, 1, 1, 3};
  const std::string text = replace_all(picture(shape, beside), "input x = buffer x\n",
                                       "buffer t f32[5, 7, 19] strides [133, 19, 1] temp\ninput x = buffer x\n");
  const LoopsPackage package(text, {{"w", filled(DType::f32, {3, 3, 19}, 3)}});
  EXPECT_EQ(package.source().find(", left)"), std::string::npos) << package.source();
  const std::vector<Datum> inputs = {{filled(DType::f32, {5, 7, 19}, 5)}};
  expect_runs(package, inputs, package.interpreted(inputs), 1e-4);
}

// Of fewer elements than lanes there is no whole vector.
TEST(PointsText, FewerChannelsThanLanes) {
  if (lanes() < 8) GTEST_SKIP() << "no more lanes than channels";
  const Shape shape{5, 7, 6, 3, 1, 1, 1, 7};
  const LoopsPackage package(picture(shape, short_tail), {{"w", filled(DType::f32, {3, 3, 6}, 3)}});
  EXPECT_EQ(package.source().find("k_load_f32(b"), std::string::npos) << package.source();
  expect_same_together(shape, short_tail, 0);
}

// Points of a line that has no padding are all alike: one text for them.
TEST(PointsText, WithoutPaddingNoGroupIsApart) {
  const std::string text = R"(loops window
buffer x f32[5, 12, 16] strides [192, 16, 1] input position 0
buffer w f32[3, 16] strides [16, 1] constant named "w"
buffer y f32[5, 4, 16] strides [64, 16, 1] output position 0
input x = buffer x
output buffer y
init {
}
main {
  kernel window ops [convolution] {
    schedule items [5] grain 1 lanes LANES
    for i2 in [5] parallel @item {
      for i3 in [4] parallel @unroll(1, peel) {
        for i1 in [16] parallel @lane(LANES, exact) {
          %0 = for r2 in [3] reduce sum.f32 fused @unroll(3, exact) {
            %1 = load.f32 x[i2, 3*i3 + r2, i1]
            %2 = load.f32 w[r2, i1]
            %3 = mul.f32 %1, %2
            yield %3
          }
          store y[i2, i3, i1] = %0
        }
      }
    }
  }
}
)";
  const LoopsPackage package(replace_all(text, "LANES", str(lanes())), {{"w", filled(DType::f32, {3, 16}, 3)}});
  const std::vector<Datum> inputs = {{filled(DType::f32, {5, 12, 16}, 5)}};
  expect_near(package.run(inputs), package.interpreted(inputs), 1e-5);
  size_t stores = 0;
  for (size_t at = 0; (at = package.source().find("k_store_f32(b", at)) != std::string::npos; ++at) ++stores;
  EXPECT_EQ(stores, 1u) << package.source();
}

// Lanes of a group read one element: one load, dealt out, also where lanes are left over and the buffer ends.
TEST(GroupedLanes, ReadNoFurtherThanTheyGo) {
  for (const auto& [channels, each, distance] :
       std::vector<std::array<int64_t, 3>>{{32, 4, 4}, {27, 2, 1}, {24, 4, 2}, {9, 2, 2}}) {
    const int64_t last = (channels - 1) / each * distance + 1;
    const LoopsPackage package(
        str("loops grouped\nbuffer x f32[3, ", last, "] strides [", last, ", 1] input position 0\nbuffer y f32[3, ",
            channels, "] strides [", channels, ", 1] output position 0\ninput x = buffer x\noutput buffer y\n",
            "init {\n}\nmain {\n  kernel spread ops [repeat] {\n    schedule items [3] grain 1 lanes ", lanes(),
            "\n    for i0 in [3] parallel @item {\n      for i1 in [", channels, "] parallel @lane(", lanes(),
            ", mask) {\n        %0 = load.f32 x[i0, (i1 // ", each, ")*", distance,
            "]\n        store y[i0, i1] = %0\n      }\n    }\n  }\n}\n"));
    const std::vector<Datum> inputs = {{filled(DType::f32, {3, last}, 5)}};
    expect_near(package.run(inputs), package.interpreted(inputs), 0);
    expect_near(package.run(inputs, {"check_bounds=1"}), package.interpreted(inputs), 0);
    const bool dealt_out = package.source().find("__builtin_shufflevector(g") != std::string::npos;
    EXPECT_EQ(dealt_out, lanes() > 1 && lanes() % each == 0) << package.source();
  }
}

// Lanes that take from several lines by turns: a part of a vector from each, put together, also where lanes are left
// over and the last line ends with the buffer.
TEST(LanesByTurns, ReadNoFurtherThanTheyGo) {
  for (const auto& [channels, turns] :
       std::vector<std::array<int64_t, 2>>{{32, 2}, {29, 2}, {64, 4}, {43, 4}, {30, 3}}) {
    const int64_t line = (channels + turns - 1) / turns;
    const LoopsPackage package(str("loops shuffled\nbuffer x f32[3, ", turns, ", ", line, "] strides [", turns * line,
                                   ", ", line, ", 1] input position 0\nbuffer y f32[3, ", channels, "] strides [",
                                   channels,
                                   ", 1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\nmain {\n",
                                   "  kernel shuffle ops [view] {\n    schedule items [3] grain 1 lanes ", lanes(),
                                   "\n    for i0 in [3] parallel @item {\n      for i1 in [", channels,
                                   "] parallel @lane(", lanes(), ", mask) {\n        %0 = load.f32 x[i0, i1 % ", turns,
                                   ", i1 // ", turns, "]\n        store y[i0, i1] = %0\n      }\n    }\n  }\n}\n"));
    const std::vector<Datum> inputs = {{filled(DType::f32, {3, turns, line}, 5)}};
    expect_near(package.run(inputs), package.interpreted(inputs), 0);
    expect_near(package.run(inputs, {"check_bounds=1"}), package.interpreted(inputs), 0);
    const bool put_together = package.source().find("__builtin_shufflevector(g") != std::string::npos;
    EXPECT_EQ(put_together, lanes() >= 2 * turns && lanes() % turns == 0) << package.source();
  }
}

}  // namespace
}  // namespace kiln
