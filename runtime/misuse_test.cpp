// Calls of the C interface that make no sense, and packages that were damaged: each is refused, with its own message.
#include "kiln/kiln.hpp"
#include "runtime/mlp_test.h"
#include "runtime/package_loader.h"
#include "runtime/parallel.h"
#include "runtime/processors.h"
#include "runtime/tensor_sanity.h"

namespace kiln::runtime {
namespace {

class Misuse : public MlpTest {
 protected:
  kiln_load_options options() {
    kiln_load_options out{};
    out.struct_size = sizeof out;
    out.ignore_environment = 1;
    return out;
  }
  // "" or the code and text of the refusal.
  std::string load(const std::string& bytes, const kiln_load_options& options) {
    kiln_model* model = nullptr;
    const kiln_status status = kiln_load_memory(bytes.data(), bytes.size(), &options, &model);
    kiln_model_free(model);
    return status == KILN_OK ? "" : str(kiln_last_error_code(), " ", kiln_last_error());
  }
  std::string load(const kiln_load_options& options) { return load(mlp.bytes(), options); }
  std::string run(DLTensor* in, DLTensor* out = nullptr) {
    std::string bytes = mlp.bytes();
    kiln::Model model(bytes.data(), bytes.size());
    kiln::Instance instance(model);
    kiln_value input{}, output{};
    input.kind = KILN_TENSOR, input.as.tensor = in;
    if (out) output.kind = KILN_TENSOR, output.as.tensor = out;
    const kiln_status status = kiln_run(instance.handle(), &input, 1, &output, 1);
    if (!out) kiln_value_clear(&output);
    if (status == KILN_OK) return "";
    EXPECT_EQ(status, KILN_ERROR_INPUT);
    return str(kiln_last_error_code(), " ", kiln_last_error());
  }
  TestTensor<float> input() { return {DType::f32, {8, 10}, x}; }
};

#define EXPECT_SAYS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

TEST_F(Misuse, IsSaidInWords) {
  const std::string bytes = mlp.bytes();
  kiln::Model model(bytes.data(), bytes.size());
  kiln_spec spec{};
  EXPECT_EQ(kiln_input_spec(model.handle(), 0, nullptr), KILN_ERROR_ARGUMENT);
  EXPECT_STREQ(kiln_last_error(), "error[K0660]: kiln_input_spec: out is NULL");
  EXPECT_EQ(kiln_input_spec(model.handle(), 0, &spec), KILN_ERROR_ARGUMENT);
  EXPECT_SAYS(kiln_last_error(), "kiln_input_spec: out->struct_size is not set");
  spec.struct_size = sizeof spec;
  EXPECT_EQ(kiln_input_spec(model.handle(), 7, &spec), KILN_ERROR_ARGUMENT);
  EXPECT_SAYS(kiln_last_error(), "there is none with this index");
  EXPECT_EQ(kiln_run(nullptr, nullptr, 0, nullptr, 0), KILN_ERROR_ARGUMENT);
  EXPECT_SAYS(kiln_last_error(), "kiln_run: instance is NULL");
}

TEST_F(Misuse, ThreadsAreANumberThatMakesSense) {
  const std::string bytes = mlp.bytes();
  kiln::Model model(bytes.data(), bytes.size());
  for (int threads : {0, -7, -2, most_threads + 1, 1'000'000}) {
    EXPECT_EQ(kiln_set_threads(model.handle(), threads), KILN_ERROR_ARGUMENT);
    EXPECT_SAYS(kiln_last_error(), "kiln_set_threads: threads is 1 to 1024, or -1");
  }
  for (int threads : {-1, 1, 3, most_threads}) EXPECT_EQ(kiln_set_threads(model.handle(), threads), KILN_OK);
}

TEST_F(Misuse, ThreadsInEffectCanBeAsked) {
  const std::string bytes = mlp.bytes();
  kiln::Model model(bytes.data(), bytes.size());
  const int all = model.threads();
  EXPECT_EQ(all, usable_processors());
  for (const auto& [given, effective] :
       {std::pair{all + 97, all + 97}, {1, 1}, {most_threads, most_threads}, {-1, all}}) {
    model.set_threads(given);
    EXPECT_EQ(model.threads(), effective);
  }
  EXPECT_EQ(kiln_model_threads(nullptr), 0);
}

template <class F>
std::string header_error(F f) {
  try {
    f();
  } catch (const kiln::Exception& error) {
    return str(error.code(), " ", error.what());
  }
  return "";
}

// The C++ header reads what it is given: lengths and kinds are looked at first.
TEST_F(Misuse, TheHeaderLooksAtLengthsAndKinds) {
  EXPECT_EQ(header_error([&] { kiln::tensor(x.data(), {8, 10}, {10, 1}); }), "");
  EXPECT_EQ(header_error([&] { kiln::tensor(x.data(), {8, 10}); }), "");
  for (const std::vector<int64_t>& strides : {std::vector<int64_t>{10}, {10, 1, 1}})
    EXPECT_SAYS(header_error([&] {
                  kiln::tensor(x.data(), {8, 10}, strides);
                }),
                "K0660 error[K0660]: kiln::Value: not as many strides");
  const kiln::Value number(int64_t{3}), none;
  EXPECT_EQ(number.integer(), 3);
  EXPECT_SAYS(header_error([&] { (void)number.tensor(); }), "no tensor");
  EXPECT_SAYS(header_error([&] { (void)number.data<float>(); }), "no tensor");
  EXPECT_SAYS(header_error([&] { (void)none.sizes(); }), "no tensor");
  EXPECT_SAYS(header_error([&] { (void)number.floating(); }), "no floating-point number");
  EXPECT_SAYS(header_error([&] { (void)number.boolean(); }), "no truth value");
  EXPECT_SAYS(header_error([&] { (void)number.string(); }), "no string");
  EXPECT_SAYS(header_error([&] { kiln::Value(static_cast<const char*>(nullptr)); }), "NULL");
  EXPECT_STREQ(kiln::Value("sum").string(), "sum");
  EXPECT_SAYS(header_error([&] { (void)kiln::tensor(x.data(), {80}).data<double>(); }), "float32, not float64");
}

TEST_F(Misuse, ListsOfOptionsMustBeThere) {
  EXPECT_EQ(load(options()), "");
  kiln_load_options bad = options();
  bad.setting_count = 1;
  EXPECT_SAYS(load(bad), "kiln_load_options.settings is NULL, and its count is not 0");
  const char* nothing[] = {"cpp.threads=1", nullptr};
  bad = options(), bad.settings = nothing, bad.setting_count = 2;
  EXPECT_SAYS(load(bad), "settings has an element that is NULL");
  const char* many[] = {"cpp.threads=999999999"};
  bad = options(), bad.settings = many, bad.setting_count = 1;
  EXPECT_SAYS(load(bad), "a run has at most 1024 threads, not 999999999");
  bad = options(), bad.custom_op_library_count = 3;
  EXPECT_SAYS(load(bad), "K0660");
  bad = options(), bad.custom_op_libraries = nothing + 1, bad.custom_op_library_count = 1;
  EXPECT_SAYS(load(bad), "custom_op_libraries has an element that is NULL");
  kiln_allocator empty{};
  bad = options(), bad.allocator = &empty;
  EXPECT_SAYS(load(bad), "allocator lacks a function");
  bad = options(), bad.struct_size = 0;
  EXPECT_SAYS(load(bad), "struct_size is not set");
  bad = options(), bad.verify_weights = 7;
  EXPECT_SAYS(load(bad), "verify_weights must be -1, 0 or 1");
}

TEST_F(Misuse, StructsToFillMustSayTheirSize) {
  std::string bytes = mlp.bytes();
  kiln::Model model(bytes.data(), bytes.size());
  kiln_spec spec{};
  kiln_symbol symbol{};
  kiln_constant constant{};
  EXPECT_EQ(kiln_input_spec(model.handle(), 0, &spec), KILN_ERROR_ARGUMENT);
  EXPECT_EQ(kiln_output_spec(model.handle(), 0, &spec), KILN_ERROR_ARGUMENT);
  EXPECT_EQ(kiln_symbol_spec(model.handle(), 0, &symbol), KILN_ERROR_ARGUMENT);
  EXPECT_EQ(kiln_constant_spec(model.handle(), 0, &constant), KILN_ERROR_ARGUMENT);
}

TEST_F(Misuse, TensorsThatCannotBe) {
  TestTensor<float> good = input();
  EXPECT_EQ(run(&good.tensor), "");
  TestTensor<float> bad = input();
  bad.sizes[0] = -8;
  EXPECT_SAYS(run(&bad.tensor), "it has a negative size");
  bad = input(), bad.tensor.shape = bad.sizes.data(), bad.tensor.data = nullptr;
  EXPECT_SAYS(run(&bad.tensor), "it has no data");
  bad.tensor.byte_offset = 64;
  EXPECT_SAYS(run(&bad.tensor), "it has no data");
  for (int32_t ndim : {-1, 1, 3, INT32_MAX}) {
    bad = input(), bad.tensor.shape = bad.sizes.data(), bad.tensor.data = bad.values.data(), bad.tensor.ndim = ndim;
    EXPECT_SAYS(run(&bad.tensor), "K0615");
  }
  bad.tensor.ndim = 2, bad.tensor.shape = nullptr;
  EXPECT_SAYS(run(&bad.tensor), "it has no sizes");
  bad.tensor.shape = bad.sizes.data(), bad.tensor.byte_offset = UINT64_MAX - 8;
  EXPECT_SAYS(run(&bad.tensor), "outside of the address space");
  int64_t far[] = {INT64_MAX / 2, 1};
  bad.tensor.byte_offset = 0, bad.tensor.strides = far;
  EXPECT_SAYS(run(&bad.tensor), "outside of the address space");
}

TEST_F(Misuse, FaultsOfTensorsAlone) {
  std::vector<float> values(12);
  int64_t sizes[] = {3, 4}, back[] = {-4, 1}, empty[] = {INT64_MAX, INT64_MAX, 0}, huge[] = {INT64_MAX, INT64_MAX};
  DLTensor tensor{values.data() + 8, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, sizes, back, 0};
  EXPECT_EQ(tensor_fault(tensor, 4), nullptr);
  tensor.ndim = 3, tensor.shape = empty, tensor.data = nullptr, tensor.strides = nullptr;
  EXPECT_EQ(tensor_fault(tensor, 4), nullptr);
  tensor.ndim = 2, tensor.shape = huge, tensor.data = values.data();
  EXPECT_NE(tensor_fault(tensor, 4), nullptr);
}

TEST_F(Misuse, OutputsMustBeAbleToHoldWhatIsWritten) {
  TestTensor<float> in = input();
  auto with = [&](std::vector<int64_t> strides, std::vector<int64_t> sizes = {8, 1}) {
    TestTensor<float> out(DType::f32, std::move(sizes), std::vector<float>(64), std::move(strides));
    return run(&in.tensor, &out.tensor);
  };
  EXPECT_EQ(with({}), "");
  EXPECT_EQ(with({3, 0}), "");
  EXPECT_EQ(with({3, int64_t{1} << 62}), "");  // of one element: it leads nowhere
  EXPECT_SAYS(with({0, 1}), "several of its elements share memory");
  EXPECT_SAYS(with({}, {-8, 1}), "it has a negative size");
  EXPECT_SAYS(with({INT64_MAX, 1}), "outside of the address space");
  TestTensor<float> out(DType::f32, {8, 1}, std::vector<float>(8));
  out.tensor.data = nullptr;
  EXPECT_SAYS(run(&in.tensor, &out.tensor), "it has no data");
  out.tensor.shape = nullptr;
  EXPECT_SAYS(run(&in.tensor, &out.tensor), "it has no sizes");
  out.tensor.ndim = -3;
  EXPECT_SAYS(run(&in.tensor, &out.tensor), "unmatched number of dimensions");
}

int32_t k_add_one(const kiln_kernel_context*, void* const* b, const int64_t*, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[1])[i] = static_cast<const float*>(b[0])[i] + 1;
  return 0;
}

// The layout of a package that an older compiler made from an expanded example.
TEST(OverlappingLayouts, AreNeverForcedOnDataThatTheyCannotHold) {
  TestPlan t;
  int32_t two = t.number(2), three = t.number(3), zero = t.number(0);
  int32_t in = t.input("x", DType::f32, {two, three}), out = t.output("out", DType::f32, {two, three});
  t.plan.buffers[static_cast<size_t>(in)].strides[0] = zero;
  t.plan.steps = {t.kernel("add_one", k_add_one, {{in, Access::read}, {out, Access::write}}, three)};
  auto model = t.build();
  Instance instance(model);
  auto run = [&](std::vector<float> values, std::vector<int64_t> strides) {
    TestTensor<float> x(DType::f32, {2, 3}, std::move(values), std::move(strides));
    kiln_value in_value = x.value();
    std::vector<kiln_value> outputs(1);
    std::string error = error_of([&] { instance.run(&in_value, 1, outputs.data(), 1); });
    free_outputs(outputs);
    return error;
  };
  EXPECT_EQ(run({1, 2, 3}, {0, 1}), "");
  EXPECT_EQ(run({1, 2, 3, 1, 2, 3}, {3, 1}), "");
  EXPECT_SAYS(run({1, 2, 3, 4, 5, 6}, {3, 1}), "compile the model again");
}

TEST_F(Misuse, UpdatesOfConstantsThatMakeNoSense) {
  std::string bytes = mlp.bytes();
  kiln::Model model(bytes.data(), bytes.size());
  alignas(64) float memory[64] = {};
  kiln::Value bias = kiln::tensor(memory, {16}), off = kiln::tensor(memory + 1, {16});
  auto update = [&](std::vector<const char*> names, std::vector<const DLTensor*> values, uint32_t flags) {
    const kiln_status status = kiln_constants_update(model.handle(), names.data(), values.data(), names.size(), flags);
    return status == KILN_OK ? "" : str(status == KILN_ERROR_ARGUMENT, kiln_last_error());
  };
  const DLTensor* good = &bias.tensor();
  EXPECT_EQ(update({"l1.bias"}, {good}, KILN_UPDATE_BORROW), "");
  EXPECT_SAYS(update({"l1.bias"}, {good}, 8), "unknown flags of an update of constants: 8");
  EXPECT_SAYS(update({"l1.bias", "l1.bias"}, {good, good}, 0), "has constant l1.bias twice");
  EXPECT_SAYS(update({"l1.bias"}, {&off.tensor()}, KILN_UPDATE_BORROW), "aligned to 64 bytes");
  EXPECT_EQ(update({"l1.bias"}, {&off.tensor()}, KILN_UPDATE_COPY), "");
  EXPECT_SAYS(update({nullptr}, {good}, 0), "K0660");
  EXPECT_SAYS(update({"l1.bias"}, {nullptr}, 0), "K0660");
  DLTensor absurd = *good;
  absurd.ndim = INT32_MAX;
  EXPECT_SAYS(update({"l1.bias"}, {&absurd}, 0), "unmatched number of dimensions");
  absurd = *good, absurd.data = nullptr;
  EXPECT_SAYS(update({"l1.bias"}, {&absurd}, 0), "it has no data");
  EXPECT_EQ(kiln_constants_update(model.handle(), nullptr, nullptr, 1, 0), KILN_ERROR_ARGUMENT);
  kiln::Instance instance(model);
  int64_t none[] = {0};
  DLTensor shared = *good;
  shared.strides = none;
  EXPECT_EQ(kiln_constant_read(instance.handle(), "l1.bias", &shared), KILN_ERROR_ARGUMENT);
  EXPECT_SAYS(kiln_last_error(), "share memory");
}

TEST_F(Misuse, AFlippedBitInAWeightIsSeen) {
  std::string bytes = mlp.bytes();
  const size_t weight = bytes.find(std::string(reinterpret_cast<const char*>(mlp.weights.data()), 640));
  ASSERT_NE(weight, std::string::npos);
  bytes[weight + 17] = static_cast<char>(bytes[weight + 17] ^ 4);
  const std::string refused = load(bytes, options());
  EXPECT_SAYS(refused, "K0115");
  EXPECT_SAYS(refused, "mlp/data/weights/weight_0");
  kiln_load_options never = options(), always = options();
  never.verify_weights = -1, always.verify_weights = 1;
  EXPECT_EQ(load(bytes, never), "");
  EXPECT_SAYS(load(bytes, always), "K0115");
  const char* off[] = {"verify_weights=0"};
  never = options(), never.settings = off, never.setting_count = 1;
  EXPECT_EQ(load(bytes, never), "");
}

// More than loading looks at unasked.
TEST_F(Misuse, LargeWeightsAreLookedAtWhenAsked) {
  mlp.weights.resize(2 << 20);
  std::string bytes = mlp.bytes();
  bytes[bytes.find(std::string(reinterpret_cast<const char*>(mlp.weights.data()), 640)) + 17] ^= 4;
  EXPECT_EQ(load(bytes, options()), "");
  const char* on[] = {"verify_weights=1"};
  kiln_load_options always = options();
  always.settings = on, always.setting_count = 1;
  EXPECT_SAYS(load(bytes, always), "K0115");
}

TEST_F(Misuse, APlanMustFitItsCode) {
  auto refuse = [&](auto change) {
    MlpPackage other = mlp;
    change(other.plan);
    return load(other.bytes(), options());
  };
  EXPECT_SAYS(refuse([](format::Plan& p) { p.steps[1].kernel = 0; }),
              "step cpp_fused_relu_1 has 2 buffers and 1 numbers for the kernel k_linear, which takes 4 and 2");
  EXPECT_SAYS(refuse([](format::Plan& p) { p.steps[1].args.pop_back(); }), "K0525");
  EXPECT_SAYS(refuse([](format::Plan& p) { p.steps[1].ints.clear(); }), "K0525");
  EXPECT_SAYS(refuse([](format::Plan& p) { p.steps[1].ints.push_back(p.steps[1].ints[0]); }), "K0525");
  EXPECT_SAYS(refuse([](format::Plan& p) { std::swap(p.kernels[1], p.kernels[2]); }),
              "kernel 1 is k_square in the plan and k_relu in the code");
  EXPECT_SAYS(refuse([](format::Plan& p) { p.kernels.push_back({"k_relu"}); }),
              "the plan names 4 kernels, the code has 3");
  EXPECT_SAYS(refuse([](format::Plan& p) { p.kernel_abi = 1; }), "compile the model again");
  MlpPackage silent = mlp;
  silent.kernels = compile_shared_object(mlp_source, "", "");
  EXPECT_SAYS(load(silent.bytes(), options()), "does not say what its kernels take");
}

}  // namespace
}  // namespace kiln::runtime
