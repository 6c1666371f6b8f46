// A custom operator library: the operators mylib::* and aoti_custom_ops::* that the test programs use, written against
// kiln/custom_op.h alone. Build it as a shared library and give it to `kiln compile --custom-op-lib` or to kiln_load.
//
// All of them are "elementwise plus a number" in one form or another, for every real dtype with arithmetic of its own.
#include <cstdint>
#include <cstring>

#include "kiln/custom_op.h"

namespace {

// Calls f(offset_a, offset_b, …) once per element, in elements, for tensors of the same sizes.
template <class F, class... Tensors>
void for_each_element(const DLTensor& sizes, F f, const Tensors&... tensors) {
  int64_t count = 1;
  for (int32_t d = 0; d < sizes.ndim; ++d) count *= sizes.shape[d];
  auto offset = [&](const DLTensor& t, int64_t index) {
    int64_t at = 0, row_major = 1;
    for (int32_t d = sizes.ndim; d-- > 0;) {
      int64_t i = index % sizes.shape[d];
      index /= sizes.shape[d];
      at += i * (t.strides ? t.strides[d] : row_major);
      row_major *= sizes.shape[d];
    }
    return at;
  };
  for (int64_t i = 0; i < count; ++i) f(offset(tensors, i)...);
}

template <class T>
T* elements(const DLTensor& tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
}

bool same_sizes(const DLTensor& a, const DLTensor& b) {
  if (a.ndim != b.ndim || std::memcmp(&a.dtype, &b.dtype, sizeof a.dtype) != 0) return false;
  for (int32_t d = 0; d < a.ndim; ++d)
    if (a.shape[d] != b.shape[d]) return false;
  return true;
}

// out = a + b, b may be absent; then out = a + number.
template <class T>
void add_typed(const DLTensor& a, const DLTensor* b, int64_t number, const DLTensor& out) {
  const T* x = elements<T>(a);
  const T* y = b ? elements<T>(*b) : nullptr;
  T* z = elements<T>(out);
  T plus = static_cast<T>(number);
  for_each_element(
      a, [&](int64_t i, int64_t j, int64_t k) { z[k] = static_cast<T>(x[i] + (y ? y[j] : plus)); }, a, b ? *b : a, out);
}

int32_t add_into(kiln_op_call* call, const DLTensor& a, const DLTensor* b, int64_t number, const DLTensor& out) {
  if ((b && !same_sizes(a, *b)) || !same_sizes(a, out)) return kiln_op_fail(call, "sizes or dtypes differ"), 1;
  int kind = a.dtype.code * 256 + a.dtype.bits;
  switch (kind) {
    case kDLFloat * 256 + 32:
      return add_typed<float>(a, b, number, out), 0;
    case kDLFloat * 256 + 64:
      return add_typed<double>(a, b, number, out), 0;
    case kDLInt * 256 + 64:
      return add_typed<int64_t>(a, b, number, out), 0;
    case kDLInt * 256 + 32:
      return add_typed<int32_t>(a, b, number, out), 0;
    case kDLInt * 256 + 16:
      return add_typed<int16_t>(a, b, number, out), 0;
    case kDLInt * 256 + 8:
      return add_typed<int8_t>(a, b, number, out), 0;
    case kDLUInt * 256 + 8:
      return add_typed<uint8_t>(a, b, number, out), 0;
    default:
      return kiln_op_fail(call, "this dtype is not supported"), 1;
  }
}

// The common case: one new output of a's sizes.
int32_t add_output(kiln_op_call* call, int32_t output, const DLTensor* a, const DLTensor* b, int64_t number) {
  if (!a) return kiln_op_fail(call, "a tensor is missing"), 1;
  DLTensor* out = kiln_op_output(call, output, a->ndim, a->shape);
  return out ? add_into(call, *a, b, number, *out) : 1;
}

const DLTensor* tensor(kiln_op_call* call, const char* name) { return kiln_op_tensor(call, kiln_op_find(call, name)); }

int32_t foo2(kiln_op_call* call) { return add_output(call, 0, tensor(call, "a"), tensor(call, "b"), 0); }
int32_t foo_add1(kiln_op_call* call) { return add_output(call, 0, tensor(call, "a"), nullptr, 1); }
int32_t foo_add2(kiln_op_call* call) { return add_output(call, 0, tensor(call, "a"), nullptr, 2); }

// The first b.item() elements of a: the size of the result depends on data.
int32_t foo(kiln_op_call* call) {
  const DLTensor *a = tensor(call, "a"), *b = tensor(call, "b");
  if (!a || !b || a->ndim < 1) return kiln_op_fail(call, "a tensor is missing"), 1;
  if (b->dtype.code != kDLInt || (b->dtype.bits != 64 && b->dtype.bits != 32))
    return kiln_op_fail(call, "b is no integer"), 1;
  int64_t n = b->dtype.bits == 64 ? *elements<int64_t>(*b) : *elements<int32_t>(*b);
  if (n < 0 || n > a->shape[0]) return kiln_op_fail(call, "b is larger than a"), 1;
  DLTensor part = *a;
  int64_t sizes[64];
  std::memcpy(sizes, a->shape, sizeof(int64_t) * static_cast<size_t>(a->ndim));
  sizes[0] = n;
  part.shape = sizes;
  DLTensor* out = kiln_op_output(call, 0, a->ndim, sizes);
  return out ? add_into(call, part, nullptr, 0, *out) : 1;
}

int32_t custom_add(kiln_op_call* call) { return add_output(call, 0, tensor(call, "t1"), tensor(call, "t2"), 0); }

int32_t fn_with_tuple_output(kiln_op_call* call) {
  int64_t i1 = kiln_op_int(call, kiln_op_find(call, "i1"), 0);
  int32_t rc = add_output(call, 0, tensor(call, "t1"), nullptr, i1);
  return rc ? rc : add_output(call, 1, tensor(call, "t1"), nullptr, -i1);
}

int32_t add_list(kiln_op_call* call, int32_t first_output, int64_t number) {
  int32_t list = kiln_op_find(call, "tensors");
  for (int64_t i = 0; i < kiln_op_list_size(call, list); ++i) {
    int32_t rc =
        add_output(call, first_output + static_cast<int32_t>(i), kiln_op_list_tensor(call, list, i), nullptr, number);
    if (rc) return rc;
  }
  return 0;
}

int32_t fn_with_list_output(kiln_op_call* call) {
  return add_list(call, 0, kiln_op_int(call, kiln_op_find(call, "i1"), 0));
}

int32_t fn_with_mix_outputs(kiln_op_call* call) {
  int32_t rc = add_output(call, 0, tensor(call, "t1"), nullptr, 1);
  return rc ? rc : add_list(call, 1, 1);
}

// The default of i1 is the operator's own: the program does not pass it.
int32_t fn_with_default_input(kiln_op_call* call) {
  return add_output(call, 0, tensor(call, "t"), nullptr, kiln_op_int(call, kiln_op_find(call, "i1"), 3));
}

int32_t fn_out_variant_without_return(kiln_op_call* call) {
  const DLTensor *x = tensor(call, "x"), *y = tensor(call, "y");
  return x && y ? add_into(call, *x, nullptr, 1, *y) : (kiln_op_fail(call, "a tensor is missing"), 1);
}

// x becomes x + y; the result is the new x plus y.
int32_t fn_mutated_arg(kiln_op_call* call) {
  const DLTensor *x = tensor(call, "x"), *y = tensor(call, "y");
  if (!x || !y) return kiln_op_fail(call, "a tensor is missing"), 1;
  int32_t rc = add_into(call, *x, y, 0, *x);
  return rc ? rc : add_output(call, 0, x, y, 0);
}

// Operators that write to what they are given. Their schemas say so: Tensor(a!).

// x += k
int32_t inc_(kiln_op_call* call) {
  const DLTensor* x = tensor(call, "x");
  if (!x) return kiln_op_fail(call, "x is missing"), 1;
  return add_into(call, *x, nullptr, kiln_op_int(call, kiln_op_find(call, "k"), 1), *x);
}

// Every x of the list += k
int32_t inc_all_(kiln_op_call* call) {
  const int32_t list = kiln_op_find(call, "xs");
  const int64_t k = kiln_op_int(call, kiln_op_find(call, "k"), 1);
  for (int64_t i = 0; i < kiln_op_list_size(call, list); ++i) {
    const DLTensor* x = kiln_op_list_tensor(call, list, i);
    if (!x) return kiln_op_fail(call, "a tensor of the list is missing"), 1;
    if (int32_t rc = add_into(call, *x, nullptr, k, *x)) return rc;
  }
  return 0;
}

// x += z, y += z, and the result is the new x + the new y.
int32_t add_to_both(kiln_op_call* call) {
  const DLTensor *x = tensor(call, "x"), *y = tensor(call, "y"), *z = tensor(call, "z");
  if (!x || !y || !z) return kiln_op_fail(call, "a tensor is missing"), 1;
  if (int32_t rc = add_into(call, *x, z, 0, *x)) return rc;
  if (int32_t rc = add_into(call, *y, z, 0, *y)) return rc;
  return add_output(call, 0, x, y, 0);
}

// The result is x + 2; out, where it is given, becomes x + 1.
int32_t add_with_out(kiln_op_call* call) {
  const DLTensor *x = tensor(call, "x"), *out = tensor(call, "out");
  if (!x) return kiln_op_fail(call, "x is missing"), 1;
  if (out)
    if (int32_t rc = add_into(call, *x, nullptr, 1, *out)) return rc;
  return add_output(call, 0, x, nullptr, 2);
}

const kiln_custom_op ops[] = {
    {"mylib::foo", foo, "foo(Tensor a, Tensor b) -> Tensor"},
    {"mylib::foo2", foo2, "foo2(Tensor a, Tensor b) -> Tensor"},
    {"mylib::foo_add1", foo_add1, "foo_add1(Tensor a) -> Tensor"},
    {"mylib::foo_add2", foo_add2, "foo_add2(Tensor a) -> Tensor"},
    {"mylib::inc_", inc_, "inc_(Tensor(a!) x, int k=1) -> ()"},
    {"mylib::inc_all_", inc_all_, "inc_all_(Tensor(a!)[] xs, int k=1) -> ()"},
    {"mylib::add_to_both", add_to_both, "add_to_both(Tensor(a!) x, Tensor(b!) y, Tensor z) -> Tensor"},
    {"mylib::add_with_out", add_with_out, "add_with_out(Tensor x, Tensor(a!)? out) -> Tensor"},
    {"aoti_custom_ops::custom_add", custom_add, "custom_add(Tensor t1, Tensor t2) -> Tensor"},
    {"aoti_custom_ops::fn_with_tuple_output", fn_with_tuple_output,
     "fn_with_tuple_output(Tensor t1, int i1) -> (Tensor, Tensor)"},
    {"aoti_custom_ops::fn_with_list_output", fn_with_list_output,
     "fn_with_list_output(Tensor[] tensors, int i1) -> Tensor[]"},
    {"aoti_custom_ops::fn_with_mix_outputs", fn_with_mix_outputs,
     "fn_with_mix_outputs(Tensor t1, Tensor[] tensors) -> (Tensor, Tensor[])"},
    {"aoti_custom_ops::fn_with_default_input", fn_with_default_input,
     "fn_with_default_input(Tensor t, int i1=3) -> Tensor"},
    {"aoti_custom_ops::fn_out_variant_without_return", fn_out_variant_without_return,
     "fn_out_variant_without_return(Tensor x, Tensor(a!) y) -> ()"},
    {"aoti_custom_ops::fn_mutated_arg", fn_mutated_arg, "fn_mutated_arg(Tensor(a!) x, Tensor y) -> Tensor"},
};
const kiln_custom_op_table table = {KILN_CUSTOM_OP_ABI_VERSION, sizeof ops / sizeof ops[0], ops};

}  // namespace

extern "C" KILN_CUSTOM_OP_EXPORT const kiln_custom_op_table* kiln_custom_ops(void) { return &table; }
