// freezing: what init would make of the weights goes into the package, so that loading maps it and packs nothing, and a
// weight that is there whole in packed form is not kept a second time in its own.
#pragma once
#include "package/writer.h"

namespace kiln {

// Fills the first variant's derived buffers and says in its plan which constants they stand for. Returns what is to be
// told: why nothing was frozen, or that another target still packs at load. Empty: nothing.
std::string freeze(PackageContents& contents);

}  // namespace kiln
