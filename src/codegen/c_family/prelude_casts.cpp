// Conversions between number types with PyTorch's meaning, and the narrow float formats. Float to integer truncates as
// the processor's cvtt instructions do; narrow integers go through i32 (docs/semantics.md).
#include "base/error.h"
#include "codegen/c_family/prelude_pieces.h"

namespace kiln::codegen {
namespace {

// ---- f16 and bf16
// ----------------------------------------------------------------------------------------------------

// For n lanes: $F f32, $U u32, $H u16, $SU splat of u32.
constexpr const char* widen_bf16_text =
    R"(K_FN $F widen_bf16($H h) { return __builtin_bit_cast($F, cvt_$H_$U(h) << 16); }
)";
constexpr const char* narrow_bf16_text = R"(K_FN $H narrow_bf16($F x) {
  $U u = __builtin_bit_cast($U, x);
  $U even = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return cvt_$U_$H((u & 0x7fffffffu) > 0x7f800000u ? $SU(0x7fc0u) : even);
}
)";
// The instruction takes subnormal numbers for 0: where there are some, those lanes are rounded as above. One statement,
// with that part out of the way: as a condition in C++ it was three blocks for each store, a fifth of the time that a
// model takes to compile.
constexpr const char* narrow_bf16_instruction = R"(static const u32 k_bf16_numbers[2] = {1, 0x7fff};
K_FN u16x16 narrow_bf16(f32x16 x) {
  u16x16 h;
  u32x16 u;
  unsigned short subnormal;
  asm inline(
      "vcvtneps2bf16 %[x], %[h]\n\t"
      "vfpclassps $0x20, %[x], %[k]\n\t"
      "kortestw %[k], %[k]\n\t"
      "jne 2f\n"
      "1:\n\t"
      ".subsection 1\n"
      "2:\n\t"
      "vpsrld $16, %[x], %[u]\n\t"
      "vpandd %[one]%{1to16%}, %[u], %[u]\n\t"
      "vpaddd %[x], %[u], %[u]\n\t"
      "vpaddd %[half]%{1to16%}, %[u], %[u]\n\t"
      "vpsrld $16, %[u], %[u]\n\t"
      "vpmovdw %[u], %[h]%{%[k]%}\n\t"
      "jmp 1b\n\t"
      ".previous"
      : [h] "=&v"(h), [u] "=&v"(u), [k] "=&Yk"(subnormal)
      : [x] "v"(x), [one] "m"(k_bf16_numbers[0]), [half] "m"(k_bf16_numbers[1])
      : "cc");
  return h;
}
)";
// The bits of a half, moved up, are a float too small by 2^112; subnormals come right through the multiplication.
constexpr const char* widen_f16_text = R"(K_FN $F widen_f16($H h) {
  $U u = cvt_$H_$U(h), a = (u & 0x7fffu) << 13;
  $U number = __builtin_bit_cast($U, __builtin_bit_cast($F, a) * 0x1p112f);
  $U r = a >= 0x0f800000u ? a | 0x7f800000u : number;
  return __builtin_bit_cast($F, r | (u & 0x8000u) << 16);
}
)";
// Subnormal halves: adding 0.5 leaves the rounded bits at the bottom of the mantissa.
constexpr const char* narrow_f16_text = R"(K_FN $H narrow_f16($F x) {
  $U u = __builtin_bit_cast($U, x), a = u & 0x7fffffffu;
  $U normal = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  $U tiny = __builtin_bit_cast($U, __builtin_bit_cast($F, a) + 0.5f) - 0x3f000000u;
  $U r = a < 0x38800000u ? tiny : normal;
  r = a >= 0x47800000u ? $SU(0x7c00u) : r;
  r = a > 0x7f800000u ? $SU(0x7e00u) : r;
  return cvt_$U_$H(r | (u >> 16 & 0x8000u));
}
)";
// Of NVIDIA's GPUs, sm_80 and newer.
constexpr const char* narrow_bf16_gpu =
    "K_FN u16 narrow_bf16(f32 x) { u16 h; asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(x)); return h; }\n";
constexpr const char* narrow_f16_gpu =
    "K_FN u16 narrow_f16(f32 x) { u16 h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(x)); return h; }\n";
constexpr const char* widen_f16_gpu =
    "K_FN f32 widen_f16(u16 h) { f32 x; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(x) : \"h\"(h)); return x; }\n";
// F16C; 0 is rounding to nearest even.
constexpr const char* widen_f16c_1 =
    "K_FN f32 widen_f16(u16 h) { return __builtin_ia32_vcvtph2ps(i16x8{(i16)h})[0]; }\n";
constexpr const char* narrow_f16c_1 =
    "K_FN u16 narrow_f16(f32 x) { return (u16)__builtin_ia32_vcvtps2ph(f32x4{x, 0, 0, 0}, 0)[0]; }\n";
constexpr const char* widen_f16c_4 = R"(K_FN f32x4 widen_f16(u16x4 h) {
  return __builtin_ia32_vcvtph2ps((i16x8)__builtin_shufflevector(h, h, 0, 1, 2, 3, -1, -1, -1, -1));
}
)";
constexpr const char* narrow_f16c_4 = R"(K_FN u16x4 narrow_f16(f32x4 x) {
  i16x8 r = __builtin_ia32_vcvtps2ph(x, 0);
  return (u16x4)__builtin_shufflevector(r, r, 0, 1, 2, 3);
}
)";
constexpr const char* widen_f16c_8 =
    "K_FN f32x8 widen_f16(u16x8 h) { return __builtin_ia32_vcvtph2ps256((i16x8)h); }\n";
constexpr const char* narrow_f16c_8 =
    "K_FN u16x8 narrow_f16(f32x8 x) { return (u16x8)__builtin_ia32_vcvtps2ph256(x, 0); }\n";
constexpr const char* widen_f16c_16 =
    "K_FN f32x16 widen_f16(u16x16 h) { return __builtin_ia32_vcvtph2ps512_mask((i16x16)h, f32x16{}, (unsigned "
    "short)-1, 4); }\n";
constexpr const char* narrow_f16c_16 =
    "K_FN u16x16 narrow_f16(f32x16 x) { return (u16x16)__builtin_ia32_vcvtps2ph512_mask(x, 0, i16x16{}, (unsigned "
    "short)-1); }\n";

const char* f16c_text(bool widen, int lanes) {
  switch (lanes) {
    case 1:
      return widen ? widen_f16c_1 : narrow_f16c_1;
    case 4:
      return widen ? widen_f16c_4 : narrow_f16c_4;
    case 8:
      return widen ? widen_f16c_8 : narrow_f16c_8;
    default:
      return widen ? widen_f16c_16 : narrow_f16c_16;
  }
}

// widen_<format> and narrow_<format>, for scalars and vectors.
std::string narrow_float_piece(std::string_view name, const PieceContext& context) {
  bool widen = starts_with(name, "widen"), brain = ends_with(name, "bf16");
  std::string_view format = name.substr(name.find('_') + 1);
  const Element &f32 = *find_element("f32"), &u32 = *find_element("u32"), &stored = *narrow_float(format);
  const char* text = brain ? (widen ? widen_bf16_text : narrow_bf16_text) : (widen ? widen_f16_text : narrow_f16_text);
  std::string out;
  auto natural = [&](int n) {
    if (stored.bytes == 1) {
      out += *f8_conversion(format, widen, n);
      return;
    }
    if (!brain && context.has_fma()) {
      out += f16c_text(widen, n);
      return;
    }
    const bool one_instruction = brain && !widen && context.brain_floats() && n == 16;
    std::string plain = fill(text, {{"F", type_name(f32, n)},
                                    {"U", type_name(u32, n)},
                                    {"H", type_name(stored, n)},
                                    {"SU", "splat_" + type_name(u32, n)}});
    if (one_instruction) plain = narrow_bf16_instruction;
    const bool instruction = context.for_gpu && !(brain && widen);
    out += instruction ? str("#ifdef __CUDACC_RTC__\n",
                             brain   ? narrow_bf16_gpu
                             : widen ? widen_f16_gpu
                                     : narrow_f16_gpu,
                             "#else\n", plain, "#endif\n")
                       : plain;
  };
  natural(1);
  if (context.lanes == 1) return out;
  natural(context.natural_lanes(f32));
  for (int n = context.natural_lanes(f32) * 2; n <= context.lanes; n *= 2) {
    std::string from = widen ? type_name(stored, n) : type_name(f32, n),
                to = widen ? type_name(f32, n) : type_name(stored, n);
    out += str("K_FN ", to, " ", name, "(", from, " x) { return cat_", to, "(", name, "(lo_", from, "(x)), ", name,
               "(hi_", from, "(x))); }\n");
  }
  return out;
}

// ---- k_cast
// ----------------------------------------------------------------------------------------------------------

std::string convert(const Element& from, const Element& to, int n, std::string_view x) {
  if (&from == &to) return std::string(x);
  return str("cvt_", type_name(from, n), "_", type_name(to, n), "(", x, ")");
}

// Body of the cast of `x` from one element type to another with n lanes.
std::string cast_body(const Element& from, const Element& to, int n) {
  const Element &i32 = *find_element("i32"), &i64 = *find_element("i64");
  if (&from == &to) return "return x;";
  if (!from.floating && to.floating && from.bytes < 4)
    return str("return ", convert(i32, to, n, convert(from, i32, n, "x")), ";");
  if (from.floating && !to.floating) {
    const Element& low = signed_of(to);
    if (!to.is_signed && to.bytes >= 4) {
      // From half the range on the signed conversion gives up: the top bit is taken off before and put back.
      std::string f = type_name(from, n), i = type_name(low, n),
                  half = str("splat_", f, to.bytes == 4 ? "(0x1p31" : "(0x1p63", from.bytes == 4 ? "f)" : ")");
      std::string big = n == 1 ? "big" : convert(signed_of(from), low, n, "big");
      std::string top = str("splat_", i, "((", low.name, ")1 << ", to.bytes * 8 - 1, ")");
      return str("auto big = x >= ", half, "; ", i,
                 " low = ", convert(from, low, n, str("sel_", f, "(big, x - ", half, ", x)")), "; return ",
                 convert(low, to, n, str("sel_", i, "(", big, ", low ^ ", top, ", low)")), ";");
    }
    const Element& middle = to.bytes == 8 ? i64 : i32;
    return str("return ", convert(middle, to, n, convert(from, middle, n, "x")), ";");
  }
  return str("return ", convert(from, to, n, "x"), ";");
}

std::string casts_to(const Element& to, const PieceContext& context) {
  std::string name = str("k_cast_", to.name), out;
  for (int n : {1, context.lanes}) {
    std::string t = type_name(to, n);
    for (const Element* from : context.types) {
      out += str("K_FN ", t, " ", name, "(", type_name(*from, n), " x) { ", cast_body(*from, to, n), " }\n");
    }
    if (n == 1) {
      out += str("K_FN ", t, " ", name, "(bool x) { return (", t, ")x; }\n");
    } else {
      out += str("K_FN ", t, " ", name, "(vmask x) { return sel_", t, "(from_vmask_", type_name(signed_of(to), n),
                 "(x), splat_", t, "(1), splat_", t, "(0)); }\n");
    }
    if (context.lanes == 1) break;
  }
  return out;
}

std::string casts_to_bool(const PieceContext& context) {
  std::string out;
  for (int n : {1, context.lanes}) {
    std::string result = n == 1 ? "bool" : "vmask";
    for (const Element* from : context.types) {
      std::string t = type_name(*from, n), natural = type_name(signed_of(*from), n);
      out +=
          str("K_FN ", result, " k_cast_bool(", t, " x) { return to_vmask_", natural, "(x != splat_", t, "(0)); }\n");
    }
    out += str("K_FN ", result, " k_cast_bool(", result, " x) { return x; }\n");
    if (context.lanes == 1) break;
  }
  return out;
}

// Rounds to a narrow format and back.
std::string casts_to_narrow(std::string_view format, const PieceContext& context) {
  std::string out;
  for (int n : {1, context.lanes}) {
    std::string f = type_name(*find_element("f32"), n);
    for (const Element* from : context.types) {
      out += str("K_FN ", f, " k_cast_", format, "(", type_name(*from, n), " x) { return widen_", format, "(narrow_",
                 format, "(k_cast_f32(x))); }\n");
    }
    // f8e8m0fnu has no zero.
    std::string number = format == "f8e8m0fnu" ? str("widen_", format, "(narrow_", format, "(k_cast_f32(x)))")
                                               : std::string("k_cast_f32(x)");
    out += str("K_FN ", f, " k_cast_", format, "(", n == 1 ? "bool" : "vmask", " x) { return ", number, "; }\n");
    if (context.lanes == 1) break;
  }
  return out;
}

// The bits of a narrow value held as f32, and back. bf16 is cut, not rounded: a NaN keeps its bits.
std::string narrow_bits(std::string_view format, bool to_bits, const PieceContext& context) {
  std::string out;
  for (int n : {1, context.lanes}) {
    std::string f = type_name(*find_element("f32"), n), bits = type_name(*narrow_float(format), n),
                u = type_name(*find_element("u32"), n);
    if (to_bits && format == "bf16")
      out += str("K_FN ", bits, " k_bits_bf16(", f, " x) { return cvt_", u, "_", bits, "(__builtin_bit_cast(", u,
                 ", x) >> splat_", u, "(16)); }\n");
    else if (to_bits)
      out += str("K_FN ", bits, " k_bits_", format, "(", f, " x) { return narrow_", format, "(x); }\n");
    else
      out += str("K_FN ", f, " k_from_bits_", format, "(", bits, " x) { return widen_", format, "(x); }\n");
    if (context.lanes == 1) break;
  }
  return out;
}

std::string bitcasts_to(const Element& to, const PieceContext& context) {
  std::string name = str("k_bitcast_", to.name), out;
  for (const Element* from : context.types) {
    if (from->bytes != to.bytes) continue;
    out += str("K_FN ", to.name, " ", name, "(", from->name, " x) { return __builtin_bit_cast(", to.name, ", x); }\n");
    if (context.lanes == 1) continue;
    int n = context.natural_lanes(to);
    out += str("K_FN ", type_name(to, n), " ", name, "(", type_name(*from, n), " x) { return __builtin_bit_cast(",
               type_name(to, n), ", x); }\n");
    for (n *= 2; n <= context.lanes; n *= 2) {
      out += str("K_FN ", type_name(to, n), " ", name, "(", type_name(*from, n), " x) { return {", name, "(x.a), ",
                 name, "(x.b)}; }\n");
    }
  }
  return out;
}

}  // namespace

std::optional<std::string> cast_piece(std::string_view name, const PieceContext& context) {
  for (std::string_view prefix : {"widen_", "narrow_"}) {
    if (starts_with(name, prefix) && narrow_float(name.substr(prefix.size())) != nullptr)
      return narrow_float_piece(name, context);
  }
  for (std::string_view prefix : {"k_bits_", "k_from_bits_"}) {
    if (starts_with(name, prefix) && narrow_float(name.substr(prefix.size())) != nullptr)
      return narrow_bits(name.substr(prefix.size()), prefix == "k_bits_", context);
  }
  if (starts_with(name, "k_cast_")) {
    std::string_view d = name.substr(7);
    if (d == "bool") return casts_to_bool(context);
    if (narrow_float(d) != nullptr) return casts_to_narrow(d, context);
    if (const Element* e = find_element(d)) return casts_to(*e, context);
  }
  if (starts_with(name, "k_bitcast_")) {
    std::string_view d = name.substr(10);
    if (const Element* e = find_element(d)) return bitcasts_to(*e, context);
  }
  return std::nullopt;
}

}  // namespace kiln::codegen
