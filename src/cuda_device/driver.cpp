#include "cuda_device/driver.h"

#include <dlfcn.h>

#include "base/error.h"

namespace kiln::cuda {
namespace {

Driver open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail_user("K0773", str("the package was compiled for cuda, and there is no NVIDIA driver here (", dlerror(), ")"));
  Driver out{};
  const char* missing = nullptr;
  const auto bind = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function && !missing) missing = name;
  };
  bind(out.init, "cuInit");
  bind(out.version, "cuDriverGetVersion");
  bind(out.error_name, "cuGetErrorName");
  bind(out.error_text, "cuGetErrorString");
  bind(out.device_count, "cuDeviceGetCount");
  bind(out.device_get, "cuDeviceGet");
  bind(out.device_name, "cuDeviceGetName");
  bind(out.device_attribute, "cuDeviceGetAttribute");
  bind(out.primary_context, "cuDevicePrimaryCtxRetain");
  bind(out.current, "cuCtxGetCurrent");
  bind(out.push, "cuCtxPushCurrent_v2");
  bind(out.pop, "cuCtxPopCurrent_v2");
  bind(out.synchronise_context, "cuCtxSynchronize");
  bind(out.allocate, "cuMemAlloc_v2");
  bind(out.release, "cuMemFree_v2");
  bind(out.host_allocate, "cuMemHostAlloc");
  bind(out.host_release, "cuMemFreeHost");
  bind(out.host_pointer, "cuMemHostGetDevicePointer_v2");
  bind(out.copy_in, "cuMemcpyHtoD_v2");
  bind(out.copy_out, "cuMemcpyDtoH_v2");
  bind(out.copy_within, "cuMemcpyDtoDAsync_v2");
  bind(out.load, "cuModuleLoadDataEx");
  bind(out.unload, "cuModuleUnload");
  bind(out.function, "cuModuleGetFunction");
  bind(out.set_function_attribute, "cuFuncSetAttribute");
  bind(out.launch, "cuLaunchKernel");
  bind(out.synchronise_stream, "cuStreamSynchronize");
  bind(out.copy_in_queued, "cuMemcpyHtoDAsync_v2");
  bind(out.new_stream, "cuStreamCreate");
  bind(out.free_stream, "cuStreamDestroy_v2");
  bind(out.wait_for, "cuStreamWaitEvent");
  bind(out.new_event, "cuEventCreate");
  bind(out.free_event, "cuEventDestroy_v2");
  bind(out.record, "cuEventRecord");
  bind(out.synchronise_event, "cuEventSynchronize");
  bind(out.elapsed, "cuEventElapsedTime");
  bind(out.memory, "cuMemGetInfo_v2");
  if (missing) fail_user("K0773", str("the NVIDIA driver here is too old: it has no ", missing));
  bind(out.new_graph, "cuGraphCreate");
  bind(out.free_graph, "cuGraphDestroy");
  bind(out.add_kernel, "cuGraphAddKernelNode_v2");
  bind(out.make_ready, "cuGraphInstantiateWithFlags");
  bind(out.free_ready, "cuGraphExecDestroy");
  bind(out.change_kernel, "cuGraphExecKernelNodeSetParams_v2");
  bind(out.launch_graph, "cuGraphLaunch");
  if (const Result result = out.init(0); result != 0)
    fail_user("K0773", str("the NVIDIA driver does not start: ", out.text(result)));
  return out;
}

}  // namespace

std::string Driver::text(Result result) const {
  const char *name = nullptr, *said = nullptr;
  if (error_name(result, &name) != 0 || !name) return str("error ", result);
  return error_text(result, &said) == 0 && said ? str(name, " (", said, ")") : std::string(name);
}

const Driver& driver() {
  static const Driver opened = open_driver();
  return opened;
}

}  // namespace kiln::cuda
