// Instructions for bf16 and for bytes: pairs of products added to an f32 (AVX512-BF16), fours of them to an i32
// (AVX512-VNNI), and matrix instructions.
// Matrix instructions (AMX): eight tiles of up to 16 rows of 64 bytes. The compilers spell them in a header that costs
// more than the kernel; here they are as the assembler takes them. Accumulators are tiles 0 to 3 (row by row), the
// rows' factor 4 and 5, the columns' 6 and 7.
#include "base/text.h"
#include "codegen/c_family/prelude_pieces.h"

namespace kiln::codegen {
namespace {

constexpr const char* configure_tiles_text = R"(K_FN void k_matrix_configure(int upper, int lower) {
  struct { u8 palette, start, none[14]; u16 bytes[16]; u8 rows[16]; } tiles = {1, 0, {},
    {64, 64, 64, 64, 64, 64, 64, 64}, {(u8)upper, (u8)upper, (u8)lower, (u8)lower, (u8)upper, (u8)lower, 16, 16}};
  asm volatile("ldtilecfg %0" : : "m"(tiles));
}
)";
// The last parameter is the number of rows, which the configuration says: it is there for checked accesses.
constexpr const char* load_tile_text = R"(K_FN void k_matrix_$NAME(const bf16* p, i64 distance, int) {
  asm volatile("tileloadd (%0, %1, 1), %%tmm$TILE" : : "r"(p), "r"(distance * 2) : "memory");
}
)";

// Pairs of what two vectors have, rounded.
constexpr const char* interleave_text = R"(K_FN void k_interleave_bf16(bf16* p, f32x16 a, f32x16 b) {
  typedef short words __attribute__((vector_size(64)));
  words r;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(r) : "v"(a), "v"(b));
  r = __builtin_shufflevector(r, r, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  __builtin_memcpy(p, &r, 64);
}
)";

// A row of one byte over and over.
constexpr const char* filled_text = R"(template <class T, i64 N> struct k_filled {
  T all[N];
  constexpr explicit k_filled(int value) : all() { for (i64 i = 0; i < N; ++i) all[i] = (T)value; }
};
)";

}  // namespace

std::optional<std::string> matrix_piece(std::string_view name, const PieceContext&) {
  if (name == "k_pair_bf16")
    return "K_FN i32 k_pair_bf16(const bf16* p) { i32 r; __builtin_memcpy(&r, p, 4); return r; }\n";
  if (name == "k_pairs_bf16")
    return "K_FN i32x16 k_pairs_bf16(const bf16* p) { i32x16 r; __builtin_memcpy(&r, p, 64); return r; }\n";
  if (name == "k_dot_bf16")
    return "K_FN f32x16 k_dot_bf16(f32x16 sum, i32x16 a, i32x16 b) { asm(\"vdpbf16ps %2, %1, %0\" : \"+v\"(sum) : "
           "\"v\"(a), \"v\"(b)); return sum; }\n";
  if (name == "k_quad_u8") return "K_FN i32 k_quad_u8(const u8* p) { i32 r; __builtin_memcpy(&r, p, 4); return r; }\n";
  if (name == "k_quads_i8")
    return "K_FN i32x16 k_quads_i8(const i8* p) { i32x16 r; __builtin_memcpy(&r, p, 64); return r; }\n";
  if (name == "k_dot_bytes")
    return "K_FN i32x16 k_dot_bytes(i32x16 sum, i32x16 a, i32x16 b) { asm(\"vpdpbusd %2, %1, %0\" : \"+v\"(sum) : "
           "\"v\"(a), \"v\"(b)); return sum; }\n";
  if (name == "k_filled") return filled_text;
  if (name == "k_interleave_bf16") return interleave_text;
  constexpr std::string_view prefix = "k_matrix_";
  if (!starts_with(name, prefix)) return std::nullopt;
  const std::string_view what = name.substr(prefix.size());
  if (what == "configure") return configure_tiles_text;
  if (what == "release") return "K_FN void k_matrix_release() { asm volatile(\"tilerelease\"); }\n";
  for (int i = 0; i < 2; ++i)
    for (const char* side : {"left_", "right_"})
      if (what == str(side, i))
        return fill(load_tile_text, {{"NAME", str(side, i)}, {"TILE", str((side[0] == 'l' ? 4 : 6) + i)}});
  // zero_22, multiply_22, store_22: of so many rows and columns of tiles
  const size_t cut = what.rfind('_');
  if (cut == std::string_view::npos || what.size() != cut + 3) return std::nullopt;
  const std::string_view verb = what.substr(0, cut);
  const int rows = what[cut + 1] - '0', columns = what[cut + 2] - '0';
  if (rows < 1 || rows > 2 || columns < 1 || columns > 2) return std::nullopt;
  std::string lines;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) {
      const int sum = r * 2 + c;
      if (verb == "zero") lines += str("tilezero %%tmm", sum, "\\n\\t");
      if (verb == "multiply") lines += str("tdpbf16ps %%tmm", 6 + c, ", %%tmm", 4 + r, ", %%tmm", sum, "\\n\\t");
      if (verb == "store")
        lines += str("tilestored %%tmm", sum, ", ", r * 16 * 64 * columns + c * 64, "(%0, %1, 1)\\n\\t");
    }
  if (lines.empty()) return std::nullopt;
  if (verb == "store")
    return str("K_FN void ", name, "(void* tile) { asm volatile(\"", lines, "\" : : \"r\"(tile), \"r\"(", 64 * columns,
               "l) : \"memory\"); }\n");
  return str("K_FN void ", name, "() { asm volatile(\"", replace_all(lines, "%%", "%"), "\"); }\n");
}

}  // namespace kiln::codegen
