// Loads and stores of the prelude. "Raw" functions move elements of one integer or float type under a bit mask k (lane
// 0 lowest); the public ones add the conversion of storage types that are not computed in (bool, f16, bf16, f8).
#include <algorithm>
#include <functional>

#include "base/error.h"
#include "codegen/c_family/prelude_pieces.h"

namespace kiln::codegen {
namespace {

std::string repeat_lanes(int count, std::string_view pattern) {
  std::string out;
  for (int i = 0; i < count; i++) {
    if (i > 0) out += ", ";
    out += replace_all(std::string(pattern), "#", std::to_string(i));
  }
  return out;
}

std::string load_text(const VectorType& t, const PieceContext& context) {
  const Element& e = *t.element;
  std::string head = str("K_FN ", t.name(), " ld_", t.name(), "(const ", e.name, "* p) { return ");
  if (t.lanes == 1) return head + "*(const " + e.name + "_u*)p; }\n";
  if (!context.is_pair(e, t.lanes)) return str(head, "*(const ", t.name(), "_u*)p; }\n");
  std::string half = str("ld_", type_name(e, t.lanes / 2));
  return str(head, "{", half, "(p), ", half, "(p + ", t.lanes / 2, ")}; }\n");
}

std::string store_text(const VectorType& t, const PieceContext& context) {
  const Element& e = *t.element;
  std::string head = str("K_FN void st_", t.name(), "(", e.name, "* p, ", t.name(), " v) { ");
  if (!context.is_pair(e, t.lanes)) return str(head, "*(", t.name(), "_u*)p = v; }\n");
  std::string half = str("st_", type_name(e, t.lanes / 2));
  return str(head, half, "(p, v.a); ", half, "(p + ", t.lanes / 2, ", v.b); }\n");
}

// "si", "di" … of the masked AVX-512 moves.
const char* move_suffix(int bytes) { return bytes == 1 ? "qi" : bytes == 2 ? "hi" : bytes == 4 ? "si" : "di"; }

// AVX-512 moves 16, 32 or 64 bytes under a mask; a shorter vector rides in the low lanes of a 16-byte one, whose other
// lanes are masked off and so not accessed.
std::string masked_move_avx512(const VectorType& t, bool load) {
  const Element& e = *t.element;
  int bytes = std::max(t.lanes * e.bytes, 16), lanes = bytes / e.bytes;
  std::string wide = builtin_type(e, lanes);
  std::string mask = lanes <= 8    ? "unsigned char"
                     : lanes == 16 ? "unsigned short"
                     : lanes == 32 ? "unsigned"
                                   : "unsigned long long";
  std::string out;
  std::string builtin = str("__builtin_ia32_", load ? "loaddqu" : "storedqu", move_suffix(e.bytes), bytes * 8, "_mask");
  if (load) {
    out += str("K_FN ", t.name(), " ldk_", t.name(), "(const ", e.name, "* p, unsigned k) {\n  ", wide,
               " w = ", builtin, "(k_address{(void*)p}, ", wide, "{}, (", mask, ")k);\n  return ");
    out += lanes == t.lanes
               ? str("(", t.name(), ")w;\n}\n")
               : str("(", t.name(), ")__builtin_shufflevector(w, w, ", repeat_lanes(t.lanes, "#"), ");\n}\n");
    return out;
  }
  out += str("K_FN void stk_", t.name(), "(", e.name, "* p, ", t.name(), " v, unsigned k) {\n  ");
  std::string widened = lanes == t.lanes ? "v" : str("__builtin_shufflevector(v, v, ", repeat_lanes(t.lanes, "#"));
  for (int i = t.lanes; i < lanes; i++) widened += ", -1";
  if (lanes != t.lanes) widened += ")";
  return out + str(builtin, "(k_address{(void*)p}, (", wide, ")", widened, ", (", mask, ")(k",
                   lanes == t.lanes ? "" : str(" & ", (1 << t.lanes) - 1), "));\n}\n");
}

std::string masked_move_avx2(const VectorType& t, bool load) {
  const Element& e = *t.element;
  std::string i = type_name(signed_of(e), t.lanes), b = builtin_type(e, t.lanes);
  std::string select = str("  const ", i, " bit = {", repeat_lanes(t.lanes, "1 << #"), "}, m = (splat_", i, "((",
                           signed_of(e).name, ")k) & bit) == bit;\n");
  std::string suffix = str(e.bytes == 8 ? "q" : "d", t.lanes * e.bytes == 32 ? "256" : "");
  if (load) {
    return str("K_FN ", t.name(), " ldk_", t.name(), "(const ", e.name, "* p, unsigned k) {\n", select, "  return (",
               t.name(), ")__builtin_ia32_maskload", suffix, "((const ", b, "*)p, (", b, ")m);\n}\n");
  }
  return str("K_FN void stk_", t.name(), "(", e.name, "* p, ", t.name(), " v, unsigned k) {\n", select,
             "  __builtin_ia32_maskstore", suffix, "((", b, "*)p, (", b, ")m, (", b, ")v);\n}\n");
}

std::string masked_move(const VectorType& t, bool load, const PieceContext& context) {
  const Element& e = *t.element;
  if (context.is_pair(e, t.lanes)) {
    int h = t.lanes / 2;
    std::string half = str(load ? "ldk_" : "stk_", type_name(e, h));
    if (load) {
      return str("K_FN ", t.name(), " ldk_", t.name(), "(const ", e.name, "* p, unsigned k) { return {", half,
                 "(p, k), ", half, "(p + ", h, ", k >> ", h, ")}; }\n");
    }
    return str("K_FN void stk_", t.name(), "(", e.name, "* p, ", t.name(), " v, unsigned k) { ", half, "(p, v.a, k); ",
               half, "(p + ", h, ", v.b, k >> ", h, "); }\n");
  }
  if (context.avx512()) return masked_move_avx512(t, load);
  if (context.level == CpuLevel::x86_64_v3 && e.bytes >= 4 && t.lanes * e.bytes >= 16) return masked_move_avx2(t, load);
  if (load) {
    return str("K_FN ", t.name(), " ldk_", t.name(), "(const ", e.name, "* p, unsigned k) {\n  ", t.name(),
               " r = {};\n  for (int i = 0; i < ", t.lanes, "; i++) if (k >> i & 1) r[i] = p[i];\n  return r;\n}\n");
  }
  return str("K_FN void stk_", t.name(), "(", e.name, "* p, ", t.name(), " v, unsigned k) {\n  for (int i = 0; i < ",
             t.lanes, "; i++) if (k >> i & 1) p[i] = v[i];\n}\n");
}

// Every second element (a pool's columns): two vectors that reach from the first to the last of them and no further,
// and a shuffle. Under k each lane's bit stands for its own element alone, so that the one in between is not touched.
std::string every_second(const VectorType& t, bool masked) {
  const std::string v = t.name();
  const int last = t.lanes - 1;
  std::string order, body, spread;
  for (int i = 0; i < t.lanes; i++) order += str(", ", 2 * i < t.lanes ? 2 * i : 2 * i - last + t.lanes);
  if (!masked) {
    body = str("const ", v, " a = ld_", v, "(p), b = ld_", v, "(p + ", last, ");");
  } else {
    spread =
        "u32 e = k; e = (e | e << 8) & 0xff00ffu; e = (e | e << 4) & 0xf0f0f0fu; e = (e | e << 2) & 0x33333333u; "
        "e = (e | e << 1) & 0x55555555u; ";
    body = str("const ", v, " a = ldk_", v, "(p, e & ", (1u << t.lanes) - 1, "u), b = ldk_", v, "(p + ", last,
               ", e >> ", last, " & ", (1u << t.lanes) - 1, "u);");
  }
  return str("  if (__builtin_constant_p(s) && s == 2) { ", spread, body, " return __builtin_shufflevector(a, b", order,
             "); }\n");
}

// Every second element, backwards: the same two vectors, from the last lane's element on.
std::string every_second_back(const VectorType& t, bool masked) {
  const std::string v = t.name();
  const int last = t.lanes - 1;
  std::string order, body, spread;
  for (int i = 0; i < t.lanes; i++) {
    const int from_low = 2 * (last - i);
    order += str(", ", from_low < t.lanes ? from_low : from_low - last + t.lanes);
  }
  if (!masked) {
    body = str("const ", v, " a = ld_", v, "(p - ", 2 * last, "), b = ld_", v, "(p - ", last, ");");
  } else {
    spread =
        str("u32 e = k; e = (e & 0x5555u) << 1 | (e >> 1 & 0x5555u); e = (e & 0x3333u) << 2 | (e >> 2 & 0x3333u); "
            "e = (e & 0xf0fu) << 4 | (e >> 4 & 0xf0fu); e = (e & 0xffu) << 8 | e >> 8; e = (e & 0xffffu) >> ",
            16 - t.lanes,
            "; e = (e | e << 8) & 0xff00ffu; e = (e | e << 4) & 0xf0f0f0fu; e = (e | e << 2) & 0x33333333u; "
            "e = (e | e << 1) & 0x55555555u; ");
    body = str("const ", v, " a = ldk_", v, "(p - ", 2 * last, ", e & ", (1u << t.lanes) - 1, "u), b = ldk_", v,
               "(p - ", last, ", e >> ", last, " & ", (1u << t.lanes) - 1, "u);");
  }
  return str("  if (__builtin_constant_p(s) && s == -2) { ", spread, body, " return __builtin_shufflevector(a, b",
             order, "); }\n");
}

// From the last to the first (a flip): a vector whose last lane is the first element, turned round.
std::string backwards(const VectorType& t, bool masked) {
  const std::string v = t.name();
  const int last = t.lanes - 1;
  std::string order, turned;
  for (int i = last; i >= 0; i--) order += str(", ", i);
  if (masked)
    turned =
        str("u32 e = k; e = (e & 0x5555u) << 1 | (e >> 1 & 0x5555u); e = (e & 0x3333u) << 2 | (e >> 2 & 0x3333u); "
            "e = (e & 0xf0fu) << 4 | (e >> 4 & 0xf0fu); e = (e & 0xffu) << 8 | e >> 8; e = (e & 0xffffu) >> ",
            16 - t.lanes, "; ");
  return str("  if (__builtin_constant_p(s) && s == -1) { ", turned, "const ", v, " a = ", masked ? "ldk_" : "ld_", v,
             "(p - ", last, masked ? ", e" : "", "); return __builtin_shufflevector(a, a", order, "); }\n");
}

// lds: stride s; ldsk: stride s under k; ldg: indices j; ldgk. All lanes are named, so that the loads are scheduled
// freely.
std::string scattered_load(const VectorType& t, bool indexed, bool masked, const PieceContext& context) {
  const Element& e = *t.element;
  std::string name = str("ld", indexed ? "g" : "s", masked ? "k_" : "_", t.name());
  std::string head = str("K_FN ", t.name(), " ", name, "(const ", e.name, "* p, ", indexed ? "const i64* j" : "i64 s",
                         masked ? ", unsigned k" : "", ") {\n");
  if (!context.is_pair(e, t.lanes)) {
    std::string lane = indexed ? "p[j[#]]" : "p[# * s]";
    if (masked) lane = str("k >> # & 1 ? ", lane, " : (", e.name, ")0");
    if (!indexed && t.lanes > 2 && t.lanes <= 16)
      head += every_second(t, masked) + every_second_back(t, masked) + backwards(t, masked);
    return str(head, "  return ", t.name(), "{", repeat_lanes(t.lanes, lane), "};\n}\n");
  }
  head += "  return ";
  int h = t.lanes / 2;
  std::string half = str("ld", indexed ? "g" : "s", masked ? "k_" : "_", type_name(e, h));
  std::string second = indexed ? str("p, j + ", h) : str("p + ", h, " * s, s");
  return str(head, "{", half, "(p, ", indexed ? "j" : "s", masked ? ", k" : "", "), ", half, "(", second,
             masked ? str(", k >> ", h) : "", ")}; }\n");
}

std::string scattered_store(const VectorType& t, bool indexed) {
  const Element& e = *t.element;
  return str("K_FN void st", indexed ? "g" : "s", "k_", t.name(), "(", e.name, "* p, ",
             indexed ? "const i64* j" : "i64 s", ", ", t.name(), " v, unsigned k) {\n  ", e.name, " t[", t.lanes,
             "];\n  st_", t.name(), "(t, v);\n  for (int i = 0; i < ", t.lanes, "; i++) if (k >> i & 1) p[",
             indexed ? "j[i]" : "i * s", "] = t[i];\n}\n");
}

std::optional<std::string> raw_piece(std::string_view name, const PieceContext& context) {
  size_t cut = name.find('_');
  if (cut == std::string_view::npos) return std::nullopt;
  std::string_view op = name.substr(0, cut);
  auto t = parse_vector_type(name.substr(cut + 1));
  if (!t) {
    if (ends_with(name, "_u")) {
      auto of = parse_vector_type(name.substr(0, name.size() - 2));
      if (of) {
        return str("typedef ", of->element->name, " ", name, " __attribute__((",
                   of->lanes > 1 ? str("vector_size(", of->lanes * of->element->bytes, "), ") : "",
                   "aligned(1), may_alias));\n");
      }
    }
    return std::nullopt;
  }
  if (op == "ld") return load_text(*t, context);
  if (op == "st") return store_text(*t, context);
  if (op == "ldk") return masked_move(*t, true, context);
  if (op == "stk") return masked_move(*t, false, context);
  if (op == "lds") return scattered_load(*t, false, false, context);
  if (op == "ldsk") return scattered_load(*t, false, true, context);
  if (op == "ldg") return scattered_load(*t, true, false, context);
  if (op == "ldgk") return scattered_load(*t, true, true, context);
  if (op == "stsk") return scattered_store(*t, false);
  if (op == "stgk") return scattered_store(*t, true);
  return std::nullopt;
}

// A storage type: how it lies in memory, what it is computed in, and the conversions in between.
struct Storage {
  std::string memory;          // "bf16": the name in signatures
  const Element* raw;          // u16
  std::string scalar, vector;  // f32, vf32
  std::string widen, narrow;   // "" where nothing is to be done
  std::string widen_scalar, narrow_scalar;
};

std::optional<Storage> storage(std::string_view d, const PieceContext& context) {
  if (const Element* e = find_element(d)) return Storage{e->name, e, e->name, str("v", e->name), "", "", "", ""};
  if (d == "bool") {
    const Element* u8 = find_element("u8");
    if (context.lanes == 1) return Storage{"bool8", u8, "bool", "vmask", "0 != ", "(u8)", "0 != ", "(u8)"};
    return Storage{"bool8", u8, "bool", "vmask", "byte_to_vmask", "vmask_to_byte", "0 != ", "(u8)"};
  }
  if (const Element* raw = narrow_float(d)) {
    std::string widen = str("widen_", d), narrow = str("narrow_", d);
    return Storage{std::string(d), raw, "f32", "vf32", widen, narrow, widen, narrow};
  }
  return std::nullopt;
}

std::string public_load(std::string_view name, std::string_view d, std::string_view variant, bool gather,
                        const PieceContext& context) {
  Storage s = *storage(d, context);
  std::string raw = type_name(*s.raw, context.lanes);
  std::string parameters = str("const ", s.memory, "* p"), body, before;
  if (gather) parameters += ", vi64 j";
  if (variant.find('s') != std::string_view::npos) parameters += ", i64 s";
  bool by_count = variant.find('n') != std::string_view::npos, by_mask = variant.find('m') != std::string_view::npos;
  if (by_count) parameters += ", int n";
  if (by_mask) parameters += ", vmask m";
  if (context.lanes == 1) {
    std::string at = gather ? "p + j" : "p";
    std::string value = str(s.widen_scalar, "(ld_", raw, "(", at, "))");
    if (by_count) value = str("n > 0 ? ", value, " : (", s.scalar, ")0");
    if (by_mask) value = str("m ? ", value, " : (", s.scalar, ")0");
    return str("K_FN ", s.vector, " ", name, "(", parameters, ") { ",
               parameters.find(" s") != std::string::npos ? "(void)s; " : "", "return ", value, "; }\n");
  }
  std::string k = by_count  ? "(1u << n) - 1"
                  : by_mask ? str("bits_", type_name(context.mask_element(), context.lanes), "(m.m)")
                            : "";
  if (gather) {
    before = str("i64 t[", context.lanes, "]; st_", type_name(*find_element("i64"), context.lanes), "(t, j); ");
    body = by_mask ? str("ldgk_", raw, "(p, t, ", k, ")") : str("ldg_", raw, "(p, t)");
  } else if (variant.find('s') != std::string_view::npos) {
    body = k.empty() ? str("lds_", raw, "(p, s)") : str("ldsk_", raw, "(p, s, ", k, ")");
  } else {
    body = k.empty() ? str("ld_", raw, "(p)") : str("ldk_", raw, "(p, ", k, ")");
  }
  return str("K_FN ", s.vector, " ", name, "(", parameters, ") { ", before, "return ", s.widen, "(", body, "); }\n");
}

// Parameters: p, value, then stride and mask; scatter: p, index, value and perhaps the mask.
std::string store_body(const Storage& s, std::string_view variant, bool scatter, const PieceContext& context) {
  std::string raw = type_name(*s.raw, context.lanes), value = str(s.narrow, "(v)");
  bool strided = variant.find('s') != std::string_view::npos;
  bool by_count = variant.find('n') != std::string_view::npos, by_mask = variant.find('m') != std::string_view::npos;
  if (context.lanes == 1) {
    std::string guard = by_count ? "if (n > 0) " : by_mask ? "if (m) " : "";
    return str(strided ? "(void)s; " : "", guard, "st_", raw, "(", scatter ? "p + j" : "p", ", ", value, ");");
  }
  std::string k = by_count  ? "(1u << n) - 1"
                  : by_mask ? str("bits_", type_name(context.mask_element(), context.lanes), "(m.m)")
                            : "";
  std::string all = str((1u << context.lanes) - 1, "u");
  if (scatter) {
    return str("i64 t[", context.lanes, "]; st_", type_name(*find_element("i64"), context.lanes), "(t, j); stgk_", raw,
               "(p, t, ", value, ", ", k.empty() ? all : k, ");");
  }
  if (strided) return str("stsk_", raw, "(p, s, ", value, ", ", k.empty() ? all : k, ");");
  if (k.empty()) return str("st_", raw, "(p, ", value, ");");
  return str("stk_", raw, "(p, ", value, ", ", k, ");");
}

std::string public_store(std::string_view name, std::string_view d, std::string_view variant, bool scatter,
                         const PieceContext& context) {
  Storage s = *storage(d, context);
  auto function = [&](std::string_view form) {
    std::string parameters = str(s.memory, "* p", scatter ? ", vi64 j" : "", ", ", s.vector, " v");
    if (form.find('s') != std::string_view::npos) parameters += ", i64 s";
    if (form.find('n') != std::string_view::npos) parameters += ", int n";
    if (form.find('m') != std::string_view::npos) parameters += ", vmask m";
    return str("K_FN void ", name, "(", parameters, ") { ", store_body(s, form, scatter, context), " }\n");
  };
  return scatter ? function("") + function("m") : function(variant);
}

std::string atomic_add_text(std::string_view d, const Storage& s) {
  const Element& bits = unsigned_of(*s.raw);
  return fill(R"(K_FN void k_atomic_add_$d($m* p, $s v) {
  $u old = __atomic_load_n(($u*)p, __ATOMIC_RELAXED), next;
  do {
    $s sum = ($s)($w(__builtin_bit_cast($r, old)) + v);
    next = __builtin_bit_cast($u, ($r)$n(sum));
  } while (!__atomic_compare_exchange_n(($u*)p, &old, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
)",
              {{"d", std::string(d)},
               {"m", s.memory},
               {"s", s.scalar},
               {"u", bits.name},
               {"r", s.raw->name},
               {"w", s.widen_scalar},
               {"n", s.narrow_scalar}});
}

std::optional<std::string> public_memory(std::string_view name, const PieceContext& context) {
  struct Form {
    const char* prefix;
    bool store, indexed;
  };
  static constexpr Form forms[] = {
      {"k_load_", false, false}, {"k_store_", true, false}, {"k_gather_", false, true}, {"k_scatter_", true, true}};
  for (const Form& form : forms) {
    if (!starts_with(name, form.prefix)) continue;
    std::string_view rest = name.substr(std::string_view(form.prefix).size());
    size_t cut = rest.find('_');
    std::string_view d = rest.substr(0, cut), variant = cut == std::string_view::npos ? "" : rest.substr(cut + 1);
    bool known = variant.empty() || (variant == "m" && !(form.store && form.indexed)) ||
                 (!form.indexed && (variant == "n" || variant == "s" || variant == "sn" || variant == "sm"));
    if (!known || !storage(d, context) || (cut != std::string_view::npos && variant.empty())) return std::nullopt;
    return form.store ? public_store(name, d, variant, form.indexed, context)
                      : public_load(name, d, variant, form.indexed, context);
  }
  if (starts_with(name, "k_get_") || starts_with(name, "k_set_")) {
    auto s = storage(name.substr(6), context);
    if (!s) return std::nullopt;
    std::string raw = s->raw->name;
    if (name[2] == 'g') {
      return str("K_FN ", s->scalar, " ", name, "(const ", s->memory, "* p) { return ", s->widen_scalar, "(*(const ",
                 raw, "_u*)p); }\n");
    }
    return str("K_FN void ", name, "(", s->memory, "* p, ", s->scalar, " v) { *(", raw, "_u*)p = ", s->narrow_scalar,
               "(v); }\n");
  }
  if (starts_with(name, "k_atomic_add_")) {
    std::string_view d = name.substr(13);
    auto s = storage(d, context);
    if (s && d != "bool") return atomic_add_text(d, *s);
  }
  return std::nullopt;
}

// As many vectors as they have lanes: afterwards the j-th of them has the j-th lanes of all. Neighbours are interleaved
// within pieces of 16 bytes, by one lane and then by two; pieces are then moved as they are. A function of its own: it
// is much text for the C++ compiler, and the kernels of a file share it.
std::string transpose_text(const PieceContext& context) {
  const Element& f32 = *find_element("f32");
  const int lanes = context.lanes;
  const std::string v = type_name(f32, lanes);
  std::string out = str("static __attribute__((noinline)) void k_transpose_f32(", v, " (&x)[", lanes, "]) {\n");
  if (context.is_pair(f32, lanes) || lanes < 4)
    return str(out, "  f32 t[", lanes, "][", lanes, "];\n  for (int i = 0; i < ", lanes, "; i++) st_", v,
               "(t[i], x[i]);\n  for (int j = 0; j < ", lanes, "; j++) {\n    f32 u[", lanes,
               "];\n    for (int i = 0; i < ", lanes, "; i++) u[i] = t[i][j];\n    x[j] = ld_", v, "(u);\n  }\n}\n");
  char from = 'x';
  // Of a and b, `step` apart: lanes by `order`, where b's begin at `lanes`.
  const auto pass = [&](int step, const std::function<int(int lane, bool second)>& order) {
    const char to = from == 'x' ? 'a' : static_cast<char>(from + 1);
    out += str("  ", v, " ", to, "[", lanes, "];\n");
    for (int i = 0; i < lanes; i++) {
      const bool second = i & step;
      const int a = second ? i - step : i;
      std::string list;
      for (int lane = 0; lane < lanes; lane++) list += str(", ", order(lane, second));
      out += str("  ", to, "[", i, "] = __builtin_shufflevector(", from, "[", a, "], ", from, "[", a + step, "]", list,
                 ");\n");
    }
    from = to;
  };
  for (int step : {1, 2})  // [a0 b0 a1 b1] and [a2 b2 a3 b3]; then the same of pairs of lanes
    pass(step, [&](int lane, bool second) {
      const int place = lane % 4, piece = lane - place, within = place % step;
      return piece + (second ? 2 : 0) + place / (2 * step) * step + within + (place / step % 2 ? lanes : 0);
    });
  for (int step = 4; step < lanes; step *= 2)  // every second piece of both
    pass(step, [&](int lane, bool second) {
      const int piece = lane / 4, half = lanes / 8;
      return (piece % half * 2 + (second ? 1 : 0)) * 4 + lane % 4 + (piece >= half ? lanes : 0);
    });
  // Of every four, the second has the third lanes, and the other way round.
  for (int i = 0; i < lanes; i++)
    out += str("  x[", i, "] = ", from, "[", i % 4 == 1 || i % 4 == 2 ? i ^ 3 : i, "];\n");
  return out + "}\n";
}

// The same of f64, whose vectors are pairs of half as many lanes: a block of lanes of every second of two vectors
// changes places with one of the first, for blocks of 1, 2, 4, …; then so do the two quadrants beside the diagonal.
std::string transpose_f64_text(const PieceContext& context) {
  const Element& f64 = *find_element("f64");
  const bool pair = context.is_pair(f64, context.lanes);
  const int lanes = pair ? context.lanes / 2 : context.lanes;
  const std::string v = type_name(f64, lanes), whole = type_name(f64, context.lanes);
  const std::string name = pair ? "k_transpose_half_f64" : "k_transpose_f64";
  std::string out = str("static __attribute__((noinline)) void ", name, "(", v, " (&x)[", lanes, "]) {\n");
  for (int step = 1; step < lanes; step *= 2) {
    std::string orders[2];
    for (int lane = 0; lane < lanes; lane++) {
      orders[0] += str(", ", lane & step ? lane - step + lanes : lane);
      orders[1] += str(", ", lane & step ? lane + lanes : lane + step);
    }
    out += str("  for (int i = 0; i < ", lanes, "; i++) {\n    if (i & ", step, ") continue;\n    const ", v,
               " a = x[i], b = x[i + ", step, "];\n    x[i] = __builtin_shufflevector(a, b", orders[0],
               ");\n    x[i + ", step, "] = __builtin_shufflevector(a, b", orders[1], ");\n  }\n");
  }
  out += "}\n";
  if (!pair) return out;
  return out + str("static __attribute__((noinline)) void k_transpose_f64(", whole, " (&x)[", context.lanes, "]) {\n  ",
                   v, " q[4][", lanes, "];\n  for (int i = 0; i < ", lanes,
                   "; i++) q[0][i] = x[i].a, q[1][i] = x[i].b, q[2][i] = x[i + ", lanes, "].a, q[3][i] = x[i + ", lanes,
                   "].b;\n  for (int i = 0; i < 4; i++) k_transpose_half_f64(q[i]);\n  for (int i = 0; i < ", lanes,
                   "; i++) x[i] = {q[0][i], q[2][i]}, x[i + ", lanes, "] = {q[1][i], q[3][i]};\n}\n");
}

// Elements of a and b by turns, of the first n lanes: from the first lane on, or back: p is then where the first lane's
// element of a goes, and each further lane's are in front of those of the lane before it.
std::string interleaved_store_text(const Element& element, bool back, const PieceContext& context) {
  const int lanes = context.lanes;
  const bool pair = context.is_pair(element, lanes);
  const int each = pair ? lanes / 2 : lanes;  // of one register
  const std::string v = type_name(element, lanes), part = type_name(element, each);
  std::string made, whole, masked;
  for (int q = 0; q * each < 2 * lanes; q++) {
    std::string order, half;
    for (int i = q * each; i < (q + 1) * each; i++) {
      const int lane = back ? lanes - 1 - i / 2 : i / 2;
      if (pair) half = lane < each ? ".a" : ".b";
      order += str(", ", lane % each + (i % 2) * each);
    }
    made += str("  const ", part, " v", q, " = __builtin_shufflevector(a", half, ", b", half, order, ");\n");
    whole += str(" st_", part, "(p + ", q * each, ", v", q, ");");
    masked += str("  stk_", part, "(p + ", q * each, ", v", q, ", (unsigned)(k >> ", q * each, " & ", (1u << each) - 1,
                  "u));\n");
  }
  const std::string all = str("((1ul << ", 2 * lanes, ") - 1)");
  return str("K_FN void k_interleave_", back ? "back_" : "", element.name, "(", element.name, "* p, ", v, " a, ", v,
             " b, int n) {\n", back ? str("  p -= ", 2 * (lanes - 1), ";\n") : "", made, "  if (n == ", lanes, ") {",
             whole, " return; }\n  const unsigned long k = ",
             back ? str(all, " & ~0ul << 2 * (", lanes, " - n)") : "(1ul << 2 * n) - 1", ";\n", masked, "}\n");
}

}  // namespace

std::optional<std::string> memory_piece(std::string_view name, const PieceContext& context) {
  if (name == "k_address") {
    // GCC's masked moves take pointers to elements, clang's pointers to vectors.
    return "struct k_address { void* p; template <class T> K_FN_MEMBER operator T*() const { return (T*)p; } };\n";
  }
  if (name == "k_in_memory") {
    // What it is given is in memory here, and in no register from before to after.
    return "template <class T> K_FN void k_in_memory(T& x) { asm volatile(\"\" : \"+m\"(x)); }\n";
  }
  if (name == "k_free_registers") {
    // No vector is in a register from before to after: what follows needs all of them, and constants of what follows
    // that would otherwise be kept in some.
    const auto list = [](int from, int to) {
      std::string text;
      for (int i = from; i < to; ++i) text += str(i > from ? ", " : "", "\"xmm", i, "\"");
      return text;
    };
    return str("#if defined(__AVX512F__)\nK_FN void k_free_registers() { asm volatile(\"\" : : : ", list(0, 32),
               "); }\n#elif defined(__x86_64__)\nK_FN void k_free_registers() { asm volatile(\"\" : : : ", list(0, 16),
               "); }\n#else\nK_FN void k_free_registers() {}\n#endif\n");
  }
  if (name == "k_transpose_f32") return transpose_text(context);
  if (name == "k_transpose_f64") return transpose_f64_text(context);
  for (const char* element : {"f32", "f64"})
    for (const bool back : {false, true})
      if (name == str("k_interleave_", back ? "back_" : "", element))
        return interleaved_store_text(*find_element(element), back, context);
  if (name == "byte_to_vmask") {
    std::string bytes = type_name(*find_element("u8"), context.lanes),
                mask = type_name(context.mask_element(), context.lanes);
    return str("K_FN vmask byte_to_vmask(", bytes, " x) { return {cvt_", bytes, "_", mask, "(x) != splat_", mask,
               "(0)}; }\n");
  }
  if (name == "vmask_to_byte") {
    std::string bytes = type_name(*find_element("u8"), context.lanes),
                natural = type_name(*find_element("i8"), context.lanes);
    return str("K_FN ", bytes, " vmask_to_byte(vmask m) { return (", bytes, ")-from_vmask_", natural, "(m); }\n");
  }
  if (auto text = raw_piece(name, context)) return text;
  return public_memory(name, context);
}

}  // namespace kiln::codegen
