#include "minify/probe.h"

#include <new>

#include "base/given_settings.h"
#include "compile/compilation.h"
#include "executable/package_executable.h"
#include "minify/accuracy.h"

namespace kiln::minify {

CompileReport compile_into(const TemporaryDirectory& directory, const Program& program, const ProbeOptions& options) {
  const std::string path = join_path(directory.path(), "model.kiln.pt2");
  CompileOptions compile_options;
  compile_options.settings = options.settings;
  compile_options.custom_op_libs = options.custom_op_libs;
  compile_options.device = options.device;
  return compile(program, path, compile_options);
}

namespace {

constexpr const char* mode_names[] = {"generated", "syntax", "loops", "compiled"};

// The runtime's errors carry the place in their text: "operator aten.relu.default · node relu · step …".
std::string after_word(const std::string& text, const std::string& word) {
  const size_t at = text.find(word);
  if (at == std::string::npos) return "";
  const size_t begin = at + word.size();
  return text.substr(begin, text.find_first_of(" \n", begin) - begin);
}

Failure failure_of(const Error& error, const std::string& stage) {
  Failure failure;
  failure.kind = FailureKind::error;
  failure.stage = stage;
  failure.code = error.code();
  // What the C++ compiler refuses is a kernel, no node, and a smaller program fuses other operators with the culprit.
  if (error.code() != "K0411") {
    failure.op = error.where().op;
    failure.node = error.where().node;
  }
  if (failure.op.empty()) failure.op = after_word(error.message(), "\n  operator ");
  if (failure.node.empty()) failure.node = after_word(error.message(), " node ");
  failure.message = error.what();
  return failure;
}

CallResult run_compiled(const Program& program, const ProbeOptions& options, const StageEntered& enter,
                        std::string& missed_fault) {
  TemporaryDirectory directory;
  const CompileReport report = compile_into(directory, program, options);
  missed_fault = report.missed_fault;
  enter("load");
  PackageOptions package_options;
  package_options.ignore_environment = options.settings != nullptr;
  if (options.settings) package_options.settings = run_assignments(*options.settings);
  PackageExecutable package(report.package_path, package_options);
  enter("run");
  return package.call(program.sample_inputs);
}

CallResult run_loops(const Program& program, const ProbeOptions& options, const StageEntered& enter) {
  ExecutableOptions executable_options;
  executable_options.backend = Backend::loops;
  executable_options.custom_op_libs = options.custom_op_libs;
  executable_options.settings = options.settings;
  const auto executable = make_executable(program, executable_options);
  enter("run");
  return executable->call(program.sample_inputs);
}

Failure try_program(const Program& program, const ProbeOptions& options, const StageEntered& enter) {
  if (options.mode == ProbeMode::generated || options.mode == ProbeMode::syntax) {
    CompileOptions compile_options;
    compile_options.settings = options.settings;
    compile_options.custom_op_libs = options.custom_op_libs;
    compile_options.device = options.device;
    compile_options.goal = options.mode == ProbeMode::syntax ? CompileGoal::syntax : CompileGoal::generated;
    compile(program, "", compile_options);
    return {};
  }
  Failure none;
  const CallResult result = options.mode == ProbeMode::loops ? run_loops(program, options, enter)
                                                             : run_compiled(program, options, enter, none.message);
  if (!options.accuracy) return none;
  enter("compare");
  Failure failure = judge(program, result,
                          {options.rtol, options.atol, options.custom_op_libs, options.expected, options.as_check,
                           product_precision(options.settings) != ProductPrecision::highest});
  return failure.failed() || none.message.empty() ? failure : none;
}

}  // namespace

const char* probe_mode_name(ProbeMode mode) { return mode_names[static_cast<size_t>(mode)]; }

Failure probe(const Program& program, const ProbeOptions& options, const StageEntered& entering) {
  std::string stage;
  const StageEntered enter = [&](const std::string& name) {
    stage = name;
    entering(name);
  };
  Failure failure;
  try {
    enter("compile");
    return try_program(program, options, enter);
  } catch (const Error& error) {
    failure = failure_of(error, stage);
  } catch (const std::bad_alloc&) {
    failure.kind = FailureKind::memory;
    failure.message = "out of memory";
  } catch (const std::exception& error) {
    failure.kind = FailureKind::error;
    failure.code = "K0900";
    failure.message = error.what();
  }
  failure.stage = stage;
  // What the reference refuses is not the compiled program's fault: no failure of the kind that is looked for.
  if (stage == "compare") failure.code = "reference " + failure.code;
  return failure;
}

}  // namespace kiln::minify
