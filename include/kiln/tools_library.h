/* libkiln_tools.so: the compiler's part of the debugging tools, for programs that embed the runtime. The runtime opens
 * it only when a setting asks for what it cannot do itself (TORCH_LOGS and the debug directory of a package that
 * exists, failures in a trace, operations per kernel for a profile), from beside itself or along the loader's path;
 * packages run without it. Not meant for embedders: kiln.h has what they need. */
#ifndef KILN_TOOLS_LIBRARY_H
#define KILN_TOOLS_LIBRARY_H

#include "kiln/kiln.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_TOOLS_LIBRARY_VERSION 2

typedef struct kiln_tools_library {
  uint32_t version;
  /* What the options and the environment ask for, of the package in this file; logs and the debug directory are made
   * here and now. Notes go to `log`. NULL: see error(). The options are not kept. */
  void* (*open)(const char* package, const kiln_load_options* options, kiln_log_fn log, void* log_user);
  void (*close)(void* tools);
  /* Loading or a run has failed. */
  void (*failed)(void* tools, const char* code, const char* text);
  /* Floating-point operations of one launch and the bytes that it reaches. Returns 0, and sets nothing: not known. */
  int (*work)(void* tools, const kiln_step* step, double* operations, double* bytes);
  /* What this machine was measured to do, in units of 1e9 per second. */
  void (*limits)(double* operations, double* bytes);
  const char* (*error)(void); /* of the calling thread's last failure */
  const char* (*error_code)(void);
} kiln_tools_library;

typedef const kiln_tools_library* (*kiln_tools_library_fn)(void); /* exported as kiln_tools_entry */

#ifdef __cplusplus
}
#endif
#endif
