/* Calls a package N times on its smallest inputs, with the caller's output: what bench/off_cost.sh counts.
 *   off_cost PKG N */
#include <stdio.h>
#include <stdlib.h>

#include "kiln/kiln.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const char* settings[] = {"cpp.threads=1"};
  kiln_load_options options = {
      .struct_size = sizeof options, .settings = settings, .setting_count = 1, .device_index = -1};
  options.ignore_environment = 1;
  kiln_model* model = NULL;
  kiln_instance* instance = NULL;
  if (kiln_load(argv[1], &options, &model) != KILN_OK || kiln_instance_create(model, &instance) != KILN_OK) {
    fprintf(stderr, "%s\n", kiln_last_error());
    return 1;
  }
  float x[8 * 10], y[8];
  for (int i = 0; i < 80; ++i) x[i] = (float)(i % 7) / 4 - 0.5f;
  int64_t in_sizes[] = {8, 10}, out_sizes[] = {8, 1};
  DLTensor in = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, in_sizes, NULL, 0};
  DLTensor out = {y, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, out_sizes, NULL, 0};
  kiln_value inputs = {KILN_TENSOR, 0, {.tensor = &in}, NULL}, outputs = {KILN_TENSOR, 0, {.tensor = &out}, NULL};
  for (long i = atol(argv[2]); i > 0; --i) {
    if (kiln_run(instance, &inputs, 1, &outputs, 1) != KILN_OK) {
      fprintf(stderr, "%s\n", kiln_last_error());
      return 1;
    }
  }
  kiln_instance_free(instance);
  kiln_model_free(model);
  return 0;
}
