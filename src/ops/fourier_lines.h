// One-dimensional Fourier transforms of a length that is known while compiling, as loops (ops/fourier_lines.cpp).
#pragma once
#include <complex>

#include "ops/layout.h"
#include "ops/op_record.h"

namespace kiln {

// Whether such a transform is made as loops: of the length's factors each is short enough to be written out.
bool takes_fourier_line(int64_t n);

// kiln.fft_line and kiln.fft_line_to_real.
void register_fourier_lines(Registry& registry);

// Of ops/fourier.cpp: the layout that eager gives the result, and the definition of the transform for references.
Sizes fft_strides(const Sizes& sizes, const Sizes& strides, const std::vector<bool>& transformed);
Tensor dft(const Tensor& from, size_t dim, int64_t outputs, double sign);
Tensor whole_spectrum(const Tensor& half, size_t dim, int64_t n);

}  // namespace kiln
