#include "codegen/c_family/prelude.h"

#include <unordered_set>

#include "base/error.h"
#include "codegen/c_family/prelude_pieces.h"

namespace kiln::codegen {
namespace {

// Always there. `bool8` and the narrow float formats are storage only.
constexpr const char* base_text = R"(#define K_FN static inline __attribute__((always_inline, unused))
#define K_FN_MEMBER inline __attribute__((always_inline))
typedef float f32;
typedef double f64;
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned u32;
typedef long i64;
typedef unsigned long u64;
typedef u16 f16;
typedef u16 bf16;
typedef u8 f8e4m3fn;
typedef u8 f8e5m2;
typedef u8 f8e4m3fnuz;
typedef u8 f8e5m2fnuz;
typedef u8 f8e8m0fnu;
typedef u8 bool8;
)";

bool identifier_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool identifier_part(char c) { return identifier_start(c) || (c >= '0' && c <= '9'); }

// A remark names what it likes, a layer that is called k_proj too.
template <class F>
void for_each_identifier(std::string_view text, F f) {
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (!identifier_part(text[at])) {
      at++;
      continue;
    }
    size_t end = at;
    while (end < text.size() && identifier_part(text[end])) end++;
    if (identifier_start(text[at])) f(text.substr(at, end - at));
    at = end;
  }
}

// "$POLY{z; c0, c1, c2}" becomes Horner's scheme: fma_$e(fma_$e($S(c2), z, $S(c1)), z, $S(c0)).
std::string expand_polynomials(std::string_view text) {
  constexpr std::string_view mark = "$POLY{";
  std::string out;
  for (size_t at; (at = text.find(mark)) != std::string_view::npos;) {
    size_t semicolon = text.find(';', at), end = text.find('}', at);
    std::string_view variable = text.substr(at + mark.size(), semicolon - at - mark.size());
    std::vector<std::string> coefficients = split(text.substr(semicolon + 1, end - semicolon - 1), ',');
    std::string sum = str("$S(", trim(coefficients.back()), ")");
    for (size_t i = coefficients.size() - 1; i-- > 0;)
      sum = str("fma_$e(", sum, ", ", variable, ", $S(", trim(coefficients[i]), "))");
    out += text.substr(0, at);
    out += sum;
    text.remove_prefix(end + 1);
  }
  out += text;
  return out;
}

// Zeros are made by the instructions that need them.
std::string hold_constants(const std::string& text) {
  return replace_all(replace_all(text, "$S(", "held_$F("), "held_$F(0.0f)", "$S(0.0f)");
}

struct Piece {
  std::string key;  // names that come from one piece share its key
  std::string text;
};

class Assembler {
 public:
  explicit Assembler(PieceContext context) : context_(std::move(context)) {
    for (auto table : {arithmetic_pieces(context_), rounding_pieces(context_), math_f32_pieces(context_),
                       math_exp_log_pieces(), math_trigonometry_pieces(), math_special_pieces()}) {
      math_.insert(math_.end(), table.begin(), table.end());
    }
  }

  // Emits the piece of a name after all that it needs. False: no such name.
  bool need(std::string_view name) {
    if (seen_.contains(name)) return true;
    std::optional<Piece> piece = find(name);
    if (!piece) return false;
    seen_.emplace(name);
    if (!keys_.insert(piece->key).second) return true;
    for_each_identifier(piece->text, [&](std::string_view used) { need(used); });
    out_ += piece->text;
    return true;
  }
  const std::string& text() const { return out_; }

 private:
  std::optional<Piece> find(std::string_view name) const {
    using Finder = std::optional<std::string> (*)(std::string_view, const PieceContext&);
    for (Finder finder : {Finder{public_piece}, Finder{memory_piece}, Finder{cast_piece}, Finder{abi_piece},
                          Finder{type_piece}, Finder{matrix_piece}}) {
      if (auto text = finder(name, context_)) return Piece{std::string(name), *text};
    }
    size_t cut = name.rfind('_');
    if (cut == std::string_view::npos || cut == 0) return std::nullopt;
    auto type = parse_vector_type(name.substr(cut + 1));
    if (!type) return std::nullopt;
    return find_math(name.substr(0, cut), *type->element);
  }

  static bool applies(char type, const Element& e) {
    switch (type) {
      case 's':
        return e.floating && e.bytes == 4;
      case 'd':
        return e.floating && e.bytes == 8;
      case 'f':
        return e.floating;
      case 'i':
        return !e.floating && e.is_signed;
      case 'l':
        return !e.floating && e.is_signed && e.bytes == 8;
      case 'u':
        return !e.floating && !e.is_signed;
      case 'n':
        return !e.floating;
      default:
        return true;
    }
  }

  std::optional<Piece> find_math(std::string_view base, const Element& e) const {
    for (const MathPiece& piece : math_) {
      if (!applies(piece.type, e)) continue;
      bool named = base == piece.name;
      for (const std::string& other : split(piece.also, ' ')) named = named || base == other;
      if (named) return Piece{str(piece.name, '_', e.name), instances(piece, e)};
    }
    return std::nullopt;
  }

  std::string instances(const MathPiece& piece, const Element& e) const {
    std::string out = instance(piece, e, 1);
    int natural = context_.natural_lanes(e);
    if (context_.lanes == 1 || (piece.scalar_only && piece.arity == 0)) return out;
    if (piece.scalar_only) {
      out += lane_by_lane(piece, e, natural);
    } else {
      out += instance(piece, e, natural);
    }
    for (int n = natural * 2; piece.arity > 0 && n <= context_.lanes; n *= 2) out += passed_to_halves(piece, e, n);
    return out;
  }

  std::string instance(const MathPiece& piece, const Element& e, int n) const {
    const Element &f64 = *find_element("f64"), &i64 = *find_element("i64");
    std::string type = type_name(e, n), wide = type_name(f64, n);
    Replacements tokens = {{"F", type},
                           {"I", type_name(signed_of(e), n)},
                           {"U", type_name(unsigned_of(e), n)},
                           {"M", n == 1 ? "bool" : type_name(signed_of(e), n)},
                           {"S", "splat_" + type},
                           {"SI", "splat_" + type_name(signed_of(e), n)},
                           {"SU", "splat_" + type_name(unsigned_of(e), n)},
                           {"ANY", str("0 != bits_", type_name(signed_of(e), n))},
                           {"D", wide},
                           {"DI", type_name(i64, n)},
                           {"N", std::to_string(n)},
                           {"at", n == 1 ? "" : "[i]"},
                           {"e", e.name},
                           {"BITS", std::to_string(e.bytes * 8)},
                           {"P", e.bytes == 4 ? "ps" : "pd"},
                           {"W", n * e.bytes == 32 ? "256" : ""},
                           {"V", n * e.bytes == 32 ? "256" : "128"},
                           {"K", n == 16 ? "(unsigned short)-1" : "(unsigned char)-1"},
                           {"C", e.bytes == 4 ? "f" : ""}};
    if (piece.text != nullptr) {
      std::string text = expand_polynomials(n > 1 && piece.vector != nullptr ? piece.vector : piece.text);
      if (piece.held && context_.avx512() && n * e.bytes == 64) text = hold_constants(text);
      return fill(text, tokens);
    }
    std::string parameters, arguments;
    for (int i = 0; i < piece.arity; i++) {
      std::string separator = i > 0 ? ", " : "", argument(1, static_cast<char>('x' + i));
      parameters += str(separator, type, " ", argument);
      arguments += str(separator, "cvt_", type, "_", wide, "(", argument, ")");
    }
    return str("K_FN ", type, " ", piece.name, "_", e.name, "(", parameters, ") { return cvt_", wide, "_", type, "(",
               piece.name, "_f64(", arguments, ")); }\n");
  }

  static std::string lane_by_lane(const MathPiece& piece, const Element& e, int n) {
    std::string type = type_name(e, n), parameters, arguments;
    for (int i = 0; i < piece.arity; i++) {
      std::string separator = i > 0 ? ", " : "", argument(1, static_cast<char>('x' + i));
      parameters += str(separator, type, " ", argument);
      arguments += str(separator, argument, "[i]");
    }
    return str("K_FN ", type, " ", piece.name, "_", e.name, "(", parameters, ") { ", type,
               " r = x; for (int i = 0; i < ", n, "; i++) r[i] = ", piece.name, "_", e.name, "(", arguments,
               "); return r; }\n");
  }

  static std::string passed_to_halves(const MathPiece& piece, const Element& e, int n) {
    std::string type = type_name(e, n), name = str(piece.name, '_', e.name), parameters, a, b;
    for (int i = 0; i < piece.arity; i++) {
      std::string separator = i > 0 ? ", " : "", argument(1, static_cast<char>('x' + i));
      parameters += str(separator, type, " ", argument);
      a += str(separator, argument, ".a");
      b += str(separator, argument, ".b");
    }
    return str("K_FN auto ", name, "(", parameters, ") { return pair<decltype(", name, "(", a, "))>{", name, "(", a,
               "), ", name, "(", b, ")}; }\n");
  }

  PieceContext context_;
  std::vector<MathPiece> math_;
  std::set<std::string, std::less<>> seen_;
  std::set<std::string> keys_;
  std::string out_;
};

}  // namespace

void collect_prelude_names(std::string_view body, PreludeRequest& request) {
  std::unordered_set<std::string_view> met;  // a text has few names, many times each
  for_each_identifier(body, [&](std::string_view name) {
    if (!met.insert(name).second) return;
    bool function = starts_with(name, "k_");
    bool vector = name == "vmask" || (name[0] == 'v' && find_element(name.substr(1)) != nullptr);
    if (function || vector || starts_with(name, "kiln_")) request.names.emplace(name);
    // A type is used if it is named: alone, with the v of a vector, or in a function's name.
    for (const std::string& part : split(name, '_')) {
      const Element* e = find_element(part);
      if (e == nullptr && part.size() > 1 && part[0] == 'v') e = find_element(std::string_view(part).substr(1));
      if (e != nullptr) request.types.insert(e->dtype);
      if (function && narrow_float(part) != nullptr) request.types.insert(DType::f32);
    }
    if (name == "float") request.types.insert(DType::f32);
    if (name == "double") request.types.insert(DType::f64);
    if (narrow_float(name) != nullptr) request.types.insert(DType::f32);
  });
}

std::string prelude(const PreludeRequest& request) {
  KILN_CHECK(request.lanes == 1 || request.lanes == 4 || request.lanes == 8 || request.lanes == 16,
             "a kernel has 1, 4, 8 or 16 lanes");
  KILN_CHECK(request.mask_bits == 32 || request.mask_bits == 64, "masks are 32 or 64 bits wide");
  PieceContext context{request.lanes, request.level, request.mask_bits, request.for_gpu, {}};
  for (const Element& e : elements()) {
    if (request.types.contains(e.dtype)) context.types.push_back(&e);
  }
  Assembler assembler(std::move(context));
  for (const std::string& name : request.names) {
    bool found = assembler.need(name);
    KILN_CHECK(found || !starts_with(name, "k_"), str("the prelude has no ", name));
  }
  return base_text + assembler.text();
}

std::vector<std::string> prelude_function_names() {
  std::vector<std::string> names = public_function_names();
  for (const Element& e : elements()) {
    for (const char* prefix : {"k_splat_", "k_cast_", "k_bitcast_"}) names.push_back(str(prefix, e.name));
  }
  for (const char* name :
       {"k_splat_bool", "k_cast_bool", "k_cast_f16", "k_cast_bf16", "k_raise", "k_in_memory", "k_free_registers"})
    names.emplace_back(name);
  return names;
}

std::vector<std::string> prelude_flags(CpuLevel level, int lanes) {
  std::vector<std::string> flags = {"-std=c++20",          "-O2",
                                    "-ffp-contract=off",   "-fno-math-errno",
                                    "-fno-trapping-math",  "-fwrapv",
                                    "-ffreestanding",      "-fno-exceptions",
                                    "-fno-rtti",           "-fno-stack-protector",
                                    "-fvisibility=hidden", "-w"};
  if (level == CpuLevel::x86_64_v2) flags.emplace_back("-march=x86-64-v2");
  if (level == CpuLevel::x86_64_v3) flags.emplace_back("-march=x86-64-v3");
  if (level >= CpuLevel::x86_64_v4) {  // what its extensions have, the prelude spells itself
    flags.emplace_back("-march=x86-64-v4");
    flags.emplace_back(lanes >= 16 ? "-mprefer-vector-width=512" : "-mprefer-vector-width=256");
  }
  // An eighth of the C++ compiler's time. With 32 registers and no instructions that the assembler alone knows, kernels
  // are the same without them.
  if (level == CpuLevel::x86_64_v4) flags.insert(flags.end(), {"-fno-gcse", "-fno-tree-vrp"});
  return flags;
}

}  // namespace kiln::codegen
