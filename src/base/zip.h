// Zip archives, as PyTorch's .pt2 and .pt files and Kiln's packages use them.
//
// ZipReader works over bytes in memory (usually a mapped file), which must outlive it. Everything it gives out has been
// checked against the length of the archive: no entry lies outside, none overlaps another, no name comes twice. Stored
// entries are given out in place; deflated ones need an inflate function (base/inflate.h; the runtime links none).
//
// ZipWriter writes stored entries, each one's data aligned to 64 bytes, with fixed timestamps: equal contents give
// equal bytes.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace kiln {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  uint32_t crc = 0;
  uint64_t stored_bytes = 0;  // in the archive
  uint64_t bytes = 0;         // after inflating
  uint64_t header = 0;        // of the local header, from the start of the archive
  uint64_t data = 0;          // of the data
};

// The first `bytes` that raw deflate data hold; `whole`: exactly so many, or it throws. Memory is asked for as data
// come, never on the word of a header alone. `name` is for the message.
using InflateFunction = std::vector<std::byte> (*)(ByteSpan deflated, uint64_t bytes, bool whole,
                                                   std::string_view name);

// Bytes together with what keeps them alive (nothing for bytes that lie in the archive itself).
struct SharedBytes {
  ByteSpan bytes;
  std::shared_ptr<const void> keep;
};

class ZipReader {
 public:
  // `label` names the archive in messages (its path). `check_up_to`: see read().
  ZipReader(ByteSpan archive, std::string label, InflateFunction inflate = nullptr, uint64_t check_up_to = UINT64_MAX);
  const std::vector<ZipEntry>& entries() const { return entries_; }  // in the directory's order
  const ZipEntry* find(std::string_view name) const;                 // nullptr: none
  const ZipEntry& at(std::string_view name) const;                   // throws K0114
  ByteSpan stored(const ZipEntry& entry) const;                      // in place; throws for a deflated entry
  // In place or inflated, and checked: every byte is read, against the entry's checksum (K0115). Stored entries of more
  // than check_up_to bytes are given out as they are, for those who want to see what is there and not use it. What a
  // deflated entry holds is not known before; the caller says what it may hold, and beyond that it may not grow more
  // than text does (K0112).
  SharedBytes read(const ZipEntry& entry, uint64_t may_hold = 0) const;
  SharedBytes read_start(const ZipEntry& entry, uint64_t bytes) const;  // so many of its first bytes, or all; unchecked
  bool sound(const ZipEntry& entry) const;                              // whether its bytes have its checksum
  void check_crc(const ZipEntry& entry) const;                          // throws K0115
  const std::string& label() const { return label_; }

 private:
  struct Directory {
    uint64_t entries, bytes, offset;
  };
  Directory find_directory() const;
  void read_directory(const Directory& directory);
  void place(ZipEntry& entry, uint64_t limit) const;
  SharedBytes inflated(const ZipEntry& entry, uint64_t bytes, bool whole) const;
  void check_overlaps() const;
  SharedBytes data_of(const ZipEntry& entry, uint64_t may_hold) const;
  void check_bytes(const ZipEntry& entry, ByteSpan bytes) const;

  ByteSpan archive_;
  std::string label_;
  InflateFunction inflate_;
  uint64_t check_up_to_;
  std::vector<ZipEntry> entries_;
  std::map<std::string_view, size_t> by_name_;  // keys point into entries_
};

class ZipWriter {
 public:
  using Sink = std::function<void(ByteSpan)>;
  static constexpr uint64_t alignment = 64;
  explicit ZipWriter(Sink sink) : sink_(std::move(sink)) {}
  void add(std::string_view name, ByteSpan data) { add_pieces(name, {data}); }
  void add(std::string_view name, std::string_view text) { add(name, as_bytes(text)); }
  // One entry whose data are these pieces in a row; they are read twice (checksum first), never gathered.
  void add_pieces(std::string_view name, const std::vector<ByteSpan>& pieces);
  void finish();  // writes the directory; nothing may be added afterwards

 private:
  void put(ByteSpan bytes);
  Sink sink_;
  std::vector<ZipEntry> entries_;
  std::map<std::string, bool, std::less<>> names_;
  uint64_t written_ = 0;
};

}  // namespace kiln
