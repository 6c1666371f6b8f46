// A product in parts, compiled: what a tile has of its sum waits in its result while other items have their turn. The
// same as in one, for rows with and without a rest, whatever the number of threads, and with blocks or without.
#include "executable/loops_package_test.h"

namespace kiln {
namespace {

struct Sum {
  int64_t rows, columns, parts, terms, tile;  // terms: of a part; tile: rows
};

int lanes_of_host() { return codegen::cpu_backend().target(codegen::cpu_backend().host_target_name()).lanes; }

std::string product(const Sum& s) {
  const int64_t all = s.parts * s.terms, width = 2 * lanes_of_host();
  return str(
      "loops parts\nbuffer x f32[", s.rows, ", ", all, "] strides [", all, ", 1] input position 0\nbuffer w f32[", all,
      ", ", s.columns, "] strides [", s.columns, ", 1] constant named \"w\"\nbuffer y f32[", s.rows, ", ", s.columns,
      "] strides [", s.columns, ", 1] output position 0\ninput x = buffer x\noutput buffer y\n",
      "init {\n}\nmain {\n  kernel product ops [mm] {\n    contraction batch [] rows [i0] columns [i1] ",
      "sums [p0, r0] left %2 of [%2] right %3 of [%3] shared []\n    schedule items [",
      (s.rows + s.tile - 1) / s.tile * (s.columns / width), "] grain 1 lanes ", lanes_of_host(), " tile ", s.tile,
      " rows 2 vectors beside\n    for i0 in [", s.rows, "] parallel @item(", s.tile, ", mask) {\n      for i1 in [",
      s.columns, "] parallel @lane(", lanes_of_host(), ", mask) {\n        %0 = for p0 in [", s.parts,
      "] reduce sum.f32 @serial {\n          %1 = for r0 in [", s.terms, "] reduce sum.f32 fused ",
      s.terms > 256 ? "blocks(256, f32) " : "", "{\n            %2 = load.f32 x[i0, p0*", s.terms,
      " + r0]\n            %3 = load.f32 w[p0*", s.terms, R"( + r0, i1]
            %4 = mul.f32 %2, %3
            yield %4
          }
          yield %1
        }
        %5 = constant.f32 0.5
        %6 = add.f32 %0, %5
        store y[i0, i1] = %6
      }
    }
  }
}
)");
}

class SumParts : public testing::TestWithParam<Sum> {};

TEST_P(SumParts, AreTheSameAsOneSum) {
  const Sum s = GetParam();
  const LoopsPackage package(product(s), {{"w", filled(DType::f32, {s.parts * s.terms, s.columns}, 3)}});
  const std::vector<Datum> inputs = {{filled(DType::f32, {s.rows, s.parts * s.terms}, 5)}};
  expect_runs(package, inputs, package.interpreted(inputs), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SumParts,
                         testing::Values(Sum{24, 128, 3, 300, 8},  // blocks in each part
                                         Sum{23, 64, 4, 40, 6},    // a rest of rows, no blocks
                                         Sum{5, 64, 2, 17, 8}));   // fewer rows than a tile

TEST(SumPartsText, WantAPlaceToWaitIn) {
  const std::string text = product({24, 128, 3, 300, 8});
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    try {
      loops::verify(loops::parse_loops(changed));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused("%0", "%0"), "");
  // What is read is not to be written in between.
  EXPECT_NE(refused("%5 = constant.f32 0.5", "%5 = load.f32 y[i0, i1]").find("no place to wait in"), std::string::npos);
  EXPECT_NE(refused("reduce sum.f32 fused blocks(256, f32)", "reduce sum.f32 fused blocks(256, f32) @serial")
                .find("an inner sum"),
            std::string::npos);
  EXPECT_NE(refused("sum.f32 @serial", "sum.f32 blocks(2, f32) @serial").find("in blocks"), std::string::npos);
}

}  // namespace
}  // namespace kiln
