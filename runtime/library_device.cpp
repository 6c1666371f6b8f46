// A device that a library of its own runs (include/kiln/device_library.h): NVIDIA's GPUs.
#include "base/error.h"
#include "kiln/device_library.h"
#include "runtime/companion.h"
#include "runtime/device.h"

namespace kiln::runtime {
namespace {

[[noreturn]] void fail_device(const kiln_device_error& error) {
  // What a package lacks or a machine does not have is the user's to mend; so is an access that a kernel made.
  fail_user(error.code, error.text);
}
void check_device(bool fine, const kiln_device_error& error) {
  if (!fine) fail_device(error);
}

// Of calls that are made for every run: a kilobyte of zeros each would be most of what they cost here.
struct NoError : kiln_device_error {
  NoError() { code[0] = text[0] = '\0'; }
};

class LibraryCode final : public CodeModule {
 public:
  LibraryCode(const kiln_device_library& library, void* code) : library_(library), code_(code) {}
  ~LibraryCode() override { library_.unload(code_); }
  void* symbol(const std::string& name) const override {
    if (name == "kiln_kernels") return const_cast<kiln_kernel_table*>(library_.kernels(code_));
    return const_cast<void*>(library_.kernel(code_, name.c_str()));
  }

 private:
  const kiln_device_library& library_;
  void* code_;
};

class LibraryQueue final : public Queue {
 public:
  LibraryQueue(const Device& device, const kiln_device_library& library, void* queue, const QueueOptions& options)
      : device_(device), library_(library), queue_(queue), options_(options) {}
  ~LibraryQueue() override { library_.free_queue(queue_); }

  bool launch(const Launch& launch) override {
    const kiln_device_launch given{launch.kernel, launch.buffers, launch.ints, launch.buffer_count, launch.int_count,
                                   launch.items,  launch.scratch, launch.seed, launch.step,         0};
    NoError error;
    count({1, launch.step, launch.step});
    check_device(library_.launch(queue_, &given, &error) == 0, error);
    return !options_.blocking || synchronise();
  }

  bool start(void* stream) override {
    NoError error;
    const int32_t status = library_.start(queue_, stream, &failure_.slot, &failure_.step, &error);
    check_device(status >= 0, error);
    return status == 0;
  }
  void finish() noexcept override {
    NoError error;
    library_.finish(queue_, &error);  // what it could say the next who waits is told
  }
  bool begin_stretch(uint64_t key, const std::vector<void*>& addresses, uint64_t seed,
                     const UnderWay& launches) override {
    if (!options_.graphs || options_.blocking) return false;
    NoError error;
    const int32_t status = library_.begin_stretch(queue_, key, addresses.data(), addresses.size(), seed, &error);
    if (status != 0) count(launches);
    check_device(status >= 0, error);
    return status == 1;
  }
  void end_stretch() override {
    if (!options_.graphs || options_.blocking) return;
    NoError error;
    check_device(library_.end_stretch(queue_, &error) == 0, error);
  }
  void mark(bool end) override {
    NoError error;
    check_device(library_.mark(queue_, end, &error) == 0, error);
  }
  double seconds() override {
    NoError error;
    const double seconds = library_.seconds(queue_, &error);
    check_device(seconds >= 0, error);
    return seconds;
  }
  UnderWay under_way() const override { return under_way_; }

  // In one piece where the elements lie the same way without gaps, else by way of the host.
  void copy(void* to, Dims to_strides, const void* from, Dims from_strides, Dims sizes, int64_t item) override {
    const int64_t count = element_count(sizes);
    if (count == 0) return;
    NoError error;
    if (is_row_major(sizes, to_strides) && is_row_major(sizes, from_strides))
      return check_device(library_.queue_copy(queue_, to, from, static_cast<size_t>(count * item), &error) == 0, error);
    if (!synchronise()) return;  // who waits next is told
    device_.copy(to, true, to_strides, from, true, from_strides, sizes, item);
  }

  bool synchronise() override {
    if (failure_.step >= 0) return false;
    NoError error;
    const int32_t status = library_.synchronise(queue_, &failure_.slot, &failure_.step, &error);
    check_device(status >= 0, error);
    under_way_ = {};
    return status == 0;
  }
  Failure take_failure() override { return std::exchange(failure_, {}); }

 private:
  void count(const UnderWay& more) {
    if (under_way_.launches == 0) under_way_.first = more.first;
    under_way_.launches += more.launches;
    under_way_.last = more.last;
  }
  const Device& device_;
  const kiln_device_library& library_;
  void* queue_;
  const QueueOptions options_;
  UnderWay under_way_;
  Failure failure_;
};

class LibraryDevice final : public Device {
 public:
  LibraryDevice(const kiln_device_library& library, void* device) : library_(library), device_(device) {}
  DLDevice id() const override { return {kDLCUDA, library_.index(device_)}; }
  bool is_host() const override { return false; }
  bool holds(const DLDevice& tensor) const override {
    return (tensor.device_type == kDLCUDA && tensor.device_id == library_.index(device_)) ||
           tensor.device_type == kDLCUDAManaged;
  }
  Allocator allocator(const Allocator&) const override { return {library_.allocate, library_.release, device_}; }
  void copy_in(void* to, const void* from, int64_t bytes) const override { move(to, from, bytes, KILN_COPY_IN); }
  void copy_out(void* to, const void* from, int64_t bytes) const override { move(to, from, bytes, KILN_COPY_OUT); }
  size_t choose(const std::vector<std::string>& targets, const CpuFeatures&) const override {
    std::vector<const char*> names;
    for (const std::string& target : targets) names.push_back(target.c_str());
    kiln_device_error error{};
    const int64_t chosen = library_.choose(device_, names.data(), names.size(), &error);
    check_device(chosen >= 0, error);
    return static_cast<size_t>(chosen);
  }
  std::unique_ptr<CodeModule> load_code(ByteSpan object, const std::string&, const std::string&) const override {
    kiln_device_error error{};
    void* code = library_.load(device_, object.data(), object.size(), &error);
    check_device(code, error);
    return std::make_unique<LibraryCode>(library_, code);
  }
  std::unique_ptr<Queue> new_queue(const Parallel&, const Allocator&, const QueueOptions& options) const override {
    kiln_device_error error{};
    void* queue = library_.new_queue(device_, options.graphs ? KILN_QUEUE_GRAPHS : 0, &error);
    check_device(queue, error);
    return std::make_unique<LibraryQueue>(*this, library_, queue, options);
  }
  void upload(const std::vector<Upload>& pieces) const override {
    std::vector<kiln_device_upload> given;
    for (const Upload& piece : pieces) given.push_back({piece.to, piece.from, piece.bytes});
    kiln_device_error error{};
    check_device(library_.upload(device_, given.data(), given.size(), &error) == 0, error);
  }
  void settle() const override {
    kiln_device_error error{};
    check_device(library_.settle(device_, &error) == 0, error);
  }
  bool limits(double& gflops, double& gbs) const override {
    kiln_device_facts facts{};
    library_.facts(device_, &facts);
    gflops = facts.tensor_gflops, gbs = facts.gbs;
    return true;
  }
  const char* clock() const override {
    kiln_device_facts facts{};
    library_.facts(device_, &facts);
    return facts.clock;
  }

 private:
  void move(void* to, const void* from, int64_t bytes, int32_t direction) const {
    kiln_device_error error{};
    check_device(library_.copy(device_, to, from, static_cast<size_t>(bytes), direction, &error) == 0, error);
  }
  const kiln_device_library& library_;
  void* device_;
};

}  // namespace

std::shared_ptr<const Device> cuda_device(int index) {
  std::vector<std::string> looked;
  const auto entry = reinterpret_cast<kiln_device_library_fn>(open_companion("kiln_cuda", "kiln_device_entry", looked));
  if (!entry || entry()->version != KILN_DEVICE_LIBRARY_VERSION)
    fail_user("K0772",
              str("the package was compiled for cuda, which libkiln_cuda.so runs, and there is no such library "
                  "of this version (looked for ",
                  join(looked, ", "), ")"));
  kiln_device_error error{};
  void* device = entry()->open(index, &error);
  check_device(device, error);
  return std::make_shared<LibraryDevice>(*entry(), device);
}

}  // namespace kiln::runtime
