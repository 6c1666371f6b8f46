/* How a shared library brings its own operators to Kiln.
 *
 * The library exports one function, kiln_custom_ops(), that returns a table of {name, function, schema}. It links
 * against nothing of Kiln: a call brings its own functions, reached through the inline ones below. The same library
 * serves `kiln compile --custom-op-lib`, packages (which carry a copy) and kiln_load_options.custom_op_libraries.
 *
 *   static int32_t double_it(kiln_op_call* call) {
 *     const DLTensor* x = kiln_op_tensor(call, kiln_op_find(call, "x"));
 *     DLTensor* y = kiln_op_output(call, 0, x->ndim, x->shape);
 *     if (!y) return 1;
 *     …
 *     return 0;
 *   }
 *   static const kiln_custom_op ops[] = {{"mylib::double_it", double_it, "double_it(Tensor x) -> Tensor"}};
 *   static const kiln_custom_op_table table = {KILN_CUSTOM_OP_ABI_VERSION, 1, ops};
 *   KILN_CUSTOM_OP_EXPORT const kiln_custom_op_table* kiln_custom_ops(void) { return &table; }
 *
 * An operator that writes to an argument says so in its schema, as in PyTorch: "inc_(Tensor(a!) x, int k) -> ()". It
 * then writes to the memory of kiln_op_tensor(…)->data; to all other arguments it must not write.
 *
 * An operator may be called from several threads at once. It must not throw and must not keep what it is given. */
#ifndef KILN_CUSTOM_OP_H
#define KILN_CUSTOM_OP_H

#include <stddef.h>
#include <stdint.h>

#include "kiln/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_CUSTOM_OP_ABI_VERSION 2  /* of the table; 1 had no schema and is still read */
#define KILN_CUSTOM_OP_CALL_VERSION 1 /* of kiln_op_functions */

typedef enum kiln_arg_kind {
  KILN_ARG_NONE = 0,
  KILN_ARG_TENSOR = 1,
  KILN_ARG_TENSORS = 2,
  KILN_ARG_INT = 3,
  KILN_ARG_INTS = 4,
  KILN_ARG_FLOAT = 5,
  KILN_ARG_BOOL = 6,
  KILN_ARG_STRING = 7,
} kiln_arg_kind;

typedef struct kiln_op_call kiln_op_call;

/* Grows at its end only. Arguments are numbered in the order of the schema, as far as the program gives them. */
typedef struct kiln_op_functions {
  uint32_t struct_size;
  uint32_t version;
  int32_t (*arg_count)(const kiln_op_call*);
  const char* (*arg_name)(const kiln_op_call*, int32_t arg);
  int32_t (*arg_kind)(const kiln_op_call*, int32_t arg);
  int64_t (*list_size)(const kiln_op_call*, int32_t arg);                       /* of TENSORS and INTS; 1 otherwise */
  const DLTensor* (*tensor)(const kiln_op_call*, int32_t arg, int64_t element); /* NULL: None */
  int64_t (*integer)(const kiln_op_call*, int32_t arg, int64_t element);
  double (*floating)(const kiln_op_call*, int32_t arg); /* of FLOAT; of INT and BOOL converted */
  const char* (*string)(const kiln_op_call*, int32_t arg);
  int32_t (*output_count)(const kiln_op_call*);
  DLTensor* (*output)(kiln_op_call*, int32_t output, int32_t rank, const int64_t* sizes);
  void (*fail)(kiln_op_call*, const char* message);
} kiln_op_functions;

struct kiln_op_call {
  const kiln_op_functions* functions;
};

/* The argument with this name, or -1 when the program left it to its default. All others below take -1 as None. */
static inline int32_t kiln_op_find(const kiln_op_call* call, const char* name) {
  for (int32_t i = 0; i < call->functions->arg_count(call); ++i) {
    const char* a = call->functions->arg_name(call, i);
    const char* b = name;
    while (*a && *a == *b) ++a, ++b;
    if (*a == *b) return i;
  }
  return -1;
}
static inline int32_t kiln_op_arg_count(const kiln_op_call* call) { return call->functions->arg_count(call); }
static inline int32_t kiln_op_kind(const kiln_op_call* call, int32_t arg) {
  return arg < 0 ? KILN_ARG_NONE : call->functions->arg_kind(call, arg);
}
static inline const DLTensor* kiln_op_tensor(const kiln_op_call* call, int32_t arg) {
  return arg < 0 ? NULL : call->functions->tensor(call, arg, 0);
}
static inline int64_t kiln_op_list_size(const kiln_op_call* call, int32_t arg) {
  return arg < 0 ? 0 : call->functions->list_size(call, arg);
}
static inline const DLTensor* kiln_op_list_tensor(const kiln_op_call* call, int32_t arg, int64_t element) {
  return arg < 0 ? NULL : call->functions->tensor(call, arg, element);
}
static inline int64_t kiln_op_int(const kiln_op_call* call, int32_t arg, int64_t otherwise) {
  return kiln_op_kind(call, arg) == KILN_ARG_NONE ? otherwise : call->functions->integer(call, arg, 0);
}
static inline int64_t kiln_op_list_int(const kiln_op_call* call, int32_t arg, int64_t element) {
  return arg < 0 ? 0 : call->functions->integer(call, arg, element);
}
static inline double kiln_op_float(const kiln_op_call* call, int32_t arg, double otherwise) {
  return kiln_op_kind(call, arg) == KILN_ARG_NONE ? otherwise : call->functions->floating(call, arg);
}
static inline int32_t kiln_op_bool(const kiln_op_call* call, int32_t arg, int32_t otherwise) {
  return kiln_op_kind(call, arg) == KILN_ARG_NONE ? otherwise : call->functions->integer(call, arg, 0) != 0;
}
static inline const char* kiln_op_string(const kiln_op_call* call, int32_t arg) {
  return arg < 0 ? NULL : call->functions->string(call, arg);
}
/* Tensors of list results count one by one: (Tensor, Tensor[]) with a list of two has three outputs. */
static inline int32_t kiln_op_output_count(const kiln_op_call* call) { return call->functions->output_count(call); }
/* Memory for a result of these sizes, with the strides the program expects. NULL: the sizes contradict the program
 * (the message is set; return nonzero). To be called once per output. */
static inline DLTensor* kiln_op_output(kiln_op_call* call, int32_t output, int32_t rank, const int64_t* sizes) {
  return call->functions->output(call, output, rank, sizes);
}
/* Says what went wrong; the operator then returns nonzero. */
static inline void kiln_op_fail(kiln_op_call* call, const char* message) { call->functions->fail(call, message); }

typedef struct kiln_custom_op {
  const char* name;                   /* "mylib::foo", or with an overload "mylib::foo.out" */
  int32_t (*run)(kiln_op_call* call); /* 0: done */
  /* What PyTorch prints of it (str(torch.ops.mylib.foo.default._schema)), with or without "mylib::". NULL: it has
   * results and writes to none of its arguments. */
  const char* schema;
} kiln_custom_op;

typedef struct kiln_custom_op_table {
  uint32_t abi_version; /* KILN_CUSTOM_OP_ABI_VERSION */
  uint32_t count;
  const kiln_custom_op* ops;
} kiln_custom_op_table;

/* For those who read tables. Version 1 had {name, run} only. */
typedef struct kiln_custom_op_v1 {
  const char* name;
  int32_t (*run)(kiln_op_call* call);
} kiln_custom_op_v1;
static inline int32_t kiln_custom_op_table_known(const kiln_custom_op_table* table) {
  return table && (table->ops || table->count == 0) && table->abi_version >= 1 &&
         table->abi_version <= KILN_CUSTOM_OP_ABI_VERSION;
}
static inline kiln_custom_op kiln_custom_op_at(const kiln_custom_op_table* table, uint32_t index) {
  kiln_custom_op out;
  if (table->abi_version == 1) {
    const kiln_custom_op_v1* old = (const kiln_custom_op_v1*)(const void*)table->ops + index;
    out.name = old->name;
    out.run = old->run;
    out.schema = NULL;
  } else {
    out = table->ops[index];
  }
  return out;
}

#define KILN_CUSTOM_OP_EXPORT __attribute__((visibility("default")))
typedef const kiln_custom_op_table* (*kiln_custom_ops_fn)(void); /* the type of the exported kiln_custom_ops */

#ifdef __cplusplus
}
#endif
#endif
