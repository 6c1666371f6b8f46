#include "ops/complex_reference.h"

#include <cmath>

#include "ops/complex_formulas.h"
#include "ops/dense.h"
#include "ops/elementwise.h"

namespace kiln {

namespace {

using Complex = std::complex<double>;
using PartFn = std::function<Datum(const std::string& name, const Datum& value)>;

Tensor zeros_of(const Tensor& like) { return Tensor::empty(complex_part(like.dtype), like.sizes); }

// Part `which` of a value: numbers and real tensors have the imaginary part 0.
Datum part_of(const Datum& datum, int which) {
  if (datum.is_tensor()) {
    const Tensor& tensor = datum.tensor();
    if (is_complex(tensor.dtype)) return Datum{complex_part_view(tensor, which)};
    return which == 0 ? datum : Datum{zeros_of(tensor)};
  }
  if (datum.is_scalar()) {
    if (which == 0 && !datum.scalar().is_complex()) return datum;
    Complex z = datum.scalar().as_complex();
    return Datum{Scalar(which == 0 ? z.real() : z.imag())};
  }
  if (!datum.is_list()) return datum;
  std::vector<Datum> list;
  for (const Datum& element : datum.list()) list.push_back(part_of(element, which));
  return Datum{std::move(list)};
}

bool holds_complex(const Datum& datum) {
  if (datum.is_tensor()) return is_complex(datum.tensor().dtype);
  if (datum.is_scalar()) return datum.scalar().is_complex();
  if (!datum.is_list()) return false;
  for (const Datum& element : datum.list())
    if (holds_complex(element)) return true;
  return false;
}

// The node with real types in place of complex ones, in a graph of its own.
class RealNode {
 public:
  explicit RealNode(const Node& node) : node_(graph_.add_node(node.target, node.name)) {
    node_->op = node.op;
    node_->origins = node.origins;
    for (const auto& named : node.args) node_->args.push_back({named.name, own(named.arg)});
    for (const Value* result : node.results) {
      Value* made = graph_.add_result(node_, result->name, result->kind);
      made->type = real(result->type);
      made->expr = result->expr;
      for (const Value* item : result->items) {
        Value* piece = graph_.add_item(made, item ? item->name : "none");
        if (item) piece->type = real(item->type);
      }
    }
  }
  Node& node() { return *node_; }

 private:
  static TensorType real(TensorType type) {
    type.dtype = complex_part(type.dtype);
    return type;
  }
  Argument own(const Argument& arg) {
    if (arg.is_list()) {
      Argument::List list;
      for (const Argument& element : arg.as_list()) list.push_back(own(element));
      return Argument(std::move(list));
    }
    if (const auto* dtype = std::get_if<DType>(&arg.value)) return Argument(complex_part(*dtype));
    if (arg.is_scalar() && arg.as_scalar().is_complex()) return Argument(Scalar(arg.as_scalar().as_complex().real()));
    if (!arg.is_value()) return arg;
    const Value* from = arg.as_value();
    Value* made = graph_.add_input(graph_.unique_name(from->name), from->kind);
    made->type = real(from->type);
    made->expr = from->expr;
    for (Value* item : from->items) made->items.push_back(item ? own(Argument(item)).as_value() : nullptr);
    return Argument(made);
  }
  Graph graph_;
  Node* node_;
};

// The real reference on real values made from the arguments.
std::vector<Datum> evaluate_real(const ReferenceCall& call, const OpRecord& record, const ReferenceFn& reference,
                                 const PartFn& part) {
  RealNode real(call.node());
  ReferenceCall inner(real.node(), record.schema);
  inner.fp64 = call.fp64;
  inner.seed = call.seed;
  for (const auto& [name, value] : call.values) {
    inner.values[name] = part(name, value);
    if (name != "dtype" || !call.dtype("dtype")) continue;
    inner.values[name] = Datum{std::string(dtype_name(complex_part(*call.dtype("dtype"))))};
  }
  reference(inner);
  return std::move(inner.results);
}

Tensor joined(const ReferenceCall& call, const Tensor& real, const Tensor& imag) {
  DType dtype = complex_of(real.dtype);
  if (call.fp64) dtype = wide_dtype(dtype);
  return join_parts(real, imag, dtype, dense_strides_like(real.sizes, real.strides));
}

void join_results(ReferenceCall& call, const std::vector<Datum>& real, const std::vector<Datum>& imag) {
  for (size_t i = 0; i < real.size(); ++i) {
    if (real[i].is_list()) {
      std::vector<Datum> items;
      for (size_t j = 0; j < real[i].list().size(); ++j)
        items.push_back(Datum{joined(call, real[i].list()[j].tensor(), imag[i].list()[j].tensor())});
      call.results.push_back(Datum{std::move(items)});
    } else {
      call.results.push_back(Datum{joined(call, real[i].tensor(), imag[i].tensor())});
    }
  }
}

bool gives_complex(const ReferenceCall& call) {
  for (const Value* result : call.node().results) {
    if (result->kind == ValueKind::tensor && is_complex(result->type.dtype)) return true;
    for (const Value* item : result->items)
      if (item && is_complex(item->type.dtype)) return true;
  }
  return false;
}

// Eager divides the sum by the complex number of elements: its imaginary 0 times an infinity is NaN.
void divide_by_complex_count(Tensor re, Tensor im) {
  std::vector<double> x = read_dense<double>(re), y = read_dense<double>(im);
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = x[i], b = y[i];
    x[i] = a + b * 0.0;
    y[i] = b - a * 0.0;
  }
  write_dense(re, x);
  write_dense(im, y);
}

void evaluate_parts(ReferenceCall& call, const OpRecord& record, const ReferenceFn& reference) {
  const ComplexRule rule = record.facts.complex.rule;
  auto run = [&](int which) {
    return evaluate_real(call, record, reference, [&](const std::string& name, const Datum& value) {
      // A complex tensor has two parts whatever the argument is called (prepend, append).
      return part_of(value, is_numeric_argument(name) || holds_complex(value) ? which : 0);
    });
  };
  std::vector<Datum> real = run(0);
  if (!gives_complex(call)) {
    call.results = std::move(real);
    return;
  }
  std::vector<Datum> imag = run(1);
  if (rule == ComplexRule::real_unit) imag = {Datum{zeros_of(real[0].tensor())}};
  if (rule == ComplexRule::mean) divide_by_complex_count(real[0].tensor(), imag[0].tensor());
  join_results(call, real, imag);
}

Tensor sum_of(const Tensor& a, const Tensor& b, double sign) {
  std::vector<double> x = read_dense<double>(a), y = read_dense<double>(b);
  for (size_t i = 0; i < x.size(); ++i) x[i] += sign * y[i];
  Tensor out = Tensor::empty_strided(a.dtype, a.sizes, dense_strides_like(a.sizes, a.strides));
  write_dense(out, x);
  return out;
}

Tensor as_wide(const Tensor& tensor) { return convert(tensor, DType::c128); }

// The product with complex factors alpha and beta: beta addend + alpha (a b), element by element.
Tensor scaled_sum(ReferenceCall& call, const Tensor& product, const Tensor& addend) {
  Tensor p = as_wide(product), c = as_wide(broadcast_view(addend, product.sizes));
  Complex alpha = call.scalar("alpha").as_complex(), beta = call.scalar("beta").as_complex();
  for (int64_t i = 0; i < p.numel(); ++i)
    p.as<Complex>()[i] = alpha * p.as<Complex>()[i] + (beta == Complex(0) ? 0 : beta * c.as<Complex>()[i]);
  Tensor out = Tensor::empty_strided(product.dtype, product.sizes, product.strides);
  copy_into(p, out);
  return out;
}

void evaluate_bilinear(ReferenceCall& call, const OpRecord& record, const ReferenceFn& reference) {
  const BilinearArgs& args = record.facts.complex.factors;
  bool scales =
      record.schema.find("alpha") >= 0 && (call.scalar("alpha").is_complex() || call.scalar("beta").is_complex());
  auto run = [&](int a, int b, int addend) {
    return evaluate_real(call, record, reference,
                         [&](const std::string& name, const Datum& value) {
                           if (scales && name == "alpha") return Datum{Scalar(1)};
                           if (scales && name == "beta") return Datum{Scalar(0)};
                           if (name == args.a) return part_of(value, a);
                           if (name == args.b) return part_of(value, b);
                           if (name == args.addend && addend < 0 && value.is_tensor())
                             return Datum{zeros_of(value.tensor())};
                           return part_of(value, name == args.addend ? addend : 0);
                         })[0]
        .tensor();
  };
  double sign = args.conjugates ? -1 : 1;
  Tensor real = sum_of(run(0, 0, 0), run(1, 1, -1), -sign);
  Tensor imag = sum_of(run(0, 1, 1), run(1, 0, -1), sign);
  Tensor out = joined(call, real, imag);
  call.results = {Datum{scales ? scaled_sum(call, out, call.tensor(args.addend)) : out}};
}

// The real reference on one real tensor made from self, or from another argument.
void evaluate_on(ReferenceCall& call, const OpRecord& record, const ReferenceFn& reference, DType dtype,
                 double (*of)(Complex), std::string_view argument = "self") {
  call.results = evaluate_real(call, record, reference, [&](const std::string& name, const Datum& value) {
    if (name != argument || !value.is_tensor()) return value;
    Tensor wide = as_wide(value.tensor());
    Tensor out = Tensor::empty_strided(dtype, wide.sizes, wide.strides);
    std::vector<double> numbers;
    for (int64_t i = 0; i < wide.numel(); ++i) numbers.push_back(of(wide.as<Complex>()[i]));
    write_dense(out, numbers);
    return Datum{out};
  });
}

void evaluate_squares(ReferenceCall& call, const OpRecord& record, const ReferenceFn& reference, bool root) {
  auto run = [&](int which) {
    return evaluate_real(call, record, reference,
                         [&](const std::string& name, const Datum& value) {
                           return name == "self" ? part_of(value, which) : value;
                         })[0]
        .tensor();
  };
  Tensor a = run(0), b = run(1);
  std::vector<double> x = read_dense<double>(a), y = read_dense<double>(b);
  for (size_t i = 0; i < x.size(); ++i) x[i] = root ? std::hypot(x[i], y[i]) : x[i] + y[i];
  write_dense(a, x);
  call.results = {Datum{a}};
}

// prod over all or one dimension, cumprod: element by element in complex<double>.
void evaluate_product(ReferenceCall& call, const OpRecord& record) {
  Tensor self = as_wide(call.tensor("self"));
  const bool running = record.facts.complex.rule == ComplexRule::running_product;
  bool all = record.schema.find("dim") < 0;
  int64_t rank = self.rank(), dim = all ? 0 : call.integer("dim");
  if (dim < 0) dim += std::max<int64_t>(rank, 1);
  int64_t length = all ? self.numel() : rank == 0 ? 1 : self.sizes[static_cast<size_t>(dim)], inner = 1;
  if (!all)
    for (size_t d = static_cast<size_t>(dim) + 1; d < self.sizes.size(); ++d) inner *= self.sizes[d];
  int64_t outer = length == 0 ? 0 : self.numel() / (length * inner);
  std::vector<int64_t> sizes = all ? std::vector<int64_t>{} : self.sizes;
  if (!running && !all && rank > 0) {
    if (call.boolean("keepdim"))
      sizes[static_cast<size_t>(dim)] = 1;
    else
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dim));
  }
  Tensor out = Tensor::empty(DType::c128, sizes);
  for (int64_t i = 0; i < out.numel() && !running; ++i) out.as<Complex>()[i] = 1;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      Complex product = 1;
      for (int64_t k = 0; k < length; ++k) {
        int64_t at = (o * length + k) * inner + i;
        product *= self.as<Complex>()[at];
        if (running) out.as<Complex>()[at] = product;
      }
      if (!running) out.as<Complex>()[o * inner + i] = product;
    }
  call.results = {Datum{convert(out, call.result_dtype())}};
}

// ---- Formulas ----

void evaluate_formula(ReferenceCall& call, const ComplexFormula& row) {
  std::vector<Tensor> operands, tensors;
  for (const std::string_view name : row.operands) {
    if (name.empty()) break;
    auto found = call.values.find(name);
    if (found == call.values.end() || found->second.is_none()) {
      operands.push_back(Tensor::scalar(DType::c128, Scalar(1)));  // alpha of an overload without it
    } else if (found->second.is_tensor()) {
      tensors.push_back(found->second.tensor());
      operands.push_back(found->second.tensor());
    } else {
      operands.push_back(Tensor::scalar(DType::c128, found->second.scalar()));
    }
  }
  Tensor out = elementwise_result(call, tensors, call.result_dtype());
  for (Tensor& operand : operands) operand = as_wide(broadcast_view(operand, out.sizes));
  Tensor wide = Tensor::empty(DType::c128, out.sizes);
  std::vector<Complex> x(operands.size());
  auto value = row.narrow && !call.fp64 && complex_part(call.nominal_dtype()) == DType::f32 ? row.narrow : row.value;
  for (int64_t i = 0; i < wide.numel(); ++i) {
    for (size_t k = 0; k < operands.size(); ++k) x[k] = operands[k].as<Complex>()[i];
    wide.as<Complex>()[i] = value(x.data());
  }
  copy_into(wide, out);
  call.results = {Datum{out}};
}

void conjugate_result(ReferenceCall& call) {
  Tensor out = call.results[0].tensor().clone();
  Tensor imag = complex_part_view(out, 1);
  std::vector<double> values = read_dense<double>(imag);
  for (double& value : values) value = -value;
  write_dense(imag, values);
  call.results = {Datum{out}};
}

// A reference that reads real numbers would take the real parts without a word; the operator's rule knows better.
void refuse_by_rule(const ReferenceCall& call, const OpRecord& record) {
  static const RangeEnv none;
  InferCall rule(call.node(), record.schema, none);
  try {
    record.infer(rule);
  } catch (const Error& error) {
    if (error.code() == "K0203") throw;
  }
}

double truth(Complex z) { return z != Complex(0) ? 1.0 : 0.0; }

void evaluate_complex(ReferenceCall& call, const OpRecord& record, const ReferenceFn& reference) {
  const ComplexForm& form = record.facts.complex;
  DType part = DType::f64;
  switch (form.rule) {
    case ComplexRule::parts:
    case ComplexRule::mean:
    case ComplexRule::cast:
    case ComplexRule::fill:
    case ComplexRule::real_unit:
      // A view is a view whatever the elements are.
      if (record.schema.is_view()) return reference(call);
      if (form.rule == ComplexRule::cast && call.nominal_dtype() == DType::boolean)
        return evaluate_on(call, record, reference, part, truth, cast_source(record.schema));
      return evaluate_parts(call, record, reference);
    case ComplexRule::formula:
      if (form.formula->value) return evaluate_formula(call, *form.formula);
      return reference(call);
    case ComplexRule::conjugate_moves:
      reference(call);
      return conjugate_result(call);
    case ComplexRule::bilinear:
      return evaluate_bilinear(call, record, reference);
    case ComplexRule::magnitude:
      if (!call.fp64) part = complex_part(nominal_argument_dtype(call, "self"));
      return evaluate_on(call, record, reference, part, [](Complex z) { return std::abs(z); });
    case ComplexRule::truth:
      return evaluate_on(call, record, reference, part, truth);
    case ComplexRule::squares:
    case ComplexRule::root_squares:
      return evaluate_squares(call, record, reference, form.rule == ComplexRule::root_squares);
    case ComplexRule::product:
    case ComplexRule::running_product:
      return evaluate_product(call, record);
    case ComplexRule::bytes:
    case ComplexRule::native:
      return reference(call);
    case ComplexRule::none:
      refuse_by_rule(call, record);
      return reference(call);
  }
}

}  // namespace

bool is_numeric_argument(std::string_view name) {
  for (std::string_view numeric : {"self", "other", "tensors", "src", "values", "value", "fill_value", "source",
                                   "input", "weight", "bias", "s", "pad_value"})
    if (name == numeric) return true;
  return false;
}

std::string_view cast_source(const Schema& schema) { return schema.find("src") >= 0 ? "src" : "self"; }

const ComplexForm& complex_form(const OpCall& call) {
  static const ComplexForm none;
  const OpRecord* record = call.node().op;
  if (record && record->functional) record = record->functional;
  // A node that a rule looks at by itself has no record yet.
  if (!record || record->name() != call.schema().name) record = Registry::instance().find(call.schema().name);
  return record ? record->facts.complex : none;
}

Tensor complex_part_view(const Tensor& tensor, int which) {
  Tensor view = tensor;
  view.dtype = complex_part(tensor.dtype);
  for (int64_t& stride : view.strides) stride *= 2;
  view.offset = tensor.offset * 2 + which;
  return view;
}

Tensor join_parts(const Tensor& real, const Tensor& imag, DType dtype, const std::vector<int64_t>& strides) {
  Tensor out = Tensor::empty_strided(dtype, real.sizes, strides);
  copy_into(real, complex_part_view(out, 0));
  copy_into(imag, complex_part_view(out, 1));
  return out;
}

ReferenceFn with_complex_reference(const OpRecord& record) {
  const OpRecord* self = &record;
  return [self, reference = record.reference](ReferenceCall& call) {
    bool complex = false;
    for (const auto& [name, value] : call.values) complex |= holds_complex(value);
    for (const Value* result : call.node().results)
      complex |= result->kind == ValueKind::tensor && is_complex(result->type.dtype);
    if (!complex) return reference(call);
    evaluate_complex(call, *self, reference);
  };
}

}  // namespace kiln
