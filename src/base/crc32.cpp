#include "base/crc32.h"

#include <array>
#include <cstring>

namespace kiln {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Eight tables let the loop take eight bytes at a time ("slicing by 8"): weights are gigabytes.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xedb88320u : 0u);
    tables[0][i] = value;
  }
  for (size_t t = 1; t < 8; ++t)
    for (size_t i = 0; i < 256; ++i) tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xff];
  return tables;
}

constexpr Tables tables = make_tables();

// The checksum of few bytes, or of many where the processor cannot multiply polynomials.
uint32_t by_tables(ByteSpan bytes, uint32_t crc) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= tables[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (; left != 0; --left, ++at) crc = (crc >> 8) ^ tables[0][(crc ^ static_cast<uint32_t>(*at)) & 0xff];
  return crc;
}

#if defined(__x86_64__)

// A message is a polynomial over one bit, and its checksum the remainder by the polynomial of the CRC. A part that lies
// n bits before another counts x^n times as much, and x^n may be replaced by its own remainder: so 16 bytes are folded
// onto those that come 64 (or 16) bytes later by two products with numbers of 32 bits. What is left has the same
// remainder as the whole.

// x^n modulo the polynomial, with the bits in the reversed order that zip's CRC has; one place higher, because the
// product of two reversed numbers comes out one place too low.
constexpr uint64_t power(int n) {
  uint32_t value = 0x80000000;  // 1
  for (; n > 0; --n) value = (value >> 1) ^ ((value & 1) != 0 ? 0xedb88320u : 0u);
  return uint64_t{value} << 1;
}

using Lanes = long long __attribute__((vector_size(16)));

__attribute__((target("pclmul"))) inline Lanes fold(Lanes part, Lanes factors, Lanes onto) {
  return __builtin_ia32_pclmulqdq128(part, factors, 0x00) ^ __builtin_ia32_pclmulqdq128(part, factors, 0x11) ^ onto;
}

inline Lanes load(const std::byte* at) {
  Lanes lanes;
  std::memcpy(&lanes, at, sizeof lanes);
  return lanes;
}

// Of the first 64 bytes or more; `bytes` is left with what remains, less than 16.
__attribute__((target("pclmul"))) uint32_t by_products(ByteSpan& bytes, uint32_t crc) {
  constexpr Lanes by_64 = {static_cast<long long>(power(512 + 32)), static_cast<long long>(power(512 - 32))};
  constexpr Lanes by_16 = {static_cast<long long>(power(128 + 32)), static_cast<long long>(power(128 - 32))};
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  Lanes a = load(at) ^ Lanes { static_cast<long long>(crc), 0 };
  Lanes b = load(at + 16), c = load(at + 32), d = load(at + 48);
  for (at += 64, left -= 64; left >= 64; at += 64, left -= 64) {
    a = fold(a, by_64, load(at)), b = fold(b, by_64, load(at + 16));
    c = fold(c, by_64, load(at + 32)), d = fold(d, by_64, load(at + 48));
  }
  a = fold(fold(fold(a, by_16, b), by_16, c), by_16, d);
  for (; left >= 16; at += 16, left -= 16) a = fold(a, by_16, load(at));
  std::byte folded[16];
  std::memcpy(folded, &a, sizeof folded);
  bytes = {at, left};
  return by_tables(folded, 0);
}

bool has_products() {
  const bool has = __builtin_cpu_supports("pclmul") != 0;
  return has;
}

#else

bool has_products() { return false; }
uint32_t by_products(ByteSpan&, uint32_t crc) { return crc; }

#endif

}  // namespace

uint32_t crc32(ByteSpan bytes, uint32_t crc) {
  crc = ~crc;
  if (bytes.size() >= 64 && has_products()) crc = by_products(bytes, crc);
  return ~by_tables(bytes, crc);
}

}  // namespace kiln
