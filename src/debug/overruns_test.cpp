// Kernels that leave their buffers by a little or by much, for reading and for writing, before the start and past the
// end of an input, a weight, a temp and an output. The code goes wrong, not the loops: each is put into the printed
// C++. Both ways of looking must find every one of them and name the kernel, the buffer and the user's line: guard
// pages (PYTORCH_NO_CUDA_MEMORY_CACHING) by a signal or by what was written beside, and the instrumented rebuild
// (check_bounds).
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/settings.h"
#include "codegen/backend.h"
#include "compile/compile.h"
#include "executable/package_executable.h"
#include "graph/graph.h"

namespace kiln {
namespace {

// 5 rows of 37: 740 bytes, which the runtime's alignment rounds up to 768. There is a temp between two kernels, unless
// chain_kernels makes scratch of it.
const char* model_text = R"model(program "rows"
graph main {
  input %w: f32[37] = parameter "scale"
  input %x: f32[5, 37] = user
  %scaled: f32[5, 37] = aten.mul.Tensor(self=%x, other=%w) @0
  %total: f32[37] = aten.sum.dim_IntList(self=%scaled, dim=[0]) @1
  %out: f32[5, 37] = aten.div.Tensor(self=%scaled, other=%total) @2
  output %out = user
}
line 0 "model.py":11 in "forward": "scaled = x * self.scale"
line 1 "model.py":12 in "forward": "total = scaled.sum(0)"
line 2 "model.py":13 in "forward": "return scaled / total"
origin 0 node "scaled" op "aten.mul.Tensor" module "" stack 0
origin 1 node "total" op "aten.sum.dim_IntList" module "" stack 1
origin 2 node "out" op "aten.div.Tensor" module "" stack 2
)model";

struct Overrun {
  const char* what;
  const char* buffer;  // which is left
  bool store;          // else a load
  const char* shift;   // put behind "b0 + " of every access to it
};
const Overrun overruns[] = {
    {"input, read one element past its end", "x", false, "1"},
    {"input, read one element before its start", "x", false, "-1"},
    {"input, read far past its end", "x", false, "100000"},
    {"input, read far before its start", "x", false, "-100000"},
    {"weight, read one element past its end", "w", false, "1"},
    {"weight, read one element before its start", "w", false, "-1"},
    {"weight, read two vectors past its end", "w", false, "32"},
    {"temp, read one element past its end", "total", false, "1"},
    {"output, written one element past its end", "out", true, "1"},
    {"output, written one element before its start", "out", true, "-1"},
    {"output, written far past its end", "out", true, "200000"},
    {"output, written a page before its start", "out", true, "-1024"},
};

bool word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Shifts every access to the buffer in the functions that have it; `numbers`: its number by function.
int shift_accesses(std::string& unit, const std::map<std::string, int>& numbers, const Overrun& overrun) {
  int shifted = 0;
  for (const auto& [function, number] : numbers) {
    const size_t begin = unit.find(" int " + function + "(");
    if (begin == std::string::npos) continue;
    const std::string pointer = str("(b", number, " + "), moved = str("(b", number, " + ", overrun.shift, "l + ");
    size_t end = unit.find("extern \"C\"", begin);
    for (size_t at = unit.find(pointer, begin); at < end && at != std::string::npos; at = unit.find(pointer, at + 1)) {
      size_t name = at;
      while (name > 0 && word(unit[name - 1])) --name;
      const std::string called = unit.substr(name, at - name);
      const bool store = starts_with(called, "k_store_") || starts_with(called, "k_set_");
      if (store != overrun.store) continue;
      unit.replace(at, pointer.size(), moved);
      at += moved.size(), ++shifted;
      if (end != std::string::npos) end += moved.size() - pointer.size();
    }
  }
  return shifted;
}

struct OverrunOutcome {
  int status = 0;
  std::string text;
};

// In a process of its own: it may die.
OverrunOutcome run_package(const std::string& path, const std::vector<Datum>& inputs, const std::string& setting) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]), close(ends[1]);
    PackageOptions options;
    options.settings = {setting, "cpp.threads=1"};
    options.ignore_environment = true;  // what the tests are given there would be spoken of
    try {
      PackageExecutable(path, options).call(inputs);
    } catch (const Error& error) {
      fprintf(stderr, "%s\n", error.what());
      _exit(3);
    }
    _exit(0);
  }
  close(ends[1]);
  OverrunOutcome run;
  char buffer[4096];
  while (const ssize_t n = read(ends[0], buffer, sizeof buffer)) {
    if (n < 0) break;
    run.text.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  waitpid(child, &run.status, 0);
  return run;
}

class Overruns : public testing::Test {
 protected:
  static Program model() {
    Program program = parse_program(model_text);
    Tensor w = Tensor::empty(DType::f32, {37}), x = Tensor::empty(DType::f32, {5, 37});
    for (Tensor* t : {&w, &x})
      for (int64_t i = 0; i < t->numel(); ++i) t->set_item(i, Scalar(0.5 + static_cast<double>(i % 7)));
    program.constants["scale"] = w;
    program.sample_inputs = {Datum{x}};
    return program;
  }
  // Nothing: the package is as it should be.
  int compile_with(const Overrun* overrun) {
    const Program program = model();
    Settings settings(Phase::compile);
    settings.set("disable_pass=chain_kernels");
    CompileOptions options;
    options.settings = &settings;
    int shifted = 0;
    std::map<std::string, int> numbers;
    options.inject.loops = [&](loops::LoopProgram& loops) {
      if (!overrun) return;
      // Where the printer puts the buffer among a kernel's arguments.
      const codegen::GeneratedCode code = codegen::cpu_backend().generate(
          loops, codegen::cpu_backend().target(codegen::cpu_backend().host_target_name()));
      for (const auto& [kernel, step] : code.steps)
        for (size_t b = 0; b < step.buffers.size(); ++b)
          if (loops.buffers[static_cast<size_t>(step.buffers[b])].name == overrun->buffer)
            numbers[code.symbols[static_cast<size_t>(step.function)]] = static_cast<int>(b);
    };
    options.inject.source = [&](std::string& unit) {
      if (overrun) shifted += shift_accesses(unit, numbers, *overrun);
    };
    compile(program, path(), options);
    return shifted;
  }
  std::string path() const { return join_path(folder_.path(), "rows.kiln.pt2"); }
  TemporaryDirectory folder_;
};

// Right packages pass both, so that what is found below is the defect.
TEST_F(Overruns, NoneIsFoundInARightPackage) {
  compile_with(nullptr);
  for (const char* setting : {"PYTORCH_NO_CUDA_MEMORY_CACHING=1", "check_bounds=1"}) {
    const OverrunOutcome run = run_package(path(), model().sample_inputs, setting);
    EXPECT_EQ(run.status, 0) << setting << "\n" << run.text;
    EXPECT_EQ(run.text, "") << setting;
  }
}

TEST_F(Overruns, EveryOneIsFoundAndNamed) {
  for (const Overrun& overrun : overruns) {
    SCOPED_TRACE(overrun.what);
    ASSERT_GT(compile_with(&overrun), 0) << "the defect has no place";
    for (const char* setting : {"PYTORCH_NO_CUDA_MEMORY_CACHING=1", "check_bounds=1"}) {
      const OverrunOutcome run = run_package(path(), model().sample_inputs, setting);
      EXPECT_NE(run.status, 0) << setting << "\n" << run.text;
      for (const std::string& part :
           {std::string("kernel cpp_"), str("buffer ", overrun.buffer, " ("), std::string("--> model.py:1")})
        EXPECT_NE(run.text.find(part), std::string::npos) << setting << ": no '" << part << "' in\n" << run.text;
    }
  }
}

}  // namespace
}  // namespace kiln
