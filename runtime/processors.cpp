#include "runtime/processors.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/text.h"

namespace kiln::runtime {
namespace {

// Of files under /proc and /sys, whose size is not known before; a missing one is empty.
std::string small_file(const std::string& path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string text(16384, '\0');
  ssize_t n = ::read(fd, text.data(), text.size());
  close(fd);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

double ratio(const std::string& quota, const std::string& period) {
  double q = std::strtod(quota.c_str(), nullptr), p = std::strtod(period.c_str(), nullptr);
  return q > 0 && p > 0 ? q / p : 0;
}

double quota_at(const std::string& folder, bool unified) {
  if (unified) {
    std::vector<std::string> words =
        split(trim(small_file(folder + "/cpu.max")), ' ');  // "max 100000" or "50000 100000"
    return words.size() == 2 ? ratio(words[0], words[1]) : 0;
  }
  return ratio(small_file(folder + "/cpu.cfs_quota_us"), small_file(folder + "/cpu.cfs_period_us"));
}

// The tightest quota of a group and all that enclose it.
double tightest(const std::string& mount, std::string group, bool unified) {
  double best = 0;
  while (true) {
    double here = quota_at(mount + group, unified);
    if (here > 0 && (best == 0 || here < best)) best = here;
    size_t slash = group.rfind('/');
    if (slash == std::string::npos) return best;
    group.resize(slash);
  }
}

}  // namespace

int affinity_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));  // more processors than cpu_set_t holds
}

double cgroup_quota(const std::string& root, const std::string& membership) {
  double best = 0;
  for (const std::string& line : split(membership, '\n')) {
    size_t first = line.find(':'), second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (group == "/") group.clear();
    double quota = 0;
    if (controllers.empty()) {
      quota = tightest(root, group, true);
    } else {
      std::vector<std::string> names = split(controllers, ',');
      if (std::find(names.begin(), names.end(), "cpu") == names.end()) continue;
      quota = tightest(root + "/cpu", group, false);
      // Inside a container the group's own path is often mounted as the root.
      if (quota == 0) quota = tightest(root + "/" + controllers, group, false);
    }
    if (quota > 0 && (best == 0 || quota < best)) best = quota;
  }
  return best;
}

int usable_processors() {
  int count = affinity_processors();
  double quota = cgroup_quota("/sys/fs/cgroup", small_file("/proc/self/cgroup"));
  if (quota > 0) count = std::min(count, std::max(1, static_cast<int>(std::ceil(quota))));
  return count;
}

}  // namespace kiln::runtime
