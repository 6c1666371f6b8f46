// The constants of a model, in immutable versions. A run pins the version it began with; an update makes a new version
// that shares what did not change, derived (packed, folded) constants included.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "base/fork_mutex.h"
#include "runtime/bound_plan.h"
#include "runtime/memory.h"

namespace kiln::runtime {

struct ConstantData {
  std::byte* data = nullptr;         // written by nobody once the version is out, except an instance's own copies
  std::shared_ptr<const void> keep;  // empty: the package's or the user's memory
  bool missing = false;              // not in the package, and not given yet
  bool borrowed = false;             // the user's memory, where a change of it can be seen (Model::sample)
  uint64_t sample = 0;               // of borrowed ones: as it was when it was given
};

struct Weights {
  std::vector<ConstantData> constants;  // by constant
  std::vector<ConstantData> derived;    // by buffer; only derived ones are set
  std::vector<int32_t> watched;         // borrowed constants that something here is derived from
};

// Which init steps must run again, and which derived buffers change, when these constants change.
struct InitSlice {
  std::vector<int32_t> steps;    // top-level indices, in order
  std::vector<int32_t> derived;  // buffers to be written anew
};
InitSlice init_slice(const Program& program, const std::set<int32_t>& changed_constants);
// The steps that put this constant into a derived buffer, which may have others' values too: those of it alone.
InitSlice packing_slice(const Program& program, int32_t derived, int32_t constant);

std::set<int32_t> constants_read_by_init(const Program& program);

class WeightStore {
 public:
  // Fills weights.derived for a slice; given by the model, which knows how to run steps.
  using Derive = std::function<void(Weights& weights, const InitSlice& slice)>;

  // The values of a constant of which the package has the packed form alone.
  using Plain = std::function<ConstantData(const Weights& weights, int32_t constant)>;

  WeightStore(const Program& program, Derive derive, Plain plain)
      : program_(program),
        prepared_(constants_read_by_init(program)),
        derive_(std::move(derive)),
        plain_(std::move(plain)) {}
  void start(std::vector<ConstantData> constants, std::vector<ConstantData> derived);  // derives what is not given

  uint64_t version() const { return version_.load(); }
  std::shared_ptr<const Weights> active() const;
  // Replaces constants by index, in the active or the inactive set.
  void update(const std::vector<std::pair<int32_t, ConstantData>>& changes, bool inactive);
  void swap();  // throws K0642

 private:
  void unpack(const InitSlice& slice, Weights& weights) const;

  const Program& program_;
  std::set<int32_t> prepared_;  // constants that the init section reads
  Derive derive_;
  Plain plain_;
  LongMutex update_mutex_;    // one update at a time
  mutable BriefMutex mutex_;  // guards the two pointers and the version
  std::shared_ptr<const Weights> active_, inactive_;
  std::atomic<uint64_t> version_{1};
};

// Where the elements of a constant lie in its memory: of the first buffer that shows it. none: no buffer does.
int32_t buffer_of_constant(const Program& program, int32_t constant);

}  // namespace kiln::runtime
