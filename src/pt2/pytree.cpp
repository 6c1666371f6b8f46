#include "pt2/pytree.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/json.h"

namespace kiln {
namespace {

using Kind = PickleValue::Kind;

std::string key_text(const Json& key) { return key.is_string() ? key.as_string() : json_text(key); }

// The context is JSON inside JSON: the list of keys (a defaultdict has its factory before it).
void read_keys(const Json& context, Pytree& tree) {
  Json keys = context.is_string() ? parse_json(context.as_string(), "pytree") : context;
  while (keys.is_array() && keys.items().size() == 2 && keys.items()[1].is_array()) keys = Json(keys.items()[1]);
  if (!keys.is_array()) return;
  for (const Json& key : keys.items()) {
    tree.keys.push_back(key_text(key));
    tree.number_keys.push_back(key.is_int());
  }
}

constexpr std::string_view named_tuple_type = "collections.namedtuple";

// Keys of a dict, or the field names that classes such as ModelOutput have as their context. A dataclass
// (torch.export.register_dataclass) has two lists: the fields that are there, and those that are None.
std::vector<std::string> child_keys(const Json& json, size_t children) {
  std::vector<std::string> keys;
  const Json* context = json.find_value("context");
  if (context == nullptr) return keys;
  Json list = *context;
  try {
    if (list.is_string()) list = parse_json(list.as_string(), "pytree");
  } catch (const Error&) {
    return keys;  // a class of the user's with a context of its own
  }
  while (list.is_array() && list.items().size() == 2 && list.items()[1].is_array()) {
    const bool fields = list.items()[0].is_array() && !is_dict_type(json.at("type").as_string());
    list = Json(list.items()[fields ? 0 : 1]);
    if (fields) break;
  }
  if (!list.is_array() || list.items().size() != children) return keys;
  for (const Json& key : list.items()) keys.push_back(key_text(key));
  return keys;
}

bool is_field_name(const std::string& text) {
  const auto fits = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0;
  };
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') && std::all_of(text.begin(), text.end(), fits);
}

// The fields of a class (a dataclass, a ModelOutput) that are children; none where the class does not say.
std::vector<std::string> field_names(const Json& json, size_t children) {
  std::vector<std::string> names = child_keys(json, children);
  const std::set<std::string> distinct(names.begin(), names.end());
  if (distinct.size() != names.size() || !std::all_of(names.begin(), names.end(), is_field_name)) names.clear();
  return names;
}

bool is_sequence_type(std::string_view type) {
  return type == "builtins.tuple" || type == "builtins.list" || type == named_tuple_type;
}

Pytree read_tree(const Json& json) {
  Pytree tree;
  const Json* type = json.find_value("type");
  if (type == nullptr) return tree;
  tree.type = type->as_string();
  for (const Json& child : json.at("children_spec").items()) tree.children.push_back(read_tree(child));
  if (is_dict_type(tree.type)) {
    read_keys(json.at("context"), tree);
    if (tree.keys.size() != tree.children.size())
      fail_user("K0163", "a pytree of the exported program has a dict whose keys and children differ in number");
  }
  if (!is_dict_type(tree.type) && !is_sequence_type(tree.type)) {
    tree.keys = field_names(json, tree.children.size());
    tree.number_keys.assign(tree.keys.size(), false);
  }
  if (tree.type == named_tuple_type)
    if (const Json* context = json.find_value("context"); context != nullptr && context->is_string()) {
      // The name of its class: as it is (PyTorch 2.15, _register_namedtuple), or as JSON.
      tree.context = context->as_string();
      if (!starts_with(tree.context, "\"")) return tree;
      const Json name = parse_json(tree.context, "pytree");
      tree.context = name.is_string() ? name.as_string() : "";
    }
  return tree;
}

void add_places(const Pytree& tree, const std::string& path, size_t& next, std::map<std::string, size_t>& out) {
  if (tree.leaf()) {
    out.emplace(path, next++);
    return;
  }
  for (size_t i = 0; i < tree.children.size(); ++i)
    add_places(tree.children[i], str(path, "/", tree.keys.empty() ? std::to_string(i) : tree.keys[i]), next, out);
}

std::optional<std::string> key_text(const PickleValue& key) {
  if (key.is(Kind::string)) return key.text;
  if (key.is(Kind::integer)) return std::to_string(key.integer);
  return std::nullopt;
}

const PickleValue* find_child(const PickleValue& dict, const Pytree& tree, size_t child) {
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2)
    if (key_text(*dict.items[i]) == tree.keys[child] && child_of_key(tree, *dict.items[i]) == child)
      return dict.items[i + 1];
  return nullptr;
}

}  // namespace

std::optional<size_t> child_of_key(const Pytree& tree, const PickleValue& key) {
  const bool number = key.is(Kind::integer);
  const std::optional<std::string> text = key_text(key);
  std::optional<size_t> out;
  for (size_t i = 0; i < tree.keys.size(); ++i) {
    if (text != tree.keys[i]) continue;
    if (tree.number_keys[i] == number) return i;
    if (!out) out = i;
  }
  return out;
}

bool is_dict_type(std::string_view type) {
  return type == "builtins.dict" || type == "collections.OrderedDict" || type == "collections.defaultdict";
}

Pytree parse_pytree(std::string_view text) {
  const Json json = parse_json(text, "pytree");
  if (!json.is_array() || json.items().size() != 2) fail_user("K0163", "a pytree of the exported program is damaged");
  if (json.items()[0].as_int() != 1)
    fail_unsupported("K0163", str("pytrees of version ", json.items()[0].as_int(), " are not read"));
  return read_tree(json.items()[1]);
}

std::map<std::string, size_t> leaf_places(const Pytree& tree, const std::vector<std::string>& argument_names) {
  std::map<std::string, size_t> out;
  size_t next = 0;
  if (tree.children.size() != 2) return out;
  const Pytree &args = tree.children[0], &kwargs = tree.children[1];
  for (size_t i = 0; i < args.children.size(); ++i)
    add_places(args.children[i], i < argument_names.size() ? argument_names[i] : str("args/", i), next, out);
  for (size_t i = 0; i < kwargs.children.size(); ++i)
    add_places(kwargs.children[i], i < kwargs.keys.size() ? kwargs.keys[i] : str("kwargs/", i), next, out);
  return out;
}

namespace {

using Values = std::vector<const PickleValue*>;

// Of one of the places where an object's fields may stand: names with values.
std::optional<Values> by_names(const Pytree& tree, std::initializer_list<const PickleValue*> places) {
  Values out;
  for (size_t i = 0; i < tree.keys.size(); ++i) {
    const PickleValue* found = nullptr;
    for (const PickleValue* place : places)
      if (place != nullptr && found == nullptr) found = find_child(*place, tree, i);
    if (found == nullptr) return std::nullopt;
    out.push_back(found);
  }
  return out;
}

// The fields of an object of a class of the user's. Its attributes are what BUILD was given: a dict, for __slots__ a
// dict behind it, or (a dataclass that is frozen and has slots) the values of all fields in their order, of which the
// form leaves out those that are None. What inherits from dict has them as its items.
std::optional<Values> fields_of(const Pytree& tree, const PickleValue& object) {
  if (tree.keys.empty() && !tree.children.empty()) return std::nullopt;
  const PickleValue* state = object.state;
  if (state != nullptr && state->is(Kind::tuple) && state->items.size() == 2 && state->items[1]->is(Kind::dict)) {
    const PickleValue* attributes = state->items[0];
    return by_names(tree, {attributes->is(Kind::dict) ? attributes : nullptr, state->items[1], &object});
  }
  if (state == nullptr || !state->is(Kind::list))
    return by_names(tree, {state != nullptr && state->is(Kind::dict) ? state : nullptr, &object});
  if (state->items.size() == tree.children.size()) return state->items;
  Values given;
  std::copy_if(state->items.begin(), state->items.end(), std::back_inserter(given),
               [](const PickleValue* value) { return !value->is(Kind::none); });
  if (given.size() != tree.children.size()) return std::nullopt;
  return given;
}

}  // namespace

std::optional<std::vector<const PickleValue*>> pickled_children(const Pytree& tree, const PickleValue& value) {
  if (is_dict_type(tree.type)) {
    if (!value.is(Kind::dict) && !value.is(Kind::call)) return std::nullopt;
    return by_names(tree, {&value});
  }
  if (!is_sequence_type(tree.type)) {
    if (value.is(Kind::call)) return fields_of(tree, value);
    if (value.is(Kind::dict)) return by_names(tree, {&value});
  }
  // A named tuple is pickled as a call of its class with its fields.
  const bool named = value.is(Kind::call) && tree.type == named_tuple_type;
  const PickleValue& sequence = named ? *value.args : value;
  if (!sequence.is(Kind::tuple) && !sequence.is(Kind::list)) return std::nullopt;
  if (sequence.items.size() != tree.children.size()) return std::nullopt;
  return sequence.items;
}

bool flatten_pickled(const Pytree& tree, const PickleValue& value, PtArchive& archive, std::vector<Datum>& out) {
  if (tree.leaf()) {
    out.push_back(archive.datum(value));
    return true;
  }
  const auto children = pickled_children(tree, value);
  if (!children) return false;
  for (size_t i = 0; i < tree.children.size(); ++i)
    if (!flatten_pickled(tree.children[i], *(*children)[i], archive, out)) return false;
  return true;
}

namespace {

constexpr std::string_view leaf_text = R"({"type": null, "context": null, "children_spec": []})";

std::string tuple_text(size_t n) {
  std::string children;
  for (size_t i = 0; i < n; ++i) children += str(i == 0 ? "" : ", ", leaf_text);
  return str(R"({"type": "builtins.tuple", "context": "null", "children_spec": [)", children, "]}");
}

}  // namespace

std::string arguments_pytree_text(size_t n) {
  return str(R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [)", tuple_text(n),
             R"(, {"type": "builtins.dict", "context": "[]", "children_spec": []}]}])");
}

std::string outputs_pytree_text(size_t n) { return str("[1, ", n == 1 ? std::string(leaf_text) : tuple_text(n), "]"); }

size_t leaf_count(const Pytree& tree) {
  if (tree.leaf()) return 1;
  size_t count = 0;
  for (const Pytree& child : tree.children) count += leaf_count(child);
  return count;
}

namespace {

void add_output_keys(const Json& json, const std::string& path, bool keyed, std::vector<std::string>& out) {
  if (json.find_value("type") == nullptr) {
    out.push_back(keyed ? path : "");
    return;
  }
  const Json::Array& children = json.at("children_spec").items();
  const std::vector<std::string> keys = child_keys(json, children.size());
  for (size_t i = 0; i < children.size(); ++i) {
    const std::string name = keys.empty() ? std::to_string(i) : keys[i];
    add_output_keys(children[i], path.empty() ? name : str(path, ".", name), keyed || !keys.empty(), out);
  }
}

// The number of one without a key is its own, whatever keys there are beside it.
void keep_apart(std::vector<std::string>& keys) {
  std::vector<std::string> names = keys;
  std::vector<bool> numbered;
  for (size_t i = 0; i < keys.size(); ++i) {
    numbered.push_back(keys[i].empty());
    if (numbered[i]) names[i] = std::to_string(i);
  }
  names = unique_names(std::move(names), numbered);
  for (size_t i = 0; i < keys.size(); ++i)
    if (!numbered[i]) keys[i] = names[i];
}

}  // namespace

std::vector<std::string> output_keys(std::string_view out_spec) {
  std::vector<std::string> out;
  if (out_spec.empty()) return out;
  const Json json = parse_json(out_spec, "pytree");
  if (json.is_array() && json.items().size() == 2) add_output_keys(json.items()[1], "", false, out);
  keep_apart(out);
  return out;
}

bool can_pickle(const Pytree& tree) {
  const bool known = tree.leaf() || tree.type == "builtins.tuple" || tree.type == "builtins.list" ||
                     tree.type == "builtins.dict" || tree.type == "collections.OrderedDict" ||
                     (tree.type == named_tuple_type && tree.context.find('.') != std::string::npos);
  return known && std::all_of(tree.children.begin(), tree.children.end(), can_pickle);
}

}  // namespace kiln
