// What the library can write for the minifier when a call fails in a program that only has the library: the inputs of
// the call and launchers that run `kiln minify` on the package with them (its debug section has the program). Asked for
// by DUMP_AOTI_MINIFIER=1, TORCHDYNAMO_REPRO_AFTER, or a repro level of 3 or more.
//
// Levels: 1 the inputs only; 2 with the launchers, on failure (default); 3 before every call, for what dies of a signal
// or hangs; 4 the same for results that may be wrong: the library has no reference, so the launcher compares them.
// Thread-safe. Nothing here throws: a dump that cannot be written is said and forgotten.
#pragma once
#include <memory>
#include <string>

#include "base/fork_mutex.h"
#include "base/settings.h"
#include "kiln/kiln.h"
#include "runtime/log.h"

namespace kiln::runtime {

class MinifierDump {
 public:
  // Null: nobody asked. `package`: its path; empty: it was loaded from memory, and `bytes` are written beside.
  static std::shared_ptr<MinifierDump> make(const Settings& settings, std::string package, std::string_view bytes,
                                            const Log& log);

  void before(const kiln_value* inputs, size_t count) noexcept;
  void failed(const kiln_value* inputs, size_t count) noexcept;
  // Inputs that do not fit: they are written, without a launcher, for there is nothing to minify.
  void refused(const kiln_value* inputs, size_t count) noexcept;
  void load_failed() noexcept;

 private:
  MinifierDump(const Settings& settings, std::string package, std::string_view bytes, const Log& log);
  void write(const kiln_value* inputs, size_t count, bool has_inputs) noexcept;
  void write_files(const std::string& inputs);
  std::string python(const std::string& package, bool has_inputs) const;
  std::string shell(const std::string& package, bool has_inputs) const;

  Settings settings_;
  std::string package_;
  std::string_view bytes_;
  Log log_;
  int64_t level_ = 2;
  std::string after_;
  LongMutex mutex_;
  std::unique_ptr<const std::string> directory_;  // once something was written; set by one store (LongMutex)
  bool failed_ = false;                           // the first failure stays
  bool refused_ = false;                          // what is written is about inputs that do not fit
};

}  // namespace kiln::runtime
