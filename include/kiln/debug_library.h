/* libkiln_debug.so: the part of the debugging tools that needs the compiler's loop interpreter. The runtime opens it
 * only when a setting asks for it (check_bounds), from beside itself or along the loader's path; packages run without
 * it. Not meant for embedders: kiln.h has what they need. */
#ifndef KILN_DEBUG_LIBRARY_H
#define KILN_DEBUG_LIBRARY_H

#include "kiln/kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_DEBUG_LIBRARY_VERSION 1

typedef struct kiln_debug_library {
  uint32_t version;
  /* A checked run of the kernels in this text (debug/loops.txt of the package). NULL: see error(). */
  void* (*open)(const char* loops, size_t bytes);
  void (*close)(void* checked);
  /* Runs the step with every load and store checked. 1: done; 0: no generated kernel, it is to be launched; -1: it
   * failed, see error(). May be called from several threads at once. */
  int32_t (*run)(void* checked, const kiln_step* step);
  /* Of the calling thread's last failure. */
  const char* (*error)(void);
  const char* (*error_code)(void);
} kiln_debug_library;

typedef const kiln_debug_library* (*kiln_debug_library_fn)(void); /* exported as kiln_debug_entry */

#ifdef __cplusplus
}
#endif
#endif
