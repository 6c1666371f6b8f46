#include "pt2/reader.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "base/pickle.h"
#include "pt2/tensor_files.h"

namespace kiln {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string write_zip(const Entries& entries) {
  std::string out;
  ZipWriter zip([&out](ByteSpan bytes) { out += as_text(bytes); });
  for (const auto& [name, data] : entries) zip.add(name, data);
  zip.finish();
  return out;
}

Program read_bytes(const std::string& bytes) { return read_pt2(as_bytes(bytes), nullptr, "input"); }

std::string code_of(const std::string& bytes) {
  try {
    read_bytes(bytes);
  } catch (const Error& error) {
    return error.code();
  }
  return "";
}

std::string meta(const std::string& sizes, const std::string& strides, int dtype = 7) {
  return str(
      R"({"dtype":)", dtype, R"(,"sizes":[)", sizes, R"(],"strides":[)", strides,
      R"(],"requires_grad":false,"device":{"type":"cpu","index":null},"storage_offset":{"as_int":0},"layout":7})");
}

// x[s0, 2] with weight w[2]: y = x * w, and s0 itself. Pieces can be replaced to damage it.
struct Model {
  std::string symbol = R"j({"as_expr":{"expr_str":"Symbol('s0', positive=True, integer=True)","hint":{"as_int":4}}})j";
  std::string node =
      R"({"target":"torch.ops.aten.mul.Tensor","inputs":[{"name":"self","arg":{"as_tensor":{"name":"x"}},"kind":1},)"
      R"({"name":"other","arg":{"as_tensor":{"name":"p_w"}},"kind":1}],"outputs":[{"as_tensor":{"name":"y"}}],)"
      R"("metadata":{"stack_trace":"File \"model.py\", line 3, in forward\n    y = self.mul(x)\n  File \"layer.py\", line 9, in forward\n    return x * self.w","nn_module_stack":"L__self__,,M;L__self___mul,layers.3.mul,Mul"},"name":"mul"})";
  std::string more_nodes = "";
  std::string guards = "";
  std::string ranges = R"("s0":{"min_val":2,"max_val":1171368248680556527362})";
  std::string more_values = "";
  std::string outputs = R"({"as_tensor":{"name":"y"}})";
  std::string output_specs = R"({"user_output":{"arg":{"as_tensor":{"name":"y"}}}})";
  std::string major = "8";
  std::string weight_meta = meta(R"({"as_int":2})", R"({"as_int":1})");
  std::string weight_in_graph = weight_meta;
  std::string x_strides = R"({"as_int":2},{"as_int":1})";
  std::string weight = std::string("\0\0\x80\x3f\0\0\0\x40", 8);

  std::string json() const {
    const std::string x = meta(str(symbol, R"(,{"as_int":2})"), x_strides);
    return str(
        R"({"graph_module":{"graph":{"inputs":[{"as_tensor":{"name":"p_w"}},{"as_tensor":{"name":"x"}}],"outputs":[)",
        outputs, R"(],"nodes":[)", node, more_nodes, R"(],"tensor_values":{"p_w":)", weight_in_graph, R"(,"x":)", x,
        R"(,"y":)", x, more_values, R"(},"sym_int_values":{"n":)", symbol,
        R"(},"sym_bool_values":{}},"signature":{"input_specs":[{"parameter":{"arg":{"name":"p_w"},"parameter_name":"w"}},)"
        R"({"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],"output_specs":[)",
        output_specs,
        R"(]},"module_call_graph":[{"fqn":"","signature":{"inputs":[],"outputs":[],"in_spec":"[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]","out_spec":"[1, {\"type\": null, \"context\": null, \"children_spec\": []}]","forward_arg_names":["x"]}}]},)"
        R"("opset_version":{"aten":10},"range_constraints":{)",
        ranges, R"(},"schema_version":{"major":)", major, R"(,"minor":20},"torch_version":"2.15.0","guards_code":[)",
        guards, "]}");
  }
  Entries entries() const {
    return {{"m/archive_format", "pt2"},
            {"m/models/model.json", json()},
            {"m/data/weights/model_weights_config.json",
             str(R"({"config":{"w":{"path_name":"weight_0","is_param":true,"use_pickle":false,"tensor_meta":)",
                 weight_meta, "}}}")},
            {"m/data/weights/weight_0", weight},
            {"m/data/constants/model_constants_config.json", R"({"config":{}})"}};
  }
  std::string bytes() const { return write_zip(entries()); }
};

TEST(Reader, SmallModel) {
  const Program program = read_bytes(Model().bytes());
  EXPECT_EQ(program.name, "model");
  EXPECT_EQ(program.schema_minor, 20);
  EXPECT_EQ(program.opset_version, 10);
  EXPECT_EQ(program.torch_version, "2.15.0");
  ASSERT_EQ(program.graph.inputs.size(), 2u);
  EXPECT_EQ(program.input_specs[0].kind, InputKind::parameter);
  EXPECT_EQ(program.input_specs[0].target, "w");
  EXPECT_EQ(program.constants.at("w").item(1), Scalar(2.0));
  const Node& node = *program.graph.nodes.front();
  EXPECT_EQ(node.target, "aten.mul.Tensor");
  EXPECT_EQ(node.find("other")->as_value(), program.graph.inputs[0]);
  EXPECT_EQ(node.results[0]->type.sizes[0], Expr::symbol("s0"));
  EXPECT_EQ(program.graph.outputs[0].as_value(), node.results[0]);
  const Origin& origin = node.origins.at(0);
  EXPECT_EQ(origin.module_path, "layers.3.mul");
  ASSERT_EQ(origin.stack.size(), 2u);
  EXPECT_EQ(origin.line()->file, "layer.py");
  EXPECT_EQ(origin.line()->line, 9);
  EXPECT_EQ(origin.line()->text, "return x * self.w");
  verify(program);
}

TEST(Reader, LayoutsThatNoTensorHasAreRefused) {
  const auto code = [](const std::string& strides) {
    Model model;
    model.x_strides = strides;
    return code_of(model.bytes());
  };
  EXPECT_EQ(code(R"({"as_int":2},{"as_int":1})"), "");
  EXPECT_EQ(code(R"({"as_int":2},{"as_int":-1})"), "K0116");
  EXPECT_EQ(code(R"({"as_int":-100000000},{"as_int":1})"), "K0116");
  // -s0 is negative for every s0 of its range.
  EXPECT_EQ(code(R"j({"as_expr":{"expr_str":"Mul(Integer(-1), Symbol('s0', positive=True, integer=True))"}},)j"
                 R"({"as_int":1})"),
            "K0116");
  EXPECT_EQ(code(R"j({"as_expr":{"expr_str":"Float('1.5', precision=53)"}},{"as_int":1})j"), "K0160");
  Model model;  // 2 * 2**62 floats
  model.symbol = R"({"as_int":2})";
  model.ranges = "";
  model.x_strides = R"({"as_int":4611686018427387904},{"as_int":1})";
  EXPECT_EQ(code_of(model.bytes()), "K0240");
}

TEST(Reader, AWeightIsWhereItsOwnRecordSays) {
  Model model;
  model.weight_in_graph = meta(R"({"as_int":2})", R"({"as_int":0})");
  EXPECT_EQ(code_of(model.bytes()), "K0117");
  model = Model();
  model.weight_in_graph.replace(model.weight_in_graph.find(R"("storage_offset":{"as_int":0)"), 28,
                                R"("storage_offset":{"as_int":1)");
  EXPECT_EQ(code_of(model.bytes()), "K0117");
  model = Model();
  model.weight_meta = meta(R"({"as_int":2})", R"({"as_int":2})");  // reaches outside of its 8 bytes
  EXPECT_EQ(code_of(model.bytes()), "K0164");
}

TEST(Reader, NamesAreNotEmpty) {
  Model model;
  model.node.replace(model.node.find(R"("name":"mul"})"), 13, R"("name":""})");
  EXPECT_EQ(read_bytes(model.bytes()).graph.nodes.front()->name, "aten.mul.Tensor");
  model.node.replace(model.node.find("torch.ops.aten.mul.Tensor"), 25, "");
  EXPECT_EQ(code_of(model.bytes()), "K0173");
}

TEST(Reader, SymbolsAndRanges) {
  const Program program = read_bytes(Model().bytes());
  const SymbolInfo& info = program.symbols.at("s0");
  EXPECT_EQ(info.range.low, 2);
  EXPECT_EQ(info.range.high, INT64_MAX);  // beyond int64 is no bound
  EXPECT_EQ(info.hint, 4);
  EXPECT_FALSE(info.unbacked);
  ASSERT_EQ(program.guards.size(), 1u);
  EXPECT_EQ(program.guards[0].reason, "range of s0 in the export");
  EXPECT_EQ(evaluate(program.guards[0].condition, {{"s0", 1}}), 0);
  EXPECT_EQ(evaluate(program.guards[0].condition, {{"s0", 2}}), 1);
}

TEST(Reader, Guards) {
  Model model;
  model.ranges = R"("s0":{"min_val":0,"max_val":null},"s0 + 1":{"min_val":3,"max_val":9})";
  model.guards = R"("L['x'].size()[0] != 5","L['x'].size()[1] == 2","L['flat_args'][0].size()[0] >= 0")";
  const Program program = read_bytes(model.bytes());
  ASSERT_EQ(program.guards.size(), 2u);  // what always holds is left out
  EXPECT_EQ(program.guards[0].reason, "range of s0 + 1 in the export");
  EXPECT_EQ(evaluate(program.guards[0].condition, {{"s0", 2}}), 1);
  EXPECT_EQ(evaluate(program.guards[0].condition, {{"s0", 9}}), 0);
  EXPECT_EQ(program.guards[1].reason, "L['x'].size()[0] != 5");
  EXPECT_EQ(program.guards[1].condition, compare_ne(Expr::symbol("s0"), 5));
  // What the example was a view of is nothing that a caller's tensor has.
  model.guards = R"("2*L['x']._base.size()[1] != 7","L['x']._base.stride()[0] == L['x'].size()[0]")";
  EXPECT_EQ(read_bytes(model.bytes()).guards.size(), 1u);
  model.guards = R"("L['x'].other.size()[0] != 5")";
  EXPECT_EQ(code_of(model.bytes()), "K0177");
  model.guards = R"("L['z'].size()[0] != 5")";
  EXPECT_EQ(code_of(model.bytes()), "K0177");
  model.guards = R"("L['x'].size()[7] != 5")";
  EXPECT_EQ(code_of(model.bytes()), "K0177");
}

TEST(Reader, ArgumentKinds) {
  Model model;
  model.more_nodes =
      R"(,{"target":"torch.ops.mylib.all.default","inputs":[)"
      R"({"name":"a","arg":{"as_none":true}},{"name":"b","arg":{"as_tensors":[{"name":"x"},{"name":"y"}]}},)"
      R"({"name":"c","arg":{"as_int":3}},{"name":"d","arg":{"as_ints":[1,2]}},{"name":"e","arg":{"as_float":"-Infinity"}},)"
      R"({"name":"f","arg":{"as_floats":[1.5]}},{"name":"g","arg":{"as_string":"t"}},{"name":"h","arg":{"as_strings":["u"]}},)"
      R"({"name":"i","arg":{"as_sym_int":{"as_name":"n"}}},{"name":"j","arg":{"as_sym_ints":[{"as_int":7},{"as_name":"n"}]}},)"
      R"({"name":"k","arg":{"as_scalar_type":13}},{"name":"l","arg":{"as_memory_format":2}},{"name":"m","arg":{"as_layout":7}},)"
      R"({"name":"o","arg":{"as_device":{"type":"cuda","index":1}}},{"name":"p","arg":{"as_bool":true}},)"
      R"({"name":"q","arg":{"as_bools":[false]}},{"name":"r","arg":{"as_optional_tensors":[{"as_none":true},{"as_tensor":{"name":"x"}}]}},)"
      R"({"name":"s","arg":{"as_complex":{"real":1.0,"imag":2.0}}},{"name":"t","arg":{"as_int_lists":[[1],[2,3]]}},)"
      R"({"name":"u","arg":{"as_nested_tensors":[[{"name":"x"}]]}},{"name":"v","arg":{"as_optional_tensor":{"as_none":true}}},)"
      R"({"name":"w","arg":{"as_string_to_argument":{"key":{"as_int":4}}}},{"name":"z","arg":{"as_operator":"aten.add.Tensor"}}],)"
      R"("outputs":[{"as_tensors":[{"name":"l0"},{"name":"l1"}]},{"as_none":true},{"as_tensor":{"name":"last"}}],"metadata":{},"name":"all"})";
  const std::string scalar = meta("", "");
  model.more_values = str(R"(,"l0":)", scalar, R"(,"l1":)", scalar, R"(,"last":)", scalar);
  const Program program = read_bytes(model.bytes());
  const Node& node = *program.graph.nodes.back();
  EXPECT_EQ(node.target, "mylib.all.default");
  EXPECT_TRUE(node.find("a")->is_none());
  EXPECT_EQ(node.find("b")->as_list()[1].as_value()->name, "y");
  EXPECT_EQ(node.find("c")->as_scalar(), Scalar(3));
  EXPECT_EQ(node.find("d")->as_list()[1].as_scalar(), Scalar(2));
  EXPECT_EQ(node.find("e")->as_scalar(), Scalar(-INFINITY));
  EXPECT_EQ(std::get<std::string>(node.find("g")->value), "t");
  EXPECT_EQ(std::get<Expr>(node.find("i")->value), Expr::symbol("s0"));  // no value is called n, only its expression
  EXPECT_EQ(node.find("j")->as_list()[0].as_scalar(), Scalar(7));
  EXPECT_EQ(std::get<DType>(node.find("k")->value), DType::bf16);
  EXPECT_EQ(std::get<MemoryFormat>(node.find("l")->value), MemoryFormat::channels_last);
  EXPECT_EQ(std::get<Device>(node.find("o")->value), (Device{DeviceType::cuda, 1}));
  EXPECT_TRUE(node.find("r")->as_list()[0].is_none());
  EXPECT_EQ(node.find("s")->as_scalar(), Scalar(std::complex<double>(1, 2)));
  EXPECT_EQ(node.find("t")->as_list()[1].as_list()[1].as_scalar(), Scalar(3));
  EXPECT_EQ(node.find("w")->as_list()[0].as_list()[1].as_scalar(), Scalar(4));
  ASSERT_EQ(node.results.size(), 3u);
  EXPECT_EQ(node.results[0]->kind, ValueKind::tensor_list);
  ASSERT_EQ(node.results[0]->items.size(), 2u);
  EXPECT_EQ(node.results[0]->items[1]->name, "l1");
  EXPECT_EQ(node.results[0]->items[1]->producer, &node);
  EXPECT_EQ(node.results[1]->kind, ValueKind::none);
  EXPECT_EQ(node.results[2]->name, "last");
}

TEST(Reader, WeightsMayShareAStorage) {
  Model model;
  Entries entries = model.entries();
  entries[2].second = str(
      R"({"config":{"w":{"path_name":"weight_0","is_param":true,"use_pickle":false,"tensor_meta":)", model.weight_meta,
      R"(},"v":{"path_name":"weight_0","is_param":true,"use_pickle":false,"tensor_meta":)", model.weight_meta, "}}}");
  const Program program = read_bytes(write_zip(entries));
  EXPECT_EQ(program.constants.at("w").storage, program.constants.at("v").storage);
}

std::string state_dict() {
  TensorFile file;
  file.names = {"w"};
  Tensor w = Tensor::empty(DType::f32, {2});
  w.set_item(1, Scalar(2.0));
  file.items = {{w}};
  std::string out;
  write_pt(file, [&out](ByteSpan bytes) { out += as_text(bytes); });
  return out;
}

TEST(Reader, OlderLayouts) {
  const Model model;
  const Program old = read_bytes(write_zip({{"serialized_exported_program.json", model.json()},
                                            {"serialized_state_dict.pt", state_dict()},
                                            {"serialized_constants.pt", ""},
                                            {"version", "8.7"}}));
  EXPECT_EQ(old.constants.at("w").item(1), Scalar(2.0));
  const Program middle =
      read_bytes(write_zip({{"m/models/model.json", model.json()}, {"m/data/weights/model.pt", state_dict()}}));
  EXPECT_EQ(middle.constants.at("w").item(1), Scalar(2.0));
}

TEST(Reader, BadModelsAreRefused) {
  EXPECT_EQ(code_of("not a zip, but long enough to hold an end record"), "K0162");
  EXPECT_EQ(code_of(write_zip({{"a", "b"}})), "K0162");
  Model model;
  model.major = "9";
  EXPECT_EQ(code_of(model.bytes()), "K0161");
  model = {};
  model.weight = "1234";
  EXPECT_EQ(code_of(model.bytes()), "K0164");
  model = {};
  model.weight_meta = meta(R"({"as_int":1})", R"({"as_int":1})");
  EXPECT_EQ(code_of(model.bytes()), "K0160");  // not what the graph says
  model = {};
  model.node = replace_all(model.node, "\"p_w\"", "\"q_w\"");
  EXPECT_EQ(code_of(model.bytes()), "K0173");
  model = {};
  model.node =
      replace_all(model.node, R"("outputs":[{"as_tensor":{"name":"y"}}])", R"("outputs":[{"as_tensor":{"name":"x"}}])");
  EXPECT_EQ(code_of(model.bytes()), "K0173");
  model = {};
  model.node = replace_all(model.node, "as_tensor", "as_teapot");
  EXPECT_EQ(code_of(model.bytes()), "K0174");
  model = {};
  model.symbol = R"({"as_expr":{"expr_str":"Symbol('s0'","hint":null}})";
  EXPECT_EQ(code_of(model.bytes()), "K0175");
  model = {};
  model.output_specs = "";
  EXPECT_EQ(code_of(model.bytes()), "K0160");
  model = {};
  model.ranges = R"("s0":{"min_val":5,"max_val":2})";
  EXPECT_EQ(code_of(model.bytes()), "K0160");
}

TEST(Reader, ErrorsInANodeNameIt) {
  Model model;
  model.node = replace_all(model.node, R"({"name":"other","arg":{"as_tensor":{"name":"p_w"}},"kind":1})",
                           R"({"name":"other","arg":{"as_layout":1},"kind":1})");
  try {
    read_bytes(model.bytes());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_EQ(error.where().node, "mul");
    EXPECT_EQ(error.where().op, "aten.mul.Tensor");
    EXPECT_EQ(error.where().module_path, "layers.3.mul");
    EXPECT_EQ(error.where().source.line, 9);
  }
}

// tests/fuzz_seeds/pt2/small.pt2 was written by torch.export.save: a parameter, two buffers (one not persistent, one
// mutated), a dynamic size, a static int input, a split, a cond, a symbolic output.
std::string real_file() {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  return source == nullptr ? "" : join_path(source, "tests/fuzz_seeds/pt2/small.pt2");
}

TEST(Reader, FileOfPyTorch) {
  if (real_file().empty()) GTEST_SKIP() << "KILN_SOURCE_DIR is not set";
  const Program program = read_pt2(real_file());
  verify(program);
  ASSERT_EQ(program.input_specs.size(), 6u);
  EXPECT_EQ(program.input_specs[1].kind, InputKind::buffer);
  EXPECT_TRUE(program.input_specs[1].persistent);
  EXPECT_FALSE(program.input_specs[2].persistent);
  EXPECT_EQ(program.input_specs[5].kind, InputKind::constant_value);
  EXPECT_EQ(program.input_specs[5].constant.as_scalar(), Scalar(3));
  EXPECT_EQ(program.graph.inputs[5]->name, "k");
  EXPECT_EQ(program.constants.size(), 3u);
  EXPECT_FALSE(program.constants.at("w").storage->writable);
  ASSERT_EQ(program.sample_inputs.size(), 3u);
  EXPECT_EQ(program.sample_inputs[0].tensor().sizes, (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(program.sample_inputs[2].scalar(), Scalar(3));
  ASSERT_EQ(program.symbols.size(), 1u);
  const SymbolInfo& info = program.symbols.begin()->second;
  EXPECT_EQ(info.range, (Interval{2, 64}));
  EXPECT_EQ(info.hint, 4);
  const Value* items = program.graph.find_value("getitem_2");
  ASSERT_NE(items, nullptr);
  EXPECT_EQ(items->producer->target, "aten.split.Tensor");
  const Node* cond = nullptr;
  for (const auto& node : program.graph.nodes)
    if (node->target == "higher_order.cond") cond = node.get();
  ASSERT_NE(cond, nullptr);
  ASSERT_TRUE(cond->args[1].arg.is_graph());
  EXPECT_EQ(cond->args[1].arg.as_graph()->nodes.front()->target, "aten.add.Tensor");
  EXPECT_EQ(program.graph.outputs.back().as_value()->expr, Expr(2) * Expr::symbol(info.name));
  EXPECT_EQ(program.graph.nodes.back()->origins[0].line()->file, "<stdin>");
}

TEST(Reader, TruncatedFilesAreRefused) {
  if (real_file().empty()) GTEST_SKIP() << "KILN_SOURCE_DIR is not set";
  const std::string bytes = read_file(real_file());
  for (size_t cut = 0; cut < bytes.size(); cut += 64) EXPECT_NE(code_of(bytes.substr(0, cut)), "") << cut;
}

// Sizes, offsets and counts of the zip directory, each made absurd: an error or the same program, never a crash.
TEST(Reader, FlippedSizesAreRefused) {
  if (real_file().empty()) GTEST_SKIP() << "KILN_SOURCE_DIR is not set";
  const std::string bytes = read_file(real_file());
  size_t refused = 0, tried = 0;
  for (size_t at = bytes.find("PK\x01\x02"); at != std::string::npos; at = bytes.find("PK\x01\x02", at + 1)) {
    for (size_t field : {20, 24, 28, 30, 42}) {
      for (uint32_t value : {0u, 1u, 0x7fffffffu, 0xfffffffeu, 0xffffffffu}) {
        std::string damaged = bytes;
        std::memcpy(damaged.data() + at + field, &value, field >= 28 && field < 42 ? 2 : 4);
        ++tried;
        refused += code_of(damaged) != "";
      }
    }
  }
  EXPECT_GT(tried, 100u);
  EXPECT_GT(refused, tried * 3 / 4);
}

// ---- Weights that are tensor subclasses, as torch.export.save pickles them ----

void write_part(PickleWriter& w, int64_t size) {
  w.global("torch._utils", "_rebuild_tensor_v2");
  w.mark();
  w.mark();
  w.string("storage");
  w.global("torch", "FloatStorage");
  w.string("0");
  w.string("cpu");
  w.integer(2);
  w.tuple();
  w.persistent_id();
  w.integer(0);
  for (int64_t v : {size, int64_t{1}}) {
    w.mark();
    w.integer(v);
    w.tuple();
  }
  w.boolean(false);
  w.none();
  w.tuple();
  w.reduce();
}

std::string pickled_wrapper() {
  PickleWriter w;
  w.global("torch._tensor", "_rebuild_from_type_v2");
  w.mark();
  w.global("torch._utils", "_rebuild_wrapper_subclass");
  w.global("torchao.quantization", "Int8Tensor");
  w.empty_tuple();
  w.empty_dict();
  w.mark();
  w.string("qdata");
  write_part(w, 2);
  w.string("unused");
  write_part(w, 1);
  w.set_items();
  w.tuple();
  w.reduce();
  return write_zip({{"archive/data.pkl", w.finish()},
                    {"archive/data/0", std::string("\0\0\x80\x3f\0\0\0\x40", 8)},
                    {"archive/version", "3\n"}});
}

// The small model, whose weight is made of others; `part` is what the graph takes of it.
std::string wrapped_model(const std::string& part, bool uses_whole) {
  Model model;
  if (!uses_whole) {
    const size_t at = model.node.find(R"("name":"p_w")");
    model.node.replace(at, std::string_view(R"("name":"p_w")").size(), R"("name":"data")");
    model.node = str(R"({"target":"torch.ops.export.access_subclass_inner_tensor.default","inputs":[)"
                     R"({"name":"src_subclass_tensor","arg":{"as_tensor":{"name":"p_w"}},"kind":1},)"
                     R"({"name":"attr","arg":{"as_string":")",
                     part, R"("},"kind":1}],"outputs":[{"as_tensor":{"name":"data"}}],"metadata":{},"name":"data"},)",
                     model.node);
    model.more_values = str(R"(,"data":)", model.weight_meta);
  }
  Entries entries = model.entries();
  for (auto& [name, data] : entries) {
    if (ends_with(name, "weights_config.json"))
      data = str(R"({"config":{"w":{"path_name":"weight_0","is_param":true,"use_pickle":true,"tensor_meta":)",
                 model.weight_meta, "}}}");
    if (ends_with(name, "weight_0")) data = pickled_wrapper();
  }
  return write_zip(entries);
}

TEST(Reader, PartsOfATensorSubclassBecomeParameters) {
  const Program program = read_bytes(wrapped_model("qdata", false));
  verify(program);
  ASSERT_EQ(program.graph.inputs.size(), 2u);
  EXPECT_EQ(program.input_specs[0].kind, InputKind::parameter);
  EXPECT_EQ(program.input_specs[0].target, "w.qdata");
  EXPECT_EQ(program.constants.size(), 1u);  // parts that nobody takes are left out
  EXPECT_EQ(program.constants.at("w.qdata").item(1), Scalar(2.0));
  ASSERT_EQ(program.graph.nodes.size(), 1u);
  EXPECT_EQ(program.graph.nodes.front()->find("other")->as_value(), program.graph.inputs[0]);
}

TEST(Reader, ATensorSubclassUsedAsAWholeIsRefused) {
  try {
    read_bytes(wrapped_model("", true));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0254");
    for (const char* said : {"Int8Tensor", "aten.mul.Tensor", "unwrap_tensor_subclass", "layer.py"})
      EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
  }
  EXPECT_EQ(code_of(wrapped_model("other", false)), "K0254");
}

}  // namespace
}  // namespace kiln
