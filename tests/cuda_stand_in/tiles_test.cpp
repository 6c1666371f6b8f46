// Every tile of matrix instructions of four warps, by the stand-in for NVRTC: products of small numbers, whose sums are
// exact in any order, against the same sums one by one.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/text.h"
#include "codegen/backend.h"
#include "schedule/tile_cost.h"

struct NvrtcProgram;
extern "C" int nvrtcCreateProgram(NvrtcProgram**, const char*, const char*, int, const char* const*,
                                  const char* const*);
extern "C" int nvrtcCompileProgram(NvrtcProgram*, int, const char* const*);
extern "C" int nvrtcGetCUBINSize(NvrtcProgram*, size_t*);
extern "C" int nvrtcGetCUBIN(NvrtcProgram*, char*);
extern "C" int nvrtcDestroyProgram(NvrtcProgram**);

namespace kiln {
namespace {

struct TiledProduct {
  loops::BlockTile tile;
  int stages, parts;
  bool bf16, left_along, right_along;
  int rows, columns, terms;
};

std::string text_of(const TiledProduct& p) {
  const int tiles = (p.rows + p.tile.rows - 1) / p.tile.rows * ((p.columns + p.tile.columns - 1) / p.tile.columns);
  const int threads = 128 * (p.tile.rows / p.tile.part_rows) * (p.tile.columns / p.tile.part_columns);
  const char* type = p.bf16 ? "bf16" : "f16";
  const auto buffer = [&](const char* name, bool along, int across, int position) {
    return str("buffer ", name, " ", type, "[", along ? across : p.terms, ", ", along ? p.terms : across, "] strides [",
               along ? p.terms : across, ", 1] input position ", position, "\ninput ", name, " = buffer ", name, "\n");
  };
  return str(
      "loops product\n", buffer("x", p.left_along, p.rows, 0), buffer("w", p.right_along, p.columns, 1),
      "buffer y f32[", p.rows, ", ", p.columns, "] strides [", p.columns,
      ", 1] output position 0\noutput buffer y\nmain {\nkernel k {\ncontraction batch [] rows [i0] columns [i1] ",
      "sums [r0] left %1 of [%0, %1] right %3 of [%2, %3] shared []\nschedule items [", tiles * p.parts,
      "] grain 1 lanes 1 threads ", threads, " team ", threads, " block ", p.tile.rows, " rows ", p.tile.columns,
      " columns 64 terms each ", p.tile.part_rows, " by ", p.tile.part_columns, " tensor_cores warpgroups stages ",
      p.stages, p.left_along ? " left_along_terms" : "", " left_chunk 8", p.right_along ? " right_along_terms" : "",
      " right_chunk 8", p.parts > 1 ? str(" parts ", p.parts) : "", "\nfor i0 in [", p.rows,
      "] parallel @item {\nfor i1 in [", p.columns, "] parallel @item {\n%5 = for r0 in [", p.terms,
      "] reduce sum.f32 {\n%0 = load.", type, p.left_along ? " x[i0, r0]" : " x[r0, i0]",
      "\n%1 = cast.f32 %0\n%2 = ", "load.", type, p.right_along ? " w[i1, r0]" : " w[r0, i1]",
      "\n%3 = cast.f32 %2\n%4 = mul.f32 %1, %3\nyield %4\n}\nstore y[i0, i1] = %5\n}\n}\n}\n}\n");
}

// The emulated function of the kernel, and the file that it is in.
void* compiled(const codegen::GeneratedCode& code) {
  NvrtcProgram* program = nullptr;
  nvrtcCreateProgram(&program, code.sources.at(0).c_str(), "tiles", 0, nullptr, nullptr);
  const char* none = "";
  if (nvrtcCompileProgram(program, 0, &none) != 0) return nullptr;
  size_t size = 0;
  nvrtcGetCUBINSize(program, &size);
  std::string bytes(size, 0);
  nvrtcGetCUBIN(program, bytes.data());
  nvrtcDestroyProgram(&program);
  char path[] = "/tmp/kiln-tiles-XXXXXX";
  close(mkstemp(path));
  std::ofstream(path, std::ios::binary) << bytes;
  void* library = dlopen(path, RTLD_NOW);
  unlink(path);
  return library;
}

// Whole numbers from -4 to 4, which both types have.
uint16_t narrow(int number, bool bf16) {
  const auto value = static_cast<float>(number);
  uint32_t bits = 0;
  memcpy(&bits, &value, 4);
  if (bf16) return static_cast<uint16_t>(bits >> 16);
  if (number == 0) return 0;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | ((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff));
}

void expect_product(const TiledProduct& p) {
  const std::string text = text_of(p);
  SCOPED_TRACE(text.substr(text.find("schedule"), text.find("\nfor i0") - text.find("schedule")));
  const loops::LoopProgram program = loops::parse_loops(text);
  loops::verify(program);
  const codegen::Backend& backend = codegen::backend_for(DeviceType::cuda);
  const codegen::GeneratedCode code = backend.generate(program, backend.target("sm_90a"), {});
  void* library = compiled(code);
  ASSERT_TRUE(library);
  auto* run = reinterpret_cast<void (*)(const void*, unsigned, unsigned)>(
      dlsym(library, ("emulated_" + code.symbols.at(0)).c_str()));
  ASSERT_TRUE(run);

  std::vector<int> x(static_cast<size_t>(p.rows * p.terms)), w(static_cast<size_t>(p.columns * p.terms));
  uint32_t seed = 1;
  for (auto* numbers : {&x, &w})
    for (int& number : *numbers) number = static_cast<int>((seed = seed * 1664525 + 1013904223) >> 16) % 9 - 4;
  // As in memory: [rows, terms], or turned; at a multiple of 16 bytes.
  const auto laid_out = [&](const std::vector<int>& numbers, int across, bool along) {
    std::vector<uint16_t> out(numbers.size() + 8);
    for (int i = 0; i < across; ++i)
      for (int k = 0; k < p.terms; ++k)
        out[static_cast<size_t>(along ? i * p.terms + k : k * across + i)] =
            narrow(numbers[static_cast<size_t>(i * p.terms + k)], p.bf16);
    return out;
  };
  std::vector<uint16_t> left = laid_out(x, p.rows, p.left_along), right = laid_out(w, p.columns, p.right_along);
  std::vector<float> got(static_cast<size_t>(p.rows * p.columns), -1e9F);
  struct {
    int64_t items;
    uint64_t seed = 0;
    void* error = nullptr;
    char* scratch = nullptr;
    int64_t scratch_bytes = 0;
    int32_t step = 0, reserved = 0;
    void* buffers[3];
    int64_t ints[1] = {};
  } arguments;
  const codegen::StepCode& step = code.steps.begin()->second;
  ASSERT_EQ(step.buffers.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const std::string& name = program.buffers[static_cast<size_t>(step.buffers[i])].name;
    arguments.buffers[i] = name == "x"   ? static_cast<void*>(left.data())
                           : name == "w" ? static_cast<void*>(right.data())
                                         : got.data();
  }
  arguments.items = std::get<loops::Kernel>(program.block[0].what).schedule->items.value();
  run(&arguments, static_cast<unsigned>(arguments.items), static_cast<unsigned>(code.launches.at(0).threads));
  dlclose(library);
  int wrong = 0;
  for (int i = 0; i < p.rows; ++i)
    for (int j = 0; j < p.columns; ++j) {
      int sum = 0;
      for (int k = 0; k < p.terms; ++k)
        sum += x[static_cast<size_t>(i * p.terms + k)] * w[static_cast<size_t>(j * p.terms + k)];
      wrong += got[static_cast<size_t>(i * p.columns + j)] != static_cast<float>(sum);
    }
  EXPECT_EQ(wrong, 0) << "of " << p.rows << " rows, " << p.columns << " columns, " << p.terms << " terms";
}

// As the scheduler uses them, and with lines the other ways; rests in every direction, more stages than places for
// them.
TEST(WarpgroupTiles, GiveTheProducts) {
  int number = 0;
  for (const loops::BlockTile& tile : loops::warpgroup_tiles()) {
    const int stages = 3 + number % 2;
    TiledProduct p{tile, stages, 1, number % 3 != 1, true, true, tile.rows - 8, tile.columns + 8, 64 * stages + 136};
    expect_product(p);
    ++number;
  }
}

TEST(WarpgroupTiles, GiveTheProductsOfLinesAcrossTheTerms) {
  for (const loops::BlockTile& tile : loops::warpgroup_tiles()) {
    if (tile.part_columns % 64 != 0) continue;
    expect_product({tile, 3, 1, true, true, false, tile.rows + 8, tile.columns - 16, 200});
    if (tile.columns == 128) expect_product({tile, 4, 1, false, false, false, tile.rows - 16, tile.columns, 328});
  }
}

TEST(WarpgroupTiles, OfSeveralBlocksMeet) {
  for (const loops::BlockTile& tile : loops::warpgroup_tiles()) {
    if (tile.columns > 128) continue;
    expect_product(
        {tile, 3, tile.columns == 64 ? 4 : 2, true, true, tile.columns != 128, tile.rows, tile.columns - 8, 712});
  }
}

}  // namespace
}  // namespace kiln
