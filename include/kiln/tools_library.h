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

#define KILN_TOOLS_LIBRARY_VERSION 3

/* The functions of kiln.h of the runtime whose model is tested: the tools have a copy of their own, which that model
 * knows nothing of. */
typedef struct kiln_runtime_calls {
  const char* (*last_error)(void);
  const char* (*last_error_code)(void);
  void (*value_clear)(kiln_value* value);
  size_t (*input_count)(const kiln_model* model);
  size_t (*output_count)(const kiln_model* model);
  kiln_status (*input_spec)(const kiln_model* model, size_t index, kiln_spec* out);
  kiln_status (*instance_create)(kiln_model* model, kiln_instance** out);
  void (*instance_free)(kiln_instance* instance);
  kiln_status (*run)(kiln_instance* instance, const kiln_value* inputs, size_t input_count, kiln_value* outputs,
                     size_t output_count);
  size_t (*constant_count)(const kiln_model* model);
  kiln_status (*constant_spec)(const kiln_model* model, size_t index, kiln_constant* out);
  kiln_status (*constant_read)(kiln_instance* instance, const char* name, const DLTensor* to);
} kiln_runtime_calls;

/* The bytes of a file of the package's test, which live as long as the model; NULL: there is none. */
typedef const void* (*kiln_test_file_fn)(void* user, const char* name, size_t* size);

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
  /* Makes the calls of the package's test on the model. Returns 0 where one fails or nothing can be tested: see
   * error(). `label` is the package's name in messages. */
  int (*self_test)(kiln_model* model, const kiln_runtime_calls* runtime, kiln_test_file_fn file, void* user,
                   const char* label, kiln_self_test_summary* out);
  const char* (*error)(void); /* of the calling thread's last failure */
  const char* (*error_code)(void);
} kiln_tools_library;

typedef const kiln_tools_library* (*kiln_tools_library_fn)(void); /* exported as kiln_tools_entry */

#ifdef __cplusplus
}
#endif
#endif
