// Where the rows of a product of bytes lie as u8, for multiply_bytes: who stores what is made of bytes stores these
// too.
#pragma once
#include "loops/loops.h"

namespace kiln::loops {

inline constexpr int64_t middle_of_bytes = 128;  // i8 + 128 is u8

class RowBytes {
 public:
  explicit RowBytes(LoopProgram& program);

  const std::vector<Kernel*>* writers_of(BufferId id) const;  // kernels of the block; nullptr: none
  bool others_write(BufferId id) const { return foreign_.contains(id); }
  // Bytes with a sign can be stored a second time, by whom they are stored; those of an input by a kernel of its own.
  bool can_shift(BufferId id) const;
  // The buffer that has the bytes of these rows as u8: of f32, which every writer makes of bytes, or of i8.
  BufferId of(BufferId rows, const std::vector<Origin>& origins);
  // Rows that only products of bytes read are stored as these alone.
  void finish();

 private:
  Buffer& buffer(BufferId id) { return program_.buffers[static_cast<size_t>(id)]; }
  const Buffer& buffer(BufferId id) const { return program_.buffers[static_cast<size_t>(id)]; }
  void store_bytes(Kernel& kernel, Body& body, BufferId from, BufferId to);
  Kernel shifting(BufferId from, BufferId to, const std::vector<Origin>& origins) const;

  LoopProgram& program_;
  std::map<BufferId, std::vector<Kernel*>> writers_;  // by what they store
  std::set<BufferId> foreign_;                        // what others write
  std::map<BufferId, BufferId> bytes_;                // rows, and where their bytes are
  Block first_;                                       // kernels that take bytes from inputs
};

}  // namespace kiln::loops
