// For tests: a program in text that uses every kind of item and statement. It computes
//   y = softmax(x) over rows;  z = argmax over all of x;  picked = table[idx];  counter += 1;  …
#pragma once

namespace kiln::loops {

inline constexpr const char* sample_text = R"loops(loops sample
symbol n in [0, inf] hint 3
symbol s0 in [1, 1024] hint 2
symbol u0 in [0, 64] unbacked
guard [s0 <= 512] because "L['x'].size()[0] <= 512"
buffer x f32[s0, 4] strides [4, 1] input position 0
buffer idx i64[3] strides [1] input position 1
buffer table bf16[5, 2] strides [2, 1] constant named "embedding.weight"
buffer counter i64[] strides [] constant named "counter" mutated
buffer twice f32[5, 2] strides [2, 1] derived
buffer y f32[s0, 4] strides [1, s0] output position 0
buffer z i64[] strides [] output position 1
buffer "picked rows" bf16[3, 2] strides [2, 1] offset [4] output position 2
buffer sums f32[s0] strides [1] output position 3
buffer found i64[u0, 2] strides [2, 1] output position 4
buffer flag bool[] strides [] temp
buffer count i64[] strides [] temp
buffer noise f64[4] strides [1] output position 5
buffer stats f32[3] strides [1] output position 6
buffer bits i32[2] strides [1] output position 7
input x = buffer x
input idx = buffer idx
input n = symbol n
input mode = string "fast"
input k = list [scalar 2, scalar 1.5, scalar true, none, dtype f32, device "cuda:0", layout strided, memory_format 2, expr [n + 1]]
output buffer y
output buffer z
output buffer "picked rows"
output buffer sums
output buffer found
output buffer noise
output buffer stats
output buffer bits
output value [s0*2 + u0]
output value [s0 / 2]
output none
output scalar 1.5
site "index out of range in aten.embedding" origin 0
site "negative" origin 1
init {
  kernel double_table ops [mul] from [0] {
    for i0 in [5] parallel {
      for i1 in [2] parallel {
        %0 = load.bf16 table[i0, i1]
        %1 = cast.f32 %0
        %2 = constant.f32 2
        %3 = mul.f32 %1, %2
        store twice[i0, i1] = %3
      }
    }
  }
}
main {
  kernel cpp_fused_softmax_0 ops [sub, exp, div] from [0, 1] {
    schedule items [s0] grain 4 lanes 16
    for i0 in [s0] parallel @item {
      %0 = for r0 in [4] reduce max.f32 @unroll(4, exact) {
        %1 = load.f32 x[i0, r0]
        yield %1
      }
      %2 = for r1 in [4] reduce sum.f32 blocks(2, f64) {
        %3 = load.f32 x[i0, r1]
        %4 = sub.f32 %3, %0
        %5 = exp.f32 %4
        yield %5
      }
      for i1 in [4] parallel @lane(16, mask) {
        %6 = load.f32 x[i0, i1]
        %7 = sub.f32 %6, %0
        %8 = exp.f32 %7
        %9 = div.f32 %8, %2
        store y[i0, i1] = %9
      }
    }
  }
  kernel cpp_red_argmax_1 {
    %0, %1 = for r0 in [s0] reduce argmax.f32 {
      %2, %3 = for r1 in [4] reduce argmax.f32 {
        %4 = load.f32 x[r0, r1]
        %5 = index.i64 [r0*4 + r1]
        yield %4, %5
      }
      yield %2, %3
    }
    store z[] = %1
  }
  kernel embedding {
    for i0 in [3] parallel {
      %0 = load.i64 idx[i0]
      %1 = check_index j0 = %0 in [5] site 0
      for i1 in [2] parallel {
        %2 = load.f32 twice[j0, i1]
        store "picked rows"[i0, i1] = %2
      }
    }
  }
  kernel cumulate {
    %0 = for i0 in [s0] scan sum.f32 {
      %1 = load.f32 x[i0, 0]
      yield %1
    } after %2 {
      store sums[i0] = %2
    }
    %3 = constant.f32 -1e+06
    %4 = lt.bool %0, %3
    raise_if %4 site 1
  }
  kernel count_calls {
    %0 = constant.i64 1
    store.add counter[] = %0
    %1 = index.i64 [0]
    store count[] = %1
    %2 = load.i64 counter[]
    %3 = constant.i64 2
    %4 = ge.bool %2, %3
    store flag[] = %4
  }
  kernel numbers {
    for i0 in [4] parallel {
      %0 = random.f64 [i0 + 100]
      store noise[i0] = %0
    }
    %1, %2, %3 = for r0 in [4] reduce welford.f32 {
      %4 = load.f32 x[0, r0]
      yield %4
    }
    store stats[0] = %1
    store stats[1] = %2
    store stats[2] = %3
    %5 = constant.f32 1.0
    %6 = bitcast.i32 %5
    store bits[0] = %6
    %7 = constant.bool false
    %8 = load.i64 idx[7] mask %7
    %9 = cast.i32 %8
    store bits[1] = %9
    %10 = constant.i32 5
    store.max bits[1] = %10
    store bits[9] = %10 mask %7
  }
  call lib_nonzero_0 = "aten.nonzero.default" library "nonzero" from [1] {
    arg self = buffer x
    arg others = buffers [idx, none]
    arg k = expr [n + 1]
    arg dims = exprs [0, s0]
    arg alpha = scalar 1.5
    arg how = string "a \"b\""
    arg dtype = dtype i64
    arg out = none
    outputs [found]
    defines [u0]
  }
  assert [u0 <= 64] "too many" from [1]
  cond cond_0 on buffer flag from [1] {
    kernel later {
      %0 = constant.i32 100
      store.add bits[1] = %0
    }
  } else {
  }
  while while_0 counting it0 {
    kernel again {
      %0 = load.i64 count[]
      %1 = index.i64 [n]
      %2 = lt.bool %0, %1
      store flag[] = %2
    }
  } on buffer flag do {
    kernel step {
      %0 = load.i64 count[]
      %1 = constant.i64 1
      %2 = add.i64 %0, %1
      store count[] = %2
      %3 = index.i32 [it0*10]
      store.add bits[1] = %3
    }
  }
  bind n2 = count
  cond cond_1 on expr [n == n2] {
  } else {
    assert [0] "the loop ended early"
  }
}
origin 0 node "embedding" op "aten.embedding.default" module "layers.0" at "model.py" 12 "forward" "y = self.emb(x)"
origin 1 node "" op "" module ""
)loops";

}  // namespace kiln::loops
