// Reads digits with a compiled model, through Kiln's C interface: the smallest real program around a package.
//
//   read_digits PACKAGE PICTURES.npy [LABELS.txt]
//
// Prints the first pictures, what the model takes each of them for, and how long a call takes. With labels it counts
// the mistakes; the exit status is 1 if there are any.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "kiln/kiln.h"

namespace {

constexpr int64_t side = 16, pixels = side * side, classes = 10;

void check(kiln_status status) {
  if (status != KILN_OK) throw std::runtime_error(kiln_last_error());
}

// The pictures of a .npy file (version 1) of float32 [n, 256].
std::vector<float> read_pictures(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  constexpr size_t fixed = 10;  // magic, version, length of the description
  if (bytes.size() < fixed || bytes.compare(0, 6, "\x93NUMPY") != 0)
    throw std::runtime_error(path + " is not a .npy file");
  const size_t length = static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  const std::string description = bytes.substr(fixed, length);
  if (description.find("'<f4'") == std::string::npos || description.find(", 256)") == std::string::npos ||
      description.find("'fortran_order': False") == std::string::npos)
    throw std::runtime_error(path + " does not hold float32 pictures of 256 pixels");
  const size_t start = fixed + length;
  if (start >= bytes.size()) throw std::runtime_error(path + " holds no pictures");
  std::vector<float> values((bytes.size() - start) / (sizeof(float) * pixels) * pixels);
  std::memcpy(values.data(), bytes.data() + start, values.size() * sizeof(float));
  return values;
}

std::vector<int64_t> read_labels(const std::string& path) {
  std::ifstream in(path);
  return {std::istream_iterator<int64_t>(in), {}};
}

// A dense tensor over memory of ours.
struct View {
  DLTensor tensor{};
  std::vector<int64_t> shape;
  View(void* data, std::vector<int64_t> sizes, uint8_t code, uint8_t bits) : shape(std::move(sizes)) {
    tensor.data = data;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = {code, bits, 1};
    tensor.shape = shape.data();
    tensor.strides = nullptr;  // dense, row by row
  }
  View(const View&) = delete;
  kiln_value value() {
    kiln_value out{};
    out.kind = KILN_TENSOR;
    out.as.tensor = &tensor;
    return out;
  }
};

class Reader {
 public:
  explicit Reader(const char* package) {
    check(kiln_load(package, nullptr, &model_));
    check(kiln_instance_create(model_, &instance_));
  }
  ~Reader() {
    kiln_instance_free(instance_);
    kiln_model_free(model_);
  }
  Reader(const Reader&) = delete;

  // Fills probabilities [n, 10] and digits [n] and returns the median time of a call in microseconds.
  double read(float* pictures, int64_t n, float* probabilities, int64_t* digits, int calls) {
    View input(pictures, {n, pixels}, kDLFloat, 32), first(probabilities, {n, classes}, kDLFloat, 32),
        second(digits, {n}, kDLInt, 64);
    const kiln_value inputs[] = {input.value()};
    kiln_value outputs[] = {first.value(), second.value()};
    std::vector<double> times;
    for (int i = 0; i < calls; ++i) {
      const auto start = std::chrono::steady_clock::now();
      check(kiln_run(instance_, inputs, 1, outputs, 2));
      times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
    return times[static_cast<size_t>(calls / 2)];
  }

 private:
  kiln_model* model_ = nullptr;
  kiln_instance* instance_ = nullptr;
};

void draw(const float* pictures, int64_t count) {
  const char shades[] = " .:-=+*#%@";
  for (int64_t row = 0; row < side; ++row) {
    std::string line;
    for (int64_t p = 0; p < count; ++p) {
      for (int64_t column = 0; column < side; ++column) {
        const float value = pictures[p * pixels + row * side + column];
        line.append(2, shades[std::clamp(static_cast<int>(value * 10), 0, 9)]);
      }
      line += "   ";
    }
    std::puts(line.c_str());
  }
}

int run(const char* package, const char* pictures_path, const char* labels_path) {
  std::vector<float> pictures = read_pictures(pictures_path);
  const auto n = static_cast<int64_t>(pictures.size()) / pixels;
  std::vector<float> probabilities(static_cast<size_t>(n * classes));
  std::vector<int64_t> digits(static_cast<size_t>(n));
  Reader reader(package);
  reader.read(pictures.data(), n, probabilities.data(), digits.data(), 1);

  draw(pictures.data(), std::min<int64_t>(n, 3));
  const std::vector<int64_t> labels = labels_path ? read_labels(labels_path) : std::vector<int64_t>{};
  int64_t mistakes = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t digit = digits[static_cast<size_t>(i)];
    if (digit < 0 || digit >= classes) throw std::runtime_error("the model answered " + std::to_string(digit));
    const bool labelled = static_cast<size_t>(i) < labels.size();
    const bool wrong = labelled && labels[static_cast<size_t>(i)] != digit;
    mistakes += wrong;
    std::printf("picture %2d: %d  (%5.1f %% sure)%s\n", static_cast<int>(i), static_cast<int>(digit),
                100.0 * static_cast<double>(probabilities[static_cast<size_t>(i * classes + digit)]),
                wrong ? "  wrong" : "");
  }
  if (!labels.empty()) std::printf("%d of %d right\n", static_cast<int>(n - mistakes), static_cast<int>(n));
  const double one = reader.read(pictures.data(), 1, probabilities.data(), digits.data(), 10000);
  const double all = reader.read(pictures.data(), n, probabilities.data(), digits.data(), 10000);
  std::printf("%.2f µs for one picture, %.2f µs for %d (median of 10000 calls)\n", one, all, static_cast<int>(n));
  return mistakes ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: read_digits PACKAGE PICTURES.npy [LABELS.txt]\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], argc > 3 ? argv[3] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
