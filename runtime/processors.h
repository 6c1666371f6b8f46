// How many processors this process may really use: the affinity mask, and the quota of its control groups.
#pragma once
#include <string>

namespace kiln::runtime {

int usable_processors();

// The parts, for tests. `root` is where the cgroup file systems are mounted, `membership` the text of
// /proc/self/cgroup.
int affinity_processors();
double cgroup_quota(const std::string& root, const std::string& membership);  // processors; 0: no limit

}  // namespace kiln::runtime
