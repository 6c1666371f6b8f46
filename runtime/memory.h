// Memory of the runtime: every byte it allocates goes through an Allocator, so that an embedder's own can stand in.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kiln::runtime {

inline constexpr size_t memory_alignment = 64;

struct Allocator {
  // `allocate` returns memory aligned to `alignment` (a power of two, at least 64) or nullptr.
  void* (*allocate)(void* user, size_t bytes, size_t alignment) = nullptr;
  void (*release)(void* user, void* memory, size_t bytes) = nullptr;
  void* user = nullptr;
};
Allocator system_allocator();
bool is_system(const Allocator& allocator);

// One owned allocation. Throws Error K0650 when there is no memory; zero bytes give a valid, unique address.
class Block {
 public:
  Block() = default;
  Block(const Allocator& allocator, int64_t bytes, size_t alignment = memory_alignment);
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept {
    Block moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Block();
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Makes it at least this large; what it held is lost when it grows. True: it moved.
  bool grow(const Allocator& allocator, int64_t bytes, size_t alignment = memory_alignment);

 private:
  void swap(Block& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  Allocator allocator_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace kiln::runtime
