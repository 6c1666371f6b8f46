#include "cuda_device/gpu.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/error.h"
#include "cuda_device/cupti.h"

namespace kiln::cuda {
namespace {

// Memory that is kept for the next who asks: half of this is given back when it grows over it.
constexpr size_t most_kept = size_t{1} << 30;

size_t rounded(size_t bytes) {
  constexpr size_t small = 512, large = 2 << 20;
  const size_t unit = bytes < large ? small : large;
  return std::max(small, (bytes + unit - 1) / unit * unit);
}

struct Architecture {
  int number = 0;        // 90
  bool exactly = false;  // "sm_90a": runs on this one and no other
};

bool read_architecture(std::string_view target, Architecture& out) {
  if (target.substr(0, 3) != "sm_") return false;
  const char* end = target.data() + target.size();
  const auto [rest, error] = std::from_chars(target.data() + 3, end, out.number);
  out.exactly = rest != end && *rest == 'a';
  return error == std::errc();
}

}  // namespace

namespace {
thread_local const void* stream_of_run = nullptr;
constexpr char legacy_stream = 0;  // its address stands for the stream that has none
}  // namespace
void StreamOfRun::set(Stream stream) {
  stream_of_run = stream == each_threads_own ? nullptr : stream ? stream : &legacy_stream;
}
void StreamOfRun::none() { stream_of_run = nullptr; }
const void* StreamOfRun::current() { return stream_of_run; }

Gpu& Gpu::get(int index) {
  static std::mutex mutex;
  static auto& gpus = *new std::map<int, std::unique_ptr<Gpu>>();  // for ever: tensors outlive models
  std::lock_guard lock(mutex);
  auto& gpu = gpus[std::max(index, 0)];
  if (!gpu) gpu.reset(new Gpu(std::max(index, 0)));
  return *gpu;
}

Gpu::Gpu(int index) : index_(index) {
  const Driver& cuda = driver();
  int count = 0;
  if (cuda.device_count(&count) != 0 || count == 0)
    fail_user("K0774",
              "the NVIDIA driver knows no GPU that this process may use (CUDA_VISIBLE_DEVICES hides those that "
              "it does not name)");
  if (index >= count)
    fail_user("K0774", str("there is no GPU ", index, ": this process may use ", count, ", numbered from 0"));
  check(cuda.device_get(&device_, index), "cuDeviceGet");
  char name[256] = "";
  check(cuda.device_name(name, sizeof name - 1, device_), "cuDeviceGetName");
  name_ = name;
  check(cuda.device_attribute(&major_, capability_major, device_), "cuDeviceGetAttribute");
  check(cuda.device_attribute(&minor_, capability_minor, device_), "cuDeviceGetAttribute");
  check(cuda.device_attribute(&multiprocessors_, multiprocessor_count, device_), "cuDeviceGetAttribute");
  check(cuda.primary_context(&context_, device_), "cuDevicePrimaryCtxRetain");
}

std::string Gpu::text() const { return str("cuda:", index_, " (", name_, ", sm_", major_, minor_, ")"); }

kiln_device_facts Gpu::facts() const {
  kiln_device_facts out{};
  std::snprintf(out.name, sizeof out.name, "%s", name_.c_str());
  std::snprintf(out.target, sizeof out.target, "sm_%d%d", major_, minor_);
  const auto asked = [&](Attribute what) {
    int value = 0;
    return driver().device_attribute(&value, what, device_) == 0 ? static_cast<double>(value) : 0.0;
  };
  // Memory sends twice in a cycle; a multiprocessor has 128 units for f32 (of some that are older: 64).
  out.gbs = 2 * asked(memory_kilohertz) * 1e3 * asked(memory_bus_bits) / 8 * 1e-9;
  const double units = major_ == 8 && minor_ == 0 ? 64 : 128;
  // Multiply-adds of bf16 in a cycle, by all tensor cores of a multiprocessor.
  const double products = major_ >= 10 && major_ < 12  ? 4096
                          : major_ == 9                ? 2048
                          : major_ == 8 && minor_ == 0 ? 1024
                                                       : 512;
  const double cycles = multiprocessors_ * asked(clock_kilohertz) * 1e3 * 1e-9;
  out.gflops = 2 * units * cycles, out.tensor_gflops = 2 * products * cycles;
  out.clock = Cupti::clock();
  return out;
}

size_t Gpu::choose(const std::vector<std::string>& targets) const {
  const int here = major_ * 10 + minor_;
  size_t best = targets.size();
  int best_worth = -1;
  for (size_t i = 0; i < targets.size(); ++i) {
    Architecture made;
    if (!read_architecture(targets[i], made)) continue;
    // Machine code of this very architecture; of an older one of the same family; PTX of anything older.
    int worth = -1;
    if (made.number == here)
      worth = made.exactly ? 4000 : 3000;
    else if (!made.exactly && made.number / 10 == major_ && made.number < here)
      worth = 2000 + made.number;
    else if (made.number < here)
      worth = made.number;
    if (worth > best_worth) best = i, best_worth = worth;
  }
  if (best < targets.size()) return best;
  fail_user("K0775", str("the package has code for ", join(targets, ", "), ", and ", text(),
                         " runs none of it: compile it with '--target sm_", major_, minor_, "'"));
}

void Gpu::check(Result result, const char* what) const {
  if (result == 0) return;
  const std::string said = driver().text(result);
  switch (result) {
    case out_of_memory:
      fail_user("K0650", str("out of memory on ", text(), " (", what, ")"));
    case illegal_address:
    case launch_timeout:
    case misaligned_address:
    case illegal_instruction:
    case launch_failed:
      fail_user("K0777", str("a kernel ended with ", said, " on ", text(),
                             ". CUDA gives this process up: its context, with all memory in it, is lost, and every "
                             "call there fails from now on; start the process anew"));
    default:
      fail_user("K0776", str(what, " failed on ", text(), ": ", said));
  }
}

// What was kept is handed out, and taken back, without a word to the driver: an output of every call comes so.
void* Gpu::allocate(size_t bytes) {
  const size_t size = rounded(bytes);
  const void* stream = StreamOfRun::current();
  {
    std::lock_guard lock(mutex_);
    const auto [begin, end] = kept_.equal_range(size);
    auto found = std::find_if(begin, end, [&](const auto& kept) { return stream && kept.second.stream == stream; });
    if (found == end && begin != end) {
      const Current current(*this);
      if (driver().synchronise_context() == 0) found = begin;
    }
    if (found != end) {
      const Pointer memory = found->second.memory;
      kept_bytes_ -= size;
      spare_kept_ = kept_.extract(found);
      note_stream(memory, stream);
      return reinterpret_cast<void*>(memory);
    }
  }
  const Current current(*this);
  Pointer memory = 0;
  bool fine = driver().allocate(&memory, size) == 0;
  std::lock_guard lock(mutex_);
  if (!fine) {
    for (const auto& [kept, at] : kept_) driver().release(at.memory);
    kept_.clear();
    kept_bytes_ = 0;
    fine = driver().allocate(&memory, size) == 0;
  }
  if (!fine) return nullptr;
  note_stream(memory, stream);
  return reinterpret_cast<void*>(memory);
}

void Gpu::note_stream(Pointer memory, const void* stream) {
  if (spare_stream_.empty()) {
    allocated_on_[memory] = stream;
    return;
  }
  spare_stream_.key() = memory, spare_stream_.mapped() = stream;
  allocated_on_.insert(std::move(spare_stream_));
}

void Gpu::keep(size_t bytes, const Kept& kept) {
  kept_bytes_ += bytes;
  if (spare_kept_.empty()) {
    kept_.emplace(bytes, kept);
    return;
  }
  spare_kept_.key() = bytes, spare_kept_.mapped() = kept;
  kept_.insert(std::move(spare_kept_));
}

void Gpu::settle() {
  const Current current(*this);
  check(driver().synchronise_context(), "cuCtxSynchronize");
}

Gpu::Slot Gpu::take_slot() {
  std::lock_guard lock(mutex_);
  if (slots_.empty()) {
    const Current current(*this);
    constexpr unsigned mapped = 2;
    constexpr size_t page = 4096;
    void* memory = nullptr;
    Pointer there = 0;
    check(driver().host_allocate(&memory, page, mapped), "cuMemHostAlloc");
    check(driver().host_pointer(&there, memory, 0), "cuMemHostGetDevicePointer");
    for (size_t at = 0; at < page; at += slot_bytes)
      slots_.push_back({static_cast<std::byte*>(memory) + at, there + at});
  }
  const Slot slot = slots_.back();
  slots_.pop_back();
  return slot;
}

void Gpu::give_back(const Slot& slot) {
  std::lock_guard lock(mutex_);
  slots_.push_back(slot);
}

void Gpu::release(void* memory, size_t bytes) {
  const auto at = reinterpret_cast<Pointer>(memory);
  const size_t size = rounded(bytes);
  std::lock_guard lock(mutex_);
  const auto known = allocated_on_.find(at);
  const void* stream = known == allocated_on_.end() ? nullptr : known->second;
  if (known != allocated_on_.end()) spare_stream_ = allocated_on_.extract(known);
  if (kept_bytes_ + size <= most_kept) return keep(size, Kept{at, stream});
  const Current current(*this);
  // What is given back now is wanted again rather than what others gave back before, of other sizes.
  for (auto kept = kept_.begin(); kept != kept_.end() && kept_bytes_ + size > most_kept && size <= most_kept;) {
    if (kept->first == size) {
      ++kept;
      continue;
    }
    driver().release(kept->second.memory);
    kept_bytes_ -= kept->first;
    kept = kept_.erase(kept);
  }
  if (kept_bytes_ + size > most_kept) {
    driver().release(at);  // which waits for what uses it
    return;
  }
  keep(size, Kept{at, stream});
}

void Gpu::copy(void* to, const void* from, size_t bytes, int direction) {
  if (bytes == 0) return;
  const Current current(*this);
  const Driver& cuda = driver();
  if (direction == KILN_COPY_IN) {
    check(cuda.copy_in(reinterpret_cast<Pointer>(to), from, bytes), "cuMemcpyHtoD");
    // Of memory that is not pinned it returns when the values are on their way: other streams would not see them yet.
    return check(cuda.synchronise_stream(nullptr), "cuStreamSynchronize");
  }
  if (direction == KILN_COPY_OUT)
    return check(cuda.copy_out(to, reinterpret_cast<Pointer>(from), bytes), "cuMemcpyDtoH");
  check(cuda.copy_within(reinterpret_cast<Pointer>(to), reinterpret_cast<Pointer>(from), bytes, nullptr),
        "cuMemcpyDtoDAsync");
  check(cuda.synchronise_stream(nullptr), "cuStreamSynchronize");
}

// ---- Code
// --------------------------------------------------------------------------------------------------------------

Code::Code(Gpu& gpu, std::string_view bytes) : gpu_(gpu) {
  if (!format::read_device_code(bytes, code_))
    fail_user("K0778", "the code for the GPU in this package is damaged, or of another version of Kiln");
  const Gpu::Current current(gpu);
  for (const format::DeviceKernel& kernel : code_.kernels) {
    if (!modules_.contains(kernel.unit)) modules_[kernel.unit] = load_unit(kernel.unit);
    LoadedKernel loaded{nullptr, kernel.threads, kernel.team, kernel.buffers, kernel.ints, kernel.shared, kernel.name};
    gpu.check(driver().function(&loaded.function, modules_[kernel.unit], kernel.name.c_str()), "cuModuleGetFunction");
    // More than every GPU gives by itself has to be asked for.
    constexpr uint32_t given = 48 << 10;
    constexpr int most_dynamic_shared_bytes = 8;
    if (kernel.shared > given)
      gpu.check(
          driver().set_function_attribute(loaded.function, most_dynamic_shared_bytes, static_cast<int>(kernel.shared)),
          "cuFuncSetAttribute");
    kernels_[kernel.name] = loaded;
    entries_.push_back({kernel.name.c_str(), nullptr, kernel.buffers, kernel.ints});
  }
  table_ = {KILN_KERNEL_ABI_VERSION, static_cast<uint32_t>(entries_.size()), entries_.data()};
}

Code::~Code() {
  const Gpu::Current current(gpu_);
  for (const auto& [unit, module] : modules_) driver().unload(module);
}

// Machine code where it runs here, else PTX, which the driver compiles.
Module Code::load_unit(uint32_t unit) {
  Result last = no_binary_for_gpu;
  for (const format::ImageKind kind : {format::ImageKind::machine_code, format::ImageKind::ptx})
    for (const format::DeviceImage& image : code_.images) {
      if (image.unit != unit || image.kind != kind) continue;
      Module module = nullptr;
      const std::string terminated(image.bytes);  // PTX is a text
      last = driver().load(&module, terminated.c_str(), 0, nullptr, nullptr);
      if (last == 0) return module;
    }
  if (last == no_binary_for_gpu || last == invalid_image || last == unsupported_ptx_version || last == invalid_ptx)
    fail_user("K0775", str("the package's code does not run on ", gpu_.text(), ": ", driver().text(last),
                           "; compile it for this GPU, or use a newer driver"));
  gpu_.check(last, "cuModuleLoadDataEx");
  return nullptr;
}

const LoadedKernel* Code::kernel(const std::string& name) const {
  const auto found = kernels_.find(name);
  return found == kernels_.end() ? nullptr : &found->second;
}

}  // namespace kiln::cuda
