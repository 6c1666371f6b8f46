#include <cstring>

#include "base/crc32.h"
#include "base/error.h"
#include "base/zip.h"
#include "base/zip_format.h"

namespace kiln {
namespace {

using namespace zip_format;

constexpr uint64_t all_ones = 0xffffffff;
bool too_big(uint64_t value) { return value >= all_ones; }

struct Record {
  std::string bytes;
  template <class T>
  Record& put(T value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes.append(raw, sizeof value);
    return *this;
  }
  Record& size32(uint64_t value) { return put(static_cast<uint32_t>(too_big(value) ? all_ones : value)); }
};

// From "version needed" to the checksum: alike in local headers and in the directory.
void put_start(Record& out, const ZipEntry& entry, bool zip64) {
  out.put(zip64 ? version_zip64 : version_plain).put(flag_utf8).put(method_stored);
  out.put(uint16_t{0}).put(fixed_date).put(entry.crc);
}

}  // namespace

void ZipWriter::put(ByteSpan bytes) {
  sink_(bytes);
  written_ += bytes.size();
}

void ZipWriter::add_pieces(std::string_view name, const std::vector<ByteSpan>& pieces) {
  KILN_CHECK(!name.empty() && name.size() < 65535, "bad name of an archive entry");
  KILN_CHECK(names_.emplace(name, true).second, str("archive entry added twice: ", name));
  ZipEntry entry;
  entry.name = name;
  entry.header = written_;
  for (const ByteSpan& piece : pieces) {
    entry.crc = crc32(piece, entry.crc);
    entry.bytes += piece.size();
  }
  entry.stored_bytes = entry.bytes;
  const bool zip64 = too_big(entry.bytes);
  Record extra;
  if (zip64) extra.put(extra_zip64).put(uint16_t{16}).put(entry.bytes).put(entry.stored_bytes);
  const uint64_t unpadded = written_ + local_bytes + name.size() + extra.bytes.size() + 4;
  const uint64_t padding = (alignment - unpadded % alignment) % alignment;
  extra.put(extra_padding).put(static_cast<uint16_t>(padding));
  extra.bytes.append(padding, 'Z');

  Record header;
  header.put(local_signature);
  put_start(header, entry, zip64);
  header.size32(entry.stored_bytes).size32(entry.bytes);
  header.put(static_cast<uint16_t>(name.size())).put(static_cast<uint16_t>(extra.bytes.size()));
  put(as_bytes(header.bytes));
  put(as_bytes(name));
  put(as_bytes(extra.bytes));
  entry.data = written_;
  for (const ByteSpan& piece : pieces) put(piece);
  entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
  const uint64_t directory = written_;
  for (const ZipEntry& entry : entries_) {
    Record extra;
    for (uint64_t value : {entry.bytes, entry.stored_bytes, entry.header})
      if (too_big(value)) extra.put(value);
    if (!extra.bytes.empty()) {
      Record field;
      field.put(extra_zip64).put(static_cast<uint16_t>(extra.bytes.size()));
      extra.bytes = field.bytes + extra.bytes;
    }
    const bool zip64 = !extra.bytes.empty();
    Record row;
    row.put(central_signature).put(zip64 ? version_zip64 : version_plain);
    put_start(row, entry, zip64);
    row.size32(entry.stored_bytes).size32(entry.bytes);
    row.put(static_cast<uint16_t>(entry.name.size())).put(static_cast<uint16_t>(extra.bytes.size()));
    row.put(uint16_t{0}).put(uint16_t{0}).put(uint16_t{0}).put(uint32_t{0}).size32(entry.header);
    put(as_bytes(row.bytes));
    put(as_bytes(entry.name));
    put(as_bytes(extra.bytes));
  }
  const uint64_t end = written_, bytes = end - directory, count = entries_.size();
  Record tail;
  if (count >= 0xffff || too_big(directory) || too_big(bytes)) {
    tail.put(end64_signature).put(end64_bytes - 12).put(version_zip64).put(version_zip64);
    tail.put(uint32_t{0}).put(uint32_t{0}).put(count).put(count).put(bytes).put(directory);
    tail.put(locator64_signature).put(uint32_t{0}).put(end).put(uint32_t{1});
  }
  const auto count16 = static_cast<uint16_t>(count >= 0xffff ? 0xffff : count);
  tail.put(end_signature).put(uint16_t{0}).put(uint16_t{0}).put(count16).put(count16);
  tail.size32(bytes).size32(directory).put(uint16_t{0});
  put(as_bytes(tail.bytes));
}

}  // namespace kiln
