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

}  // namespace

void inflate_entry(ByteSpan deflated, std::span<std::byte> out, std::string_view name) {
  Stream stream;
  z_stream& z = stream.z;
  // zlib counts in 32 bits: hand it the buffers in pieces.
  size_t in_left = deflated.size(), out_left = out.size();
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(deflated.data()));
  std::byte spare{};  // an empty entry still needs room to be told of its end
  z.next_out = reinterpret_cast<Bytef*>(out.empty() ? &spare : out.data());
  int result = Z_OK;
  while (result == Z_OK) {
    const size_t in_piece = std::min<size_t>(in_left, INT_MAX), out_piece = std::min<size_t>(out_left, INT_MAX);
    z.avail_in = static_cast<uInt>(in_piece);
    z.avail_out = static_cast<uInt>(out_piece);
    result = inflate(&z, Z_NO_FLUSH);
    const size_t consumed = in_piece - z.avail_in, produced = out_piece - z.avail_out;
    in_left -= consumed;
    out_left -= produced;
    if (result == Z_OK && consumed == 0 && produced == 0) break;
  }
  if (result != Z_STREAM_END || out_left != 0 || in_left != 0)
    fail_user("K0113", str("entry ", quote(name), " is damaged: it does not inflate to the size it claims"));
}

}  // namespace kiln
