// Elements of tensors as the runtime itself looks at them: DLPack's names for dtypes, PyTorch's numbers in messages,
// and one element as a number (for the debug printer, predicates and symbols; never on a hot path).
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "kiln/dlpack.h"
#include "types/dtype.h"

namespace kiln::runtime {

DLDataType dl_dtype(DType dtype);
std::optional<DType> dtype_of(DLDataType dtype);
int torch_scalar_type(DType dtype);          // c10::ScalarType, as PyTorch prints it
std::string dtype_text(DLDataType dtype);    // "6(float32)"; of a type PyTorch lacks: "uint4x2"
std::string device_text(DLDeviceType type);  // "1(cuda)", with PyTorch's numbers
// Two that differ: the types, or, where those are the same, the numbers: "1(cuda:0)".
std::string device_text(const DLDevice& device, const DLDevice& other);
bool is_host(DLDeviceType type);  // cpu, or memory of the host that a GPU can see

float half_value(uint16_t bits);
float bfloat_value(uint16_t bits);
float float8_value(DType dtype, uint8_t bits);

// A real element as a double (of a complex one its real part). int64 beyond 2^53 is rounded.
double element_value(DType dtype, const void* at);
// An integer or bool element, exactly; a float is truncated. False: it does not fit int64 or is not finite.
bool element_integer(DType dtype, const void* at, int64_t& out);
bool element_is_nonzero(DType dtype, const void* at);

}  // namespace kiln::runtime
