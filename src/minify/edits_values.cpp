// Edits of values: constants, dtypes, layouts, sizes.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "graph/walk.h"
#include "minify/cut.h"
#include "minify/edits.h"
#include "minify/infer_program.h"
#include "ops/op_record.h"

namespace kiln::minify {
namespace {

// Calls f(value, tensor) for every input that has one: constants and sample inputs.
void for_each_input(Program& program, const std::function<void(Value&, Tensor&)>& f) {
  size_t sample = 0;
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    const InputSpec& spec = program.input_specs[i];
    Value& value = *program.graph.inputs[i];
    if (takes_sample(spec)) {
      if (sample >= program.sample_inputs.size()) return;
      Datum& datum = program.sample_inputs[sample++];
      if (value.kind == ValueKind::tensor && datum.is_tensor()) f(value, std::get<Tensor>(datum.value));
    } else if (const auto found = program.constants.find(spec.target); found != program.constants.end()) {
      f(value, found->second);
    }
  }
}

void for_each_argument(Argument& arg, const std::function<void(Argument&)>& f) {
  if (auto* list = std::get_if<Argument::List>(&arg.value)) {
    for (Argument& element : *list) for_each_argument(element, f);
  } else {
    f(arg);
  }
}

void for_each_argument(Graph& graph, const std::function<void(Argument&)>& f) {
  for_each_node(graph, [&](Node& node) {
    for (auto& named : node.args) for_each_argument(named.arg, f);
  });
}

Edit fill(const std::string& constant, const std::string& how, std::function<Tensor(const Tensor&)> make) {
  return {str(constant, " as ", how), [constant, make = std::move(make)](Program& program) {
            const auto found = program.constants.find(constant);
            if (found == program.constants.end() || !found->second.defined()) return false;
            Tensor made = make(found->second);
            made.device = found->second.device;
            found->second = std::move(made);
            return true;
          }};
}

Tensor filled(const Tensor& like, double value) {
  const bool dense = dense_and_not_overlapping(like.sizes, like.strides);
  Tensor out =
      dense ? Tensor::empty_strided(like.dtype, like.sizes, like.strides) : Tensor::empty(like.dtype, like.sizes);
  if (value != 0)
    for (int64_t i = 0; i < out.numel(); ++i) out.set_item(i, Scalar(value));
  return out;
}

// The first `to` of dimension `dim`, in memory of its own.
Tensor narrowed(const Tensor& tensor, size_t dim, int64_t to) {
  Tensor view = tensor;
  view.sizes[dim] = to;
  return own_dense(view);
}

}  // namespace

std::vector<std::vector<Edit>> constant_edits(const Program& program) {
  std::vector<std::vector<Edit>> groups;
  for (const auto& [name, tensor] : program.constants) {
    if (!tensor.defined()) continue;
    groups.push_back(
        {fill(name, "zeros", [](const Tensor& t) { return filled(t, 0); }),
         fill(name, "ones", [](const Tensor& t) { return filled(t, 1); }),
         fill(name, "random numbers", [](const Tensor& t) { return random_tensor(t.dtype, t.sizes, t.strides, 1); })});
  }
  return groups;
}

std::vector<Edit> dtype_edits(const Program& program) {
  std::set<DType> found;
  for (const Value* input : program.graph.inputs)
    if (input->kind == ValueKind::tensor) found.insert(input->type.dtype);
  std::vector<Edit> edits;
  const auto simpler = [](DType from) { return is_integral(from) ? DType::i64 : DType::f32; };
  for (const DType from : {DType::f64, DType::bf16, DType::f16, DType::u8, DType::i8, DType::i16, DType::i32}) {
    if (!found.contains(from)) continue;
    const DType to = simpler(from);
    edits.push_back({str(dtype_name(from), " as ", dtype_name(to)), [from, to](Program& program_) {
                       for_each_input(program_, [&](Value& value, Tensor& tensor) {
                         if (tensor.dtype != from) return;
                         tensor = own_dense(convert(tensor, to));
                         value.type.dtype = to;
                         value.type.strides.assign(tensor.strides.begin(), tensor.strides.end());
                       });
                       for_each_argument(program_.graph, [&](Argument& arg) {
                         if (const auto* dtype = std::get_if<DType>(&arg.value); dtype && *dtype == from)
                           arg = Argument(to);
                       });
                       infer_program(program_);
                       return true;
                     }});
  }
  return edits;
}

std::vector<Edit> layout_edits(const Program& program) {
  bool strided = false;
  for_each_input(const_cast<Program&>(program), [&](Value& value, Tensor& tensor) {
    strided |= !tensor.contiguous() || tensor.offset != 0 || !value.type.offset.is_constant(0);
  });
  if (!strided) return {};
  return {{"inputs row by row", [](Program& program_) {
             for_each_input(program_, [&](Value& value, Tensor& tensor) {
               tensor = tensor.clone();
               value.type.strides = contiguous_strides(value.type.sizes);
               value.type.offset = Expr(0);
             });
             infer_program(program_);
             return true;
           }}};
}

std::vector<int64_t> input_sizes(const Program& program) {
  std::set<int64_t> sizes;
  for (const Value* input : program.graph.inputs)
    if (input->kind == ValueKind::tensor)
      for (const Expr& size : input->type.sizes)
        if (size.is_constant() && size.value() > 1) sizes.insert(size.value());
  return {sizes.rbegin(), sizes.rend()};
}

void resize_symbol(Program& program, const SymbolValues& values, const std::string& symbol, int64_t to) {
  SymbolValues after = values;
  after[symbol] = to;
  size_t sample = 0;
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    if (!takes_sample(program.input_specs[i])) continue;
    if (sample >= program.sample_inputs.size()) break;
    const Value& value = *program.graph.inputs[i];
    Datum& datum = program.sample_inputs[sample++];
    if (value.kind == ValueKind::sym_int && datum.is_scalar()) datum = Datum{Scalar(evaluate(value.expr, after))};
    if (value.kind != ValueKind::tensor || !datum.is_tensor()) continue;
    Tensor& tensor = std::get<Tensor>(datum.value);
    for (size_t d = 0; d < value.type.sizes.size() && d < tensor.sizes.size(); ++d) {
      const int64_t size = evaluate(value.type.sizes[d], after);
      if (size > tensor.sizes[d] || size < 0)
        fail_unsupported("K0681", str("size ", d, " of ", value.name, " cannot become ", size));
      if (size < tensor.sizes[d]) tensor = narrowed(tensor, d, size);
    }
  }
  if (const auto found = program.symbols.find(symbol); found != program.symbols.end()) found->second.hint = to;
}

void resize(Program& program, int64_t from, int64_t to) {
  for_each_input(program, [&](Value& value, Tensor& tensor) {
    for (size_t d = 0; d < value.type.sizes.size(); ++d) {
      if (!value.type.sizes[d].is_constant(from)) continue;
      tensor = narrowed(tensor, d, to);
      value.type.sizes[d] = Expr(to);
    }
    if (value.type.sizes.size() == tensor.strides.size() &&
        std::all_of(value.type.sizes.begin(), value.type.sizes.end(), [](const Expr& e) { return e.is_constant(); })) {
      value.type.strides.assign(tensor.strides.begin(), tensor.strides.end());
      value.type.offset = Expr(0);
    }
  });
  for_each_argument(program.graph, [&](Argument& arg) {
    if (arg.is_scalar() && arg.as_scalar().is_int() && arg.as_scalar().as_int() == from) arg = Argument(Scalar(to));
  });
  infer_program(program);
}

}  // namespace kiln::minify
