// What a tensor holds, in one pass over it: for the debug printer, the NaN checks and fault reports. Quick enough to be
// run over every weight of a transformer before and after each kernel.
//
// Elements are visited in row-major order of the indices, whatever the strides. Of a complex tensor both parts count as
// values, as torch.view_as_real shows them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "kiln/dlpack.h"
#include "types/dtype.h"

namespace kiln::runtime {

// Mean and standard deviation (n - 1) are over the finite values; minimum and maximum leave out NaN.
struct TensorStatistics {
  int64_t count = 0, nan = 0, infinite = 0, zero = 0;
  double minimum = 0, maximum = 0, mean = 0, deviation = 0;
  uint64_t checksum = 0;      // of the elements' bytes in row-major order: independent of strides
  std::vector<double> first;  // a few values
  // Of integers, which doubles do not hold: minimum, maximum and first with all their digits. Empty for other types.
  std::string exact_minimum, exact_maximum;
  std::vector<std::string> exact_first;

  std::string minimum_text() const;
  std::string maximum_text() const;
  std::vector<std::string> first_texts() const;
};
// Fills in what is exact; a part of what follows.
void add_exact_integers(const DLTensor& tensor, DType dtype, size_t first_count, TensorStatistics& out);
TensorStatistics tensor_statistics(const DLTensor& tensor, size_t first_count);

// The checksum alone.
uint64_t tensor_checksum(const DLTensor& tensor);

// The first NaN or infinity; nothing for types that have none.
struct BadElement {
  std::vector<int64_t> index;
  double value = 0;
  bool imaginary = false;  // the imaginary part is the bad one
};
enum class BadValues { not_finite, nan };
std::optional<BadElement> first_bad_element(const DLTensor& tensor, BadValues bad = BadValues::not_finite);

std::string index_text(const std::vector<int64_t>& index);  // "[0, 3]"
std::string number_text(double value);                      // six significant digits
// For records: the integer with all its digits, where there is one.
inline Json number_json(double value, const std::string& exact) {
  return exact.empty() ? Json(value) : Json(Json::BigInteger{exact});
}

}  // namespace kiln::runtime
