// What tests on the documents' MLP begin with: its package, made by hand, and an input.
#pragma once
#include <gtest/gtest.h>

#include "runtime/test_package.h"

namespace kiln::runtime {

class MlpTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { kernels() = compile_shared_object(mlp_source); }
  static std::string& kernels() {
    static std::string bytes;
    return bytes;
  }
  void SetUp() override {
    ASSERT_FALSE(kernels().empty()) << "the C++ compiler failed";
    mlp.kernels = kernels();
    for (size_t i = 0; i < 80; ++i) x.push_back(static_cast<float>(i % 7) / 4 - 0.5f);
  }
  MlpPackage mlp;
  std::vector<float> x;
};

}  // namespace kiln::runtime
