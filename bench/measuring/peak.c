/* What the processor can do at most: multiply-adds of f32 (and bf16 where there are instructions for it), and reading.
 *
 *   cc -O3 -march=native -ffp-contract=fast -pthread peak.c -o peak && ./peak THREADS [f32]
 *
 * Prints JSON: GFLOP/s of all threads together, and GB/s by the number of bytes that they read together over and over.
 * With f32 the first number alone, after a fifth of a second of such work: what is left of a processor's clock by then,
 * with what others on the machine do in that moment.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__AVX512BF16__) || defined(__AMX_BF16__)
#include <immintrin.h>
#include <sys/syscall.h>
#endif

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
typedef float Floats __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t Words __attribute__((vector_size(VECTOR_BYTES), may_alias));

enum { ACCUMULATORS = 12, TRIES = 60, MOST_THREADS = 256 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Each kind of work does `rounds` rounds and says how much one round is: operations or bytes. */
typedef struct {
  int64_t rounds;
  Words* memory;
  size_t vectors;
  double kept; /* keeps the work from being removed */
} Share;
typedef double (*Work)(Share*);

static double multiply_add(Share* share) {
  Floats a[ACCUMULATORS], b = (Floats){} + 0.999999f, c = (Floats){} + 1e-6f;
  for (int i = 0; i < ACCUMULATORS; ++i) a[i] = (Floats){} + (float)i;
  __asm__ volatile("" : "+v"(b), "+v"(c)); /* or the compiler sees that 1 stays 1, and leaves that one out */
  for (int64_t r = 0; r < share->rounds; ++r)
    for (int i = 0; i < ACCUMULATORS; ++i) a[i] = a[i] * b + c;
  for (int i = 0; i < ACCUMULATORS; ++i) share->kept += a[i][0];
  return 2.0 * ACCUMULATORS * (VECTOR_BYTES / sizeof(float));
}

#if defined(__AVX512BF16__)
static double multiply_add_bf16(Share* share) {
  __m512 a[ACCUMULATORS];
  __m512bh b = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
  for (int i = 0; i < ACCUMULATORS; ++i) a[i] = _mm512_set1_ps((float)i);
  for (int64_t r = 0; r < share->rounds; ++r)
    for (int i = 0; i < ACCUMULATORS; ++i) a[i] = _mm512_dpbf16_ps(a[i], b, b);
  for (int i = 0; i < ACCUMULATORS; ++i) share->kept += _mm512_cvtss_f32(a[i]);
  return 2.0 * ACCUMULATORS * 32;
}
#endif

#if defined(__AMX_BF16__)
/* Tiles of 16 rows of 64 bytes: 16 × 16 sums of 32 products each. The system must allow their use first. */
static int allow_tiles(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

static double multiply_tiles(Share* share) {
  struct {
    uint8_t palette, start, zeros[14];
    uint16_t bytes[16];
    uint8_t rows[16];
  } config = {.palette = 1};
  for (int i = 0; i < 8; ++i) config.bytes[i] = 64, config.rows[i] = 16;
  static const uint8_t zeros[1024];
  __asm__ volatile("" : : "r"(&config) : "memory"); /* the compiler thinks that only its first bytes are read */
  _tile_loadconfig(&config);
  _tile_loadd(4, zeros, 64);
  _tile_loadd(5, zeros, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t r = 0; r < share->rounds; ++r) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
  return 4 * 2.0 * 16 * 16 * 32;
}
#endif

/* Adds up memory in several streams at once, each a part of it, and asks for what lies so many vectors ahead, if any:
 * which of these ways is the quickest differs between processors. */
#define READ(NAME, STREAMS, AHEAD)                                                                    \
  static double NAME(Share* share) {                                                                  \
    Words sums[8] = {};                                                                               \
    const size_t part = share->vectors / (STREAMS) / 8 * 8;                                           \
    for (int64_t r = 0; r < share->rounds; ++r) {                                                     \
      __asm__ volatile("" ::: "memory"); /* each round reads anew */                                  \
      for (size_t i = 0; i < part; i += 8)                                                            \
        for (size_t s = 0; s < (STREAMS); ++s) {                                                      \
          const Words* from = share->memory + s * part + i;                                           \
          for (size_t k = 0; (AHEAD) > 0 && k < 8; ++k) __builtin_prefetch(from + k + (AHEAD), 0, 3); \
          for (size_t k = 0; k < 8; ++k) sums[k] += from[k];                                          \
        }                                                                                             \
    }                                                                                                 \
    for (int k = 0; k < 8; ++k) share->kept += (double)sums[k][0];                                    \
    return (double)(part * (STREAMS)) * VECTOR_BYTES;                                                 \
  }
READ(read_plainly, 1, 0)
READ(read_ahead, 1, 64)
READ(read_two_streams, 2, 0)
READ(read_four_streams, 4, 0)

typedef struct {
  Work work;
  Share share;
  atomic_int* waited_for; /* threads that have not begun yet */
  double of_a_round, begin, end;
} Task;

static void* run(void* given) {
  Task* task = given;
  /* Awake when the last one comes: waking up takes as long as a try. */
  atomic_fetch_sub(task->waited_for, 1);
  for (int spins = 1; atomic_load(task->waited_for) > 0; ++spins)
    if (spins % 4096 == 0) sched_yield();
  task->begin = now();
  task->of_a_round = task->work(&task->share);
  task->end = now();
  return NULL;
}

/* Operations or bytes per second of all threads together: the best of many tries of about a millisecond, of which some
 * are undisturbed even where others use the machine. Of memory a try reads a window, the next try the next. */
static double best_rate(Work work, int threads, int64_t rounds, Words** memory, size_t window, size_t windows) {
  double best = 0;
  const size_t tries = 2 * windows > TRIES ? 2 * windows : TRIES;
  for (size_t t = 0; t < tries; ++t) {
    atomic_int waited_for = threads;
    pthread_t started[MOST_THREADS];
    static Task tasks[MOST_THREADS];
    for (int i = 0; i < threads; ++i) {
      tasks[i] =
          (Task){work, {rounds, memory ? memory[i] + t % windows * window : NULL, window, 0}, &waited_for, 0, 0, 0};
      if (pthread_create(&started[i], NULL, run, &tasks[i])) exit(1);
    }
    double total = 0, begin = 1e300, end = 0;
    for (int i = 0; i < threads; ++i) {
      pthread_join(started[i], NULL);
      total += tasks[i].of_a_round * (double)rounds;
      if (tasks[i].begin < begin) begin = tasks[i].begin;
      if (tasks[i].end > end) end = tasks[i].end;
    }
    if (total / (end - begin) > best) best = total / (end - begin);
  }
  return best;
}

static double best_reading(int threads, size_t bytes) {
  const size_t vectors = bytes / (size_t)threads / VECTOR_BYTES, page = (size_t)2 << 20;
  Words* memory[MOST_THREADS];
  for (int i = 0; i < threads; ++i) {
    const size_t own = (vectors * VECTOR_BYTES + page - 1) / page * page;
    memory[i] = aligned_alloc(page, own);
    if (!memory[i]) return 0;
#ifdef MADV_HUGEPAGE
    madvise(memory[i], own, MADV_HUGEPAGE); /* where there are none it is measured without */
#endif
    memset(memory[i], i + 1, vectors * VECTOR_BYTES);
  }
  static const Work ways[] = {read_plainly, read_ahead, read_two_streams, read_four_streams};
  const size_t most = ((size_t)4 << 20) / VECTOR_BYTES, window = vectors < most ? vectors : most;
  double best = 0;
  for (size_t way = 0; way < sizeof ways / sizeof *ways; ++way) {
    const double rate = best_rate(ways[way], threads, (int64_t)(most / window), memory, window, vectors / window);
    if (rate > best) best = rate;
  }
  for (int i = 0; i < threads; ++i) free(memory[i]);
  return best;
}

int main(int count, char** given) {
  const int threads = count > 1 ? atoi(given[1]) : 1;
  if (threads < 1 || threads > MOST_THREADS) return 2;
  if (count > 2) {
    for (const double begin = now(); now() - begin < 0.2;) best_rate(multiply_add, threads, 500000, NULL, 0, 1);
    printf("{\"f32\": %.1f}\n", 1e-9 * best_rate(multiply_add, threads, 500000, NULL, 0, 1));
    return 0;
  }
  double bf16 = 0;
#if defined(__AVX512BF16__)
  if (__builtin_cpu_supports("avx512bf16")) bf16 = best_rate(multiply_add_bf16, threads, 200000, NULL, 0, 1);
#endif
#if defined(__AMX_BF16__)
  if (allow_tiles()) {
    const double tiles = best_rate(multiply_tiles, threads, 20000, NULL, 0, 1);
    if (tiles > bf16) bf16 = tiles;
  }
#endif
  printf("{\"f32\": %.1f, \"bf16\": %.1f, \"reading\": [", 1e-9 * best_rate(multiply_add, threads, 500000, NULL, 0, 1),
         1e-9 * bf16);
  static const size_t sizes[] = {64u << 10, 2u << 20, 32u << 20, 128u << 20, 1024u << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    printf("%s[%zu, %.1f]", i ? ", " : "", sizes[i], 1e-9 * best_reading(threads, sizes[i]));
  printf("]}\n");
  return 0;
}
