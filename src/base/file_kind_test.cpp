#include "base/file_kind.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln {
namespace {

std::string archive(const std::vector<std::string>& names) {
  std::string bytes;
  ZipWriter zip([&](ByteSpan piece) { bytes.append(as_text(piece)); });
  for (const std::string& name : names) zip.add(name, std::string_view("x"));
  zip.finish();
  return bytes;
}

struct Example {
  FileKind kind;
  std::string bytes;
  const char *is, *to_compile, *to_run;  // what the messages say
};

TEST(FileKinds, CommonMistakesAreRecognised) {
  const Example examples[] = {
      {FileKind::exported_program, archive({"m/models/model.json"}), "exported program", "", "'kiln compile F'"},
      {FileKind::exported_program, archive({"serialized_exported_program.json"}), "exported program", "", ""},
      {FileKind::kiln_package, archive({"m/data/kiln/m/plan"}), "package of Kiln", "'kiln run F'", ""},
      {FileKind::aoti_package, archive({"m/data/aotinductor/model/x.wrapper.so"}), "AOT Inductor", "torch.export.save",
       "torch.export.save"},
      {FileKind::torchscript, archive({"m/data.pkl", "m/code/__torch__.py"}), "TorchScript", "torch.export.save", ""},
      {FileKind::saved_values, archive({"m/data.pkl", "m/data/0"}), "state dict", "torch.export.save", ""},
      {FileKind::saved_values, std::string("\x80\x02\x8a\x0al\xfc", 6), "state dict", "torch.export.save", ""},
      {FileKind::numpy, archive({"a.npy"}), "NumPy", "", ""},
      {FileKind::numpy, std::string("\x93NUMPY\x01\x00", 8), "NumPy", "", ""},
      {FileKind::onnx, std::string("\x08\x07\x12\x07pytorch\x1a", 12), "ONNX", "export the PyTorch model", ""},
      {FileKind::safetensors, std::string("\x02\0\0\0\0\0\0\0{}", 10), ".safetensors", "", ""},
      {FileKind::shared_object,
       std::string("\x7f"
                   "ELF\x02"),
       "shared library", "", ""},
      {FileKind::other_zip, archive({"photo.jpg"}), "zip archive", "torch.export.save", "kiln compile"},
      {FileKind::empty, "", "empty", "torch.export.save", ""},
      {FileKind::unknown, "hello world, this is text", "neither", "torch.export.save", ""},
  };
  for (const Example& example : examples) {
    const FileKind kind = file_kind(as_bytes(example.bytes));
    EXPECT_EQ(static_cast<int>(kind), static_cast<int>(example.kind)) << example.is;
    if (kind != FileKind::exported_program) {
      const std::string text = not_a_model_text("F", kind);
      EXPECT_NE(text.find(example.is), std::string::npos) << text;
      EXPECT_NE(text.find(example.to_compile), std::string::npos) << text;
    }
    if (kind != FileKind::kiln_package) {
      const std::string text = not_a_package_text("F", kind);
      EXPECT_NE(text.find(example.is), std::string::npos) << text;
      EXPECT_NE(text.find(example.to_run), std::string::npos) << text;
    }
  }
  TemporaryDirectory directory;
  EXPECT_EQ(file_kind_of(directory.path()), FileKind::directory);
  EXPECT_THROW(file_kind_of(directory.path() + "/nothing"), Error);
}

TEST(FileKinds, TheDebugSectionOfAPackage) {
  const std::string bytes = archive({"m/data/kiln/m/debug/graph.txt", "m/data/kiln/m/debug/origins"});
  EXPECT_EQ(file_kind(as_bytes(bytes)), FileKind::kiln_debug);
  EXPECT_NE(not_a_package_text("p.pt2.debug", FileKind::kiln_debug).find("give the package itself: \"p.pt2\""),
            std::string::npos);
}

TEST(FileKinds, DamagedArchivesAreLeftToTheirReader) {
  std::string bytes = archive({"m/models/model.json"});
  bytes.resize(bytes.size() / 2);
  EXPECT_TRUE(begins_like_zip(as_bytes(bytes)));
  EXPECT_EQ(file_kind(as_bytes(bytes)), FileKind::unknown);
}

}  // namespace
}  // namespace kiln
