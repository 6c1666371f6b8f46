#include "archive.h"

#include <cstring>

#include "base/crc32.h"
#include "base/deflate_test.h"
#include "base/inflate.h"
#include "base/text.h"
#include "base/zip.h"
#include "base/zip_format.h"

namespace kiln::mutants {
namespace {

template <class T>
void set(std::string& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

}  // namespace

Archive Archive::read(std::string_view bytes, const std::string& label) {
  const ZipReader zip(as_bytes(bytes), label, inflate_entry);
  Archive out;
  for (const ZipEntry& entry : zip.entries())
    out.entries.push_back({entry.name, std::string(as_text(zip.read(entry).bytes))});
  return out;
}

std::string Archive::written() const {
  std::string out;
  ZipWriter zip([&out](ByteSpan piece) { out.append(as_text(piece)); });
  for (const Entry& entry : entries) zip.add(entry.name, std::string_view(entry.bytes));
  zip.finish();
  return out;
}

Entry* Archive::find(std::string_view end) {
  for (Entry& entry : entries)
    if (ends_with(entry.name, end)) return &entry;
  return nullptr;
}

std::vector<Entry*> Archive::all(std::string_view contained) {
  std::vector<Entry*> out;
  for (Entry& entry : entries)
    if (entry.name.find(contained) != std::string::npos) out.push_back(&entry);
  return out;
}

std::string with_deflated(const Archive& archive, size_t entry, const Claim& claim) {
  using namespace zip_format;
  Archive packed = archive;
  packed.entries[entry].bytes = deflated(claim.contents);
  std::string out = packed.written();
  // The writer stores; the two headers of this entry are made to say that it is deflated.
  const ZipReader zip(as_bytes(out), "mutant");
  const uint64_t local = zip.entries()[entry].header;
  const auto size = static_cast<uint32_t>(claim.bytes);
  std::string changed = out;
  const uint32_t crc = crc32(as_bytes(claim.contents));
  set(changed, local + 8, method_deflated);
  set(changed, local + 14, crc);
  set(changed, local + 22, size);
  for (size_t at = out.rfind(std::string_view("PK\x05\x06", 4)); at-- > 0;) {
    uint32_t signature = 0, header = 0;
    std::memcpy(&signature, out.data() + at, 4);
    if (signature != central_signature) continue;
    std::memcpy(&header, out.data() + at + 42, 4);
    if (header != local) continue;
    set(changed, at + 10, method_deflated);
    set(changed, at + 16, crc);
    set(changed, at + 24, size);
    break;
  }
  return changed;
}

}  // namespace kiln::mutants
