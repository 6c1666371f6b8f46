#include "toolchain/nvrtc.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln {
namespace {

TEST(Nvrtc, AWishThatIsNoneIsRefusedByName) {
  for (const char* wish : {"/no/such/libnvrtc.so", "libc.so.6"}) {
    try {
      find_nvrtc(wish);
      ADD_FAILURE() << wish << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), "K0770");
      EXPECT_NE(error.message().find(wish), std::string::npos) << error.message();
    }
  }
}

}  // namespace
}  // namespace kiln
