// Writes a program as a .pt2 that torch.export.load reads (schema 8.20, archive layout of PyTorch 2.9 and later), and
// read_pt2 too.
//
// The program may be one that was read, or the result of any graph pass. What PyTorch demands and Kiln does not keep is
// made again: expressions as arguments become nodes, values that mutate come first among the outputs, a pytree that
// does not fit the inputs or outputs any more becomes a plain tuple. Not kept: classes of modules, requires_grad (all
// written as false), the call signatures of submodules.
//
// Equal programs give equal bytes.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/zip.h"
#include "graph/graph.h"

namespace kiln {

// With program.sample_inputs. A file of that name is replaced only when the whole new one is written.
void write_pt2(const Program& program, const std::string& path);
// With these: flat, one for each user input and constant input, in the graph's order; none: no sample inputs.
void write_pt2(const Program& program, const std::string& path, const std::vector<Datum>& sample_inputs,
               const std::map<std::string, std::string>& extra_files = {});
// `extra_files`: the user's own, by name, as read_extra_files gives them.
void write_pt2(const Program& program, const std::vector<Datum>& sample_inputs, const ZipWriter::Sink& sink,
               const std::map<std::string, std::string>& extra_files = {});

}  // namespace kiln
