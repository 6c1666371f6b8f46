#include "base/sha256.h"

#include <gtest/gtest.h>

#include "base/crc32.h"

namespace kiln {
namespace {

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesAreTheWhole) {
  const std::string text(300, 'x');
  for (size_t cut = 0; cut <= text.size(); cut += 7) {
    Sha256 hash;
    hash.add(std::string_view(text).substr(0, cut));
    hash.add(std::string_view(text).substr(cut));
    EXPECT_EQ(hash.hex(), sha256_hex(text)) << cut;
  }
}

TEST(Crc32, KnownAnswersAndContinuation) {
  EXPECT_EQ(crc32(as_bytes("")), 0u);
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xcbf43926u);
  EXPECT_EQ(crc32(as_bytes("56789"), crc32(as_bytes("1234"))), 0xcbf43926u);
}

}  // namespace
}  // namespace kiln
