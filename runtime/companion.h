// Libraries that the runtime opens when a setting asks for them: they lie beside this code (the runtime's shared
// object, or the program that has it inside; the real file, wherever links, PATH or a relative name led to it), in lib/
// next to its folder, or where the loader looks. Never in the current directory.
#pragma once
#include <string>
#include <vector>

namespace kiln::runtime {

// The function `entry` of the library ("kiln_debug": libkiln_debug.so with this runtime's SOVERSION, which is the name
// that is there with and without the links for linkers), or nullptr; `looked` gets the places.
void* open_companion(const char* name, const char* entry, std::vector<std::string>& looked);

}  // namespace kiln::runtime
