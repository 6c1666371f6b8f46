// The kinds of fault that bisecting tells apart.
#pragma once
#include <cstdint>

namespace kiln {

enum class FaultClass : uint8_t {
  none,
  kernel,              // a kernel's loops compute something else than its operators
  code,                // its loops are right, the machine code is not
  out_of_bounds,       // its loops leave a buffer
  uninitialised,       // its result depends on memory that nobody wrote
  overlap,             // plan: a buffer changed between being written and being read
  missing_dependency,  // plan: read before any step wrote it
  stale_constant,      // a weight is not the one that was compiled for, or a prepared one does not follow from it
  layout,              // plan: sizes, strides or symbols that are not those of the loops
  control_flow,        // plan: the wrong branch, iterations or order; a step twice or never
  input_written,       // something is written that must stay as it is
  failed,              // the run ended with an error
  crash,               // a kernel ends the process
  hang,                // a kernel does not end
  outside,             // a kernel's code reads or writes outside of its buffers
  uncertain,           // the program's outputs are wrong, and no step could be told to be
};
const char* fault_class_name(FaultClass fault);

}  // namespace kiln
