#include "base/crc32.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln {
namespace {

uint32_t bit_by_bit(ByteSpan bytes, uint32_t crc) {
  crc = ~crc;
  for (std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

std::vector<std::byte> noise(size_t count) {
  std::vector<std::byte> bytes(count);
  uint32_t state = 7;
  for (std::byte& byte : bytes) state = state * 1664525 + 1013904223, byte = static_cast<std::byte>(state >> 24);
  return bytes;
}

TEST(Crc32, KnowsTheUsualExample) {
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xcbf43926u);
  EXPECT_EQ(crc32({}), 0u);
}

// Short pieces go through tables, long ones are folded: every length where one meets the other, at every alignment.
TEST(Crc32, AgreesWithItsDefinition) {
  const std::vector<std::byte> bytes = noise(700);
  for (size_t length = 0; length <= 300; ++length)
    for (size_t at : {size_t{0}, size_t{1}, length % 64, size_t{399}}) {
      const ByteSpan piece = ByteSpan(bytes).subspan(at, length);
      ASSERT_EQ(crc32(piece), bit_by_bit(piece, 0)) << length << " bytes at " << at;
      ASSERT_EQ(crc32(piece, 0x12345678), bit_by_bit(piece, 0x12345678)) << length << " bytes at " << at;
    }
}

TEST(Crc32, GoesOnWhereItStopped) {
  const std::vector<std::byte> bytes = noise(5000);
  const ByteSpan all(bytes);
  for (size_t cut : {1u, 63u, 64u, 1000u, 4999u})
    EXPECT_EQ(crc32(all.subspan(cut), crc32(all.first(cut))), crc32(all)) << cut;
}

TEST(Crc32, SeesEveryFlippedBit) {
  std::vector<std::byte> bytes = noise(257);
  const uint32_t sound = crc32(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    ASSERT_NE(crc32(bytes), sound) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

}  // namespace
}  // namespace kiln
