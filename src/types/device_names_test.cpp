#include "types/device_names.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(DeviceNames, AreReadAsTheyAreWritten) {
  for (const char* text : {"cpu", "cuda", "meta", "cuda:0", "cuda:12", "cpu:0"}) {
    const auto device = device_from_text(text);
    ASSERT_TRUE(device) << text;
    EXPECT_EQ(device_text(*device), text);
  }
}

TEST(DeviceNames, OthersAreRefused) {
  for (const char* text :
       {"", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:1:2", "cuda:x", "cuda:1x", "cuda: 1", "cuda:65536"})
    EXPECT_FALSE(device_from_text(text)) << text;
  EXPECT_FALSE(device_type_from_name("cuda:0"));
}

}  // namespace
}  // namespace kiln
