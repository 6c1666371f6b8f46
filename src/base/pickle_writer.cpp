#include <bit>
#include <limits>

#include "base/error.h"
#include "base/pickle.h"

namespace kiln {
namespace {

template <class T>
void put_little_endian(std::string& out, T value, size_t bytes) {
  auto bits = static_cast<uint64_t>(value);
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>((bits >> (8 * i)) & 0xff);
}

}  // namespace

PickleWriter::PickleWriter() : out_("\x80\x02") {}

void PickleWriter::integer(int64_t v) {
  if (v >= 0 && v < 256) {
    op('K');
    put_little_endian(out_, v, 1);
  } else if (v >= std::numeric_limits<int32_t>::min() && v <= std::numeric_limits<int32_t>::max()) {
    op('J');
    put_little_endian(out_, v, 4);
  } else {
    op('\x8a');
    op('\x08');
    put_little_endian(out_, v, 8);
  }
}

void PickleWriter::real(double v) {
  op('G');
  const auto bits = std::bit_cast<uint64_t>(v);
  for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>((bits >> shift) & 0xff);
}

void PickleWriter::string(std::string_view v) {
  KILN_CHECK(v.size() < std::numeric_limits<uint32_t>::max(), "a string of a pickle is too long");
  op('X');
  put_little_endian(out_, v.size(), 4);
  out_ += v;
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  op('c');
  out_ += str(module, "\n", name, "\n");
}

std::string PickleWriter::finish() {
  op('.');
  return std::move(out_);
}

}  // namespace kiln
