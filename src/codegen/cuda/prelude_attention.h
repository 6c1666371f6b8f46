// What a kernel of attention calls (Grid::keys); uses cuda_tile_prelude().
#pragma once

namespace kiln::codegen {

const char* cuda_attention_prelude();
const char* cuda_joined_attention_prelude();

}  // namespace kiln::codegen
