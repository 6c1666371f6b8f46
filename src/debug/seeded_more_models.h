// For tests only: models of further kinds, as seeded_models.h has them.
#pragma once
#include "debug/seeded_looping_models.h"
#include "debug/seeded_models.h"

namespace kiln::seeded {

inline constexpr Model rms_norm = {"rms_norm", R"(program "rms_norm"
graph main {
  input %g: f32[20] = parameter "norm.weight"
  input %wg: f32[26, 20] = parameter "gate.weight"
  input %wu: f32[26, 20] = parameter "up.weight"
  input %x: f32[5, 20] = user
  %square: f32[5, 20] = aten.pow.Tensor_Scalar(self=%x, exponent=2)
  %mean: f32[5, 1] = aten.mean.dim(self=%square, dim=[1], keepdim=true)
  %eps: f32[5, 1] = aten.add.Tensor(self=%mean, other=0.01)
  %rsqrt: f32[5, 1] = aten.rsqrt.default(self=%eps)
  %normed: f32[5, 20] = aten.mul.Tensor(self=%x, other=%rsqrt)
  %scaled: f32[5, 20] = aten.mul.Tensor(self=%normed, other=%g)
  %gate: f32[5, 26] = aten.linear.default(input=%scaled, weight=%wg)
  %silu: f32[5, 26] = aten.silu.default(self=%gate)
  %up: f32[5, 26] = aten.linear.default(input=%scaled, weight=%wu)
  %glu: f32[5, 26] = aten.mul.Tensor(self=%silu, other=%up)
  output %glu = user
}
)"};

inline constexpr Model embedding = {"embedding", R"(program "embedding"
graph main {
  input %table: f32[9, 18] = parameter "tokens.weight"
  input %places: f32[6, 18] = parameter "places.weight"
  input %g: f32[18] = parameter "norm.weight"
  input %b: f32[18] = parameter "norm.bias"
  input %index: i64[3, 6] = user
  %tokens: f32[3, 6, 18] = aten.embedding.default(weight=%table, indices=%index)
  %scaled: f32[3, 6, 18] = aten.mul.Tensor(self=%tokens, other=4.0)
  %placed: f32[3, 6, 18] = aten.add.Tensor(self=%scaled, other=%places)
  %norm: f32[3, 6, 18] = aten.layer_norm.default(input=%placed, normalized_shape=[18], weight=%g, bias=%b)
  %pooled: f32[3, 18] = aten.mean.dim(self=%norm, dim=[1])
  %out: f32[3, 18] = aten.tanh.default(self=%pooled)
  output %out = user
}
)"};

inline constexpr Model rnn = {"rnn", R"(program "rnn"
graph main {
  input %wx: f32[14, 10] = parameter "x.weight"
  input %wh: f32[14, 14] = parameter "h.weight"
  input %b: f32[14] = parameter "x.bias"
  input %x: f32[2, 4, 10] = user
  input %h0: f32[4, 14] = user
  %x0: f32[4, 10] = aten.select.int(self=%x, dim=0, index=0)
  %i0: f32[4, 14] = aten.linear.default(input=%x0, weight=%wx, bias=%b)
  %r0: f32[4, 14] = aten.linear.default(input=%h0, weight=%wh)
  %s0: f32[4, 14] = aten.add.Tensor(self=%i0, other=%r0)
  %h1: f32[4, 14] = aten.tanh.default(self=%s0)
  %x1: f32[4, 10] offset {40} = aten.select.int(self=%x, dim=0, index=1)
  %i1: f32[4, 14] = aten.linear.default(input=%x1, weight=%wx, bias=%b)
  %r1: f32[4, 14] = aten.linear.default(input=%h1, weight=%wh)
  %s1: f32[4, 14] = aten.add.Tensor(self=%i1, other=%r1)
  %h2: f32[4, 14] = aten.tanh.default(self=%s1)
  %both: f32[2, 4, 14] = aten.stack.default(tensors=[%h1, %h2], dim=0)
  output %both = user
}
)"};

inline constexpr Model indexing = {"indexing", R"(program "indexing"
graph main {
  input %x: f32[5, 13] = user
  input %index: i64[7] = user
  input %columns: i64[5, 4] = user
  %rows: f32[7, 13] = aten.index_select.default(self=%x, dim=0, index=%index)
  %twice: f32[7, 13] = aten.mul.Tensor(self=%rows, other=2.0)
  %flipped: f32[7, 13] = aten.flip.default(self=%twice, dims=[1])
  %some: f32[5, 4] = aten.gather.default(self=%x, dim=1, index=%columns)
  %exp: f32[5, 4] = aten.exp.default(self=%some)
  %part: f32[5, 4] strides [13, 2] offset {1} = aten.slice.Tensor(self=%x, dim=1, start=1, end=9, step=2)
  %less: f32[5, 4] = aten.sub.Tensor(self=%exp, other=%part)
  %neg: f32[5, 4] = aten.neg.default(self=%less)
  output %flipped = user
  output %neg = user
}
)"};

inline constexpr Model integers = {"integers", R"(program "integers"
graph main {
  input %a: i64[6, 11] = user
  input %b: i64[6, 11] = user
  %mixed: i64[6, 11] = aten.bitwise_xor.Tensor(self=%a, other=%b)
  %low: i64[6, 11] = aten.bitwise_and.Scalar(self=%mixed, other=63)
  %times: i64[6, 11] = aten.mul.Tensor(self=%low, other=%b)
  %less: i64[6, 11] = aten.sub.Tensor(self=%times, other=%a)
  %rest: i64[6, 11] = aten.remainder.Scalar(self=%less, other=97)
  %clamped: i64[6, 11] = aten.clamp.default(self=%rest, min=5, max=80)
  %total: i64[6] = aten.sum.dim_IntList(self=%clamped, dim=[1])
  %largest: i64[11] = aten.amax.default(self=%rest, dim=[0])
  output %total = user
  output %largest = user
}
)"};

inline constexpr Model bf16 = {"bf16", R"(program "bf16"
graph main {
  input %x: bf16[6, 21] = user
  input %y: bf16[6, 21] = user
  input %z: bf16[21] = user
  %sum: bf16[6, 21] = aten.add.Tensor(self=%x, other=%y)
  %scaled: bf16[6, 21] = aten.mul.Tensor(self=%sum, other=%z)
  %gelu: bf16[6, 21] = aten.gelu.default(self=%scaled)
  %wide: f32[6, 21] = aten.to.dtype(self=%gelu, dtype=float32)
  %soft: f32[6, 21] = aten.softmax.int(self=%wide, dim=-1)
  %narrow: bf16[6, 21] = aten.to.dtype(self=%soft, dtype=bfloat16)
  %res: bf16[6, 21] = aten.add.Tensor(self=%narrow, other=%x)
  output %res = user
}
)"};

inline constexpr Model layouts = {"layouts", R"(program "layouts"
graph main {
  input %x: f32[4, 6, 5] = user
  input %y: f32[4, 6, 3] = user
  %joined: f32[4, 6, 8] = aten.cat.default(tensors=[%x, %y], dim=2)
  %turned: f32[4, 8, 6] strides [48, 1, 8] = aten.transpose.int(self=%joined, dim0=1, dim1=2)
  %sin: f32[4, 8, 6] strides [48, 1, 8] = aten.sin.default(self=%turned)
  %padded: f32[4, 8, 9] = aten.constant_pad_nd.default(self=%sin, pad=[1, 2], value=0.5)
  %dense: f32[4, 72] = aten.view.default(self=%padded, size=[4, 72])
  %cut: f32[4, 30] strides [72, 1] offset {10} = aten.slice.Tensor(self=%dense, dim=1, start=10, end=40)
  %abs: f32[4, 30] = aten.abs.default(self=%cut)
  %root: f32[4, 30] = aten.sqrt.default(self=%abs)
  output %root = user
}
)"};

inline constexpr Model pooling = {"pooling", R"(program "pooling"
graph main {
  input %w: f32[8, 3, 3, 3] = parameter "conv.weight"
  input %s: f32[8, 1, 1] = parameter "norm.scale"
  input %t: f32[8, 1, 1] = parameter "norm.shift"
  input %x: f32[2, 3, 10, 10] = user
  %conv: f32[2, 8, 5, 5] = aten.conv2d.default(input=%x, weight=%w, stride=[2, 2], padding=[1, 1])
  %scaled: f32[2, 8, 5, 5] = aten.mul.Tensor(self=%conv, other=%s)
  %shifted: f32[2, 8, 5, 5] = aten.add.Tensor(self=%scaled, other=%t)
  %hard: f32[2, 8, 5, 5] = aten.hardtanh.default(self=%shifted, min_val=-0.4, max_val=0.6)
  %pool: f32[2, 8, 2, 2] = aten.avg_pool2d.default(self=%hard, kernel_size=[2, 2])
  %mean: f32[2, 8] = aten.mean.dim(self=%pool, dim=[2, 3])
  %square: f32[2, 8] = aten.mul.Tensor(self=%mean, other=%mean)
  output %square = user
  output %pool = user
}
)"};

inline constexpr Model choice = {"choice", R"(program "choice"
graph main {
  input %x: f32[7, 12] = user
  input %y: f32[7, 12] = user
  %larger: bool[7, 12] = aten.gt.Tensor(self=%x, other=%y)
  %small: bool[7, 12] = aten.lt.Scalar(self=%x, other=0.5)
  %both: bool[7, 12] = aten.logical_and.default(self=%larger, other=%small)
  %diff: f32[7, 12] = aten.sub.Tensor(self=%x, other=%y)
  %cube: f32[7, 12] = aten.pow.Tensor_Scalar(self=%diff, exponent=3)
  %kept: f32[7, 12] = aten.where.self(condition=%both, self=%cube, other=%y)
  %best: i64[7] = aten.argmax.default(self=%kept, dim=1)
  %sums: f32[7, 12] = aten.cumsum.default(self=%kept, dim=1)
  %count: i64[7] = aten.sum.dim_IntList(self=%both, dim=[1])
  output %best = user
  output %sums = user
  output %count = user
}
)"};

inline constexpr Model loss = {"loss", R"(program "loss"
symbol s0 [2, 64] hint 6
graph main {
  input %w: f32[12, 9] = parameter "head.weight"
  input %b: f32[12] = parameter "head.bias"
  input %x: f32[s0, 9] = user
  input %index: i64[s0, 1] = user
  %head: f32[s0, 12] = aten.linear.default(input=%x, weight=%w, bias=%b)
  %cooled: f32[s0, 12] = aten.div.Tensor(self=%head, other=0.7)
  %logs: f32[s0, 12] = aten.log_softmax.int(self=%cooled, dim=1)
  %picked: f32[s0, 1] = aten.gather.default(self=%logs, dim=1, index=%index)
  %neg: f32[s0, 1] = aten.neg.default(self=%picked)
  %mean: f32[] = aten.mean.default(self=%neg)
  %exp: f32[] = aten.exp.default(self=%mean)
  output %exp = user
  output %neg = user
}
)"};

inline constexpr Model more_models[] = {rms_norm, embedding, rnn,     indexing, integers,
                                        bf16,     layouts,   pooling, choice,   loss};

inline std::vector<Model> every_model() {
  std::vector<Model> all(std::begin(all_models), std::end(all_models));
  all.insert(all.end(), std::begin(more_models), std::end(more_models));
  all.insert(all.end(), std::begin(looping_models), std::end(looping_models));
  return all;
}

}  // namespace kiln::seeded
