// Runs CUDA kernels of Kiln on the CPU: the few names of the language that they use, in plain C++. It is put in front
// of a unit by the stand-in for NVRTC, includes nothing, and is compiled with it.
//
// The threads of a block are fibers of one thread of the host. One runs until it meets a barrier or exchanges values
// with its warp, then the next; every other block has them run in reverse, so that a missing barrier shows. A thread
// that has returned counts as arrived, as on a GPU.
typedef unsigned long emu_size;
extern "C" void* memcpy(void*, const void*, emu_size);
extern "C" void* malloc(emu_size);
extern "C" void free(void*);
extern "C" double lgamma_r(double, int*);

#define __global__
#define __device__
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __cluster_dims__(...)

struct emu_index {
  unsigned x = 0, y = 0, z = 0;
};
static thread_local emu_index threadIdx, blockIdx, gridDim, blockDim;

// ---- Mathematics
#define EMU_FUNCTION(name)                                             \
  static inline float name(float x) { return __builtin_##name##f(x); } \
  static inline double name(double x) { return __builtin_##name(x); }
// clang-format off
EMU_FUNCTION(exp)
EMU_FUNCTION(exp2)
EMU_FUNCTION(expm1)
EMU_FUNCTION(log)
EMU_FUNCTION(log2)
EMU_FUNCTION(log10)
EMU_FUNCTION(log1p)
EMU_FUNCTION(sqrt)
EMU_FUNCTION(sin)
EMU_FUNCTION(cos)
EMU_FUNCTION(tan)
EMU_FUNCTION(asin)
EMU_FUNCTION(acos)
EMU_FUNCTION(atan)
EMU_FUNCTION(sinh)
EMU_FUNCTION(cosh)
EMU_FUNCTION(tanh)
EMU_FUNCTION(asinh)
EMU_FUNCTION(acosh)
EMU_FUNCTION(atanh)
EMU_FUNCTION(erf)
EMU_FUNCTION(erfc)
EMU_FUNCTION(floor)
EMU_FUNCTION(ceil)
EMU_FUNCTION(rint)
EMU_FUNCTION(trunc)
// clang-format on

static inline double lgamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
static inline float lgamma(float x) { return (float)lgamma((double)x); }
static inline float atan2(float y, float x) { return __builtin_atan2f(y, x); }
static inline double atan2(double y, double x) { return __builtin_atan2(y, x); }
static inline float copysign(float x, float y) { return __builtin_copysignf(x, y); }
static inline double copysign(double x, double y) { return __builtin_copysign(x, y); }
static inline float nextafter(float x, float y) { return __builtin_nextafterf(x, y); }
static inline double nextafter(double x, double y) { return __builtin_nextafter(x, y); }
static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
// A rational start, made exact by Newton's steps.
static inline double erfinv(double y) {
  if (!(y > -1 && y < 1)) return y == 1 ? __builtin_inf() : y == -1 ? -__builtin_inf() : __builtin_nan("");
  const double w = -__builtin_log((1 - y) * (1 + y)), a = 2 / (3.14159265358979323846 * 0.147) - w / 2;
  double x = __builtin_copysign(__builtin_sqrt(__builtin_sqrt(a * a + w / 0.147) - a), y);
  for (int i = 0; i < 4 && x == x; ++i) x -= (__builtin_erf(x) - y) / (1.12837916709551257390 * __builtin_exp(-x * x));
  return x == x ? x : 0.886226925452758 * y;
}
static inline float erfinv(float y) { return (float)erfinv((double)y); }

// ---- Threads
struct emu_fiber {
  void* stack_pointer = nullptr;
  char* memory = nullptr;
  int waits = 0;  // 0: runs; 1: for its warp; 2: for its block; 3: has returned; 4: for its cluster
  unsigned word = 0;
  const void* shown = nullptr;  // what the others of the warp may read meanwhile
};
struct emu_block {
  emu_fiber* fibers = nullptr;
  unsigned count = 0, current = 0;  // of all blocks of the cluster, which run together
  unsigned threads = 0;             // of one block
  void* scheduler = nullptr;
  void (*run)(const void*) = nullptr;
  const void* arguments = nullptr;
};
static thread_local emu_block emu;

extern "C" void emu_switch(void** from, void* to);
asm(R"(
.text
.local emu_switch
.type emu_switch, @function
emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

static void emu_wait(int for_whom) {
  emu_fiber& self = emu.fibers[emu.current];
  self.waits = for_whom;
  emu_switch(&self.stack_pointer, emu.scheduler);
}
static void emu_begin() {
  emu.run(emu.arguments);
  emu_wait(3);
  __builtin_trap();
}

static inline void __syncthreads() { emu_wait(2); }
static inline void gpu_cluster_wait() { emu_wait(4); }
static inline void __syncwarp() { emu_wait(1); }
static unsigned emu_exchange(unsigned word, unsigned lane) {
  emu.fibers[emu.current].word = word;
  emu_wait(1);
  const unsigned from = emu.current / 32 * 32 + lane;
  const unsigned got = from < emu.count ? emu.fibers[from].word : word;
  emu_wait(1);  // nobody writes before all have read
  return got;
}
static inline unsigned __shfl_xor_sync(unsigned, unsigned word, int mask) {
  return emu_exchange(word, (threadIdx.x % 32) ^ (unsigned)mask);
}
static inline unsigned __shfl_sync(unsigned, unsigned word, int lane, int width) {
  const unsigned here = threadIdx.x % 32;
  return emu_exchange(word, here / (unsigned)width * (unsigned)width + (unsigned)lane % (unsigned)width);
}

// ---- Matrix instructions and copies into shared memory: the functions of codegen/cuda/prelude_tiles.cpp
// Of each block of a cluster, which can see that of the others.
struct alignas(128) emu_memory {
  char bytes[227 << 10];
};
static thread_local emu_memory emu_shared[8];
#define gpu_dynamic_shared(name) char* const name = emu_shared[emu.current / emu.threads].bytes
static inline void gpu_fetch_of_block(float (&out)[4], const float* own, unsigned block) {
  const emu_size place = (emu_size)((const char*)own - emu_shared[emu.current / emu.threads].bytes);
  memcpy(out, emu_shared[block].bytes + place, sizeof(out));
}

// Every thread of the warp shows something, `read` looks at what they show by their lane, and then all go on.
template <class F>
static inline void emu_together(const void* own, F read) {
  emu.fibers[emu.current].shown = own;
  emu_wait(1);
  const unsigned first = emu.current / 32 * 32;
  read([first](unsigned lane) { return emu.fibers[first + lane].shown; });
  emu_wait(1);
}
static inline void emu_load_matrices(unsigned (&r)[4], const void* row, bool across) {
  const unsigned lane = threadIdx.x % 32;
  emu_together(row, [&](auto shown) {
    for (unsigned m = 0; m < 4; ++m) {
      unsigned short pair[2];
      for (unsigned i = 0; i < 2; ++i) {
        const unsigned line = across ? lane % 4 * 2 + i : lane / 4, place = across ? lane / 4 : lane % 4 * 2 + i;
        pair[i] = ((const unsigned short*)shown(m * 8 + line))[place];
      }
      r[m] = pair[0] | (unsigned)pair[1] << 16;
    }
  });
}
static inline void gpu_load_matrices(unsigned (&r)[4], const void* row) { emu_load_matrices(r, row, false); }
static inline void gpu_load_matrices_across(unsigned (&r)[4], const void* row) { emu_load_matrices(r, row, true); }

static inline float emu_float(unsigned bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
static inline float emu_of_bf16(unsigned h) { return emu_float(h << 16); }
static inline float emu_of_f16(unsigned h) {
  const unsigned a = (h & 0x7fffu) << 13;
  unsigned r;
  const float number = emu_float(a) * 0x1p112f;
  memcpy(&r, &number, 4);
  if (a >= 0x0f800000u) r = a | 0x7f800000u;
  return emu_float(r | (h & 0x8000u) << 16);
}
// d += a b, where a is 16 by `terms` and b `terms` by 8, spread over the warp as PTX has it; `per` values in a word.
template <int per, class F>
static inline void emu_mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, F value) {
  const unsigned words[6] = {a[0], a[1], a[2], a[3], b0, b1}, lane = threadIdx.x % 32;
  emu_together(words, [&](auto shown) {
    auto word = [&](unsigned of, unsigned which) { return ((const unsigned*)shown(of))[which]; };
    for (unsigned e = 0; e < 4; ++e) {
      const unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
      double sum = d[e];
      for (unsigned k = 0; k < 8 * per; ++k) {
        const unsigned half = k / (4 * per), within = k % (4 * per), place = within / per, part = within % per;
        const float x = value(word(row % 8 * 4 + place, row / 8 + half * 2), part);
        const float y = value(word(column * 4 + place, 4 + half), part);
        sum += (double)x * (double)y;
      }
      d[e] = (float)sum;
    }
  });
}
static inline void gpu_mma_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  emu_mma<2>(d, a, b0, b1, [](unsigned w, unsigned part) { return emu_of_bf16(w >> part * 16 & 0xffffu); });
}
static inline void gpu_mma_f16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  emu_mma<2>(d, a, b0, b1, [](unsigned w, unsigned part) { return emu_of_f16(w >> part * 16 & 0xffffu); });
}
static inline void gpu_mma_tf32(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  emu_mma<1>(d, a, b0, b1, [](unsigned w, unsigned) { return emu_float(w & ~0x1fffu); });
}
static inline unsigned gpu_to_tf32(unsigned x) {
  return (x & 0x7f800000u) == 0x7f800000u ? x : (x + 0x1000u) & ~0x1fffu;
}

// Copies arrive when they are waited for, not before: what forgets to wait reads what was there.
struct emu_copy {
  void* to;
  char bytes[16];
  int size, group;
};
struct emu_copies {
  emu_copy pending[128];
  int count = 0, group = 0;
};
static thread_local emu_copies emu_copies_of[4096];
static inline void emu_copy_later(void* to, const void* from, int size, bool wanted) {
  emu_copies& own = emu_copies_of[emu.current];
  if (own.count == 128 || (((emu_size)to | (emu_size)from) & (emu_size)(size - 1))) __builtin_trap();
  emu_copy& copy = own.pending[own.count++];
  copy.to = to, copy.size = size, copy.group = own.group;
  for (int i = 0; i < size; ++i) copy.bytes[i] = wanted ? ((const char*)from)[i] : 0;
}
static inline void gpu_copy_16(void* to, const void* from, bool wanted) { emu_copy_later(to, from, 16, wanted); }
template <class T>
static inline void gpu_copy_element(T* to, const T* from, bool wanted) {
  emu_copy_later(to, from, sizeof(T), wanted);
}
static inline void gpu_copy_commit() { ++emu_copies_of[emu.current].group; }
template <int left>
static inline void gpu_copy_wait() {
  emu_copies& own = emu_copies_of[emu.current];
  int kept = 0;
  for (int i = 0; i < own.count; ++i) {
    if (own.pending[i].group < own.group - left)
      memcpy(own.pending[i].to, own.pending[i].bytes, (emu_size)own.pending[i].size);
    else
      own.pending[kept++] = own.pending[i];
  }
  own.count = kept;
}

// ---- Matrix instructions of four warps: the functions of codegen/cuda/prelude_warpgroups.cpp
// They read shared memory at any time between being issued and being waited for: in every other block as early as that,
// else as late.
struct emu_product {
  float* sums;
  int columns, group;
  unsigned long left, right;
  bool bf16, left_across, right_across;
};
struct emu_products {
  emu_product pending[64];
  int count = 0, group = 0;
};
static thread_local emu_products emu_products_of[4096];

// As a GPU numbers it: the upper bits say whose of a cluster it is.
static inline unsigned gpu_shared_place(const void* p) {
  const unsigned block = emu.current / emu.threads;
  return block << 24 | (unsigned)((const char*)p - emu_shared[block].bytes);
}
// An element of a matrix that begins as the descriptor says, with exchanged words of 16 in lines of 128 bytes.
static inline float emu_element(unsigned long descriptor, bool across, unsigned index, unsigned term, bool bf16) {
  const auto field = [&](int at) { return (unsigned)(descriptor >> at & 0x3fff) << 4; };
  if (descriptor >> 62 != 1 || (descriptor >> 46 & 0xffff) != 0) __builtin_trap();
  unsigned at = field(0);
  if (across)
    at += index / 64 * field(16) + term / 8 * field(32) + term % 8 * 128 + index % 64 * 2;
  else
    at += index / 8 * field(32) + index % 8 * 128 + term * 2;
  at ^= (at >> 7 & 7) << 4;
  unsigned short bits;
  memcpy(&bits, emu_shared[emu.current / emu.threads].bytes + at, 2);
  return bf16 ? emu_of_bf16(bits) : emu_of_f16(bits);
}
static inline void emu_multiply(const emu_product& p) {
  const unsigned lane = threadIdx.x % 32, first = threadIdx.x / 32 % 4 * 16 + lane / 4;
  float rows[2][16];
  for (unsigned half = 0; half < 2; ++half)
    for (unsigned term = 0; term < 16; ++term)
      rows[half][term] = emu_element(p.left, p.left_across, first + half * 8, term, p.bf16);
  for (int j = 0; j < p.columns / 8; ++j)
    for (unsigned beside = 0; beside < 2; ++beside) {
      const unsigned column = (unsigned)j * 8 + lane % 4 * 2 + beside;
      double sums[2] = {p.sums[j * 4 + beside], p.sums[j * 4 + 2 + beside]};
      for (unsigned term = 0; term < 16; ++term) {
        const double y = emu_element(p.right, p.right_across, column, term, p.bf16);
        for (int half = 0; half < 2; ++half) sums[half] += (double)rows[half][term] * y;
      }
      p.sums[j * 4 + beside] = (float)sums[0], p.sums[j * 4 + 2 + beside] = (float)sums[1];
    }
}
template <int n>
static inline void gpu_wgmma(float (&sums)[n][4], unsigned long left, unsigned long right, bool bf16, bool left_across,
                             bool right_across) {
  emu_products& own = emu_products_of[emu.current];
  if (own.count == 64) __builtin_trap();
  const emu_product made = {&sums[0][0], n * 8, own.group, left, right, bf16, left_across, right_across};
  if (blockIdx.x % 2 == 0)
    emu_multiply(made);
  else
    own.pending[own.count++] = made;
}
static inline void gpu_show_stages() {}
static inline void gpu_wgmma_begin() {}
static inline void gpu_wgmma_commit() { ++emu_products_of[emu.current].group; }
template <int n>
static inline void gpu_hold_sums(float (&)[n][4]) {}
template <int left>
static inline void gpu_wgmma_wait() {
  emu_products& own = emu_products_of[emu.current];
  int kept = 0;
  for (int i = 0; i < own.count; ++i) {
    if (own.pending[i].group < own.group - left)
      emu_multiply(own.pending[i]);
    else
      own.pending[kept++] = own.pending[i];
  }
  own.count = kept;
}

template <class T, class V>
static inline T atomicAdd(T* p, V v) {
  const T old = *p;
  *p = (T)(old + v);
  return old;
}
template <class T>
static inline T atomicCAS(T* p, T seen, T wanted) {
  const T old = *p;
  if (old == seen) *p = wanted;
  return old;
}

// Lets those go on whose warp, whose block, or whose cluster is whole. False: all have returned.
static bool emu_release() {
  bool alive = false, cluster = true;
  for (unsigned i = 0; i < emu.count; ++i) {
    alive |= emu.fibers[i].waits != 3;
    cluster &= emu.fibers[i].waits >= 3;
  }
  const auto whole = [](unsigned first, unsigned end, int waits) {
    for (unsigned i = first; i < end; ++i)
      if (emu.fibers[i].waits != waits && emu.fibers[i].waits != 3) return false;
    return true;
  };
  const auto go_on = [](unsigned first, unsigned end, int waits) {
    for (unsigned i = first; i < end; ++i)
      if (emu.fibers[i].waits == waits) emu.fibers[i].waits = 0;
  };
  for (unsigned block = 0; block < emu.count; block += emu.threads) {
    const unsigned last = block + emu.threads;
    for (unsigned first = block; first < last; first += 32) {
      const unsigned end = first + 32 < last ? first + 32 : last;
      if (whole(first, end, 1)) go_on(first, end, 1);
    }
    if (whole(block, last, 2)) go_on(block, last, 2);
  }
  if (cluster) go_on(0, emu.count, 4);
  return alive;
}

static thread_local unsigned emu_first_block;
static void emu_run_fibers(bool reverse) {
  constexpr emu_size stack = 64 << 10;
  for (unsigned i = 0; i < emu.count; ++i) {
    emu_fiber& fiber = emu.fibers[i];
    if (!fiber.memory) fiber.memory = (char*)malloc(stack);
    void** top = (void**)(((emu_size)fiber.memory + stack) & ~(emu_size)15);
    *--top = nullptr;
    *--top = (void*)emu_begin;
    for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
    fiber.stack_pointer = top;
    fiber.waits = 0;
  }
  do {
    for (unsigned n = 0; n < emu.count; ++n) {
      const unsigned i = reverse ? emu.count - 1 - n : n;
      if (emu.fibers[i].waits != 0) continue;
      emu.current = i;
      threadIdx.x = i % emu.threads;
      blockIdx.x = emu_first_block + i / emu.threads;
      emu_switch(&emu.scheduler, emu.fibers[i].stack_pointer);
    }
  } while (emu_release());
}

static void emu_launch(void (*run)(const void*), const void* arguments, unsigned blocks, unsigned threads, bool meets,
                       unsigned cluster) {
  if (blocks % cluster != 0 || (cluster > 1 && !meets)) __builtin_trap();
  gridDim.x = blocks, blockDim.x = threads;
  gridDim.y = gridDim.z = blockDim.y = blockDim.z = 1;
  emu.run = run, emu.arguments = arguments, emu.count = threads * cluster, emu.threads = threads;
  if (meets) {
    emu.fibers = (emu_fiber*)malloc(emu.count * sizeof(emu_fiber));
    for (unsigned i = 0; i < emu.count; ++i) emu.fibers[i] = emu_fiber();
  }
  for (unsigned block = 0; block < blocks; block += cluster) {
    if (meets) {
      emu_first_block = block;
      emu_run_fibers(block / cluster % 2 == 1);
      continue;
    }
    blockIdx.x = block;
    for (unsigned n = 0; n < threads; ++n) {
      threadIdx.x = block % 2 == 1 ? threads - 1 - n : n;
      run(arguments);
    }
  }
  if (!meets) return;
  for (unsigned i = 0; i < emu.count; ++i) free(emu.fibers[i].memory);
  free(emu.fibers);
}
