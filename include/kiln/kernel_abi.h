/* The binary interface between compiled kernels (and custom operators) and the runtime. Plain C: generated code does
 * not include this file but repeats its few lines in its prelude; src/codegen has a test that both agree. */
#ifndef KILN_KERNEL_ABI_H
#define KILN_KERNEL_ABI_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_KERNEL_ABI_VERSION 3 /* 2: code objects export kiln_kernels; 3: kiln_kernel_context has `kept` */
#define KILN_KERNEL_ABI_OLDEST 2  /* whose kernels run as well: they look at less of the context */

/* Set by a kernel that raises; the first one wins. site is local to the kernel's body: the step's
 * `sites` maps it to the plan's table. */
typedef struct kiln_error_slot {
  int32_t raised; /* 0: nothing yet */
  int32_t site;
  int64_t index; /* which element of the tensor that `value` was loaded from, in row-major order; -1: not known; -2: nor
                    is the value */
  int64_t value; /* the offending value */
} kiln_error_slot;

typedef struct kiln_kernel_context {
  uint32_t version;
  uint32_t thread; /* 0 … threads - 1, of the thread that runs this call */
  void* scratch;   /* per thread, aligned to 64 */
  int64_t scratch_bytes;
  kiln_error_slot* error; /* shared by the threads of one launch: set with an atomic exchange of `raised` */
  uint64_t seed;
  int64_t* kept; /* of this thread: for which items its scratch was filled by an earlier call of the same launch, as the
                    kernel itself noted; -1 at the first one. NULL: scratch does not stay from call to call */
} kiln_kernel_context;

/* Runs items [item_begin, item_end). Returns 0, or 1 after setting the error slot. */
typedef int32_t (*kiln_kernel)(const kiln_kernel_context* context, void* const* buffers, const int64_t* ints,
                               int64_t item_begin, int64_t item_end);

/* What a code object exports under the name kiln_kernels: its kernels in the order of the plan's, each with the lengths
 * of the two lists that it reads. A plan that would call one with other lengths is refused when it is loaded. */
typedef struct kiln_kernel_entry {
  const char* name;
  kiln_kernel run;
  uint32_t buffer_count, int_count;
} kiln_kernel_entry;

typedef struct kiln_kernel_table {
  uint32_t version; /* KILN_KERNEL_ABI_VERSION */
  uint32_t count;
  const kiln_kernel_entry* kernels;
} kiln_kernel_table;

#ifdef __cplusplus
}
#endif
#endif
