// What TORCH_LOGS asks for: components with a level ("inductor", "+inductor", "-inductor") and artifacts ("fusion",
// "output_code"). All names that PyTorch has are accepted; those that mean nothing here simply never say anything.
// A name nobody knows is an error with PyTorch's words.
//
// "x" is level info, "+x" debug, "-x" errors only. "+inductor" (and "+all") also turns on fusion and schedule;
// "-fusion" turns an artifact off. What comes later in the list wins.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

enum class LogLevel { debug, info, warning, error };

class LogSelection {
 public:
  LogSelection() = default;                                        // nothing but warnings and errors
  explicit LogSelection(const std::vector<std::string>& entries);  // throws K0143

  bool wants(std::string_view component, LogLevel level) const;
  bool artifact(std::string_view name) const;
  // Some component or artifact of the compiler is on: without it nothing has to be collected.
  bool any() const { return any_; }
  bool help() const { return help_; }  // TORCH_LOGS=help
  static std::string help_text();

 private:
  void take(std::string_view entry);
  std::map<std::string, LogLevel, std::less<>> components_;
  std::map<std::string, bool, std::less<>> artifacts_;
  bool any_ = false, help_ = false;
};

}  // namespace kiln
