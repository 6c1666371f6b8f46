// For tests: a device whose memory is not the host's, and whose queue does nothing until somebody waits for it. Its
// pointers name pages that nobody may touch; the values lie elsewhere, and only copies and kernels get there. Whoever
// forgets that memory belongs to a device ends with a signal, whoever forgets to wait reads what was there before.
#pragma once
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <utility>

#include "base/error.h"
#include "runtime/test_plan.h"

namespace kiln::runtime {

class ApartDevice : public Device {
 public:
  static constexpr size_t bytes = size_t{256} << 20;

  ApartDevice() {
    named_ =
        static_cast<std::byte*>(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    values_ = static_cast<std::byte*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    KILN_CHECK(named_ != MAP_FAILED && values_ != MAP_FAILED, "no addresses");
  }
  // Outlives every tensor that a test still holds.
  static std::shared_ptr<ApartDevice> get() {
    static const auto device = std::make_shared<ApartDevice>();
    return device;
  }

  DLDevice id() const override { return {kDLCUDA, 0}; }
  bool is_host() const override { return false; }
  bool holds(const DLDevice& tensor) const override { return tensor.device_type == kDLCUDA && tensor.device_id == 0; }
  Allocator allocator(const Allocator&) const override {
    return {[](void* self, size_t wanted, size_t alignment) -> void* {
              auto* device = static_cast<ApartDevice*>(self);
              const size_t at = device->used_.fetch_add((wanted + 2 * alignment) / alignment * alignment);
              if (at + wanted + 2 * alignment > bytes) return nullptr;
              ++device->allocations;
              std::byte* memory = device->named_ + (at + alignment - 1) / alignment * alignment;
              std::memset(device->values(memory), 0xff, wanted);  // NaNs: what nobody wrote shows
              return memory;
            },
            [](void* self, void*, size_t) { ++static_cast<ApartDevice*>(self)->releases; },
            const_cast<ApartDevice*>(this)};
  }
  void copy_in(void* to, const void* from, int64_t count) const override {
    ++copies_in;
    std::memcpy(values(to), host(from), static_cast<size_t>(count));
  }
  void copy_out(void* to, const void* from, int64_t count) const override {
    ++copies_out;
    std::memcpy(const_cast<std::byte*>(host(to)), values(from), static_cast<size_t>(count));
  }
  size_t choose(const std::vector<std::string>& targets, const CpuFeatures& host) const override {
    return cpu_device()->choose(targets, host);
  }
  std::unique_ptr<CodeModule> load_code(ByteSpan object, const std::string& label, const std::string&) const override {
    return load_shared_object(object, label);
  }
  std::unique_ptr<Queue> new_queue(const Parallel&, const Allocator&, const QueueOptions&) const override;

  // Where the values of a device pointer lie.
  std::byte* values(const void* pointer) const {
    const auto* at = static_cast<const std::byte*>(pointer);
    KILN_CHECK(at >= named_ && at <= named_ + bytes, "a pointer of the host where the device's was meant");
    return values_ + (at - named_);
  }
  const std::byte* host(const void* pointer) const {
    const auto* at = static_cast<const std::byte*>(pointer);
    KILN_CHECK(at < named_ || at > named_ + bytes, "a pointer of the device where the host's was meant");
    return at;
  }

  mutable std::atomic<int> copies_in{0}, copies_out{0}, launches{0}, waits{0};
  std::atomic<int> allocations{0}, releases{0};

 private:
  std::byte *named_, *values_;
  std::atomic<size_t> used_{4096};
};

class ApartQueue : public Queue {
 public:
  explicit ApartQueue(const ApartDevice& device) : device_(device) {}

  bool launch(const Launch& launch) override {
    ++device_.launches;
    std::vector<void*> buffers;
    for (size_t i = 0; i < launch.buffer_count; ++i)
      buffers.push_back(launch.buffers[i] ? device_.values(launch.buffers[i]) : nullptr);
    std::vector<int64_t> ints(launch.ints, launch.ints + launch.int_count);
    waiting_.push_back([this, launch, buffers, ints] {
      std::vector<std::byte> scratch(static_cast<size_t>(launch.scratch + 64));
      const auto kernel = reinterpret_cast<kiln_kernel>(const_cast<void*>(launch.kernel));
      kiln_kernel_context context{KILN_KERNEL_ABI_VERSION, 0,           scratch.data(), launch.scratch,
                                  &failure_.slot,          launch.seed, nullptr};
      if (kernel(&context, buffers.data(), ints.data(), 0, launch.items) != 0) failure_.step = launch.step;
    });
    return failure_.step < 0;
  }
  void copy(void* to, Dims to_strides, const void* from, Dims from_strides, Dims sizes, int64_t item) override {
    const std::vector<int64_t> a(to_strides.begin(), to_strides.end()), b(from_strides.begin(), from_strides.end()),
        c(sizes.begin(), sizes.end());
    waiting_.push_back(
        [this, to, a, from, b, c, item] { strided_copy(device_.values(to), a, device_.values(from), b, c, item); });
  }
  bool synchronise() override {
    ++device_.waits;
    for (const auto& work : std::exchange(waiting_, {}))
      if (failure_.step < 0) work();
    return failure_.step < 0;
  }
  Failure take_failure() override { return std::exchange(failure_, {}); }

 private:
  const ApartDevice& device_;
  std::vector<std::function<void()>> waiting_;
  Failure failure_;
};

inline std::unique_ptr<Queue> ApartDevice::new_queue(const Parallel&, const Allocator&, const QueueOptions&) const {
  return std::make_unique<ApartQueue>(*this);
}

// A tensor in the device's memory.
template <class T>
struct ApartTensor : TestTensor<T> {
  ApartTensor(DType dtype, std::vector<int64_t> s, std::vector<T> v, std::vector<int64_t> st = {})
      : TestTensor<T>(dtype, std::move(s), std::move(v), std::move(st)),
        memory(ApartDevice::get()->allocator(system_allocator()),
               static_cast<int64_t>(this->values.size() * sizeof(T))) {
    ApartDevice::get()->copy_in(memory.data(), this->values.data(),
                                static_cast<int64_t>(this->values.size() * sizeof(T)));
    this->tensor.data = memory.data();
    this->tensor.device = ApartDevice::get()->id();
  }
  std::vector<T> now() const {
    const auto* at = reinterpret_cast<const T*>(ApartDevice::get()->values(memory.data()));
    return {at, at + this->values.size()};
  }
  Block memory;
};

// The whole plan, library kernels and custom operators aside, on the device.
inline void move_steps(std::vector<format::Step>& steps) {
  for (format::Step& step : steps) {
    if (step.kind == format::StepKind::kernel) step.device = DeviceType::cuda;
    for (auto& block : step.blocks) move_steps(block);
  }
}
inline void move_to_device(format::Plan& plan) {
  plan.device = DeviceType::cuda;
  for (format::Buffer& buffer : plan.buffers) buffer.device = DeviceType::cuda;
  for (format::CodeObject& code : plan.code) code.device = DeviceType::cuda;
  move_steps(plan.init), move_steps(plan.steps);
}

}  // namespace kiln::runtime
