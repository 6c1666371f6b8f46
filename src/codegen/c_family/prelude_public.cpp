// The public names of the prelude that are overloaded over types: operators, comparisons, reductions over lanes. Each
// is emitted for the types of the request, as a scalar and as a vector function.
#include "base/error.h"
#include "codegen/c_family/prelude_pieces.h"

namespace kiln::codegen {
namespace {

struct PublicOp {
  const char* name;
  int arity;
  char types;  // as in MathPiece; 'a' all numbers
  bool gives_mask;
  const char* body;     // with $e, $T (the type), $M (its natural mask's type name); nullptr: <name>_<element>(x, y, z)
  const char* boolean;  // the same for bool and vmask; nullptr: none
};

constexpr PublicOp public_ops[] = {
    {"add", 2, 'a', false, "x + y", "x | y"},
    {"sub", 2, 'a', false, "x - y", "x ^ y"},
    {"mul", 2, 'a', false, "x * y", "x & y"},
    {"neg", 1, 'a', false, "-x", "x"},
    {"bit_and", 2, 'n', false, "x & y", "x & y"},
    {"bit_or", 2, 'n', false, "x | y", "x | y"},
    {"bit_xor", 2, 'n', false, "x ^ y", "x ^ y"},
    {"bit_not", 1, 'n', false, "~x", "!x"},
    {"div", 2, 'a', false, nullptr, nullptr},
    {"floordiv", 2, 'a', false, nullptr, nullptr},
    {"mod", 2, 'a', false, nullptr, nullptr},
    {"fmod", 2, 'a', false, nullptr, nullptr},
    {"abs", 1, 'a', false, nullptr, "x"},
    {"min", 2, 'a', false, nullptr, "x & y"},
    {"max", 2, 'a', false, nullptr, "x | y"},
    {"pow", 2, 'a', false, nullptr, "x | !y"},
    {"fma", 3, 'f', false, "fused_$e(x, y, z)", nullptr},
    {"fma", 3, 'n', false, "x * y + z", nullptr},
    {"madd", 3, 'f', false, "fma_$e(x, y, z)", nullptr},
    {"madd", 3, 'n', false, "x * y + z", nullptr},
    {"shl", 2, 'n', false, nullptr, nullptr},
    {"shr", 2, 'n', false, nullptr, nullptr},
    {"eq", 2, 'a', true, "to_vmask_$M(x == y)", "x == y"},
    {"ne", 2, 'a', true, "to_vmask_$M(x != y)", "x != y"},
    {"lt", 2, 'a', true, "to_vmask_$M(x < y)", "!x & y"},
    {"le", 2, 'a', true, "to_vmask_$M(x <= y)", "!x | y"},
    {"gt", 2, 'a', true, "to_vmask_$M(x > y)", "x & !y"},
    {"ge", 2, 'a', true, "to_vmask_$M(x >= y)", "x | !y"},
    {"logical_and", 2, '-', false, nullptr, "x & y"},
    {"logical_or", 2, '-', false, nullptr, "x | y"},
    {"logical_not", 1, '-', false, nullptr, "!x"},
    {"is_nan", 1, 'f', true, "to_vmask_$M(x != x)", nullptr},
    {"is_nan", 1, 'n', true, "to_vmask_$M(x != x)", "x != x"},
    {"is_inf", 1, 'f', true, "to_vmask_$M(is_inf_$e(x))", nullptr},
    {"is_inf", 1, 'n', true, "to_vmask_$M(x != x)", "x != x"},
    {"sign_bit", 1, 'a', true, "to_vmask_$M(sign_bit_$e(x))", "x != x"},
    {"copysign", 2, 'f', false, nullptr, nullptr},
    {"nextafter", 2, 'f', false, nullptr, nullptr},
    {"atan2", 2, 'f', false, nullptr, nullptr},
};
constexpr const char* float_functions[] = {
    "exp", "exp_or_zero", "exp2",   "expm1",      "log",    "log2",    "log10",   "log1p", "sqrt",  "rsqrt", "sin",
    "cos", "tan",         "asin",   "acos",       "atan",   "sinh",    "cosh",    "tanh",  "asinh", "acosh", "atanh",
    "erf", "erfc",        "erfinv", "normal_cdf", "lgamma", "digamma", "sigmoid", "floor", "ceil",  "round", "trunc"};

bool applies(char types, const Element& e) {
  return types == 'a' || (types == 'f' && e.floating) || (types == 'n' && !e.floating);
}

std::string parameters(int arity, std::string_view type) {
  std::string out;
  for (int i = 0; i < arity; i++) out += str(i > 0 ? ", " : "", type, " ", static_cast<char>('x' + i));
  return out;
}

std::string operator_text(const PublicOp& op, const PieceContext& context) {
  static constexpr const char* arguments[] = {"", "x", "x, y", "x, y, z"};
  std::string out;
  for (int n : {1, context.lanes}) {
    std::string mask = n == 1 ? "bool" : "vmask";
    for (const Element* e : context.types) {
      if (!applies(op.types, *e)) continue;
      std::string t = type_name(*e, n);
      std::string body = op.body == nullptr
                             ? str(op.name, "_", e->name, "(", arguments[op.arity], ")")
                             : fill(op.body, {{"e", e->name}, {"T", t}, {"M", type_name(signed_of(*e), n)}});
      out += str("K_FN ", op.gives_mask ? mask : t, " k_", op.name, "(", parameters(op.arity, t), ") { return ", body,
                 "; }\n");
    }
    if (op.boolean != nullptr)
      out += str("K_FN ", mask, " k_", op.name, "(", parameters(op.arity, mask), ") { return ", op.boolean, "; }\n");
    if (context.lanes == 1) break;
  }
  return out;
}

std::string select_text(const PieceContext& context) {
  std::string out;
  for (int n : {1, context.lanes}) {
    std::string mask = n == 1 ? "bool" : "vmask";
    for (const Element* e : context.types) {
      std::string t = type_name(*e, n);
      out += str("K_FN ", t, " k_select(", mask, " m, ", t, " x, ", t, " y) { return sel_", t, "(from_vmask_",
                 type_name(signed_of(*e), n), "(m), x, y); }\n");
    }
    out += str("K_FN ", mask, " k_select(", mask, " m, ", mask, " x, ", mask, " y) { return (m & x) | (!m & y); }\n");
    if (context.lanes == 1) break;
  }
  return out;
}

// A lane of any vector as a scalar.
std::string lane_text(const PieceContext& context) {
  std::string out;
  for (const Element* e : context.types) {
    std::string t = type_name(*e, context.lanes);
    out += str("K_FN ", e->name, " k_lane(", t, " x, int i) { return lane_", t, "(x, i); }\n");
  }
  std::string mask = type_name(context.mask_element(), context.lanes);
  if (context.lanes == 1) return out + "K_FN bool k_lane(bool x, int i) { (void)i; return x; }\n";
  return out + str("K_FN bool k_lane(vmask x, int i) { return lane_", mask, "(x.m, i) != 0; }\n");
}

// Folds natural vectors by rotating halves onto each other; the result is in lane 0.
std::string fold_text(int lanes, std::string_view combine) {
  std::string out;
  for (int step = lanes / 2; step >= 1; step /= 2) {
    std::string order;
    for (int i = 0; i < lanes; i++) order += str(i > 0 ? ", " : "", (i + step) % lanes);
    out += str("  y = __builtin_shufflevector(x, x, ", order, ");\n  x = ", combine, ";\n");
  }
  return out;
}

std::string horizontal_text(std::string_view name, const PieceContext& context) {
  std::string out;
  for (const Element* e : context.types) {
    std::string combine = name == "k_hsum"    ? "x + y"
                          : name == "k_hprod" ? "x * y"
                                              : str(name == "k_hmin" ? "min_" : "max_", e->name, "(x, y)");
    if (context.lanes == 1) {
      out += str("K_FN ", e->name, " ", name, "(", e->name, " x) { return x; }\n");
      continue;
    }
    int n = context.natural_lanes(*e);
    std::string t = type_name(*e, n);
    out +=
        str("K_FN ", e->name, " ", name, "(", t, " x) {\n  ", t, " y;\n", fold_text(n, combine), "  return x[0];\n}\n");
    for (n *= 2; n <= context.lanes; n *= 2) {
      std::string half = type_name(*e, n / 2);
      out += str("K_FN ", e->name, " ", name, "(", type_name(*e, n), " v) { ", half, " x = v.a, y = v.b; return ", name,
                 "(", combine, "); }\n");
    }
  }
  return out;
}

// SplitMix64 at position `counter` (loops/random.h).
std::string random_bits_text(const PieceContext& context) {
  std::string out;
  for (int n : {1, context.lanes}) {
    std::string u = type_name(*find_element("u64"), n);
    out += fill(R"(K_FN $U random_bits(u64 seed, $U counter) {
  $U z = $S(seed) + (counter + $S(1)) * $S(0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> $S(30))) * $S(0xBF58476D1CE4E5B9ull);
  z = (z ^ (z >> $S(27))) * $S(0x94D049BB133111EBull);
  return z ^ (z >> $S(31));
}
)",
                {{"U", u}, {"S", "splat_" + u}});
    if (context.lanes == 1) break;
  }
  return out;
}

std::optional<std::string> random_text(std::string_view name, const PieceContext& context) {
  std::string_view d = name.substr(9);
  const Element *e = find_element(narrow_float(d) != nullptr ? "f32" : d), *u64 = find_element("u64"),
                *i64 = find_element("i64");
  if (e == nullptr && d != "bool") return std::nullopt;
  std::string out;
  for (int n : {1, context.lanes}) {
    std::string u = type_name(*u64, n), i = type_name(*i64, n), shift = str(" >> splat_", u, "(");
    std::string bits = str("random_bits(seed, cvt_", i, "_", u, "(counter))"), result, body;
    if (e == nullptr) {
      result = n == 1 ? "bool" : "vmask";
      body = str("to_vmask_", i, "(cvt_", u, "_", i, "(", bits, ") < splat_", i, "(0))");
    } else if (e->floating) {
      result = type_name(*e, n);
      bool single = e->bytes == 4;
      body = str("cvt_", i, "_", result, "(cvt_", u, "_", i, "(", bits, shift, single ? "40)))" : "11)))", " * splat_",
                 result, single ? "(0x1p-24f)" : "(0x1p-53)");
    } else {
      result = type_name(*e, n);
      body = str("cvt_", u, "_", result, "(", bits, shift, 64 - 8 * e->bytes, "))");
    }
    out += str("K_FN ", result, " ", name, "(u64 seed, ", i, " counter) { return ", body, "; }\n");
    if (context.lanes == 1) break;
  }
  return out;
}

std::optional<std::string> mask_function(std::string_view name, const PieceContext& context) {
  std::string mask = type_name(context.mask_element(), context.lanes);
  bool scalar = context.lanes == 1;
  std::string bits = scalar ? "bits_" + mask + "(m)" : str("bits_", mask, "(m.m)");
  std::string all = str((1u << context.lanes) - 1, "u");
  if (name == "k_hany") return str("K_FN bool k_hany(vmask m) { return ", bits, " != 0; }\n");
  if (name == "k_hall") return str("K_FN bool k_hall(vmask m) { return ", bits, " == ", all, "; }\n");
  if (name == "k_first_true")
    return str("K_FN int k_first_true(vmask m) { return __builtin_ctz(", bits, " | ", all, " + 1); }\n");
  if (name == "k_first") {
    if (scalar) return "K_FN bool k_first(int n) { return n > 0; }\n";
    std::string count = context.mask_bits == 64 ? "(i64)n" : "n";
    return str("K_FN vmask k_first(int n) { return {iota_", mask, "() < splat_", mask, "(", count, ")}; }\n");
  }
  if (name == "k_splat_bool") {
    if (scalar) return "K_FN bool k_splat_bool(bool x) { return x; }\n";
    return str("K_FN vmask k_splat_bool(bool x) { return {splat_", mask, "(x ? -1 : 0)}; }\n");
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> public_piece(std::string_view name, const PieceContext& context) {
  if (name == "random_bits") return random_bits_text(context);
  if (!starts_with(name, "k_")) return std::nullopt;
  if (starts_with(name, "k_random_")) return random_text(name, context);
  if (auto text = mask_function(name, context)) return text;
  if (name == "k_select") return select_text(context);
  if (name == "k_lane") return lane_text(context);
  if (name == "k_hsum" || name == "k_hprod" || name == "k_hmin" || name == "k_hmax")
    return horizontal_text(name, context);
  for (const char* prefix : {"k_splat_", "k_iota_"}) {
    if (!starts_with(name, prefix)) continue;
    const Element* e = find_element(name.substr(std::string_view(prefix).size()));
    if (e == nullptr) return std::nullopt;
    std::string t = type_name(*e, context.lanes);
    if (prefix[2] == 's') return str("K_FN ", t, " ", name, "(", e->name, " x) { return splat_", t, "(x); }\n");
    return str("K_FN ", t, " ", name, "() { return iota_", t, "(); }\n");
  }
  std::string out;
  for (const PublicOp& op : public_ops) {
    if (name.substr(2) == op.name) out += operator_text(op, context);
  }
  for (const char* function : float_functions) {
    if (name.substr(2) == function) out += operator_text({function, 1, 'f', false, nullptr, nullptr}, context);
  }
  if (out.empty()) return std::nullopt;
  return out;
}

std::vector<std::string> public_function_names() {
  std::vector<std::string> names = {"k_select", "k_lane", "k_hsum",  "k_hprod",      "k_hmin",     "k_hmax",
                                    "k_hany",   "k_hall", "k_first", "k_first_true", "k_iota_i32", "k_iota_i64"};
  for (const PublicOp& op : public_ops) names.push_back(str("k_", op.name));
  for (const char* function : float_functions) names.push_back(str("k_", function));
  return names;
}

std::optional<std::string> abi_piece(std::string_view name, const PieceContext&) {
  if (name == "kiln_error_slot") {
    return "struct kiln_error_slot { i32 raised, site; i64 index, value; };\n";
  }
  if (name == "kiln_kernel_context") {
    return "struct kiln_kernel_context { u32 version, thread; void* scratch; i64 scratch_bytes; kiln_error_slot* "
           "error; u64 seed; i64* kept; };\n";
  }
  if (name == "k_raise") {
    return R"(static __attribute__((noinline, cold, unused))
i32 k_raise(const kiln_kernel_context* context, i32 site, i64 index, i64 value) {
  kiln_error_slot* slot = context->error;
  if (__atomic_exchange_n(&slot->raised, 1, __ATOMIC_ACQ_REL) == 0) {
    slot->site = site;
    slot->index = index;
    slot->value = value;
  }
  return 1;
}
)";
  }
  return std::nullopt;
}

}  // namespace kiln::codegen
