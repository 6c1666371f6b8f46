// The outputs of a call in a file, put into the order of the program's outputs:
//
//   a list (.pt, .npy, numbered names)       the flat outputs in order
//   a dictionary (.pt, .npz, .safetensors)   by the keys of the program's result ("past.0"), as `kiln run -o` writes
//                                            them; one without a key by its number
//   nested (.pt)                             as forward gives them
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "pt2/tensor_files.h"

namespace kiln {

struct OutputForm {
  std::vector<std::string> keys;  // one per output; one without a key has its number
  std::string out_spec;           // pytree of the result, as the export has it; may be empty
};
OutputForm output_form(std::vector<std::string> keys, std::string out_spec);

// Nothing: it is a dictionary whose keys are not those of the outputs.
std::optional<std::vector<Datum>> read_pt_outputs(const FileBytes& file, const OutputForm& form);
std::optional<std::vector<Datum>> read_outputs(const std::string& path, const OutputForm& form);

// A list or tuple of values without lists, tuples or dictionaries in it: nobody needs to know the model for its order.
bool is_flat_pt_list(const FileBytes& file);

}  // namespace kiln
