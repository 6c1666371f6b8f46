#include <gtest/gtest.h>

#include "base/file.h"
#include "debug/bisect.h"
#include "debug/seeded_models.h"
#include "driver/compile.h"
namespace kiln {
TEST(Seeded, Dump) {
  TemporaryDirectory folder;
  for (const auto& model : seeded::all_models) {
    try {
      Program program = seeded::program_of(model);
      CompileOptions options;
      options.inject.loops = [&](loops::LoopProgram& p) { printf("%s\n", loops::print(p).c_str()); };
      std::string path = join_path(folder.path(), std::string(model.name) + ".kiln.pt2");
      auto report = compile(program, path, options);
      auto result = bisect(path, seeded::inputs_of(program), {});
      printf("=== %s %.2f s: %s\n", model.name, report.seconds, result.text.c_str());
    } catch (const Error& e) {
      printf("=== %s FAILED %s\n", model.name, e.what());
    }
  }
}
}  // namespace kiln
