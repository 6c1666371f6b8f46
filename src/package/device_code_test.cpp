#include "package/device_code.h"

#include <gtest/gtest.h>

namespace kiln::format {
namespace {

DeviceCode device_code_sample() {
  DeviceCode code;
  code.images = {
      {0, ImageKind::machine_code, "first unit"}, {1, ImageKind::machine_code, ""}, {0, ImageKind::ptx, "text"}};
  code.kernels = {{"cuda_fused_add_0", 0, 3, 1, 256, 1}, {"cuda_mm_1", 1, 4, 0, 128, 32, 65536}};
  return code;
}

TEST(DeviceCode, IsReadAsItWasWritten) {
  const std::string bytes = write_device_code(device_code_sample());
  DeviceCode read;
  ASSERT_TRUE(read_device_code(bytes, read));
  ASSERT_EQ(read.images.size(), 3u);
  EXPECT_EQ(read.images[0].bytes, "first unit");
  EXPECT_EQ(read.images[2].bytes, "text");
  EXPECT_EQ(read.images[2].kind, ImageKind::ptx);
  ASSERT_EQ(read.kernels.size(), 2u);
  EXPECT_EQ(read.kernels[1].name, "cuda_mm_1");
  EXPECT_EQ(read.kernels[1].team, 32u);
  EXPECT_EQ(read.kernels[1].shared, 65536u);
  EXPECT_EQ(write_device_code(read), bytes);
}

TEST(DeviceCode, WhatIsCutOffOrDamagedIsRefused) {
  const std::string bytes = write_device_code(device_code_sample());
  for (size_t length = 0; length < bytes.size(); ++length) {
    DeviceCode read;
    EXPECT_FALSE(read_device_code(std::string_view(bytes).substr(0, length), read)) << length;
  }
  DeviceCode read;
  EXPECT_FALSE(read_device_code(bytes + "x", read));
  // No number that stands in it makes the reader leave it.
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = '\xff';
    DeviceCode other;
    (void)read_device_code(damaged, other);
  }
  DeviceCode wrong = device_code_sample();
  wrong.kernels[0].team = 3;  // of 256 threads
  EXPECT_FALSE(read_device_code(write_device_code(wrong), read));
}

}  // namespace
}  // namespace kiln::format
