// Library kernels, custom operators, and what concerns symbols: values read from data, assertions.
#include "lower/lowering.h"
#include "ops/custom_ops.h"
#include "ops/op_record.h"

namespace kiln {
using namespace loops;

namespace {

bool is_number(ValueKind kind) {
  return kind == ValueKind::sym_int || kind == ValueKind::sym_float || kind == ValueKind::sym_bool;
}

}  // namespace

Call::Arg Lowering::call_argument(const std::string& name, const Argument& arg) {
  Call::Arg out{name, {}};
  if (arg.is_none()) return out;
  if (arg.is_value()) {
    Value* value = arg.as_value();
    if (value->kind == ValueKind::tensor) {
      out.value = buffers_.at(value);
    } else if (value->kind == ValueKind::tensor_list) {
      std::vector<BufferId> ids;
      for (Value* item : value->items) ids.push_back(item ? buffers_.at(item) : no_buffer);
      out.value = ids;
    } else if (value->kind != ValueKind::none) {
      out.value = value->expr;
    }
  } else if (arg.is_list()) {
    std::vector<BufferId> ids;
    std::vector<Expr> exprs;
    for (const Argument& item : arg.as_list()) {
      Call::Arg one = call_argument(name, item);
      if (auto* id = std::get_if<BufferId>(&one.value)) {
        ids.push_back(*id);
      } else if (auto* expr = std::get_if<Expr>(&one.value)) {
        exprs.push_back(*expr);
      } else if (std::holds_alternative<std::monostate>(one.value)) {
        ids.push_back(no_buffer);
      } else if (auto* scalar = std::get_if<Scalar>(&one.value)) {
        exprs.push_back(scalar->is_float() ? Expr::float_constant(scalar->as_double()) : Expr(scalar->as_int()));
      } else {
        fail_unsupported("K0303", str("argument ", name, " is a list of a kind that calls do not take"));
      }
    }
    if (!ids.empty() && !exprs.empty()) fail_unsupported("K0303", str("argument ", name, " mixes tensors and numbers"));
    if (!ids.empty()) {
      out.value = ids;
    } else {
      out.value = exprs;
    }
  } else if (arg.is_scalar()) {
    const Scalar& scalar = arg.as_scalar();
    if (scalar.is_int()) {
      out.value = Expr(scalar.as_int());
    } else {
      out.value = scalar;
    }
  } else if (auto* expr = std::get_if<Expr>(&arg.value)) {
    out.value = *expr;
  } else if (auto* text = std::get_if<std::string>(&arg.value)) {
    out.value = *text;
  } else if (auto* dtype = std::get_if<DType>(&arg.value)) {
    out.value = *dtype;
  }  // device, layout, memory format: a kernel of one device has no use for them
  return out;
}

void Lowering::lower_call(const Node& node, Block& block) {
  Call call;
  call.target = node.target;
  call.custom = node.op == nullptr;
  call.origins = node.origins;
  if (node.op) {
    call.library = node.op->library;
    call.name = "lib_" + node.op->library;
    OpCall access(node, node.op->schema);
    for (const SchemaArg& arg : node.op->schema.args)
      call.args.push_back(call_argument(arg.name, access.arg(arg.name)));
  } else {
    call.name = node.target;
    for (const Node::NamedArgument& arg : node.args)
      if (!is_custom_note(arg.name)) call.args.push_back(call_argument(arg.name, arg.arg));
    call.mutates = write_to_copies(node, call, block);
  }
  // In the order of the results: that is how a library kernel numbers them.
  auto add_output = [&](const Value& value) {
    call.outputs.push_back(buffers_.at(&value));
    std::set<std::string> symbols;
    for (const Expr& size : value.type.sizes) collect_symbols(size, symbols);
    for (const std::string& symbol : symbols)
      if (bound_.insert(symbol).second) call.defines.push_back(symbol);
  };
  for (size_t i = 0; i < node.results.size() - call.mutates.size(); ++i) {
    const Value* result = node.results[i];
    if (result->kind == ValueKind::tensor) add_output(*result);
    if (is_number(result->kind))
      fail_unsupported("K0303", str("the custom operator ", node.target, " gives a number; it can only give tensors"));
    for (Value* item : result->items)
      if (item) add_output(*item);
  }
  call.proves_sizes = node.op && node.op->reads_data && call.defines.empty();
  block.push_back(Item{std::move(call)});
}

// What a custom operator writes to: the node's last results, each a copy of the argument first. Where nobody needs the
// argument's old value, update_in_place drops the copy.
std::vector<BufferId> Lowering::write_to_copies(const Node& node, Call& call, Block& block) {
  const CustomUpdates updates = custom_updates(node);
  std::vector<BufferId> written;
  std::vector<BufferId> fresh;
  for (const Value* result : node.results)
    if (result->kind == ValueKind::tensor) fresh.push_back(buffers_.at(result));
  auto arg_named = [&](const std::string& name) -> Call::Arg& {
    for (Call::Arg& arg : call.args)
      if (arg.name == name) return arg;
    fail_bug(str(node.target, " has no argument ", name));
  };
  size_t count = 0;
  for (const std::string& name : updates.names) count += argument_tensors(*node.find(name)).size();
  KILN_CHECK(count <= fresh.size(), str(node.target, " has too few results for what it writes to"));
  size_t next = fresh.size() - count;
  for (const std::string& name : updates.names) {
    Call::Arg& arg = arg_named(name);
    auto renew = [&](BufferId& id) {
      if (id == no_buffer) return;
      copy(id, fresh[next], block, node.origins);
      id = fresh[next++];
      written.push_back(id);
    };
    if (auto* id = std::get_if<BufferId>(&arg.value)) renew(*id);
    if (auto* ids = std::get_if<std::vector<BufferId>>(&arg.value))
      for (BufferId& id : *ids) renew(id);
  }
  for (const auto& [name, of] : updates.same) arg_named(name).value = arg_named(of).value;
  return written;
}

// A symbol for what is read, or, of a bool, u0 == 1.
static bool is_read_name(const Value& number) {
  const Expr& expr = number.expr;
  if (expr.op() != ExprOp::eq) return expr.is_symbol();
  const Expr &left = expr.args()[0], &right = expr.args()[1];
  return (left.is_symbol() && right.is_constant(1)) || (left.is_constant(1) && right.is_symbol());
}

void Lowering::lower_symbolic(const Node& node, Block& block) {
  // Arithmetic on symbols has become expressions; what remains are numbers read from a tensor (.item()).
  Value* source = nullptr;
  for (const Node::NamedArgument& arg : node.args)
    if (arg.arg.is_value() && arg.arg.as_value()->kind == ValueKind::tensor) source = arg.arg.as_value();
  for (Value* result : node.results) {
    std::set<std::string> fresh;
    collect_symbols(result->expr, fresh);
    std::erase_if(fresh, [&](const std::string& symbol) { return bound_.count(symbol) > 0; });
    // A size or an offset of a tensor has the value that the tensor has: only data can give a symbol a new one.
    const bool reads = source && node.op && node.op->reads_data;
    if (!reads && !fresh.empty())
      fail_unsupported("K0304", str("the symbol ", *fresh.begin(), " is used before any operator gives it a value"));
    if (!reads) continue;
    const BufferId data = buffers_.at(source);
    if (fresh.empty()) {
      check_number(*result, data, node.origins, block);
      continue;
    }
    if (!is_read_name(*result))
      fail_unsupported("K0304", str("the program says that the number read from a tensor is ", result->expr.text(),
                                    ", which gives ", *fresh.begin(), " no value"));
    block.push_back(Item{BindSymbol{*fresh.begin(), data, node.origins}});
    bound_.insert(*fresh.begin());
    read_from_[*fresh.begin()] = data;
  }
}

// The export knew what the number would be (torch._check(n == 4), or equal to another one) and wrote that instead of a
// symbol: the data must agree, for nothing after this looks at it again.
void Lowering::check_number(const Value& number, BufferId data, const std::vector<Origin>& origins, Block& block) {
  if (number.kind == ValueKind::sym_float) {
    const auto read = number.expr.is_symbol() ? read_from_.find(number.expr.name()) : read_from_.end();
    if (read != read_from_.end() && read->second == data) return;  // the same element, read again
    fail_unsupported("K0304", str("the program says that the float read from a tensor is ", number.expr.text(),
                                  ", which was not read from there"));
  }
  SymbolInfo info;
  info.name = str("read", control_flow_count_++);
  info.unbacked = true;
  program_.symbols[info.name] = info;
  ranges_.ranges[info.name] = info.range;
  bound_.insert(info.name);
  const Expr expected =
      number.expr.is_boolean() ? Expr::make(ExprOp::ite, {number.expr, Expr(1), Expr(0)}) : number.expr;
  block.push_back(Item{BindSymbol{info.name, data, origins}});
  block.push_back(Item{AssertThat{compare_eq(Expr::symbol(info.name), expected),
                                  "the number read from a tensor is not the one that the program relies on", origins}});
}

void Lowering::lower_assertion(const Node& node, Block& block) {
  for (const Node::NamedArgument& arg : node.args) {
    if (!arg.arg.is_value()) continue;
    Value* value = arg.arg.as_value();
    if (value->kind != ValueKind::sym_bool) continue;
    std::string message = "assertion failed";
    for (const Node::NamedArgument& other : node.args)
      if (auto* text = std::get_if<std::string>(&other.arg.value)) message = *text;
    if (prove(value->expr, ranges_) == Proof::yes) return;
    block.push_back(Item{AssertThat{value->expr, message, node.origins}});
  }
}

}  // namespace kiln
