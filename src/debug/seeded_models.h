// For tests only: small models of the usual kinds (an MLP, a transformer block, a convolutional net, control flow,
// dynamic sizes, narrow floats, updates in place), whose compiled packages tests put defects into. Sizes are odd on
// purpose, so that vectors have tails. Weights and inputs are the same in every run.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"

namespace kiln::seeded {

struct Model {
  const char* name;
  const char* text;
};

inline constexpr Model mlp = {"mlp", R"(program "mlp"
graph main {
  input %w1: f32[37, 24] = parameter "up.weight"
  input %b1: f32[37] = parameter "up.bias"
  input %w2: f32[19, 37] = parameter "down.weight"
  input %b2: f32[19] = parameter "down.bias"
  input %c: f32[19] = parameter "centre"
  input %x: f32[5, 24] = user
  %up: f32[5, 37] = aten.linear.default(input=%x, weight=%w1, bias=%b1)
  %sigmoid: f32[5, 37] = aten.sigmoid.default(self=%up)
  %silu: f32[5, 37] = aten.mul.Tensor(self=%up, other=%sigmoid)
  %scaled: f32[5, 37] = aten.mul.Tensor(self=%silu, other=1.5)
  %down: f32[5, 19] = aten.linear.default(input=%scaled, weight=%w2, bias=%b2)
  %shifted: f32[5, 19] = aten.sub.Tensor(self=%down, other=%c)
  %tanh: f32[5, 19] = aten.tanh.default(self=%shifted)
  output %tanh = user
}
)"};

// Gives its weights of attention too, which keeps softmax and products kernels of their own.
inline constexpr Model transformer = {"transformer", R"(program "transformer"
graph main {
  input %wq: f32[16, 16] = parameter "q.weight"
  input %wk: f32[16, 16] = parameter "k.weight"
  input %wv: f32[16, 16] = parameter "v.weight"
  input %wo: f32[16, 16] = parameter "o.weight"
  input %g: f32[16] = parameter "norm.weight"
  input %b: f32[16] = parameter "norm.bias"
  input %w1: f32[40, 16] = parameter "up.weight"
  input %w2: f32[16, 40] = parameter "down.weight"
  input %x: f32[2, 7, 16] = user
  %norm: f32[2, 7, 16] = aten.layer_norm.default(input=%x, normalized_shape=[16], weight=%g, bias=%b)
  %q: f32[2, 7, 16] = aten.linear.default(input=%norm, weight=%wq)
  %k: f32[2, 7, 16] = aten.linear.default(input=%norm, weight=%wk)
  %v: f32[2, 7, 16] = aten.linear.default(input=%norm, weight=%wv)
  %kt: f32[2, 16, 7] strides [112, 1, 16] = aten.transpose.int(self=%k, dim0=1, dim1=2)
  %scores: f32[2, 7, 7] = aten.bmm.default(self=%q, mat2=%kt)
  %scaled: f32[2, 7, 7] = aten.mul.Tensor(self=%scores, other=0.25)
  %probs: f32[2, 7, 7] = aten.softmax.int(self=%scaled, dim=-1)
  %mixed: f32[2, 7, 16] = aten.bmm.default(self=%probs, mat2=%v)
  %proj: f32[2, 7, 16] = aten.linear.default(input=%mixed, weight=%wo)
  %res: f32[2, 7, 16] = aten.add.Tensor(self=%proj, other=%x)
  %up: f32[2, 7, 40] = aten.linear.default(input=%res, weight=%w1)
  %gelu: f32[2, 7, 40] = aten.gelu.default(self=%up)
  %down: f32[2, 7, 16] = aten.linear.default(input=%gelu, weight=%w2)
  %out: f32[2, 7, 16] = aten.add.Tensor(self=%down, other=%res)
  output %out = user
  output %probs = user
}
)"};

// Attention as one kernel, over blocks of rows.
inline constexpr Model attention = {"attention", R"(program "attention"
graph main {
  input %wq: f32[16, 16] = parameter "q.weight"
  input %x: f32[2, 21, 16] = user
  input %y: f32[2, 13, 16] = user
  %q: f32[2, 21, 16] = aten.linear.default(input=%x, weight=%wq)
  %yt: f32[2, 16, 13] strides [208, 1, 16] = aten.transpose.int(self=%y, dim0=1, dim1=2)
  %scores: f32[2, 21, 13] = aten.bmm.default(self=%q, mat2=%yt)
  %scaled: f32[2, 21, 13] = aten.mul.Tensor(self=%scores, other=0.25)
  %probs: f32[2, 21, 13] = aten.softmax.int(self=%scaled, dim=-1)
  %mixed: f32[2, 21, 16] = aten.bmm.default(self=%probs, mat2=%y)
  %out: f32[2, 21, 16] = aten.add.Tensor(self=%mixed, other=%x)
  output %out = user
}
)"};

inline constexpr Model convnet = {"convnet", R"(program "convnet"
graph main {
  input %w: f32[6, 3, 3, 3] = parameter "conv.weight"
  input %b: f32[6] = parameter "conv.bias"
  input %f: f32[10, 96] = parameter "head.weight"
  input %x: f32[2, 3, 9, 9] = user
  %conv: f32[2, 6, 9, 9] = aten.conv2d.default(input=%x, weight=%w, bias=%b, padding=[1, 1])
  %relu: f32[2, 6, 9, 9] = aten.relu.default(self=%conv)
  %pool: f32[2, 6, 4, 4] = aten.max_pool2d.default(self=%relu, kernel_size=[2, 2])
  %flat: f32[2, 96] = aten.view.default(self=%pool, size=[2, 96])
  %head: f32[2, 10] = aten.linear.default(input=%flat, weight=%f)
  %log: f32[2, 10] = aten.log_softmax.int(self=%head, dim=1)
  output %log = user
}
)"};

// Both branches of a cond, then a while loop whose count comes from the data.
inline constexpr Model control = {"control", R"(program "control"
graph main {
  input %x: f32[3, 21] = user
  input %n: i64[] = user
  %sum: f32[] = aten.sum.default(self=%x)
  %positive: bool[] = aten.gt.Scalar(self=%sum, other=0)
  %chosen: f32[3, 21] = higher_order.cond(%positive, graph yes {
    input %a: f32[3, 21]
    %sin: f32[3, 21] = aten.sin.default(self=%a)
    %twice: f32[3, 21] = aten.mul.Tensor(self=%sin, other=2.0)
    output %twice
  }, graph no {
    input %a2: f32[3, 21]
    %cos: f32[3, 21] = aten.cos.default(self=%a2)
    output %cos
  }, [%x])
  %zero: i64[] = aten.mul.Tensor(self=%n, other=0)
  %count: i64[], %state: f32[3, 21] = higher_order.while_loop(graph more {
    input %i: i64[]
    input %s: f32[3, 21]
    input %limit: i64[]
    %less: bool[] = aten.lt.Tensor(self=%i, other=%limit)
    output %less
  }, graph step {
    input %i2: i64[]
    input %s2: f32[3, 21]
    input %limit2: i64[]
    %next: i64[] = aten.add.Tensor(self=%i2, other=1)
    %half: f32[3, 21] = aten.mul.Tensor(self=%s2, other=0.5)
    %moved: f32[3, 21] = aten.add.Tensor(self=%half, other=0.75)
    output %next
    output %moved
  }, [%zero, %chosen], [%n])
  %end: f32[3, 21] = aten.exp.default(self=%state)
  output %end = user
  output %count = user
}
)"};

inline constexpr Model dynamic = {"dynamic", R"(program "dynamic"
symbol s0 [2, 64] hint 6
symbol s1 [2, 64] hint 11
graph main {
  input %x: f32[s0, s1] = user
  input %y: f32[s1] = user
  input %z: f32[s0, s0] = user
  %diff: f32[s0, s1] = aten.sub.Tensor(self=%x, other=%y)
  %square: f32[s0, s1] = aten.mul.Tensor(self=%diff, other=%diff)
  %rows: f32[s0] = aten.sum.dim_IntList(self=%square, dim=[1])
  %log: f32[s0] = aten.log1p.default(self=%rows)
  %mixed: f32[s0, s1] = aten.mm.default(self=%z, mat2=%diff)
  %columns: f32[s1] = aten.amax.default(self=%mixed, dim=[0])
  %cumsum: f32[s1] = aten.cumsum.default(self=%columns, dim=0)
  output %log = user
  output %cumsum = user
}
)"};

inline constexpr Model narrow = {"narrow", R"(program "narrow"
graph main {
  input %x: f16[6, 301] = user
  input %d: f64[5, 33] = user
  input %q: u8[4, 30] = user
  %wide: f32[6, 301] = aten.to.dtype(self=%x, dtype=float32)
  %mean: f32[6, 1] = aten.mean.dim(self=%wide, dim=[1], keepdim=true)
  %centred: f32[6, 301] = aten.sub.Tensor(self=%wide, other=%mean)
  %var: f32[6, 1] = aten.var.correction(self=%wide, dim=[1], correction=0, keepdim=true)
  %eps: f32[6, 1] = aten.add.Tensor(self=%var, other=0.001)
  %rsqrt: f32[6, 1] = aten.rsqrt.default(self=%eps)
  %normed: f32[6, 301] = aten.mul.Tensor(self=%centred, other=%rsqrt)
  %half: f16[6, 301] = aten.to.dtype(self=%normed, dtype=float16)
  %total: f64[5] = aten.sum.dim_IntList(self=%d, dim=[1])
  %root: f64[5] = aten.exp.default(self=%total)
  %signed: f32[4, 30] = aten.to.dtype(self=%q, dtype=float32)
  %offset: f32[4, 30] = aten.sub.Tensor(self=%signed, other=128.0)
  %dequant: f32[4, 30] = aten.mul.Tensor(self=%offset, other=0.05)
  %positive: bool[4, 30] = aten.ge.Scalar(self=%dequant, other=0)
  %kept: f32[4, 30] = aten.where.ScalarOther(condition=%positive, self=%dequant, other=-7.0)
  output %half = user
  output %root = user
  output %kept = user
}
)"};

// A cache that runs update, and an input that the program writes.
inline constexpr Model cache = {"cache", R"(program "cache"
graph main {
  input %keys: f32[8, 12] = buffer "cache.keys"
  input %row: f32[2, 12] = user
  input %counts: f32[12] = user
  %clone: f32[2, 12] = aten.mul.Tensor(self=%row, other=0.5)
  %written: f32[8, 12] = aten.slice_scatter.default(self=%keys, src=%clone, dim=0, start=3, end=5)
  %scores: f32[8] = aten.mv.default(self=%written, vec=%counts)
  %soft: f32[8] = aten.softmax.int(self=%scores, dim=0)
  %more: f32[12] = aten.add.Tensor(self=%counts, other=1.0)
  output %written = buffer_mutation "cache.keys"
  output %more = user_input_mutation "counts"
  output %soft = user
}
)"};

inline constexpr Model all_models[] = {mlp, transformer, attention, convnet, control, dynamic, narrow, cache};

// Values between -1 and 1 that do not repeat soon.
inline Tensor values(DType dtype, std::vector<int64_t> sizes, int64_t seed) {
  Tensor t = Tensor::empty(dtype, std::move(sizes));
  for (int64_t i = 0; i < t.numel(); ++i) {
    const double v = static_cast<double>((i * 7919 + seed * 104729 + 13) % 2003) / 1001.0 - 1.0;
    t.set_item(i, is_float(dtype) ? Scalar(v) : Scalar(static_cast<int64_t>((v + 1.0) * 127.0)));
  }
  return t;
}

// Smaller, so that activations do not saturate.
inline Tensor weights(std::vector<int64_t> sizes, int64_t seed) {
  Tensor t = values(DType::f32, std::move(sizes), seed);
  for (int64_t i = 0; i < t.numel(); ++i) t.set_item(i, Scalar(t.item(i).as_double() * 0.3));
  return t;
}

inline std::vector<int64_t> fixed_sizes(const Value& value) {
  std::vector<int64_t> sizes;
  for (const Expr& e : value.type.sizes) sizes.push_back(evaluate(e, {{"s0", 6}, {"s1", 11}}));
  return sizes;
}

// The program with its weights.
inline Program program_of(const Model& model) {
  Program program = parse_program(model.text);
  int64_t seed = 1;
  for (size_t i = 0; i < program.graph.inputs.size(); ++i)
    if (const std::string& name = program.input_specs[i].target;
        !name.empty() && program.input_specs[i].kind != InputKind::user)
      program.constants[name] = weights(fixed_sizes(*program.graph.inputs[i]), seed++);
  return program;
}

inline std::vector<Datum> inputs_of(const Program& program) {
  std::vector<Datum> inputs;
  int64_t seed = 40;
  for (size_t i = 0; i < program.graph.inputs.size(); ++i) {
    const Value& value = *program.graph.inputs[i];
    if (program.input_specs[i].kind != InputKind::user) continue;
    Tensor input = value.type.sizes.empty() ? Tensor::scalar(value.type.dtype, Scalar(int64_t{4}))
                                            : values(value.type.dtype, fixed_sizes(value), seed++);
    // Indices of rows and columns.
    if (value.name == "index" || value.name == "columns")
      for (int64_t e = 0; e < input.numel(); ++e) input.set_item(e, Scalar((e * 3 + 1) % 5));
    // Dequantised, it is 0: what a comparison turns on.
    if (value.type.dtype == DType::u8) input.set_item(7, Scalar(int64_t{128}));
    inputs.push_back(Datum{input});
  }
  return inputs;
}

}  // namespace kiln::seeded
