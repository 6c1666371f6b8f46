// Frozen packages: the same results, bit for bit, and every weight as it was, read, updated and looked at by the tools.
#include <gtest/gtest.h>

#include <cstring>

#include "base/cpu_levels.h"
#include "base/file.h"
#include "base/zip.h"
#include "compile/compile.h"
#include "custom/dlpack.h"
#include "executable/package_executable.h"
#include "graph/graph.h"
#include "ops/op_record.h"
#include "package/plan_io.h"
#include "pt2/reader.h"

namespace kiln {
namespace {

// A package through the C interface, as an embedder has it.
class Loaded {
 public:
  explicit Loaded(const std::string& path) {
    kiln_load_options options{};
    options.struct_size = sizeof options, options.device_index = -1, options.ignore_environment = 1;
    EXPECT_EQ(kiln_load(path.c_str(), &options, &model_), KILN_OK) << kiln_last_error();
    EXPECT_EQ(kiln_instance_create(model_, &instance_), KILN_OK) << kiln_last_error();
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() { kiln_instance_free(instance_), kiln_model_free(model_); }

  Tensor read(const std::string& name, const Tensor& like) const {
    Tensor out = Tensor::empty(like.dtype, like.sizes);
    EXPECT_EQ(kiln_constant_read(instance_, name.c_str(), DLPackView(out).get()), KILN_OK) << kiln_last_error();
    return out;
  }
  void update(const std::string& name, const Tensor& value, uint32_t flags = KILN_UPDATE_COPY) {
    const DLPackView view(value);
    const DLTensor* tensor = view.get();
    const char* names[] = {name.c_str()};
    EXPECT_EQ(kiln_constants_update(model_, names, &tensor, 1, flags), KILN_OK) << kiln_last_error();
  }
  void swap() { EXPECT_EQ(kiln_constants_swap(model_), KILN_OK) << kiln_last_error(); }
  std::vector<std::string> constants() const {
    std::vector<std::string> out;
    for (size_t i = 0; i < kiln_constant_count(model_); ++i) {
      kiln_constant spec{};
      spec.struct_size = sizeof spec;
      EXPECT_EQ(kiln_constant_spec(model_, i, &spec), KILN_OK);
      out.emplace_back(spec.name);
    }
    return out;
  }
  std::vector<std::byte> run(const std::vector<Datum>& inputs) const {
    std::vector<std::unique_ptr<DLPackView>> views;
    std::vector<kiln_value> in, out(kiln_output_count(model_));
    for (const Datum& datum : inputs) {
      views.push_back(std::make_unique<DLPackView>(datum.tensor()));
      kiln_value value{};
      value.kind = KILN_TENSOR, value.as.tensor = views.back()->get();
      in.push_back(value);
    }
    EXPECT_EQ(kiln_run(instance_, in.data(), in.size(), out.data(), out.size()), KILN_OK) << kiln_last_error();
    std::vector<std::byte> bytes;
    for (kiln_value& value : out) {
      const DLTensor& t = *value.as.tensor;
      int64_t count = t.dtype.bits / 8;
      for (int32_t d = 0; d < t.ndim; ++d) count *= t.shape[d];
      const auto* data = static_cast<const std::byte*>(t.data);
      bytes.insert(bytes.end(), data, data + count);
      kiln_value_clear(&value);
    }
    return bytes;
  }

 private:
  kiln_model* model_ = nullptr;
  kiln_instance* instance_ = nullptr;
};

bool equal(const Tensor& a, const Tensor& b) {
  const Tensor x = a.as_contiguous(), y = b.as_contiguous();
  return x.sizes == y.sizes &&
         std::memcmp(x.data(), y.data(), static_cast<size_t>(x.numel() * dtype_bytes(x.dtype))) == 0;
}

format::Plan plan_in(const std::string& package) {
  const auto file = MappedFile::open(package);
  const ZipReader zip(file->bytes(), package);
  for (const ZipEntry& entry : zip.entries())
    if (ends_with(entry.name, "/plan")) return format::read_plan(zip.stored(entry));
  return {};
}

class Freezing : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* source = std::getenv("KILN_SOURCE_DIR");
    if (!source) GTEST_SKIP() << "KILN_SOURCE_DIR is not set";
    program_ = read_pt2(str(source, "/tests/cases/", GetParam(), "/model.pt2"));
    plain_ = make("plain.kiln.pt2", false), frozen_ = make("frozen.kiln.pt2", true);
  }
  std::string make(const char* name, bool freezing, std::vector<std::string> targets = {}) {
    Settings settings(Phase::compile);
    if (freezing) settings.set("freezing", "1");
    CompileOptions options;
    options.settings = &settings;
    options.targets = std::move(targets);
    notes_ = compile(program_, join_path(folder_.path(), name), options).notes;
    return join_path(folder_.path(), name);
  }

  TemporaryDirectory folder_{"kiln-test"};
  Program program_;
  std::string plain_, frozen_;
  std::vector<std::string> notes_;
};

TEST_P(Freezing, GivesTheSameResultsAndKeepsEveryWeight) {
  const Loaded plain(plain_), frozen(frozen_);
  EXPECT_EQ(plain.run(program_.sample_inputs), frozen.run(program_.sample_inputs));
  const format::Plan plan = plan_in(frozen_);
  size_t packed = 0, stored = 0;
  for (const format::Constant& constant : plan.constants) packed += constant.packed_in != format::none;
  for (const format::Buffer& buffer : plan.buffers) stored += !buffer.entry.empty();
  EXPECT_GT(stored, 0u);
  EXPECT_GT(packed, 0u);
  for (const std::string& name : frozen.constants()) {
    const Tensor& original = program_.constants.at(name);
    EXPECT_TRUE(equal(frozen.read(name, original), original)) << name;
  }
  // The weights are there once.
  EXPECT_LT(read_file(frozen_).size(), read_file(plain_).size() * 5 / 4 + 16384);
}

TEST_P(Freezing, AnUpdatePacksAnew) {
  Loaded plain(plain_), frozen(frozen_);
  for (const std::string& name : frozen.constants()) {
    Tensor changed = program_.constants.at(name).clone();
    if (changed.dtype != DType::f32) continue;
    for (int64_t i = 0; i < changed.numel(); ++i) changed.as<float>()[i] = changed.as<float>()[i] * 1.5f + 0.01f;
    plain.update(name, changed), frozen.update(name, changed);
    EXPECT_EQ(plain.run(program_.sample_inputs), frozen.run(program_.sample_inputs)) << name;
    EXPECT_TRUE(equal(frozen.read(name, changed), changed)) << name;
    // Into the inactive set, which does not know of all that came before.
    for (Loaded* one : {&plain, &frozen})
      one->update(name, program_.constants.at(name), KILN_UPDATE_INACTIVE), one->swap();
    EXPECT_EQ(plain.run(program_.sample_inputs), frozen.run(program_.sample_inputs)) << name;
    EXPECT_TRUE(equal(frozen.read(name, changed), program_.constants.at(name))) << name;
  }
}

TEST_P(Freezing, OtherTargetsPackWhenTheyAreLoaded) {
  const std::string both = make("both.kiln.pt2", true, {"generic", "x86-64-v2"});
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("other targets pack when they are loaded"), std::string::npos) << notes_[0];
  const Loaded loaded(both), alone(make("alone.kiln.pt2", false, {"x86-64-v2"}));
  EXPECT_EQ(loaded.run(program_.sample_inputs), alone.run(program_.sample_inputs));
  for (const std::string& name : loaded.constants())
    EXPECT_TRUE(equal(loaded.read(name, program_.constants.at(name)), program_.constants.at(name))) << name;
}

// The matrix of a product of one row lies in panels, of which the last has fewer columns.
TEST(FreezingOneRow, ItsMatrixComesBackFromPanels) {
  const auto filled = [](std::vector<int64_t> sizes) {
    Tensor t = Tensor::empty(DType::f32, std::move(sizes));
    for (int64_t i = 0; i < t.numel(); ++i) t.as<float>()[i] = static_cast<float>((i * 7919) % 211 - 105) / 64;
    return t;
  };
  const Tensor x = filled({1, 300}), w = filled({300, 700}), bias = filled({700});
  Program program = parse_program(R"(program "row"
constant "w": f32[300, 700]
constant "bias": f32[700]
graph main {
  input %w: f32[300, 700] = parameter "w"
  input %bias: f32[700] = parameter "bias"
  input %x: f32[1, 300] = user
  %y: f32[1, 700] = aten.addmm.default(self=%bias, mat1=%x, mat2=%w)
  output %y = user
}
)",
                                  {{"w", w}, {"bias", bias}});
  resolve_operators(program.graph, {});
  TemporaryDirectory folder("kiln-test");
  for (const char* freezing : {"0", "1"}) {
    Settings settings(Phase::compile);
    settings.set("freezing", freezing);
    CompileOptions options;
    options.settings = &settings;
    const std::string path = join_path(folder.path(), str("row", freezing, ".kiln.pt2"));
    compile(program, path, options);
    const format::Plan plan = plan_in(path);
    size_t packed = 0;
    for (const format::Constant& constant : plan.constants) packed += constant.packed_in != format::none;
    const bool packs = std::string(freezing) == "1" && processor_features().count("avx2") > 0;
    EXPECT_EQ(packed, packs ? 1u : 0u);
    const Loaded loaded(path);
    const std::vector<std::byte> bytes = loaded.run({{x}});
    const auto* y = reinterpret_cast<const float*>(bytes.data());
    for (int64_t c = 0; c < 700; ++c) {
      double sum = bias.as<float>()[c];
      for (int64_t r = 0; r < 300; ++r) sum += double{x.as<float>()[r]} * w.as<float>()[r * 700 + c];
      ASSERT_NEAR(y[c], sum, 1e-3) << c;
    }
    EXPECT_TRUE(equal(loaded.read("w", w), w));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Freezing,
                         testing::Values("picture", "picture_channels_last", "blocks32", "joined_heads"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace kiln
