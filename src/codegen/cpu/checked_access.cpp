#include "codegen/cpu/checked_access.h"

#include <map>

#include "base/error.h"
#include "base/text.h"
#include "codegen/c_family/printed_kernel.h"

namespace kiln::codegen {
namespace {

// In front of the kernels, behind their prelude. A mask or a vector of indices is looked at through its bytes: which of
// the prelude's functions there are depends on the kernels.
constexpr const char* checks = R"(
struct kc_range { const void *begin, *end; };
struct kc_access { i32 happened, buffer, store, bytes; const void* address; kc_range range; };
struct kc_context { kiln_kernel_context context; const kc_range* ranges; kc_access* failed; };
static __attribute__((noinline, unused)) bool kc_one(const kiln_kernel_context* ctx, i32 b, const void* p, i32 bytes, i32 store) {
  const kc_context* c = (const kc_context*)ctx;
  const u64 at = (u64)p, begin = (u64)c->ranges[b].begin, end = (u64)c->ranges[b].end;
  if (at >= begin && at <= end && end - at >= (u64)bytes) return false;
  if (__atomic_exchange_n(&c->failed->happened, 1, __ATOMIC_ACQ_REL) == 0) {
    c->failed->buffer = b, c->failed->store = store, c->failed->bytes = bytes, c->failed->address = p;
    c->failed->range = c->ranges[b];
  }
  return true;
}
template <class T>
static bool kc_in(const kiln_kernel_context* ctx, i32 b, const T* p) {
  const kc_range range = ((const kc_context*)ctx)->ranges[b];
  return (const void*)p >= range.begin && (const void*)(p + 1) <= range.end;
}
template <class T, unsigned long N>
static bool kc_zeros(const T* p, const T (&zeros)[N], int count) { return p >= zeros && p + count <= zeros + N; }
template <class T>
static bool kc_row(const kiln_kernel_context* ctx, i32 b, T* p, i64 stride, int count, i32 store) {
  for (int i = 0; i < count; ++i)
    if (kc_one(ctx, b, (const void*)((u64)p + (u64)(i * stride) * sizeof(T)), sizeof(T), store)) return true;
  return false;
}
template <class T>
static bool kc_lines(const kiln_kernel_context* ctx, i32 b, T* p, i64 distance, int count) {
  for (int i = 0; i < count; ++i)
    if (kc_one(ctx, b, (const void*)((u64)p + (u64)(i * distance) * sizeof(T)), 64, 0)) return true;
  return false;
}
template <class M>
static bool kc_on(const M& mask, int lane) {
  unsigned char bytes[sizeof(M)];
  __builtin_memcpy(bytes, &mask, sizeof(M));
  const int width = (int)sizeof(M) / kc_lanes;
  for (int i = 0; i < width; ++i)
    if (bytes[lane * width + i]) return true;
  return false;
}
template <class T, class M>
static bool kc_masked(const kiln_kernel_context* ctx, i32 b, T* p, i64 stride, const M& mask, i32 store) {
  for (int i = 0; i < kc_lanes; ++i)
    if (kc_on(mask, i) && kc_row(ctx, b, (T*)((u64)p + (u64)(i * stride) * sizeof(T)), 1, 1, store)) return true;
  return false;
}
template <class T, class J>
static bool kc_at(const kiln_kernel_context* ctx, i32 b, T* p, const J& index, i32 store) {
  i64 j[kc_lanes];
  __builtin_memcpy(j, &index, sizeof(j));
  for (int i = 0; i < kc_lanes; ++i)
    if (kc_row(ctx, b, (T*)((u64)p + (u64)j[i] * sizeof(T)), 1, 1, store)) return true;
  return false;
}
template <class T, class J, class M>
static bool kc_at_masked(const kiln_kernel_context* ctx, i32 b, T* p, const J& index, const M& mask, i32 store) {
  i64 j[kc_lanes];
  __builtin_memcpy(j, &index, sizeof(j));
  for (int i = 0; i < kc_lanes; ++i)
    if (kc_on(mask, i) && kc_row(ctx, b, (T*)((u64)p + (u64)j[i] * sizeof(T)), 1, 1, store)) return true;
  return false;
}
)";

// The parameters of a memory function behind the pointer, and what has to be asked before it is called.
struct Form {
  std::string parameters, question;
};

Form form_of(const std::string& name, const std::string& operation, std::string variant) {
  if (operation == "matrix_left" || operation == "matrix_right") return {"s, n", "kc_lines(ctx, B, kc_p, s, n)"};
  if (operation == "pair") return {"", "kc_row(ctx, B, kc_p, 1, 2, 0)"};
  if (operation == "quad") return {"", "kc_row(ctx, B, kc_p, 1, 4, 0)"};
  if (operation == "quads") return {"", "kc_row(ctx, B, kc_p, 1, 4 * kc_lanes, 0)"};
  if (operation == "interleave") {
    if (ends_with(name, "_bf16")) return {"v, w", "kc_row(ctx, B, kc_p, 1, 2 * kc_lanes, 1)"};
    const bool back = name.find("_back_") != std::string::npos;  // further lanes' are in front of the first one's
    return {"v, w, n", str("kc_row(ctx, B, kc_p", back ? " - 2 * ((n) - 1)" : "", ", 1, 2 * (n), 1)")};
  }
  if (operation == "pairs") return {"", "kc_row(ctx, B, kc_p, 1, 2 * kc_lanes, 0)"};
  const bool store = operation == "store" || operation == "scatter" || operation == "set" || operation == "atomic_add";
  const std::string flag = store ? "1" : "0";
  if (operation == "get" || operation == "set" || operation == "atomic_add")
    return {store ? "v" : "", str("kc_row(ctx, B, kc_p, 1, 1, ", flag, ")")};
  if (operation == "gather" || operation == "scatter") {
    const bool masked = variant == "m";
    const std::string question =
        masked ? str("kc_at_masked(ctx, B, kc_p, j, m, ", flag, ")") : str("kc_at(ctx, B, kc_p, j, ", flag, ")");
    return {str("j", store ? ", v" : "", masked ? ", m" : ""), question};
  }
  const bool strided = starts_with(variant, "s");
  if (strided) variant.erase(0, 1);
  const std::string stride = strided ? "s" : "1";
  std::string parameters = store ? "v" : "";
  auto add = [&](const char* parameter) { parameters += str(parameters.empty() ? "" : ", ", parameter); };
  if (strided) add("s");
  if (variant == "m") {
    add("m");
    return {parameters, str("kc_masked(ctx, B, kc_p, ", stride, ", m, ", flag, ")")};
  }
  if (variant == "n") add("n");
  if (!variant.empty() && variant != "n") fail_bug(str("a memory function that is not known: ", name));
  return {parameters, str("kc_row(ctx, B, kc_p, ", stride, ", ", variant == "n" ? "n" : "kc_lanes", ", ", flag, ")")};
}

// A macro, because it must return from the kernel. `kc_p` keeps the pointer's type.
std::string macro(const std::string& key, const std::string& name, const Form& form) {
  const std::string more = form.parameters.empty() ? "" : ", " + form.parameters;
  std::string question = form.question, given = form.parameters;
  return str("#define ", key, "(B, p", more, ") ({ const auto kc_p = (p); if (__builtin_expect(", question,
             ", 0)) return 1; ", name, "(kc_p", more, "); })\n");
}

constexpr const char* head = "extern \"C\" __attribute__((visibility(\"default\"))) int ";

class Rewriting {
 public:
  std::string run(const std::string& kernels) {
    std::string out;
    for (size_t at = 0; at < kernels.size();) {
      const size_t next = std::min(kernels.find(head, at + 1), kernels.size());
      out += function(kernels.substr(at, next - at));
      at = next;
    }
    return out;
  }
  std::string macros() const {
    std::string out;
    for (const auto& [key, text] : macros_) out += text;
    return out;
  }

 private:
  struct Access {
    std::string operation, variant;
  };

  std::string function(const std::string& kernels) {
    buffers_ = declarations(kernels, "b");
    const int scratch = declarations(kernels, "scratch");
    std::string out;
    for (size_t at = 0; at < kernels.size();) {
      if (!goes_on(kernels[at]) || (at > 0 && goes_on(kernels[at - 1]))) {
        out += kernels[at++];
        continue;
      }
      size_t end = at;
      while (end < kernels.size() && goes_on(kernels[end])) ++end;
      const std::string name = kernels.substr(at, end - at);
      if (const auto access = parse(name)) {
        out += starts_with(std::string_view(kernels).substr(end), "(q") ? rewrite_row(*access, name, kernels, end)
                                                                        : rewrite(*access, name, kernels, end);
      } else if (is_buffer(name) && !declared(kernels, end) && !chosen(kernels, at) && !fetched(kernels, at)) {
        fail_unsupported("K0645", str("a kernel of this package uses its buffer ", name,
                                      " in a way that cannot be "
                                      "checked: ",
                                      kernels.substr(at, kernels.find('\n', at) - at)));
      } else {
        out += name;
      }
      at = end;
    }
    return with_scratch(std::move(out), scratch);
  }
  // "… * const b3 = (": so many of these.
  static int declarations(const std::string& text, const std::string& prefix) {
    int count = 0;
    while (text.find(str("* const ", prefix, count, " = (")) != std::string::npos) ++count;
    return count;
  }
  // Scratch is the thread's: its ranges are known where the kernel has found it, and stand behind the buffers'.
  std::string with_scratch(std::string text, int scratch) const {
    if (scratch == 0) return text;
    std::string more = str("  kc_range kc_ranges[", buffers_ + scratch, "];\n  for (int i = 0; i < ", buffers_,
                           "; ++i) kc_ranges[i] = ((const kc_context*)ctx)->ranges[i];\n");
    for (int i = 0; i < scratch; ++i)
      more +=
          str("  kc_ranges[", buffers_ + i, "] = {scratch", i, ", (char*)scratch", i, " + scratch", i, "_bytes};\n");
    more += "  kc_context kc_own = *(const kc_context*)ctx;\n  kc_own.ranges = kc_ranges;\n  ctx = &kc_own.context;\n";
    const size_t at = text.find("  (void)ctx;");
    KILN_CHECK(at != std::string::npos, "a printed kernel that does not mention its context");
    return text.insert(at, more);
  }
  static std::optional<Access> parse(const std::string& name) {
    for (const char* operation : {"load", "store", "gather", "scatter", "get", "set", "atomic_add", "matrix_left",
                                  "matrix_right", "pair", "pairs", "quad", "quads", "interleave"}) {
      const std::string prefix = str("k_", operation, "_");
      if (!starts_with(name, prefix)) continue;
      const std::string rest = name.substr(prefix.size());
      const size_t cut = rest.find('_');
      return Access{operation, cut == std::string::npos ? "" : rest.substr(cut + 1)};
    }
    return std::nullopt;
  }
  static bool numbered(const std::string& name, size_t prefix) {
    return name.size() > prefix && name.find_first_not_of("0123456789", prefix) == std::string::npos;
  }
  static bool is_buffer(const std::string& name) {
    return name[0] == 'b' ? numbered(name, 1) : starts_with(name, "scratch") && numbered(name, 7);
  }
  // "… * const b0 = (": where the kernel takes it from its arguments.
  static bool declared(const std::string& text, size_t end) { return text.compare(end, 4, " = (") == 0; }

  // "const f32* const q0_1_3 = v5 ? b0 + … : q0_1_zeros;": a row of buffer 0 or zeros, by a mask (tile_printer.cpp).
  // "const f32* const q0_line1_3 = inside ? b0 + … : scratch1;": a line of it, or its copy (line_printer.cpp).
  // What is read through it is checked where it is read.
  static bool chosen(const std::string& text, size_t at) {
    const size_t begin = text.rfind('\n', at) + 1, name = text.find("* const q", begin);
    return name < at && (text.compare(at - 3, 3, " ? ") == 0 || text.compare(at - 3, 3, " : ") == 0);
  }
  // "__builtin_prefetch(b0 + …": what is fetched ahead is not read, and may lie beyond the end.
  static bool fetched(const std::string& text, size_t at) {
    static const std::string call = "__builtin_prefetch(";
    return at >= call.size() && text.compare(at - call.size(), call.size(), call) == 0;
  }
  std::string rewrite_row(const Access& access, const std::string& name, const std::string& text, size_t& end) {
    size_t stop = end + 1;
    while (stop < text.size() && goes_on(text[stop])) ++stop;
    const std::string pointer = text.substr(end + 1, stop - end - 1);
    const size_t first = pointer.find('_'), last = pointer.rfind('_');
    const bool pair = access.operation == "pair", quad = access.operation == "quad";
    static const std::string of_line = "_line";
    if (const size_t line = pointer.find(of_line); line != std::string::npos && access.operation == "get") {
      const std::string key = str("kcl", name.substr(1));
      macros_.emplace(key,
                      str("#define ", key, "(B, S, p) ({ const auto kc_p = (p); if (__builtin_expect(!kc_in(ctx, S, ",
                          "kc_p) && kc_row(ctx, B, kc_p, 1, 1, 0), 0)) return 1; ", name, "(kc_p); })\n"));
      end = stop;
      const int scratch = std::stoi(pointer.substr(line + of_line.size()));
      return str(key, "(", pointer.substr(1, first - 1), ", ", buffers_ + scratch, ", ", pointer);
    }
    const bool vector = access.operation == "load" && (access.variant.empty() || access.variant == "n");
    if ((access.operation != "get" && !pair && !quad && !vector) || first == std::string::npos || first == last)
      fail_unsupported("K0645", str("a kernel of this package calls ", name, " with a pointer that is no buffer's"));
    const std::string key = str("kcq", name.substr(1)), more = access.variant.empty() ? "" : ", n",
                      count = pair                     ? "2"
                              : quad                   ? "4"
                              : !vector                ? "1"
                              : access.variant.empty() ? "kc_lanes"
                                                       : "n";
    macros_.emplace(key, str("#define ", key, "(B, Z, p", more, ") ({ const auto kc_p = (p); if (__builtin_expect(",
                             "!kc_zeros(kc_p, Z, ", count, ") && kc_row(ctx, B, kc_p, 1, ", count,
                             ", 0), 0)) return 1; ", name, "(kc_p", more, "); })\n"));
    end = stop;
    return str(key, "(", pointer.substr(1, first - 1), ", ", pointer.substr(0, last), "_zeros, ", pointer);
  }

  // `end`: behind the function's name; moved behind the buffer's.
  std::string rewrite(const Access& access, const std::string& name, const std::string& text, size_t& end) {
    size_t stop = end + 1;
    while (stop < text.size() && goes_on(text[stop])) ++stop;
    const std::string pointer = text.substr(end + 1, stop - end - 1);
    if (pointer.empty() || !is_buffer(pointer))
      fail_unsupported("K0645", str("a kernel of this package calls ", name, " with a pointer that is no buffer's"));
    const int number = pointer[0] == 'b' ? std::stoi(pointer.substr(1)) : buffers_ + std::stoi(pointer.substr(7));
    // A masked scatter is the same name with one argument more.
    std::string variant = access.variant, key = str("kc", name.substr(1));
    if (access.operation == "scatter" && arguments(text, end) == 4) variant = "m", key += "_m";
    macros_.emplace(key, macro(key, name, form_of(name, access.operation, variant)));
    end = stop;
    return str(key, "(", number, ", ", pointer);
  }
  static int arguments(const std::string& text, size_t open) {
    int depth = 0, count = 1;
    for (size_t i = open; i < text.size(); ++i) {
      if (text[i] == '(') ++depth;
      if (text[i] == ')' && --depth == 0) return count;
      if (text[i] == ',' && depth == 1) ++count;
    }
    return count;
  }
  int buffers_ = 0;  // of the current function
  std::map<std::string, std::string> macros_;
};

}  // namespace

std::string with_checked_accesses(const std::string& unit, int lanes) {
  const size_t begin = unit.find(head);
  if (begin == std::string::npos) return unit;
  Rewriting rewriting;
  const std::string kernels = rewriting.run(unit.substr(begin));
  return str(unit.substr(0, begin), "enum { kc_lanes = ", lanes, " };", checks, rewriting.macros(), kernels);
}

}  // namespace kiln::codegen
