// The device of a program is that of its export; another one that is asked for explicitly moves the program there.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "graph/graph.h"

namespace kiln {

// cuda where any input, weight or result lies on a GPU, else cpu.
DeviceType exported_device(const Program& program);

// Every tensor, weight, sample input and device argument on the CPU, subgraphs included.
Program moved_to_cpu(const Program& program);
void move_to_cpu(std::vector<Datum>& values);

// What to compile for `device` ("": that of the export): nothing when the program is there already, else a copy that
// was moved, with a note. Throws K0413 for a device that Kiln does not have and K0404 for one that this build does not
// compile for.
std::optional<Program> placed_program(const Program& program, const std::string& device,
                                      const std::function<void(const std::string&)>& note);

}  // namespace kiln
