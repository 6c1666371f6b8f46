#include "package/plan_io.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace kiln::format {
namespace {

static_assert(std::endian::native == std::endian::little, "the plan is written as it lies in memory");

constexpr char origins_magic[8] = {'K', 'I', 'L', 'N', 'O', 'R', 'I', 'G'};
constexpr size_t header_bytes = 24;

template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <Plain T>
  void operator()(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      out_ += value ? '\1' : '\0';
    } else {
      raw(&value, sizeof value);
    }
  }
  void operator()(std::string& text) {
    count(text.size());
    out_ += text;
  }
  template <class T>
  void operator()(std::vector<T>& items) {
    count(items.size());
    for (T& item : items) (*this)(item);
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(T& value) {
    size_t at = out_.size();
    out_.append(4, '\0');
    fields(*this, value);
    size_t length = out_.size() - at - 4;
    if (length > UINT32_MAX) fail_unsupported("K0504", "the plan is larger than 4 GB");
    auto length32 = static_cast<uint32_t>(length);
    std::memcpy(out_.data() + at, &length32, 4);
  }

 private:
  void raw(const void* data, size_t bytes) { out_.append(static_cast<const char*>(data), bytes); }
  void count(size_t n) {
    uint64_t n64 = n;
    raw(&n64, 8);
  }
  std::string& out_;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const char* what) : bytes_(bytes), what_(what), end_(bytes.size()) {}

  template <Plain T>
  void operator()(T& value) {
    if (at_ == end_) return;  // written by an older minor version: the default stays
    if constexpr (std::is_same_v<T, bool>) {
      uint8_t byte = 0;
      raw(&byte, 1);
      value = byte != 0;
    } else {
      raw(&value, sizeof value);
    }
  }
  void operator()(std::string& text) {
    if (at_ == end_) return;
    size_t n = count(1);
    text.assign(reinterpret_cast<const char*>(bytes_.data()) + at_, n);
    at_ += n;
  }
  template <class T>
  void operator()(std::vector<T>& items) {
    if (at_ == end_) return;
    size_t n = count(least_bytes<T>());
    items.clear();
    items.reserve(std::min<size_t>(n, 4096));
    for (size_t i = 0; i < n; ++i) {
      if (at_ == end_) damaged("a list ends early");
      (*this)(items.emplace_back());
    }
  }
  template <class T>
  requires std::is_class_v<T>
  void operator()(T& value) {
    if (at_ == end_) return;
    if (++depth_ > 4 * max_block_depth) damaged("it is nested too deeply");
    uint32_t length = 0;
    raw(&length, 4);
    if (length > end_ - at_) damaged("a record is longer than what holds it");
    size_t outer = end_;
    end_ = at_ + length;
    fields(*this, value);
    at_ = end_;
    end_ = outer;
    --depth_;
  }

 private:
  template <class T>
  static constexpr size_t least_bytes() {
    if constexpr (std::is_same_v<T, std::string>) return 8;
    if constexpr (Plain<T>) return std::is_same_v<T, bool> ? 1 : sizeof(T);
    return 4;
  }
  void raw(void* to, size_t bytes) {
    if (bytes > end_ - at_) damaged("it ends early");
    std::memcpy(to, bytes_.data() + at_, bytes);
    at_ += bytes;
  }
  size_t count(size_t item_bytes) {
    uint64_t n = 0;
    raw(&n, 8);
    if (n > (end_ - at_) / item_bytes) damaged("a list is longer than what holds it");
    return static_cast<size_t>(n);
  }
  [[noreturn]] void damaged(const char* why) const {
    fail_user("K0501", str("the ", what_, " of this package is damaged: ", why, " (at byte ", at_ + header_bytes, ")"));
  }

  std::span<const std::byte> bytes_;
  const char* what_;
  size_t at_ = 0, end_;
  int depth_ = 0;
};

template <class T>
std::string write_record(const T& record, const char (&magic)[8]) {
  std::string payload;
  Writer writer(payload);
  writer(const_cast<T&>(record));  // `fields` serves both directions; the writer does not change what it visits
  std::string out(magic, 8);
  uint32_t version[2] = {plan_major, plan_minor};
  uint64_t bytes = payload.size();
  out.append(reinterpret_cast<const char*>(version), sizeof version);
  out.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  return out + payload;
}

template <class T>
T read_record(std::span<const std::byte> bytes, const char (&magic)[8], const char* what) {
  if (bytes.size() < header_bytes || std::memcmp(bytes.data(), magic, 8) != 0)
    fail_user("K0501", str("the ", what, " of this package is damaged: it does not start as it should"));
  uint32_t version[2];
  uint64_t payload = 0;
  std::memcpy(version, bytes.data() + 8, sizeof version);
  std::memcpy(&payload, bytes.data() + 16, sizeof payload);
  if (version[0] != plan_major)
    fail_user("K0502", str("the package has format ", version[0], ".", version[1], ", this Kiln reads ", plan_major,
                           ".x: ", version[0] > plan_major ? "use a newer Kiln runtime" : "compile the model again",
                           " (", what, ")"));
  if (payload != bytes.size() - header_bytes)
    fail_user("K0501", str("the ", what, " of this package is damaged: it says ", payload, " bytes and has ",
                           bytes.size() - header_bytes));
  T record;
  Reader reader(bytes.subspan(header_bytes), what);
  reader(record);
  return record;
}

}  // namespace

std::string write_plan(const Plan& plan) { return write_record(plan, plan_magic); }

Plan read_plan(std::span<const std::byte> bytes) {
  Plan plan = read_record<Plan>(bytes, plan_magic, "plan");
  check_plan(plan);
  return plan;
}

std::string write_origins(const Origins& origins) { return write_record(origins, origins_magic); }

Origins read_origins(std::span<const std::byte> bytes) {
  Origins origins = read_record<Origins>(bytes, origins_magic, "debug section (origins)");
  for (const StepOrigin& step : origins.steps) {
    size_t n = step.lines.size();
    if (step.nodes.size() != n || step.ops.size() != n || step.modules.size() != n)
      fail_user("K0503", str("the origins of step ", step.number, " have lists of different lengths"));
    if (step.values.size() != step.value_origins.size())
      fail_user("K0503", str("the origins of step ", step.number, " have lists of different lengths"));
    for (const int32_t origin : step.value_origins)
      if (origin < 0 || static_cast<size_t>(origin) >= n)
        fail_user("K0503", str("the origins of step ", step.number, " have no number ", origin));
  }
  return origins;
}

}  // namespace kiln::format
