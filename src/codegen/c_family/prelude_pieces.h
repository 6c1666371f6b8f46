// How the prelude is put together (internal to prelude*.cpp). A piece is a stretch of C++ text found by the name it
// defines; what a piece needs is found by looking for other pieces' names in its text, so no list of dependencies can
// be out of date. Names with types in them ("splat_f32x16", "cvt_f32x8_f64x8") are made on demand.
//
// Types: an element type e ("f32") with n lanes is `e` for n == 1; `e`x`n`, a compiler vector, where that fits the
// target's registers; otherwise `pair<half>` of two halves under the same name. g++ 12 takes vectors wider than a
// register apart lane by lane, pairs stay in registers.
// Math is written for "natural" types only (a scalar, or a compiler vector that fills a register) and calls are passed
// on to the halves of pairs. A "natural mask" is what comparing natural types gives: bool, or integers of equal width.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/c_family/prelude.h"

namespace kiln::codegen {

struct Element {
  const char* name;  // "i64"
  const char* c;     // "long long"
  int bytes;
  bool floating, is_signed;
  DType dtype;
};
const std::vector<Element>& elements();
const Element* find_element(std::string_view name);
const Element& signed_of(const Element& e);  // i32 for f32, u32, i32
const Element& unsigned_of(const Element& e);

struct VectorType {
  const Element* element = nullptr;
  int lanes = 1;
  std::string name() const;
};
std::optional<VectorType> parse_vector_type(std::string_view name);  // "f32x16", "f32"

// Storage types that are computed in as f32: f16, bf16 and the f8 formats. The integer that holds one in memory (u16,
// u8), or null for all other names.
const Element* narrow_float(std::string_view name);
// widen_<name> or narrow_<name> of an f8 format, for natural types of that many lanes.
std::optional<std::string> f8_conversion(std::string_view name, bool widen, int lanes);

struct PieceContext {
  int lanes = 1;
  CpuLevel level = CpuLevel::generic;
  int mask_bits = 32;
  bool for_gpu = false;
  std::vector<const Element*> types;  // of public overloads

  bool x86() const { return level != CpuLevel::generic; }
  bool has_fma() const { return level >= CpuLevel::x86_64_v3; }
  bool avx512() const { return level >= CpuLevel::x86_64_v4; }
  bool brain_floats() const { return level >= CpuLevel::x86_64_v4_bf16; }
  int register_bytes() const { return avx512() ? 64 : level == CpuLevel::x86_64_v3 ? 32 : 16; }
  bool is_pair(const Element& e, int n) const { return n * e.bytes > register_bytes(); }
  // Lanes of the natural vector type of an element in this kernel.
  int natural_lanes(const Element& e) const;
  const Element& mask_element() const;
};
// The integer vector type that the compilers' builtins take for elements of this width.
std::string builtin_type(const Element& e, int lanes);
inline std::string type_name(const Element& e, int lanes) { return VectorType{&e, lanes}.name(); }

// Replaces "$X" by a value for each pair; names are matched longest first.
using Replacements = std::vector<std::pair<std::string, std::string>>;
std::string fill(std::string_view text, const Replacements& replacements);

// One math function (or a few that belong together) of an element type, written with tokens:
//   $F the type, $I and $U integers of the same width, $M its natural mask, $S(x) and $SI(x) splat a float / an
//   integer, $POLY{z; c0, c1} a polynomial, $N lanes, $D and $DI f64 and i64 with as many lanes (f32 only), $at the
//   lane i ("[i]", nothing for scalars).
struct MathPiece {
  const char* name;  // without type: "exp" makes exp_f32
  char
      type;  // 's' f32, 'd' f64, 'f' both floats, 'i' signed integers, 'l' i64, 'u' unsigned, 'n' all integers, 'a' all
  int arity;              // of the function passed on to halves; 0: internal, for natural types only
  bool scalar_only;       // a vector calls it lane by lane; with arity 0 there is no vector form
  const char* text;       // nullptr: f32 computed through the f64 function of the same name
  const char* also = "";  // further names defined by the text, separated by spaces
  const char* vector =
      nullptr;        // text for vectors, where it is another: also $P, $W, $V, $K, $C of prelude_arithmetic.cpp
  bool held = false;  // constants of 64-byte vectors stay in registers: for what stands in inner loops
};

// The tables, one per source file.
std::vector<MathPiece> arithmetic_pieces(const PieceContext& context);
std::vector<MathPiece> rounding_pieces(const PieceContext& context);
std::vector<MathPiece> math_f32_pieces(const PieceContext& context);
std::vector<MathPiece> math_exp_log_pieces();
std::vector<MathPiece> math_trigonometry_pieces();
std::vector<MathPiece> math_special_pieces();

// Each gives the text of a name it knows, or nothing.
std::optional<std::string> type_piece(std::string_view name, const PieceContext& context);
std::optional<std::string> memory_piece(std::string_view name, const PieceContext& context);
std::optional<std::string> cast_piece(std::string_view name, const PieceContext& context);
std::optional<std::string> public_piece(std::string_view name, const PieceContext& context);
std::optional<std::string> abi_piece(std::string_view name, const PieceContext& context);
std::optional<std::string> matrix_piece(std::string_view name, const PieceContext& context);
std::vector<std::string> public_function_names();

}  // namespace kiln::codegen
