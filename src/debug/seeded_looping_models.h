// For tests only: models whose graphs iterate over a sequence (recurrent layers, scan, map, associative_scan).
#pragma once
#include "debug/seeded_models.h"

namespace kiln::seeded {

// Long enough to be a loop; both directions, so that one of them reads its input backwards.
inline constexpr Model gru = {"gru", R"(program "gru"
graph main {
  input %w0: f32[15, 4] = parameter "weight_ih_l0"
  input %u0: f32[15, 5] = parameter "weight_hh_l0"
  input %b0: f32[15] = parameter "bias_ih_l0"
  input %c0: f32[15] = parameter "bias_hh_l0"
  input %w1: f32[15, 4] = parameter "weight_ih_l0_reverse"
  input %u1: f32[15, 5] = parameter "weight_hh_l0_reverse"
  input %b1: f32[15] = parameter "bias_ih_l0_reverse"
  input %c1: f32[15] = parameter "bias_hh_l0_reverse"
  input %x: f32[2, 11, 4] = user
  input %h0: f32[2, 2, 5] = user
  %scaled: f32[2, 11, 4] = aten.mul.Tensor(self=%x, other=0.5)
  %out: f32[2, 11, 10] strides [10, 20, 1], %last: f32[2, 2, 5] = aten.gru.input(input=%scaled, hx=%h0, params=[%w0, %u0, %b0, %c0, %w1, %u1, %b1, %c1], has_biases=true, num_layers=1, dropout=0.0, train=false, bidirectional=true, batch_first=true)
  %end: f32[2, 11, 10] strides [10, 20, 1] = aten.exp.default(self=%out)
  output %end = user
  output %last = user
}
)"};

inline constexpr Model lstm = {"lstm", R"(program "lstm"
graph main {
  input %w: f32[24, 4] = parameter "weight_ih_l0"
  input %u: f32[24, 3] = parameter "weight_hh_l0"
  input %b: f32[24] = parameter "bias_ih_l0"
  input %c: f32[24] = parameter "bias_hh_l0"
  input %r: f32[3, 6] = parameter "weight_hr_l0"
  input %x: f32[9, 2, 4] = user
  input %h0: f32[1, 2, 3] = user
  input %c0: f32[1, 2, 6] = user
  %out: f32[9, 2, 3], %h: f32[1, 2, 3], %cell: f32[1, 2, 6] = aten.lstm.input(input=%x, hx=[%h0, %c0], params=[%w, %u, %b, %c, %r], has_biases=true, num_layers=1, dropout=0.0, train=false, bidirectional=false, batch_first=false)
  output %out = user
  output %h = user
  output %cell = user
}
)"};

// A map and a scan, whose bodies give their values the names of others.
inline constexpr Model iterated = {"iterated", R"(program "iterated"
graph main {
  input %x: f32[6, 7] = user
  input %y: f32[7] = user
  %sin: f32[6, 7] = aten.sin.default(self=%x)
  %mapped: f32[6, 7] = higher_order.map_impl(graph each {
    input %x: f32[7]
    input %y: f32[7]
    %sin: f32[7] = aten.cos.default(self=%x)
    %mul: f32[7] = aten.mul.Tensor(self=%sin, other=%y)
    %exp: f32[7] = aten.exp.default(self=%mul)
    output %exp
  }, [%sin], [%y])
  %carry: f32[7], %all: f32[6, 7] = higher_order.scan(graph step {
    input %c: f32[7]
    input %x: f32[7]
    %mul: f32[7] = aten.mul.Tensor(self=%c, other=0.5)
    %next: f32[7] = aten.add.Tensor(self=%mul, other=%x)
    %tanh: f32[7] = aten.tanh.default(self=%next)
    output %next
    output %tanh
  }, [%y], [%mapped], [])
  %sum: f32[7] = aten.sum.dim_IntList(self=%all, dim=[0])
  %mul: f32[7] = aten.mul.Tensor(self=%sum, other=%carry)
  output %mul = user
  output %all = user
}
)"};

inline constexpr Model looping_models[] = {gru, lstm, iterated};

}  // namespace kiln::seeded
