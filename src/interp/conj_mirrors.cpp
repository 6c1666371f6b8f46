#include "interp/conj_mirrors.h"

#include <complex>
#include <set>

namespace kiln {

namespace {

void copy_conjugate(const Tensor& from, Tensor to) {
  for (int64_t i = 0; i < from.numel(); ++i) to.set_item(i, Scalar(std::conj(from.item(i).as_complex())));
}

}  // namespace

void ConjMirrors::add(const Tensor& tensor, const Tensor& conjugate) {
  if (is_complex(tensor.dtype) && tensor.storage->data != conjugate.storage->data)
    pairs_.push_back({tensor, conjugate});
}

void ConjMirrors::written(const Tensor& tensor) {
  // A conjugate may have views with conjugates of their own: on until nothing new is written.
  std::vector<const std::byte*> changed = {tensor.storage->data};
  std::set<const Pair*> done;
  while (!changed.empty()) {
    const std::byte* storage = changed.back();
    changed.pop_back();
    for (const Pair& pair : pairs_) {
      const bool original = pair.tensor.storage->data == storage;
      if ((!original && pair.conjugate.storage->data != storage) || !done.insert(&pair).second) continue;
      if (original)
        copy_conjugate(pair.tensor, pair.conjugate);
      else
        copy_conjugate(pair.conjugate, pair.tensor);
      changed.push_back(original ? pair.conjugate.storage->data : pair.tensor.storage->data);
    }
  }
}

}  // namespace kiln
