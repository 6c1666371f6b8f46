// For tests only: runs a libFuzzer entry over tests/fuzz_seeds/<name>/ and over damaged copies of each seed.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

#include "base/file.h"

namespace kiln {

using FuzzEntry = int (*)(const uint8_t*, size_t);

inline void run_fuzz_bytes(const std::string& bytes, FuzzEntry entry) {
  // A copy of exactly this size, so that the address sanitizer sees a read past its end.
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  entry(copy.data(), copy.size());
}

inline void run_fuzz_seeds(const std::string& name, FuzzEntry entry) {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "KILN_SOURCE_DIR is not set";
  const std::string folder = join_path(source, "tests/fuzz_seeds/" + name);
  const std::vector<std::string> seeds = list_directory(folder);
  ASSERT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) {
    const std::string bytes = read_file(join_path(folder, seed));
    run_fuzz_bytes(bytes, entry);
    const size_t step = bytes.size() / 200 + 1;
    for (size_t at = 0; at < bytes.size(); at += step) {
      run_fuzz_bytes(bytes.substr(0, at), entry);
      for (int value : {0x00, 0x01, 0x7f, 0xff}) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(value);
        run_fuzz_bytes(damaged, entry);
      }
    }
  }
}

}  // namespace kiln
