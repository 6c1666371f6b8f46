#include "base/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <climits>

#include "base/error.h"

namespace kiln {
namespace {

struct Stream {
  z_stream z{};
  Stream() {
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) fail_user("K0113", "out of memory while inflating");
  }
  ~Stream() { inflateEnd(&z); }
};

void grow(std::vector<std::byte>& out, uint64_t bytes, std::string_view name) {
  try {
    out.resize(bytes);
  } catch (const std::exception&) {  // no memory, or no such size
    fail_user("K0113", str("out of memory while inflating entry ", quote(name), " to ", bytes_text(bytes)));
  }
}

}  // namespace

std::vector<std::byte> inflate_entry(ByteSpan deflated, uint64_t bytes, bool whole, std::string_view name) {
  constexpr size_t first_piece = size_t{1} << 20;
  Stream stream;
  z_stream& z = stream.z;
  std::vector<std::byte> out;
  size_t in_left = deflated.size(), made = 0;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(deflated.data()));
  std::byte spare{};  // one byte of room: to be told of the end, and to see that there is more than was said
  int result = Z_OK;
  while (result == Z_OK) {
    if (made == out.size() && made < bytes) grow(out, std::min<uint64_t>(bytes, std::max(first_piece, made * 2)), name);
    const bool full = made == bytes;
    if (full && !whole) return out;
    z.next_out = reinterpret_cast<Bytef*>(full ? &spare : out.data() + made);
    // zlib counts in 32 bits: it is handed the buffers in pieces.
    const size_t in_piece = std::min<size_t>(in_left, INT_MAX);
    const size_t out_piece = full ? 1 : std::min<size_t>(out.size() - made, INT_MAX);
    z.avail_in = static_cast<uInt>(in_piece);
    z.avail_out = static_cast<uInt>(out_piece);
    result = inflate(&z, Z_NO_FLUSH);
    const size_t consumed = in_piece - z.avail_in, produced = out_piece - z.avail_out;
    in_left -= consumed;
    made += produced;
    if (made > bytes || (result == Z_OK && consumed == 0 && produced == 0)) break;
  }
  if (result != Z_STREAM_END || made != bytes || in_left != 0)
    fail_user("K0113", str("entry ", quote(name), " is damaged: it does not inflate to the size it claims"));
  return out;
}

}  // namespace kiln
