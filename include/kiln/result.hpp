// How kiln.hpp says that something went wrong. Every call that can fail exists twice: under its name, which throws
// kiln::Exception, and as try_…, which gives a kiln::Result. Where exceptions are switched off (-fno-exceptions, or
// KILN_NO_EXCEPTIONS defined) only the second is there.
#pragma once
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "kiln/kiln.h"

#if defined(__cpp_exceptions) && !defined(KILN_NO_EXCEPTIONS)
#define KILN_EXCEPTIONS 1
#else
#define KILN_EXCEPTIONS 0
#endif

namespace kiln {

struct Failure {
  kiln_status status = KILN_ERROR_BUG;
  std::string code;  // stable: "K0602"
  std::string message;

  static Failure last(kiln_status status) { return {status, kiln_last_error_code(), kiln_last_error()}; }
};

#if KILN_EXCEPTIONS
class Exception : public std::runtime_error {
 public:
  Exception(kiln_status status, const char* message, const char* code)
      : std::runtime_error(message), status_(status), code_(code) {}
  explicit Exception(const Failure& failure)
      : Exception(failure.status, failure.message.c_str(), failure.code.c_str()) {}
  kiln_status status() const { return status_; }
  const std::string& code() const { return code_; }

 private:
  kiln_status status_;
  std::string code_;
};

inline void check(kiln_status status) {
  if (status != KILN_OK) throw Exception(Failure::last(status));
}
#endif

// A value, or why there is none: what std::expected is in C++23. `*` and `->` ask for what is known to be there.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = Failure;
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  const Failure& error() const { return *std::get_if<1>(&state_); }
  template <class U>
  T value_or(U&& otherwise) && {
    return has_value() ? std::move(**this) : static_cast<T>(std::forward<U>(otherwise));
  }
#if KILN_EXCEPTIONS
  T& value() & { return need(), **this; }
  const T& value() const& { return need(), **this; }
  T&& value() && { return need(), std::move(**this); }

 private:
  void need() const {
    if (!has_value()) throw Exception(error());
  }
#endif

 private:
  std::variant<T, Failure> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  using error_type = Failure;
  Result() = default;
  Result(Failure failure) : failure_(std::move(failure)) {}

  bool has_value() const { return !failure_; }
  explicit operator bool() const { return has_value(); }
  const Failure& error() const { return *failure_; }
#if KILN_EXCEPTIONS
  void value() const {
    if (failure_) throw Exception(*failure_);
  }
#endif

 private:
  std::optional<Failure> failure_;
};

inline Result<void> result_of(kiln_status status) {
  if (status != KILN_OK) return Failure::last(status);
  return {};
}

}  // namespace kiln
