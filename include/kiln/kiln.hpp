// A thin C++ header over kiln.h: the same calls with ownership as types and errors as exceptions. Header-only; needs
// C++17 and links against libkiln_runtime.so.
//
//   kiln::Model model("model.kiln.pt2");
//   kiln::Instance instance(model);
//   std::vector<float> x(8 * 10);
//   std::vector<kiln::Value> outputs = instance.run({kiln::tensor(x.data(), {8, 10})});
//   const float* y = outputs[0].data<float>();
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kiln/kiln.h"

namespace kiln {

class Exception : public std::runtime_error {
 public:
  Exception(kiln_status status, const char* message, const char* code)
      : std::runtime_error(message), status_(status), code_(code) {}
  kiln_status status() const { return status_; }
  const std::string& code() const { return code_; }

 private:
  kiln_status status_;
  std::string code_;
};

// A mistake of the caller's that this header itself sees.
inline void require(bool condition, const char* what) {
  if (!condition) throw Exception(KILN_ERROR_ARGUMENT, what, "K0660");
}
inline void check(kiln_status status) {
  if (status != KILN_OK) throw Exception(status, kiln_last_error(), kiln_last_error_code());
}

template <class T>
struct DTypeOf;
#define KILN_DTYPE(type, code_, bits_)                                           \
  template <>                                                                    \
  struct DTypeOf<type> {                                                         \
    static constexpr DLDataType value = {static_cast<uint8_t>(code_), bits_, 1}; \
  };
KILN_DTYPE(float, kDLFloat, 32)
KILN_DTYPE(double, kDLFloat, 64)
KILN_DTYPE(int8_t, kDLInt, 8)
KILN_DTYPE(int16_t, kDLInt, 16)
KILN_DTYPE(int32_t, kDLInt, 32)
KILN_DTYPE(int64_t, kDLInt, 64)
KILN_DTYPE(uint8_t, kDLUInt, 8)
KILN_DTYPE(uint16_t, kDLUInt, 16)
KILN_DTYPE(uint32_t, kDLUInt, 32)
KILN_DTYPE(uint64_t, kDLUInt, 64)
KILN_DTYPE(bool, kDLBool, 8)
#undef KILN_DTYPE

// A tensor, a number, a bool, a string or None: what goes into a run and comes out of it. A tensor is a view of the
// caller's memory (kiln::tensor) or an output that this value owns.
class Value {
 public:
  Value() : value_{} {}
  Value(int64_t v) : value_{} { value_.kind = KILN_INT, value_.as.integer = v; }
  Value(int v) : Value(int64_t{v}) {}
  Value(double v) : value_{} { value_.kind = KILN_FLOAT, value_.as.floating = v; }
  Value(bool v) : value_{} { value_.kind = KILN_BOOL, value_.as.boolean = v; }
  Value(const char* v) : value_{} {
    require(v != nullptr, "kiln::Value: a string is NULL");
    value_.kind = KILN_STRING, value_.as.string = v;
  }
  // A view of memory that the caller keeps; strides empty: row-major, else one for each size.
  Value(void* data, DLDataType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides = {}) : value_{} {
    require(strides.empty() || strides.size() == sizes.size(), "kiln::Value: not as many strides as sizes");
    view_ = std::make_unique<View>();
    view_->sizes = std::move(sizes);
    view_->strides = std::move(strides);
    view_->tensor = {data,  {kDLCPU, 0},         static_cast<int32_t>(view_->sizes.size()),
                     dtype, view_->sizes.data(), view_->strides.empty() ? nullptr : view_->strides.data(),
                     0};
    value_.kind = KILN_TENSOR;
    value_.as.tensor = &view_->tensor;
  }
  explicit Value(kiln_value owned) : value_(owned) {}  // takes what kiln_run gave
  Value(Value&& other) noexcept : value_(std::exchange(other.value_, kiln_value{})), view_(std::move(other.view_)) {}
  Value& operator=(Value&& other) noexcept {
    std::swap(value_, other.value_);
    std::swap(view_, other.view_);
    return *this;
  }
  ~Value() { kiln_value_clear(&value_); }

  kiln_kind kind() const { return static_cast<kiln_kind>(value_.kind); }
  bool is_tensor() const { return value_.kind == KILN_TENSOR; }
  // Each throws when the value is of another kind.
  int64_t integer() const { return of_kind(KILN_INT, "kiln::Value: no whole number").as.integer; }
  double floating() const { return of_kind(KILN_FLOAT, "kiln::Value: no floating-point number").as.floating; }
  bool boolean() const { return of_kind(KILN_BOOL, "kiln::Value: no truth value").as.boolean != 0; }
  // Of an output: lives as long as its instance.
  const char* string() const { return of_kind(KILN_STRING, "kiln::Value: no string").as.string; }
  const DLTensor& tensor() const { return *of_kind(KILN_TENSOR, "kiln::Value: no tensor").as.tensor; }
  std::vector<int64_t> sizes() const { return {tensor().shape, tensor().shape + tensor().ndim}; }
  template <class T>
  T* data() const {
    require(sizeof(T) == 1 || sizeof(T) * 8 == size_t{tensor().dtype.bits} * tensor().dtype.lanes,
            "kiln::Value: data<T>() with a T of another size than the elements");
    return reinterpret_cast<T*>(static_cast<char*>(tensor().data) + tensor().byte_offset);
  }
  kiln_value& raw() { return value_; }
  const kiln_value& raw() const { return value_; }
  // Gives the memory of an output away, to be freed by its deleter (a DLPack consumer does that).
  DLManagedTensorVersioned* release() {
    DLManagedTensorVersioned* owner = value_.owner;
    value_ = {};
    return owner;
  }

 private:
  const kiln_value& of_kind(kiln_kind kind, const char* otherwise) const {
    require(value_.kind == kind, otherwise);
    return value_;
  }
  struct View {
    std::vector<int64_t> sizes, strides;
    DLTensor tensor;
  };
  kiln_value value_;
  std::unique_ptr<View> view_;
};

template <class T>
Value tensor(T* data, std::vector<int64_t> sizes, std::vector<int64_t> strides = {}) {
  return Value(const_cast<std::remove_const_t<T>*>(data), DTypeOf<std::remove_const_t<T>>::value, std::move(sizes),
               std::move(strides));
}

struct LoadOptions {
  std::vector<std::string> settings;  // "key=value"
  std::vector<std::string> custom_op_libraries;
  bool ignore_environment = false;
  const kiln_allocator* allocator = nullptr;
  kiln_log_fn log = nullptr;
  void* log_user = nullptr;
  kiln_parallel_for_fn parallel_for = nullptr;
  void* parallel_for_user = nullptr;
  bool host_tensors = false;      // of a package for a GPU: tensors of the host are taken and given
  int verify_weights = 0;         // 1 yes, -1 no, 0: as the setting verify_weights says
  kiln_fault_fn fault = nullptr;  // told of a signal inside a step
  void* fault_user = nullptr;
};

class Model {
 public:
  explicit Model(const std::string& path, const LoadOptions& options = {}) {
    with(options, [&](const kiln_load_options& o) { check(kiln_load(path.c_str(), &o, &handle_)); });
  }
  Model(const void* bytes, size_t size, const LoadOptions& options = {}) {
    with(options, [&](const kiln_load_options& o) { check(kiln_load_memory(bytes, size, &o, &handle_)); });
  }
  Model(Model&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Model& operator=(Model&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Model() { kiln_model_free(handle_); }

  std::string name() const { return kiln_model_name(handle_); }
  std::string target() const { return kiln_model_target(handle_); }
  bool stateful() const { return kiln_model_is_stateful(handle_) != 0; }
  size_t input_count() const { return kiln_input_count(handle_); }
  size_t output_count() const { return kiln_output_count(handle_); }
  kiln_spec input(size_t index) const { return spec(kiln_input_spec, index); }
  kiln_spec output(size_t index) const { return spec(kiln_output_spec, index); }
  const char* metadata(const std::string& key) const { return kiln_metadata(handle_, key.c_str()); }
  void set_threads(int threads) { check(kiln_set_threads(handle_, threads)); }
  void update_constants(const std::vector<std::pair<std::string, const DLTensor*>>& values,
                        uint32_t flags = KILN_UPDATE_COPY) {
    std::vector<const char*> names;
    std::vector<const DLTensor*> tensors;
    for (const auto& [name, value] : values) names.push_back(name.c_str()), tensors.push_back(value);
    check(kiln_constants_update(handle_, names.data(), tensors.data(), names.size(), flags));
  }
  void swap_constants() { check(kiln_constants_swap(handle_)); }
  kiln_model* handle() const { return handle_; }

 private:
  template <class F>
  static void with(const LoadOptions& options, F f) {
    std::vector<const char*> settings, libraries;
    for (const auto& s : options.settings) settings.push_back(s.c_str());
    for (const auto& l : options.custom_op_libraries) libraries.push_back(l.c_str());
    kiln_load_options o{};
    o.struct_size = sizeof o;
    o.settings = settings.data();
    o.setting_count = settings.size();
    o.ignore_environment = options.ignore_environment;
    o.device_index = -1;
    o.allocator = options.allocator;
    o.log = options.log;
    o.log_user = options.log_user;
    o.parallel_for = options.parallel_for;
    o.parallel_for_user = options.parallel_for_user;
    o.custom_op_libraries = libraries.data();
    o.custom_op_library_count = libraries.size();
    o.verify_weights = options.verify_weights;
    o.host_tensors = options.host_tensors;
    o.fault = options.fault;
    o.fault_user = options.fault_user;
    f(o);
  }
  template <class F>
  kiln_spec spec(F get, size_t index) const {
    kiln_spec out{};
    out.struct_size = sizeof out;
    check(get(handle_, index, &out));
    return out;
  }
  kiln_model* handle_ = nullptr;
};

// Where the time of an instance's runs went.
class Profile {
 public:
  explicit Profile(kiln_profile* owned) : handle_(owned) {}
  Profile(Profile&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Profile& operator=(Profile&&) = delete;
  ~Profile() { kiln_profile_free(handle_); }

  kiln_profile_summary total() const {
    kiln_profile_summary out{};
    out.struct_size = sizeof out;
    check(kiln_profile_total(handle_, &out));
    return out;
  }
  // The one that took longest first. Texts live as long as the profile.
  std::vector<kiln_kernel_profile> kernels() const {
    std::vector<kiln_kernel_profile> out(kiln_profile_count(handle_), kiln_kernel_profile{});
    for (size_t i = 0; i < out.size(); ++i) {
      out[i].struct_size = sizeof out[i];
      check(kiln_profile_kernel(handle_, i, &out[i]));
    }
    return out;
  }
  void write_trace(const std::string& path) const { check(kiln_profile_write_trace(handle_, path.c_str())); }

 private:
  kiln_profile* handle_;
};

class Instance {
 public:
  explicit Instance(Model& model) : outputs_(model.output_count()) {
    check(kiln_instance_create(model.handle(), &handle_));
  }
  Instance(Instance&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), outputs_(other.outputs_) {}
  Instance& operator=(Instance&&) = delete;
  ~Instance() { kiln_instance_free(handle_); }

  // Outputs that Kiln allocates. May be called from several threads.
  std::vector<Value> run(const std::vector<Value>& inputs) const {
    std::vector<kiln_value> in, out(outputs_, kiln_value{});
    for (const Value& value : inputs) in.push_back(value.raw());
    check(kiln_run(handle_, in.data(), in.size(), out.data(), out.size()));
    std::vector<Value> values;
    for (const kiln_value& value : out) values.emplace_back(Value(value));
    return values;
  }
  template <size_t n>
  std::vector<Value> run(Value (&&inputs)[n]) const {
    std::vector<Value> list;
    for (Value& value : inputs) list.push_back(std::move(value));
    return run(list);
  }
  // The fastest way: plain arrays, the caller's output tensors. Nothing is allocated.
  void run(const kiln_value* inputs, size_t input_count, kiln_value* outputs, size_t output_count) const {
    check(kiln_run(handle_, inputs, input_count, outputs, output_count));
  }
  void set_seed(uint64_t seed) { check(kiln_set_seed(handle_, seed)); }
  void set_hook(kiln_hook_fn hook, void* user) { check(kiln_set_hook(handle_, hook, user)); }
  void start_profile() { check(kiln_profile_start(handle_)); }
  Profile stop_profile() {
    kiln_profile* profile = nullptr;
    check(kiln_profile_stop(handle_, &profile));
    return Profile(profile);
  }
  void read_constant(const std::string& name, const DLTensor& to) {
    check(kiln_constant_read(handle_, name.c_str(), &to));
  }
  void write_constant(const std::string& name, const DLTensor& from) {
    check(kiln_constant_write(handle_, name.c_str(), &from));
  }
  kiln_instance* handle() const { return handle_; }

 private:
  kiln_instance* handle_ = nullptr;
  size_t outputs_;
};

}  // namespace kiln
