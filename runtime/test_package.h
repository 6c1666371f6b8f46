// A whole package made by hand: the MLP of the documents (Linear 10→16, ReLU, Linear 16→1, Sigmoid; batch 1…1024) in
// four steps, with kernels compiled by the C++ compiler when the test runs.
#pragma once
#include <cstdlib>

#include "base/file.h"
#include "base/zip.h"
#include "runtime/test_plan.h"

namespace kiln::runtime {

inline const char* mlp_source = R"(
typedef long long i64;
struct context;
extern "C" {
int k_linear(const context*, void* const* b, const i64* n, i64 begin, i64 end) {  // x, weight, bias, out; in, out
  const float *x = (const float*)b[0], *w = (const float*)b[1], *bias = (const float*)b[2];
  float* y = (float*)b[3];
  for (i64 i = begin; i < end; ++i)
    for (i64 j = 0; j < n[1]; ++j) {
      float sum = bias[j];
      for (i64 k = 0; k < n[0]; ++k) sum += x[i * n[0] + k] * w[j * n[0] + k];
      y[i * n[1] + j] = sum;
    }
  return 0;
}
int k_relu(const context*, void* const* b, const i64* n, i64 begin, i64 end) {
  const float* x = (const float*)b[0];
  float* y = (float*)b[1];
  for (i64 i = begin * n[0]; i < end * n[0]; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  return 0;
}
int k_square(const context*, void* const* b, const i64* n, i64 begin, i64 end) {
  const float* x = (const float*)b[0];
  float* y = (float*)b[1];
  for (i64 i = begin * n[0]; i < end * n[0]; ++i) y[i] = x[i] * x[i];
  return 0;
}
}
)";

// What every code object says of its kernels; stands behind their source.
inline const char* mlp_table = R"(
struct kernel_entry {
  const char* name;
  int (*run)(const context*, void* const*, const i64*, i64, i64);
  unsigned buffers, ints;
};
struct kernel_table {
  unsigned version, count;
  const kernel_entry* kernels;
};
static const kernel_entry entries[] = {
    {"k_linear", k_linear, 4, 2}, {"k_relu", k_relu, 2, 1}, {"k_square", k_square, 2, 1}};
extern "C" {
extern const kernel_table kiln_kernels;
const kernel_table kiln_kernels = {2, 3, entries};
}
)";

// Compiles a source to a shared object and gives its bytes; "" when there is no compiler.
inline std::string compile_shared_object(const std::string& source, const std::string& flags = "",
                                         const std::string& table = mlp_table) {
  TemporaryDirectory folder;
  std::string cpp = join_path(folder.path(), "k.cpp"), so = join_path(folder.path(), "k.so");
  write_file_atomic(cpp, source + table);
  std::string command = str(KILN_CXX_COMPILER, " -std=c++20 -O2 -fPIC -shared ", flags, " -o ", so, " ", cpp);
  return std::system(command.c_str()) == 0 ? read_file(so) : "";
}

inline float mlp_weight(int64_t i) { return static_cast<float>((i * 37) % 11 - 5) / 16; }

struct MlpPackage {
  format::Plan plan;
  format::Origins origins;
  std::string kernels;
  std::string graph_text;      // of the debug section; "": it has none
  std::vector<float> weights;  // w1 [16, 10], b1 [16], w2 [1, 16], b2 [1], each at a multiple of 16 floats

  MlpPackage() {
    TestPlan t;
    int32_t s0 = t.symbol("s0", format::SymbolSource::input_size, 0, 0, 1, 1024), n = t.symbol_expr(s0);
    int32_t ten = t.number(10), sixteen = t.number(16), one = t.number(1);
    int32_t x = t.input("x", DType::f32, {n, ten}), out = t.output("out", DType::f32, {n, one});
    auto weight = [&](const char* name, std::vector<int32_t> sizes, int64_t count) {
      format::Constant c;
      c.name = name, c.entry = "mlp/data/weights/weight_0", c.storage_offset = static_cast<int64_t>(weights.size()) * 4,
      c.bytes = count * 4;
      t.plan.constants.push_back(c);
      for (int64_t i = 0; i < (count + 15) / 16 * 16; ++i) weights.push_back(i < count ? mlp_weight(i + count) : 0);
      int32_t b = t.buffer(name, DType::f32, format::BufferRole::constant, std::move(sizes),
                           static_cast<int32_t>(t.plan.constants.size() - 1));
      t.plan.buffers[static_cast<size_t>(b)].alignment = 64;
      return b;
    };
    int32_t w1 = weight("l1.weight", {sixteen, ten}, 160), b1 = weight("l1.bias", {sixteen}, 16);
    int32_t w2 = weight("l2.weight", {one, sixteen}, 16), b2 = weight("l2.bias", {one}, 1);
    int32_t h = t.temp("h", DType::f32, {n, sixteen}), r = t.temp("r", DType::f32, {n, sixteen}),
            y = t.temp("y", DType::f32, {n, one});
    t.plan.steps = {t.kernel("cpp_linear_0", nullptr,
                             {{x, Access::read}, {w1, Access::read}, {b1, Access::read}, {h, Access::write}}, n,
                             {ten, sixteen}, 64),
                    t.kernel("cpp_fused_relu_1", nullptr, {{h, Access::read}, {r, Access::write}}, n, {sixteen}, 64),
                    t.kernel("cpp_linear_2", nullptr,
                             {{r, Access::read}, {w2, Access::read}, {b2, Access::read}, {y, Access::write}}, n,
                             {sixteen, one}, 64),
                    t.kernel("cpp_fused_square_3", nullptr, {{y, Access::read}, {out, Access::write}}, n, {one}, 64)};
    plan = std::move(t.plan);
    plan.kernels = {{"k_linear"}, {"k_relu"}, {"k_square"}};
    const int32_t used[] = {0, 1, 0, 2};
    for (size_t i = 0; i < 4; ++i) plan.steps[i].kernel = used[i];
    plan.build_id = "b1";
    plan.code = {{"x86-64-v2", "code/x86-64-v2/kernels.so"}};
    plan.metadata_keys = {"author"}, plan.metadata_values = {"me"};
    origins.build_id = "b1";
    origins.steps.push_back(
        {1, {"relu"}, {"aten.relu.default"}, {"act"}, {"model.py:9 in forward:  h = self.act(self.l1(x))"}, {}, {}});
  }

  std::string bytes() const {
    std::string out;
    ZipWriter zip([&](ByteSpan piece) { out += as_text(piece); });
    zip.add("mlp/data/kiln/mlp/plan", format::write_plan(plan));
    zip.add("mlp/data/kiln/mlp/code/x86-64-v2/kernels.so", std::string_view(kernels));
    zip.add("mlp/data/kiln/mlp/debug/origins", format::write_origins(origins));
    if (!graph_text.empty()) zip.add("mlp/data/kiln/mlp/debug/graph.txt", std::string_view(graph_text));
    zip.add("mlp/data/weights/weight_0",
            ByteSpan(reinterpret_cast<const std::byte*>(weights.data()), weights.size() * 4));
    zip.finish();
    return out;
  }

  std::vector<float> expected(const std::vector<float>& x) const {
    std::vector<float> out;
    const float *w1 = weights.data(), *b1 = w1 + 160, *w2 = b1 + 16, *b2 = w2 + 16;
    for (size_t i = 0; i < x.size() / 10; ++i) {
      float y = b2[0];
      for (size_t j = 0; j < 16; ++j) {
        float h = b1[j];
        for (size_t k = 0; k < 10; ++k) h += x[i * 10 + k] * w1[j * 10 + k];
        y += (h > 0 ? h : 0) * w2[j];
      }
      out.push_back(y * y);
    }
    return out;
  }
};

}  // namespace kiln::runtime
