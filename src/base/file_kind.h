// What a file is, for people who gave the wrong one: an exported program, a package of Kiln or of AOT Inductor,
// TorchScript, a state dict, ONNX, … The messages name what it is and the next step.
#pragma once
#include <string>

#include "base/file.h"
#include "base/zip.h"

namespace kiln {

enum class FileKind : uint8_t {
  exported_program,  // torch.export.save
  kiln_package,
  kiln_debug,    // the debug section of a stripped package
  aoti_package,  // torch._inductor.aoti_compile_and_package
  torchscript,   // torch.jit.save
  saved_values,  // torch.save: a state dict, tensors, a pickled module
  onnx,
  safetensors,
  numpy,
  shared_object,
  other_zip,
  empty,
  directory,
  unknown,
};

FileKind file_kind(ByteSpan bytes);
FileKind file_kind(const ZipReader& zip);
FileKind file_kind_of(const std::string& path);  // throws K0101 where there is none

// Whether the bytes begin like a zip archive, damaged or not: then its reader has the better message.
bool begins_like_zip(ByteSpan bytes);

// Why a file of this kind cannot be compiled (run as a package), and what to do with it. Only for other kinds than the
// one that is wanted.
std::string not_a_model_text(const std::string& label, FileKind kind);
std::string not_a_package_text(const std::string& label, FileKind kind);

}  // namespace kiln
