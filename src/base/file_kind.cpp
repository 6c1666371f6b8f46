#include "base/file_kind.h"

#include "base/error.h"

namespace kiln {
namespace {

constexpr std::string_view how_to_export =
    "Kiln compiles what torch.export.save writes: torch.export.save(torch.export.export(model, args), \"model.pt2\")";

bool begins(ByteSpan bytes, std::string_view magic) { return starts_with(as_text(bytes), magic); }

// A protocol buffer whose first field is the version of the format (tag 08, a small number), whose second is the
// producer's name or something else of a model.
bool looks_like_onnx(ByteSpan bytes) {
  const std::string_view text = as_text(bytes);
  if (text.size() < 8 || text[0] != '\x08' || static_cast<unsigned char>(text[1]) > 0x20) return false;
  return text[2] == '\x12' || text[2] == '\x1a' || text[2] == ':' || text[2] == 'B';
}

bool looks_like_safetensors(ByteSpan bytes) {
  if (bytes.size() < 10) return false;
  uint64_t header = 0;
  for (size_t i = 8; i-- > 0;) header = header << 8 | static_cast<uint64_t>(bytes[i]);
  return header >= 2 && header <= bytes.size() - 8 && static_cast<char>(bytes[8]) == '{';
}

// What it is, as it stands in "X is …".
const char* kind_text(FileKind kind) {
  switch (kind) {
    case FileKind::exported_program:
      return "an exported program (torch.export.save) that is not compiled yet";
    case FileKind::kiln_package:
      return "a package of Kiln: it is compiled already";
    case FileKind::kiln_debug:
      return "the debug section of a package of Kiln (--strip-debug), which tools read beside the package";
    case FileKind::aoti_package:
      return "a package of AOT Inductor, which holds machine code for libtorch and no program any more";
    case FileKind::torchscript:
      return "a TorchScript program (torch.jit.save)";
    case FileKind::saved_values:
      return "a file of torch.save: values such as a state dict, without a program";
    case FileKind::onnx:
      return "an ONNX model";
    case FileKind::safetensors:
      return "a file of tensors (.safetensors), without a program";
    case FileKind::numpy:
      return "a file of NumPy arrays, without a program";
    case FileKind::shared_object:
      return "a shared library";
    case FileKind::other_zip:
      return "a zip archive with neither an exported program nor a package of Kiln in it";
    case FileKind::empty:
      return "empty";
    case FileKind::directory:
      return "a directory";
    case FileKind::unknown:
      break;
  }
  return "neither an exported program nor a package of Kiln";
}

std::string package_of_debug(const std::string& label) {
  return ends_with(label, ".debug") ? label.substr(0, label.size() - std::string_view(".debug").size()) : "PKG";
}

}  // namespace

FileKind file_kind(const ZipReader& zip) {
  bool debug = false, aoti = false, code = false, pickle = false, program = false, arrays = false;
  for (const ZipEntry& entry : zip.entries()) {
    const std::string& name = entry.name;
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (has("data/kiln/") && ends_with(name, "/plan")) return FileKind::kiln_package;
    debug |= has("data/kiln/") && has("/debug/");
    const size_t models = name.rfind("models/");
    program |= name == "serialized_exported_program.json" ||
               (models != std::string::npos && (models == 0 || name[models - 1] == '/') && ends_with(name, ".json"));
    aoti |= has("data/aotinductor/");
    code |= has("/code/") && ends_with(name, ".py");
    pickle |= ends_with(name, "data.pkl");
    arrays |= ends_with(name, ".npy");
  }
  if (debug) return FileKind::kiln_debug;
  if (program) return FileKind::exported_program;
  if (aoti) return FileKind::aoti_package;
  if (code) return FileKind::torchscript;
  if (pickle) return FileKind::saved_values;
  return arrays ? FileKind::numpy : FileKind::other_zip;
}

bool begins_like_zip(ByteSpan bytes) { return begins(bytes, "PK\x03\x04") || begins(bytes, "PK\x05\x06"); }

FileKind file_kind(ByteSpan bytes) {
  if (bytes.empty()) return FileKind::empty;
  if (begins_like_zip(bytes)) {
    try {
      return file_kind(ZipReader(bytes, ""));
    } catch (const Error&) {
      return FileKind::unknown;  // damaged: whoever reads it says how
    }
  }
  if (begins(bytes,
             "\x7f"
             "ELF"))
    return FileKind::shared_object;
  if (begins(bytes, "\x93NUMPY")) return FileKind::numpy;
  if (begins(bytes, "\x80\x02")) return FileKind::saved_values;  // a pickle, as torch.save wrote before it used zip
  if (looks_like_safetensors(bytes)) return FileKind::safetensors;
  return looks_like_onnx(bytes) ? FileKind::onnx : FileKind::unknown;
}

FileKind file_kind_of(const std::string& path) {
  if (is_directory(path)) return FileKind::directory;
  return file_kind(MappedFile::open(path)->bytes());
}

std::string not_a_model_text(const std::string& label, FileKind kind) {
  const std::string is = str(label, " is ", kind_text(kind));
  switch (kind) {
    case FileKind::kiln_package:
      return str(is, "; run it with 'kiln run ", label, "', or compile the .pt2 that it was made from");
    case FileKind::kiln_debug:
      return str(is, "; give the package itself, ", quote(package_of_debug(label)),
                 ", or the .pt2 that it was made from");
    case FileKind::directory:
      return str(is, "; give the model.pt2 in it, or to compare a case directory 'kiln check ", label, "'");
    case FileKind::empty:
    case FileKind::unknown:
    case FileKind::other_zip:
      return str(is, "; ", how_to_export);
    case FileKind::onnx:
    case FileKind::aoti_package:
      return str(is, "; export the PyTorch model that it came from. ", how_to_export);
    default:
      return str(is, "; load it in PyTorch and export the model. ", how_to_export);
  }
}

std::string not_a_package_text(const std::string& label, FileKind kind) {
  const std::string is = str(label, " is ", kind_text(kind));
  switch (kind) {
    case FileKind::exported_program:
      return str(is, "; compile it first: 'kiln compile ", label,
                 "' (or run it as it is, slowly, with 'kiln interpret ", label, "')");
    case FileKind::aoti_package:
      return str(is, "; export the model with torch.export.save and compile that with 'kiln compile'");
    case FileKind::kiln_debug:
      return str(is, "; give the package itself: ", quote(package_of_debug(label)));
    case FileKind::directory:
      return str(is, "; give the package in it, or to compare a case directory 'kiln check ", label, "'");
    default:
      return str(is, "; a package is made from an exported program with 'kiln compile'. ", how_to_export);
  }
}

}  // namespace kiln
