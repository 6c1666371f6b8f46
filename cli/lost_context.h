// After an access for which CUDA has given this process up: who made it.
#pragma once
#include <string>
#include <vector>

namespace kiln::cli {

// Runs the command again in processes of their own, first with each launch waited for, then with every access of the
// kernels' loops checked, and gives what they say; "" where the command is none that runs a package, or already waits.
std::string name_lost_kernel(const std::vector<std::string>& args);

}  // namespace kiln::cli
