// Operators on symbolic numbers, and assertions. Arithmetic on symbols becomes expressions when the program is read;
// the rules here give the expression of each result, the references its value.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/layout.h"
#include "ops/size_needs.h"
#include "types/checked.h"

namespace kiln {

namespace {

using loops::KernelBuilder;

Expr expr_of(const OpCall& call, std::string_view name) {
  auto number = call.scalar(name);
  if (const auto* expr = std::get_if<Expr>(&number)) return *expr;
  const Scalar& scalar = std::get<Scalar>(number);
  return scalar.is_float() ? Expr::float_constant(scalar.as_double()) : Expr(scalar.as_int());
}

struct SymbolicRow {
  const char* schema;
  const char* name_space;
  std::function<Expr(const OpCall&)> rule;  // empty: the number is found in data
  std::function<Scalar(const ReferenceCall&)> value;
};

void add_symbolic(Registry& r, const SymbolicRow& row) {
  OpRecord record;
  record.schema_text = row.schema;
  record.name_space = row.name_space;
  record.kind = OpKind::symbolic;
  record.reads_data = !row.rule;
  if (row.rule) record.infer = [rule = row.rule](InferCall& call) { call.numbers = {rule(call)}; };
  record.reference = [value = row.value](ReferenceCall& call) { call.results = {Datum{value(call)}}; };
  r.add(std::move(record));
}

// ---- Python's operators ----

bool any_float(const Scalar& a, const Scalar& b) { return a.is_float() || b.is_float(); }

// f is given two int64_t or two doubles.
template <class F>
std::function<Scalar(const ReferenceCall&)> two(F f) {
  return [f](const ReferenceCall& call) {
    Scalar a = call.scalar("a"), b = call.scalar("b");
    return any_float(a, b) ? Scalar(f(a.as_double(), b.as_double())) : Scalar(f(a.as_int(), b.as_int()));
  };
}

// Python's integers do not wrap around; those here are refused beyond 64 bits.
struct Checked {
  double (*of_floats)(double, double);
  int64_t (*of_integers)(int64_t, int64_t);
  double operator()(double a, double b) const { return of_floats(a, b); }
  int64_t operator()(int64_t a, int64_t b) const { return of_integers(a, b); }
};

double floored(double a, double b) {
  if (b == 0) fail_user("K0630", "division by zero");
  return std::floor(a / b);
}

// Python's int(x).
int64_t whole_number(double value) {
  if (!(value >= -0x1p63 && value < 0x1p63)) fail_user("K0211", str("the number ", value, " is beyond 64 bits"));
  return static_cast<int64_t>(value);
}

void binary(Registry& r, const char* name, Expr (*rule)(const Expr&, const Expr&),
            std::function<Scalar(const ReferenceCall&)> value) {
  std::string schema = str(name, "(Scalar a, Scalar b) -> Scalar");
  add_symbolic(r,
               {schema.c_str(), "_operator",
                [rule](const OpCall& call) { return rule(expr_of(call, "a"), expr_of(call, "b")); }, std::move(value)});
}

Expr power(const Expr& a, const Expr& b) { return Expr::make(ExprOp::pow, {a, b}); }
Expr true_quotient(const Expr& a, const Expr& b) { return Expr::make(ExprOp::truediv, {a, b}); }
Expr both(const Expr& a, const Expr& b) { return Expr::make(ExprOp::logical_and, {a, b}); }
Expr either(const Expr& a, const Expr& b) { return Expr::make(ExprOp::logical_or, {a, b}); }
Expr greater(const Expr& a, const Expr& b) { return compare_lt(b, a); }
Expr greater_equal(const Expr& a, const Expr& b) { return compare_le(b, a); }
Expr sum(const Expr& a, const Expr& b) { return a + b; }
Expr difference(const Expr& a, const Expr& b) { return a - b; }
Expr times(const Expr& a, const Expr& b) { return a * b; }

void register_python_operators(Registry& r) {
  binary(r, "add", sum, two(Checked{[](double a, double b) { return a + b; }, checked::add}));
  binary(r, "sub", difference, two(Checked{[](double a, double b) { return a - b; }, checked::sub}));
  binary(r, "mul", times, two(Checked{[](double a, double b) { return a * b; }, checked::mul}));
  binary(r, "floordiv", floordiv, two(Checked{floored, checked::floordiv}));
  binary(r, "mod", mod, two(Checked{[](double a, double b) { return a - floored(a, b) * b; }, checked::mod}));
  binary(r, "truediv", true_quotient,
         [](const ReferenceCall& call) { return Scalar(call.scalar("a").as_double() / call.scalar("b").as_double()); });
  binary(r, "pow", power, [](const ReferenceCall& call) {
    Scalar a = call.scalar("a"), b = call.scalar("b");
    if (!any_float(a, b) && b.as_int() >= 0) return Scalar(checked::pow(a.as_int(), b.as_int()));
    return Scalar(std::pow(a.as_double(), b.as_double()));
  });
  binary(r, "eq", compare_eq, two([](auto a, auto b) { return a == b; }));
  binary(r, "ne", compare_ne, two([](auto a, auto b) { return a != b; }));
  binary(r, "lt", compare_lt, two([](auto a, auto b) { return a < b; }));
  binary(r, "le", compare_le, two([](auto a, auto b) { return a <= b; }));
  binary(r, "gt", greater, two([](auto a, auto b) { return a > b; }));
  binary(r, "ge", greater_equal, two([](auto a, auto b) { return a >= b; }));
  binary(r, "and_", both, two([](auto a, auto b) { return a != 0 && b != 0; }));
  binary(r, "or_", either, two([](auto a, auto b) { return a != 0 || b != 0; }));
  add_symbolic(r, {"neg(Scalar a) -> Scalar", "_operator", [](const OpCall& call) { return -expr_of(call, "a"); },
                   [](const ReferenceCall& call) {
                     Scalar a = call.scalar("a");
                     return a.is_float() ? Scalar(-a.as_double()) : Scalar(checked::sub(0, a.as_int()));
                   }});
  auto logical_not = [](const OpCall& call) { return Expr::make(ExprOp::logical_not, {expr_of(call, "a")}); };
  auto not_value = [](const ReferenceCall& call) { return Scalar(call.scalar("a").as_double() == 0); };
  add_symbolic(r, {"not_(Scalar a) -> Scalar", "_operator", logical_not, not_value});
  add_symbolic(r, {"sym_not(Scalar a) -> Scalar", "torch", logical_not, not_value});
}

void unary_float(Registry& r, const char* schema, const char* space, ExprOp op, double (*f)(double), bool to_int) {
  add_symbolic(r, {schema, space, [op](const OpCall& call) { return Expr::make(op, {expr_of(call, "a")}); },
                   [f, to_int](const ReferenceCall& call) {
                     double value = f(call.scalar("a").as_double());
                     return to_int ? Scalar(whole_number(value)) : Scalar(value);
                   }});
}

void register_torch_symbolic(Registry& r) {
  auto pair = [&](const char* schema, Expr (*rule)(const Expr&, const Expr&), bool largest) {
    add_symbolic(r,
                 {schema, "torch", [rule](const OpCall& call) { return rule(expr_of(call, "a"), expr_of(call, "b")); },
                  [largest](const ReferenceCall& call) {
                    Scalar a = call.scalar("a"), b = call.scalar("b");
                    return (a.as_double() < b.as_double()) == largest ? b : a;
                  }});
  };
  pair("sym_max(Scalar a, Scalar b) -> Scalar", max_expr, true);
  pair("sym_min(Scalar a, Scalar b) -> Scalar", min_expr, false);
  unary_float(
      r, "sym_float(Scalar a) -> Scalar", "torch", ExprOp::to_float, [](double x) { return x; }, false);
  unary_float(
      r, "sym_int(Scalar a) -> Scalar", "torch", ExprOp::to_int, [](double x) { return std::trunc(x); }, true);
  unary_float(
      r, "_sym_sqrt(Scalar a) -> Scalar", "torch", ExprOp::sqrt, [](double x) { return std::sqrt(x); }, false);
  unary_float(
      r, "sqrt(Scalar a) -> Scalar", "math", ExprOp::sqrt, [](double x) { return std::sqrt(x); }, false);
  unary_float(
      r, "ceil(Scalar a) -> Scalar", "math", ExprOp::ceil_to_int, [](double x) { return std::ceil(x); }, true);
  unary_float(
      r, "floor(Scalar a) -> Scalar", "math", ExprOp::floor_to_int, [](double x) { return std::floor(x); }, true);
  unary_float(
      r, "trunc(Scalar a) -> Scalar", "math", ExprOp::to_int, [](double x) { return std::trunc(x); }, true);
  add_symbolic(r,
               {"sym_ite(Scalar b, Scalar t, Scalar f) -> Scalar", "torch",
                [](const OpCall& call) {
                  return Expr::make(ExprOp::ite, {expr_of(call, "b"), expr_of(call, "t"), expr_of(call, "f")});
                },
                [](const ReferenceCall& call) { return call.scalar(call.scalar("b").as_double() != 0 ? "t" : "f"); }});
}

// ---- Sizes of tensors ----

size_t dim_of(const ReferenceCall& call) {
  int64_t dim = call.integer("dim"), rank = call.tensor("self").rank();
  if (dim < -rank || dim >= rank)
    fail_user("K0205", str(call.node().target, ": dimension ", dim, " is out of range"), call.node().where());
  return static_cast<size_t>(dim < 0 ? dim + rank : dim);
}
size_t dim_of(const OpCall& call) {
  return static_cast<size_t>(wrap_dim(call, call.constant_integer("dim"), rank_of(call.tensor("self"))));
}

void register_sizes(Registry& r) {
  add_symbolic(r, {"sym_size.int(Tensor self, int dim) -> SymInt", "aten",
                   [](const OpCall& call) { return call.tensor("self")->type.sizes.at(dim_of(call)); },
                   [](const ReferenceCall& call) { return Scalar(call.tensor("self").sizes[dim_of(call)]); }});
  add_symbolic(r, {"sym_stride.int(Tensor self, int dim) -> SymInt", "aten",
                   [](const OpCall& call) { return call.tensor("self")->type.strides.at(dim_of(call)); },
                   [](const ReferenceCall& call) { return Scalar(call.tensor("self").strides[dim_of(call)]); }});
  add_symbolic(r, {"sym_numel(Tensor self) -> SymInt", "aten",
                   [](const OpCall& call) { return product(call.tensor("self")->type.sizes); },
                   [](const ReferenceCall& call) { return Scalar(call.tensor("self").numel()); }});
  add_symbolic(r, {"sym_storage_offset(Tensor self) -> SymInt", "aten",
                   [](const OpCall& call) { return call.tensor("self")->type.offset; },
                   [](const ReferenceCall& call) { return Scalar(call.tensor("self").offset); }});
  // A number read from data: the file names its symbol, so there is no rule.
  for (const char* schema : {"item(Tensor self) -> Scalar", "_local_scalar_dense(Tensor self) -> Scalar"}) {
    add_symbolic(r, {schema, "aten", {}, [](const ReferenceCall& call) {
                       Tensor self = call.tensor("self");
                       if (self.numel() != 1)
                         fail_user("K0214",
                                   str("a Tensor with ", self.numel(), " elements cannot be converted to Scalar"),
                                   call.node().where());
                       return self.item();
                     }});
  }
}

// ---- Assertions ----

void add_assertion(Registry& r, const char* schema, std::function<void(ReferenceCall&)> check, LowerFn lower = {},
                   OpFacts facts = {}) {
  OpRecord record;
  record.facts = facts;
  record.schema_text = schema;
  record.kind = OpKind::assertion;
  record.infer = [](InferCall&) {};
  record.reference = std::move(check);
  record.lower = std::move(lower);
  r.add(std::move(record));
}

[[noreturn]] void assertion_failed(const ReferenceCall& call, const std::string& message) {
  fail_user("K0631", message, call.node().where());
}

void check_range(ReferenceCall& call) {
  int64_t value = call.integer("size");
  if ((call.given("min") && value < call.integer("min")) || (call.given("max") && value > call.integer("max")))
    assertion_failed(call, str("Invalid value range for ", value, " in ", call.node().target));
}

std::string message_of(const OpCall& call) {
  return call.schema().find("assert_msg") >= 0 && call.given("assert_msg")
             ? call.string("assert_msg")
             : "Expected Tensor with single nonzero value";
}

// A value in a tensor is looked at by a kernel that stores nothing and may raise.
void lower_assert_tensor(LowerCall& call) {
  const TensorType& self = call.tensor("self")->type;
  int site = call.site(message_of(call));
  call.kernel([&](KernelBuilder& k) {
    k.parallel(self.sizes, [&](const std::vector<Expr>& i) {
      ValueId truth = k.as(DType::boolean, k.load(call.input("self"), i));
      k.raise_if(k.op(ScalarOp::logical_not, truth), site);
    });
  });
}

// Whether the types of the graph are what _assert_tensor_metadata demands.
bool metadata_holds(const OpCall& call) {
  const Argument* tensor = call.node().find("a");
  if (!tensor || !tensor->is_value() || tensor->as_value()->kind != ValueKind::tensor) return false;
  const TensorType& type = tensor->as_value()->type;
  if (const Argument* wanted = call.node().find("dtype"))
    if (const auto* dtype = std::get_if<DType>(&wanted->value); dtype && *dtype != type.dtype) return false;
  for (std::string_view list : {"size", "stride"}) {
    const Argument* wanted = call.node().find(list);
    if (!wanted || wanted->is_none()) continue;
    std::vector<Expr> numbers = call.integers(list);
    const auto& actual = list == "size" ? type.sizes : type.strides;
    if (numbers.size() != actual.size()) return false;
    for (size_t i = 0; i < numbers.size(); ++i)
      if (!numbers[i].same(actual[i])) return false;
  }
  return true;
}

void register_assertions(Registry& r) {
  add_assertion(r, "_assert_scalar(Scalar self, str assert_msg) -> ()", [](ReferenceCall& call) {
    if (call.scalar("self").as_double() == 0) assertion_failed(call, call.string("assert_msg"));
  });
  auto check_tensor = [](ReferenceCall& call) {
    Tensor self = call.tensor("self");
    if (self.numel() != 1) assertion_failed(call, "Expected Tensor with a single element");
    Scalar value = self.item();
    bool truth = value.as_complex() != std::complex<double>(0, 0);
    std::string message =
        call.values.contains("assert_msg") ? call.string("assert_msg") : "Expected Tensor with single nonzero value";
    if (!truth) assertion_failed(call, message);
  };
  add_assertion(r, "_assert_async(Tensor self) -> ()", check_tensor, lower_assert_tensor);
  add_assertion(r, "_assert_async.msg(Tensor self, str assert_msg) -> ()", check_tensor, lower_assert_tensor);
  // What a factorisation says of each matrix: 0, or where it failed.
  auto failed = [](const std::string& api) { return str(api, ": the factorization could not be completed."); };
  add_assertion(
      r, "_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()",
      [failed](ReferenceCall& call) {
        Tensor info = call.tensor("info");
        for (int64_t i = 0; i < info.numel(); ++i)
          if (info.item(i).as_int() != 0) assertion_failed(call, failed(call.string("api_name")));
      },
      [failed](LowerCall& call) {
        const TensorType& info = call.tensor("info")->type;
        int site = call.site(failed(call.string("api_name")));
        call.kernel([&](KernelBuilder& k) {
          k.parallel(info.sizes, [&](const std::vector<Expr>& i) {
            k.raise_if(k.as(DType::boolean, k.load(call.input("info"), i)), site);
          });
        });
      });
  // Types and sizes are what the file says, and inputs are checked when they come in.
  add_assertion(
      r,
      "_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, "
      "Device? device=None, Layout? layout=None) -> ()",
      [](ReferenceCall& call) {
        Tensor a = call.tensor("a");
        if (call.given("size") && call.integers("size") != a.sizes) assertion_failed(call, "Tensor sizes mismatch!");
      },
      {}, {.types_hold = metadata_holds});
  add_assertion(r, "sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()", check_range);
  add_assertion(r, "sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()", check_range);
}

}  // namespace

void register_symbolic(Registry& registry) {
  register_python_operators(registry);
  register_torch_symbolic(registry);
  register_sizes(registry);
  register_assertions(registry);
  register_size_needs(registry);
}

}  // namespace kiln
