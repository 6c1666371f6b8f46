// Types of the prelude and what moves values between them without arithmetic: splat, halves, conversion, selection,
// masks, lanes.
#include <algorithm>

#include "base/error.h"
#include "codegen/c_family/prelude_pieces.h"

namespace kiln::codegen {

const std::vector<Element>& elements() {
  static const std::vector<Element> table = {
      {"f32", "float", 4, true, true, DType::f32},      {"f64", "double", 8, true, true, DType::f64},
      {"i8", "signed char", 1, false, true, DType::i8}, {"u8", "unsigned char", 1, false, false, DType::u8},
      {"i16", "short", 2, false, true, DType::i16},     {"u16", "unsigned short", 2, false, false, DType::u16},
      {"i32", "int", 4, false, true, DType::i32},       {"u32", "unsigned", 4, false, false, DType::u32},
      {"i64", "long", 8, false, true, DType::i64},      {"u64", "unsigned long", 8, false, false, DType::u64},
  };
  return table;
}

const Element* find_element(std::string_view name) {
  for (const Element& e : elements()) {
    if (name == e.name) return &e;
  }
  return nullptr;
}

const Element* narrow_float(std::string_view name) {
  if (name == "f16" || name == "bf16") return find_element("u16");
  if (starts_with(name, "f8") && f8_conversion(name, true, 1)) return find_element("u8");
  return nullptr;
}

static const Element& integer_of(const Element& e, char sign) {
  const Element* found = find_element(str(sign, e.bytes * 8));
  KILN_CHECK(found != nullptr, "every width has its integers");
  return *found;
}
const Element& signed_of(const Element& e) { return integer_of(e, 'i'); }
const Element& unsigned_of(const Element& e) { return integer_of(e, 'u'); }

std::string VectorType::name() const {
  return lanes == 1 ? std::string(element->name) : str(element->name, 'x', lanes);
}

std::optional<VectorType> parse_vector_type(std::string_view name) {
  if (const Element* e = find_element(name)) return VectorType{e, 1};
  size_t x = name.find('x');
  if (x == std::string_view::npos || x + 1 == name.size() || name.size() > x + 3) return std::nullopt;
  const Element* e = find_element(name.substr(0, x));
  int lanes = 0;
  for (char c : name.substr(x + 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    lanes = lanes * 10 + (c - '0');
  }
  if (e == nullptr || lanes < 2 || (lanes & (lanes - 1)) != 0) return std::nullopt;
  return VectorType{e, lanes};
}

int PieceContext::natural_lanes(const Element& e) const { return std::min(lanes, register_bytes() / e.bytes); }
const Element& PieceContext::mask_element() const { return *find_element(mask_bits == 64 ? "i64" : "i32"); }

std::string fill(std::string_view text, const Replacements& replacements) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '$') {
      out += text[at++];
      continue;
    }
    const std::pair<std::string, std::string>* best = nullptr;
    for (const auto& r : replacements) {
      if (text.substr(at + 1, r.first.size()) != r.first) continue;
      if (best == nullptr || r.first.size() > best->first.size()) best = &r;
    }
    KILN_CHECK(best != nullptr, str("unknown token in a prelude piece: ", text.substr(at, 12)));
    out += best->second;
    at += 1 + best->first.size();
  }
  return out;
}

std::string builtin_type(const Element& e, int lanes) {
  if (e.bytes == 1 || e.bytes == 8) return str("builtin", e.bytes * 8, "x", lanes);
  return type_name(signed_of(e), lanes);
}

namespace {

std::string lane_list(int from, int count, std::string_view around = "$") {
  std::string out;
  for (int i = 0; i < count; i++) {
    if (i > 0) out += ", ";
    out += replace_all(std::string(around), "$", std::to_string(from + i));
  }
  return out;
}

// clang++ compares i64 (long) to lanes of long long, another type: natural_mask takes that back.
constexpr const char* pair_text = R"(template <class V> struct pair { V a, b; };
template <class V> K_FN V natural_mask(V m) { return m; }
K_FN $I natural_mask($B m) { return ($I)m; }
#define K_PAIR(op) \
  template <class V> K_FN pair<V> operator op(pair<V> x, pair<V> y) { return {x.a op y.a, x.b op y.b}; }
K_PAIR(+) K_PAIR(-) K_PAIR(*) K_PAIR(/) K_PAIR(&) K_PAIR(|) K_PAIR(^) K_PAIR(<<) K_PAIR(>>)
#undef K_PAIR
#define K_PAIR(op) \
  template <class V> K_FN auto operator op(pair<V> x, pair<V> y) { \
    return pair<decltype(natural_mask(x.a op y.a))>{natural_mask(x.a op y.a), natural_mask(x.b op y.b)}; \
  }
K_PAIR(==) K_PAIR(!=) K_PAIR(<) K_PAIR(<=) K_PAIR(>) K_PAIR(>=)
#undef K_PAIR
template <class V> K_FN pair<V> operator-(pair<V> x) { return {-x.a, -x.b}; }
template <class V> K_FN pair<V> operator~(pair<V> x) { return {~x.a, ~x.b}; }
)";

// Vectors of plain char and of long long, which the compilers' builtins take where Kiln has i8 and i64.
std::optional<std::string> builtin_definition(std::string_view name) {
  for (const char* element : {"builtin8x", "builtin64x"}) {
    if (!starts_with(name, element)) continue;
    bool narrow = element[7] == '8';
    auto like = parse_vector_type(str(narrow ? "i8x" : "i64x", name.substr(std::string_view(element).size())));
    if (like)
      return str("typedef ", narrow ? "char " : "long long ", name, " __attribute__((vector_size(",
                 like->lanes * like->element->bytes, ")));\n");
  }
  return std::nullopt;
}

std::string type_definition(const VectorType& t, const PieceContext& context) {
  const Element& e = *t.element;
  if (context.is_pair(e, t.lanes)) return str("typedef pair<", type_name(e, t.lanes / 2), "> ", t.name(), ";\n");
  return str("typedef ", e.name, " ", t.name(), " __attribute__((vector_size(", t.lanes * e.bytes, ")));\n");
}

std::string splat_text(const VectorType& t, const PieceContext& context) {
  std::string head = str("K_FN ", t.name(), " splat_", t.name(), "(", t.element->name, " s) { return ");
  if (t.lanes == 1) return head + "s; }\n";
  if (context.is_pair(*t.element, t.lanes)) {
    std::string half = type_name(*t.element, t.lanes / 2);
    return str(head, "{splat_", half, "(s), splat_", half, "(s)}; }\n");
  }
  return str(head, t.name(), "{", lane_list(0, t.lanes, "s"), "}; }\n");
}

std::string half_text(const VectorType& t, bool high, const PieceContext& context) {
  std::string head = str("K_FN ", type_name(*t.element, t.lanes / 2), high ? " hi_" : " lo_", t.name(), "(", t.name(),
                         " x) { return ");
  if (context.is_pair(*t.element, t.lanes)) return str(head, high ? "x.b; }\n" : "x.a; }\n");
  return str(head, "__builtin_shufflevector(x, x, ", lane_list(high ? t.lanes / 2 : 0, t.lanes / 2), "); }\n");
}

// A constant that stays in a register: g++ 12 reads constants from memory at each use, and processors that read one
// 64-byte vector a cycle then wait for the coefficients of a polynomial more than for its products.
std::string held_text(const VectorType& t, const PieceContext&) {
  return str("K_FN ", t.name(), " held_", t.name(), "(", t.element->name, " s) {\n  ", t.name(), " v = splat_",
             t.name(), "(s);\n  asm(\"\" : \"+v\"(v));\n  return v;\n}\n");
}

std::string cat_text(const VectorType& t, const PieceContext& context) {
  std::string half = type_name(*t.element, t.lanes / 2);
  std::string head = str("K_FN ", t.name(), " cat_", t.name(), "(", half, " a, ", half, " b) { return ");
  if (context.is_pair(*t.element, t.lanes)) return head + "{a, b}; }\n";
  return str(head, "__builtin_shufflevector(a, b, ", lane_list(0, t.lanes), "); }\n");
}

// "bd": from bytes to 32 bits, as the names of the pmov instructions have it.
std::string move_letters(const Element& from, const Element& to) {
  auto letter = [](int bytes) { return bytes == 1 ? 'b' : bytes == 2 ? 'w' : bytes == 4 ? 'd' : 'q'; };
  return str(letter(from.bytes), letter(to.bytes));
}

// g++ 12 converts between integers whose widths differ by more than a factor of two lane by lane, and f32 to f64 in two
// halves; the processor has one instruction for each. Empty: nothing better than __builtin_convertvector is known.
std::string better_conversion(const VectorType& from, const VectorType& to, const PieceContext& context) {
  const Element &a = *from.element, &b = *to.element;
  int n = from.lanes, source_lanes = std::max(n, 16 / a.bytes), result_lanes = std::max(n, 16 / b.bytes);
  if (context.avx512() && a.floating && b.floating && a.bytes == 4 && n == 8)
    return "__builtin_ia32_cvtps2pd512_mask(x, f64x8{}, (unsigned char)-1, 4)";
  if (!context.x86() || a.floating || b.floating || a.bytes == b.bytes) return "";
  if (a.bytes < b.bytes) {
    int bits = n * b.bytes * 8;
    if (bits < 128) return "";
    std::string x = str("(", builtin_type(a, source_lanes), ")");
    x += source_lanes == n
             ? "x"
             : str("__builtin_shufflevector(x, x, ", lane_list(0, n), lane_list(0, source_lanes - n, ", -1"), ")");
    x = replace_all(x, ", , -1", ", -1");
    std::string name = str("__builtin_ia32_pmov", a.is_signed ? "sx" : "zx", move_letters(a, b), bits);
    if (bits == 512)
      return str("(", to.name(), ")", name, "_mask(", x, ", ", builtin_type(b, n), "{}, ",
                 n == 16 ? "(unsigned short)-1)" : "(unsigned char)-1)");
    return str("(", to.name(), ")", name, "(", x, ")");
  }
  int bits = n * a.bytes * 8;
  if (context.avx512() && bits >= 128) {
    std::string move =
        str("__builtin_ia32_pmov", move_letters(a, b), bits, "_mask((", builtin_type(a, n), ")x, ",
            builtin_type(b, result_lanes), "{}, ", n == 16 ? "(unsigned short)-1)" : "(unsigned char)-1)");
    if (result_lanes == n) return str("(", to.name(), ")", move);
    return str("(", to.name(), ")__builtin_shufflevector(", move, ", ", builtin_type(b, result_lanes), "{}, ",
               lane_list(0, n), ")");
  }
  if (a.bytes / b.bytes == 2) return "";
  std::string middle = type_name(*find_element(str("i", a.bytes * 4)), n);
  return str("cvt_", middle, "_", to.name(), "(cvt_", from.name(), "_", middle, "(x))");
}

std::string convert_text(const VectorType& from, const VectorType& to, const PieceContext& context) {
  std::string name = str("cvt_", from.name(), "_", to.name());
  std::string head = str("K_FN ", to.name(), " ", name, "(", from.name(), " x) { return ");
  if (from.lanes == 1) return str(head, "(", to.name(), ")x; }\n");
  if (from.element == to.element) return head + "x; }\n";
  if (!context.is_pair(*from.element, from.lanes) && !context.is_pair(*to.element, to.lanes)) {
    std::string plain = str(head, "__builtin_convertvector(x, ", to.name(), "); }\n"),
                better = better_conversion(from, to, context);
    return better.empty() ? plain : str("#ifdef __clang__\n", plain, "#else\n", head, better, "; }\n#endif\n");
  }
  std::string half = str("cvt_", type_name(*from.element, from.lanes / 2), "_", type_name(*to.element, to.lanes / 2));
  return str(head, "cat_", to.name(), "(", half, "(lo_", from.name(), "(x)), ", half, "(hi_", from.name(),
             "(x))); }\n");
}

std::string select_text(const VectorType& t, const PieceContext& context) {
  std::string mask = t.lanes == 1 ? "bool" : type_name(signed_of(*t.element), t.lanes);
  std::string head =
      str("K_FN ", t.name(), " sel_", t.name(), "(", mask, " m, ", t.name(), " x, ", t.name(), " y) { return ");
  if (!context.is_pair(*t.element, t.lanes)) return head + "m ? x : y; }\n";
  std::string half = str("sel_", type_name(*t.element, t.lanes / 2));
  return str(head, "{", half, "(m.a, x.a, y.a), ", half, "(m.b, x.b, y.b)}; }\n");
}

std::string iota_text(const VectorType& t, const PieceContext& context) {
  std::string head = str("K_FN ", t.name(), " iota_", t.name(), "() { return ");
  if (t.lanes == 1) return head + "0; }\n";
  if (!context.is_pair(*t.element, t.lanes)) return str(head, t.name(), "{", lane_list(0, t.lanes), "}; }\n");
  std::string half = type_name(*t.element, t.lanes / 2);
  return str(head, "{iota_", half, "(), iota_", half, "() + splat_", half, "(", t.lanes / 2, ")}; }\n");
}

std::string lane_text(const VectorType& t, const PieceContext& context) {
  std::string head = str("K_FN ", t.element->name, " lane_", t.name(), "(", t.name(), " x, int i) { return ");
  if (t.lanes == 1) return head + "x; }\n";
  if (!context.is_pair(*t.element, t.lanes)) return head + "x[i]; }\n";
  std::string half = str("lane_", type_name(*t.element, t.lanes / 2));
  int h = t.lanes / 2;
  return str(head, "i < ", h, " ? ", half, "(x.a, i) : ", half, "(x.b, i - ", h, "); }\n");
}

// The bits of a natural mask, lane 0 lowest.
std::string mask_bits_text(const VectorType& t, const PieceContext& context) {
  const Element& e = *t.element;
  std::string head = str("K_FN unsigned bits_", t.name(), "(", t.lanes == 1 ? "bool" : t.name(), " m) { ");
  if (t.lanes == 1) return head + "return m; }\n";
  if (context.is_pair(e, t.lanes)) {
    std::string half = str("bits_", type_name(e, t.lanes / 2));
    return str(head, "return ", half, "(m.a) | ", half, "(m.b) << ", t.lanes / 2, "; }\n");
  }
  int bits = t.lanes * e.bytes * 8;
  if (context.x86() && bits >= 128 && e.bytes >= 4) {
    bool wide = e.bytes == 8;
    if (context.avx512()) {
      // The builtins give signed chars for 8 lanes and fewer.
      return str(head, "return ", t.lanes < 16 ? "(unsigned char)" : "(unsigned short)", "__builtin_ia32_cvt",
                 wide ? "q" : "d", "2mask", bits, "((", builtin_type(e, t.lanes), ")m)",
                 t.lanes < 8 ? str(" & ", (1 << t.lanes) - 1) : "", "; }\n");
    }
    std::string as_float = type_name(*find_element(wide ? "f64" : "f32"), t.lanes);
    return str(head, "return (unsigned)__builtin_ia32_movmsk", wide ? "pd" : "ps", bits == 256 ? "256" : "", "((",
               as_float, ")m); }\n");
  }
  return str(head, "unsigned r = 0; for (int i = 0; i < ", t.lanes,
             "; i++) r |= (unsigned)(m[i] != 0) << i; return r; }\n");
}

std::string vmask_text(const PieceContext& context) {
  if (context.lanes == 1) return "typedef bool vmask;\n";
  return fill(R"(struct vmask { $T m; };
K_FN vmask operator&(vmask x, vmask y) { return {x.m & y.m}; }
K_FN vmask operator|(vmask x, vmask y) { return {x.m | y.m}; }
K_FN vmask operator^(vmask x, vmask y) { return {x.m ^ y.m}; }
K_FN vmask operator!(vmask x) { return {~x.m}; }
K_FN vmask operator!=(vmask x, vmask y) { return {x.m ^ y.m}; }
K_FN vmask operator==(vmask x, vmask y) { return {~(x.m ^ y.m)}; }
)",
              {{"T", type_name(context.mask_element(), context.lanes)}});
}

// Natural masks of all lanes to and from vmask: to_vmask_i64x8, from_vmask_i64x8.
std::string vmask_conversion(const VectorType& t, bool to, const PieceContext& context) {
  if (t.lanes == 1) return str("K_FN bool ", to ? "to" : "from", "_vmask_", t.name(), "(bool m) { return m; }\n");
  std::string own = type_name(context.mask_element(), context.lanes);
  if (to)
    return str("K_FN vmask to_vmask_", t.name(), "(", t.name(), " m) { return {cvt_", t.name(), "_", own, "(m)}; }\n");
  return str("K_FN ", t.name(), " from_vmask_", t.name(), "(vmask m) { return cvt_", own, "_", t.name(), "(m.m); }\n");
}

using Maker = std::string (*)(const VectorType&, const PieceContext&);
struct Family {
  const char* prefix;
  Maker make;
};
constexpr Family families[] = {
    {"splat_", splat_text},
    {"held_", held_text},
    {"lo_", [](const VectorType& t, const PieceContext& c) { return half_text(t, false, c); }},
    {"hi_", [](const VectorType& t, const PieceContext& c) { return half_text(t, true, c); }},
    {"cat_", cat_text},
    {"sel_", select_text},
    {"iota_", iota_text},
    {"lane_", lane_text},
    {"bits_", mask_bits_text},
    {"to_vmask_", [](const VectorType& t, const PieceContext& c) { return vmask_conversion(t, true, c); }},
    {"from_vmask_", [](const VectorType& t, const PieceContext& c) { return vmask_conversion(t, false, c); }},
};

}  // namespace

std::optional<std::string> type_piece(std::string_view name, const PieceContext& context) {
  if (name == "pair") {
    int bytes = context.register_bytes();
    return fill(pair_text, {{"I", type_name(*find_element("i64"), bytes / 8)}, {"B", str("builtin64x", bytes / 8)}});
  }
  if (name == "vmask") return vmask_text(context);
  if (name[0] == 'v') {
    const Element* e = find_element(name.substr(1));
    if (e != nullptr) return str("typedef ", type_name(*e, context.lanes), " ", name, ";\n");
  }
  if (auto t = parse_vector_type(name); t && t->lanes > 1) return type_definition(*t, context);
  if (auto text = builtin_definition(name)) return text;
  for (const Family& family : families) {
    if (!starts_with(name, family.prefix)) continue;
    auto t = parse_vector_type(name.substr(std::string_view(family.prefix).size()));
    if (t) return family.make(*t, context);
  }
  if (starts_with(name, "cvt_")) {
    size_t cut = name.find('_', 4);
    if (cut == std::string_view::npos) return std::nullopt;
    auto from = parse_vector_type(name.substr(4, cut - 4)), to = parse_vector_type(name.substr(cut + 1));
    if (from && to && from->lanes == to->lanes) return convert_text(*from, *to, context);
  }
  return std::nullopt;
}

}  // namespace kiln::codegen
