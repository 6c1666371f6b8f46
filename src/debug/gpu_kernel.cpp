#include "debug/gpu_kernel.h"

#include <dlfcn.h>

#include "base/error.h"
#include "kiln/device_library.h"

namespace kiln {
namespace {

void check_call(bool fine, const kiln_device_error& error) {
  if (!fine) fail_user(error.code, error.text);
}

// The library that runs the package is in the process already.
const kiln_device_library& loaded_device_library() {
  void* library = dlopen("libkiln_cuda.so.0", RTLD_NOW | RTLD_NOLOAD);
  const auto entry = library ? reinterpret_cast<kiln_device_library_fn>(dlsym(library, "kiln_device_entry")) : nullptr;
  if (!entry || entry()->version != KILN_DEVICE_LIBRARY_VERSION)
    fail_user("K0786", "a kernel for a GPU is not rebuilt: libkiln_cuda.so of this version is not in this process");
  return *entry();
}

// A tensor's memory, there while this lives.
class There {
 public:
  There(const kiln_device_library& library, void* device, Tensor& tensor)
      : library_(library), device_(device), tensor_(tensor), bytes_(static_cast<size_t>(tensor.storage->bytes)) {
    memory_ = library_.allocate(device_, std::max<size_t>(bytes_, 1), 64);
    if (!memory_) fail_user("K0650", str("no memory on the GPU for ", bytes_, " bytes of a kernel's argument"));
    copy(memory_, tensor_.storage->data, KILN_COPY_IN);
  }
  There(const There&) = delete;
  There& operator=(const There&) = delete;
  ~There() { library_.release(device_, memory_, std::max<size_t>(bytes_, 1)); }
  void* data() const {
    const auto offset = static_cast<const char*>(static_cast<const void*>(tensor_.data())) -
                        static_cast<const char*>(static_cast<const void*>(tensor_.storage->data));
    return static_cast<char*>(memory_) + offset;
  }
  void take() { copy(tensor_.storage->data, memory_, KILN_COPY_OUT); }

 private:
  void copy(void* to, const void* from, int32_t direction) {
    kiln_device_error error{};
    if (bytes_ > 0) check_call(library_.copy(device_, to, from, bytes_, direction, &error) == 0, error);
  }
  const kiln_device_library& library_;
  void* device_;
  Tensor& tensor_;
  size_t bytes_;
  void* memory_;
};

}  // namespace

GpuKernel::GpuKernel(int gpu, const std::string& object, const std::string& name) : library_(&loaded_device_library()) {
  kiln_device_error error{};
  device_ = library_->open(gpu, &error);
  check_call(device_, error);
  code_ = library_->load(device_, object.data(), object.size(), &error);
  check_call(code_, error);
  kernel_ = library_->kernel(code_, name.c_str());
  KILN_CHECK(kernel_, "the kernel that was built is in the object that was made");
}

GpuKernel::~GpuKernel() { library_->unload(code_); }

void GpuKernel::run(const Launch& launch) {
  if (launch.items <= 0) return;
  std::vector<std::unique_ptr<There>> memory;
  std::vector<void*> pointers;
  for (Tensor* tensor : launch.buffers) {
    memory.push_back(std::make_unique<There>(*library_, device_, *tensor));
    pointers.push_back(memory.back()->data());
  }
  kiln_device_error error{};
  void* queue = library_->new_queue(device_, 0, &error);
  check_call(queue, error);
  const std::unique_ptr<void, void (*)(void*)> ended(queue, library_->free_queue);
  const kiln_device_launch given{kernel_,
                                 pointers.data(),
                                 launch.ints.data(),
                                 pointers.size(),
                                 launch.ints.size(),
                                 launch.items,
                                 launch.scratch,
                                 launch.seed,
                                 0,
                                 0};
  check_call(library_->launch(queue, &given, &error) == 0, error);
  kiln_error_slot slot{};  // what it raises the loops have raised before
  int32_t step = 0;
  check_call(library_->synchronise(queue, &slot, &step, &error) >= 0, error);
  for (const auto& there : memory) there->take();
}

}  // namespace kiln
