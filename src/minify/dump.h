// The minifier's directory, written when something fails: <run directory>/minifier/ with minifier_launcher.py,
// minifier_launcher.sh (needs no Python) and checkpoints/exported_program.pt2, whose sample inputs are those of the
// failing call.
//
// Asked for by aot_inductor.dump_aoti_minifier (DUMP_AOTI_MINIFIER=1), by TORCHDYNAMO_REPRO_AFTER, or by a repro level
// of 3 or more. Levels: 1 the program only, 2 with the launcher, on failure (default); 3 always, before anything can
// die of a signal; 4 also when the results are wrong.
#pragma once
#include <functional>
#include <optional>

#include "base/settings.h"
#include "executable/executable.h"
#include "graph/graph.h"

namespace kiln::minify {

class DumpOnFailure {
 public:
  // `program`: reads it, only when it is needed. `say`: prints a line. `compiled_with`: settings of a package's
  // compile, which the launcher adds to those of the run.
  DumpOnFailure(const Settings& settings, std::vector<std::string> custom_op_libs, std::function<Program()> program,
                std::function<void(const std::string&)> say,
                std::function<std::vector<std::string>()> compiled_with = {});
  bool wanted() const { return level_ > 0; }
  // The inputs of the call, once they are known; until then the program's own.
  void set_inputs(std::vector<Datum> inputs) { inputs_ = std::move(inputs); }
  void before();  // level 3
  // After an error; says why where the directory cannot be written. Of an error of the call's inputs the program is
  // written without a launcher: there is nothing to minify.
  void failed(const std::string& code = "");
  void wrong_results();                      // after a comparison that failed
  void finished(const CallResult& outputs);  // level 4: compares with the reference

 private:
  void write(bool accuracy);
  Settings launcher_settings() const;

  const Settings& settings_;
  std::vector<std::string> custom_op_libs_;
  std::function<Program()> program_;
  std::function<void(const std::string&)> say_;
  std::function<std::vector<std::string>()> compiled_with_;
  std::optional<std::vector<Datum>> inputs_;
  int64_t level_ = 0;
  bool written_ = false;
  std::string refused_for_;  // the code of an error of the inputs
};

}  // namespace kiln::minify
