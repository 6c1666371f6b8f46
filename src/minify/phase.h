// What is shown of a phase of the minifier that has no count of its own: how far its trial says to be, or for how long
// it has run by now.
#pragma once
#include <chrono>

#include "base/text.h"
#include "minify/trials.h"

namespace kiln::minify {

// Until the next one, or until somebody else listens to the trials. `progress` must outlive them; it may be empty.
inline void show_phase(Trials& trials, const std::function<void(const std::string&)>& progress,
                       const std::string& phase) {
  if (!progress) return;
  progress(phase);
  trials.idle = [&trials, &progress, phase, begun = std::chrono::steady_clock::now()] {
    const std::chrono::duration<double> so_far = std::chrono::steady_clock::now() - begun;
    const std::string& far = trials.how_far();
    progress(!far.empty()         ? str(phase, ": ", far)
             : so_far.count() < 1 ? phase
                                  : str(phase, ", ", static_cast<int64_t>(so_far.count()), " s by now"));
  };
}

}  // namespace kiln::minify
