// Whether a run goes the way its loops say: the branch that the predicate asks for, as many iterations as the condition
// allows, each step once per iteration, no step left out. A plan that goes another way runs kernels that are all right
// and still gives the wrong result.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kiln/kiln.h"
#include "loops/loops.h"
#include "package/format.h"
#include "types/tensor.h"

namespace kiln {

struct ControlFault {
  std::string what;    // for people
  std::string buffer;  // the predicate, or what the step writes
  std::string step;    // empty: the one that is about to run
};

class ControlWatch {
 public:
  explicit ControlWatch(const loops::LoopProgram& program);  // must outlive this
  // A buffer has this value now. Only single elements are remembered: predicates are such.
  void wrote(const std::string& buffer, const Tensor& value);
  std::optional<ControlFault> before(const kiln_step& step);
  std::optional<ControlFault> at_end() { return left_loops({}); }
  // A step of the loops that the plan does not have.
  std::optional<ControlFault> missing_step(const format::Plan& plan) const;

 private:
  using Predicate = std::variant<loops::BufferId, Expr>;
  struct Place {
    const loops::Item* item;
    int block;  // cond: 0 then, 1 else; while: 0 condition, 1 body
  };
  struct Active {
    std::vector<int64_t> iterations;  // of the last step inside, its own loop's last
    SymbolValues symbols;
    bool in_body = false;
  };
  void index(const loops::Block& block, const std::vector<Place>& path);
  std::optional<bool> value_of(const Predicate& predicate, const SymbolValues& symbols) const;
  std::string text_of(const Predicate& predicate) const;
  std::string buffer_of(const Predicate& predicate) const;
  std::optional<ControlFault> enter(const Place& place, const kiln_step& step, const SymbolValues& symbols);
  std::optional<ControlFault> left_loops(const std::vector<Place>& path);

  const loops::LoopProgram& program_;
  std::map<std::string, std::vector<Place>> paths_;  // by step name
  std::set<std::string> repeated_names_;             // several steps have them (custom operators)
  std::map<std::string, bool> values_;
  std::map<std::pair<const loops::Item*, int>, std::vector<int64_t>> entered_;  // the iterations it was entered at
  std::map<std::string, std::vector<int64_t>> ran_;                             // step -> iterations it last ran at
  std::map<const loops::Item*, Active> active_;                                 // while loops that have not been left
};

}  // namespace kiln
