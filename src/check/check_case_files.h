// The files of one case, read: see check_case.h and docs/commands.md for what each means.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "pt2/tensor_files.h"
#include "types/tensor.h"

namespace kiln {

struct CaseFiles {
  std::string model;  // path of the .pt2
  bool bare = false;  // only a .pt2: compared with the reference interpreter
  struct Call {
    std::vector<Datum> inputs, expected;
    std::optional<std::vector<Datum>> mutated;           // the inputs after the call
    std::optional<std::map<std::string, Tensor>> state;  // buffers after the call
  };
  std::vector<Call> calls;
  std::optional<std::vector<std::vector<Datum>>> sequence;  // outputs of inputs_0, inputs_1, …, inputs_0 in a row
  struct BadInputs {
    std::string name;  // "bad_inputs_0"
    std::vector<Datum> inputs;
    std::string refusal;  // why they cannot even be put into the order of the inputs; "": they can
  };
  std::vector<BadInputs> bad_inputs;
  // case.json
  std::optional<double> rtol, atol;
  bool shapes_only = false;
  std::vector<std::string> needs;
};

// Where the files of a case are: a directory, or the entries of a package.
struct CaseSource {
  std::string label;               // of the directory, in messages
  std::vector<std::string> names;  // of all files in it
  std::function<FileBytes(const std::string& name)> open;
  const Program* program = nullptr;  // for the order of named and nested values; otherwise the model.pt2 there
};

// Inputs may have the forms that `kiln run --inputs` takes, and outputs those that `kiln run -o` writes to a .pt: then
// the model is read for their order. `path` is a case directory or a .pt2. Throws K0172 when a file that must be there
// is missing or is not what its name says: inputs without expected values, a gap in the numbering, an unknown key in
// case.json.
// `program`, where it is given, is the model instead of the one in the directory, which then need not be there.
CaseFiles read_case_files(const std::string& path, const Program* program = nullptr);
CaseFiles read_case_files(const CaseSource& source);  // of a case directory
// Inputs may leave out what is constant: flat lists are read without the model, which knows the values. Those that must
// be refused stay as they are.
void complete_inputs(CaseFiles& files, const Program& program);

}  // namespace kiln
