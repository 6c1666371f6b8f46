#include "graph_passes/split_complex.h"

#include <unordered_map>

#include "graph_passes/decompose.h"
#include "graph_passes/node_kinds.h"
#include "ops/complex_formulas.h"
#include "ops/complex_reference.h"

namespace kiln {

namespace {

struct Parts {
  Value* part[2] = {nullptr, nullptr};
};

bool is_complex_tensor(const Value* value) {
  return value && value->kind == ValueKind::tensor && is_complex(value->type.dtype);
}

bool mentions_complex(const Argument& arg) {
  if (const auto* dtype = std::get_if<DType>(&arg.value)) return is_complex(*dtype);
  if (arg.is_scalar()) return arg.as_scalar().is_complex();
  if (arg.is_list()) {
    for (const Argument& element : arg.as_list())
      if (mentions_complex(element)) return true;
    return false;
  }
  if (!arg.is_value()) return false;
  for (const Value* item : arg.as_value()->items)
    if (is_complex_tensor(item)) return true;
  return is_complex_tensor(arg.as_value());
}

bool is_complex_node(const Node& node) {
  for (const Value* result : node.results) {
    if (is_complex_tensor(result)) return true;
    for (const Value* item : result->items)
      if (is_complex_tensor(item)) return true;
  }
  for (const auto& named : node.args)
    if (mentions_complex(named.arg)) return true;
  return false;
}

TensorType real_type(TensorType type) {
  type.dtype = complex_part(type.dtype);
  return type;
}

class ComplexSplitter {
 public:
  ComplexSplitter(Graph& graph, const RangeEnv& ranges, PassContext& context)
      : graph_(graph), ranges_(ranges), context_(context) {}

  bool run() {
    std::vector<Node*> nodes;
    for (auto& node : graph_.nodes) nodes.push_back(node.get());
    bool changed = false;
    for (Node* node : nodes) {
      for (auto& named : node->args)
        if (named.arg.is_graph() && named.arg.as_graph())
          changed |= ComplexSplitter(*named.arg.as_graph(), ranges_, context_).run();
      here_ = node;
      visit(*node);
    }
    here_ = nullptr;
    for (Argument& output : graph_.outputs) output = whole(output);
    for (Node* node : removed_) graph_.erase(node);
    return changed || !removed_.empty();
  }

 private:
  void visit(Node& node) {
    bool complex = is_complex_node(node);
    const ComplexRule rule = node.op ? node.op->facts.complex.rule : ComplexRule::native;
    bool keeps = !node.op || node.op->kind != OpKind::plain || !node.op->library.empty() || rule == ComplexRule::native;
    // nonzero has a library kernel, but none for complex numbers.
    if (!complex || (keeps && rule != ComplexRule::truth)) {
      for (auto& named : node.args) named.arg = whole(named.arg);
      return;
    }
    DecomposeCall call(node, node.op->schema, graph_, ranges_);
    Build b(call);
    try {
      rewrite(node, b, rule);
    } catch (Error& error) {
      Where where = node.where();
      where.pass = "split_complex";
      error.locate(where);
      throw;
    }
    context_.note(str("complex: ", node.name, " = ", node.target, " became real"));
    removed_.push_back(&node);
  }

  // ---- Values -------------------------------------------------------------------------------------------------------

  // The argument with complex values put together again and real ones up to date.
  Argument whole(const Argument& arg) {
    if (arg.is_list()) {
      Argument::List list;
      for (const Argument& element : arg.as_list()) list.push_back(whole(element));
      return Argument(std::move(list));
    }
    if (!arg.is_value()) return arg;
    Value* value = arg.as_value();
    if (value->kind == ValueKind::tensor_list && lists_.contains(value)) {
      Argument::List list;
      for (Value* item : value->items) list.push_back(item ? whole(Argument(item)) : Argument());
      return Argument(std::move(list));
    }
    if (auto found = reals_.find(value); found != reals_.end()) return Argument(found->second);
    auto parts = parts_.find(value);
    if (parts == parts_.end() || value->producer == nullptr || !replaced_.contains(value)) return arg;
    if (auto found = joined_.find(value); found != joined_.end()) return Argument(found->second);
    Node* join = add_node("kiln.complex_join.default", str(value->name, "_joined"), value->producer);
    join->args = {{"real", Argument(parts->second.part[0])}, {"imag", Argument(parts->second.part[1])}};
    Value* made = graph_.add_result(join, join->name, ValueKind::tensor);
    made->type = value->type;
    joined_[value] = made;
    return Argument(made);
  }

  Parts& parts_of(Value* value) {
    Parts& parts = parts_[value];
    if (parts.part[0]) return parts;
    Node* split = add_node("kiln.complex_parts.default", str(value->name, "_parts"), here_);
    split->args = {{"self", Argument(value)}};
    for (int which : {0, 1}) {
      parts.part[which] = graph_.add_result(split, str(value->name, which ? "_imag" : "_real"), ValueKind::tensor);
      parts.part[which]->type = real_type(value->type);
    }
    return parts;
  }

  Node* add_node(const char* target, const std::string& name, const Node* origin) {
    Node* made = graph_.add_node(target, graph_.unique_name(name), here_);
    made->op = Registry::instance().find(target);
    if (origin) made->origins = origin->origins;
    return made;
  }

  // Part `which` of an argument that holds numbers of the operator's kind.
  Argument part(Build& b, const Argument& arg, int which, bool numeric) {
    if (const auto* dtype = std::get_if<DType>(&arg.value)) return Argument(complex_part(*dtype));
    if (arg.is_list()) {
      Argument::List list;
      for (const Argument& element : arg.as_list()) list.push_back(part(b, element, which, numeric));
      return Argument(std::move(list));
    }
    if (arg.is_scalar() && numeric) {
      if (which == 0 && !arg.as_scalar().is_complex()) return arg;
      std::complex<double> z = arg.as_scalar().as_complex();
      return Argument(Scalar(which == 0 ? z.real() : z.imag()));
    }
    if (!arg.is_value()) {
      bool symbolic = numeric && which == 1 && std::holds_alternative<Expr>(arg.value);
      return symbolic ? Argument(Scalar(0.0)) : arg;
    }
    Value* value = arg.as_value();
    if (value->kind == ValueKind::tensor_list) {
      Argument::List list;
      for (Value* item : value->items) list.push_back(item ? part(b, Argument(item), which, numeric) : Argument());
      return Argument(std::move(list));
    }
    if (is_complex_tensor(value)) return Argument(parts_of(value).part[which]);
    Argument now = whole(arg);
    if (!numeric || which == 0) return now;
    if (value->kind != ValueKind::tensor) return Argument(Scalar(0.0));
    return Argument(ComplexBuild(b).zeros_like(now));
  }

  Pair pair(Build& b, const Argument& arg) {
    if (arg.is_scalar() && arg.as_scalar().is_complex()) return {part(b, arg, 0, true), part(b, arg, 1, true)};
    if (!arg.is_value() || !is_complex_tensor(arg.as_value())) return {whole(arg), Argument()};
    Parts& parts = parts_of(arg.as_value());
    return {Argument(parts.part[0]), Argument(parts.part[1])};
  }

  // ---- Results ------------------------------------------------------------------------------------------------------

  // The value with the sizes and type that the graph says; layouts only where this rewriting has made it.
  Value* fitted(Build& b, Value* value, const TensorType& type) {
    if (value->type.sizes != type.sizes) value = ComplexBuild(b).expanded(value, type.sizes);
    value = b.to(value, type.dtype);
    if (b.call().made(value->producer)) value->type = type;
    return value;
  }

  void set_complex(Build& b, Value* result, const Argument& re, const Argument& im) {
    KILN_CHECK(re.is_value(), "a complex result needs a value");
    Value* real = re.as_value();
    TensorType type = real_type(result->type);
    Value* imag = im.is_value() ? im.as_value() : nullptr;
    if (!imag) imag = ComplexBuild(b).full_like(real, im.is_scalar() ? im : Argument(Scalar(0.0)));
    Parts& parts = parts_[result];
    parts.part[0] = fitted(b, real, type);
    parts.part[1] = fitted(b, imag, type);
    replaced_.insert(result);
  }

  void set_real(Build& b, Value* result, Value* value) { reals_[result] = fitted(b, value, result->type); }

  static std::vector<Value*> flat_results(const Node& node) {
    std::vector<Value*> out;
    for (Value* result : node.results) {
      if (result->kind == ValueKind::tensor_list)
        out.insert(out.end(), result->items.begin(), result->items.end());
      else
        out.push_back(result);
    }
    return out;
  }

  // ---- Rules --------------------------------------------------------------------------------------------------------

  void rewrite(Node& node, Build& b, ComplexRule rule) {
    for (Value* result : node.results)
      if (result->kind == ValueKind::tensor_list) lists_.insert(result);
    switch (rule) {
      case ComplexRule::parts:
      case ComplexRule::mean:
      case ComplexRule::cast:
      case ComplexRule::fill:
      case ComplexRule::real_unit:
        return rewrite_parts(node, b, rule);
      case ComplexRule::formula:
        return rewrite_formula(node, b);
      case ComplexRule::conjugate_moves:
        return rewrite_conjugate(node, b);
      case ComplexRule::bilinear:
        return rewrite_bilinear(node, b);
      case ComplexRule::magnitude: {
        ComplexBuild c(b);
        return rewrite_on(node, b, c.abs(pair(b, *node.find("self"))));
      }
      case ComplexRule::truth: {
        ComplexBuild c(b);
        return rewrite_on(node, b, c.is_true(pair(b, *node.find("self"))));
      }
      case ComplexRule::squares:
      case ComplexRule::root_squares:
        return rewrite_squares(node, b, rule == ComplexRule::root_squares);
      case ComplexRule::product:
      case ComplexRule::running_product:
        return rewrite_product(node, b, rule == ComplexRule::running_product);
      case ComplexRule::bytes:
        return rewrite_bytes(node, b);
      case ComplexRule::native:
      case ComplexRule::none:
        refuse(node);
    }
  }

  [[noreturn]] void refuse(const Node& node) const {
    DType dtype = DType::c64;
    for (const auto& named : node.args)
      if (named.arg.is_value() && is_complex_tensor(named.arg.as_value())) dtype = named.arg.as_value()->type.dtype;
    fail_unsupported("K0203", str(node.target, " does not take ", dtype_torch_name(dtype)), node.where());
  }

  // The same operator with other arguments.
  std::vector<Value*> call_with(Node& node, Build& b, const std::function<Argument(const Node::NamedArgument&)>& map) {
    std::vector<Argument> args;
    const Schema& schema = node.op->schema;
    size_t last = 0;
    for (size_t i = 0; i < schema.args.size(); ++i)
      if (node.find(schema.args[i].name)) last = i + 1;
    for (size_t i = 0; i < last; ++i) {
      const Argument* given = node.find(schema.args[i].name);
      args.push_back(given ? map({schema.args[i].name, *given}) : schema.args[i].default_value);
    }
    std::vector<TensorType> types;
    for (Value* result : node.results)
      if (result->kind == ValueKind::tensor) types.push_back(real_type(result->type));
    // Sizes that depend on data are the graph's own.
    std::vector<Value*> results = types.size() == node.results.size()
                                      ? b.call().call_as(node.target, std::move(args), types)
                                      : b.call().call_all(node.target, std::move(args));
    std::vector<Value*> flat;
    for (Value* result : results) {
      if (result->kind == ValueKind::tensor_list)
        flat.insert(flat.end(), result->items.begin(), result->items.end());
      else
        flat.push_back(result);
    }
    return flat;
  }

  void rewrite_parts(Node& node, Build& b, ComplexRule rule) {
    std::vector<Value*> results = flat_results(node);
    auto run = [&](int which) {
      return call_with(node, b, [&](const Node::NamedArgument& named) {
        return part(b, named.arg, which, is_numeric_argument(named.name));
      });
    };
    if (!is_complex_tensor(results[0])) {
      const bool gives_bool = results[0]->type.dtype == DType::boolean;
      if (gives_bool && rule == ComplexRule::cast) {  // asks for both parts
        const std::string_view source = cast_source(node.op->schema);
        Value* truth = ComplexBuild(b).is_true(pair(b, *node.find(source)));
        if (source == "self") return set_real(b, results[0], truth);
        return set_real(b, results[0], call_with(node, b, [&](const Node::NamedArgument& named) {
                          return named.name == source ? Argument(truth) : part(b, named.arg, 0, false);
                        })[0]);
      }
      // What would be done with real parts alone is not what a bool of a complex number is.
      if (gives_bool && rule == ComplexRule::parts) refuse(node);
      std::vector<Value*> real = run(0);
      for (size_t i = 0; i < results.size(); ++i) set_real(b, results[i], real[i]);
      return;
    }
    std::vector<Value*> real = run(0);
    std::vector<Value*> imag =
        rule == ComplexRule::real_unit ? std::vector<Value*>{ComplexBuild(b).zeros_like(Argument(real[0]))} : run(1);
    if (rule == ComplexRule::mean) {
      const Pair mean = ComplexBuild(b).mean_of_parts({Argument(real[0]), Argument(imag[0])});
      real = {mean.re.as_value()};
      imag = {mean.im.as_value()};
    }
    for (size_t i = 0; i < results.size(); ++i) set_complex(b, results[i], Argument(real[i]), Argument(imag[i]));
  }

  void rewrite_formula(Node& node, Build& b) {
    const ComplexFormula& formula = *node.op->facts.complex.formula;
    std::vector<Pair> x;
    for (std::string_view operand : formula.operands) {
      if (operand.empty()) break;
      const Argument* given = node.find(operand);
      if (given) {
        x.push_back(pair(b, *given));
      } else if (int at = node.op->schema.find(operand); at >= 0) {
        x.push_back(pair(b, node.op->schema.args[static_cast<size_t>(at)].default_value));
      }
    }
    ComplexBuild c(b);
    const Pair out = formula.build(c, x);
    if (is_complex_tensor(node.results[0])) return set_complex(b, node.results[0], out.re, out.im);
    set_real(b, node.results[0], out.re.as_value());
  }

  void rewrite_conjugate(Node& node, Build& b) {
    auto run = [&](int which) {
      return call_with(node, b, [&](const auto& named) { return part(b, named.arg, which, true); })[0];
    };
    Value* imag = ComplexBuild(b).negated(run(1));
    set_complex(b, node.results[0], Argument(run(0)), Argument(imag));
  }

  void rewrite_bilinear(Node& node, Build& b) {
    const BilinearArgs& args = node.op->facts.complex.factors;
    bool scales = false;
    for (const char* factor : {"alpha", "beta"})
      if (const Argument* given = node.find(factor)) scales |= mentions_complex(*given);
    auto run = [&](int first, int second, int addend) {
      return call_with(node, b, [&](const Node::NamedArgument& named) {
        // Complex factors are applied to the plain product.
        if (scales && named.name == "alpha") return Argument(Scalar(1));
        if (scales && named.name == "beta") return Argument(Scalar(0));
        if (named.name == args.a) return part(b, named.arg, first, true);
        if (named.name == args.b) return part(b, named.arg, second, true);
        if (named.name != args.addend || named.arg.is_none()) return part(b, named.arg, 0, false);
        Argument value = part(b, named.arg, std::max(addend, 0), true);
        return addend < 0 ? Argument(ComplexBuild(b).zeros_like(value)) : value;
      })[0];
    };
    Value *rr = run(0, 0, 0), *ii = run(1, 1, -1), *ri = run(0, 1, 1), *ir = run(1, 0, -1);
    bool conjugates = args.conjugates;
    Pair product = {Argument(conjugates ? b.add(rr, ii) : b.sub(rr, ii)),
                    Argument(conjugates ? b.sub(ri, ir) : b.add(ri, ir))};
    if (scales) {
      ComplexBuild c(b);
      auto factor = [&](const char* name) {
        const Argument* given = node.find(name);
        return given ? pair(b, *given) : Pair{Argument(Scalar(1)), Argument()};
      };
      product = c.add(c.mul(product, factor("alpha")), c.mul(pair(b, *node.find(args.addend)), factor("beta")));
    }
    set_complex(b, node.results[0], product.re, product.im);
  }

  // The operator on one real value in place of self.
  void rewrite_on(Node& node, Build& b, Value* self) {
    std::vector<Value*> made = call_with(node, b, [&](const Node::NamedArgument& named) {
      return named.name == "self" ? Argument(self) : part(b, named.arg, 0, false);
    });
    for (size_t i = 0; i < made.size(); ++i) set_real(b, node.results[i], made[i]);
  }

  void rewrite_squares(Node& node, Build& b, bool root) {
    auto run = [&](int which) {
      return call_with(node, b, [&](const auto& named) { return part(b, named.arg, which, named.name == "self"); })[0];
    };
    Value *real = run(0), *imag = run(1);
    set_real(b, node.results[0], root ? ComplexBuild(b).abs({Argument(real), Argument(imag)}) : b.add(real, imag));
  }

  // The same bytes as another type: between a complex type and that of its parts.
  void rewrite_bytes(Node& node, Build& b) {
    Value *self = node.find("self")->as_value(), *result = node.results[0];
    Sizes sizes = self->type.sizes;
    if (complex_part(self->type.dtype) == result->type.dtype) {
      Value* pairs = ComplexBuild(b).interleaved(pair(b, Argument(self)));
      return set_real(b, result, b.view(pairs, result->type.sizes));
    }
    if (complex_part(result->type.dtype) != self->type.dtype) refuse(node);
    sizes.back() = result->type.sizes.back();
    sizes.push_back(Expr(2));
    Value* pairs = b.view(whole(Argument(self)).as_value(), sizes);
    const Pair parts = ComplexBuild(b).from_interleaved(Argument(pairs));
    set_complex(b, result, parts.re, parts.im);
  }

  void rewrite_product(Node& node, Build& b, bool running) {
    const Pair self = pair(b, *node.find("self"));
    const Pair out = ComplexBuild(b).product_along(self, node.find("dim"), node.find("keepdim"), running);
    set_complex(b, node.results[0], out.re, out.im);
  }

  Graph& graph_;
  const RangeEnv& ranges_;
  PassContext& context_;
  Node* here_ = nullptr;
  std::unordered_map<Value*, Parts> parts_;
  std::unordered_map<Value*, Value*> reals_, joined_;
  std::set<Value*> replaced_, lists_;  // results of removed nodes
  std::vector<Node*> removed_;
};

}  // namespace

bool split_complex(Program& program, PassContext& context) {
  RangeEnv ranges = program.ranges();
  if (!ComplexSplitter(program.graph, ranges, context).run()) return false;
  // The formulas use what is convenient; some of that has decompositions.
  decompose(program, context);
  return true;
}

}  // namespace kiln
