#include "base/zip.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/crc32.h"
#include "base/deflate_test.h"
#include "base/error.h"
#include "base/inflate.h"

namespace kiln {
namespace {

std::string write_zip(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string out;
  ZipWriter zip([&out](ByteSpan bytes) { out += as_text(bytes); });
  for (const auto& [name, data] : entries) zip.add(name, data);
  zip.finish();
  return out;
}

std::string zip_error_of(const std::string& archive, InflateFunction inflate = inflate_entry) {
  try {
    const ZipReader zip(as_bytes(archive), "archive", inflate);
    for (const ZipEntry& entry : zip.entries()) zip.check_crc(entry);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

template <class T>
void poke(std::string& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

size_t central_of(const std::string& archive, size_t which) {
  size_t at = archive.find("PK\x01\x02");
  while (which-- > 0) at = archive.find("PK\x01\x02", at + 1);
  return at;
}

TEST(Zip, WhatIsWrittenIsRead) {
  const std::string archive = write_zip({{"a", "hello"}, {"dir/b", std::string(1000, 'x')}, {"empty", ""}});
  const ZipReader zip(as_bytes(archive), "archive");
  ASSERT_EQ(zip.entries().size(), 3u);
  EXPECT_EQ(as_text(zip.stored(zip.at("a"))), "hello");
  EXPECT_EQ(as_text(zip.read(zip.at("dir/b")).bytes), std::string(1000, 'x'));
  EXPECT_EQ(zip.at("empty").bytes, 0u);
  EXPECT_EQ(zip.find("none"), nullptr);
  for (const ZipEntry& entry : zip.entries()) {
    EXPECT_EQ(entry.data % ZipWriter::alignment, 0u) << entry.name;
    zip.check_crc(entry);
  }
}

TEST(Zip, BytesAreDeterministic) {
  EXPECT_EQ(write_zip({{"a", "1"}, {"b", "2"}}), write_zip({{"a", "1"}, {"b", "2"}}));
}

TEST(Zip, ManyEntriesNeedZip64) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (int i = 0; i < 66000; ++i) entries.emplace_back(std::to_string(i), "");
  const std::string archive = write_zip(entries);
  const ZipReader zip(as_bytes(archive), "archive");
  EXPECT_EQ(zip.entries().size(), 66000u);
  EXPECT_NE(zip.find("65999"), nullptr);
}

TEST(Zip, PiecesAreOneEntry) {
  std::string out;
  ZipWriter zip([&out](ByteSpan bytes) { out += as_text(bytes); });
  zip.add_pieces("a", {as_bytes("he"), as_bytes(""), as_bytes("llo")});
  zip.finish();
  const ZipReader reader(as_bytes(out), "archive");
  EXPECT_EQ(as_text(reader.stored(reader.at("a"))), "hello");
  reader.check_crc(reader.at("a"));
}

TEST(Zip, WhatIsReadHasItsChecksum) {
#if defined(KILN_FUZZING)
  GTEST_SKIP() << "fuzzers read what has no checksum";
#endif
  std::string archive = write_zip({{"small", "hello"}, {"large", std::string(1000, 'x')}});
  archive[archive.find("hello")] ^= 1;
  archive[archive.find("xxx") + 500] ^= 1;
  const ZipReader zip(as_bytes(archive), "archive"), lenient(as_bytes(archive), "archive", nullptr, 100);
  EXPECT_FALSE(zip.sound(zip.at("small")));
  EXPECT_THROW(zip.read(zip.at("small")), Error);
  EXPECT_THROW(zip.read(zip.at("large")), Error);
  EXPECT_THROW(lenient.read(lenient.at("small")), Error);
  EXPECT_EQ(lenient.read(lenient.at("large")).bytes.size(), 1000u);
  EXPECT_FALSE(lenient.sound(lenient.at("large")));
  EXPECT_EQ(as_text(zip.stored(zip.at("large"))).size(), 1000u);
}

TEST(Zip, MissingEntryIsNamed) {
  const std::string archive = write_zip({{"a", "1"}});
  const ZipReader zip(as_bytes(archive), "archive");
  EXPECT_THROW(zip.at("b"), Error);
}

TEST(Zip, DamageIsRefused) {
  const std::string good = write_zip({{"first", "hello"}, {"second", "world"}});
  EXPECT_EQ(zip_error_of(good), "");
  EXPECT_NE(zip_error_of(""), "");
  for (size_t cut = 0; cut < good.size(); ++cut) EXPECT_NE(zip_error_of(good.substr(0, cut)), "") << cut;

  std::string bad = good;
  bad[bad.find("hello")] = 'j';
  EXPECT_NE(zip_error_of(bad).find("checksum"), std::string::npos);

  bad = good;  // sizes that reach past the end
  poke<uint32_t>(bad, central_of(bad, 1) + 20, 100000);
  poke<uint32_t>(bad, central_of(bad, 1) + 24, 100000);
  EXPECT_NE(zip_error_of(bad).find("\"second\""), std::string::npos);

  bad = good;  // the second entry is where the first is
  poke<uint32_t>(bad, central_of(bad, 1) + 42, 0);
  EXPECT_NE(zip_error_of(bad), "");

  bad = good;  // a size that reaches into the next entry
  poke<uint32_t>(bad, central_of(bad, 0) + 20, 60);
  poke<uint32_t>(bad, central_of(bad, 0) + 24, 60);
  EXPECT_NE(zip_error_of(bad).find("overlaps"), std::string::npos);

  bad = good;  // more entries than the directory can hold
  poke<uint16_t>(bad, bad.size() - 12, 60000);
  EXPECT_NE(zip_error_of(bad).find("60000"), std::string::npos);

  bad = good;
  poke<uint16_t>(bad, central_of(bad, 0) + 8, 1);
  EXPECT_NE(zip_error_of(bad).find("encrypted"), std::string::npos);

  bad = good;  // deflated, says the directory, and to a gigabyte
  poke<uint16_t>(bad, central_of(bad, 0) + 10, 8);
  poke<uint32_t>(bad, central_of(bad, 0) + 24, 1 << 30);
  EXPECT_NE(zip_error_of(bad).find("cannot inflate"), std::string::npos);
}

TEST(Zip, DuplicateNamesAreRefused) {
  std::string archive = write_zip({{"aa", "1"}, {"ab", "2"}});
  for (size_t at = archive.find("ab"); at != std::string::npos; at = archive.find("ab", at)) archive[at + 1] = 'a';
  EXPECT_NE(zip_error_of(archive).find("twice"), std::string::npos);
}

TEST(Zip, DeflatedEntriesNeedAnInflateFunction) {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "KILN_SOURCE_DIR is not set";
  const std::string archive = read_file(join_path(source, "tests/fuzz_seeds/zip/stored_and_deflated.zip"));
  const ZipReader zip(as_bytes(archive), "archive", inflate_entry);
  const SharedBytes data = zip.read(zip.at("deflated.txt"));
  EXPECT_EQ(data.bytes.size(), 300u);
  EXPECT_EQ(as_text(data.bytes).substr(0, 6), "abcabc");
  EXPECT_THROW(zip.stored(zip.at("deflated.txt")), Error);
  EXPECT_NE(zip_error_of(archive, nullptr), "");
}

// An archive with one deflated entry that claims a size.
std::string packed(const std::string& contents, uint32_t claimed) {
  std::string archive = write_zip({{"a", deflated(contents)}});
  poke<uint16_t>(archive, central_of(archive, 0) + 10, 8);
  poke<uint32_t>(archive, central_of(archive, 0) + 16, crc32(as_bytes(contents)));
  poke<uint32_t>(archive, central_of(archive, 0) + 24, claimed);
  return archive;
}

std::string inflated_or_code(const std::string& archive, uint64_t may_hold) {
  try {
    const ZipReader zip(as_bytes(archive), "archive", inflate_entry);
    return std::string(as_text(zip.read(zip.at("a"), may_hold).bytes));
  } catch (const Error& error) {
    return error.code();
  }
}

TEST(Zip, InflatingIsBounded) {
  const std::string zeros(4 << 20, '\0');
  const std::string bomb = packed(zeros, 4 << 20);
  EXPECT_EQ(inflated_or_code(bomb, 0), "K0112");          // packs 1000-fold, which no text does
  EXPECT_TRUE(inflated_or_code(bomb, 4 << 20) == zeros);  // an array of zeros does, and its header says so
  EXPECT_EQ(inflated_or_code(bomb, (4 << 20) - 1), "K0112");
  const std::string text = "strides and sizes";
  EXPECT_EQ(inflated_or_code(packed(text, 17), 0), text);
  for (uint32_t lie : {0u, 16u, 18u, 10000u}) EXPECT_EQ(inflated_or_code(packed(text, lie), 0), "K0113") << lie;
  EXPECT_EQ(inflated_or_code(packed(text, 1u << 30), 0), "K0111");  // more than deflate can do
}

TEST(Zip, TheStartOfAnEntryIsReadAlone) {
  const std::string archive = packed("strides and sizes", 17);
  const ZipReader zip(as_bytes(archive), "archive", inflate_entry);
  EXPECT_EQ(as_text(zip.read_start(zip.at("a"), 7).bytes), "strides");
  EXPECT_EQ(as_text(zip.read_start(zip.at("a"), 100).bytes), "strides and sizes");
}

}  // namespace
}  // namespace kiln
