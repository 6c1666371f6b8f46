#include "package/plan_io.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace kiln::format {
namespace {

// Something of everything, consistent.
Plan sample() {
  Plan plan;
  plan.model_name = "m", plan.build_id = "id", plan.kernel_abi = 2;
  plan.exprs = {{{{ExprCode::symbol, 0}}, false, "s0"},
                {{{ExprCode::constant, 4}}, false, "4"},
                {{{ExprCode::symbol, 0}, {ExprCode::constant, 4}, {ExprCode::mul, 0}}, false, "s0*4"}};
  Symbol s0, u0;
  s0.name = "s0", s0.input = 0, s0.dim = 0, s0.low = 1, s0.high = 9;
  u0.name = "u0", u0.source = SymbolSource::step;
  plan.symbols = {s0, u0};
  plan.guards = {{0, "s0", "because"}};
  Input in;
  in.name = "x", in.buffer = 0;
  plan.inputs = {in};
  Output out;
  out.name = "y", out.buffer = 1;
  plan.outputs = {out};
  Buffer x, y, t;
  x.name = "x", x.dtype = DType::f32, x.role = BufferRole::input, x.position = 0, x.sizes = {0}, x.strides = {1};
  y = x, y.name = "y", y.role = BufferRole::output, y.bytes = 2;
  t = y, t.name = "t", t.role = BufferRole::temp, t.position = none;
  plan.buffers = {x, y, t};
  plan.kernels = {{"k"}};
  plan.sites = {{"out of range", "aten.x", "n", "f.py:1"}};
  Step kernel, library, loop, inner;
  kernel.name = "k", kernel.number = 1, kernel.kernel = 0, kernel.args = {{0, Access::read}, {2, Access::write}},
  kernel.ints = {0, 1}, kernel.items = 0, kernel.scratch = 2;
  library.kind = StepKind::library, library.name = "lib", library.number = 2, library.target = "topk";
  library.call_args = {{"self", ArgKind::buffer, {0}, 0, ""},
                       {"f", ArgKind::floating, {}, 2.5, ""},
                       {"s", ArgKind::string, {}, 0, "text"}};
  library.outputs = {1}, library.defines = {1};
  inner = kernel, inner.number = 4;
  loop.kind = StepKind::while_loop, loop.name = "w", loop.number = 3, loop.condition = 0, loop.blocks = {{}, {inner}};
  plan.steps = {kernel, library, loop};
  plan.code = {{"x86-64-v2", "code/x86-64-v2/kernels.so"}};
  plan.metadata_keys = {"a"}, plan.metadata_values = {"b"};
  return plan;
}

std::string code_of(const std::string& bytes) {
  try {
    read_plan(as_bytes(bytes));
  } catch (const Error& error) {
    return error.code();
  }
  return "";
}

TEST(PlanIo, ReadsBackWhatItWrote) {
  std::string bytes = write_plan(sample());
  Plan plan = read_plan(as_bytes(bytes));
  EXPECT_EQ(write_plan(plan), bytes);
  EXPECT_EQ(plan.steps[1].call_args[1].floating, 2.5);
  EXPECT_EQ(plan.steps[2].blocks[1][0].number, 4);
  EXPECT_EQ(plan.symbols[0].high, 9);
  EXPECT_EQ(plan.metadata_values[0], "b");
}

TEST(PlanIo, TruncatedAndChangedBytesNeverCrash) {
  std::string bytes = write_plan(sample());
  for (size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_NE(code_of(bytes.substr(0, cut)), "");
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int value : {0x00, 0xff, 0x80, 0x7f, 0x01}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(value);
      code_of(changed);  // any answer is fine
    }
}

TEST(PlanIo, RefusesAnotherMajorAndTakesANewerMinor) {
  const std::string bytes = write_plan(sample());
  auto with = [&](size_t at, uint32_t number) {
    std::string changed = bytes;
    std::memcpy(changed.data() + at, &number, 4);
    return changed;
  };
  EXPECT_EQ(code_of(with(8, plan_major + 1)), "K0502");
  EXPECT_EQ(code_of(with(12, 77)), "");
  try {
    read_plan(as_bytes(with(8, 1)));
    FAIL() << "a plan of version 1 was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              str("the package has format 1.", plan_minor, ", this Kiln reads 2.x: compile the model again (plan)"));
  }
}

TEST(PlanIo, EnumsAndDevicesAreChecked) {
  auto refused = [](auto change) {
    Plan plan = sample();
    change(plan);
    return code_of(write_plan(plan)) == "K0503";
  };
  EXPECT_TRUE(refused([](Plan& p) { p.inputs[0].constant_kind = static_cast<ConstantKind>(9); }));
  EXPECT_TRUE(refused([](Plan& p) { p.buffers[0].dtype = static_cast<DType>(99); }));
  EXPECT_TRUE(refused([](Plan& p) { p.buffers[0].device = DeviceType::meta; }));
  EXPECT_TRUE(refused([](Plan& p) { p.device = static_cast<DeviceType>(7); }));
  EXPECT_TRUE(refused([](Plan& p) { p.code[0].device = static_cast<DeviceType>(7); }));
  EXPECT_TRUE(refused([](Plan& p) { p.steps[0].device = static_cast<DeviceType>(7); }));
  EXPECT_TRUE(refused([](Plan& p) { p.steps[0].device = DeviceType::cuda; }));  // its arguments are the host's
  EXPECT_TRUE(refused([](Plan& p) { p.steps[0].args[0].access = static_cast<Access>(0); }));
  EXPECT_TRUE(refused([](Plan& p) { p.steps[1].call_args[0].kind = static_cast<ArgKind>(9); }));
  EXPECT_TRUE(refused([](Plan& p) { p.steps[0].scratch = 50; }));
  EXPECT_TRUE(refused([](Plan& p) { p.steps[1].scratch = 0; }));  // no kernel
  // All of it on another device is a plan; that this runtime cannot run it is not the plan's fault.
  EXPECT_FALSE(refused([](Plan& p) {
    p.device = p.code[0].device = p.steps[0].device = p.steps[2].blocks[1][0].device = DeviceType::cuda;
    for (Buffer& b : p.buffers) b.device = DeviceType::cuda;
  }));
}

TEST(PlanIo, SkipsFieldsThatALaterMinorAppended) {
  std::string bytes = write_plan(sample());
  // Three unknown bytes at the end of the Plan record.
  uint64_t payload = bytes.size() - 24 + 3;
  uint32_t length = static_cast<uint32_t>(payload - 4);
  std::memcpy(bytes.data() + 16, &payload, 8);
  std::memcpy(bytes.data() + 24, &length, 4);
  bytes += "abc";
  EXPECT_EQ(code_of(bytes), "");
}

TEST(PlanIo, InconsistentPlansAreRefused) {
  auto refused = [](auto change) {
    Plan plan = sample();
    change(plan);
    return code_of(write_plan(plan)) == "K0503";
  };
  EXPECT_FALSE(refused([](Plan&) {}));
  EXPECT_TRUE(refused([](Plan& p) { p.exprs[0].code.push_back({ExprCode::add, 0}); }));
  EXPECT_TRUE(refused([](Plan& p) { p.exprs[0].code[0].operand = 9; }));
  EXPECT_TRUE(refused([](Plan& p) { p.buffers[0].sizes[0] = 50; }));
  EXPECT_TRUE(refused([](Plan& p) { p.buffers[2].same_memory_as = 2; }));
  EXPECT_TRUE(refused([](Plan& p) { p.buffers[1].same_memory_as = 0; }));
  EXPECT_TRUE(refused([](Plan& p) { p.buffers[2].same_memory_as = 0; }));  // the input is not mutated
  EXPECT_TRUE(refused([](Plan& p) {  // of a buffer that is no good itself (found by fuzzing)
    p.buffers[2].same_memory_as = 3;
    p.buffers.push_back(p.buffers[0]);
    p.buffers[3].position = 1000;
  }));
  EXPECT_TRUE(refused([](Plan& p) { p.buffers[2].bytes = none; }));
  EXPECT_TRUE(refused([](Plan& p) { p.steps[0].args[0].buffer = -1; }));
  EXPECT_TRUE(
      refused([](Plan& p) { p.steps[0].args[0].access = Access::write; }));  // writes an input that is not mutated
  EXPECT_TRUE(refused([](Plan& p) { p.steps[0].kernel = 1; }));
  EXPECT_TRUE(refused([](Plan& p) { p.steps[1].number = 1; }));
  EXPECT_TRUE(refused([](Plan& p) { p.steps[1].defines = {0}; }));
  EXPECT_TRUE(refused([](Plan& p) { p.steps[2].blocks.pop_back(); }));
  EXPECT_TRUE(refused([](Plan& p) { p.symbols[0].dim = 3; }));
  EXPECT_TRUE(refused([](Plan& p) { p.symbols[0].rest = 0; }));  // depends on itself
  EXPECT_TRUE(refused([](Plan& p) { p.metadata_keys.push_back("more"); }));
}

// Names of one constant: an earlier one, which is like it, and no name of another itself.
TEST(PlanIo, NamesOfOneConstantAreAlike) {
  auto refused = [&](auto change) {
    Plan plan = sample();
    Constant first, second, third;
    first.name = "a", second.name = "b", third.name = "c";
    first.bytes = second.bytes = third.bytes = 16;
    first.entry = second.entry = third.entry = "m/data/weights/weight_0";
    second.same_as = third.same_as = 0;
    plan.constants = {first, second, third};
    change(plan);
    return code_of(write_plan(plan)) == "K0503";
  };
  EXPECT_FALSE(refused([](Plan&) {}));
  EXPECT_TRUE(refused([](Plan& p) { p.constants[1].same_as = 1; }));
  EXPECT_TRUE(refused([](Plan& p) { p.constants[1].same_as = 2; }));
  EXPECT_TRUE(refused([](Plan& p) { p.constants[2].same_as = 1; }));
  EXPECT_TRUE(refused([](Plan& p) { p.constants[2].same_as = -7; }));
  EXPECT_TRUE(refused([](Plan& p) { p.constants[0].bytes = 8; }));
  EXPECT_TRUE(refused([](Plan& p) { p.constants[1].mutated = true; }));
}

// A constant that is there in packed form only, and what packs it: nothing else may read it.
TEST(PlanIo, PackedConstantsAreReadByTheirPackingAlone) {
  const Plan packed = [] {
    Plan plan = sample();
    Constant weight;
    weight.name = "w", weight.bytes = 16, weight.packed_in = 4;
    plan.constants = {weight};
    Buffer original = plan.buffers[0];
    original.name = "w", original.role = BufferRole::constant, original.sizes = original.strides = {1};
    Buffer derived = original;
    derived.name = "w_packed", derived.role = BufferRole::derived, derived.position = none, derived.bytes = 1;
    derived.entry = "m/data/packed/x86-64-v2/4";
    plan.buffers.push_back(original), plan.buffers.push_back(derived);
    Step pack = plan.steps[0];
    pack.name = "pack", pack.number = 50, pack.args = {{3, Access::read}, {4, Access::write}};
    plan.init = {pack};
    return plan;
  }();
  auto refused = [&](auto change) {
    Plan plan = packed;
    change(plan);
    return code_of(write_plan(plan)) == "K0503";
  };
  EXPECT_FALSE(refused([](Plan&) {}));
  EXPECT_TRUE(refused([](Plan& p) { p.constants[0].packed_in = 9; }));
  EXPECT_TRUE(refused([](Plan& p) { p.constants[0].packed_in = 2; }));
  EXPECT_TRUE(refused([](Plan& p) { p.constants[0].entry = "somewhere"; }));
  EXPECT_TRUE(refused([](Plan& p) { p.constants[0].mutated = true; }));
  EXPECT_TRUE(refused([](Plan& p) { p.buffers[4].entry.clear(); }));
  EXPECT_TRUE(refused([](Plan& p) { p.buffers[2].entry = "of a temp"; }));
  EXPECT_TRUE(refused([](Plan& p) { p.steps[0].args[0].buffer = 3; }));
  EXPECT_TRUE(refused([](Plan& p) { p.steps[2].blocks[1][0].args[0].buffer = 3; }));
  EXPECT_TRUE(refused([](Plan& p) { p.steps[1].call_args[0].items = {3}; }));
  EXPECT_TRUE(refused([](Plan& p) { p.init[0].args[1].buffer = 2; }));
  EXPECT_TRUE(refused([](Plan& p) { p.outputs[0].buffer = 3; }));
}

TEST(PlanIo, DeepNestingIsRefused) {
  Plan plan = sample();
  Step loop = plan.steps[2];
  int32_t number = 100;
  for (int i = 0; i < 200; ++i) {
    Step outer = plan.steps[2];
    loop.number = number++;
    outer.blocks = {{}, {loop}};
    loop = outer;
  }
  plan.steps = {loop};
  EXPECT_NE(code_of(write_plan(plan)), "");
}

TEST(PlanIo, OriginsRoundTrip) {
  Origins origins;
  origins.build_id = "id";
  origins.steps = {{3, {"n"}, {"op"}, {"mod"}, {"f.py:1"}, {"v"}, {0}}};
  std::string bytes = write_origins(origins);
  EXPECT_EQ(read_origins(as_bytes(bytes)).steps[0].lines[0], "f.py:1");
  EXPECT_EQ(read_origins(as_bytes(bytes)).steps[0].values[0], "v");
  origins.steps[0].value_origins = {1};
  bytes = write_origins(origins);
  EXPECT_THROW(read_origins(as_bytes(bytes)), Error) << "there is no second operator";
  origins.steps[0].value_origins.clear();
  bytes = write_origins(origins);
  EXPECT_THROW(read_origins(as_bytes(bytes)), Error);
  origins.steps[0].values.clear();
  EXPECT_NO_THROW(read_origins(as_bytes(bytes = write_origins(origins))));
  origins.steps[0].ops.clear();
  bytes = write_origins(origins);
  EXPECT_THROW(read_origins(as_bytes(bytes)), Error);
}

}  // namespace
}  // namespace kiln::format
