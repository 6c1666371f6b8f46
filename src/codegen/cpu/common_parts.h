// Long parts that several kernels' texts have in common, as functions that are compiled once. A convolution's sums, or
// Winograd's transforms, are the same text in kernels that differ in what follows them, and the compiler's time goes
// with the length of the text.
//
// A part is a loop, or a block around one, that speaks to the rest of its kernel through memory alone: a call for all
// of it costs next to nothing. People and tools see kernels as they were printed: this is for the compiler.
#pragma once
#include <string>
#include <vector>

namespace kiln::codegen {

struct CommonPart {
  std::string declaration, definition;
};

struct KernelText {
  std::string text;
  int lanes = 1;
};

struct KernelWithCalls {
  std::string text;           // with calls of the parts instead of their text
  std::vector<size_t> parts;  // that it calls, by number
};

struct SharedText {
  std::vector<KernelWithCalls> kernels;  // in the order they were given in
  std::vector<CommonPart> parts;         // numbered by the first kernel that calls them
};

SharedText with_common_parts(const std::vector<KernelText>& kernels);

}  // namespace kiln::codegen
