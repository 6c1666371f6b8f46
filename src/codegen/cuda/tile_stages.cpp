// How a factor's part of a tile comes into shared memory: as words of neighbours, as single elements, or computed on
// the way. For matrix instructions it lies as in memory, with its words exchanged against bank conflicts; else with the
// terms below one another.
#include "codegen/cuda/dialect.h"
#include "codegen/cuda/tile_printer.h"

namespace kiln::codegen {
using namespace loops;
namespace {

std::vector<const Loop*> sum_loops(const std::vector<ContractionNest::Sum>& sums) {
  std::vector<const Loop*> out;
  for (const ContractionNest::Sum& sum : sums) out.push_back(sum.stmt->loop.get());
  return out;
}

}  // namespace

// Of what a factor's tiles are.
DType CudaTilePrinter::tile_type(bool left) const {
  const DType sum = nest_.innermost_sum().reduce_dtype;
  if (!grid_.tensor_cores) return sum;
  ValueId v = left ? left_ : right_;
  // The factor's own type, conversions to f32 that lose nothing aside.
  for (bool found = true; found;) {
    found = false;
    for (const ContractionNest::Sum& part : nest_.sums)
      for (const Stmt* stmt : left ? part.left : part.right) {
        if (found || stmt->results[0] != v) continue;
        const bool widens = stmt->kind == StmtKind::op && stmt->op == ScalarOp::cast && stmt->dtype == DType::f32;
        if (!widens) return stmt->kind == StmtKind::load || stmt->op == ScalarOp::cast ? stmt->dtype : sum;
        v = stmt->args[0];
        found = true;
      }
  }
  return sum;
}

// A tile in shared memory: its lines and how far they are apart, in elements.
int64_t CudaTilePrinter::lines(bool left) const {
  const bool along = left ? grid_.left_along_terms : grid_.right_along_terms;
  if (!grid_.tensor_cores || !along) return grid_.tile_terms;
  return left ? grid_.tile_rows : grid_.tile_columns;
}
int64_t CudaTilePrinter::line_length(bool left) const {
  const bool along = left ? grid_.left_along_terms : grid_.right_along_terms;
  const int64_t size = left ? grid_.tile_rows : grid_.tile_columns;
  if (!grid_.tensor_cores) return size + 4;
  return along ? grid_.tile_terms : size;
}
std::string CudaTilePrinter::place(bool left, const std::string& line, const std::string& chunk, int64_t per_chunk,
                                   const std::string& within) const {
  const std::string stage =
      str(side(left), "_tiles + ", turn(), " % ", grid_.stages, " * ", line_length(left) * lines(left), " + ");
  if (!grid_.tensor_cores) return str(stage, line, " * ", line_length(left), " + ", chunk, " * ", per_chunk, within);
  if (grid_.warpgroups && line_length(left) > 64)
    return str(stage, "gpu_block_place(", line, ", ", chunk, ") * ", per_chunk, within);
  return str(stage, "gpu_chunk_place<", line_length(left) / per_chunk, ">(", line, ", ", chunk, ") * ", per_chunk,
             within);
}

// The load that brings a factor as the tile has it; nullptr: it is computed on the way.
const Stmt* CudaTilePrinter::plain_load(bool left) const {
  ValueId v = left ? left_ : right_;
  for (size_t i = nest_.sums.size(); i-- > 0;) {
    const Stmts& own = left ? nest_.sums[i].left : nest_.sums[i].right;
    for (size_t j = own.size(); j-- > 0;) {
      if (own[j]->results[0] != v) continue;
      if (own[j]->kind == StmtKind::load) return own[j]->dtype == tile_type(left) ? own[j] : nullptr;
      if (own[j]->kind != StmtKind::op || own[j]->op != ScalarOp::cast) return nullptr;
      v = own[j]->args[0];
    }
  }
  return nullptr;
}

// What says where the load lies and whether it is there.
void CudaTilePrinter::print_whereabouts(bool left, const Stmt& load) {
  std::set<ValueId> needed = {load.mask}, ignored;
  Stmts kept;
  const Stmts all = inside(left, ignored);
  for (size_t i = all.size(); i-- > 0;) {
    if (all[i] == &load || !needed.contains(all[i]->results[0])) continue;
    needed.insert(all[i]->args.begin(), all[i]->args.end());
    needed.insert(all[i]->mask);
    kept.insert(kept.begin(), all[i]);
  }
  print_all(around(needed));
  print_all(kept);
}

std::string CudaTilePrinter::in_range(bool left, const std::string& across, const std::string& term) const {
  const char* axis = left ? "row" : "column";
  return str(axis, "_begin + ", across, " < ", left ? rows_ : columns_, " && term_begin + ", term, " < ", terms_);
}

// Where a load begins, as a function of the number of the term: what it is at the first one and how far terms are
// apart, where that is everywhere the same.
std::optional<Affine> CudaTilePrinter::along_terms(const Stmt& load) const {
  if (load.mask != no_value || !steps_are_terms_) return {};
  const std::vector<const Loop*> sums = sum_loops(nest_.sums);
  const Expr flat = Expr::symbol("flat_term");
  RangeEnv env = p_.env_;
  const Interval count = range_of(nest_.term_count(), env);
  env.ranges["flat_term"] = {0, count.high == INT64_MAX ? INT64_MAX : std::max<int64_t>(0, count.high - 1)};
  env.upper["flat_term"] = nest_.term_count() - 1;
  Substitution map;
  Expr below = 1;
  for (size_t i = sums.size(); i-- > 0;) {
    const Expr above = floordiv(flat, below);
    map[sums[i]->var] = i == 0 ? above : mod(above, sums[i]->extent);
    below = below * sums[i]->extent;
  }
  return affine_in(simplify(substitute(p_.address(load), map), env), "flat_term");
}

// The thread's words of a stage: `each` is printed with `line` and `chunk` for the word `e`.
void CudaTilePrinter::print_words(bool left, const std::function<void()>& each) {
  const int64_t size = left ? grid_.tile_rows : grid_.tile_columns, terms = grid_.tile_terms;
  const bool along = left ? grid_.left_along_terms : grid_.right_along_terms;
  const int64_t chunk = left ? grid_.left_chunk : grid_.right_chunk, chunks = (along ? terms : size) / chunk;
  const int64_t all = size * terms / chunk;
  p_.line("#pragma unroll");
  p_.open(str("for (int e = 0; e < ", (all + grid_.threads - 1) / grid_.threads, "; ++e)"));
  p_.line(str("const int number = e * ", grid_.threads, " + threadIdx.x, line = number / ", chunks,
              ", chunk = number % ", chunks, ";"));
  if (all % grid_.threads != 0) p_.line(str("if (number >= ", all, ") break;"));
  each();
  p_.close();
}

// In front of the stages: where each of the thread's words comes from, if that moves on by the same way in each.
void CudaTilePrinter::print_word_origins(bool left) {
  const Stmt* load = plain_load(left);
  KILN_CHECK(load, str("a factor of ", p_.kernel_.name, " in chunks that is computed"));
  const auto moves = along_terms(*load);
  if (!moves) return;
  const char* axis = left ? "row" : "column";
  const std::string side = this->side(left);
  const bool along = left ? grid_.left_along_terms : grid_.right_along_terms;
  const int64_t chunk = left ? grid_.left_chunk : grid_.right_chunk;
  const int64_t all = (left ? grid_.tile_rows : grid_.tile_columns) * grid_.tile_terms / chunk;
  const int64_t words = (all + grid_.threads - 1) / grid_.threads;
  const std::string b = p_.buffer_name(load->buffer, Access::read);
  p_.wide_buffers_.insert(b);
  p_.line(str("const ", storage_type(tile_type(left)), "* ", side, "_from[", words, "];"));
  p_.line(str("bool ", side, "_there[", words, "];"));
  print_words(left, [&] {
    const std::string across = along ? "line" : str("chunk * ", chunk), term = along ? str("chunk * ", chunk) : "line";
    decode(left ? nest_.rows : nest_.columns, str("(", axis, "_begin + ", across, ")"), "rest");
    p_.line(str(side, "_there[e] = ", axis, "_begin + ", across, " < ", left ? rows_ : columns_, ";"));
    p_.line(
        str(side, "_from[e] = ", b, " + ", p_.expr(moves->rest), " + ", term, " * ", p_.expr(moves->coefficient), ";"));
  });
}

// Neighbours of a factor in one word each.
void CudaTilePrinter::print_chunks(bool left) {
  const char* axis = left ? "row" : "column";
  const std::string side = this->side(left);
  const bool along = left ? grid_.left_along_terms : grid_.right_along_terms;
  const int64_t chunk = left ? grid_.left_chunk : grid_.right_chunk;
  const std::string across = along ? "line" : str("chunk * ", chunk), term = along ? str("chunk * ", chunk) : "line";
  const Stmt* load = plain_load(left);
  const bool whole = prove_eq(mod(nest_.term_count(), Expr(grid_.tile_terms)), Expr(0), p_.env_) == Proof::yes;
  const std::string to = place(left, "line", "chunk", chunk, "");
  if (const auto moves = along_terms(*load)) {
    const std::string way = p_.expr(moves->coefficient * Expr(grid_.tile_terms));
    print_words(left, [&] {
      p_.line(str("gpu_copy_chunk<", chunk, ">(", to, ", ", side, "_from[e] + step * ", way, ", ", side, "_there[e]",
                  whole ? "" : str(" && term_begin + ", term, " < ", terms_), ", ", wide_, ");"));
    });
    return;
  }
  print_words(left, [&] {
    decode(left ? nest_.rows : nest_.columns, str("(", axis, "_begin + ", across, ")"), "rest");
    decode(sum_loops(nest_.sums), str("(term_begin + ", term, ")"), "terms");
    print_whereabouts(left, *load);
    const std::string b = p_.buffer_name(load->buffer, Access::read);
    p_.wide_buffers_.insert(b);
    std::string there = in_range(left, across, term);
    if (load->mask != no_value) there += str(" && ", p_.name(load->mask));
    p_.line(str("gpu_copy_chunk<", chunk, ">(", to, ", ", b, " + ", p_.expr(p_.address(*load)), ", ", there, ", ",
                wide_, ");"));
  });
}

// One element at a time.
void CudaTilePrinter::print_elements(bool left) {
  const char* axis = left ? "row" : "column";
  const DType dtype = tile_type(left);
  const int64_t size = left ? grid_.tile_rows : grid_.tile_columns, terms = grid_.tile_terms;
  const bool along_terms = left ? grid_.left_along_terms : grid_.right_along_terms;
  const int64_t run = along_terms ? terms : size, chunk = grid_.tensor_cores ? 16 / dtype_bytes(dtype) : 1;
  const int64_t all = size * terms;
  p_.line("#pragma unroll");
  p_.open(str("for (int e = 0; e < ", (all + grid_.threads - 1) / grid_.threads, "; ++e)"));
  p_.line(str("const int number = e * ", grid_.threads, " + threadIdx.x, run = number / ", run, ", at = number % ", run,
              ";"));
  if (all % grid_.threads != 0) p_.line(str("if (number >= ", all, ") break;"));
  const std::string across = along_terms ? "run" : "at", term = along_terms ? "at" : "run";
  // In the tile: lines as in memory for matrix instructions, else the terms below one another.
  const std::string line = grid_.tensor_cores ? "run" : term, in_line = grid_.tensor_cores ? "at" : across;
  const std::string to = grid_.tensor_cores
                             ? place(left, line, str(in_line, " / ", chunk), chunk, str(" + ", in_line, " % ", chunk))
                             : place(left, line, in_line, 1, "");
  const Stmt* load = grid_.tensor_cores ? nullptr : plain_load(left);
  if (load) {
    decode(left ? nest_.rows : nest_.columns, str("(", axis, "_begin + ", across, ")"), "rest");
    decode(sum_loops(nest_.sums), str("(term_begin + ", term, ")"), "terms");
    print_whereabouts(left, *load);
    std::string there = in_range(left, across, term);
    if (load->mask != no_value) there += str(" && ", p_.name(load->mask));
    p_.line(str("gpu_copy_element(", to, ", ", p_.buffer_name(load->buffer, Access::read), " + ",
                p_.expr(p_.address(*load)), ", ", there, ");"));
    return p_.close();
  }
  p_.line(str(c_type(dtype), " value = 0;"));
  p_.open(str("if (", in_range(left, across, term), ")"));
  decode(left ? nest_.rows : nest_.columns, str("(", axis, "_begin + ", across, ")"), "rest");
  decode(sum_loops(nest_.sums), str("(term_begin + ", term, ")"), "terms");
  std::set<ValueId> wanted = {left ? left_ : right_};
  const Stmts own = inside(left, wanted);
  print_all(around(wanted));
  print_all(own);
  p_.line(str("value = ", p_.name(left ? left_ : right_), ";"));
  p_.close();
  p_.line(p_.dialect_.set(dtype, to, "value"));
  p_.close();
}

}  // namespace kiln::codegen
