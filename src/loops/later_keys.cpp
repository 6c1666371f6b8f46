#include "loops/later_keys.h"

#include <algorithm>
#include <cmath>

namespace kiln::loops {
namespace {

using Bound = std::optional<int64_t>;  // something holds wherever key > row + n

constexpr int64_t everywhere = INT64_MIN;

Bound both(const Bound& a, const Bound& b) { return a && b ? Bound(std::max(*a, *b)) : std::nullopt; }
Bound either(const Bound& a, const Bound& b) { return a && b ? Bound(std::min(*a, *b)) : a ? a : b; }

bool has_infinity(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

class Reader {
 public:
  explicit Reader(const ScoreReader& given) : given_(given) {}

  // Of a score, or of what is added to it.
  Bound lowest(ValueId v) const {
    const Stmt* s = given_.made(v);
    if (!s) return std::nullopt;
    if (s->kind == StmtKind::constant)
      return s->constant.is_float() && s->constant.as_double() == -INFINITY ? Bound(everywhere) : std::nullopt;
    if (s->kind != StmtKind::op) return std::nullopt;
    if (s->op == ScalarOp::cast) return has_infinity(s->dtype) ? lowest(s->args[0]) : std::nullopt;
    if (s->op == ScalarOp::add) return either(lowest(s->args[0]), lowest(s->args[1]));
    if (s->op != ScalarOp::select) return std::nullopt;
    const Bound yes = lowest(s->args[1]), no = lowest(s->args[2]);
    return either(both(yes, no), either(both(yes, is(true, s->args[0])), both(no, is(false, s->args[0]))));
  }

 private:
  // Where a condition is known to hold, or not to.
  Bound is(bool wanted, ValueId v) const {
    const Stmt* s = given_.made(v);
    if (!s || s->dtype != DType::boolean) return std::nullopt;
    if (s->kind == StmtKind::constant)
      return (s->constant.as_double() != 0) == wanted ? Bound(everywhere) : std::nullopt;
    if (s->kind != StmtKind::op) return std::nullopt;
    switch (s->op) {
      case ScalarOp::select: {
        const Bound yes = is(wanted, s->args[1]), no = is(wanted, s->args[2]);
        return either(both(yes, no), either(both(yes, is(true, s->args[0])), both(no, is(false, s->args[0]))));
      }
      case ScalarOp::logical_and:
      case ScalarOp::bit_and:
        return wanted ? both(is(true, s->args[0]), is(true, s->args[1]))
                      : either(is(false, s->args[0]), is(false, s->args[1]));
      case ScalarOp::logical_or:
      case ScalarOp::bit_or:
        return wanted ? either(is(true, s->args[0]), is(true, s->args[1]))
                      : both(is(false, s->args[0]), is(false, s->args[1]));
      case ScalarOp::logical_not:
      case ScalarOp::bit_not:
        return is(!wanted, s->args[0]);
      case ScalarOp::le:
        return at_most(wanted, s->args[0], s->args[1], 0);
      case ScalarOp::lt:
        return at_most(wanted, s->args[0], s->args[1], 1);
      case ScalarOp::ge:
        return at_most(wanted, s->args[1], s->args[0], 0);
      case ScalarOp::gt:
        return at_most(wanted, s->args[1], s->args[0], 1);
      default:
        return std::nullopt;
    }
  }

  // a + apart <= b, of the numbers of key and row.
  Bound at_most(bool wanted, ValueId a, ValueId b, int64_t apart) const {
    const std::optional<Expr> left = number(a), right = number(b);
    if (!left || !right) return std::nullopt;
    const auto of_key = affine_in(*left + Expr(apart) - *right, given_.key);
    const auto of_row = of_key ? affine_in(of_key->rest, given_.row) : std::nullopt;
    if (!of_row || !of_row->rest.is_constant()) return std::nullopt;
    const int64_t rest = of_row->rest.value();
    // key - row + rest <= 0 fails beyond row - rest; row - key + rest <= 0 holds from row + rest on.
    if (!wanted && of_key->coefficient.is_constant(1) && of_row->coefficient.is_constant(-1)) return -rest;
    if (wanted && of_key->coefficient.is_constant(-1) && of_row->coefficient.is_constant(1)) return rest - 1;
    return std::nullopt;
  }

  std::optional<Expr> number(ValueId v) const {
    const Stmt* s = given_.made(v);
    if (!s || (s->dtype != DType::i64 && s->dtype != DType::i32)) return std::nullopt;
    if (s->kind == StmtKind::index_value) return given_.numbered(*s);
    if (s->kind == StmtKind::constant) return Expr(s->constant.as_int());
    if (s->kind != StmtKind::op) return std::nullopt;
    if (s->op == ScalarOp::cast) return number(s->args[0]);
    if (s->op != ScalarOp::add && s->op != ScalarOp::sub) return std::nullopt;
    const std::optional<Expr> a = number(s->args[0]), b = number(s->args[1]);
    if (!a || !b) return std::nullopt;
    return s->op == ScalarOp::add ? *a + *b : *a - *b;
  }

  const ScoreReader& given_;
};

}  // namespace

std::optional<int64_t> masked_beyond(const ScoreReader& reader, ValueId score) {
  const Bound found = Reader(reader).lowest(score);
  return found && *found != everywhere ? found : std::nullopt;
}

}  // namespace kiln::loops
