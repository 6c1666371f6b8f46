#include "codegen/cuda/checked_access.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "codegen/c_family/printed_kernel.h"

namespace kiln::codegen {
namespace {

constexpr const char* kernel_head = "extern \"C\" __global__ void ";

// The slot is what a kernel raises with (kiln/kernel_abi.h): raised 2, at site the buffer's number and whether it was a
// store, then the place in bytes from the buffer's start, and how many. Nothing turns such a pointer into a plain one:
// what uses a buffer in a way that is not here does not compile.
constexpr const char* pointer_text = R"(
template <class T> struct kc_plain { typedef T type; };
template <class T> struct kc_plain<const T> { typedef T type; };
template <class T> struct kc_pointer {
  T* p;
  u64 begin;
  i64 bytes;
  kiln_gpu_error* error;
  i32 number, step;
  K_FN_MEMBER kc_pointer operator+(i64 n) const {
    kc_pointer moved = *this;
    moved.p = (T*)((u64)p + (u64)n * sizeof(T));
    return moved;
  }
  K_FN_MEMBER explicit operator u64() const { return (u64)p; }
  K_FN_MEMBER bool fine(i64 count, i32 store) const {
    const i64 at = (i64)((u64)p - begin), size = count * (i64)sizeof(T);
    if (count <= 0 || (at >= 0 && at <= bytes && bytes - at >= size)) return true;
    if (atomicCAS(&error->raised, 0, 2) == 0) {
      error->site = number * 2 + store;
      error->index = at;
      error->value = size;
      error->step = step;
    }
    return false;
  }
};
template <class T, class A> K_FN kc_pointer<T> kc_buffer(const A& args, i32 number, i64 bytes) {
  return {(T*)args.buffers[number], (u64)args.buffers[number], bytes, args.error, number, args.step};
}
template <class T, class A> K_FN kc_pointer<T> kc_scratch(const A& args, i32 number, char* begin, i64 offset) {
  return {(T*)(begin + offset), (u64)begin, args.scratch_bytes, args.error, number, args.step};
}
)";

constexpr const char* get_text = R"(template <class T> K_FN auto $name(kc_pointer<T> from) {
  const typename kc_plain<T>::type none = {};
  return $name(from.fine(1, 0) ? from.p : &none);
}
)";
constexpr const char* set_text = R"(template <class T, class V> K_FN void $name(kc_pointer<T> to, V v) {
  if (to.fine(1, 1)) $name(to.p, v);
}
)";

constexpr const char* words_text = R"(K_FN i64 kc_least(i64 a, i64 b) { return a < b ? a : b; }
template <int n, class T> K_FN gpu_word<typename kc_plain<T>::type, n> gpu_fetch(kc_pointer<T> from, bool wide, i64 left = n) {
  return gpu_fetch<n>((const typename kc_plain<T>::type*)from.p, wide, from.fine(kc_least(n, left), 0) ? left : 0);
}
template <int n, class T>
K_FN gpu_word<typename kc_plain<T>::type, n> gpu_fetch_fixed(kc_pointer<T> from, bool wide, i64 left = n) {
  return gpu_fetch_fixed<n>((const typename kc_plain<T>::type*)from.p, wide, from.fine(kc_least(n, left), 0) ? left : 0);
}
template <int n, class T> K_FN void gpu_put(kc_pointer<T> to, const gpu_word<T, n>& word, bool wide, i64 left = n) {
  if (to.fine(kc_least(n, left), 1)) gpu_put(to.p, word, wide, left);
}
)";

constexpr const char* copies_text =
    R"(template <class T> K_FN void gpu_copy_16(void* to, kc_pointer<T> from, bool wanted) {
  gpu_copy_16(to, (const void*)from.p, wanted && from.fine(16 / sizeof(T), 0));
}
template <class P, class T> K_FN void gpu_copy_element(P* to, kc_pointer<T> from, bool wanted) {
  gpu_copy_element(to, (const P*)from.p, wanted && from.fine(1, 0));
}
template <int n, class P, class T> K_FN void gpu_copy_chunk(P* to, kc_pointer<T> from, bool wanted, bool wide) {
  gpu_copy_chunk<n>(to, (const P*)from.p, wanted && from.fine(n, 0), wide);
}
)";

// Names of functions that begin so, in this text.
std::set<std::string> called(const std::string& text, std::string_view prefix) {
  std::set<std::string> out;
  for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at + 1)) {
    size_t end = at;
    while (end < text.size() && goes_on(text[end])) ++end;
    if ((at == 0 || !goes_on(text[at - 1])) && end < text.size() && text[end] == '(')
      out.insert(text.substr(at, end - at));
  }
  return out;
}

[[noreturn]] void not_known(const std::string& line) {
  fail_unsupported("K0645", str("a kernel of this package uses a buffer in a way that cannot be checked: ", line));
}

// Between two marks in a line, moving behind the second; throws where they are not there.
std::string_view between(const std::string& line, std::string_view first, std::string_view second, size_t& at) {
  const size_t begin = line.find(first, at);
  const size_t end = begin == std::string::npos ? begin : line.find(second, begin + first.size());
  if (end == std::string::npos) not_known(line);
  at = end + second.size();
  return std::string_view(line).substr(begin + first.size(), end - begin - first.size());
}

class CheckedKernel {
 public:
  // "extern … NAME(const kiln_arguments<2, 1> args) {"
  std::string head(const std::string& line) {
    size_t at = 0;
    buffers_ = std::stoi(std::string(between(line, "kiln_arguments<", ", ", at)));
    at -= 2;
    ints_ = std::stoi(std::string(between(line, ", ", ">", at)));
    return replace_all(line, str("kiln_arguments<", buffers_, ", ", ints_, ">"),
                       str("kiln_arguments<", buffers_, ", ", ints_ + buffers_, ">"));
  }
  std::string body(const std::string& line) const {
    size_t at = 0;
    // "  const f32* const b0 = (const f32*)args.buffers[0];"
    if (line.find("args.buffers[") != std::string::npos) {
      const std::string_view type = between(line, "  ", "* const b", at),
                             number = between(line, "args.buffers[", "]", at);
      return str("  const kc_pointer<", type, "> b", number, " = kc_buffer<", type, ">(args, ", number, ", args.ints[",
                 ints_ + std::stoi(std::string(number)), "]);");
    }
    // "  f32* const scratch0 = (f32*)(args.scratch + (…) * args.scratch_bytes + 0l);"
    if (line.find("args.scratch +") != std::string::npos) {
      const std::string_view type = between(line, "  ", "* const scratch", at);
      at -= 7;
      const std::string_view number = between(line, "scratch", " = ", at),
                             team = between(line, "*)(", " * args.scratch_bytes + ", at);
      const std::string offset = line.substr(at, line.rfind(");") - at);
      return str("  const kc_pointer<", type, "> scratch", number, " = kc_scratch<", type, ">(args, ",
                 buffers_ + std::stoi(std::string(number)), ", ", team, " * args.scratch_bytes, ", offset, ");");
    }
    // "    const bf16* left_from[4];": where a tile's words come from.
    const size_t type = line.find_first_not_of(' '), star = line.find("* "), from = line.find("_from[");
    if (from != std::string::npos && star < from && starts_with(std::string_view(line).substr(type), "const ") &&
        std::all_of(line.begin() + static_cast<ptrdiff_t>(star + 2), line.begin() + static_cast<ptrdiff_t>(from),
                    goes_on))
      return str(line.substr(0, type), "kc_pointer<", line.substr(type, star - type), ">", line.substr(star + 1));
    return line;
  }

 private:
  int buffers_ = 0, ints_ = 0;
};

}  // namespace

std::string cuda_with_checked_accesses(const std::string& unit) {
  const size_t begin = unit.find(kernel_head);
  if (begin == std::string::npos) return unit;
  const std::string front = unit.substr(0, begin);
  std::string kernels;
  CheckedKernel kernel;
  for (const std::string& line : split(unit.substr(begin), '\n'))
    kernels += (starts_with(line, kernel_head) ? kernel.head(line) : kernel.body(line)) + "\n";
  std::string more = pointer_text;
  for (const std::string& name : called(kernels, "k_get_")) more += replace_all(get_text, "$name", name);
  for (const char* prefix : {"k_set_", "gpu_atomic_add_"})
    for (const std::string& name : called(kernels, prefix)) more += replace_all(set_text, "$name", name);
  if (front.find("struct alignas(sizeof(T) * n < 16") != std::string::npos) more += words_text;
  if (front.find("void gpu_copy_chunk(") != std::string::npos) more += copies_text;
  return str(front, more, "\n", kernels);
}

}  // namespace kiln::codegen
