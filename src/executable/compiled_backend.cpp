#include "base/file.h"
#include "base/given_settings.h"
#include "compile/compile.h"
#include "executable/backends.h"
#include "executable/package_executable.h"

namespace kiln {
namespace {

// Compiles into a directory that lives as long as the loaded package.
class CompiledExecutable : public Executable {
 public:
  CompiledExecutable(const Program& program, const ExecutableOptions& options) {
    CompileOptions compile_options;
    compile_options.device = options.device;
    compile_options.custom_op_libs = options.custom_op_libs;
    compile_options.settings = options.settings;
    const std::string path = join_path(directory_.path(), "model.kiln.pt2");
    compile_options.note = options.note;
    const CompileReport report = compile(program, path, compile_options);
    if (options.note)
      for (const std::string& note : report.notes) options.note(note);
    PackageOptions package_options;
    // The environment has been read once already, for both phases; at loading, what is for compiling would be refused.
    package_options.ignore_environment = options.settings != nullptr;
    if (options.settings) package_options.settings = run_assignments(*options.settings);
    package_ = std::make_unique<PackageExecutable>(path, package_options);
  }
  CallResult call(const std::vector<Datum>& inputs) override { return package_->call(inputs); }
  void reset() override { package_->reset(); }

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<PackageExecutable> package_;
};

}  // namespace

std::unique_ptr<Executable> make_compiled_executable(const Program& program, const ExecutableOptions& options) {
  return std::make_unique<CompiledExecutable>(program, options);
}

}  // namespace kiln
