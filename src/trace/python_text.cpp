#include "trace/python_text.h"

#include <cmath>

#include "base/text.h"

namespace kiln {
namespace {

std::string python_float(double value) {
  if (std::isnan(value)) return "float('nan')";
  if (std::isinf(value)) return value > 0 ? "float('inf')" : "-float('inf')";
  return float_text(value);
}

const std::set<std::string>& keywords() {
  static const std::set<std::string> words = {"False", "None",   "True",    "and",      "as",     "assert",   "async",
                                              "await", "break",  "class",   "continue", "def",    "del",      "elif",
                                              "else",  "except", "for",     "from",     "global", "if",       "import",
                                              "in",    "is",     "lambda",  "not",      "or",     "nonlocal", "pass",
                                              "raise", "return", "finally", "try",      "while",  "with",     "yield"};
  return words;
}

// Every operator in brackets of its own: right is more than short.
std::string infix(const Expr& expr, const char* op) {
  return str("(", join_map(expr.args(), str(" ", op, " "), [](const Expr& e) { return python_expression(e); }), ")");
}
std::string function(const Expr& expr, const char* name) {
  return str(name, "(", join_map(expr.args(), ", ", [](const Expr& e) { return python_expression(e); }), ")");
}

}  // namespace

std::string python_scalar(const Scalar& scalar) {
  if (scalar.is_bool()) return scalar.as_int() ? "True" : "False";
  if (scalar.is_int()) return str(scalar.as_int());
  if (scalar.is_float()) return python_float(scalar.as_double());
  return str("complex(", python_float(scalar.as_complex().real()), ", ", python_float(scalar.as_complex().imag()), ")");
}

std::string python_name(std::string_view text) {
  std::string out;
  for (const char c : text) out += isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (out.empty() || isdigit(static_cast<unsigned char>(out[0]))) out.insert(out.begin(), '_');
  return keywords().contains(out) ? out + "_" : out;
}

std::string python_path(std::string_view text) {
  bool start = true, plain = !text.empty();
  for (const char c : text) {
    plain &= isalnum(static_cast<unsigned char>(c)) || c == '_' || (c == '.' && !start);
    plain &= !(start && isdigit(static_cast<unsigned char>(c)));
    start = c == '.';
  }
  return plain && !start ? std::string(text) : str("no_such_function[", python_quote(text), "]");
}

std::string python_expression(const Expr& expr) {
  switch (expr.op()) {
    case ExprOp::constant:
      return str(expr.value());
    case ExprOp::symbol:
      return expr.name();
    case ExprOp::float_constant:
      return python_float(expr.float_value());
    case ExprOp::add:
      return infix(expr, "+");
    case ExprOp::mul:
      return infix(expr, "*");
    case ExprOp::floordiv:
      return infix(expr, "//");
    case ExprOp::truediv:
      return infix(expr, "/");
    case ExprOp::mod:
      return infix(expr, "%");
    case ExprOp::pow:
      return infix(expr, "**");
    case ExprOp::eq:
      return infix(expr, "==");
    case ExprOp::ne:
      return infix(expr, "!=");
    case ExprOp::lt:
      return infix(expr, "<");
    case ExprOp::le:
      return infix(expr, "<=");
    case ExprOp::logical_and:
      return infix(expr, "and");
    case ExprOp::logical_or:
      return infix(expr, "or");
    case ExprOp::logical_not:
      return str("(not ", python_expression(expr.args().at(0)), ")");
    case ExprOp::ite:
      return str("(", python_expression(expr.args().at(1)), " if ", python_expression(expr.args().at(0)), " else ",
                 python_expression(expr.args().at(2)), ")");
    case ExprOp::min:
      return function(expr, "min");
    case ExprOp::max:
      return function(expr, "max");
    case ExprOp::to_float:
      return function(expr, "float");
    case ExprOp::to_int:
      return function(expr, "int");
    case ExprOp::floor_to_int:
      return function(expr, "math.floor");
    case ExprOp::ceil_to_int:
      return function(expr, "math.ceil");
    case ExprOp::sqrt:
      return function(expr, "math.sqrt");
  }
  return expr.text();
}

const std::set<std::string>& python_reserved_names() {
  static const std::set<std::string> names = {"self", "torch", "math",    "operator", "os",    "sys",    "min", "max",
                                              "int",  "float", "complex", "run_with", "Model", "values", "main"};
  return names;
}

const char* const runnable_prologue = R"(
import math
import operator
import os
import sys

import torch
import torch._functorch.predispatch


def run_with(context, function, *operands):
    with context:
        return function(*operands)

)";

const char* const runnable_epilogue = R"(

def load_values():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), $VALUES)
    values = torch.load(path, weights_only=True)
    weights = {k[len("weights/"):]: v for k, v in values.items() if k.startswith("weights/")}
    inputs = []
    while f"inputs/{len(inputs)}" in values:
        inputs.append(values[f"inputs/{len(inputs)}"])
    return weights, inputs


def run(inputs=None):
    weights, samples = load_values()
    with torch.no_grad():
        return Model(weights)(*(samples if inputs is None else inputs))


def main(arguments):
    inputs, output = None, None
    while arguments:
        option = arguments.pop(0)
        if option == "--inputs" and arguments:
            inputs = torch.load(arguments.pop(0), weights_only=True)
        elif option in ("-o", "--output") and arguments:
            output = arguments.pop(0)
        else:
            sys.exit("usage: fx_graph_runnable.py [--inputs FILE.pt] [-o OUT.pt]")
    outputs = run(inputs)
    for i, value in enumerate(outputs):
        print(f"output {i}:", value)
    if output is not None:
        torch.save(list(outputs), output)


if __name__ == "__main__":
    main(sys.argv[1:])
)";

}  // namespace kiln
