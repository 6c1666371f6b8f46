// The matrix-product template as a schedule over plain Loops: three nests with different holes, each run by the loop
// interpreter (which knows no template) and by the compiled kernel, and compared.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "executable/loops_package_test.h"
#include "kiln/kernel_abi.h"
#include "schedule/schedule.h"
#include "toolchain/compiler.h"

namespace kiln {
namespace {

using loops::LoopProgram;

std::string decisions_text(const loops::Log& log) {
  std::string out;
  for (const loops::Decision& decision : log.decisions()) out += decision.text() + "\n";
  return out;
}

// Schedules the program, compiles its one kernel and runs it on the interpreter's inputs.
class Template : public testing::Test {
 protected:
  void plain(const char* text) {
    plain_ = loops::parse_loops(text);
    loops::verify(plain_);
  }

  void schedule_for(const codegen::Target& target) {
    scheduled_ = plain_.clone();
    loops::Log log;
    loops::merge_kernels(scheduled_, log);
    loops::forward_stores(scheduled_, log);
    loops::simplify_bodies(scheduled_, log);
    loops::remove_dead_kernels(scheduled_, log);
    loops::hoist_invariants(scheduled_, log);
    loops::find_contractions(scheduled_, log);
    loops::use_templates(scheduled_, target, log);
    loops::bind_axes(scheduled_, target, log);
    loops::widen_sums(scheduled_, log);
    loops::order_sums(scheduled_, log);
    loops::count_items(scheduled_, log);
    loops::name_kernels(scheduled_, log);
    loops::verify(scheduled_);
    ASSERT_EQ(scheduled_.block.size(), 1u) << loops::print(scheduled_) << decisions_text(log);
    ASSERT_GT(kernel().schedule->tile.rows, 0) << decisions_text(log);
    // Scheduled text reads back as itself.
    std::string once = loops::print(scheduled_);
    EXPECT_EQ(loops::print(loops::parse_loops(once)), once);
  }

  const loops::Kernel& kernel() const { return std::get<loops::Kernel>(scheduled_.block[0].what); }

  // Runs both and compares the buffer named `out` element by element.
  void compare(const std::map<std::string, Tensor>& inputs, double tolerance) {
    std::vector<Datum> flat;
    for (const LoopProgram::Input& input : plain_.inputs) flat.push_back({inputs.at(input.name)});
    auto expected = loops::LoopInterpreter(plain_, {}, {}).run(flat).outputs;
    for (const char* target : {"x86-64-v4", "x86-64-v3", "generic"}) {
      if (std::string(target) != "generic" && codegen::cpu_backend().host_target_name() < target) continue;
      schedule_for(codegen::cpu_backend().target(target));
      run_compiled(target, inputs, expected, tolerance);
    }
  }

  void run_compiled(const char* target, const std::map<std::string, Tensor>& inputs, const std::vector<Datum>& expected,
                    double tolerance) {
    codegen::GeneratedCode code = codegen::cpu_backend().generate(scheduled_, codegen::cpu_backend().target(target));
    source_ = code.sources.at(0);
    std::string object =
        build_shared_object(find_compiler(), {code.sources, code.flags, code.symbols, {}, {}}, KernelCache(""))
            .shared_object;
    TemporaryDirectory directory("kiln-template-test");
    std::string path = join_path(directory.path(), "kernels.so");
    write_file_atomic(path, object);
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    auto function = reinterpret_cast<kiln_kernel>(dlsym(library, code.symbols.at(0).c_str()));
    ASSERT_NE(function, nullptr);
    const codegen::StepCode& step = code.steps.at(&kernel());
    std::map<std::string, Tensor> tensors = inputs;
    std::vector<Tensor> results;
    std::vector<void*> pointers;
    std::vector<Tensor> keep;
    for (loops::BufferId id : step.buffers) {
      const loops::Buffer& buffer = scheduled_.buffers[static_cast<size_t>(id)];
      if (!tensors.count(buffer.name)) {
        std::vector<int64_t> sizes;
        for (const Expr& size : buffer.sizes) sizes.push_back(evaluate(size, {}));
        tensors[buffer.name] = Tensor::empty(buffer.dtype, sizes);
      }
      pointers.push_back(tensors[buffer.name].data());
    }
    kiln_error_slot slot{};
    kiln_kernel_context context{KILN_KERNEL_ABI_VERSION, 0, nullptr, 0, &slot, 0, nullptr};
    ASSERT_EQ(function(&context, pointers.data(), nullptr, 0, evaluate(kernel().schedule->items, {})), 0);
    for (size_t o = 0; o < expected.size(); ++o) {
      const Tensor& want = expected[o].tensor();
      const Tensor& have = tensors.at(
          scheduled_.buffers[static_cast<size_t>(std::get<loops::BufferId>(scheduled_.outputs[o].what))].name);
      for (int64_t i = 0; i < want.numel(); ++i)
        ASSERT_NEAR(have.item(i).as_double(), want.item(i).as_double(), tolerance) << target << " element " << i;
    }
    dlclose(library);
  }

  LoopProgram plain_, scheduled_;
  std::string source_;
};

// What is left over beside whole tiles is one tile, whose last vector has fewer columns.
TEST_F(Template, ColumnsLeftOverAreOneTile) {
  const std::string text = R"(loops left_over
buffer a f32[19, 21] strides [21, 1] input position 0
buffer b f32[21, COLUMNS] strides [COLUMNS, 1] input position 1
buffer c f32[19, COLUMNS] strides [COLUMNS, 1] input position 2
buffer out f32[19, COLUMNS] strides [COLUMNS, 1] output position 0
input a = buffer a
input b = buffer b
input c = buffer c
output buffer out
init {
}
main {
  kernel mm ops [mm] {
    for i0 in [19] parallel {
      for i1 in [COLUMNS] parallel {
        %0 = for r0 in [21] reduce sum.f32 {
          %1 = load.f32 a[i0, r0]
          %2 = load.f32 b[r0, i1]
          %3 = mul.f32 %1, %2
          yield %3
        }
        %4 = load.f32 c[i0, i1]
        %5 = add.f32 %0, %4
        store out[i0, i1] = %5
      }
    }
  }
}
)";
  for (const int64_t columns : {9, 24, 32, 40, 72, 77, 88, 120}) {
    plain(replace_all(text, "COLUMNS", std::to_string(columns)).c_str());
    Tensor a = Tensor::empty(DType::f32, {19, 21}), b = Tensor::empty(DType::f32, {21, columns}),
           c = Tensor::empty(DType::f32, {19, columns});
    for (Tensor* tensor : {&a, &b, &c})
      for (int64_t i = 0; i < tensor->numel(); ++i) tensor->set_item(i, Scalar(static_cast<double>(i % 13) / 8 - 0.7));
    compare({{"a", a}, {"b", b}, {"c", c}}, 1e-5);
    EXPECT_EQ(source_.find("for (; column < n_end;"), std::string::npos) << columns;
  }
}

// Of whole numbers, which wrap; a vector of them is two registers, as one of f64 is.
TEST_F(Template, WideTypes) {
  const std::string text = R"(loops wide
buffer a TYPE[13, 21] strides [21, 1] input position 0
buffer b TYPE[21, 40] strides [40, 1] input position 1
buffer out TYPE[13, 40] strides [40, 1] output position 0
input a = buffer a
input b = buffer b
output buffer out
init {
}
main {
  kernel mm ops [mm] {
    for i0 in [13] parallel {
      for i1 in [40] parallel {
        %0 = for r0 in [21] reduce sum.TYPE {
          %1 = load.TYPE a[i0, r0]
          %2 = load.TYPE b[r0, i1]
          %3 = mul.TYPE %1, %2
          yield %3
        }
        store out[i0, i1] = %0
      }
    }
  }
}
)";
  for (const DType type : {DType::i64, DType::f64}) {
    plain(replace_all(text, "TYPE", type == DType::i64 ? "i64" : "f64").c_str());
    Tensor a = Tensor::empty(type, {13, 21}), b = Tensor::empty(type, {21, 40});
    for (Tensor* tensor : {&a, &b})
      for (int64_t i = 0; i < tensor->numel(); ++i)
        tensor->set_item(i, type == DType::i64 ? Scalar(i % 17 - 8) : Scalar(static_cast<double>(i % 17) / 8 - 1));
    compare({{"a", a}, {"b", b}}, type == DType::i64 ? 0 : 1e-12);
    EXPECT_LE(kernel().schedule->tile.rows * kernel().schedule->tile.vectors * 2, 28) << "they stay in registers";
  }
}

TEST_F(Template, BiasAndGeluEpilogue) {
  plain(R"(loops bias_gelu
buffer a f32[13, 37] strides [37, 1] input position 0
buffer b f32[37, 45] strides [45, 1] input position 1
buffer bias f32[45] strides [1] input position 2
buffer product f32[13, 45] strides [45, 1] temp
buffer out f32[13, 45] strides [45, 1] output position 0
input a = buffer a
input b = buffer b
input bias = buffer bias
output buffer out
init {
}
main {
  kernel mm ops [mm] {
    for i0 in [13] parallel {
      for i1 in [45] parallel {
        %0 = for r0 in [37] reduce sum.f32 {
          %1 = load.f32 a[i0, r0]
          %2 = load.f32 b[r0, i1]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store product[i0, i1] = %0
      }
    }
  }
  kernel gelu ops [add, gelu] {
    for i0 in [13] parallel {
      for i1 in [45] parallel {
        %0 = load.f32 product[i0, i1]
        %1 = load.f32 bias[i1]
        %2 = add.f32 %0, %1
        %3 = constant.f32 0.7071067811865476
        %4 = mul.f32 %2, %3
        %5 = erf.f32 %4
        %6 = constant.f32 1.0
        %7 = add.f32 %5, %6
        %8 = constant.f32 0.5
        %9 = mul.f32 %2, %8
        %10 = mul.f32 %9, %7
        store out[i0, i1] = %10
      }
    }
  }
}
)");
  compare({{"a", filled(DType::f32, {13, 37}, 1)},
           {"b", filled(DType::f32, {37, 45}, 2)},
           {"bias", filled(DType::f32, {45}, 3)}},
          1e-3);
  EXPECT_NE(source_.find("k_erf("), std::string::npos) << "the epilogue is printed into the tile";
  EXPECT_EQ(kernel().name, "cpp_mm_mm_add_gelu_0");
}

TEST_F(Template, DequantisingPrologue) {
  plain(R"(loops dequant
buffer a f32[9, 64] strides [64, 1] input position 0
buffer q i8[64, 48] strides [48, 1] input position 1
buffer scale f32[48] strides [1] input position 2
buffer out f32[9, 48] strides [48, 1] output position 0
input a = buffer a
input q = buffer q
input scale = buffer scale
output buffer out
init {
}
main {
  kernel mm ops [dequantize, mm] {
    for i0 in [9] parallel {
      for i1 in [48] parallel {
        %0 = for r0 in [64] reduce sum.f32 {
          %1 = load.f32 a[i0, r0]
          %2 = load.i8 q[r0, i1]
          %3 = cast.f32 %2
          %4 = load.f32 scale[i1]
          %5 = mul.f32 %3, %4
          %6 = mul.f32 %1, %5
          yield %6
        }
        store out[i0, i1] = %0
      }
    }
  }
}
)");
  compare({{"a", filled(DType::f32, {9, 64}, 1)},
           {"q", filled(DType::i8, {64, 48}, 2)},
           {"scale", filled(DType::f32, {48}, 3)}},
          2e-2);
  EXPECT_NE(source_.find("k_load_i8"), std::string::npos) << "the narrow operand is loaded inside the product";
}

TEST_F(Template, RowStatisticsEpilogue) {
  plain(R"(loops row_softmax
buffer a f32[21, 32] strides [32, 1] input position 0
buffer b f32[32, 40] strides [40, 1] input position 1
buffer product f32[21, 40] strides [40, 1] temp
buffer top f32[21] strides [1] temp
buffer total f32[21] strides [1] temp
buffer out f32[21, 40] strides [40, 1] output position 0
input a = buffer a
input b = buffer b
output buffer out
init {
}
main {
  kernel mm ops [mm] {
    for i0 in [21] parallel {
      for i1 in [40] parallel {
        %0 = for r0 in [32] reduce sum.f32 {
          %1 = load.f32 a[i0, r0]
          %2 = load.f32 b[r0, i1]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store product[i0, i1] = %0
      }
    }
  }
  kernel top ops [amax] {
    for i0 in [21] parallel {
      %0 = for r0 in [40] reduce max.f32 {
        %1 = load.f32 product[i0, r0]
        yield %1
      }
      store top[i0] = %0
    }
  }
  kernel total ops [sub, exp, sum] {
    for i0 in [21] parallel {
      %0 = for r0 in [40] reduce sum.f32 {
        %1 = load.f32 product[i0, r0]
        %2 = load.f32 top[i0]
        %3 = sub.f32 %1, %2
        %4 = exp.f32 %3
        yield %4
      }
      store total[i0] = %0
    }
  }
  kernel out ops [div] {
    for i0 in [21] parallel {
      for i1 in [40] parallel {
        %0 = load.f32 product[i0, i1]
        %1 = load.f32 top[i0]
        %2 = sub.f32 %0, %1
        %3 = exp.f32 %2
        %4 = load.f32 total[i0]
        %5 = div.f32 %3, %4
        store out[i0, i1] = %5
      }
    }
  }
}
)");
  compare({{"a", filled(DType::f32, {21, 32}, 5)}, {"b", filled(DType::f32, {32, 40}, 6)}}, 1e-5);
  EXPECT_EQ(kernel().name, "cpp_mm_mm_amax_sub_exp_sum_div_0");
}

// A schedule written by hand, for a product of odd sizes, runs as it is written: the printer adds nothing of its own.
constexpr const char* by_hand = R"(loops by_hand
buffer a f32[11, 19] strides [19, 1] input position 0
buffer b f32[19, 29] strides [29, 1] input position 1
buffer out f32[11, 29] strides [29, 1] output position 0
input a = buffer a
input b = buffer b
output buffer out
init {
}
main {
  kernel by_hand ops [mm] {
    contraction batch [] rows [i0] columns [i1] sums [r0] left %1 of [%1] right %2 of [%2] shared []
    schedule items [($ROWS + 10) // $ROWS] grain 2 lanes $LANES tile $ROWS rows $VECTORS vectors$TOGETHER
    for i0 in [11] parallel @item($ROWS, mask) {
      for i1 in [29] parallel @lane($LANES, mask) {
        %0 = for r0 in [19] reduce sum.f32 fused blocks(7, f32) {
          %1 = load.f32 a[i0, r0]
          %2 = load.f32 b[r0, i1]
          %3 = mul.f32 %1, %2
          yield %3
        }
        store out[i0, i1] = %0
      }
    }
  }
}
)";

TEST_F(Template, AScheduleWrittenByHandRunsAsWritten) {
  std::map<std::string, Tensor> inputs = {{"a", filled(DType::f32, {11, 19}, 1)},
                                          {"b", filled(DType::f32, {19, 29}, 2)}};
  struct ByHand {
    const char* target;
    int rows, vectors, lanes, together = 1;
  };
  for (const ByHand& chosen :
       {ByHand{"x86-64-v4", 5, 2, 16}, ByHand{"x86-64-v4", 3, 1, 8}, ByHand{"x86-64-v3", 4, 2, 8},
        ByHand{"x86-64-v3", 7, 1, 4}, ByHand{"generic", 2, 3, 4}, ByHand{"x86-64-v4", 2, 2, 16, 4},
        ByHand{"x86-64-v3", 1, 3, 8, 3}, ByHand{"generic", 3, 1, 4, 99}}) {
    if (std::string(chosen.target) != "generic" && codegen::cpu_backend().host_target_name() < chosen.target) continue;
    std::string text = replace_all(by_hand, "$ROWS", str(chosen.rows));
    text = replace_all(replace_all(text, "$VECTORS", str(chosen.vectors)), "$LANES", str(chosen.lanes));
    text = replace_all(text, "$TOGETHER", chosen.together > 1 ? str(" together ", chosen.together) : "");
    plain_ = loops::parse_loops(text);
    scheduled_ = plain_.clone();
    loops::verify(scheduled_);
    EXPECT_EQ(loops::print(loops::parse_loops(loops::print(scheduled_))), loops::print(scheduled_));
    auto expected = loops::LoopInterpreter(plain_, {}, {}).run({{inputs.at("a")}, {inputs.at("b")}}).outputs;
    run_compiled(chosen.target, inputs, expected, 1e-4);
    EXPECT_NE(source_.find(str("acc_", chosen.rows - 1, "_", chosen.vectors - 1)), std::string::npos) << source_;
    EXPECT_EQ(source_.find(str("acc_", chosen.rows, "_0")), std::string::npos) << source_;
    EXPECT_NE(source_.find("r0_block += 7"), std::string::npos) << "the sum's blocks are those that are written";
    EXPECT_EQ(source_.find("item += taken") != std::string::npos, chosen.together > 1) << source_;
  }
  EXPECT_THROW(loops::verify(loops::parse_loops(replace_all(
                   replace_all(replace_all(replace_all(by_hand, "$ROWS", "2"), "$VECTORS", "1"), "$LANES", "16"),
                   "$TOGETHER", " together 2 beside"))),
               Error)
      << "items of one panel share none";
}

}  // namespace
}  // namespace kiln
