#include "pt2/extents.h"

#include <algorithm>

namespace kiln {
namespace {

class Extents {
 public:
  explicit Extents(const RangeEnv& ranges) : ranges_(ranges) {}

  void check(const Graph& graph) const {
    for (const Value* input : graph.inputs) check(*input);
    for (const auto& node : graph.nodes) {
      try {
        for (const Value* result : node->results) check(*result);
        for (const auto& named : node->args) check(named.arg);
      } catch (Error& error) {
        error.locate(node->where());
        throw;
      }
    }
  }

 private:
  void check(const Argument& arg) const {
    if (arg.is_graph() && arg.as_graph() != nullptr) check(*arg.as_graph());
    if (arg.is_list())
      for (const Argument& element : arg.as_list()) check(element);
  }

  void check(const Value& value) const {
    for (const Value* item : value.items)
      if (item != nullptr) check(*item);
    if (value.kind != ValueKind::tensor) return;
    const TensorType& type = value.type;
    for (const Expr& size : type.sizes) natural(value, size, "size");
    for (const Expr& stride : type.strides) natural(value, stride, "stride");
    natural(value, type.offset, "offset");
    const auto fixed = [](const Expr& expr) { return expr.is_constant(); };
    if (std::all_of(type.sizes.begin(), type.sizes.end(), fixed) &&
        std::all_of(type.strides.begin(), type.strides.end(), fixed) && fixed(type.offset))
      storage_bytes_needed(type.dtype, numbers(type.sizes), numbers(type.strides), type.offset.value());
  }

  void natural(const Value& value, const Expr& expr, const char* what) const {
    if (range_of(expr, ranges_).high >= 0) return;
    fail_user("K0116", str("the program says that ", value.name, " has the ", what, " ", expr.text(),
                           ", which is negative", expr.is_constant() ? "" : " for every value of its symbols"));
  }

  static std::vector<int64_t> numbers(const std::vector<Expr>& exprs) {
    std::vector<int64_t> out;
    for (const Expr& expr : exprs) out.push_back(expr.value());
    return out;
  }

  RangeEnv ranges_;
};

}  // namespace

void check_extents(const Program& program) { Extents(program.ranges()).check(program.graph); }

}  // namespace kiln
