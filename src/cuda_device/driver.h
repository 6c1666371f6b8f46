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
using Event = void*;
using Graph = void*;
using GraphNode = void*;
using GraphRun = void*;  // a graph made ready to be launched
inline constexpr Result not_ready = 600;

// As CUDA_KERNEL_NODE_PARAMS_v2.
struct KernelNode {
  Function function = nullptr;
  unsigned blocks = 1, blocks_y = 1, blocks_z = 1, threads = 1, threads_y = 1, threads_z = 1, shared = 0;
  void** arguments = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;
  Context context = nullptr;  // the current one
};

enum Attribute {
  clock_kilohertz = 13,
  multiprocessor_count = 16,
  memory_kilohertz = 36,
  memory_bus_bits = 37,
  capability_major = 75,
  capability_minor = 76
};

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
  Result (*current)(Context*);
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
  Result (*copy_in_queued)(Pointer, const void*, size_t, Stream);
  Result (*new_stream)(Stream*, unsigned);
  Result (*free_stream)(Stream);
  Result (*wait_for)(Stream, Event, unsigned);
  Result (*new_event)(Event*, unsigned);
  Result (*free_event)(Event);
  Result (*record)(Event, Stream);
  Result (*synchronise_event)(Event);
  Result (*elapsed)(float*, Event, Event);  // milliseconds
  Result (*memory)(size_t*, size_t*);       // free, all

  // Graphs: of drivers since CUDA 12. nullptr: there are none.
  Result (*new_graph)(Graph*, unsigned);
  Result (*free_graph)(Graph);
  Result (*add_kernel)(GraphNode*, Graph, const GraphNode*, size_t, const KernelNode*);
  Result (*make_ready)(GraphRun*, Graph, unsigned long long);
  Result (*free_ready)(GraphRun);
  Result (*change_kernel)(GraphRun, GraphNode, const KernelNode*);
  Result (*launch_graph)(GraphRun, Stream);
  bool has_graphs() const {
    return new_graph && free_graph && add_kernel && make_ready && free_ready && change_kernel && launch_graph;
  }

  std::string text(Result result) const;  // "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
};

// The one of this process. Throws K0773 where there is none or it does not start.
const Driver& driver();

}  // namespace kiln::cuda
