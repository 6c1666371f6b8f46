#include "standard_input.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "base/text.h"

namespace kiln::cli {
namespace {

void copy_standard_input(const std::string& path) {
  AtomicFile file(path, FileAccess::owner);
  std::vector<std::byte> part(1 << 20);
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_user("K0737", str("cannot read the standard input: ", strerror(errno)));
    if (got == 0) break;
    file.write({part.data(), static_cast<size_t>(got)});
  }
  file.commit();
}

// By the extension readers know what they have.
const char* extension_of(ByteSpan bytes) {
  switch (file_kind(bytes)) {
    case FileKind::saved_values:
      return ".pt";
    case FileKind::numpy:
      return begins_like_zip(bytes) ? ".npz" : ".npy";
    case FileKind::safetensors:
      return ".safetensors";
    case FileKind::empty:
      fail_user("K0737", "the standard input is empty");
    case FileKind::unknown:
      return begins_like_zip(bytes) ? ".pt2" : ".json";
    default:
      return ".pt2";
  }
}

}  // namespace

struct StandardInput::Place {
  TemporaryDirectory directory{"kiln-stdin"};
};

StandardInput::StandardInput() = default;
StandardInput::~StandardInput() = default;

void StandardInput::put_in_place(const CommandSpec& command, ParsedOptions& options) {
  std::string* named = nullptr;
  for (std::string* path : options.read_files(command)) {
    if (*path != "-") continue;
    if (named) throw UsageError("the standard input ('-') can be one file only");
    named = path;
  }
  if (!named) return;
  place_ = std::make_unique<Place>();
  const std::string bare = join_path(place_->directory.path(), "standard_input");
  copy_standard_input(bare);
  *named = bare + extension_of(MappedFile::open(bare)->bytes());
  if (rename(bare.c_str(), named->c_str()) != 0)
    fail_user("K0737", str("cannot keep the standard input: ", strerror(errno)));
  options.standard_input = *named;
  for (std::string& path : options.input_files)
    if (path == "-") path = *named;
}

}  // namespace kiln::cli
