// The 8-bit float formats: widened to f32 exactly, narrowed as PyTorch does (to nearest even; what is too large
// saturates, becomes infinite or NaN, by format). Written on whole vectors: neither needs a table.
#include <algorithm>

#include "base/error.h"
#include "codegen/c_family/prelude_pieces.h"

namespace kiln::codegen {
namespace {

struct F8Format {
  const char* name;
  unsigned mantissa_bits, bias;
  const char* special;  // widening: which codes are not finite, and the f32's bits for those
  const char* finish;   // narrowing: from the rounded code r without sign to the code with it
};
constexpr F8Format formats[] = {
    {"f8e4m3fn", 3, 7, "(u & 0x7fu) == 0x7fu ? $SU(0x7fc00000u)",
     "r = (a > 0x7f800000u ? $SU(0x7fu) : r > 0x7eu ? $SU(0x7eu) : r) | s;"},
    {"f8e5m2", 2, 15, "(u & 0x7fu) >= 0x7cu ? a | 0x7f800000u",
     "r = (a > 0x7f800000u ? $SU(0x7fu) : r > 0x7bu ? $SU(0x7cu) : r) | s;"},
    {"f8e4m3fnuz", 3, 8, "u == 0x80u ? $SU(0x7fc00000u)", "r = r > 0x7fu ? $SU(0x80u) : r == 0u ? r : r | s;"},
    {"f8e5m2fnuz", 2, 16, "u == 0x80u ? $SU(0x7fc00000u)", "r = r > 0x7fu ? $SU(0x80u) : r == 0u ? r : r | s;"},
};

// The bits moved up are a float too small by a power of two; subnormals come right through the multiplication.
constexpr const char* widen_text = R"(K_FN $F widen_$d($B b) {
  $U u = cvt_$B_$U(b), a = (u & 0x7fu) << $shift;
  $U number = __builtin_bit_cast($U, __builtin_bit_cast($F, a) * 0x1p$upf);
  $U r = $special : number;
  return __builtin_bit_cast($F, r | (u & 0x80u) << 24);
}
)";
// Subnormal results: adding a power of two leaves the rounded bits at the bottom of the mantissa.
constexpr const char* narrow_text = R"(K_FN $B narrow_$d($F x) {
  $U u = __builtin_bit_cast($U, x), a = u & 0x7fffffffu, s = u >> 24 & 0x80u;
  $U normal = (a - $rebias + $half + ((a >> $shift) & 1u)) >> $shift;
  $U tiny = __builtin_bit_cast($U, __builtin_bit_cast($F, a) + __builtin_bit_cast(f32, $magic)) - $magic;
  $U r = a < $lowest ? tiny : normal;
  $finish
  return cvt_$U_$B(r);
}
)";
// Only an exponent: code 0 is 2^-127, 255 is NaN, there is no sign and no zero.
constexpr const char* widen_exponent_text = R"(K_FN $F widen_$d($B b) {
  $U u = cvt_$B_$U(b), number = u == 0u ? $SU(0x00400000u) : u << 23;
  return __builtin_bit_cast($F, u == 0xffu ? $SU(0x7fc00000u) : number);
}
)";
constexpr const char* narrow_exponent_text = R"(K_FN $B narrow_$d($F x) {
  $U a = __builtin_bit_cast($U, x) & 0x7fffffffu, down = a >> 23, up = (a + 0x400000u) >> 23;
  $U r = a <= 0x400000u ? down : up;
  return cvt_$U_$B(a >= 0x7f800000u ? $SU(0xffu) : r);
}
)";

std::string bits(unsigned number) { return str(number, "u"); }

}  // namespace

std::optional<std::string> f8_conversion(std::string_view name, bool widen, int lanes) {
  const Element &f32 = *find_element("f32"), &u32 = *find_element("u32"), &u8 = *find_element("u8");
  Replacements tokens = {{"d", std::string(name)},
                         {"F", type_name(f32, lanes)},
                         {"U", type_name(u32, lanes)},
                         {"B", type_name(u8, lanes)},
                         {"SU", "splat_" + type_name(u32, lanes)}};
  if (name == "f8e8m0fnu") return fill(widen ? widen_exponent_text : narrow_exponent_text, tokens);
  auto f = std::find_if(std::begin(formats), std::end(formats), [&](const F8Format& row) { return name == row.name; });
  if (f == std::end(formats)) return std::nullopt;
  const unsigned shift = 23 - f->mantissa_bits;
  Replacements numbers = {
      {"shift", std::to_string(shift)},        {"up", std::to_string(127 - f->bias)},
      {"special", fill(f->special, tokens)},   {"finish", fill(f->finish, tokens)},
      {"rebias", bits((127 - f->bias) << 23)}, {"half", bits((1u << (shift - 1)) - 1)},
      {"lowest", bits((128 - f->bias) << 23)}, {"magic", bits((151 - f->bias - f->mantissa_bits) << 23)}};
  tokens.insert(tokens.end(), numbers.begin(), numbers.end());
  return fill(widen ? widen_text : narrow_text, tokens);
}

}  // namespace kiln::codegen
