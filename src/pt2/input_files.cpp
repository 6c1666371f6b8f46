#include "pt2/input_files.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "pt2/pytree.h"
#include "pt2/tensor_files.h"

namespace kiln {
namespace {

using Kind = PickleValue::Kind;

bool is_sequence(const PickleValue& value) { return value.is(Kind::tuple) || value.is(Kind::list); }

std::string key_of(const PickleValue& key) {
  if (key.is(Kind::string)) return key.text;
  return key.is(Kind::integer) ? std::to_string(key.integer) : "";
}

// What a value of the file is, in messages.
std::string what_of(const PickleValue& value) {
  if (is_sequence(value)) return str("a list of ", value.items.size());
  if (PtArchive::is_dict(value)) return str("a dictionary of ", value.items.size() / 2);
  if (value.is(Kind::call)) return "a tensor or another object";
  return pickle_kind_name(value.kind);
}

// A place of the form: an argument, or something inside one. Its leaves are slots one after the other.
struct Place {
  const Pytree* tree = nullptr;
  size_t first = 0;  // slot of the first leaf
};

class Binder {
 public:
  Binder(const std::string& path, const InputForm& form)
      : path_(path), form_(form), values_(form.slots.size()), from_(form.slots.size()) {
    if (form.in_spec.empty()) return;
    tree_ = parse_pytree(form.in_spec);
    // A tree of something else (an older export) does not say where the inputs belong.
    if (tree_.children.size() != 2 || leaf_count(tree_) != form.slots.size()) tree_ = {};
    add_arguments();
  }

  std::vector<Datum> flat(std::vector<Datum> items) {
    const auto constants = std::count_if(form_.slots.begin(), form_.slots.end(),
                                         [](const InputSlot& s) { return s.constant.has_value(); });
    const bool left_out = constants > 0 && items.size() + static_cast<size_t>(constants) == form_.slots.size();
    // Another number is refused where the inputs are checked, with what the model takes.
    if (!left_out && items.size() != form_.slots.size()) return items;
    size_t next = 0;
    for (size_t i = 0; i < form_.slots.size(); ++i)
      if (!left_out || !form_.slots[i].constant) set(i, std::move(items[next++]), "");
    return finish();
  }

  std::vector<Datum> named(TensorFile file) {
    std::vector<std::vector<Place>> meant;
    for (const std::string& name : file.names) {
      meant.push_back(meanings(name));
      std::erase_if(meant.back(), [](const Place& place) { return place.tree != nullptr; });
    }
    const std::vector<std::optional<Place>> places = told_apart(meant);
    for (size_t i = 0; i < file.names.size(); ++i) {
      if (places[i])
        set(places[i]->first, std::move(file.items[i]), file.names[i]);
      else
        unknown_.push_back(file.names[i]);
    }
    return finish();
  }

  bool knows_all(const std::vector<std::string>& names) const {
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return !meanings(name).empty(); });
  }

  std::vector<Datum> pickled(PtArchive& archive) {
    const PickleValue& root = archive.root();
    if (PtArchive::is_dict(root)) return by_argument(root, archive);
    const bool nested =
        is_sequence(root) && std::any_of(root.items.begin(), root.items.end(), [](const PickleValue* item) {
          return is_sequence(*item) || PtArchive::is_dict(*item);
        });
    if (!nested && holds_objects(root)) return objects(root, archive);
    if (!nested || tree_.children.size() != 2) return flat(flat_items(archive.datum(root)));
    const Pytree &args = tree_.children[0], &kwargs = tree_.children[1];
    // (args, kwargs), unless the list is the arguments themselves.
    const bool both = root.items.size() == 2 && is_sequence(*root.items[0]) && PtArchive::is_dict(*root.items[1]) &&
                      root.items[0]->items.size() == args.children.size() && !fits(args, root);
    if (both) {
      bind({&args, 0}, *root.items[0], "args", archive);
      bind({&kwargs, leaf_count(args)}, *root.items[1], "kwargs", archive);
    } else {
      bind({&args, 0}, root, "args", archive);
    }
    return finish();
  }

 private:
  // Whether the file is, or lists, objects of classes (dataclasses) where the model takes such: they are no tensors.
  bool holds_objects(const PickleValue& root) const {
    if (tree_.children.size() != 2) return false;
    const std::vector<Pytree>& args = tree_.children[0].children;
    const auto is_object = [](const Pytree& tree, const PickleValue& value) {
      return value.is(Kind::call) && !starts_with(value.callable->text, "torch._") && !tree.leaf() &&
             pickled_children(tree, value).has_value();
    };
    if (root.is(Kind::call)) return args.size() == 1 && is_object(args[0], root);
    if (!is_sequence(root) || root.items.size() != args.size()) return false;
    for (size_t i = 0; i < args.size(); ++i)
      if (is_object(args[i], *root.items[i])) return true;
    return false;
  }

  std::vector<Datum> objects(const PickleValue& root, PtArchive& archive) {
    const Pytree& args = tree_.children[0];
    if (root.is(Kind::call))
      bind({&args.children[0], 0}, root, arguments_[0].first, archive);
    else
      bind({&args, 0}, root, "args", archive);
    return finish();
  }

  [[noreturn]] void refuse(const std::string& why) const { fail_user("K0156", str(path_, ": ", why, takes())); }

  std::string takes() const {
    if (arguments_.empty()) return str("\n  the model's inputs: ", join(slot_names(), ", "));
    return str("\n  the model takes: ", join_map(arguments_, ", ", [](const auto& argument) {
                 return argument.second.tree->leaf() ? argument.first
                                                     : str(argument.first, "=", form_text(*argument.second.tree));
               }));
  }

  static std::string form_text(const Pytree& tree) {
    if (tree.leaf()) return "·";
    std::vector<std::string> parts;
    for (size_t i = 0; i < tree.children.size(); ++i) {
      const std::string inner = form_text(tree.children[i]);
      if (i < tree.keys.size())
        parts.push_back(inner == "·" ? tree.keys[i] : str(tree.keys[i], ": ", inner));
      else
        parts.push_back(inner);
    }
    return tree.keys.empty() ? str("[", join(parts, ", "), "]") : str("{", join(parts, ", "), "}");
  }

  std::vector<std::string> slot_names() const {
    std::vector<std::string> out;
    for (const InputSlot& slot : form_.slots) out.push_back(slot.name);
    return out;
  }

  void add_arguments() {
    if (tree_.children.size() != 2) return;
    const Pytree &args = tree_.children[0], &kwargs = tree_.children[1];
    size_t next = 0;
    for (size_t i = 0; i < args.children.size(); ++i) {
      const Pytree& child = args.children[i];
      const std::string name = i < form_.argument_names.size() ? form_.argument_names[i]
                               : child.leaf()                  ? form_.slots[next].name
                                                               : str("args/", i);
      arguments_.emplace_back(name, Place{&child, next});
      next += leaf_count(child);
    }
    for (size_t i = 0; i < kwargs.children.size(); ++i) {
      arguments_.emplace_back(i < kwargs.keys.size() ? kwargs.keys[i] : str("kwargs/", i),
                              Place{&kwargs.children[i], next});
      next += leaf_count(kwargs.children[i]);
    }
  }

  // The places that a name may mean: an argument, a place inside one with "/" or "." between, a flat name. They are
  // more than one where the export gave d["a"] the flat name d_a, and there is an argument d_a. A leaf has no tree.
  std::vector<Place> meanings(const std::string& name) const {
    std::vector<Place> out;
    for (const auto& [argument, place] : arguments_) {
      if (argument == name) out.push_back(place.tree->leaf() ? Place{nullptr, place.first} : place);
      if (starts_with(name, argument) && (name[argument.size()] == '/' || name[argument.size()] == '.'))
        add_inside(place, std::string_view(name).substr(argument.size() + 1), out);
    }
    for (size_t i = 0; i < form_.slots.size(); ++i)
      if (form_.slots[i].name == name && !begins_at(out, i)) out.push_back(Place{nullptr, i});
    return out;
  }

  static bool begins_at(const std::vector<Place>& places, size_t slot) {
    return std::any_of(places.begin(), places.end(),
                       [&](const Place& p) { return p.tree == nullptr && p.first == slot; });
  }

  static void add_inside(const Place& place, std::string_view rest, std::vector<Place>& out) {
    size_t first = place.first;
    for (size_t i = 0; i < place.tree->children.size(); ++i) {
      const Pytree& child = place.tree->children[i];
      const std::string key = i < place.tree->keys.size() ? place.tree->keys[i] : std::to_string(i);
      if (rest == key) out.push_back(child.leaf() ? Place{nullptr, first} : Place{&child, first});
      if (starts_with(rest, key) && (rest[key.size()] == '/' || rest[key.size()] == '.'))
        add_inside({&child, first}, rest.substr(key.size() + 1), out);
      first += leaf_count(child);
    }
  }

  // The names of a file each mean something else: one that may mean several places means what the others leave, and of
  // that the first. Nothing for a name that means none.
  std::vector<std::optional<Place>> told_apart(const std::vector<std::vector<Place>>& meant) const {
    std::vector<std::optional<Place>> out(meant.size());
    std::vector<bool> taken(form_.slots.size(), false);
    const auto slots = [](const Place& place) { return place.tree == nullptr ? size_t{1} : leaf_count(*place.tree); };
    const auto free = [&](const Place& place) {
      for (size_t i = 0; i < slots(place); ++i)
        if (taken[place.first + i]) return false;
      return true;
    };
    const auto take = [&](size_t name, const Place& place) {
      out[name] = place;
      for (size_t i = 0; i < slots(place); ++i) taken[place.first + i] = true;
    };
    std::vector<size_t> open;
    for (size_t i = 0; i < meant.size(); ++i) {
      if (meant[i].size() == 1) take(i, meant[i][0]);
      if (meant[i].size() > 1) open.push_back(i);
    }
    while (!open.empty()) {
      const auto only = std::find_if(open.begin(), open.end(), [&](size_t name) {
        return std::count_if(meant[name].begin(), meant[name].end(), free) <= 1;
      });
      const auto next = only == open.end() ? open.begin() : only;
      const auto found = std::find_if(meant[*next].begin(), meant[*next].end(), free);
      take(*next, found == meant[*next].end() ? meant[*next].front() : *found);  // given twice: refused where it is set
      open.erase(next);
    }
    return out;
  }

  // The only argument is a dictionary, and this is it: none of its keys is a name of the model's.
  bool is_only_argument(const PickleValue& root) const {
    if (arguments_.size() != 1 || !is_dict_type(arguments_[0].second.tree->type) || root.items.empty()) return false;
    for (size_t i = 0; i + 1 < root.items.size(); i += 2)
      if (!meanings(key_of(*root.items[i])).empty()) return false;
    const std::vector<std::string>& keys = arguments_[0].second.tree->keys;
    return std::find(keys.begin(), keys.end(), key_of(*root.items[0])) != keys.end();
  }

  std::vector<Datum> by_argument(const PickleValue& root, PtArchive& archive) {
    if (is_only_argument(root)) {
      bind_dict(arguments_[0].second, root, arguments_[0].first, archive);
      return finish();
    }
    std::vector<std::vector<Place>> meant;
    for (size_t i = 0; i + 1 < root.items.size(); i += 2) meant.push_back(meanings(key_of(*root.items[i])));
    const std::vector<std::optional<Place>> places = told_apart(meant);
    for (size_t i = 0; i < places.size(); ++i) {
      const std::string name = key_of(*root.items[2 * i]);
      if (!places[i])
        unknown_.push_back(name.empty() ? "a key that is neither text nor an integer" : name);
      else
        bind(*places[i], *root.items[2 * i + 1], name, archive);
    }
    return finish();
  }

  // Whether the value has the form of the tree; leaves are not looked at.
  static bool fits(const Pytree& tree, const PickleValue& value) {
    if (tree.leaf()) return !is_sequence(value) && !PtArchive::is_dict(value);
    if (is_dict_type(tree.type)) return PtArchive::is_dict(value);
    if (!is_sequence(value) || value.items.size() != tree.children.size()) return false;
    for (size_t i = 0; i < tree.children.size(); ++i)
      if (!fits(tree.children[i], *value.items[i])) return false;
    return true;
  }

  void bind(const Place& place, const PickleValue& value, const std::string& name, PtArchive& archive) {
    if (place.tree == nullptr || place.tree->leaf()) {
      if (is_sequence(value) || PtArchive::is_dict(value))
        refuse(str(name, " is ", what_of(value), ", where the model takes one value"));
      return set(place.first, archive.datum(value), name);
    }
    const Pytree& tree = *place.tree;
    if (is_dict_type(tree.type)) return bind_dict(place, value, name, archive);
    const auto children = pickled_children(tree, value);
    if (!children)
      refuse(
          str(name, " is ", what_of(value), ", where the model takes ",
              tree.keys.empty() ? str("a list of ", tree.children.size()) : str("the fields ", join(tree.keys, ", "))));
    size_t first = place.first;
    for (size_t i = 0; i < tree.children.size(); ++i) {
      bind({&tree.children[i], first}, *(*children)[i],
           str(name, "/", i < tree.keys.size() ? tree.keys[i] : std::to_string(i)), archive);
      first += leaf_count(tree.children[i]);
    }
  }

  void bind_dict(const Place& place, const PickleValue& value, const std::string& name, PtArchive& archive) {
    const Pytree& tree = *place.tree;
    if (!PtArchive::is_dict(value) && !(value.is(Kind::call) && !value.items.empty()))
      refuse(str(name, " is ", what_of(value), ", where the model takes a dictionary with the keys ",
                 join(tree.keys, ", ")));
    for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
      const std::string key = key_of(*value.items[i]);
      const auto child = child_of_key(tree, *value.items[i]);
      if (!child) {
        unknown_.push_back(str(name, "/", key));
        continue;
      }
      size_t first = place.first;
      for (size_t before = 0; before < *child; ++before) first += leaf_count(tree.children[before]);
      bind({&tree.children[*child], first}, *value.items[i + 1], str(name, "/", key), archive);
    }
  }

  static std::vector<Datum> flat_items(Datum whole) {
    if (whole.is_list()) return std::move(std::get<std::vector<Datum>>(whole.value));
    std::vector<Datum> one;
    one.push_back(std::move(whole));
    return one;
  }

  void set(size_t slot, Datum value, const std::string& name) {
    if (from_[slot])
      fail_user("K0155",
                str(path_, ": ", form_.slots[slot].name, " is given twice, as ", *from_[slot], " and as ", name));
    from_[slot] = name;
    // A number in a file that holds only tensors.
    const bool number = form_.slots[slot].number || form_.slots[slot].constant;
    if (number && value.is_tensor() && value.tensor().sizes.empty() && value.tensor().defined())
      value = Datum{value.tensor().item(0)};
    values_[slot] = std::move(value);
  }

  std::vector<Datum> finish() {
    std::vector<std::string> missing;
    for (size_t i = 0; i < form_.slots.size(); ++i) {
      if (from_[i]) continue;
      if (form_.slots[i].constant)
        values_[i] = *form_.slots[i].constant;
      else
        missing.push_back(place_name(i));
    }
    if (unknown_.empty() && missing.empty()) return std::move(values_);
    const auto quoted = [](const std::string& name) { return str("'", name, "'"); };
    std::string text = str(path_, ": ");
    if (!unknown_.empty()) {
      std::vector<std::string> known = missing.empty() ? names() : missing;
      text += join_map(unknown_, "; ", [&](const std::string& name) {
        const std::string near = nearest(name, known);
        return str("the model has no input ", quoted(name), near.empty() ? "" : str("; the nearest is ", quoted(near)));
      });
    }
    if (!missing.empty())
      text += str(unknown_.empty() ? "" : "; ", "without a value: ", join_map(missing, ", ", quoted));
    fail_user("K0155", text + takes());
  }

  // As the user would write it: the place inside the arguments where there is one.
  std::string place_name(size_t slot) const {
    if (tree_.children.size() == 2)
      for (const auto& [name, at] : leaf_places(tree_, form_.argument_names))
        if (at == slot && name.find('/') != std::string::npos && !starts_with(name, "args/")) return name;
    return form_.slots[slot].name;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out = slot_names();
    for (const auto& [name, place] : arguments_)
      if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
    return out;
  }

  const std::string& path_;
  const InputForm& form_;
  Pytree tree_;
  std::vector<std::pair<std::string, Place>> arguments_;
  std::vector<Datum> values_;
  std::vector<std::optional<std::string>> from_;  // the name that gave a slot its value
  std::vector<std::string> unknown_;
};

std::optional<Datum> constant_datum(const Argument& argument) {
  if (argument.is_scalar()) return Datum{argument.as_scalar()};
  if (const auto* text = std::get_if<std::string>(&argument.value)) return Datum{*text};
  return Datum{};  // None, or a dtype, device or layout, which is fixed by the export and not looked at
}

}  // namespace

InputForm input_form(const Program& program) {
  InputForm form;
  for (size_t i = 0; i < program.graph.inputs.size() && i < program.input_specs.size(); ++i) {
    const InputSpec& spec = program.input_specs[i];
    if (spec.kind != InputKind::user && spec.kind != InputKind::constant_value) continue;
    const Value& value = *program.graph.inputs[i];
    InputSlot slot{value.name, std::nullopt, false};
    if (spec.kind == InputKind::constant_value) slot.constant = constant_datum(spec.constant);
    slot.number =
        value.kind == ValueKind::sym_int || value.kind == ValueKind::sym_float || value.kind == ValueKind::sym_bool;
    form.slots.push_back(std::move(slot));
  }
  form.in_spec = program.in_spec;
  form.argument_names = program.forward_arg_names;
  return form;
}

std::vector<Datum> read_inputs(const std::string& path, const InputForm& form) {
  Binder binder(path, form);
  if (is_pt_file(path)) {
    const auto mapped = MappedFile::open(path);
    PtArchive archive({mapped->bytes(), mapped, path});
    return binder.pickled(archive);
  }
  TensorFile file = read_tensor_file(path);
  if (!file.numbered_names.empty() && binder.knows_all(file.numbered_names)) file.names = file.numbered_names;
  return file.names.empty() ? binder.flat(std::move(file.items)) : binder.named(std::move(file));
}

std::vector<Datum> completed_inputs(const std::string& path, std::vector<Datum> list, const InputForm& form) {
  return Binder(path, form).flat(std::move(list));
}

}  // namespace kiln
