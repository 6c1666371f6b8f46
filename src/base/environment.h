// The environment of this process: it is read here and by Settings (settings.h), nowhere else
// (tests/source_rules_test.cpp checks that). What is a setting is asked of a Settings object; here stands what is none,
// and what must be known where there is no such object; temporary_root() (TMPDIR) is declared in file.h.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

class Settings;
struct Setting;

std::optional<bool> parse_bool(std::string_view text);  // 1, true, yes, on; 0, false, no, off, none, nothing

std::vector<std::string> program_directories();  // PATH
std::string user_cache_root();                   // XDG_CACHE_HOME, else ~/.cache; "" where there is neither
// The setting's value is what its environment variable says.
bool said_by_environment(const Settings& settings, const Setting& setting);
std::string compiler_of_environment();                    // KILN_CXX; "": not said
std::string nvrtc_of_environment();                       // KILN_NVRTC; "": not said
std::vector<std::string> cuda_toolkits_of_environment();  // CUDA_HOME, CUDA_PATH
// Folders that may have lib/python3…/site-packages in them: an active environment, those above PATH's, the user's own.
std::vector<std::string> python_roots_of_environment();
// Where a library of the CUDA toolkit may lie that is opened when it is needed and never linked, in the order of
// trying: along the loader's path, in toolkits, in Python's packages; of several the newest first. `name`: "nvrtc".
// `wheel`: its folder in the packages of CUDA 12, "cuda_nvrtc".
std::vector<std::string> cuda_library_places(const std::string& name, const std::string& wheel);
bool colours_refused();                              // NO_COLOR is set to something
bool native_stacks_of_environment();                 // TORCH_SHOW_CPP_STACKTRACES, as the setting reads it
std::vector<std::string> environment_assignments();  // every "NAME=value"

// Where debug directories are made: the key debug_dir_root names the folder itself, TORCH_COMPILE_DEBUG_DIR the one
// above it, as in PyTorch.
std::string debug_directory_root(const Settings& settings);

}  // namespace kiln
