// Whole packages through the C interface and its C++ header.
#include "base/cpu_levels.h"
#include "kiln/kiln.hpp"
#include "runtime/mlp_test.h"
#include "runtime/package_loader.h"

namespace kiln::runtime {
namespace {

class Package : public MlpTest {
 protected:
  std::string refuse(const std::string& bytes, std::vector<const char*> settings = {}) {
    kiln_load_options options{};
    options.struct_size = sizeof options;
    options.settings = settings.data(), options.setting_count = settings.size();
    options.ignore_environment = 1;
    kiln_model* model = nullptr;
    kiln_status status = kiln_load_memory(bytes.data(), bytes.size(), &options, &model);
    kiln_model_free(model);
    return status == KILN_OK ? "" : kiln_last_error();
  }
};

TEST_F(Package, LoadsFromAFileAndRuns) {
  TemporaryDirectory folder;
  std::string path = join_path(folder.path(), "mlp.kiln.pt2");
  write_file_atomic(path, mlp.bytes());
  kiln::Model model(path);
  EXPECT_EQ(model.name(), "test");
  EXPECT_EQ(model.target(), "x86-64-v2");
  EXPECT_STREQ(model.metadata("author"), "me");
  EXPECT_FALSE(model.stateful());
  kiln_spec spec = model.input(0);
  EXPECT_STREQ(spec.name, "x");
  EXPECT_EQ(spec.rank, 2);
  EXPECT_EQ(spec.sizes[0], -1);
  EXPECT_EQ(spec.sizes[1], 10);
  EXPECT_STREQ(spec.size_texts[0], "s0");
  kiln::Instance instance(model);
  std::vector<kiln::Value> out = instance.run({kiln::tensor(x.data(), {8, 10})});
  std::vector<float> expected = mlp.expected(x);
  ASSERT_EQ(out[0].sizes(), (std::vector<int64_t>{8, 1}));
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(out[0].data<float>()[i], expected[i], 1e-5);
  EXPECT_THROW(instance.run({kiln::tensor(x.data(), {10, 8})}), kiln::Exception);
}

TEST_F(Package, InstancesOutliveTheirModelHandle) {
  std::string bytes = mlp.bytes();
  auto model = std::make_unique<kiln::Model>(bytes.data(), bytes.size());
  kiln::Instance instance(*model);
  model.reset();
  EXPECT_EQ(instance.run({kiln::tensor(x.data(), {8, 10})}).size(), 1u);
}

TEST_F(Package, ConstantsByName) {
  std::string bytes = mlp.bytes();
  kiln::Model model(bytes.data(), bytes.size());
  kiln::Instance instance(model);
  ASSERT_EQ(kiln_constant_count(model.handle()), 4u);
  kiln_constant spec{};
  spec.struct_size = sizeof spec;
  kiln::check(kiln_constant_spec(model.handle(), 0, &spec));
  EXPECT_STREQ(spec.name, "l1.weight");
  EXPECT_EQ(spec.sizes[1], 10);
  std::vector<float> bias(1), zero(1);
  kiln::Value read = kiln::tensor(bias.data(), {1}), write = kiln::tensor(zero.data(), {1});
  instance.read_constant("l2.bias", read.tensor());
  EXPECT_EQ(bias[0], mlp.weights[192]);
  model.update_constants({{"l2.bias", &write.tensor()}});
  mlp.weights[192] = 0;
  EXPECT_NEAR(instance.run({kiln::tensor(x.data(), {8, 10})})[0].data<float>()[0], mlp.expected(x)[0], 1e-5);
  EXPECT_THROW(model.update_constants({{"l2.bias", &write.tensor()}}, KILN_UPDATE_ALL), kiln::Exception);
  alignas(64) static float mine[16] = {3};
  kiln::Value borrowed = kiln::tensor(mine, {1});
  model.update_constants({{"l2.bias", &borrowed.tensor()}}, KILN_UPDATE_BORROW | KILN_UPDATE_INACTIVE);
  model.swap_constants();
  mlp.weights[192] = 3;
  EXPECT_NEAR(instance.run({kiln::tensor(x.data(), {8, 10})})[0].data<float>()[0], mlp.expected(x)[0], 1e-5);
}

TEST_F(Package, RefusesWhatIsNoPackageOrDoesNotFit) {
  auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(contains(refuse("not a zip"), "K0520"));
  EXPECT_TRUE(contains(refuse("PK\x03\x04 and no more"), "K0110"));
  std::string empty;
  ZipWriter zip([&](ByteSpan piece) { empty += as_text(piece); });
  zip.add("model/models/model.json", "{}");
  zip.finish();
  EXPECT_TRUE(contains(refuse(empty), "kiln compile"));
  MlpPackage cuda = mlp, newer = mlp, other = mlp, lacking = mlp;
  cuda.plan.device = DeviceType::cuda;
  // There is a device for it, and here it is not, or it does not take this code.
  EXPECT_TRUE(contains(refuse(cuda.bytes()), "K077"));
  newer.plan.kernel_abi = 99;
  EXPECT_TRUE(contains(refuse(newer.bytes()), "newer runtime"));
  newer.plan.kernel_abi = KILN_KERNEL_ABI_OLDEST - 1;
  EXPECT_TRUE(contains(refuse(newer.bytes()), "compile the model again"));
  other.plan.code[0].target = "aarch64";
  EXPECT_TRUE(contains(refuse(other.bytes()), "aarch64 needs aarch64"));
  lacking.plan.kernels[0].symbol = "k_missing";
  EXPECT_TRUE(contains(refuse(lacking.bytes()), "kernel 0 is k_missing in the plan and k_linear in the code"));
  lacking = mlp;
  lacking.plan.constants[0].bytes = 1 << 20;
  EXPECT_TRUE(contains(refuse(lacking.bytes()), "lies outside its entry"));
  lacking = mlp;
  lacking.plan.constants[0].bytes = 4;
  EXPECT_TRUE(contains(refuse(lacking.bytes()), "larger than its data"));
  EXPECT_TRUE(contains(refuse(mlp.bytes(), {"no_such_key=1"}), "no_such_key"));
  kiln_model* model = nullptr;
  EXPECT_EQ(kiln_load("/nonexistent/x.pt2", nullptr, &model), KILN_ERROR_FILE);
  EXPECT_EQ(kiln_load(nullptr, nullptr, &model), KILN_ERROR_ARGUMENT);
}

TEST_F(Package, SurvivesDamagedFiles) {
  std::string bytes = mlp.bytes();
  for (size_t cut = 0; cut < bytes.size(); cut += 97) EXPECT_NE(refuse(bytes.substr(0, cut)), "");
  // Any changed byte of the plan is seen by the checksum.
  size_t plan = bytes.find("KILNPLAN");
  for (size_t i = 0; i < 400; i += 7) {
    std::string changed = bytes;
    changed[plan + i] = static_cast<char>(changed[plan + i] ^ 0x41);
    EXPECT_NE(refuse(changed), "");
  }
}

TEST_F(Package, GarbageCodeIsAnErrorThatNamesThePolicies) {
  mlp.kernels = "no machine code";
  std::string text = refuse(mlp.bytes());
  EXPECT_NE(text.find("K0512"), std::string::npos) << text;
  EXPECT_NE(text.find("memory file"), std::string::npos) << text;
}

std::string& logged() {
  static std::string text;
  return text;
}
void collect(void*, kiln_log_level, const char* text) { logged() += std::string(text) + "\n"; }

TEST_F(Package, PrinterPrintsNamesOrValues) {
  std::string bytes = mlp.bytes();
  auto run_with = [&](std::vector<std::string> settings) {
    logged().clear();
    kiln::LoadOptions options;
    options.settings = std::move(settings), options.ignore_environment = true, options.log = collect;
    kiln::Model model(bytes.data(), bytes.size(), options);
    kiln::Instance(model).run({kiln::tensor(x.data(), {8, 10})});
    return logged();
  };
  EXPECT_EQ(run_with({}), "");
  std::string names = run_with({"aot_inductor.debug_intermediate_value_printer=3"});
  EXPECT_EQ(names,
            "[ before_launch - cpp_linear_0 ] run 1\n"
            "[ before_launch - cpp_fused_relu_1 ] run 1  model.py:9 in forward:  h = self.act(self.l1(x))\n"
            "[ before_launch - cpp_linear_2 ] run 1\n[ before_launch - cpp_fused_square_3 ] run 1\n");
  std::string values =
      run_with({"aot_inductor.debug_intermediate_value_printer=2", "aot_inductor.filtered_kernel_names=CPP_fused_r*"});
  for (const char* part : {"[ before_launch - cpp_fused_relu_1 ]", "[ after_launch - cpp_fused_relu_1 ]", "model.py:9",
                           "h ", "float32 [8, 16] strides [16, 1]", "min ", "max ", "mean ", "std ", "nan 0", "inf 0",
                           "zero ", "checksum ", " cpu", "(not yet written)"})
    EXPECT_NE(values.find(part), std::string::npos) << part << "\n" << values;
  EXPECT_EQ(values.find("launch - cpp_linear_0"), std::string::npos);
  EXPECT_NE(values.find("from cpp_linear_0"), std::string::npos) << values;
  std::string none =
      run_with({"aot_inductor.debug_intermediate_value_printer=2", "aot_inductor.filtered_kernel_names=nothing"});
  EXPECT_NE(none.find("matches no kernel"), std::string::npos);
  EXPECT_NE(none.find("cpp_fused_square_3"), std::string::npos);
}

struct Seen {
  std::vector<std::string> steps;
  int replace = 0;
};
kiln_hook_answer watch(void* user, kiln_hook_when when, const kiln_step* step) {
  auto* seen = static_cast<Seen*>(user);
  seen->steps.push_back(std::string(when == KILN_BEFORE_STEP ? "<" : ">") + step->name);
  if (seen->replace == 2) return KILN_HOOK_STOP;
  if (when == KILN_BEFORE_STEP && seen->replace == 1 && std::string(step->name) == "cpp_fused_square_3") {
    const DLTensor& out = step->args[1].tensor;
    for (int64_t i = 0; i < out.shape[0]; ++i) static_cast<float*>(out.data)[i] = 7;
    return KILN_HOOK_REPLACE;
  }
  return KILN_HOOK_CONTINUE;
}

TEST_F(Package, HooksSeeReplaceAndStop) {
  std::string bytes = mlp.bytes();
  kiln::Model model(bytes.data(), bytes.size());
  kiln::Instance instance(model);
  Seen seen;
  instance.set_hook(watch, &seen);
  instance.run({kiln::tensor(x.data(), {8, 10})});
  ASSERT_EQ(seen.steps.size(), 8u);
  EXPECT_EQ(seen.steps[2], "<cpp_fused_relu_1");
  EXPECT_EQ(seen.steps[3], ">cpp_fused_relu_1");
  seen.replace = 1;
  EXPECT_EQ(instance.run({kiln::tensor(x.data(), {8, 10})})[0].data<float>()[5], 7);
  seen.replace = 2;
  try {
    instance.run({kiln::tensor(x.data(), {8, 10})});
    FAIL();
  } catch (const kiln::Exception& error) {
    EXPECT_EQ(error.status(), KILN_ERROR_STOPPED);
    EXPECT_EQ(error.code(), "K0636");
  }
  instance.set_hook(nullptr, nullptr);
  EXPECT_NEAR(instance.run({kiln::tensor(x.data(), {8, 10})})[0].data<float>()[5], mlp.expected(x)[5], 1e-5);
}

TEST_F(Package, UsesTheEmbeddersAllocator) {
  static std::atomic<int64_t> live, total;
  live = total = 0;
  kiln_allocator allocator{[](void*, size_t bytes, size_t alignment) {
                             ++live, ++total;
                             return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
                           },
                           [](void*, void* memory, size_t) { --live, std::free(memory); }, nullptr};
  std::string bytes = mlp.bytes();
  {
    kiln::LoadOptions options;
    options.allocator = &allocator;
    kiln::Model model(bytes.data(), bytes.size(), options);
    kiln::Instance instance(model);
    for (int i = 0; i < 3; ++i) instance.run({kiln::tensor(x.data(), {8, 10})});
    EXPECT_GE(total, 4);
  }
  EXPECT_EQ(live, 0);
}

TEST(CpuFeatures, ChooseTheBestTargetOrSayWhatIsMissing) {
  CpuFeatures v3{"x86-64", "cmpxchg16b", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2", "avx",
                 "avx2",   "bmi",        "bmi2",   "f16c", "fma",   "lzcnt",  "movbe"};
  EXPECT_EQ(choose_target({"x86-64-v2", "x86-64-v4", "x86-64-v3"}, v3), 2u);
  CpuFeatures v4 = v3;
  v4.insert({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
  EXPECT_EQ(choose_target({"x86-64-v2", "x86-64-v4", "x86-64-v4+bf16"}, v4), 1u);
  std::string text = error_of([&] { choose_target({"x86-64-v4"}, v3); });
  EXPECT_NE(text.find("x86-64-v4 needs avx512f, avx512bw, avx512cd, avx512dq, avx512vl"), std::string::npos) << text;
  EXPECT_FALSE(check_target("riscv64", v4).known);
  // Code for every processor runs on every one, where there is nothing better; a text that nobody knows is said whole.
  EXPECT_EQ(choose_target({"generic"}, {}), 0u);
  EXPECT_EQ(choose_target({"generic", "aarch64"}, {"aarch64"}), 1u);
  EXPECT_EQ(choose_target({"x86-64-v3", "generic"}, v3), 0u);
  text = error_of([&] { choose_target({"riscv64"}, v4); });
  EXPECT_NE(text.find("; riscv64 is not known to this runtime; compile"), std::string::npos) << text;
}

// A package that an earlier Kiln made: it is not read, and says what to do.
TEST(OlderPackage, VersionOneIsRefused) {
  const char* root = std::getenv("KILN_SOURCE_DIR");
  if (!root) GTEST_SKIP() << "KILN_SOURCE_DIR is not set";
  const auto file = MappedFile::open(join_path(root, "tests/packages/version_1.package"));
  PackageSource source;
  source.bytes = file->bytes(), source.label = "version_1.package";
  const Log log;
  const std::string text = error_of([&] { load_package(source, {}, system_allocator(), log, processor_features()); });
  for (const char* part : {"K0502", "the package has format 1.2, this Kiln reads 2.x: compile the model again"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace
}  // namespace kiln::runtime
