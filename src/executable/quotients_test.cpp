// Quotients by a whole number, which vectors compute without dividing: every bit as the interpreter's.
#include <cmath>
#include <limits>

#include "executable/loops_package_test.h"

namespace kiln {
namespace {

TEST(Quotients, AreExact) {
  const int lanes = codegen::cpu_backend().target(codegen::cpu_backend().host_target_name()).lanes;
  constexpr int64_t count = 20003;
  Tensor x = Tensor::empty(DType::f32, {count});
  const double edges[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, std::numeric_limits<float>::max(), -3.4e38, 6.0, 1e-30};
  uint32_t state = 12345;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const double any = std::ldexp(1.0 + static_cast<double>(state >> 9) * 0x1p-23, static_cast<int>(state % 60) - 30);
    x.set_item(i, Scalar(i < 9 ? edges[i] : state & 256 ? any : -any));
  }
  for (const char* divisor : {"3.0", "6.0", "49.0", "1000.0", "2.5", "-6.0", "2048.0"}) {
    const LoopsPackage package(
        str("loops quotient\nbuffer x f32[", count, "] strides [1] input position 0\nbuffer y f32[", count,
            "] strides [1] output position 0\ninput x = buffer x\noutput buffer y\ninit {\n}\n",
            "main {\n  kernel divide ops [div] {\n    schedule items [1] grain 1 lanes ", lanes,
            "\n    for o0 in [1] parallel @item {\n      %0 = constant.f32 ", divisor, "\n      for i0 in [", count,
            "] parallel @lane(", lanes, ", mask) {\n        %1 = load.f32 x[i0]\n        %2 = div.f32 %1, %0\n",
            "        store y[i0] = %2\n      }\n    }\n  }\n}\n"));
    const Tensor have = package.run({{x}})[0].tensor(), want = package.interpreted({{x}})[0].tensor();
    for (int64_t i = 0; i < count; ++i) {
      const auto a = static_cast<float>(have.item(i).as_double()), b = static_cast<float>(want.item(i).as_double());
      ASSERT_TRUE((std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b)))
          << divisor << ": " << x.item(i).as_double() << " gives " << a << ", not " << b;
    }
  }
}

}  // namespace
}  // namespace kiln
