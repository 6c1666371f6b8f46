// What the stand-in for CUPTI asks the stand-in for the driver: the head of CUPTI's record of a kernel.
#pragma once
#include <cstdint>

struct StandInKernelRecord {
  uint32_t kind = 10;
  uint8_t configuration[12] = {};
  uint64_t start = 0, end = 0;
  uint8_t launch[72] = {};
  const char* name = nullptr;
};
