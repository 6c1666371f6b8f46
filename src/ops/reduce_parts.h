// The parts of the family of reductions that have files of their own.
#pragma once

namespace kiln {

class Registry;
void register_variance(Registry& registry);
void register_norms(Registry& registry);
void register_softmax(Registry& registry);
void register_scans(Registry& registry);

}  // namespace kiln
