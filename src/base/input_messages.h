// Inputs that do not fit: when a given constant is the exported one, which number a size gives for a symbol, and what
// is said of the rest, with PyTorch's wording where users look for it. The one place for the reference interpreter and
// the loops (graph/input_binder.h) and for the runtime (runtime/input_errors.h): whoever runs a program refuses the
// same inputs with the same words.
//   K0610 number of inputs   K0611 kind      K0612 constant   K0613 device   K0614 dtype   K0615 number of dimensions
//   K0616 static size        K0617 range     K0618 size that follows from others            K0619 relation
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kiln {

// A value as the caller gave it, or as the program fixes it: as much of it as a check or a message needs.
struct GivenValue {
  enum class Kind : uint8_t { none, tensor, integer, floating, boolean, string, list, other };
  Kind kind = Kind::none;
  int64_t integer = 0;      // integer, boolean
  double floating = 0;      // floating
  std::string_view text{};  // string; other: what it is
};
std::string given_text(const GivenValue& value);  // None, a tensor, 3, 1.5, True, "sum"

// A constant input has the value of the export; another value would need another program. True is 1, and 2 is 2.0.
bool same_constant(const GivenValue& wanted, const GivenValue& got);

// `size` = scale * symbol + rest, for the symbol. Nothing: it gives no whole number of 64 bits.
std::optional<int64_t> solve_symbol(int64_t size, int64_t scale, int64_t rest);

// An input, or one of its sizes.
struct InputPlace {
  size_t input = 0;
  std::string_view name;
  int64_t dim = -1;  // -1: the input is the number itself
};

[[noreturn]] void refuse_input(const char* code, const InputPlace& place, const std::string& text);
[[noreturn]] void refuse_input_count(size_t expected, const std::string& names, size_t got);
[[noreturn]] void refuse_input_kind(const InputPlace& place, const char* expected, const std::string& got);
[[noreturn]] void refuse_input_constant(const InputPlace& place, const GivenValue& wanted, const GivenValue& got);
[[noreturn]] void refuse_input_device(const InputPlace& place, const std::string& expected, const std::string& got);
[[noreturn]] void refuse_input_dtype(const InputPlace& place, const std::string& expected, const std::string& got);
[[noreturn]] void refuse_input_rank(const InputPlace& place, size_t expected, int64_t got);
// A size that is fixed; or, with the expression and where its symbols come from, one that follows from others.
[[noreturn]] void refuse_input_size(const InputPlace& place, int64_t expected, int64_t got, std::string_view expression,
                                    const std::string& symbols);
[[noreturn]] void refuse_unsolved(const InputPlace& place, std::string_view expression, std::string_view symbol,
                                  int64_t got);
// `expression`: what the size is of the symbol; empty: the symbol itself.
[[noreturn]] void refuse_input_range(const InputPlace& place, std::string_view symbol, int64_t value, int64_t low,
                                     int64_t high, std::string_view expression, int64_t got);
[[noreturn]] void refuse_relation(std::string_view condition, std::string_view reason, const std::string& symbols,
                                  const std::string& why_unknown);

// "s0 = 8 from input_handles[0] 'x' dim 0"; without a place: "u0 = 3".
std::string symbol_text(std::string_view symbol, const std::string& value, const InputPlace* place);

}  // namespace kiln
