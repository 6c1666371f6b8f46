// What random operators draw, by each backend: mean, variance and range of many numbers, and that numbers of
// different operators, elements and runs differ. Bounds are five standard errors wide.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/file.h"
#include "compile/compile.h"
#include "executable/executable.h"
#include "kiln/kiln.h"
#include "ops/op_record.h"
#include "ops/sample_program.h"

namespace kiln {
namespace {

using List = std::vector<int64_t>;
constexpr int64_t count = 20000;

struct Distribution {
  std::string op;
  std::vector<Sample::SampleArg> args;
  double mean, variance, low, high;
};

std::vector<Distribution> distributions() {
  Sample::TensorSpec x{{count}, DType::f32, 0, 0}, quarter{{count}, DType::f32, 0.25, 0.25},
      large{{count}, DType::f32, 900, 900};
  double inf = INFINITY;
  return {
      {"aten.rand.default", {List{count}}, 0.5, 1 / 12.0, 0, 1},
      {"aten.rand.default", {List{count}, DType::f64}, 0.5, 1 / 12.0, 0, 1},
      {"aten.randn.default", {List{count}}, 0, 1, -inf, inf},
      {"aten.randint.low", {Scalar(-3), Scalar(4), List{count}}, 0, 4, -3, 3},
      {"aten.bernoulli.default", {quarter}, 0.25, 0.25 * 0.75, 0, 1},
      {"aten.uniform.default", {x, Scalar(2.0), Scalar(5.0)}, 3.5, 9 / 12.0, 2, 5},
      {"aten.exponential.default", {x, Scalar(2.0)}, 0.5, 0.25, 0, inf},
      {"aten.geometric.default", {x, Scalar(0.4)}, 2.5, 0.6 / 0.16, 1, inf},
      {"aten.poisson.default", {quarter}, 0.25, 0.25, 0, inf},
      {"aten.poisson.default", {large}, 900, 900, 0, inf},
      {"aten.normal_functional.default", {x, Scalar(3.0), Scalar(2.0)}, 3, 4, -inf, inf},
  };
}

std::vector<double> drawn(const Distribution& d, Backend backend) {
  Program program = program_from_sample(*Registry::instance().find(d.op), Sample{d.args}, false, 1);
  ExecutableOptions options;
  options.backend = backend;
  auto executable = make_executable(program, options);
  const Datum result = executable->call(program.sample_inputs).outputs.at(0);
  std::vector<double> out;
  for (int64_t i = 0; i < result.tensor().numel(); ++i) out.push_back(result.tensor().item(i).as_double());
  return out;
}

void expect_distribution(const Distribution& d, const std::vector<double>& x) {
  SCOPED_TRACE(d.op);
  ASSERT_EQ(x.size(), static_cast<size_t>(count));
  double sum = 0, squares = 0, fourth = 0;
  for (double v : x) {
    EXPECT_GE(v, d.low);
    EXPECT_LE(v, d.high);
    sum += v;
  }
  double mean = sum / count;
  for (double v : x) {
    squares += (v - d.mean) * (v - d.mean);
    fourth += std::pow(v - d.mean, 4);
  }
  double variance = squares / count, spread = std::sqrt((fourth / count - d.variance * d.variance) / count);
  EXPECT_NEAR(mean, d.mean, 5 * std::sqrt(d.variance / count));
  EXPECT_NEAR(variance, d.variance, 5 * spread + 1e-9);
}

TEST(RandomOperators, DrawWhatTheyAreNamedAfter) {
  for (Backend backend : {Backend::interpret, Backend::loops, Backend::compiled}) {
    SCOPED_TRACE(backend_name(backend));
    for (const Distribution& d : distributions()) expect_distribution(d, drawn(d, backend));
  }
}

TEST(RandomOperators, NumbersAreNotRepeated) {
  Distribution wide{"aten.rand.default", {List{count}, DType::f64}, 0, 0, 0, 0};
  std::vector<double> x = drawn(wide, Backend::compiled);
  EXPECT_EQ(std::set<double>(x.begin(), x.end()).size(), x.size());
}

TEST(RandomOperators, PermutationsHoldEveryNumberOnce) {
  Distribution d{"aten.randperm.default", {Scalar(500)}, 0, 0, 0, 0};
  for (Backend backend : {Backend::interpret, Backend::compiled}) {
    std::vector<double> x = drawn(d, backend);
    std::set<double> distinct(x.begin(), x.end());
    EXPECT_EQ(distinct.size(), 500u);
    EXPECT_EQ(*distinct.rbegin(), 499);
    EXPECT_FALSE(std::is_sorted(x.begin(), x.end()));
  }
}

TEST(RandomOperators, MultinomialFollowsTheWeights) {
  // One row of equal weights: each of the 4 classes about as often.
  Sample::TensorSpec weights{{4}, DType::f32, 0.5, 0.5};
  Distribution d{"aten.multinomial.default", {weights, Scalar(count), Scalar(true)}, 1.5, 1.25, 0, 3};
  expect_distribution(d, drawn(d, Backend::interpret));
  expect_distribution(d, drawn(d, Backend::compiled));
}

// A seed of one call gives the same numbers whenever it comes, and the instance's own sequence goes on as if that call
// had not been.
TEST(RandomOperators, OneCallHasASeedOfItsOwn) {
  TemporaryDirectory folder{"kiln-test"};
  const std::string path = join_path(folder.path(), "random.kiln.pt2");
  const Sample sample{{List{6}}};
  Program program = program_from_sample(*Registry::instance().find("aten.rand.default"), sample, false, 1);
  Settings settings(Phase::compile);
  CompileOptions compile_options;
  compile_options.settings = &settings;
  compile(program, path, compile_options);
  kiln_load_options load{};
  load.struct_size = sizeof load, load.device_index = -1, load.ignore_environment = 1;
  kiln_model* model = nullptr;
  kiln_instance* instance = nullptr;
  ASSERT_EQ(kiln_load(path.c_str(), &load, &model), KILN_OK) << kiln_last_error();
  ASSERT_EQ(kiln_instance_create(model, &instance), KILN_OK) << kiln_last_error();
  kiln_run_options options{sizeof options, nullptr, 1, 0, 0};
  auto numbers_of = [&](int32_t seeded, uint64_t seed) {
    options.seeded = seeded, options.seed = seed;
    kiln_value out{};
    EXPECT_EQ(kiln_run_with(instance, nullptr, 0, &out, 1, &options), KILN_OK) << kiln_last_error();
    const float* values = static_cast<const float*>(out.as.tensor->data);
    std::vector<float> numbers(values, values + 6);
    kiln_value_clear(&out);
    return numbers;
  };
  const std::vector<float> first = numbers_of(0, 0), second = numbers_of(0, 0), seven = numbers_of(1, 7);
  EXPECT_NE(first, second);
  EXPECT_EQ(kiln_set_seed(instance, 0), KILN_OK);
  EXPECT_EQ(numbers_of(0, 7), first);
  EXPECT_EQ(numbers_of(1, 7), seven);
  EXPECT_NE(numbers_of(1, 8), seven);
  EXPECT_EQ(numbers_of(0, 0), second);
  EXPECT_EQ(numbers_of(1, 0), first);                        // as the first call after kiln_set_seed(0)
  options.struct_size = offsetof(kiln_run_options, seeded);  // a caller from before there were seeds
  EXPECT_NE(numbers_of(1, 7), seven);
  options.struct_size = sizeof options, options.seeded = 2;
  kiln_value out{};
  EXPECT_EQ(kiln_run_with(instance, nullptr, 0, &out, 1, &options), KILN_ERROR_ARGUMENT);
  kiln_instance_free(instance);
  kiln_model_free(model);
}

// Every iteration of a loop, and of a loop within it, draws numbers of its own.
TEST(RandomOperators, LoopsDoNotRepeatThem) {
  Program program = parse_program(R"(program "m"
graph main {
  input %x: f32[4, 5, 3] = user
  %y: f32[4, 5, 3] = higher_order.map_impl(graph outer {
    input %row: f32[5, 3]
    %inner: f32[5, 3] = higher_order.map_impl(graph inner {
      input %v: f32[3]
      %m: f32[3] = aten.rand_like.default(self=%v)
      output %m
    }, [%row], [])
    output %inner
  }, [%x], [])
  output %y = user
}
)");
  resolve_operators(program.graph, {});
  Datum x{sample_tensor(Sample::TensorSpec{{4, 5, 3}}, 1)};
  for (Backend backend : {Backend::interpret, Backend::loops, Backend::compiled}) {
    ExecutableOptions options;
    options.backend = backend;
    const Datum result = make_executable(program, options)->call({x}).outputs.at(0);
    std::set<double> distinct;
    for (int64_t i = 0; i < 60; ++i) distinct.insert(result.tensor().item(i).as_double());
    EXPECT_EQ(distinct.size(), 60u) << backend_name(backend);
  }
}

}  // namespace
}  // namespace kiln
