// The parts of the family of indexing operators that have files of their own.
#pragma once

namespace kiln {

class Registry;
void register_gathers(Registry& registry);
void register_scatters(Registry& registry);
void register_searches(Registry& registry);

}  // namespace kiln
