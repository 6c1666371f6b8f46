// Runs one package from two threads at once and says how long a call takes.
//
//   two_threads model.kiln.pt2 [calls]
//
// Inputs are made from the package's own description (dynamic sizes become 8, or what their range allows), outputs are
// allocated once and reused: nothing is allocated inside the timed calls.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "kiln/kiln.hpp"

namespace {

constexpr int64_t batch = 8;

std::map<std::string, int64_t> symbol_values(const kiln::Model& model) {
  std::map<std::string, int64_t> values;
  for (size_t i = 0; i < kiln_symbol_count(model.handle()); ++i) {
    kiln_symbol symbol{};
    symbol.struct_size = sizeof symbol;
    kiln::check(kiln_symbol_spec(model.handle(), i, &symbol));
    values[symbol.name] = std::clamp(batch, symbol.low, symbol.high);
  }
  return values;
}

std::vector<int64_t> sizes_of(const kiln_spec& spec, const std::map<std::string, int64_t>& symbols) {
  std::vector<int64_t> sizes(spec.sizes, spec.sizes + spec.rank);
  for (int32_t d = 0; d < spec.rank; ++d) {
    auto found = symbols.find(spec.size_texts[d]);
    if (sizes[static_cast<size_t>(d)] < 0)
      sizes[static_cast<size_t>(d)] = found == symbols.end() ? batch : found->second;
  }
  return sizes;
}

int64_t count(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

// One thread's tensors: its own memory, described as the package asks.
struct Tensors {
  std::vector<std::vector<double>> memory;  // of doubles, so that any element type is aligned
  std::vector<kiln::Value> inputs, outputs;

  kiln::Value make(const kiln_spec& spec, const std::map<std::string, int64_t>& symbols, bool fill) {
    if (spec.kind != KILN_TENSOR) return spec.kind == KILN_INT ? kiln::Value(batch) : kiln::Value();
    std::vector<int64_t> sizes = sizes_of(spec, symbols);
    int64_t n = count(sizes), item = (spec.dtype.bits + 7) / 8;
    memory.emplace_back(static_cast<size_t>(n * item / 8 + 1));
    if (fill && spec.dtype.code == kDLFloat && spec.dtype.bits == 32)
      for (int64_t i = 0; i < n; ++i)
        reinterpret_cast<float*>(memory.back().data())[i] = static_cast<float>(i % 17) / 8 - 1;
    return kiln::Value(memory.back().data(), spec.dtype, sizes);
  }

  explicit Tensors(const kiln::Model& model) {
    auto symbols = symbol_values(model);
    for (size_t i = 0; i < model.input_count(); ++i) inputs.push_back(make(model.input(i), symbols, true));
    for (size_t i = 0; i < model.output_count(); ++i) outputs.push_back(make(model.output(i), symbols, false));
  }
};

void print_outputs(const Tensors& tensors) {
  for (size_t o = 0; o < tensors.outputs.size(); ++o) {
    const kiln::Value& value = tensors.outputs[o];
    std::printf("  output %zu:", o);
    if (value.kind() == KILN_INT) std::printf(" %lld", static_cast<long long>(value.integer()));
    if (value.is_tensor() && value.tensor().dtype.code == kDLFloat && value.tensor().dtype.bits == 32)
      for (int64_t i = 0; i < std::min<int64_t>(count(value.sizes()), 8); ++i)
        std::printf(" %.6g", static_cast<double>(value.data<float>()[i]));
    std::printf("\n");
  }
}

struct Result {
  double median_us = 0, total_s = 0;
  std::string error;
};

void work(const kiln::Instance& instance, Tensors& tensors, int calls, Result& result) try {
  std::vector<kiln_value> inputs, outputs;
  for (const kiln::Value& v : tensors.inputs) inputs.push_back(v.raw());
  for (const kiln::Value& v : tensors.outputs) outputs.push_back(v.raw());
  std::vector<float> times(static_cast<size_t>(calls));
  auto start = std::chrono::steady_clock::now(), last = start;
  for (float& time : times) {
    instance.run(inputs.data(), inputs.size(), outputs.data(), outputs.size());
    auto now = std::chrono::steady_clock::now();
    time = std::chrono::duration<float, std::micro>(now - last).count();
    last = now;
  }
  result.total_s = std::chrono::duration<double>(last - start).count();
  std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
  result.median_us = static_cast<double>(times[static_cast<size_t>(calls / 2)]);
} catch (const std::exception& error) {
  result.error = error.what();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: two_threads PACKAGE [calls]\n");
    return 2;
  }
  int calls = argc > 2 ? std::atoi(argv[2]) : 100000;
  if (calls < 1) calls = 1;
  kiln::LoadOptions options;
  options.settings = {"cpp.threads=1"};  // each call stays on its caller's thread
  kiln::Model model(argv[1], options);
  kiln::Instance instance(model);
  std::printf("%s for %s, %zu inputs, %zu outputs%s\n", model.name().c_str(), model.target().c_str(),
              model.input_count(), model.output_count(),
              model.stateful() ? ", stateful: calls on one instance wait for each other" : "");

  Tensors first(model), second(model);
  Result alone, a, b;
  work(instance, first, calls, alone);
  if (!alone.error.empty()) throw std::runtime_error(alone.error);
  std::printf("one thread:  median %.3f us per call over %d calls\n", alone.median_us, calls);
  std::thread other([&] { work(instance, second, calls, b); });
  work(instance, first, calls, a);
  other.join();
  for (const Result* r : {&a, &b})
    if (!r->error.empty()) throw std::runtime_error(r->error);
  std::printf("two threads: median %.3f us and %.3f us per call, %.0f calls/s together\n", a.median_us, b.median_us,
              2 * calls / std::max(a.total_s, b.total_s));
  std::printf("first thread:\n");
  print_outputs(first);
  std::printf("second thread:\n");
  print_outputs(second);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
