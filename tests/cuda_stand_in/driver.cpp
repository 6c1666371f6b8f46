// A stand-in for NVIDIA's driver (libcuda.so.1), for tests on machines without a GPU. Its machine code is what the
// stand-in for NVRTC makes. The memory of its GPUs may not be touched by the host: it is protected while no kernel
// runs, what nobody wrote there is NaN, and what lies between two allocations is watched: a kernel that writes there
// has made an illegal access, and from then on every call says so, as CUDA's do.
//
// What is put on a stream waits there until somebody waits for it, or for something that comes after it: as late as
// CUDA may run it, and by turns with what waits on other streams. Whoever forgets to wait, or gives memory to somebody
// else too early, computes something wrong.
//
// KILN_STAND_IN_GPUS: how many there are (default 1); KILN_STAND_IN_MEMORY: megabytes of each (default 512).
#include <dlfcn.h>
#include <elf.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "counts.h"
#include "kernel_record.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Launcher = void (*)(const void*, unsigned, unsigned);
constexpr size_t gap = 256;  // before and after each allocation
constexpr unsigned char untouched = 0xff;
constexpr int out_of_memory = 2, no_context = 201, invalid_handle = 400, illegal_address = 700;
constexpr unsigned not_ordered_with_legacy = 1;

size_t number_of(const char* name, size_t usual) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoul(text, nullptr, 10) : usual;
}

std::recursive_mutex everything;
kiln_stand_in_counts counts;

struct Stream {
  int gpu = 0;
  bool legacy = false, ordered = true;  // with the legacy stream
  std::deque<std::function<void()>> waiting;
  uint64_t put = 0, done = 0;
  bool busy = false;

  void add(std::function<void()> work);
  void run_next() {
    const std::function<void()> work = std::move(waiting.front());
    waiting.pop_front();
    ++done;
    busy = true;  // it may have to wait for another stream
    work();
    busy = false;
  }
  bool can_go_on() const { return !busy && !waiting.empty(); }
  void run_until(uint64_t position);
  void run_all() { run_until(put); }
};

struct Gpu {
  std::byte* memory = nullptr;
  size_t bytes = number_of("KILN_STAND_IN_MEMORY", 512) << 20, used = 0;
  std::map<std::byte*, size_t> blocks;  // in use
  std::multimap<size_t, std::byte*> given_back;
  int open = 0;
  bool lost = false;
  Stream legacy;
  std::set<Stream*> streams;

  explicit Gpu(int index) {
    memory =
        static_cast<std::byte*>(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    legacy.gpu = index, legacy.legacy = true;
  }
  bool inside(const void* at) const { return at >= memory && at < memory + bytes; }
  static bool clean(const std::byte* from) {
    for (size_t i = 0; i < gap; ++i)
      if (from[i] != std::byte{untouched}) return false;
    return true;
  }
  void look_at_gaps() {
    for (const auto& [at, size] : blocks) lost |= !clean(at - gap) || !clean(at + size);
  }
  int status() const { return lost ? illegal_address : 0; }
  void run_ordered() {
    for (Stream* stream : streams)
      if (stream->ordered) stream->run_all();
  }
  void run_everything() {
    legacy.run_all();
    for (Stream* stream : streams) stream->run_all();
  }
};
Gpu& gpu(int index) {
  static auto& all = *new std::map<int, std::unique_ptr<Gpu>>();
  auto& found = all[index];
  if (!found) found = std::make_unique<Gpu>(index);
  return *found;
}

// What waits on other streams runs in between, as it may.
void Stream::run_until(uint64_t position) {
  static bool in_between = false;
  while (done < position && can_go_on()) {
    run_next();
    if (in_between) continue;
    in_between = true;
    for (Stream* other : ::gpu(gpu).streams)
      if (other != this && other->can_go_on()) other->run_next();
    in_between = false;
  }
}

// Streams that are ordered with the legacy one: what was put on one before comes before what is put on the other.
void Stream::add(std::function<void()> work) {
  if (legacy)
    ::gpu(gpu).run_ordered();
  else if (ordered)
    ::gpu(gpu).legacy.run_all();
  ++put;
  waiting.push_back(std::move(work));
}

// A GPU's memory can be touched while one of these lives.
class Opened {
 public:
  explicit Opened(Gpu& gpu) : gpu_(gpu) {
    if (gpu.open++ == 0 && gpu.bytes > 0) mprotect(gpu.memory, gpu.bytes, PROT_READ | PROT_WRITE);
  }
  ~Opened() {
    if (--gpu_.open == 0 && gpu_.bytes > 0) mprotect(gpu_.memory, gpu_.bytes, PROT_NONE);
  }

 private:
  Gpu& gpu_;
};

thread_local std::vector<int> contexts;  // of this thread; the last is the current one

using Locked = std::lock_guard<std::recursive_mutex>;
Gpu& current() { return gpu(contexts.back()); }
Stream* stream_of(void* handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  return number <= 2 ? &current().legacy : static_cast<Stream*>(handle);  // 1, 2: its other names
}

struct Event {
  Stream* stream = nullptr;
  uint64_t position = 0;
  int gpu = 0;
  std::shared_ptr<double> milliseconds = std::make_shared<double>(0);
};

struct Function {
  std::string name;
  Launcher run = nullptr;
  size_t bytes = 0;  // of its parameter
};
struct Launch {
  const Function* function = nullptr;
  unsigned blocks = 0, threads = 0;
  std::vector<char> arguments;
};

// A kernel that touches what is no memory: the GPU is lost, the process is not.
class FaultsAreTheGpus {
 public:
  FaultsAreTheGpus() {
    struct sigaction ours {};
    ours.sa_handler = [](int) { siglongjmp(back, 1); };
    ours.sa_flags = SA_NODEFER | SA_ONSTACK;
    for (size_t i = 0; i < 2; ++i) sigaction(signals[i], &ours, &before_[i]);
  }
  ~FaultsAreTheGpus() {
    for (size_t i = 0; i < 2; ++i) sigaction(signals[i], &before_[i], nullptr);
  }
  static sigjmp_buf back;

 private:
  static constexpr int signals[2] = {SIGSEGV, SIGBUS};
  struct sigaction before_[2];
};
sigjmp_buf FaultsAreTheGpus::back;

// What the stand-in for CUPTI tells: launches that ran while somebody listened.
bool recording = false;
std::deque<StandInKernelRecord> records;
uint64_t nanoseconds() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}
class RecordOf {
 public:
  explicit RecordOf(const Launch& launch) {
    record_.name = launch.function->name.c_str(), record_.start = nanoseconds();
  }
  ~RecordOf() {
    record_.end = nanoseconds();
    if (recording) records.push_back(record_);
  }

 private:
  StandInKernelRecord record_;
};

void run_launch(int index, const Launch& launch) {
  Gpu& here = gpu(index);
  if (here.lost) return;
  ++counts.kernels_run;
  const RecordOf record(launch);
  const Opened opened(here);
  const FaultsAreTheGpus faults;
  if (sigsetjmp(FaultsAreTheGpus::back, 1) == 0)
    launch.function->run(launch.arguments.data(), launch.blocks, launch.threads);
  else
    here.lost = true;
  here.look_at_gaps();
}

// As CUDA_KERNEL_NODE_PARAMS_v2.
struct NodeParameters {
  const Function* function;
  unsigned blocks, y, z, threads, threads_y, threads_z, shared;
  void** arguments;
  void** extra;
  void* kernel;
  void* context;
};
Launch launch_of(const NodeParameters& given) {
  Launch out{given.function, given.blocks, given.threads, {}};
  const char* bytes = static_cast<const char*>(given.arguments[0]);
  out.arguments.assign(bytes, bytes + given.function->bytes);
  return out;
}
struct Graph {
  std::vector<Launch*> nodes;
  ~Graph() {
    for (Launch* node : nodes) delete node;
  }
};
struct GraphRun {
  std::vector<Launch> launches;
  std::map<void*, size_t> numbers;
};

}  // namespace

EXPORT kiln_stand_in_counts kiln_stand_in() {
  const Locked lock(everything);
  return counts;
}

EXPORT int cuInit(unsigned) { return 0; }
EXPORT int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
EXPORT int cuGetErrorName(int error, const char** name) {
  *name = error == illegal_address ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == 2             ? "CUDA_ERROR_OUT_OF_MEMORY"
                                   : "CUDA_ERROR_UNKNOWN";
  return 0;
}
EXPORT int cuGetErrorString(int error, const char** text) {
  *text = error == illegal_address ? "an illegal memory access was encountered" : "of the stand-in";
  return 0;
}
EXPORT int cuDeviceGetCount(int* count) { return *count = static_cast<int>(number_of("KILN_STAND_IN_GPUS", 1)), 0; }
EXPORT int cuDeviceGet(int* device, int index) { return *device = index, 0; }
EXPORT int cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "stand-in", static_cast<size_t>(size));
  return 0;
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 13:  // kilohertz
      return *value = 1000000, 0;
    case 16:  // multiprocessors
      return *value = 4, 0;
    case 36:  // kilohertz of memory
      return *value = 1000000, 0;
    case 37:  // bits of its bus
      return *value = 512, 0;
    case 75:
      return *value = 9, 0;
    default:
      return *value = 0, 0;
  }
}
EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  return *context = reinterpret_cast<void*>(static_cast<uintptr_t>(device + 1)), 0;
}
EXPORT int cuCtxGetCurrent(void** context) {
  *context = contexts.empty() ? nullptr : reinterpret_cast<void*>(static_cast<uintptr_t>(contexts.back() + 1));
  return 0;
}
EXPORT int cuCtxPushCurrent_v2(void* context) {
  return contexts.push_back(static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1), 0;
}
EXPORT int cuCtxPopCurrent_v2(void** context) {
  if (contexts.empty()) return no_context;
  *context = reinterpret_cast<void*>(static_cast<uintptr_t>(contexts.back() + 1));
  return contexts.pop_back(), 0;
}
EXPORT int cuCtxSynchronize() {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  current().run_everything();
  return current().status();
}

EXPORT int cuMemAlloc_v2(unsigned long long* out, size_t size) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  Gpu& g = current();
  if (g.lost) return g.status();
  const Opened opened(g);
  size = (size + 255) / 256 * 256;
  std::byte* at = nullptr;
  if (const auto found = g.given_back.find(size); found != g.given_back.end()) {
    at = found->second;
    g.given_back.erase(found);
  } else {
    if (g.used + size + 2 * gap > g.bytes) return out_of_memory;
    at = g.memory + g.used + gap;
    g.used += size + 2 * gap;
  }
  std::memset(at - gap, untouched, size + 2 * gap);
  g.blocks[at] = size;
  return *out = reinterpret_cast<unsigned long long>(at), 0;
}
EXPORT int cuMemFree_v2(unsigned long long pointer) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  Gpu& g = current();
  g.run_everything();
  const auto found = g.blocks.find(reinterpret_cast<std::byte*>(pointer));
  if (found == g.blocks.end()) return 1;
  g.given_back.emplace(found->second, found->first);
  g.blocks.erase(found);
  return g.status();
}
EXPORT int cuMemGetInfo_v2(size_t* unused, size_t* all) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  return *all = current().bytes, *unused = current().bytes - current().used, 0;
}
EXPORT int cuMemHostAlloc(void** out, size_t size, unsigned) { return *out = std::calloc(1, size), 0; }
EXPORT int cuMemFreeHost(void* memory) { return std::free(memory), 0; }
EXPORT int cuMemHostGetDevicePointer_v2(unsigned long long* out, void* memory, unsigned) {
  return *out = reinterpret_cast<unsigned long long>(memory), 0;
}

namespace {
int copied(Gpu& g, void* to, const void* from, size_t size) {
  if (g.lost) return g.status();
  const Opened opened(g);
  std::memcpy(to, from, size);
  return 0;
}
}  // namespace
// The values are taken at once, and are on their way when it returns.
EXPORT int cuMemcpyHtoD_v2(unsigned long long to, const void* from, size_t size) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  Gpu& g = current();
  void* there = reinterpret_cast<void*>(to);
  if (g.lost) return g.status();
  if (!g.inside(there) || g.inside(from)) return 1;
  ++counts.copies_in;
  const auto* bytes = static_cast<const char*>(from);
  g.legacy.add(
      [&g, there, values = std::vector<char>(bytes, bytes + size)] { copied(g, there, values.data(), values.size()); });
  return 0;
}
EXPORT int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t size, void* stream) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  Gpu& g = current();
  void* there = reinterpret_cast<void*>(to);
  if (g.lost) return g.status();
  if (!g.inside(there) || g.inside(from)) return 1;
  ++counts.copies_in;
  stream_of(stream)->add([&g, there, from, size] { copied(g, there, from, size); });
  return 0;
}
EXPORT int cuMemcpyDtoH_v2(void* to, unsigned long long from, size_t size) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  Gpu& g = current();
  const void* there = reinterpret_cast<const void*>(from);
  if (g.inside(to) || !g.inside(there)) return 1;
  g.run_ordered();
  g.legacy.run_all();
  const int status = copied(g, to, there, size);
  const auto* bytes = static_cast<const unsigned char*>(to);
  if (size > 0 && std::all_of(bytes, bytes + size, [](unsigned char b) { return b == untouched; }))
    ++counts.empty_copies;
  return status;
}
EXPORT int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t size, void* stream) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  Gpu& g = current();
  void* there = reinterpret_cast<void*>(to);
  const void* here = reinterpret_cast<const void*>(from);
  if (g.lost) return g.status();
  if (!g.inside(there) || !g.inside(here)) return 1;
  stream_of(stream)->add([&g, there, here, size] { copied(g, there, here, size); });
  return 0;
}

EXPORT int cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0) return 200;
  Elf64_Ehdr head;
  std::memcpy(&head, image, sizeof head);
  if (head.e_machine != EM_X86_64) return 209;  // a real GPU's
  const size_t size = head.e_shoff + size_t{head.e_shnum} * head.e_shentsize;
  const int file = memfd_create("kiln-stand-in", MFD_CLOEXEC);
  for (size_t done = 0; done < size;) {
    const ssize_t n = write(file, static_cast<const char*>(image) + done, size - done);
    if (n <= 0) return 200;
    done += static_cast<size_t>(n);
  }
  *module = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  return *module ? 0 : 200;  // the file stays open: the loader takes two of one name for one
}
EXPORT int cuModuleUnload(void* module) { return dlclose(module), 0; }
EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
  const Locked lock(everything);
  static auto& functions = *new std::map<void*, std::unique_ptr<Function>>();
  void* run = dlsym(module, (std::string("emulated_") + name).c_str());
  const void* bytes = dlsym(module, (std::string("parameter_bytes_") + name).c_str());
  if (!run || !bytes) return 500;
  auto& found = functions[run];
  found = std::make_unique<Function>();
  found->name = name;
  found->run = reinterpret_cast<Launcher>(run);
  std::memcpy(&found->bytes, bytes, sizeof found->bytes);
  return *function = found.get(), 0;
}
// As much as the largest GPU has; the emulation has a place of that size.
EXPORT int cuFuncSetAttribute(void*, int attribute, int value) {
  constexpr int most_dynamic_shared_bytes = 8, most = 227 << 10;
  return attribute == most_dynamic_shared_bytes && value <= most ? 0 : 1;
}

EXPORT int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                          unsigned, void* stream, void**, void** extra) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  if (current().lost) return current().status();
  ++counts.launches;
  Launch launch{static_cast<const Function*>(function), blocks, threads, {}};
  const char* bytes = static_cast<const char*>(extra[1]);
  launch.arguments.assign(bytes, bytes + *static_cast<const size_t*>(extra[3]));
  if (launch.arguments.size() != launch.function->bytes) return 1;
  stream_of(stream)->add([index = contexts.back(), launch = std::move(launch)] { run_launch(index, launch); });
  return 0;
}

EXPORT void stand_in_record_kernels(bool wanted) {
  const Locked lock(everything);
  recording = wanted;
}
EXPORT bool stand_in_take_record(StandInKernelRecord* out) {
  const Locked lock(everything);
  if (records.empty()) return false;
  *out = records.front();
  records.pop_front();
  return true;
}

// ---- Streams and events
EXPORT int cuStreamCreate(void** out, unsigned flags) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  auto* stream = new Stream;
  stream->gpu = contexts.back(), stream->ordered = (flags & not_ordered_with_legacy) == 0;
  current().streams.insert(stream);
  return *out = stream, 0;
}
EXPORT int cuStreamDestroy_v2(void* handle) {
  const Locked lock(everything);
  auto* stream = static_cast<Stream*>(handle);
  stream->run_all();
  gpu(stream->gpu).streams.erase(stream);
  return delete stream, 0;
}
EXPORT int cuStreamSynchronize(void* handle) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  Stream* stream = stream_of(handle);
  if (stream != &current().legacy && !current().streams.contains(stream)) return invalid_handle;
  stream->run_all();
  return current().status();
}
EXPORT int cuEventCreate(void** out, unsigned) {
  if (contexts.empty()) return no_context;
  auto* event = new Event;
  event->gpu = contexts.back();
  return *out = event, 0;
}
EXPORT int cuEventDestroy_v2(void* event) { return delete static_cast<Event*>(event), 0; }
namespace {
void run_before(int index, Stream* stream, uint64_t position) {
  // A stream that is gone has done all that there was on it.
  if (stream == &gpu(index).legacy || gpu(index).streams.contains(stream)) stream->run_until(position);
}
}  // namespace
EXPORT int cuEventRecord(void* handle, void* stream) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  ++counts.events;
  auto* event = static_cast<Event*>(handle);
  event->stream = stream_of(stream);
  event->stream->add([time = event->milliseconds] {
    *time = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
  });
  event->position = event->stream->put;
  return 0;
}
EXPORT int cuStreamWaitEvent(void* handle, void* what, unsigned) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  const auto* event = static_cast<const Event*>(what);
  if (!event->stream) return 0;
  stream_of(handle)->add([index = event->gpu, stream = event->stream, position = event->position] {
    run_before(index, stream, position);
  });
  return 0;
}
EXPORT int cuEventSynchronize(void* handle) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  const auto* event = static_cast<const Event*>(handle);
  if (event->stream) run_before(event->gpu, event->stream, event->position);
  return current().status();
}
EXPORT int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  const Locked lock(everything);
  const double passed = *static_cast<const Event*>(end)->milliseconds - *static_cast<const Event*>(begin)->milliseconds;
  return *milliseconds = static_cast<float>(passed > 1e-4 ? passed : 1e-4), 0;
}

// ---- Graphs
EXPORT int cuGraphCreate(void** out, unsigned) { return *out = new Graph, 0; }
EXPORT int cuGraphDestroy(void* graph) { return delete static_cast<Graph*>(graph), 0; }
EXPORT int cuGraphAddKernelNode_v2(void** node, void* graph, void* const* before, size_t count,
                                   const NodeParameters* given) {
  auto& nodes = static_cast<Graph*>(graph)->nodes;
  // The stand-in runs them in the order in which they were added: they must be a chain of that order.
  if (count != (nodes.empty() ? 0 : 1) || (count == 1 && before[0] != nodes.back())) return 801;
  nodes.push_back(new Launch(launch_of(*given)));
  return *node = nodes.back(), 0;
}
EXPORT int cuGraphInstantiateWithFlags(void** out, void* graph, unsigned long long) {
  const Locked lock(everything);
  if (number_of("KILN_STAND_IN_NO_GRAPHS", 0) != 0) return out_of_memory;
  ++counts.graphs;
  auto* run = new GraphRun;
  for (Launch* node : static_cast<Graph*>(graph)->nodes) {
    run->numbers[node] = run->launches.size();
    run->launches.push_back(*node);
  }
  return *out = run, 0;
}
EXPORT int cuGraphExecDestroy(void* run) { return delete static_cast<GraphRun*>(run), 0; }
EXPORT int cuGraphExecKernelNodeSetParams_v2(void* handle, void* node, const NodeParameters* given) {
  const Locked lock(everything);
  auto* run = static_cast<GraphRun*>(handle);
  const auto found = run->numbers.find(node);
  if (found == run->numbers.end()) return 1;
  ++counts.changed_nodes;
  return run->launches[found->second] = launch_of(*given), 0;
}
EXPORT int cuGraphLaunch(void* handle, void* stream) {
  if (contexts.empty()) return no_context;
  const Locked lock(everything);
  if (current().lost) return current().status();
  ++counts.replays;
  for (const Launch& launch : static_cast<GraphRun*>(handle)->launches)
    stream_of(stream)->add([index = contexts.back(), launch] { run_launch(index, launch); });
  return 0;
}
