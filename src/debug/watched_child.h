// Runs suspect code in a child process and says how that ended: with a report, by a signal, or not at all. While it
// runs, the child says what it is about to do in memory that both see, so that whoever is to blame has a name whatever
// happens.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "kiln/kiln.h"

namespace kiln {

// In memory that parent and child share. Plain data: a dying process must be able to leave it behind.
struct ChildProgress {
  static constexpr size_t longest_name = 120;
  int64_t launches = 0;  // steps that were begun, of all calls together
  int32_t call = 0, number = 0;
  int32_t inside_step = 0;   // 1: its code is running now
  int32_t looks_inside = 0;  // 1: its code is not running, it is looked at why its result is wrong
  int64_t since = 0;         // milliseconds, when its code began
  char step[longest_name] = "";

  void enter(const kiln_step& step);
  void leave() { inside_step = 0; }
};

struct ChildEnd {
  enum class How { reported, died, hung } how = How::reported;
  std::string report;  // what the child's work gave
  int signal = 0;      // died: of this, or 0 with `status`
  int status = 0;
  ChildProgress progress;
  std::string errors;  // what it wrote to standard error
  std::string signal_text() const;
};

// Forks; no other thread of this process may hold a lock that the work needs. A step that runs longer than
// `hang_seconds` is hung. Throws K0545 when there is no child to be had. `told`, which may be empty, hears some ten
// times a second where it is.
ChildEnd run_watched(double hang_seconds, const std::function<void(const ChildProgress&)>& told,
                     const std::function<std::string(ChildProgress&)>& work);

}  // namespace kiln
