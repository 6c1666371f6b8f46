// Attention: the softmax of a product's rows, and a second product whose left factor it is,
//
//   for m { for n { s = sum over d of q(m,d) * k(n,d); scores[m,n] = s };
//           top = max over n of f(scores[m,n]); e[n] = exp(f - top); w[n] = e[n] / sum over n of e }
//   for m { for j { sum over n of w[m,n] * v(n,j); epilogue } }
//
// becomes one kernel whose items are blocks of rows. The scores of a block live in scratch, and lie with the rows
// beside one another: so rows are lanes for the first product, whose left factor is now k as it lies in memory, and for
// the softmax, which then needs nothing across lanes. The rows are divided by their sums when the second product is
// done. f is whatever stands between the product and the softmax: scale, masks, bias.
#include "loops/walk.h"
#include "schedule/attention_block.h"
#include "schedule/attention_fusion.h"
#include "schedule/contractions.h"
#include "schedule/merge_loops.h"
#include "schedule/schedule.h"

namespace kiln::loops {
namespace {

class AttentionFuser {
 public:
  AttentionFuser(LoopProgram& program, const Target& target, Log& log)
      : program_(program), target_(target), log_(log) {}

  bool run(Block& block) {
    bool changed = false;
    std::vector<bool> gone(block.size());
    for (size_t i = 0; i < block.size(); ++i) {
      for_each_block(block[i], [&](Block& nested) { changed |= run(nested); });
      auto* second = std::get_if<Kernel>(&block[i].what);
      if (!second || !second->contraction) continue;
      for (size_t j = i; j-- > (i > window ? i - window : 0);) {
        auto* first = std::get_if<Kernel>(&block[j].what);
        if (gone[j] || !first || !feeds(*first, *second)) continue;
        // What is weighed may be a product as well, and stand nearer than the one whose softmax weighs it.
        if (!(first->contraction ? fuse(block, j, i, gone) : fuse_with_rows(block, j, i, gone))) continue;
        gone[j] = changed = true;
        break;
      }
    }
    erase_items(block, gone);
    return changed;
  }

 private:
  static constexpr size_t window = 16;  // how far back the softmax is looked for

  static bool feeds(const Kernel& first, const Kernel& second) {
    const Accesses a = accesses(first.body), b = accesses(second.body);
    return std::any_of(a.writes.begin(), a.writes.end(), [&](BufferId id) { return b.reads.count(id) > 0; });
  }

  bool fuse(Block& block, size_t first, size_t second, const std::vector<bool>& gone) {
    auto &a = std::get<Kernel>(block[first].what), &b = std::get<Kernel>(block[second].what);
    const auto no = [&](const std::string& why) {
      log_.add([&] { return Decision{"no attention of", a.name, "with", b.name, why, false, ""}; });
      return false;
    };
    AttentionFusion fusion(program_, a, b, target_);
    if (std::string why = fusion.refuses(); !why.empty()) return no(why);
    const Accesses mine = accesses(a.body);
    Accesses between;
    for (size_t i = first + 1; i < second; ++i) {
      if (gone[i]) continue;
      const Accesses other = accesses(block[i]);
      between.reads.insert(other.reads.begin(), other.reads.end());
      between.writes.insert(other.writes.begin(), other.writes.end());
    }
    if (conflict(mine, between)) return no("something between them needs the first one's memory");
    for (BufferId id : mine.writes)
      if (observable(program_, id) || program_.buffers[static_cast<size_t>(id)].role != BufferRole::temp ||
          users(id) > (accesses(b.body).reads.count(id) ? 2 : 1))
        return no(str(program_.buffers[static_cast<size_t>(id)].name, " is needed by others"));
    if (target_.is_gpu()) {
      const size_t buffers = program_.buffers.size();
      Kernel rows = fusion.build_rows();
      const std::string why = use_attention_block(rows, fusion.weight_type(), program_, target_);
      if (!why.empty()) {
        program_.buffers.resize(buffers);
        return no(why);
      }
      log_.add([&] {
        const Grid& grid = rows.schedule->grid;
        return Decision{
            "attention of", a.name, "with", b.name, str("blocks of ", grid.tile_rows, " rows and ", grid.keys, " keys"),
            true,           ""};
      });
      block[second].what = std::move(rows);
      return true;
    }
    const AttentionTile tile = fusion.cheapest();
    log_.add([&] {
      return Decision{
          "attention of",
          a.name,
          "with",
          b.name,
          str("blocks of ", tile.block, " rows; tiles of ", tile.keys, " by ", tile.vectors, " and ", tile.rows, " by ",
              tile.out_vectors, " vectors", tile.chunk > 0 ? str("; keys in chunks of ", tile.chunk) : "",
              fusion.takes_pairs() ? "; pairs of bf16" : "",
              fusion.skips_keys() ? "; keys that no row of a block sees are left out" : ""),
          true,
          ""};
    });
    block[second].what = fusion.build(tile);
    return true;
  }

  // Rows of many keys have a kernel of their own, since a product that goes on with whole rows passes its matrix again
  // for every few of them (merge_kernels). Attention takes the keys in parts, and so needs no such rows: the product
  // and they are one kernel again, if that becomes attention.
  bool fuse_with_rows(Block& block, size_t rows, size_t second, std::vector<bool>& gone) {
    if (target_.is_gpu()) return false;
    Accesses between;
    for (size_t i = rows; i-- > (rows > window ? rows - window : 0);) {
      if (gone[i]) continue;
      const auto* product = std::get_if<Kernel>(&block[i].what);
      const auto& softmax = std::get<Kernel>(block[rows].what);
      if (!product || !product->contraction || !feeds(*product, softmax)) {
        const Accesses other = accesses(block[i]);
        between.reads.insert(other.reads.begin(), other.reads.end());
        between.writes.insert(other.writes.begin(), other.writes.end());
        continue;
      }
      if (conflict(accesses(product->body), between)) return false;
      Kernel joined = product->clone();
      std::string reason;
      if (!merge_into(joined, softmax, program_, program_.ranges(), reason)) return false;
      joined.contraction = recognise_contraction(joined, program_).contraction;
      if (!joined.contraction) return false;
      Item of_product = std::move(block[i]), of_rows = std::move(block[rows]);
      block[i].what = Kernel();
      block[rows].what = std::move(joined);
      gone[i] = fuse(block, rows, second, gone);
      if (!gone[i]) block[i] = std::move(of_product), block[rows] = std::move(of_rows);
      return gone[i];
    }
    return false;
  }

  // Items of the whole program that touch the buffer.
  int users(BufferId id) const {
    int count = 0;
    for (const Block* block : {&program_.init, &program_.block})
      for_each_item(*block, [&](const Item& item) {
        const auto* kernel = std::get_if<Kernel>(&item.what);
        if (kernel ? accesses(kernel->body).touches(id)
                   : !std::holds_alternative<Cond>(item.what) && !std::holds_alternative<While>(item.what) &&
                         accesses(item).touches(id))
          ++count;
      });
    return count;
  }

  LoopProgram& program_;
  const Target& target_;
  Log& log_;
};

}  // namespace

bool fuse_attention(LoopProgram& program, const Target& target, Log& log) {
  if (!target.is_gpu() && target.lanes == 1) return false;
  return AttentionFuser(program, target, log).run(program.block);
}

}  // namespace kiln::loops
