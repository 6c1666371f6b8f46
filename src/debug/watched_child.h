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
  static constexpr size_t most_buffers = 64, longest_name = 120;
  struct Place {
    char name[longest_name];
    uint64_t begin, end;
  };
  int64_t launches = 0;  // steps that were begun, of all calls together
  int32_t call = 0, number = 0;
  int32_t inside_step = 0;  // 1: its code is running now
  int64_t since = 0;        // milliseconds, when that began
  char step[longest_name] = "";
  uint32_t place_count = 0;  // the step's arguments
  Place places[most_buffers];
  int32_t fault_known = 0;
  uint64_t fault_address = 0;

  void enter(const kiln_step& step);
  void leave() { inside_step = 0; }
  std::string address_text() const;    // " at an address 4 bytes behind buffer relu"; empty: not known
  std::string address_buffer() const;  // the buffer that it is near to
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
// `hang_seconds` is hung. Throws K0545 when there is no child to be had.
ChildEnd run_watched(double hang_seconds, const std::function<std::string(ChildProgress&)>& work);

}  // namespace kiln
