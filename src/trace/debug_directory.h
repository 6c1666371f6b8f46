// The debug directory: torch_compile_debug/run_<timestamp>-pid_<pid>/<model>/ with the files that PyTorch users know
// (docs/debug-directory.md). Each file is written as soon as what it shows exists, so that a compile that fails leaves
// everything up to there.
#pragma once
#include <memory>
#include <string>

#include "trace/compile_observer.h"

namespace kiln {

// `debug` or `trace.enabled` is on.
bool debug_directory_wanted(const Settings& settings);

// …/run_<timestamp>-pid_<pid>, one per process. As in PyTorch, the key `debug_dir_root` is the folder of such runs
// itself, and the environment's TORCH_COMPILE_DEBUG_DIR is where torch_compile_debug is made.
std::string debug_run_directory(const Settings& settings);

// Makes <run directory>/<model>, or <model>_1, … where that exists. Says at the end where.
std::unique_ptr<CompileObserver> make_debug_directory(const std::string& run_directory);

// The generated program for people: plan as comments, then every kernel with its origins; one unit that compiles.
std::string output_code_cpp(const CodeEvent& event, const std::string& model_name);
// The same as a Python module that loads the package through Kiln's Python package.
std::string output_code_python(const std::string& cpp, const std::string& package_path, const std::string& values_file);

}  // namespace kiln
