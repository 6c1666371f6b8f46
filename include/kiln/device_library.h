/* A library that runs packages on another device than the CPU: libkiln_cuda.so for NVIDIA's GPUs. The runtime opens it,
 * from beside itself or along the loader's path, when a package was compiled for that device; packages for the CPU do
 * without. Not meant for embedders: kiln.h has what they need.
 *
 * Functions that can fail are given room for the error and say so by what they return. Any thread may call them; one
 * queue is used by one thread at a time. What `open` gives lives as long as the process: memory may outlive the model
 * that it was allocated for. */
#ifndef KILN_DEVICE_LIBRARY_H
#define KILN_DEVICE_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#include "kiln/kernel_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_DEVICE_LIBRARY_VERSION 3

typedef struct kiln_device_error {
  char code[8]; /* "K0776" */
  char text[1016];
} kiln_device_error;

enum { KILN_COPY_IN = 0, KILN_COPY_OUT = 1, KILN_COPY_WITHIN = 2 };

typedef struct kiln_device_launch {
  const void* kernel;
  void* const* buffers;
  const int64_t* ints;
  size_t buffer_count, int_count;
  int64_t items;
  int64_t scratch; /* bytes for each that runs an item */
  uint64_t seed;
  int32_t step;
  int32_t reserved;
} kiln_device_launch;

typedef struct kiln_device_upload {
  void* to; /* the device's */
  const void* from;
  size_t bytes;
} kiln_device_upload;

typedef struct kiln_device_facts {
  char name[64];   /* "NVIDIA H200" */
  char target[16]; /* "sm_90" */
  /* Of its memory, of f32 multiply-adds and of bf16 ones on tensor cores, from its clocks; 0: it does not say. */
  double gbs, gflops, tensor_gflops;
  const char* clock; /* what `seconds` is by: "CUPTI", "CUDA events" */
} kiln_device_facts;

enum {
  KILN_QUEUE_GRAPHS = 1 /* stretches of launches that come again are replayed as CUDA graphs */
};

typedef struct kiln_device_library {
  uint32_t version;
  void* (*open)(int32_t index, kiln_device_error* error); /* -1: the first one. NULL: an error */
  int32_t (*index)(void* device);
  /* Which of a package's targets runs best there; -1: an error. */
  int64_t (*choose)(void* device, const char* const* targets, size_t count, kiln_device_error* error);

  void* (*allocate)(void* device, size_t bytes, size_t alignment); /* NULL: there is no memory */
  void (*release)(void* device, void* memory, size_t bytes);
  /* Done when it returns. 0: fine. */
  int32_t (*copy)(void* device, void* to, const void* from, size_t bytes, int32_t direction, kiln_device_error* error);

  void* (*load)(void* device, const void* bytes, size_t size, kiln_device_error* error); /* a code object; NULL */
  void (*unload)(void* code);
  const kiln_kernel_table* (*kernels)(const void* code); /* without functions: `kernel` gives them */
  const void* (*kernel)(const void* code, const char* name);

  void* (*new_queue)(void* device, uint32_t flags, kiln_device_error* error);
  void (*free_queue)(void* queue);
  int32_t (*launch)(void* queue, const kiln_device_launch* launch, kiln_device_error* error); /* 0: it is under way */
  int32_t (*queue_copy)(void* queue, void* to, const void* from, size_t bytes, kiln_device_error* error);
  /* Waits for all that is under way. 0: fine; 1: a kernel has raised, the slot and the step say which; -1: an error. */
  int32_t (*synchronise)(void* queue, kiln_error_slot* slot, int32_t* step, kiln_device_error* error);

  /* From memory of the host that may be a mapped file; done when it returns. 0: fine. */
  int32_t (*upload)(void* device, const kiln_device_upload* pieces, size_t count, kiln_device_error* error);
  int32_t (*settle)(void* device, kiln_device_error* error); /* waits for all that anybody has begun there */
  void (*facts)(void* device, kiln_device_facts* out);

  /* A call begins: what follows goes to this stream (NULL: the default one), after what the queue put on another. 1: a
   * kernel of an earlier call, for which nobody waited, has raised; otherwise as synchronise. */
  int32_t (*start)(void* queue, void* stream, kiln_error_slot* slot, int32_t* step, kiln_device_error* error);
  /* It ends, and nobody has to have waited: a call on another stream comes after it. */
  int32_t (*finish)(void* queue, kiln_device_error* error);
  /* The launches until end_stretch are those that there were when the key was last given, if sizes are meant; addresses
   * and seed may differ. 1: they are under way, and are not to be made; 0: they are to be made; -1: an error. */
  int32_t (*begin_stretch)(void* queue, uint64_t key, void* const* addresses, size_t count, uint64_t seed,
                           kiln_device_error* error);
  int32_t (*end_stretch)(void* queue, kiln_device_error* error);
  /* Time of the kernels launched between two marks, in seconds; it waits. Below 0: an error. */
  int32_t (*mark)(void* queue, int32_t end, kiln_device_error* error);
  double (*seconds)(void* queue, kiln_device_error* error);
} kiln_device_library;

typedef const kiln_device_library* (*kiln_device_library_fn)(void); /* exported as kiln_device_entry */

#ifdef __cplusplus
}
#endif
#endif
