#include "base/file.h"
#include "driver/compile.h"
#include "driver/executable_backends.h"
#include "driver/executable_package.h"

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

std::vector<GivenSetting> given_settings(const Settings& settings) {
  std::vector<GivenSetting> out;
  for (const Setting& setting : settings_table())
    if (settings.given(setting.key)) out.push_back({&setting, settings.text(setting)});
  return out;
}

std::vector<std::string> compile_assignments(const Settings& settings) {
  std::vector<std::string> out;
  for (const GivenSetting& given : given_settings(settings))
    if (given.setting->phase == Phase::compile && !given.setting->about_machine)
      out.push_back(str(given.setting->key, "=", given.text));
  return out;
}

std::vector<std::string> run_assignments(const Settings& settings) {
  std::vector<std::string> out;
  for (const GivenSetting& given : given_settings(settings))
    if (given.setting->phase == Phase::run) out.push_back(str(given.setting->key, "=", given.text));
  return out;
}

std::unique_ptr<Executable> make_compiled_executable(const Program& program, const ExecutableOptions& options) {
  return std::make_unique<CompiledExecutable>(program, options);
}

}  // namespace kiln
