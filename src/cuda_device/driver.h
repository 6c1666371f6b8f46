// NVIDIA's driver interface, opened at run time: nothing of CUDA is linked, and no header of it is needed. Declared are
// the few functions and numbers that are used; they are part of the driver's stable binary interface.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace kiln::cuda {

using Result = int;  // 0: fine
inline constexpr Result out_of_memory = 2, not_initialised = 3, no_device = 100, invalid_image = 200,
                        no_binary_for_gpu = 209, invalid_ptx = 218, unsupported_ptx_version = 222,
                        illegal_address = 700, launch_timeout = 702, misaligned_address = 716,
                        illegal_instruction = 715, launch_failed = 719;
using Pointer = unsigned long long;
using Context = void*;
using Module = void*;
using Function = void*;
using Stream = void*;

enum Attribute { multiprocessor_count = 16, capability_major = 75, capability_minor = 76 };

struct Driver {
  Result (*init)(unsigned);
  Result (*version)(int*);
  Result (*error_name)(Result, const char**);
  Result (*error_text)(Result, const char**);
  Result (*device_count)(int*);
  Result (*device_get)(int*, int);
  Result (*device_name)(char*, int, int);
  Result (*device_attribute)(int*, int, int);
  Result (*primary_context)(Context*, int);
  Result (*push)(Context);
  Result (*pop)(Context*);
  Result (*synchronise_context)();
  Result (*allocate)(Pointer*, size_t);
  Result (*release)(Pointer);
  Result (*host_allocate)(void**, size_t, unsigned);
  Result (*host_release)(void*);
  Result (*host_pointer)(Pointer*, void*, unsigned);
  Result (*copy_in)(Pointer, const void*, size_t);
  Result (*copy_out)(void*, Pointer, size_t);
  Result (*copy_within)(Pointer, Pointer, size_t, Stream);
  Result (*load)(Module*, const void*, unsigned, int*, void**);
  Result (*unload)(Module);
  Result (*function)(Function*, Module, const char*);
  Result (*set_function_attribute)(Function, int, int);
  Result (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**,
                   void**);
  Result (*synchronise_stream)(Stream);

  std::string text(Result result) const;  // "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
};

// The one of this process. Throws K0773 where there is none or it does not start.
const Driver& driver();

}  // namespace kiln::cuda
