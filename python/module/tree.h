// The structure of a call's arguments or results (a pytree of PyTorch's), and how Python objects go into a flat list
// and back. kiln/_trees.py reads it from a package.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "python_object.h"

namespace kiln::python {

struct Tree {
  enum class Kind { leaf, tuple, list, dict, named_tuple, fields, custom };
  Kind kind = Kind::leaf;
  std::vector<Tree> children;
  std::vector<Object> keys;   // of a dict: its keys; of `fields`: names of attributes
  std::vector<Object> nones;  // of `fields`: attributes that were None
  Object type;                // the class of the result; of a dict nothing for dict itself
  Object flatten, unflatten;  // of `custom`: object -> list of children, and back
  std::string name;           // of the type, for messages
};

// From nested tuples: ("leaf",), ("tuple", children), ("list", children), ("dict", children, keys, type or None),
// ("named_tuple", children, type, name), ("fields", children, names, nones, type, name),
// ("custom", children, flatten, unflatten, name).
Tree read_tree(PyObject* description);

size_t leaf_count(const Tree& tree);
// Appends the leaves, as new references. `path` says in errors where in the call it stands.
void flatten(const Tree& tree, PyObject* object, const std::string& path, std::vector<Object>& out);
// Takes the leaves in turn.
Object unflatten(const Tree& tree, Object*& next);
// The same for a description and a sequence of leaves.
Object unflatten_list(PyObject* description, PyObject* leaves);

}  // namespace kiln::python
