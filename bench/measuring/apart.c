/* What cores give to a product whose threads share nothing: 120 rows by 768 columns of 768 terms, step after step, each
 * thread with columns, rows and results of its own in its own caches. After each step all wait for one another, as the
 * steps of a model do. No memory is between cores, so what this does not gain from more cores, no program does whose
 * steps are products of that size.
 *
 *   cc -O3 -march=native -ffp-contract=fast -pthread apart.c -o apart && ./apart THREADS
 *
 * Prints JSON: GFLOP/s of all threads together.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
enum { LANES = 16, VECTORS = 3, HIGH = 8 };
#elif defined(__AVX2__)
enum { LANES = 8, VECTORS = 2, HIGH = 6 };
#else
enum { LANES = 4, VECTORS = 2, HIGH = 6 };
#endif
enum { ROWS = 120, TERMS = 768, COLUMNS = 768, WIDE = LANES * VECTORS, MOST_THREADS = 256, STEPS = 300, WARM = 50 };
typedef float Floats __attribute__((vector_size(LANES * 4), aligned(4)));

static atomic_int arrived, turn;
static int thread_count;

static void meet(void) {
  const int now = atomic_load(&turn);
  if (atomic_fetch_add(&arrived, 1) + 1 == thread_count) {
    atomic_store(&arrived, 0);
    atomic_fetch_add(&turn, 1);
  } else {
    while (atomic_load(&turn) == now) __builtin_ia32_pause();
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static float* filled(size_t count) {
  float* made = aligned_alloc(4096, (count * sizeof(float) + 4095) / 4096 * 4096);
  for (size_t i = 0; i < count; ++i) made[i] = 1e-3f * (float)(i % 13);
  return made;
}

/* HIGH rows by WIDE columns, whose factors lie one behind the other. */
static void tile(const float* rows, const float* panel, float* results) {
  Floats sums[HIGH][VECTORS] = {};
  for (int k = 0; k < TERMS; ++k)
    for (int r = 0; r < HIGH; ++r)
      for (int v = 0; v < VECTORS; ++v)
        sums[r][v] += rows[r * TERMS + k] * *(const Floats*)(panel + k * WIDE + v * LANES);
  for (int r = 0; r < HIGH; ++r)
    for (int v = 0; v < VECTORS; ++v) *(Floats*)(results + r * COLUMNS + v * LANES) = sums[r][v];
}

static void* work(void* number) {
  const int panels = COLUMNS / WIDE, mine = (int)(size_t)number;
  const int first = panels * mine / thread_count, end = panels * (mine + 1) / thread_count;
  const float *rows = filled(ROWS * TERMS), *weights = filled((size_t)(end - first + 1) * TERMS * WIDE);
  float* results = filled(ROWS * COLUMNS);
  double* began = malloc(sizeof(double));
  for (int step = 0; step < WARM + STEPS; ++step) {
    meet();
    if (step == WARM) *began = now();
    for (int p = first; p < end; ++p)
      for (int r = 0; r < ROWS; r += HIGH)
        tile(rows + r * TERMS, weights + (size_t)(p - first) * TERMS * WIDE, results + r * COLUMNS + p * WIDE);
  }
  meet();
  *began = now() - *began;
  return began;
}

int main(int count, char** words) {
  thread_count = count > 1 ? atoi(words[1]) : 1;
  if (thread_count < 1 || thread_count > MOST_THREADS) return fprintf(stderr, "usage: apart THREADS\n"), 2;
  pthread_t threads[MOST_THREADS];
  for (int t = 1; t < thread_count; ++t) pthread_create(&threads[t], NULL, work, (void*)(size_t)t);
  const double seconds = *(double*)work((void*)0);
  for (int t = 1; t < thread_count; ++t) pthread_join(threads[t], NULL);
  printf("{\"f32\": %.1f}\n", 2.0 * ROWS * TERMS * COLUMNS * STEPS / seconds * 1e-9);
  return 0;
}
