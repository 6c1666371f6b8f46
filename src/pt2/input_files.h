// The inputs of a call in a file: what stands in it is put into the order of the model's inputs.
//
//   a list (.pt, .npy, numbered names)   the flat inputs in order; constant ones may be left out
//   a dictionary (.pt, .npz, .safetensors)   by name: the flat names of the inputs, the names of forward's arguments,
//   or
//                                            places inside those ("inputs/key"); all must match, constant ones may be
//                                            left out
//   nested lists, tuples and dictionaries (.pt)   as forward takes them: args, (args, kwargs), or a dictionary of
//                                                 arguments whose values are nested; dictionaries by key, in any order
//
// What fits no form is refused, never bound by position: K0155 for names, K0156 for nested values.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "types/tensor.h"

namespace kiln {

struct InputSlot {
  std::string name;               // of the graph's input, flat: "inputs_key"
  std::optional<Datum> constant;  // the value of the export, which the caller must pass
  bool number = false;            // takes a number: files that hold only tensors give it as one of rank 0
};

struct InputForm {
  std::vector<InputSlot> slots;
  std::string in_spec;                      // pytree of (args, kwargs), as the export has it; may be empty
  std::vector<std::string> argument_names;  // of forward's positional arguments
};

InputForm input_form(const Program& program);
std::vector<Datum> read_inputs(const std::string& path, const InputForm& form);
// The same of a list that was read without knowing the model: constant inputs that it leaves out are put in. One of
// another number comes back as it is.
std::vector<Datum> completed_inputs(const std::string& path, std::vector<Datum> list, const InputForm& form);

}  // namespace kiln
