// What users are promised of a package, on real ones: small, identical blocks compiled once, and every step reported at
// its own line.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "compile/compile.h"
#include "kiln/kiln.h"

namespace kiln {
namespace {

std::string case_model(const char* name) {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  return std::string(source ? source : ".") + "/tests/cases/" + name + "/model.pt2";
}

struct Seen {
  std::vector<std::string> names, lines;
};

kiln_hook_answer note_step(void* user, kiln_hook_when when, const kiln_step* step) {
  auto& seen = *static_cast<Seen*>(user);
  if (when == KILN_BEFORE_STEP) {
    seen.names.push_back(step->name);
    seen.lines.push_back(step->origin_count ? step->origins[0].line : "");
  }
  return KILN_HOOK_CONTINUE;
}

TEST(Package, MlpIsSmall) {
  TemporaryDirectory directory("kiln-acceptance");
  CompileReport report = compile(case_model("mlp"), join_path(directory.path(), "mlp.kiln.pt2"), {});
  EXPECT_LE(report.package_bytes, 100u * 1000u);
}

TEST(Package, IdenticalBlocksAreCompiledOnceAndReportedAtTheirOwnLines) {
  TemporaryDirectory directory("kiln-acceptance");
  std::string path = join_path(directory.path(), "blocks.kiln.pt2");
  CompileReport report = compile(case_model("blocks32"), path, {});
  EXPECT_EQ(report.kernels, 32);
  EXPECT_LE(report.kernels_compiled, 2) << "the block, and the packing of its weight";

  kiln_model* model = nullptr;
  ASSERT_EQ(kiln_load(path.c_str(), nullptr, &model), KILN_OK) << kiln_last_error();
  kiln_instance* instance = nullptr;
  ASSERT_EQ(kiln_instance_create(model, &instance), KILN_OK) << kiln_last_error();
  Seen seen;
  ASSERT_EQ(kiln_set_hook(instance, note_step, &seen), KILN_OK);
  kiln_spec spec{};
  spec.struct_size = sizeof spec;
  ASSERT_EQ(kiln_input_spec(model, 0, &spec), KILN_OK);
  std::vector<int64_t> sizes;
  int64_t count = 1;
  for (int32_t d = 0; d < spec.rank; ++d) {
    sizes.push_back(spec.sizes[d] < 0 ? 2 : spec.sizes[d]);
    count *= sizes.back();
  }
  std::vector<float> values(static_cast<size_t>(count), 0.5f);
  DLTensor tensor{};
  tensor.data = values.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = spec.rank;
  tensor.dtype = spec.dtype;
  tensor.shape = sizes.data();
  kiln_value input{};
  input.kind = KILN_TENSOR;
  input.as.tensor = &tensor;
  kiln_value output{};
  ASSERT_EQ(kiln_run(instance, &input, 1, &output, 1), KILN_OK) << kiln_last_error();
  kiln_value_clear(&output);
  ASSERT_EQ(seen.lines.size(), 32u);
  for (size_t block = 0; block < 32; ++block)
    EXPECT_NE(seen.lines[block].find(str("self.layers[", block, "]")), std::string::npos)
        << seen.names[block] << ": " << seen.lines[block];
  kiln_instance_free(instance);
  kiln_model_free(model);
}

}  // namespace
}  // namespace kiln
