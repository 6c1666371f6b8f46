/* libkiln_debug.so: the part of the debugging tools that needs the compiler's loop interpreter, and builds kernels
 * again with every access checked. The runtime opens it only when a setting asks for it (check_bounds), from beside
 * itself or along the loader's path; packages run without it. Not meant for embedders: kiln.h has what they need. */
#ifndef KILN_DEBUG_LIBRARY_H
#define KILN_DEBUG_LIBRARY_H

#include "kiln/kernel_abi.h"
#include "kiln/kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_DEBUG_LIBRARY_VERSION 6 /* 6: signals */

/* What a kernel with checked accesses is given: its context is the first member of a kiln_checked_context. Generated
 * code repeats these lines (src/codegen/cpu/checked_access.cpp). */
typedef struct kiln_checked_range {
  const void *begin, *end; /* of the buffer with this number */
} kiln_checked_range;
typedef struct kiln_checked_access {
  int32_t happened; /* 1: an access outside its buffer was about to happen; it did not, and the kernel returned 1 */
  int32_t buffer;   /* number among the kernel's arguments, then among its scratch buffers */
  int32_t store;
  int32_t bytes;
  const void* address;
  kiln_checked_range range; /* of the buffer */
} kiln_checked_access;
typedef struct kiln_checked_context {
  kiln_kernel_context context;
  const kiln_checked_range* ranges;
  kiln_checked_access* failed;
} kiln_checked_context;

/* A GPU's kernel with checked accesses is launched as any other, with the bytes of each buffer behind its integers (of
 * which there is one at least, 0 where the kernel has none). What it raises with where an access lies outside: */
enum {
  KILN_RAISED_OUTSIDE = 2
}; /* site: twice the buffer's number, 1 more for a store; index: the first byte, from the
    * buffer's start; value: how many */

typedef struct kiln_debug_library {
  uint32_t version;
  /* A checked run of the kernels in this text (debug/loops.txt of the package). NULL: see error(). */
  void* (*open)(const char* loops, size_t bytes);
  void (*close)(void* checked);
  /* Runs the step with every load and store checked. 1: done; 0: no generated kernel, it is to be launched; -1: it
   * failed, see error(). May be called from several threads at once. */
  int32_t (*run)(void* checked, const kiln_step* step);
  /* Kernels built again from their source with every load and store checked, by the C++ compiler of this machine.
   * `lanes`: of the vectors in the source; `compiler`: setting compiler, "" for the one that is found. NULL: see
   * error(). */
  void* (*build)(const char* const* units, const size_t* unit_bytes, size_t unit_count, const char* const* flags,
                 size_t flag_count, int32_t lanes, const char* compiler);
  void (*discard)(void* built);
  kiln_kernel (*function)(void* built, const char* symbol); /* NULL: the source has none of this name */
  /* The same of a GPU's kernels, by NVRTC: the package's code object (`object`) with other machine code, for the device
   * to load. It lives until discard_object. `nvrtc`: setting nvrtc, "" for the one that is found. NULL: see error(). */
  void* (*build_object)(const char* const* units, const size_t* unit_bytes, size_t unit_count, const char* const* flags,
                        size_t flag_count, const void* object, size_t object_bytes, const void** made,
                        size_t* made_bytes, const char* nvrtc);
  void (*discard_object)(void* built);
  /* Of the calling thread's last failure. */
  const char* (*error)(void);
  const char* (*error_code)(void);
  /* Signals that end this process (SIGINT, SIGTERM, SIGHUP) remove the library's temporary files and end its compilers,
   * and go on to the handlers that were there. For a program whose own handlers do as much and then end it: `kiln`. */
  void (*remove_leftovers_on_signals)(void);
} kiln_debug_library;

typedef const kiln_debug_library* (*kiln_debug_library_fn)(void); /* exported as kiln_debug_entry */

#ifdef __cplusplus
}
#endif
#endif
