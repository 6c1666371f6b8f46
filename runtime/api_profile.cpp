// kiln.h: profiles.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/api_handles.h"
#include "runtime/profiler.h"

using namespace kiln;
using namespace kiln::runtime;

struct kiln_profile {
  std::unique_ptr<Profiler> profiler;
  std::vector<const KernelTimes*> sorted;
  double gflops = 0, gbs = 0;
  const char* clock = "";
};

namespace {

std::string microseconds(double seconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f", seconds * 1e6);
  return text;
}

std::string chrome_trace(const Profiler& profiler) {
  std::string text = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
  const char* between = "\n";
  for (const Launched& launch : profiler.launches()) {
    const KernelTimes& kernel = profiler.kernels().at(launch.step);
    text += str(between, "{\"name\": ", quote(kernel.name), ", \"cat\": ", quote(kernel.kind),
                ", \"ph\": \"X\", \"ts\": ", microseconds(launch.begin), ", \"dur\": ", microseconds(launch.seconds),
                ", \"pid\": 1, \"tid\": ", launch.thread, ", \"args\": {\"run\": ", launch.run,
                ", \"iteration\": ", launch.iteration, ", \"origin\": ", quote(kernel.origin), "}}");
    between = ",\n";
  }
  return text + "\n]}\n";
}

}  // namespace

extern "C" {

kiln_status kiln_profile_start(kiln_instance* instance) {
  KILN_NOT_NULL(instance);
  return guarded([&] {
    std::shared_ptr<Tools> tools = instance->tools ? instance->tools : Tools::for_profile(instance->path);
    instance->instance.set_profiler(std::make_unique<Profiler>(std::move(tools)));
  });
}

kiln_status kiln_profile_stop(kiln_instance* instance, kiln_profile** out) {
  KILN_NOT_NULL(instance);
  KILN_NOT_NULL(out);
  *out = nullptr;
  return guarded([&] {
    std::unique_ptr<StepObserver> observer = instance->instance.set_profiler(nullptr);
    if (!observer) fail_user("K0660", "kiln_profile_stop without kiln_profile_start");
    auto profile = std::make_unique<kiln_profile>();
    profile->profiler.reset(static_cast<Profiler*>(observer.release()));
    for (const auto& [number, kernel] : profile->profiler->kernels()) profile->sorted.push_back(&kernel);
    std::stable_sort(profile->sorted.begin(), profile->sorted.end(),
                     [](const KernelTimes* a, const KernelTimes* b) { return a->seconds > b->seconds; });
    profile->clock = instance->instance.model().device().clock();
    if (!instance->instance.model().device().limits(profile->gflops, profile->gbs))
      if (const Tools* tools = profile->profiler->tools()) tools->library().limits(&profile->gflops, &profile->gbs);
    *out = profile.release();
  });
}

void kiln_profile_free(kiln_profile* profile) { delete profile; }

size_t kiln_profile_count(const kiln_profile* profile) { return profile ? profile->sorted.size() : 0; }

kiln_status kiln_profile_total(const kiln_profile* profile, kiln_profile_summary* out) {
  KILN_NOT_NULL(profile);
  KILN_STRUCT(out);
  double seconds = 0;
  for (const KernelTimes* kernel : profile->sorted) seconds += kernel->seconds;
  give(kiln_profile_summary{0, profile->profiler->runs(), seconds, profile->profiler->overhead(), profile->gflops,
                            profile->gbs, profile->clock},
       out);
  return KILN_OK;
}

kiln_status kiln_profile_kernel(const kiln_profile* profile, size_t index, kiln_kernel_profile* out) {
  KILN_NOT_NULL(profile);
  KILN_STRUCT(out);
  KILN_INDEX(index, profile->sorted.size());
  const KernelTimes& k = *profile->sorted[index];
  give(kiln_kernel_profile{0, k.name.c_str(), k.kind.c_str(), k.origin.c_str(), k.calls, k.seconds, k.least, k.bytes,
                           k.flops},
       out);
  return KILN_OK;
}

kiln_status kiln_profile_write_trace(const kiln_profile* profile, const char* path) {
  KILN_NOT_NULL(profile);
  KILN_NOT_NULL(path);
  return guarded([&] { write_file_atomic(path, chrome_trace(*profile->profiler)); });
}

}  // extern "C"
