// Values of real operators, so that formulas read as formulas.
#pragma once
#include "ops/composite.h"

namespace kiln {

class RealFormula {
 public:
  RealFormula(Build& b, Value* value) : b_(&b), value_(value) {}
  Value* value() const { return value_; }
  Argument argument() const { return Argument(value_); }
  bool is_wide() const { return value_->type.dtype == DType::f64; }

  RealFormula call(std::string_view op) const { return made(op, {value_}); }
  RealFormula call(std::string_view op, const RealFormula& y) const { return made(op, {value_, y.value_}); }
  RealFormula call(std::string_view op, double y) const { return made(op, {value_, Scalar(y)}); }

  friend RealFormula operator+(const RealFormula& x, const RealFormula& y) { return x.call("add.Tensor", y); }
  friend RealFormula operator+(const RealFormula& x, double y) { return x.call("add.Tensor", y); }
  friend RealFormula operator-(const RealFormula& x, const RealFormula& y) { return x.call("sub.Tensor", y); }
  friend RealFormula operator-(const RealFormula& x, double y) { return x.call("sub.Tensor", y); }
  friend RealFormula operator-(double x, const RealFormula& y) { return y.call("rsub.Scalar", x); }
  friend RealFormula operator-(const RealFormula& x) { return x.call("neg"); }
  friend RealFormula operator*(const RealFormula& x, const RealFormula& y) { return x.call("mul.Tensor", y); }
  friend RealFormula operator*(const RealFormula& x, double y) { return x.call("mul.Tensor", y); }
  friend RealFormula operator/(const RealFormula& x, const RealFormula& y) { return x.call("div.Tensor", y); }
  friend RealFormula operator/(double x, const RealFormula& y) { return y.call("reciprocal") * x; }
  friend RealFormula operator<(const RealFormula& x, double y) { return x.call("lt.Scalar", y); }
  friend RealFormula operator>(const RealFormula& x, double y) { return x.call("gt.Scalar", y); }
  friend RealFormula operator>=(const RealFormula& x, double y) { return x.call("ge.Scalar", y); }
  friend RealFormula operator==(const RealFormula& x, double y) { return x.call("eq.Scalar", y); }
  // Of conditions.
  friend RealFormula operator&(const RealFormula& x, const RealFormula& y) { return x.call("logical_and", y); }
  friend RealFormula operator|(const RealFormula& x, const RealFormula& y) { return x.call("logical_or", y); }

  RealFormula where(const RealFormula& yes, const RealFormula& no) const {
    return made("where.self", {value_, yes.value_, no.value_});
  }
  RealFormula where(const RealFormula& yes, double no) const {
    return made("where.ScalarOther", {value_, yes.value_, Scalar(no)});
  }
  RealFormula where(double yes, const RealFormula& no) const {
    return made("where.ScalarSelf", {value_, Scalar(yes), no.value_});
  }

 private:
  RealFormula made(std::string_view op, std::vector<Argument> args) const { return {*b_, (*b_)(op, std::move(args))}; }
  Build* b_;
  Value* value_;
};

inline RealFormula abs(const RealFormula& x) { return x.call("abs"); }
inline RealFormula sqrt(const RealFormula& x) { return x.call("sqrt"); }
inline RealFormula exp(const RealFormula& x) { return x.call("exp"); }
inline RealFormula expm1(const RealFormula& x) { return x.call("expm1"); }
inline RealFormula log(const RealFormula& x) { return x.call("log"); }
inline RealFormula log1p(const RealFormula& x) { return x.call("log1p"); }
inline RealFormula sin(const RealFormula& x) { return x.call("sin"); }
inline RealFormula cos(const RealFormula& x) { return x.call("cos"); }
inline RealFormula sinh(const RealFormula& x) { return x.call("sinh"); }
inline RealFormula cosh(const RealFormula& x) { return x.call("cosh"); }
inline RealFormula isnan(const RealFormula& x) { return x.call("isnan"); }
inline RealFormula isinf(const RealFormula& x) { return x.call("isinf"); }
inline RealFormula hypot(const RealFormula& x, const RealFormula& y) { return x.call("hypot", y); }
inline RealFormula atan2(const RealFormula& y, const RealFormula& x) { return y.call("atan2", x); }
inline RealFormula copysign(const RealFormula& x, const RealFormula& sign) { return x.call("copysign.Tensor", sign); }
inline RealFormula maximum(const RealFormula& x, const RealFormula& y) { return x.call("maximum", y); }
inline RealFormula minimum(const RealFormula& x, const RealFormula& y) { return x.call("minimum", y); }

}  // namespace kiln
