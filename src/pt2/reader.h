// Reads an exported program: the .pt2 archive as torch.export.save writes it (schema 8.x).
//
// The file is mapped; weights are Tensors over the mapping, not copies (Program::keep_alive holds it). Nothing in the
// file is executed. Read are the archives of PyTorch 2.9 and later (weights as raw storages), of 2.8 (weights inside
// torch.save files) and the older layout with entries serialized_*.
#pragma once
#include <map>
#include <string>

#include "base/file.h"
#include "graph/graph.h"

namespace kiln {

// Every entry that is used is checked against its checksum (K0115): damaged weights are not compiled. looking_only:
// weights of more than a MiB are not, for those who show what a file holds and compute nothing from it.
Program read_pt2(const std::string& path, bool looking_only = false);
// The same over bytes, which `keep` keeps alive (nothing: weights are copied).
Program read_pt2(ByteSpan bytes, const std::shared_ptr<const void>& keep, const std::string& label,
                 bool looking_only = false);

// The user's own files in the archive (extra_files of torch.export.save), by name.
std::map<std::string, std::string> read_extra_files(const std::string& path);

}  // namespace kiln
