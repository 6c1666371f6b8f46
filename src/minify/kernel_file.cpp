#include "minify/kernel_file.h"

#include <cstring>

#include "base/error.h"
#include "base/script_text.h"
#include "compile/compilation.h"
#include "executable/executable.h"
#include "interp/interp.h"

namespace kiln::minify {
namespace {

constexpr int64_t most_bytes = 256 * 1024;  // of one buffer's values in the text

const char* item_format(DType dtype) {
  if (dtype == DType::f32) return "f32";
  if (dtype == DType::f64) return "f64";
  return is_integral(dtype) ? "i" : "";
}

class Writer {
 public:
  Writer(const Program& program, const Settings& settings)
      : program_(program),
        compilation_(program, options_of(settings)),
        loops_(compilation_.scheduled()),
        code_(compilation_.code()),
        constants_(compilation_.graph().constants),
        symbols_(bind_symbols(program, program.sample_inputs)) {}

  KernelFile write(const std::string& name) {
    std::vector<std::string> calls;
    for (const loops::Block* block : {&loops_.init, &loops_.block})
      for (const loops::Item& item : *block) calls.push_back(call(item));
    KernelFile file;
    file.command = str("g++ ", join(code_.flags, " "), " ", name, " -o repro_kernel && ./repro_kernel");
    file.text =
        str("// The kernels of a minimal repro, the values they run on, and a main. Build and run:\n//   ",
            file.command, "\n#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n",
            codegen::cpu_backend().unit_text(join(code_.texts, "\n"), compilation_.targets()[0]), "\n");
    file.text += "// ---- Values\n";
    for (size_t i = 0; i < loops_.buffers.size(); ++i) file.text += buffer_text(static_cast<loops::BufferId>(i));
    file.text += expected_text();
    file.text += main_text(calls);
    return file;
  }

 private:
  static CompilationOptions options_of(const Settings& settings) {
    CompilationOptions options;
    options.settings = &settings;
    return options;
  }

  int64_t number(const Expr& expr) const {
    if (expr.is_float()) {
      const double value = evaluate_float(expr, symbols_);
      int64_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      return bits;
    }
    return evaluate(expr, symbols_);
  }

  std::string call(const loops::Item& item) {
    const auto* kernel = std::get_if<loops::Kernel>(&item.what);
    if (!kernel)
      fail_unsupported("K0682", "no C++ file of the kernels alone: the program also needs library calls or branches");
    const codegen::StepCode& step = code_.steps.at(kernel);
    const std::string buffers = join_map(step.buffers, ", ", [](loops::BufferId b) { return str("buffer_", b); });
    const std::string ints = join_map(step.ints, ", ", [&](const Expr& e) { return str(number(e), "l"); });
    const std::string sites = join_map(step.sites, ", ", [](const loops::Site& site) { return quote(site.message); });
    return str("  {\n    void* buffers[] = {", buffers, "};\n    i64 ints[] = {", ints.empty() ? "0" : ints,
               "};\n    const char* sites[] = {", sites.empty() ? "0" : sites, "};\n    run(\"", kernel->name, "\", ",
               code_.symbols[static_cast<size_t>(step.function)], ", buffers, ints, ", number(kernel->schedule->items),
               "l, ", number(step.scratch_bytes), "l, sites);\n  }\n");
  }

  // The values that the buffer begins with; nothing: it is written before it is read.
  const Tensor* values_of(const loops::Buffer& buffer) const {
    if (buffer.role == loops::BufferRole::input) {
      const auto& sample = program_.sample_inputs.at(static_cast<size_t>(buffer.position));
      return sample.is_tensor() ? &sample.tensor() : nullptr;
    }
    if (buffer.role != loops::BufferRole::constant) return nullptr;
    const auto found = constants_.find(buffer.constant);
    return found == constants_.end() ? nullptr : &found->second;
  }

  static std::string words(const std::byte* data, int64_t bytes) {
    std::string out;
    for (int64_t at = 0; at < bytes; at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, data + at, static_cast<size_t>(std::min<int64_t>(8, bytes - at)));
      char text[24];
      snprintf(text, sizeof text, "0x%llx,", static_cast<unsigned long long>(word));
      out += text;
      if (at / 8 % 8 == 7) out += "\n  ";
    }
    return out.empty() ? "0" : out;
  }

  std::string buffer_text(loops::BufferId id) const {
    const loops::Buffer& buffer = loops_.buffers[static_cast<size_t>(id)];
    std::vector<int64_t> sizes, strides;
    for (const Expr& size : buffer.tensor_sizes()) sizes.push_back(number(size));
    for (const Expr& stride : buffer.tensor_strides()) strides.push_back(number(stride));
    const Tensor* values = values_of(buffer);
    if (values) strides = values->strides;
    const int64_t bytes = std::max<int64_t>(storage_bytes_needed(buffer.tensor_dtype(), sizes, strides, 0), 1);
    const int64_t shown = values ? std::min(bytes, most_bytes) : 0;
    std::string out = str("// ", comment_text(buffer.name), ": ", dtype_name(buffer.tensor_dtype()), "[",
                          join_map(sizes, ", ", [](int64_t n) { return std::to_string(n); }), "]",
                          shown < bytes && values ? ", its values repeated from the first bytes" : "", "\n");
    if (values) {
      out += str("static const u64 values_", id, "[] = {\n  ", words(values->data(), shown), "};\n");
      out += str("static void* const buffer_", id, " = filled(", bytes, "l, values_", id, ", ", shown, "l);\n");
    } else {
      out += str("static void* const buffer_", id, " = filled(", bytes, "l, 0, 0);\n");
    }
    return out;
  }

  // What the reference gives for the outputs, to compare with.
  std::string expected_text() {
    std::vector<Datum> outputs;
    try {
      ExecutableOptions options;
      options.backend = Backend::interpret;
      outputs = make_executable(program_, options)->call(program_.sample_inputs).outputs;
    } catch (const Error&) {
      return "";  // no reference: the values are printed all the same
    }
    std::string out;
    for (size_t i = 0; i < loops_.outputs.size() && i < outputs.size(); ++i) {
      const auto* id = std::get_if<loops::BufferId>(&loops_.outputs[i].what);
      if (!id || !outputs[i].is_tensor()) continue;
      const Tensor dense = own_layout(outputs[i].tensor(), loops_.buffers[static_cast<size_t>(*id)]);
      const int64_t bytes = storage_bytes_needed(dense.dtype, dense.sizes, dense.strides, 0);
      const std::string format = item_format(dense.dtype);
      if (bytes > most_bytes || format.empty()) continue;
      out += str("static const u64 expected_", i, "[] = {\n  ", words(dense.data(), bytes), "};\n");
      checks_ += str("  differing += compare(", i, ", '",
                     format == "i"     ? "i"
                     : format == "f32" ? "f"
                                       : "d",
                     "', buffer_", *id, ", expected_", i, ", ", bytes, "l, ", dtype_bytes(dense.dtype), ");\n");
    }
    return out;
  }

  Tensor own_layout(const Tensor& tensor, const loops::Buffer& buffer) const {
    std::vector<int64_t> strides;
    for (const Expr& stride : buffer.tensor_strides()) strides.push_back(number(stride));
    Tensor out = Tensor::empty_strided(tensor.dtype, tensor.sizes, strides);
    copy_into(tensor, out);
    return out;
  }

  std::string main_text(const std::vector<std::string>& calls) const {
    return str(
        R"(
static void run(const char* name, int (*kernel)(const kiln_kernel_context*, void* const*, const i64*, i64, i64),
                void** buffers, i64* ints, i64 items, i64 scratch, const char** sites) {
  kiln_error_slot error;
  memset(&error, 0, sizeof error);
  kiln_kernel_context context;
  memset(&context, 0, sizeof context);
  context.version = 1;
  context.error = &error;
  if (scratch > 0) context.scratch = filled(scratch, 0, 0), context.scratch_bytes = scratch;
  printf("%s\n", name);
  fflush(stdout);
  if (kernel(&context, buffers, ints, 0, items) == 0) return;
  printf("%s raised: %s (value %ld, element %ld)\n", name, sites[error.site], error.value, error.index);
  exit(1);
}

)",
        R"(int main() {
  int differing = 0;
)",
        join(calls, ""), checks_,
        "  printf(differing ? \"%d values differ from the reference\\n\" : \"as the reference\\n\", differing);\n"
        "  return differing != 0;\n}\n");
  }

  const Program& program_;
  Compilation compilation_;
  const loops::LoopProgram& loops_;
  const codegen::GeneratedCode& code_;
  const std::map<std::string, Tensor>& constants_;
  SymbolValues symbols_;
  std::string checks_;
};

// Used by the values, so it stands in front of them.
constexpr const char* support = R"(static void* filled(long bytes, const void* values, long count) {
  char* memory = (char*)aligned_alloc(64, (bytes + 127) / 64 * 64);
  memset(memory, 0, (bytes + 127) / 64 * 64);
  for (long i = 0; count > 0 && i < bytes; ++i) memory[i] = ((const char*)values)[i % count];
  return memory;
}
static double item(char kind, const void* data, long i, int size) {
  if (kind == 'f') return ((const float*)data)[i];
  if (kind == 'd') return ((const double*)data)[i];
  if (size == 1) return ((const signed char*)data)[i];
  if (size == 2) return ((const short*)data)[i];
  return size == 4 ? ((const int*)data)[i] : ((const long*)data)[i];
}
static int compare(int output, char kind, const void* got, const void* expected, long bytes, int size) {
  int differing = 0;
  for (long i = 0; i < bytes / size; ++i) {
    const double g = item(kind, got, i, size), e = item(kind, expected, i, size);
    const double allowed = kind == 'i' ? 0 : kind == 'f' ? 1e-5 + 1.3e-6 * fabs(e) : 1e-7 + 1e-7 * fabs(e);
    if (g == e || (isnan(g) && isnan(e)) || fabs(g - e) <= allowed) continue;
    if (differing++ < 10) printf("output %d, element %ld: got %.9g, expected %.9g\n", output, i, g, e);
  }
  return differing;
}

)";

}  // namespace

KernelFile kernel_file(const Program& program, const Settings& settings, const std::string& file_name) {
  KernelFile file = Writer(program, settings).write(file_name);
  const size_t at = file.text.find("// ---- Values\n");
  file.text.insert(at, support);
  return file;
}

}  // namespace kiln::minify
