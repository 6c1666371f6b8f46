// Questions that bisecting asks of single kernels, buffers and tensors.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bounds_checks/step_interpreter.h"
#include "kiln/kiln.h"
#include "types/tensor.h"

namespace kiln {

// Of the elements in row-major order, whatever the strides.
uint64_t checksum(const Tensor& tensor);
// Whether the kernel's first access to the buffer is a store: then what was there before is not its input. (A store
// to a part of it keeps the rest; who cares about that looks at the values merged into the buffer.)
bool writes_first(const StepInterpreter& steps, const loops::Kernel& kernel, std::string_view name);
bool draws_random_numbers(const loops::Kernel& kernel);
// The constants whose elements the init section puts into the buffer, changing nothing but their order (several: the
// weights of products that were joined); empty: none.
std::vector<std::string> packed_from(const StepInterpreter& steps, const std::string& buffer);
// Whether a holds the elements of all others, whatever their order. True where that cannot be told (it has fewer).
bool same_values(const Tensor& a, const std::vector<Tensor>& others);
// What is wrong about the sizes and strides that a step is given.
std::optional<std::string> layout_fault(const loops::Buffer& buffer, const DLTensor& tensor,
                                        const SymbolValues& symbols);
// The name that stands between `before` and " (" in a message of the runtime; empty: none.
std::string buffer_in(const std::string& message, const std::string& before);
SymbolValues symbols_of(const kiln_step& step);
std::vector<int64_t> iterations_of(const kiln_step& step);

}  // namespace kiln
