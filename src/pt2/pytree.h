// PyTorch's pytrees: how nested arguments (tuples, lists, dicts) become the flat list of a program's inputs.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pt2/pt_archive.h"

namespace kiln {

struct Pytree {
  std::string type;               // "builtins.tuple", "builtins.dict", …; empty: a leaf
  std::string context;            // of a named tuple: its class, "module.Name"
  std::vector<std::string> keys;  // of a dict: one per child; of a class that says its fields: their names
  std::vector<bool> number_keys;  // of a dict: the key is an integer, not text
  std::vector<Pytree> children;
  bool leaf() const { return type.empty(); }
};

// Text as in a module call signature: [1, {"type": …, "context": …, "children_spec": […]}]
Pytree parse_pytree(std::string_view text);

// Places of the leaves: "x" or "ts/0" or "inputs/key" -> position in the flat list. `tree` is that of (args, kwargs).
std::map<std::string, size_t> leaf_places(const Pytree& tree, const std::vector<std::string>& argument_names);

// The child of a dict that a pickled key means: 1 and "1" are two where the dict has both, and one where it has one.
std::optional<size_t> child_of_key(const Pytree& tree, const PickleValue& key);

// What stands in a pickled value of this form (no leaf) for each child; nothing: it has another form, or a type that
// only Python knows. Of a class of the user's nothing is called: its fields are found by their names.
std::optional<std::vector<const PickleValue*>> pickled_children(const Pytree& tree, const PickleValue& value);

// Flattens a pickled value of this form. False: the value has another form, or a type that only Python knows.
bool flatten_pickled(const Pytree& tree, const PickleValue& value, PtArchive& archive, std::vector<Datum>& out);

// The tree as in a module call signature, of n things: positional arguments without keyword ones, or outputs (one is
// given by itself).
std::string arguments_pytree_text(size_t n);
std::string outputs_pytree_text(size_t n);
size_t leaf_count(const Pytree& tree);
// What each leaf of a result is called: "last_hidden_state", "past.0.key"; "" where no key of a dict, named tuple or
// dataclass leads to it. All differ (unique_names), also from the numbers that those without a key go by beside them:
// {"a": [x], "a.0": y} has "a.0" and "a.0_1". `out_spec` is a tree as in a module call signature; nothing where it is
// none.
std::vector<std::string> output_keys(std::string_view out_spec);
bool is_dict_type(std::string_view type);  // of a tree: dict, OrderedDict, defaultdict

// Whether the tree holds only what write_pickled knows how to write: tuples, lists, dicts, named tuples.
bool can_pickle(const Pytree& tree);
// torch.save of the leaves in this tree. The tree must be one that can_pickle, with as many leaves.
void write_pickled(const Pytree& tree, const std::vector<Datum>& leaves, const ZipWriter::Sink& sink);

}  // namespace kiln
