/* Kiln's C interface: load a compiled package and run it, with no Python and no libtorch.
 *
 * Handles are opaque. Every function that can fail returns a kiln_status; the message of the last failure on the
 * calling thread is kiln_last_error(). No C++ exception crosses this interface, and nothing changes owner unless a
 * comment says so. Strings given out live as long as the handle they came from. docs/embedding.md shows a whole
 * program.
 *
 * Threads: one kiln_instance may be run from several threads at once. A model without mutable buffers then runs in
 * parallel and takes no lock; one with mutable buffers runs one call after the other per instance.
 *
 * Versions: KILN_API_VERSION grows when something is added; what is there keeps its meaning. Structs that may grow
 * start with struct_size, which the caller sets to sizeof. */
#ifndef KILN_KILN_H
#define KILN_KILN_H

#include <stddef.h>
#include <stdint.h>

#include "kiln/dlpack.h"

#if defined(KILN_RUNTIME_BUILD)
#define KILN_API __attribute__((visibility("default")))
#else
#define KILN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* 2: profiles; 3: kiln_load_options.verify_weights, fault; 4: outputs that are strings; 5: kiln_self_test;
 * 6: kiln_load_options.host_tensors; 7: kiln_run_with, kiln_step.seconds, KILN_HOOK_WRITTEN */
#define KILN_API_VERSION 8

KILN_API uint32_t kiln_api_version(void);
KILN_API const char* kiln_version(void);

/* ---- Status ---------------------------------------------------------------------------------------------------- */
typedef enum kiln_status {
  KILN_OK = 0,
  KILN_ERROR_ARGUMENT = 1, /* a call that makes no sense: NULL, a wrong count, an unknown name */
  KILN_ERROR_INPUT = 2,    /* an input or output tensor does not fit the model; nothing was run */
  KILN_ERROR_FILE = 3,     /* the package cannot be read, is damaged or does not fit this runtime or machine */
  KILN_ERROR_RUN = 4,      /* the program itself raised: index out of range, assertion, custom operator */
  KILN_ERROR_UNSUPPORTED = 5,
  KILN_ERROR_MEMORY = 6,
  KILN_ERROR_STOPPED = 7, /* a hook asked to stop */
  KILN_ERROR_BUG = 8,     /* a bug in Kiln */
} kiln_status;

/* Of the calling thread; never NULL; valid until its next failing call. */
KILN_API const char* kiln_last_error(void);
KILN_API const char* kiln_last_error_code(void); /* stable: "K0602" */

/* ---- Values ---------------------------------------------------------------------------------------------------- */
typedef enum kiln_kind {
  KILN_NONE = 0,
  KILN_TENSOR = 1,
  KILN_INT = 2,
  KILN_FLOAT = 3,
  KILN_BOOL = 4,
  KILN_STRING = 5, /* of an output: lives as long as the instance */
} kiln_kind;

typedef struct kiln_value {
  int32_t kind; /* kiln_kind */
  int32_t reserved;
  union {
    DLTensor* tensor; /* borrowed for the call, or part of `owner` */
    int64_t integer;
    double floating;
    int32_t boolean;
    const char* string;
  } as;
  DLManagedTensorVersioned* owner; /* outputs that Kiln allocated: the caller's now; kiln_value_clear frees it */
} kiln_value;

/* Frees what Kiln allocated for an output and sets the value to KILN_NONE. Borrowed tensors are left alone. */
KILN_API void kiln_value_clear(kiln_value* value);

/* ---- Loading --------------------------------------------------------------------------------------------------- */
typedef struct kiln_model kiln_model;
typedef struct kiln_instance kiln_instance;

typedef struct kiln_allocator {
  void* (*allocate)(void* user, size_t bytes, size_t alignment); /* NULL when there is no memory */
  void (*release)(void* user, void* memory, size_t bytes);
  void* user;
} kiln_allocator;

typedef enum kiln_log_level {
  KILN_LOG_DEBUG = 0,
  KILN_LOG_INFO = 1,
  KILN_LOG_WARNING = 2,
  KILN_LOG_ERROR = 3
} kiln_log_level;
typedef void (*kiln_log_fn)(void* user, kiln_log_level level, const char* text);

/* Calls task(context, i) for every i in [0, tasks), on any threads, and returns when all have returned. */
typedef void (*kiln_parallel_for_fn)(void* user, int64_t tasks, void (*task)(void* context, int64_t i), void* context);

/* Told of a signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL) inside a step, on a thread of its own while the faulting one waits
 * (20 seconds at most): it may write what it likes to files. Afterwards the signal goes to whoever handled it before.
 */
typedef void (*kiln_fault_fn)(void* user, const char* text);

typedef struct kiln_load_options {
  size_t struct_size;
  const char* const* settings; /* "key=value", the names of the documentation; they win over the environment */
  size_t setting_count;
  int32_t ignore_environment;      /* 1: settings come from the list above only */
  int32_t device_index;            /* -1: the package's */
  const kiln_allocator* allocator; /* NULL: the C library's. The struct is copied */
  kiln_log_fn log;                 /* NULL: standard error */
  void* log_user;
  kiln_parallel_for_fn parallel_for; /* NULL: Kiln's own threads */
  void* parallel_for_user;
  const char* const* custom_op_libraries; /* paths of shared libraries (kiln/custom_op.h), beside the package's own */
  size_t custom_op_library_count;
  /* Whether loading reads every byte of the weights against the package's checksums: 1 yes, -1 no, 0 as the setting
   * verify_weights says (else: up to a few MB of them). */
  int32_t verify_weights;
  /* 1: of a package for a GPU, tensors of the host are taken too and copied there, and outputs that Kiln allocates are
   * the host's. 0: tensors are where the package runs, and nothing is copied. */
  int32_t host_tensors;
  kiln_fault_fn fault; /* NULL: nobody. With name_faults=1 or a setting that watches runs */
  void* fault_user;
} kiln_load_options;

/* options may be NULL. */
KILN_API kiln_status kiln_load(const char* path, const kiln_load_options* options, kiln_model** out);
/* The bytes are used in place and must outlive the model and its instances. */
KILN_API kiln_status kiln_load_memory(const void* bytes, size_t size, const kiln_load_options* options,
                                      kiln_model** out);
/* Instances keep what they need of their model: the order of freeing does not matter. */
KILN_API void kiln_model_free(kiln_model* model);

KILN_API const char* kiln_model_name(const kiln_model* model);
KILN_API const char* kiln_model_build_id(const kiln_model* model);
KILN_API const char* kiln_model_target(const kiln_model* model);  /* of the code chosen: "x86-64-v4" */
KILN_API int32_t kiln_model_is_stateful(const kiln_model* model); /* 1: runs change buffers of the instance */
/* What the user put into the package. NULL: no such key. */
KILN_API size_t kiln_metadata_count(const kiln_model* model);
KILN_API const char* kiln_metadata_key(const kiln_model* model, size_t index);
KILN_API const char* kiln_metadata(const kiln_model* model, const char* key);

/* ---- Inputs and outputs ----------------------------------------------------------------------------------------- */
typedef struct kiln_spec {
  size_t struct_size;
  const char* name;
  int32_t kind;     /* kiln_kind */
  int32_t mutated;  /* an input that runs write to */
  DLDataType dtype; /* tensors only, as all that follows */
  DLDeviceType device;
  int32_t rank;
  const int64_t* sizes;          /* -1: dynamic */
  const int64_t* strides;        /* -1: dynamic */
  const char* const* size_texts; /* "s0", "2*s0 + 1", "16" */
} kiln_spec;

KILN_API size_t kiln_input_count(const kiln_model* model);
KILN_API size_t kiln_output_count(const kiln_model* model);
KILN_API kiln_status kiln_input_spec(const kiln_model* model, size_t index, kiln_spec* out);
KILN_API kiln_status kiln_output_spec(const kiln_model* model, size_t index, kiln_spec* out);

typedef struct kiln_symbol {
  size_t struct_size;
  const char* name;
  int64_t low, high;  /* inclusive; the extremes of int64_t mean unbounded */
  int32_t from_data;  /* 1: known only while running */
  int32_t input, dim; /* where its value comes from, or -1 */
} kiln_symbol;
KILN_API size_t kiln_symbol_count(const kiln_model* model);
KILN_API kiln_status kiln_symbol_spec(const kiln_model* model, size_t index, kiln_symbol* out);

/* ---- Running ---------------------------------------------------------------------------------------------------- */
KILN_API kiln_status kiln_instance_create(kiln_model* model, kiln_instance** out);
KILN_API void kiln_instance_free(kiln_instance* instance);

/* Inputs are borrowed. An output that is {KILN_TENSOR, tensor} on entry is the caller's memory and is written in place
 * (any strides; it must not overlap an input, nor itself); any other value on entry is overwritten, and a tensor there
 * is allocated by Kiln and owned by the caller (kiln_value_clear). After a failure, outputs that were not the caller's
 * are KILN_NONE. */
KILN_API kiln_status kiln_run(kiln_instance* instance, const kiln_value* inputs, size_t input_count,
                              kiln_value* outputs, size_t output_count);

typedef struct kiln_run_options {
  size_t struct_size;
  /* Of a package for a GPU: a stream of its context (CUstream, cudaStream_t) that the call's work goes to, after what
   * is on it already. NULL: the legacy default stream, with which others are ordered unless they were made not to be.
   * Packages for the CPU have no use for it. */
  void* stream;
  /* 1: the call returns when its results are there. 0: with a stream, it returns when its work is on the stream, unless
   * a kernel of the model can raise (an index out of range) or tensors of the host are copied. -1: likewise even if a
   * kernel can raise; a later call of the instance then returns the error. Until the work is done inputs, outputs and
   * borrowed constants are in use. */
  int32_t wait;
  /* 1: this call draws the random numbers of `seed`, however many calls there were before, and leaves the instance's
   * own sequence (kiln_set_seed) where it is. 0: the next of that sequence. (Since version 8) */
  int32_t seeded;
  uint64_t seed;
} kiln_run_options;

/* kiln_run on a stream of the caller's, or with a seed. options may be NULL: as kiln_run. */
KILN_API kiln_status kiln_run_with(kiln_instance* instance, const kiln_value* inputs, size_t input_count,
                                   kiln_value* outputs, size_t output_count, const kiln_run_options* options);

/* Random numbers: two instances with the same seed give the same sequence of results. */
KILN_API kiln_status kiln_set_seed(kiln_instance* instance, uint64_t seed);
/* At most this many threads per run of this model; -1: as many as affinity and cgroup quota let the process use. A
 * number is taken as it is, even where that is fewer; 1024 is the most. More, and any other number below 1, is an
 * error. */
KILN_API kiln_status kiln_set_threads(kiln_model* model, int32_t threads);
KILN_API int32_t kiln_model_threads(const kiln_model* model); /* what is in effect: 1 or more; 0: model is NULL */

/* ---- Constants --------------------------------------------------------------------------------------------------- */
typedef struct kiln_constant {
  size_t struct_size;
  const char* name;       /* fully qualified: "layers.3.weight" */
  int32_t mutable_buffer; /* runs write it: every instance has its own */
  DLDataType dtype;
  int32_t rank;
  const int64_t* sizes;
  const int64_t* strides;
  const char*
      same_as; /* the first name of this constant, where it has several (tied weights): they are one; else NULL */
} kiln_constant;

KILN_API size_t kiln_constant_count(const kiln_model* model);
KILN_API kiln_status kiln_constant_spec(const kiln_model* model, size_t index, kiln_constant* out);
/* Copies the value (of a mutable buffer: the instance's own) into `to`: same dtype and sizes, any strides. */
KILN_API kiln_status kiln_constant_read(kiln_instance* instance, const char* name, const DLTensor* to);

enum {
  KILN_UPDATE_COPY = 0,   /* Kiln copies the values */
  KILN_UPDATE_BORROW = 1, /* no copy: the memory must have the constant's strides and 64-byte alignment, and live until
                             it is replaced and the runs that began before have returned, or the model is freed.
                             Its values must not change meanwhile: after changing them, update again (K0798) */
  KILN_UPDATE_INACTIVE = 2, /* into the set that kiln_constants_swap makes active; runs do not see it yet */
  KILN_UPDATE_ALL = 4,      /* an error unless all of the model's state dict is given */
};
/* Names of one constant (same_as) are updated together; given with different values they are an error (K0797).
 * Runs that have begun finish with the old values; each later run sees all the new ones or none. Of a mutable buffer it
 * sets the value that new instances start with; kiln_constant_write changes a living instance. */
KILN_API kiln_status kiln_constants_update(kiln_model* model, const char* const* names, const DLTensor* const* values,
                                           size_t count, uint32_t flags);
/* Active and inactive change places. An inactive set that was never written is an error. */
KILN_API kiln_status kiln_constants_swap(kiln_model* model);
KILN_API kiln_status kiln_constant_write(kiln_instance* instance, const char* name, const DLTensor* value);

/* ---- Hooks ------------------------------------------------------------------------------------------------------- */
typedef enum kiln_hook_when { KILN_BEFORE_STEP = 0, KILN_AFTER_STEP = 1 } kiln_hook_when;
typedef enum kiln_hook_answer {
  KILN_HOOK_CONTINUE = 0,
  KILN_HOOK_REPLACE = 1, /* before only: the hook has done the step's work; it is not launched */
  KILN_HOOK_STOP = 2,    /* the run ends with KILN_ERROR_STOPPED */
  KILN_HOOK_WRITTEN = 3, /* before only: what the step writes was changed through kiln_step.host; it is launched then */
} kiln_hook_answer;

typedef enum kiln_buffer_role {
  KILN_ROLE_INPUT = 0,
  KILN_ROLE_CONSTANT = 1,
  KILN_ROLE_DERIVED = 2, /* made from constants when they are loaded or updated */
  KILN_ROLE_OUTPUT = 3,
  KILN_ROLE_TEMP = 4,
} kiln_buffer_role;

typedef struct kiln_step_arg {
  const char* name;  /* of the buffer */
  DLTensor tensor;   /* a view, where the buffer is; a hook may write to what the step writes */
  int32_t access;    /* 1 read, 2 written, 3 both */
  int32_t is_output; /* of the model */
  int32_t role;      /* kiln_buffer_role */
  int32_t reserved;
  const char* producer; /* the step that wrote this memory last in this run; "": none has */
} kiln_step_arg;

typedef struct kiln_origin {
  const char* node;   /* in the exported program */
  const char* op;     /* "aten.relu.default" */
  const char* module; /* "layers.3.mlp" */
  const char* line;   /* "model.py:42 in forward:  y = …" */
} kiln_origin;

typedef struct kiln_step {
  size_t struct_size;
  const char* name;  /* "cpp_fused_add_relu_3" */
  int32_t number;    /* unique in the package */
  int64_t iteration; /* of the innermost loop around it; 0 outside loops */
  int64_t items;     /* of a kernel */
  const kiln_step_arg* args;
  size_t arg_count;
  const kiln_origin* origins; /* empty when the package was stripped */
  size_t origin_count;
  const char* kind; /* "kernel", "library", "custom" */
  uint64_t run;     /* number of the run among those of its model that are watched, from 1; 0: weights are prepared */
  uint64_t seed;    /* of the random numbers of this launch */
  const int64_t* iterations; /* of the loops around it, outermost first */
  size_t loop_depth;
  const char* const* symbol_names; /* the symbols that have a value at this step */
  const int64_t* symbol_values;
  size_t symbol_count;
  /* An argument where the host can read it, whatever device it is on: call it with `host_context`. The tensor is the
   * argument's own, or a copy that lives until the hook returns; what a hook that answers KILN_HOOK_REPLACE has written
   * to a copy goes to the device. NULL: it could not be copied. */
  const DLTensor* (*host)(void* host_context, size_t arg);
  void* host_context;
  double seconds; /* KILN_AFTER_STEP: what a kernel took by its GPU's own clock; 0: there is none */
} kiln_step;

typedef kiln_hook_answer (*kiln_hook_fn)(void* user, kiln_hook_when when, const kiln_step* step);

/* One hook per instance, for kernels, library steps and custom operators; NULL removes it. Without one a run
 * pays a single branch. It must not be changed while the instance runs. */
KILN_API kiln_status kiln_set_hook(kiln_instance* instance, kiln_hook_fn hook, void* user);

/* ---- Profiles -----------------------------------------------------------------------------------------------------
 */
typedef struct kiln_profile kiln_profile;

typedef struct kiln_profile_summary {
  size_t struct_size;
  int64_t runs;            /* that were profiled */
  double kernel_seconds;   /* all launches together */
  double overhead_seconds; /* what the profiler itself took of the runs' time */
  double machine_gflops;   /* what this machine was measured to do: f32 multiply-adds on all processors, */
  double machine_gbs; /* and reading memory; 0: libkiln_tools.so is not there. Of a GPU, by its clocks: bf16 products
                         on tensor cores, and its memory */
  const char* clock;  /* what kernels were timed by: "the host's clock"; of a GPU "CUPTI" or "CUDA events" */
} kiln_profile_summary;

typedef struct kiln_kernel_profile {
  size_t struct_size;
  const char* name;
  const char* kind;   /* as in kiln_step */
  const char* origin; /* the user's source line, else the operator, else "" */
  int64_t calls;
  double seconds;       /* of all calls together */
  double least_seconds; /* of one call */
  double bytes;         /* of all calls together: what is read and written of its arguments, once each */
  double flops;         /* of all calls together; negative: not known (no generated kernel, no debug section in a file,
                           or no libkiln_tools.so beside the runtime) */
} kiln_kernel_profile;

/* From now on every run of the instance is timed, beside a hook where there is one. Neither may be called while the
 * instance runs. `kiln profile` is a command that does this. */
KILN_API kiln_status kiln_profile_start(kiln_instance* instance);
/* Ends it and gives the result, which is the caller's; measures the machine where it can (half a second). */
KILN_API kiln_status kiln_profile_stop(kiln_instance* instance, kiln_profile** out);
KILN_API void kiln_profile_free(kiln_profile* profile);
KILN_API kiln_status kiln_profile_total(const kiln_profile* profile, kiln_profile_summary* out);
KILN_API size_t kiln_profile_count(const kiln_profile* profile); /* kernels that ran, the one that took longest first */
KILN_API kiln_status kiln_profile_kernel(const kiln_profile* profile, size_t index, kiln_kernel_profile* out);
/* The launches as a timeline for chrome://tracing and Perfetto; the first 100,000 of them. */
KILN_API kiln_status kiln_profile_write_trace(const kiln_profile* profile, const char* path);

/* ---- Self-test ----------------------------------------------------------------------------------------------------
 */
typedef struct kiln_self_test_summary {
  size_t struct_size;
  int64_t calls; /* that were made and compared */
  double worst;  /* largest error of a value, in units of its tolerance: at most 1 */
} kiln_self_test_summary;

/* Makes the calls that `kiln compile --bundle` put into the package, on instances of their own, and compares the
 * results with the expected ones in it, as `kiln check` does. It is the model as it is now that is tested, with its
 * settings and weights. KILN_OK: all are as expected. KILN_ERROR_RUN (K0742): one is not; kiln_last_error says which,
 * where and how far. Needs libkiln_tools.so (K0743). out may be NULL. */
KILN_API kiln_status kiln_self_test(kiln_model* model, kiln_self_test_summary* out);

#ifdef __cplusplus
}
#endif
#endif
