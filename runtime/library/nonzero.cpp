// aten.nonzero: the indices of the elements that are not zero, one row each, in row-major order. The number of rows is
// found in the size phase.
#include <algorithm>
#include <cstring>

#include "runtime/element.h"
#include "runtime/library/kernels.h"

namespace kiln::runtime {
namespace {

// Whether elements of a line are not zero, without asking for the dtype of each: what is not zero in a whole number or
// in a float has a bit, other than the float's sign.
class Line {
 public:
  explicit Line(const TensorView& self) : dtype_(self.dtype), item_(dtype_bytes(self.dtype)) {
    const bool plain = item_ <= 8 && !is_complex(dtype_) && (is_integer(dtype_) || dtype_ == DType::boolean);
    if (plain || dtype_ == DType::f32 || dtype_ == DType::f64)
      mask_ = plain ? UINT64_MAX : (uint64_t{1} << (item_ * 8 - 1)) - 1;
  }

  template <class F>
  void each(const std::byte* at, int64_t step, int64_t count, F found) const {
    switch (mask_ == 0 ? 0 : item_) {
      case 1:
        return words<uint8_t>(at, step, count, found);
      case 4:
        return words<uint32_t>(at, step, count, found);
      case 8:
        return words<uint64_t>(at, step, count, found);
      default:
        for (int64_t i = 0; i < count; ++i) found(i, element_is_nonzero(dtype_, at + i * step));
    }
  }

 private:
  template <class Word, class F>
  void words(const std::byte* at, int64_t step, int64_t count, F found) const {
    const auto mask = static_cast<Word>(mask_);
    for (int64_t i = 0; i < count;) {
      if (step == static_cast<int64_t>(sizeof(Word)) && i + 32 <= count) {  // most of a sparse mask is passed over
        Word any = 0;
        Word words[32];
        std::memcpy(words, at + i * step, sizeof words);
        for (Word word : words) any |= word;
        if ((any & mask) == 0) {
          i += 32;
          continue;
        }
      }
      for (const int64_t end = std::min(count, i + 32); i < end; ++i) {
        Word word;
        std::memcpy(&word, at + i * step, sizeof word);
        found(i, (word & mask) != 0);
      }
    }
  }

  DType dtype_;
  int64_t item_;
  uint64_t mask_ = 0;  // 0: asked element by element
};

// Both phases are one walk: the first one counts, the second one writes what it finds.
class Walk {
 public:
  Walk(TensorView self, const TensorView* out) : self_(self), out_(out), line_(self) {}

  int64_t run() {
    const int64_t item = dtype_bytes(self_.dtype);
    const size_t outer = self_.sizes.empty() ? 0 : self_.sizes.size() - 1;
    const int64_t length = self_.sizes.empty() ? 1 : self_.sizes[outer];
    const int64_t step = length == 1 ? item : self_.strides[outer] * item;
    int64_t lines = 1;
    for (size_t d = 0; d < outer; ++d) lines *= self_.sizes[d];
    index_.assign(outer, 0);
    const std::byte* at = self_.data;
    for (int64_t n = 0; n < lines; ++n) {
      line_.each(at, step, length, [this](int64_t i, bool is) { found(i, is); });
      for (size_t d = outer; d-- > 0;) {
        if (self_.sizes[d] == 1) continue;  // its stride leads nowhere and may be any number
        at += self_.strides[d] * item;
        if (++index_[d] < self_.sizes[d]) break;
        at -= self_.sizes[d] * self_.strides[d] * item;
        index_[d] = 0;
      }
    }
    return count_;
  }

 private:
  // Without asking whether it is one, which nothing foretells: what is not is written over by the next.
  void found(int64_t last, bool is) {
    const int64_t row = count_;
    count_ += is ? 1 : 0;
    if (!out_ || row >= out_->sizes[0]) return;
    std::byte* to = out_->data + row * out_->strides[0] * 8;
    for (int64_t i : index_) {
      std::memcpy(to, &i, 8);
      to += out_->strides[1] * 8;
    }
    if (self_.rank() > 0) std::memcpy(to, &last, 8);
  }

  TensorView self_;
  const TensorView* out_;
  Line line_;
  std::vector<int64_t> index_;  // of the line
  int64_t count_ = 0;
};

}  // namespace

void size_nonzero(LibraryCall& call) { call.define(0, Walk(call.tensor("self"), nullptr).run()); }

void run_nonzero(LibraryCall& call) {
  TensorView self = call.tensor("self"), out = call.output(0);
  if (out.rank() != 2) call.fail("the result of nonzero has two dimensions");
  const int64_t count = Walk(self, &out).run();
  if (count > out.sizes[0]) call.fail("the program expects fewer nonzero elements than there are");
  if (count < out.sizes[0]) call.fail("the program expects more nonzero elements than there are");
}

}  // namespace kiln::runtime
