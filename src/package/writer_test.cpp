// Packages whose weights are written while something else is done: the same bytes, and nothing left where it fails.
#include "package/writer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/zip.h"

namespace kiln {
namespace {

PackageContents contents() {
  PackageContents out;
  PackageContents::Variant variant;
  variant.target = "generic";
  variant.plan.model_name = "model";
  for (int i = 0; i < 3; ++i) {
    const std::string name = str("weight", i);
    Tensor tensor = Tensor::empty(DType::f32, {1000 + i, 700});
    for (int64_t j = 0; j < tensor.numel(); ++j) tensor.as<float>()[j] = static_cast<float>(j % 1009 + i);
    out.constants[name] = tensor;
    format::Constant constant;
    constant.name = name;
    variant.plan.constants.push_back(constant);
  }
  // Two names for one storage.
  out.constants["again"] = out.constants["weight1"];
  format::Constant again;
  again.name = "again";
  variant.plan.constants.push_back(again);
  out.variants.push_back(std::move(variant));
  return out;
}

TEST(PackageWriter, WritesTheSameEarlyAndLate) {
  TemporaryDirectory folder("kiln-writer-test");
  const std::string late = join_path(folder.path(), "late.pt2"), early = join_path(folder.path(), "early.pt2");
  const PackageContents given = contents();
  const PackageWritten written = write_package(late, given);
  EXPECT_EQ(written.bytes, read_file(late).size());
  PackageWriter writer(early);
  EXPECT_FALSE(file_exists(early));
  writer.start_weights(given.variants.front().plan, given);
  EXPECT_EQ(writer.finish(given).bytes, written.bytes);
  EXPECT_GT(writer.weights_seconds(), 0);
  EXPECT_EQ(read_file(late), read_file(early));
  const std::string bytes = read_file(early);
  const ZipReader zip(as_bytes(bytes), early);
  for (const ZipEntry& entry : zip.entries()) EXPECT_TRUE(zip.sound(entry)) << entry.name;
  EXPECT_NE(zip.find("model/data/weights/weight_2"), nullptr);
  EXPECT_EQ(zip.find("model/data/weights/weight_3"), nullptr);
}

TEST(PackageWriter, LeavesNothingWhereItIsGivenUp) {
  TemporaryDirectory folder("kiln-writer-test");
  const std::string path = join_path(folder.path(), "package.pt2");
  write_file_atomic(path, "what was there");
  {
    PackageWriter writer(path);
    const PackageContents given = contents();
    writer.start_weights(given.variants.front().plan, given);
  }
  EXPECT_EQ(read_file(path), "what was there");
  EXPECT_EQ(list_directory(folder.path()).size(), 1u);
}

TEST(PackageWriter, SaysWhatWentWrong) {
  PackageWriter writer("/dev/full");
  const PackageContents given = contents();
  try {
    writer.start_weights(given.variants.front().plan, given);
    writer.finish(given);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0104") << error.what();
  }
}

}  // namespace
}  // namespace kiln
