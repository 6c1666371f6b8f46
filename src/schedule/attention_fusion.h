// One kernel from the two of an attention (attention_template.cpp has the form): whether they are one, and how the
// kernel is built, in blocks of rows for a CPU's lanes or row by row for a GPU.
#pragma once
#include "loop_passes/rewrite.h"
#include "schedule/attention_rows.h"
#include "schedule/attention_tile.h"
#include "schedule/new_loops.h"

namespace kiln::loops {

// The two kernels, and the one that they become.
class AttentionFusion : NewLoops {
 public:
  AttentionFusion(LoopProgram& program, const Kernel& first, const Kernel& second, const Target& target)
      : program_(program),
        a_(first),
        b_(second),
        target_(target),
        env_(kernel_ranges(first, program)),
        rows_(first),
        nest_a_(contraction_nest(first)),
        nest_b_(contraction_nest(second)) {}

  // The empty text, or why not.
  std::string refuses();

  AttentionTile cheapest() const;
  bool takes_pairs() const { return pairs_; }
  // Blocks look at no key behind those that their last row sees.
  bool skips_keys() const { return ahead_.has_value(); }

  Kernel build(const AttentionTile& tile);
  // The same for one row at a time, as AttentionNest has it.
  Kernel build_rows();
  // Of what type the weights are stored that the second product reads.
  DType weight_type() const { return program_.buffers[static_cast<size_t>(weights_->buffer)].dtype; }

 private:
  const Loop& row() const { return nest_a_.innermost_row(); }
  const std::string& name_of(BufferId b) const { return program_.buffers[static_cast<size_t>(b)].name; }
  double at_least(const Expr& e) const { return std::max(1.0, estimate(e, program_)); }
  // The loops around the rows.
  std::vector<const Loop*> outer() const {
    std::vector<const Loop*> out = nest_a_.batch;
    out.insert(out.end(), nest_a_.rows.begin(), nest_a_.rows.end() - 1);
    return out;
  }

  // The second product reads the weights of one row as the first kernel has stored them.
  std::string same_rows();
  const Loop* columns_of(const Stmt* store) const;

  // ---- Building
  BufferId scratch(const std::string& like, std::vector<Expr> sizes, DType dtype = DType::f32);
  // Copies what the values need, of the bodies' statements outside of loops, from the outside in.
  void copy_needed(Copier& copier, const std::vector<const Body*>& bodies, const std::set<ValueId>& roots, Body& out);
  std::vector<const Body*> bodies_of(const std::vector<const Loop*>& loops) const {
    std::vector<const Body*> out;
    for (const Loop* loop : loops) out.push_back(&loop->body);
    return out;
  }
  // What f reads of weights (a bias of positions, a mask), where it lies apart for the rows: in `to`, where the
  // statements of `from` have been copied to, it is read from a packed copy.
  void pack_for_rows(const Body& from, const Copier& copier, const Expr& key, const Expr& place,
                     const AttentionTile& tile, Body& to);
  void begin();
  // f of the product, for the key `n` of the row that the copier has; in `inner`, where the product stands already.
  ValueId copy_score(Copier& copier, const std::vector<const Body*>& with_row, const Expr& n, Body& inner);
  // Where the score of a key lies.
  using Place = std::function<std::vector<Expr>(const Expr& key)>;
  // The scores become weights, but for the division; gives what they are to be multiplied with.
  ValueId build_softmax(BufferId scores, const Expr& keys, const Place& place, Body& inner, BufferId pairs = no_buffer);
  // The sum of a row's weights; 1 where there are no keys: the second product is 0 then, as an empty sum is.
  ValueId total_of_keys(ValueId total, ValueId one, Body& inner);
  // What the exponentials' sums are in units of e to: above the highest score, so that what is weighed by them, and is
  // divided by their sum only afterwards, sums up to no more than its largest value.
  ValueId above(ValueId highest, Body& inner);
  // Of which the softmax is made: the highest of so many scores; the scores less `shift` become exponentials, of which
  // it gives the sum.
  ValueId highest_of(BufferId scores, const Expr& count, const Place& place, Body& inner);
  ValueId exponentials(BufferId scores, const Expr& count, const Place& place, ValueId shift, ScalarOp exponential,
                       Body& inner, ValueId empty = no_value, ValueId zero = no_value);
  // The same, with the exponentials stored as pairs of bf16 instead: [pair, lane, which of the pair].
  ValueId exponential_pairs(BufferId scores, const Expr& count, const Place& place, ValueId shift, BufferId pairs,
                            Body& inner);
  // Keys from the first one on.
  struct KeyRange {
    Expr first, count;
  };
  // The second product's sum over some keys; in front of it stands what it needs.
  ValueId sum_over(const KeyRange& keys, BufferId scores, const Place& place, Copier& copier, Body& inner);
  // What the value that the second product weighs needs, of the key that the copier has, and its number.
  ValueId copy_value(Copier& copier, Body& inner, Body& terms);
  // What follows the second product: its sum times the share (no_value: the weights have theirs), and stored.
  void finish_output(ValueId summed, ValueId share, Copier& copier, Body& inner);

  // ---- Building for a CPU (attention_in_lanes.cpp)
  // An item: some rows, of which the first is `base`. `even`: all of them exist in every block.
  struct RowBlock {
    const AttentionTile& tile;
    Expr base;
    bool even;
    Expr keys;  // that any of its rows sees
    BufferId left = no_buffer, scores = no_buffer, shares = no_buffer;
    BufferId left_pairs = no_buffer, weight_pairs = no_buffer, value_pairs = no_buffer;  // where products are of pairs
  };
  // Whether instructions for pairs of bf16 take both products: all factors are bf16 as they lie in memory.
  bool can_take_pairs() const;
  // For pairs: how many there are of so many terms, of which the last may be half a one, with 0 in place of the other.
  Expr pairs_of(const Expr& terms) const { return simplify(ceildiv(terms, 2), env_); }
  // The terms of a product's factor, in f32, are rounded to bf16 and lie in pairs: [pair, lane, which of the pair].
  // `load` gives a term, under a mask or not (no_value); `lanes`: how many, in lanes.
  using Term = std::function<ValueId(const Expr& term, const Expr& lane, ValueId mask, Body& inner)>;
  void pair_up(const Expr& terms, const Expr& lanes, BufferId to, const Term& load, Body& out);
  // A pair's term as a factor of a sum, and a sum over so many terms.
  ValueId paired(BufferId pairs, const Expr& term, const Expr& lane, Body& terms);
  Stmt sum_of_pairs(const Expr& terms);
  // The pairs that the exponentials of so many keys are stored to at once; no_buffer: pair_weights makes them.
  BufferId pairs_at_once(const RowBlock& block, const Expr& count) const;
  ValueId sum_over_pairs(const RowBlock& block, const Expr& keys, const Expr& row, const Expr& column, Body& inner);
  void pair_weights(const RowBlock& block, const KeyRange& keys, Body& out);
  void pair_values(const RowBlock& block, const KeyRange& keys, Body& out);
  Copier copier_of_row(const RowBlock& block, const Expr& q);
  Copier copier_of_output(const RowBlock& block, const Stmt& q, const Stmt& j);
  Expr rows_of(const RowBlock& block) const;
  Expr keys_of(const AttentionTile& tile, const Expr& base) const;
  // A loop over the rows of a block for the softmax.
  Stmt rows_in_lanes(const RowBlock& block);
  void turn_rows(const RowBlock& block, Body& out);
  void build_scores(const RowBlock& block, const KeyRange& keys, Body& out);
  void build_output(const RowBlock& block, Body& out);
  // The weights as the program rounds them, where no pairs are made of them.
  void round_weights(const RowBlock& block, Body& out);
  ValueId whole_weight(const RowBlock& block, const Expr& key, const Expr& lane, ValueId mask, Body& inner);
  void build_parts(const RowBlock& block, Body& out);

  LoopProgram& program_;
  const Kernel &a_, &b_;
  const Target& target_;
  RangeEnv env_;
  RowPart rows_;
  ContractionNest nest_a_, nest_b_;
  Softmax softmax_;
  const Stmt* weights_ = nullptr;
  std::optional<int64_t> ahead_;  // a row sees keys up to its own number and this many only
  Substitution variables_b_;
  bool pairs_ = false, weight_pairs_ = false;  // of the first product, of both: only weights of bf16 are no f32
  Kernel made_;
};

}  // namespace kiln::loops
