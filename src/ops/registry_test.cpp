#include <gtest/gtest.h>

#include "ops/inplace.h"
#include "ops/op_record.h"

namespace kiln {
namespace {

TEST(Schema, ReadsPyTorchNotation) {
  Schema schema = parse_schema("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  EXPECT_EQ(schema.name, "aten.add.Tensor");
  ASSERT_EQ(schema.args.size(), 3u);
  EXPECT_FALSE(schema.args[1].keyword_only);
  EXPECT_TRUE(schema.args[2].keyword_only);
  EXPECT_EQ(schema.args[2].type, SchemaType::scalar);
  EXPECT_TRUE(schema.args[2].has_default);
  EXPECT_EQ(schema.args[2].default_value.as_scalar().as_int(), 1);
  EXPECT_EQ(schema.find("other"), 1);
  EXPECT_EQ(schema.find("nothing"), -1);
  EXPECT_FALSE(schema.mutates());
  EXPECT_FALSE(schema.is_view());
}

TEST(Schema, AliasesListsAndOptionals) {
  Schema view = parse_schema("split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]");
  EXPECT_TRUE(view.is_view());
  EXPECT_EQ(view.returns.at(0).type, SchemaType::tensor_list);
  Schema write = parse_schema(
      "index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)");
  EXPECT_TRUE(write.mutates());
  EXPECT_FALSE(write.is_view());
  EXPECT_EQ(write.name, "aten.index_put_.default");
  EXPECT_EQ(write.args[1].type, SchemaType::optional_tensor_list);
  Schema several = parse_schema(
      "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor "
      "indices)");
  ASSERT_EQ(several.returns.size(), 2u);
  EXPECT_EQ(several.returns[1].name, "indices");
  EXPECT_EQ(several.args[2].default_value.as_scalar().as_int(), -1);
  Schema nothing = parse_schema("_assert_async(Tensor self) -> ()");
  EXPECT_TRUE(nothing.returns.empty());
}

TEST(Schema, DefaultsOfEveryKind) {
  Schema s = parse_schema(
      "f(int[2] stride=1, float eps=1e-05, str mode='none', ScalarType? dtype=None, int[1]? dim=None, int[] pad=[0, 1],"
      " MemoryFormat memory_format=contiguous_format, float p=2, int reduction=Mean, ScalarType t=long) -> Tensor");
  EXPECT_EQ(s.args[0].default_value.as_list().size(), 2u);
  EXPECT_DOUBLE_EQ(s.args[1].default_value.as_scalar().as_double(), 1e-5);
  EXPECT_EQ(std::get<std::string>(s.args[2].default_value.value), "none");
  EXPECT_TRUE(s.args[3].default_value.is_none());
  EXPECT_TRUE(s.args[4].default_value.is_none());
  EXPECT_TRUE(s.args[4].optional);
  EXPECT_EQ(s.args[5].default_value.as_list()[1].as_scalar().as_int(), 1);
  EXPECT_EQ(std::get<MemoryFormat>(s.args[6].default_value.value), MemoryFormat::contiguous);
  EXPECT_TRUE(s.args[7].default_value.as_scalar().is_float());
  EXPECT_EQ(s.args[8].default_value.as_scalar().as_int(), 1);
  EXPECT_EQ(std::get<DType>(s.args[9].default_value.value), DType::i64);
}

TEST(Schema, PythonFunctionsHaveNoOverload) {
  EXPECT_EQ(parse_schema("add(Scalar a, Scalar b) -> Scalar", "_operator").name, "_operator.add");
  EXPECT_EQ(parse_schema("sym_min(Scalar a, Scalar b) -> Scalar", "torch").name, "torch.sym_min");
  EXPECT_EQ(parse_schema("foo(Tensor x) -> Tensor", "mylib").name, "mylib.foo.default");
  EXPECT_EQ(parse_schema("mylib::foo(Tensor x) -> Tensor").name, "mylib.foo.default");
}

TEST(Schema, BadTextIsRefused) {
  for (const char* text : {"", "f", "f(", "f() ->", "f(Tensor) -> Tensor", "f(Tensor x) -> Tensor extra(",
                           "f(Wrong x) -> Tensor", "f(Tensor x, Tensor x) -> Tensor", "f(int x=abc) -> Tensor",
                           "f(str s='open) -> Tensor", "f(Tensor x) Tensor"}) {
    try {
      parse_schema(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), "K0204") << text;
    }
  }
}

OpRecord record(const char* text) {
  OpRecord out;
  out.schema_text = text;
  out.infer = [](InferCall& call) { call.results = {call.tensor("self")->type}; };
  out.reference = [](ReferenceCall& call) {
    Tensor result = call.tensor("self").clone();
    result.set_item(0, Scalar(7));
    call.results = {Datum{result}};
  };
  return out;
}

TEST(RegistryBuild, InplaceVariantIsMade) {
  Registry registry;
  OpRecord functional = record("seven.Tensor(Tensor self, Scalar other=2) -> Tensor");
  functional.inplace = true;
  registry.add(std::move(functional));
  const OpRecord* variant = registry.find("aten.seven_.Tensor");
  ASSERT_NE(variant, nullptr);
  EXPECT_EQ(variant->functional, registry.find("aten.seven.Tensor"));
  EXPECT_TRUE(variant->schema.mutates());

  Graph graph;
  Value* x = graph.add_input("x", ValueKind::tensor);
  x->type = contiguous_type(DType::i32, {2});
  Node* node = graph.add_node("aten.seven_.Tensor", "seven_");
  node->op = variant;
  node->args = {{"self", Argument(x)}};
  infer_types(*node, graph, {});
  ReferenceCall call(*node, variant->schema);
  Tensor self = Tensor::empty(DType::i32, {2});
  call.values["self"] = Datum{self};
  variant->reference(call);
  EXPECT_EQ(self.item(0).as_int(), 7);
  EXPECT_EQ(call.results.at(0).tensor().storage, self.storage);
}

TEST(RegistryBuild, InplaceRefusesWhatCannotBeCast) {
  EXPECT_TRUE(can_cast(DType::f32, DType::f16));
  EXPECT_TRUE(can_cast(DType::i64, DType::f16));
  EXPECT_TRUE(can_cast(DType::boolean, DType::i8));
  EXPECT_FALSE(can_cast(DType::f32, DType::i64));
  EXPECT_FALSE(can_cast(DType::c64, DType::f32));
  EXPECT_FALSE(can_cast(DType::u8, DType::boolean));

  Registry registry;
  OpRecord functional = record("widen(Tensor self) -> Tensor");
  functional.infer = [](InferCall& call) {
    call.results = {call.tensor("self")->type};
    call.results[0].dtype = DType::f32;
  };
  functional.inplace = true;
  registry.add(std::move(functional));
  Graph graph;
  Value* x = graph.add_input("x", ValueKind::tensor);
  x->type = contiguous_type(DType::i32, {2});
  Node* node = graph.add_node("aten.widen_.default", "widen_");
  node->op = registry.find(node->target);
  node->args = {{"self", Argument(x)}};
  EXPECT_THROW(infer_types(*node, graph, {}), Error);
}

TEST(RegistryBuild, IncompleteRecordsAreNamed) {
  Registry registry;
  registry.add(record("bare(Tensor self) -> Tensor"));
  OpRecord twice = record("twice(Tensor self) -> Tensor");
  twice.samples = {Sample{}};
  twice.lower = [](LowerCall&) {};
  twice.library = "twice";
  registry.add(std::move(twice));
  auto missing = incomplete_records(registry);
  ASSERT_EQ(missing.size(), 3u) << join(missing, "\n");
  EXPECT_EQ(missing[0], "aten.bare.default: no samples");
  EXPECT_EQ(missing[1], "aten.bare.default: 0 of decomposition, lowering and library kernel; exactly one is needed");
  EXPECT_EQ(missing[2], "aten.twice.default: 2 of decomposition, lowering and library kernel; exactly one is needed");
  EXPECT_THROW(registry.add(record("bare(Tensor self) -> Tensor")), Error);
}

TEST(OpCallAccess, DefaultsKindsAndErrors) {
  Schema schema = parse_schema(
      "f(Tensor self, int[2] dims=[0,1], Scalar alpha=1, bool flag=False, Tensor? bias=None, SymInt n=3) -> Tensor");
  Graph graph;
  Value* x = graph.add_input("x", ValueKind::tensor);
  Value* n = graph.add_input("n", ValueKind::sym_int);
  n->expr = Expr::symbol("s0");
  Node* node = graph.add_node("aten.f.default", "f");
  node->args = {{"self", Argument(x)}, {"n", Argument(n)}};
  OpCall call(*node, schema);
  EXPECT_EQ(call.tensor("self"), x);
  EXPECT_EQ(call.tensor_or_null("bias"), nullptr);
  EXPECT_FALSE(call.given("bias"));
  EXPECT_EQ(call.constant_integers("dims"), (std::vector<int64_t>{0, 1}));
  EXPECT_FALSE(call.boolean("flag"));
  EXPECT_EQ(call.integer("n").text(), "s0");
  EXPECT_EQ(std::get<Scalar>(call.scalar("alpha")).as_int(), 1);
  auto code_of = [](auto f) {
    try {
      f();
    } catch (const Error& error) {
      return error.code();
    }
    return std::string("none");
  };
  EXPECT_EQ(code_of([&] { call.constant_integer("n"); }), "K0202");
  EXPECT_EQ(code_of([&] { call.string("alpha"); }), "K0201");
  EXPECT_EQ(code_of([&] { call.tensor("alpha"); }), "K0201");
}

TEST(Resolve, UnknownOperatorsAreListedTogether) {
  Graph graph;
  Value* x = graph.add_input("x", ValueKind::tensor);
  for (const char* target : {"aten.no_such_thing.default", "mylib.foo.default", "mylib.bar.default"}) {
    Node* node = graph.add_node(target, graph.unique_name("n"));
    node->args = {{"self", Argument(x)}};
  }
  try {
    resolve_operators(graph, {"mylib.foo.default"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0200");
    EXPECT_NE(error.message().find("aten.no_such_thing.default"), std::string::npos);
    EXPECT_NE(error.message().find("mylib.bar.default"), std::string::npos);
    EXPECT_EQ(error.message().find("mylib.foo.default"), std::string::npos);
  }
}

}  // namespace
}  // namespace kiln
