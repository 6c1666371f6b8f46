// Arithmetic that keeps a processor as busy as it can be, for measure_machine.
#pragma once
#include <cstdint>
#include <optional>

#include "loops/work_count.h"

namespace kiln {

struct BusyArithmetic {
  float (*run)(int64_t rounds);  // what it returns depends on all that it computed
  double flops = 0;              // of a round
};

// By the widest instructions of this kind that the processor has and the system allows; nothing: there are none.
std::optional<BusyArithmetic> busy_arithmetic(Arithmetic arithmetic);

}  // namespace kiln
