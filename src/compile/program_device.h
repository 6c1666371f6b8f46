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

// Of a program that has tensors on a GPU: which of the user's inputs and outputs it has on the CPU, in their order.
struct HostValues {
  std::vector<bool> inputs, outputs;
};
HostValues values_on_host(const Program& program);

// The device of this name; throws K0413 for one that Kiln does not have.
DeviceType require_device(const std::string& name);

// What `device` ("": that of the export) is compiled for. Throws K0413 for a device that Kiln does not have.
DeviceType compile_device(const Program& program, const std::string& device);

// The program as compiling for `device` takes it: nothing when it is that already, else a copy, with a note where it
// runs elsewhere than where it was exported. Passes know one device, and a program for a GPU is told by its plan: its
// tensors are the CPU's here.
std::optional<Program> placed_program(const Program& program, const std::string& device,
                                      const std::function<void(const std::string&)>& note);

}  // namespace kiln
