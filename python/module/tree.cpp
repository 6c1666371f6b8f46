#include "tree.h"

#include "errors.h"

namespace kiln::python {
namespace {

PyObject* item(PyObject* tuple, Py_ssize_t index) {
  PyObject* out = PyTuple_GetItem(tuple, index);  // borrowed
  require(out != nullptr);
  return out;
}

std::string text_of(PyObject* object) {
  const Object text = Object::checked(PyUnicode_Check(object) ? Py_NewRef(object) : PyObject_Repr(object));
  Py_ssize_t size = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(text.get(), &size);
  require(utf8 != nullptr);
  return {utf8, static_cast<size_t>(size)};
}

std::string type_name(PyObject* object) {
  const Object name = Object::checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__name__"));
  return text_of(name.get());
}

std::vector<Object> objects(PyObject* sequence) {
  std::vector<Object> out;
  const Py_ssize_t size = PySequence_Size(sequence);
  require(size >= 0);
  for (Py_ssize_t i = 0; i < size; ++i) out.push_back(Object::checked(PySequence_GetItem(sequence, i)));
  return out;
}

std::string keys_text(const Tree& tree) {
  std::string out;
  for (const Object& key : tree.keys) out += (out.empty() ? "" : ", ") + text_of(key.get());
  return out.empty() ? "none" : out;
}

[[noreturn]] void mismatch(const std::string& path, const std::string& expected, PyObject* got) {
  raise(ErrorClass::input, "K0701",
        (path.empty() ? std::string("the call") : path) + ": expected " + expected + " as in the export, but got " +
            (got == Py_None ? std::string("None") : "a " + type_name(got)));
}

void flatten_dict(const Tree& tree, PyObject* object, const std::string& path, std::vector<Object>& out) {
  if (!PyDict_Check(object)) mismatch(path, "a dict with the keys " + keys_text(tree), object);
  const auto other_keys = [&] {
    const std::string got = text_of(Object::checked(PyDict_Keys(object)).get());
    raise(ErrorClass::input, "K0701",
          path + ": expected a dict with the keys " + keys_text(tree) + " as in the export, but got " + got);
  };
  if (PyDict_Size(object) != static_cast<Py_ssize_t>(tree.keys.size())) other_keys();
  for (size_t i = 0; i < tree.keys.size(); ++i) {
    PyObject* value = PyDict_GetItemWithError(object, tree.keys[i].get());
    if (!value) {
      require(!PyErr_Occurred());
      other_keys();
    }
    // The path's text is only wanted where something is wrong below.
    const Tree& child = tree.children[i];
    if (child.kind == Tree::Kind::leaf)
      out.push_back(Object::borrowed(value));
    else
      flatten(child, value, path + "[" + text_of(tree.keys[i].get()) + "]", out);
  }
}

void flatten_sequence(const Tree& tree, PyObject* object, const std::string& path, std::vector<Object>& out) {
  const bool is_tuple = PyTuple_Check(object);
  const std::string kind = tree.kind == Tree::Kind::named_tuple ? "a " + tree.name + " (named tuple)"
                           : tree.kind == Tree::Kind::list      ? "a list"
                                                                : "a tuple";
  if (!is_tuple && !PyList_Check(object)) mismatch(path, kind, object);
  const Py_ssize_t size = is_tuple ? PyTuple_Size(object) : PyList_Size(object);
  if (size != static_cast<Py_ssize_t>(tree.children.size()))
    raise(ErrorClass::input, "K0701",
          path + ": expected " + kind + " of " + std::to_string(tree.children.size()) + " as in the export, but got " +
              std::to_string(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    const Object child = Object::borrowed(is_tuple ? PyTuple_GetItem(object, i) : PyList_GetItem(object, i));
    const Tree& below = tree.children[static_cast<size_t>(i)];
    if (below.kind == Tree::Kind::leaf)
      out.push_back(child);
    else
      flatten(below, child.get(), path + "[" + std::to_string(i) + "]", out);
  }
}

void flatten_fields(const Tree& tree, PyObject* object, const std::string& path, std::vector<Object>& out) {
  if (tree.type && tree.type.get() != Py_None) {
    const int fits = PyObject_IsInstance(object, tree.type.get());
    require(fits >= 0);
    if (!fits) mismatch(path, "a " + tree.name, object);
  }
  for (const Object& name : tree.nones) {
    const Object value = Object::checked(PyObject_GetAttr(object, name.get()));
    if (value.get() != Py_None) mismatch(path + "." + text_of(name.get()), "None", value.get());
  }
  for (size_t i = 0; i < tree.keys.size(); ++i) {
    const Object value = Object::owned(PyObject_GetAttr(object, tree.keys[i].get()));
    if (!value) {
      PyErr_Clear();
      mismatch(path, "a " + tree.name + " with the field " + text_of(tree.keys[i].get()), object);
    }
    flatten(tree.children[i], value.get(), path + "." + text_of(tree.keys[i].get()), out);
  }
}

void flatten_custom(const Tree& tree, PyObject* object, const std::string& path, std::vector<Object>& out) {
  const Object children = Object::checked(PyObject_CallFunctionObjArgs(tree.flatten.get(), object, nullptr));
  if (children.get() == Py_None) mismatch(path, "a " + tree.name, object);
  const std::vector<Object> list = objects(children.get());
  if (list.size() != tree.children.size())
    raise(ErrorClass::input, "K0701",
          path + ": expected a " + tree.name + " of " + std::to_string(tree.children.size()) +
              " parts as in the export, but got " + std::to_string(list.size()));
  for (size_t i = 0; i < list.size(); ++i)
    flatten(tree.children[i], list[i].get(), path + "[" + std::to_string(i) + "]", out);
}

}  // namespace

Tree read_tree(PyObject* description) {
  Tree tree;
  const std::string kind = text_of(item(description, 0));
  if (kind == "leaf") return tree;
  for (const Object& child : objects(item(description, 1))) tree.children.push_back(read_tree(child.get()));
  if (kind == "tuple") {
    tree.kind = Tree::Kind::tuple;
  } else if (kind == "list") {
    tree.kind = Tree::Kind::list;
  } else if (kind == "dict") {
    tree.kind = Tree::Kind::dict;
    tree.keys = objects(item(description, 2));
    if (item(description, 3) != Py_None) tree.type = Object::borrowed(item(description, 3));
  } else if (kind == "named_tuple") {
    tree.kind = Tree::Kind::named_tuple;
    tree.type = Object::borrowed(item(description, 2));
    tree.name = text_of(item(description, 3));
  } else if (kind == "fields") {
    tree.kind = Tree::Kind::fields;
    tree.keys = objects(item(description, 2));
    tree.nones = objects(item(description, 3));
    tree.type = Object::borrowed(item(description, 4));
    tree.name = text_of(item(description, 5));
  } else {
    tree.kind = Tree::Kind::custom;
    tree.flatten = Object::borrowed(item(description, 2));
    tree.unflatten = Object::borrowed(item(description, 3));
    tree.name = text_of(item(description, 4));
  }
  if ((tree.kind == Tree::Kind::dict || tree.kind == Tree::Kind::fields) && tree.keys.size() != tree.children.size())
    raise(ErrorClass::file, "K0700", "the package's description of its arguments is damaged");
  return tree;
}

size_t leaf_count(const Tree& tree) {
  if (tree.kind == Tree::Kind::leaf) return 1;
  size_t count = 0;
  for (const Tree& child : tree.children) count += leaf_count(child);
  return count;
}

void flatten(const Tree& tree, PyObject* object, const std::string& path, std::vector<Object>& out) {
  switch (tree.kind) {
    case Tree::Kind::leaf:
      return out.push_back(Object::borrowed(object));
    case Tree::Kind::tuple:
    case Tree::Kind::list:
    case Tree::Kind::named_tuple:
      return flatten_sequence(tree, object, path, out);
    case Tree::Kind::dict:
      return flatten_dict(tree, object, path, out);
    case Tree::Kind::fields:
      return flatten_fields(tree, object, path, out);
    case Tree::Kind::custom:
      return flatten_custom(tree, object, path, out);
  }
}

Object unflatten(const Tree& tree, Object*& next) {
  const auto count = static_cast<Py_ssize_t>(tree.children.size());
  switch (tree.kind) {
    case Tree::Kind::leaf:
      return std::move(*next++);
    case Tree::Kind::list: {
      Object list = Object::checked(PyList_New(count));
      for (Py_ssize_t i = 0; i < count; ++i)
        PyList_SetItem(list.get(), i, unflatten(tree.children[static_cast<size_t>(i)], next).release());
      return list;
    }
    case Tree::Kind::dict: {
      Object dict =
          tree.type ? Object::checked(PyObject_CallObject(tree.type.get(), nullptr)) : Object::checked(PyDict_New());
      for (size_t i = 0; i < tree.children.size(); ++i) {
        const Object value = unflatten(tree.children[i], next);
        require(PyObject_SetItem(dict.get(), tree.keys[i].get(), value.get()) == 0);
      }
      return dict;
    }
    case Tree::Kind::fields: {
      const Object arguments = Object::checked(PyTuple_New(0)), named = Object::checked(PyDict_New());
      for (size_t i = 0; i < tree.children.size(); ++i) {
        const Object value = unflatten(tree.children[i], next);
        require(PyDict_SetItem(named.get(), tree.keys[i].get(), value.get()) == 0);
      }
      for (const Object& name : tree.nones) require(PyDict_SetItem(named.get(), name.get(), Py_None) == 0);
      return Object::checked(PyObject_Call(tree.type.get(), arguments.get(), named.get()));
    }
    default:
      break;
  }
  Object tuple = Object::checked(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i)
    PyTuple_SetItem(tuple.get(), i, unflatten(tree.children[static_cast<size_t>(i)], next).release());
  if (tree.kind == Tree::Kind::tuple) return tuple;
  if (tree.kind == Tree::Kind::named_tuple) return Object::checked(PyObject_CallObject(tree.type.get(), tuple.get()));
  return Object::checked(PyObject_CallFunctionObjArgs(tree.unflatten.get(), tuple.get(), nullptr));
}

Object unflatten_list(PyObject* description, PyObject* leaves) {
  const Tree tree = read_tree(description);
  std::vector<Object> list = objects(leaves);
  if (list.size() != leaf_count(tree))
    raise(ErrorClass::argument, "K0701",
          "the structure has " + std::to_string(leaf_count(tree)) + " leaves, but " + std::to_string(list.size()) +
              " were given");
  Object* next = list.data();
  return unflatten(tree, next);
}

}  // namespace kiln::python
