#include "base/inflate.h"
#include "base/zip.h"
#include "inspect/inspect.h"
#include "inspect/inspect_table.h"

namespace kiln {
namespace {

std::string hex(uint32_t value) {
  char text[9];
  snprintf(text, sizeof text, "%08x", value);
  return text;
}

// "" when the entry is sound. Compressed data may be so damaged that they cannot be read at all.
std::string damage(const ZipReader& zip, const ZipEntry& entry) {
  try {
    return zip.sound(entry) ? "" : "its bytes do not have its checksum";
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace

Verified verify_file(const std::string& path) {
  const auto file = MappedFile::open(path);
  const ZipReader zip(file->bytes(), path, inflate_entry);
  Verified out;
  TextTable table;
  uint64_t bytes = 0;
  size_t damaged = 0;
  Json entries = Json::array();
  for (const ZipEntry& entry : zip.entries()) {
    const std::string what = damage(zip, entry);
    bytes += entry.bytes;
    damaged += !what.empty();
    Json one = Json::object();
    one.set("name", entry.name), one.set("bytes", static_cast<int64_t>(entry.bytes)), one.set("crc32", hex(entry.crc));
    one.set("damage", what.empty() ? Json() : Json(what));
    entries.push(std::move(one));
    table.row({what.empty() ? "ok" : "DAMAGED", entry.name, bytes_text(entry.bytes), "crc32 " + hex(entry.crc), what});
  }
  out.sound = damaged == 0;
  out.json = Json::object();
  out.json.set("sound", out.sound), out.json.set("entries", std::move(entries));
  out.text = str(path, ": ", zip.entries().size(), " entries, ", bytes_text(bytes), " read\n", table.text());
  out.text += out.sound
                  ? "every entry has its checksum\n"
                  : str(damaged, " of ", zip.entries().size(), " entries ", damaged == 1 ? "is" : "are", " damaged\n");
  return out;
}

}  // namespace kiln
