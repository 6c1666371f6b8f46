// A zip archive taken apart, so that one entry can be changed and the rest put together again with right checksums.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace kiln::mutants {

struct Entry {
  std::string name, bytes;
};

struct Archive {
  std::vector<Entry> entries;
  static Archive read(std::string_view bytes, const std::string& label);
  std::string written() const;                          // stored, aligned, checksums of what is there now
  Entry* find(std::string_view end);                    // the entry whose name ends so; nullptr: none
  std::vector<Entry*> all(std::string_view contained);  // those whose name contains it
};

// The archive with this entry deflated, and said to inflate to `claimed` bytes, packed in `packed` bytes.
struct Claim {
  uint64_t bytes = 0;         // after inflating, as its two headers say
  std::string_view contents;  // what is deflated
};
std::string with_deflated(const Archive& archive, size_t entry, const Claim& claim);

}  // namespace kiln::mutants
