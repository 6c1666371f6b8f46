// PyTorch's pytrees: how nested arguments (tuples, lists, dicts) become the flat list of a program's inputs.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pt2/pt_archive.h"

namespace kiln {

struct Pytree {
  std::string type;               // "builtins.tuple", "builtins.dict", …; empty: a leaf
  std::vector<std::string> keys;  // of a dict: one per child
  std::vector<Pytree> children;
  bool leaf() const { return type.empty(); }
};

// Text as in a module call signature: [1, {"type": …, "context": …, "children_spec": […]}]
Pytree parse_pytree(std::string_view text);

// Places of the leaves: "x" or "ts/0" or "inputs/key" -> position in the flat list. `tree` is that of (args, kwargs).
std::map<std::string, size_t> leaf_places(const Pytree& tree, const std::vector<std::string>& argument_names);

// Flattens a pickled value of this form. False: the value has another form, or a type that only Python knows.
bool flatten_pickled(const Pytree& tree, const PickleValue& value, PtArchive& archive, std::vector<Datum>& out);

}  // namespace kiln
