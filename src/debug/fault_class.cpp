#include "debug/fault_class.h"

namespace kiln {

const char* fault_class_name(FaultClass fault) {
  switch (fault) {
    case FaultClass::none:
      return "none";
    case FaultClass::kernel:
      return "kernel";
    case FaultClass::code:
      return "code";
    case FaultClass::out_of_bounds:
      return "out of bounds";
    case FaultClass::uninitialised:
      return "uninitialised read";
    case FaultClass::overlap:
      return "overlapping lifetimes";
    case FaultClass::missing_dependency:
      return "missing dependency";
    case FaultClass::stale_constant:
      return "stale weight";
    case FaultClass::layout:
      return "wrong layout";
    case FaultClass::control_flow:
      return "control flow";
    case FaultClass::input_written:
      return "write to what must stay";
    case FaultClass::failed:
      return "failed";
    case FaultClass::crash:
      return "crash";
    case FaultClass::hang:
      return "hang";
    case FaultClass::outside:
      return "access outside";
    case FaultClass::uncertain:
      return "uncertain";
  }
  return "";
}

}  // namespace kiln
