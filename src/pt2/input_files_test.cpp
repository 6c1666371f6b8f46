#include "pt2/input_files.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "pt2/pytree.h"
#include "pt2/tensor_files.h"

namespace kiln {
namespace {

Pytree leaf() { return {}; }
Pytree sequence(std::vector<Pytree> children, const char* type = "builtins.tuple") {
  Pytree tree;
  tree.type = type;
  tree.children = std::move(children);
  return tree;
}
Pytree dict(std::vector<std::pair<std::string, Pytree>> items) {
  Pytree tree;
  tree.type = "builtins.dict";
  for (auto& [key, child] : items) {
    tree.keys.push_back(key);
    tree.number_keys.push_back(false);
    tree.children.push_back(std::move(child));
  }
  return tree;
}

// As a module call signature has it.
std::string spec_text(const Pytree& tree) {
  if (tree.leaf()) return R"({"type": null, "context": null, "children_spec": []})";
  const std::string keys =
      "[" + join_map(tree.keys, ", ", [](const std::string& k) { return "\\\"" + k + "\\\""; }) + "]";
  return str(R"({"type": ")", tree.type, R"(", "context": ")", is_dict_type(tree.type) ? keys : "null",
             R"(", "children_spec": [)", join_map(tree.children, ", ", spec_text), "]}");
}

// forward(self, x, inputs: {"a": ·, "b": [·, ·]}, scale=1.5, *, mask)
InputForm sample_form() {
  InputForm form;
  for (const char* name : {"x", "inputs_a", "inputs_b_0", "inputs_b_1", "scale", "mask"})
    form.slots.push_back({name, std::nullopt, false});
  form.slots[4].constant = Datum{Scalar(1.5)};
  const Pytree inputs = dict({{"a", leaf()}, {"b", sequence({leaf(), leaf()}, "builtins.list")}});
  form.in_spec = str("[1, ", spec_text(sequence({sequence({leaf(), inputs, leaf()}), dict({{"mask", leaf()}})})), "]");
  form.argument_names = {"x", "inputs", "scale"};
  return form;
}

Datum number(double value) { return Datum{Tensor::scalar(DType::f32, Scalar(value))}; }
std::vector<Datum> numbers(std::vector<double> values) {
  std::vector<Datum> out;
  for (double v : values) out.push_back(number(v));
  return out;
}

class InputFiles : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return join_path(directory_.path(), name); }
  std::string nested(const Pytree& tree, const std::vector<double>& leaves) const {
    AtomicFile file(path("nested.pt"));
    write_pickled(tree, numbers(leaves), [&](ByteSpan bytes) { file.write(bytes); });
    file.commit();
    return path("nested.pt");
  }
  std::string named(const std::string& name, std::vector<std::string> names, std::vector<Datum> items) const {
    write_tensor_file(path(name), {std::move(items), std::move(names)});
    return path(name);
  }
  // "1 2 3 4 1.5 6": what each slot got.
  static std::string bound(const std::string& file, const InputForm& form = sample_form()) {
    try {
      return join_map(read_inputs(file, form), " ", [](const Datum& datum) {
        if (datum.is_none()) return std::string("None");
        if (datum.is_scalar()) return "'" + datum.scalar().text() + "'";
        return float_text(datum.tensor().item(0).as_double());
      });
    } catch (const Error& error) {
      return error.code() + " " + error.message();
    }
  }
  static void expect_refused(const std::string& file, const std::string& code, const std::string& part) {
    const std::string text = bound(file);
    EXPECT_EQ(text.substr(0, 5), code) << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  TemporaryDirectory directory_;
};

TEST_F(InputFiles, ListsGoByPositionAndMayLeaveConstantsOut) {
  EXPECT_EQ(bound(named("a.pt", {}, numbers({1, 2, 3, 4, 1.5, 6}))), "1.0 2.0 3.0 4.0 '1.5' 6.0");
  EXPECT_EQ(bound(named("a.pt", {}, numbers({1, 2, 3, 4, 6}))), "1.0 2.0 3.0 4.0 '1.5' 6.0");
  // Another number is not this function's to refuse, but nothing is made up either.
  EXPECT_EQ(bound(named("a.pt", {}, numbers({1, 2, 3}))), "1.0 2.0 3.0");
}

TEST_F(InputFiles, NamesMatchInAnyOrderAndFormat) {
  for (const char* file : {"a.pt", "a.npz", "a.safetensors"}) {
    EXPECT_EQ(bound(named(file, {"mask", "x", "inputs_b_1", "inputs_a", "inputs_b_0"}, numbers({6, 1, 4, 2, 3}))),
              "1.0 2.0 3.0 4.0 '1.5' 6.0")
        << file;
    EXPECT_EQ(bound(named(file, {"mask", "x", "inputs.b.1", "inputs/a", "inputs/b/0", "scale"},
                          numbers({6, 1, 4, 2, 3, 2.5}))),
              "1.0 2.0 3.0 4.0 '2.5' 6.0")  // another value than the export's is for the call to refuse
        << file;
  }
}

// forward(self, d: {"a": ·, 1: ·, "1": ·}, d_a): the export calls the inputs d_a, d_1, d_1_1 and d_a_1.
InputForm form_with_equal_names() {
  InputForm form;
  for (const char* name : {"d_a", "d_1", "d_1_1", "d_a_1"}) form.slots.push_back({name, std::nullopt, false});
  const std::string keys = R"("[\"a\", 1, \"1\"]")", leaf_text = spec_text(leaf());
  form.in_spec =
      str(R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": "builtins.tuple", )",
          R"("context": "null", "children_spec": [{"type": "builtins.dict", "context": )", keys,
          R"(, "children_spec": [)", leaf_text, ", ", leaf_text, ", ", leaf_text, "]}, ", leaf_text,
          R"(]}, {"type": "builtins.dict", "context": "[]", "children_spec": []}]}])");
  form.argument_names = {"d", "d_a"};
  return form;
}

TEST_F(InputFiles, ANameWithTwoMeaningsIsWhatTheOthersLeave) {
  const InputForm form = form_with_equal_names();
  for (const char* file : {"a.pt", "a.npz", "a.safetensors"}) {
    EXPECT_EQ(bound(named(file, {"d_a", "d.a", "d_1", "d_1_1"}, numbers({4, 1, 2, 3})), form), "1.0 2.0 3.0 4.0");
    EXPECT_EQ(bound(named(file, {"d_a", "d_a_1", "d_1", "d_1_1"}, numbers({1, 4, 2, 3})), form), "1.0 2.0 3.0 4.0");
    EXPECT_EQ(bound(named(file, {"d_a", "d/a", "d/1", "d_1_1"}, numbers({4, 1, 2, 3})), form), "1.0 2.0 3.0 4.0");
  }
  Pytree d = dict({{"1", leaf()}, {"a", leaf()}, {"1", leaf()}});
  d.number_keys[2] = true;
  EXPECT_EQ(bound(nested(dict({{"d_a", leaf()}, {"d", d}}), {4, 3, 1, 2}), form), "1.0 2.0 3.0 4.0");
}

TEST_F(InputFiles, NumberedNamesMayBeThoseOfArguments) {
  InputForm form;
  for (const char* name : {"arr_1", "arr_0"}) form.slots.push_back({name, std::nullopt, false});
  EXPECT_EQ(bound(named("a.npz", {"arr_0", "arr_1"}, numbers({2, 1})), form), "1.0 2.0");
  EXPECT_EQ(bound(named("a.safetensors", {"0", "1"}, numbers({1, 2})), form), "1.0 2.0");
}

TEST_F(InputFiles, OneWrongNameIsRefusedWithTheNearest) {
  for (const char* file : {"a.pt", "a.npz", "a.safetensors"}) {
    const std::string path =
        named(file, {"mask", "x", "inputs_b_1", "inptus_a", "inputs_b_0"}, numbers({6, 1, 4, 2, 3}));
    expect_refused(path, "K0155", "no input 'inptus_a'; the nearest is 'inputs/a'");
  }
  expect_refused(named("a.npz", {"x"}, numbers({1})), "K0155",
                 "without a value: 'inputs/a', 'inputs/b/0', 'inputs/b/1', 'mask'");
  expect_refused(
      named("a.npz", {"x", "inputs_a", "inputs_b_0", "inputs_b_1", "mask", "more"}, numbers({1, 2, 3, 4, 6, 7})),
      "K0155", "no input 'more'");
  expect_refused(
      named("a.pt", {"inputs_a", "inputs/a", "x", "inputs_b_0", "inputs_b_1", "mask"}, numbers({2, 2, 1, 3, 4, 6})),
      "K0155", "given twice");
}

TEST_F(InputFiles, NestedValuesHaveTheFormOfTheArguments) {
  const Pytree pair = sequence({leaf(), leaf()});  // a tuple where the export had a list
  const Pytree other_order = dict({{"b", pair}, {"a", leaf()}});
  // (args, kwargs)
  EXPECT_EQ(bound(nested(sequence({sequence({leaf(), other_order, leaf()}), dict({{"mask", leaf()}})}),
                         {1, 3, 4, 2, 1.5, 6})),
            "1.0 2.0 3.0 4.0 '1.5' 6.0");
  // By the names of arguments, nested, the constant left out.
  EXPECT_EQ(bound(nested(dict({{"mask", leaf()}, {"inputs", other_order}, {"x", leaf()}}), {6, 3, 4, 2, 1})),
            "1.0 2.0 3.0 4.0 '1.5' 6.0");
  expect_refused(
      nested(dict({{"mask", leaf()}, {"inputs", dict({{"b", pair}, {"A", leaf()}})}, {"x", leaf()}}), {6, 3, 4, 2, 1}),
      "K0155", "no input 'inputs/A'; the nearest is 'inputs/a'");
  expect_refused(nested(dict({{"mask", leaf()}, {"inputs", pair}, {"x", leaf()}}), {6, 3, 4, 1}), "K0156",
                 "inputs is a list of 2, where the model takes a dictionary with the keys a, b");
  expect_refused(nested(dict({{"mask", leaf()},
                              {"inputs", dict({{"b", sequence({leaf(), leaf(), leaf()})}, {"a", leaf()}})},
                              {"x", leaf()}}),
                        {6, 3, 4, 5, 2, 1}),
                 "K0156", "inputs/b is a list of 3, where the model takes a list of 2");
  expect_refused(nested(dict({{"mask", pair}, {"inputs", other_order}, {"x", leaf()}}), {6, 7, 3, 4, 2, 1}), "K0156",
                 "mask is a list of 2, where the model takes one value");
}

TEST_F(InputFiles, TheOnlyDictionaryArgumentMayStandAlone) {
  InputForm form;
  form.slots = {{"d_a", std::nullopt, false}, {"d_b", std::nullopt, true}};
  form.in_spec = str("[1, ", spec_text(sequence({sequence({dict({{"a", leaf()}, {"b", leaf()}})}), dict({})})), "]");
  form.argument_names = {"d"};
  EXPECT_EQ(bound(nested(dict({{"b", leaf()}, {"a", leaf()}}), {2, 1}), form), "1.0 '2.0'");
  EXPECT_EQ(bound(nested(dict({{"d", dict({{"b", leaf()}, {"a", leaf()}})}}), {2, 1}), form), "1.0 '2.0'");
  EXPECT_EQ(bound(nested(dict({{"b", leaf()}, {"c", leaf()}}), {2, 1}), form).substr(0, 5), "K0155");
}

TEST_F(InputFiles, WithoutATreeFlatNamesStillBind) {
  InputForm form = sample_form();
  form.in_spec = "";
  EXPECT_EQ(
      bound(named("a.npz", {"mask", "x", "inputs_b_1", "inputs_a", "inputs_b_0"}, numbers({6, 1, 4, 2, 3})), form),
      "1.0 2.0 3.0 4.0 '1.5' 6.0");
  EXPECT_EQ(bound(named("a.npz", {"x", "inputs"}, numbers({6, 1})), form).substr(0, 5), "K0155");
}

}  // namespace
}  // namespace kiln
