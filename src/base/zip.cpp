#include "base/zip.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/crc32.h"
#include "base/error.h"
#include "base/zip_format.h"

namespace kiln {
namespace {

using namespace zip_format;

// A fuzzer changes bytes and knows no checksums: what lies behind them would never be reached.
#if defined(KILN_FUZZING)
constexpr bool checks_on_reading = false;
#else
constexpr bool checks_on_reading = true;
#endif

// Deflate cannot do better than this; a header that claims more lies.
constexpr uint64_t best_deflate_ratio = 1032;
// Of what nobody says how large it is (texts, pickles): the JSON of 32 equal blocks packs 23-fold. Small ones may do
// more.
constexpr uint64_t best_text_ratio = 200, small_text = 1 << 20;

// While it lives, no page is read ahead: the headers of large entries lie far apart, and the kernel would fetch
// megabytes of weights around each. Only advice: memory that is no mapped file does not mind.
class NoReadAhead {
 public:
  explicit NoReadAhead(ByteSpan bytes) {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data()), end = begin + bytes.size();
    start_ = reinterpret_cast<void*>((begin + page - 1) / page * page);
    const auto first = reinterpret_cast<uintptr_t>(start_);
    size_ = end > first ? (end - first) / page * page : 0;
    if (size_ != 0) ::madvise(start_, size_, MADV_RANDOM);
  }
  ~NoReadAhead() {
    if (size_ != 0) ::madvise(start_, size_, MADV_NORMAL);
  }
  NoReadAhead(const NoReadAhead&) = delete;
  NoReadAhead& operator=(const NoReadAhead&) = delete;

 private:
  void* start_ = nullptr;
  size_t size_ = 0;
};

template <class T>
T read_at(ByteSpan bytes, uint64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
uint16_t u16(ByteSpan bytes, uint64_t at) { return read_at<uint16_t>(bytes, at); }
uint32_t u32(ByteSpan bytes, uint64_t at) { return read_at<uint32_t>(bytes, at); }
uint64_t u64(ByteSpan bytes, uint64_t at) { return read_at<uint64_t>(bytes, at); }

[[noreturn]] void fail_zip(const std::string& label, const std::string& what) {
  fail_user("K0110", str(label, " is not a sound zip archive: ", what));
}
[[noreturn]] void fail_entry(const std::string& label, std::string_view entry, const std::string& what) {
  fail_user("K0111", str(label, ": entry ", quote(entry), ": ", what));
}

}  // namespace

ZipReader::ZipReader(ByteSpan archive, std::string label, InflateFunction inflate, uint64_t check_up_to)
    : archive_(archive), label_(std::move(label)), inflate_(inflate), check_up_to_(check_up_to) {
  read_directory(find_directory());
  for (size_t i = 0; i < entries_.size(); ++i)
    if (!by_name_.emplace(entries_[i].name, i).second) fail_entry(label_, entries_[i].name, "the name comes twice");
  check_overlaps();
}

ZipReader::Directory ZipReader::find_directory() const {
  const uint64_t size = archive_.size();
  if (size < end_bytes) fail_zip(label_, size == 0 ? "the file is empty" : "the file is too short");
  // The end record is last but for a comment of at most 65535 bytes.
  const uint64_t lowest = size > end_bytes + 65535 ? size - end_bytes - 65535 : 0;
  uint64_t end = size - end_bytes;
  while (u32(archive_, end) != end_signature || end + end_bytes + u16(archive_, end + 20) != size) {
    if (end == lowest) fail_zip(label_, "no directory at its end (cut short, or not a zip archive)");
    --end;
  }
  Directory found{u16(archive_, end + 10), u32(archive_, end + 12), u32(archive_, end + 16)};
  if (u16(archive_, end + 4) != 0 && u16(archive_, end + 4) != 0xffff)
    fail_zip(label_, "archives in several parts are not read");
  uint64_t limit = end;
  if (end >= locator64_bytes && u32(archive_, end - locator64_bytes) == locator64_signature) {
    const uint64_t at = u64(archive_, end - locator64_bytes + 8);
    if (at > end - locator64_bytes || end - locator64_bytes - at < end64_bytes || u32(archive_, at) != end64_signature)
      fail_zip(label_, "its Zip64 directory record is not where it is said to be");
    found = {u64(archive_, at + 32), u64(archive_, at + 40), u64(archive_, at + 48)};
    limit = at;
  }
  if (found.offset > limit || found.bytes > limit - found.offset)
    fail_zip(label_, "its directory lies outside the file");
  if (found.entries > found.bytes / central_bytes)
    fail_zip(label_, str("its directory cannot hold ", found.entries, " entries"));
  return found;
}

void ZipReader::read_directory(const Directory& directory) {
  const NoReadAhead headers_only(archive_.first(directory.offset));
  uint64_t at = directory.offset;
  const uint64_t end = directory.offset + directory.bytes;
  entries_.reserve(directory.entries);
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (end - at < central_bytes || u32(archive_, at) != central_signature)
      fail_zip(label_, str("entry ", i, " of its directory is damaged"));
    const uint64_t name_bytes = u16(archive_, at + 28), extra_bytes = u16(archive_, at + 30);
    const uint64_t whole = central_bytes + name_bytes + extra_bytes + u16(archive_, at + 32);
    if (end - at < whole) fail_zip(label_, str("entry ", i, " of its directory is cut short"));
    ZipEntry entry;
    entry.name = std::string(as_text(archive_.subspan(at + central_bytes, name_bytes)));
    if ((u16(archive_, at + 8) & flag_encrypted) != 0) fail_entry(label_, entry.name, "encrypted entries are not read");
    const uint16_t method = u16(archive_, at + 10);
    if (method != method_stored && method != method_deflated)
      fail_entry(label_, entry.name, str("compression method ", method, " is not read"));
    entry.deflated = method == method_deflated;
    entry.crc = u32(archive_, at + 16);
    entry.stored_bytes = u32(archive_, at + 20);
    entry.bytes = u32(archive_, at + 24);
    entry.header = u32(archive_, at + 42);
    // Zip64: each field that is all ones stands in the extra field instead, in this order.
    ByteSpan extra = archive_.subspan(at + central_bytes + name_bytes, extra_bytes);
    while (extra.size() >= 4) {
      const uint64_t length = u16(extra, 2);
      if (length > extra.size() - 4) break;  // padding of other programs; what matters is checked below
      if (u16(extra, 0) == extra_zip64) {
        ByteSpan fields = extra.subspan(4, length);
        for (uint64_t* field : {&entry.bytes, &entry.stored_bytes, &entry.header}) {
          if (*field != 0xffffffff) continue;
          if (fields.size() < 8) fail_entry(label_, entry.name, "its Zip64 sizes are missing");
          *field = u64(fields, 0);
          fields = fields.subspan(8);
        }
        break;
      }
      extra = extra.subspan(4 + length);
    }
    place(entry, directory.offset);
    entries_.push_back(std::move(entry));
    at += whole;
  }
}

void ZipReader::place(ZipEntry& entry, uint64_t limit) const {
  if (entry.header > limit || limit - entry.header < local_bytes || u32(archive_, entry.header) != local_signature)
    fail_entry(label_, entry.name, "its header is not where the directory says");
  const uint64_t name_bytes = u16(archive_, entry.header + 26);
  entry.data = entry.header + local_bytes + name_bytes + u16(archive_, entry.header + 28);
  if (entry.data > limit || limit - entry.data < entry.stored_bytes)
    fail_entry(label_, entry.name, str("its ", entry.stored_bytes, " bytes reach outside the file"));
  if (as_text(archive_.subspan(entry.header + local_bytes, name_bytes)) != entry.name)
    fail_entry(label_, entry.name, "its header has another name");
  if (!entry.deflated && entry.bytes != entry.stored_bytes)
    fail_entry(label_, entry.name, "it is not compressed, but its two sizes differ");
  if (entry.deflated && entry.bytes / best_deflate_ratio > entry.stored_bytes)
    fail_entry(label_, entry.name, str("it cannot inflate to ", entry.bytes, " bytes"));
}

void ZipReader::check_overlaps() const {
  std::vector<const ZipEntry*> order;
  order.reserve(entries_.size());
  for (const ZipEntry& entry : entries_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const ZipEntry* a, const ZipEntry* b) { return a->header < b->header; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->header < order[i - 1]->data + order[i - 1]->stored_bytes)
      fail_entry(label_, order[i]->name, str("it overlaps ", quote(order[i - 1]->name)));
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

const ZipEntry& ZipReader::at(std::string_view name) const {
  const ZipEntry* entry = find(name);
  if (entry == nullptr) fail_user("K0114", str(label_, " has no entry ", quote(name)));
  return *entry;
}

ByteSpan ZipReader::stored(const ZipEntry& entry) const {
  if (entry.deflated) fail_entry(label_, entry.name, "it is compressed; it must be stored to be used in place");
  return archive_.subspan(entry.data, entry.stored_bytes);
}

SharedBytes ZipReader::data_of(const ZipEntry& entry, uint64_t may_hold) const {
  if (!entry.deflated) return {stored(entry), nullptr};
  const bool grows = entry.bytes > small_text && entry.bytes / best_text_ratio > entry.stored_bytes;
  if (entry.bytes > may_hold && grows)
    fail_user("K0112", str(label_, ": entry ", quote(entry.name), " would inflate from ", entry.stored_bytes,
                           " bytes to ", entry.bytes, ", more than it can have to say"));
  return inflated(entry, entry.bytes, true);
}

SharedBytes ZipReader::read_start(const ZipEntry& entry, uint64_t bytes) const {
  bytes = std::min(bytes, entry.bytes);
  if (!entry.deflated) return {stored(entry).first(bytes), nullptr};
  return inflated(entry, bytes, false);
}

SharedBytes ZipReader::inflated(const ZipEntry& entry, uint64_t bytes, bool whole) const {
  if (inflate_ == nullptr) fail_entry(label_, entry.name, "compressed entries are not read here");
  auto out = std::make_shared<std::vector<std::byte>>(
      inflate_(archive_.subspan(entry.data, entry.stored_bytes), bytes, whole, entry.name));
  return {*out, out};
}

SharedBytes ZipReader::read(const ZipEntry& entry, uint64_t may_hold) const {
  SharedBytes data = data_of(entry, may_hold);
  if (checks_on_reading && (entry.deflated || entry.stored_bytes <= check_up_to_)) check_bytes(entry, data.bytes);
  return data;
}

void ZipReader::check_bytes(const ZipEntry& entry, ByteSpan bytes) const {
  if (crc32(bytes) != entry.crc)
    fail_user("K0115", str(label_, ": entry ", quote(entry.name), " is damaged (its checksum differs)"));
}

bool ZipReader::sound(const ZipEntry& entry) const { return crc32(data_of(entry, 0).bytes) == entry.crc; }

void ZipReader::check_crc(const ZipEntry& entry) const { check_bytes(entry, data_of(entry, 0).bytes); }

}  // namespace kiln
