// How a factor's part of a tile comes into shared memory: as words of neighbours, as single elements, or computed on
// the way. For matrix instructions it lies as in memory, with its words exchanged against bank conflicts; else with the
// terms below one another.
#include "codegen/cuda/dialect.h"
#include "codegen/cuda/tile_printer.h"

namespace kiln::codegen {
using namespace loops;
namespace {

bool mentions_any_of(const Expr& e, const std::set<std::string>& variables) {
  return std::any_of(variables.begin(), variables.end(), [&](const std::string& v) { return mentions(e, v); });
}

bool fits_int(const Expr& e, const RangeEnv& env) {
  const Interval range = range_of(e, env);
  return range.low >= INT32_MIN && range.high <= INT32_MAX;
}

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

// What says whether the load is there: values inside of the sums, and around them.
CudaTilePrinter::Stmts CudaTilePrinter::mask_values(bool left, const Stmt& load) const {
  std::set<ValueId> needed = {load.mask}, ignored;
  Stmts kept;
  const Stmts all = inside(left, ignored);
  for (size_t i = all.size(); i-- > 0;) {
    if (all[i] == &load || !needed.contains(all[i]->results[0])) continue;
    needed.insert(all[i]->args.begin(), all[i]->args.end());
    needed.insert(all[i]->mask);
    kept.insert(kept.begin(), all[i]);
  }
  Stmts out = around(needed);
  out.insert(out.end(), kept.begin(), kept.end());
  return out;
}

std::string CudaTilePrinter::in_range(bool left, const std::string& across, const std::string& term) const {
  const char* axis = left ? "row" : "column";
  return str(axis, "_begin + ", across, " < ", left ? rows_ : columns_, " && term_begin + ", term, " < ", terms_);
}

bool CudaTilePrinter::whole_stages() const {
  return prove_eq(mod(nest_.term_count(), Expr(grid_.tile_terms)), Expr(0), p_.env_) == Proof::yes;
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

// A number as the sum of what rows and columns give and what the terms give, if it is one.
std::optional<CudaTilePrinter::Apart> CudaTilePrinter::taken_apart(const Expr& number) const {
  std::set<std::string> variables;
  for (const auto* part : {&nest_.rows, &nest_.columns})
    for (const Loop* loop : *part) variables.insert(loop->var);
  const std::vector<const Loop*> sums = sum_loops(nest_.sums);
  for (const Loop* loop : sums) variables.insert(loop->var);
  Apart out{simplify(number, p_.env_), 0, false};
  for (const Loop* sum : sums) {
    const auto affine = affine_in(out.rest, sum->var);
    if (!affine || mentions_any_of(affine->coefficient, variables)) return {};
    out.way = out.way + affine->coefficient * Expr::symbol(sum->var);
    out.rest = affine->rest;
  }
  out.narrow = fits_int(number, p_.env_) && fits_int(out.rest, p_.env_) && fits_int(out.way, p_.env_);
  return out;
}

// The words of a factor that lie along the terms, where rows and terms give the place, and the numbers by which the
// mask tells what is there, each its own part: a convolution's window.
std::optional<CudaTilePrinter::Windows> CudaTilePrinter::windows(bool left, const Stmt& load) const {
  const Words words = words_of(left);
  if (!steps_are_terms_ || !words.along || grid_.threads % words.in_line != 0) return {};
  const auto place = taken_apart(p_.address(load));
  if (!place) return {};
  Windows out{*place, {}, {}};
  if (load.mask == no_value) return out;
  std::set<std::string> variables;
  for (const auto* part : {&nest_.rows, &nest_.columns})
    for (const Loop* loop : *part) variables.insert(loop->var);
  for (const Loop* loop : sum_loops(nest_.sums)) variables.insert(loop->var);
  for (const Stmt* stmt : mask_values(left, load)) {
    if (stmt->kind == StmtKind::load) return {};
    if (stmt->kind != StmtKind::index_value || !mentions_any_of(stmt->expr, variables)) {
      out.mask.push_back(stmt);
      continue;
    }
    const auto number = is_integral(stmt->dtype) ? taken_apart(stmt->expr) : std::nullopt;
    if (!number) return {};
    out.numbers.push_back({stmt, *number});
  }
  return out;
}

// How a factor is cut into words: `line` and `chunk` number them as it lies in memory.
CudaTilePrinter::Words CudaTilePrinter::words_of(bool left) const {
  Words out;
  const int64_t size = left ? grid_.tile_rows : grid_.tile_columns;
  out.along = left ? grid_.left_along_terms : grid_.right_along_terms;
  out.elements = left ? grid_.left_chunk : grid_.right_chunk;
  out.in_line = (out.along ? grid_.tile_terms : size) / out.elements;
  out.count = size * grid_.tile_terms / out.elements;
  out.each = (out.count + grid_.threads - 1) / grid_.threads;
  const std::string first = out.elements > 1 ? str("chunk * ", out.elements) : "chunk";
  out.across = out.along ? "line" : first, out.term = out.along ? first : "line";
  const int64_t per = 16 / dtype_bytes(tile_type(left)), parts = per / out.elements;
  if (!grid_.tensor_cores)
    out.to =
        out.along ? place(left, "chunk", "line", out.elements, "") : place(left, "line", "chunk", out.elements, "");
  else if (parts == 1)
    out.to = place(left, "line", "chunk", per, "");
  else
    out.to = place(left, "line", str("chunk / ", parts), per, str(" + chunk % ", parts, " * ", out.elements));
  return out;
}

// Whether a factor comes as it lies in memory, in words that a thread can send off without waiting for them.
bool CudaTilePrinter::comes_in_words(bool left) const {
  const Words words = words_of(left);
  const bool below = !grid_.tensor_cores && words.along && words.elements > 1;
  return plain_load(left) && !below && words.elements * dtype_bytes(tile_type(left)) >= 4;
}

// The thread's words of a stage: `each` is printed with `line` and `chunk` for the word `e`.
void CudaTilePrinter::print_words(const Words& words, const std::function<void()>& each) {
  p_.line("#pragma unroll");
  p_.open(str("for (int e = 0; e < ", words.each, "; ++e)"));
  p_.line(str("const int number = e * ", grid_.threads, " + threadIdx.x, line = number / ", words.in_line,
              ", chunk = number % ", words.in_line, ";"));
  if (words.count % grid_.threads != 0) p_.line(str("if (number >= ", words.count, ") break;"));
  each();
  p_.close();
}

std::string CudaTilePrinter::copied(const Words& words, const std::string& from, const std::string& there) const {
  if (words.elements == 1) return str("gpu_copy_element(", words.to, ", ", from, ", ", there, ");");
  return str("gpu_copy_chunk<", words.elements, ">(", words.to, ", ", from, ", ", there, ", ", wide_, ");");
}

// All terms of a stage have the same place in the outer sums, and follow one another in the innermost.
bool CudaTilePrinter::one_place_a_stage() const {
  return prove_eq(mod(nest_.innermost_sum().extent, Expr(grid_.tile_terms)), Expr(0), p_.env_) == Proof::yes;
}

// In front of the stages: where each of the thread's words comes from, as far as that does not depend on the stage.
void CudaTilePrinter::print_word_origins(bool left) {
  if (!comes_in_words(left)) return;
  const Stmt* load = plain_load(left);
  const auto moves = along_terms(*load);
  const auto apart = moves ? std::nullopt : windows(left, *load);
  if (!moves && !apart) return;
  from_origins_[left ? 0 : 1] = true;
  const char* axis = left ? "row" : "column";
  const std::string side = this->side(left);
  const Words words = words_of(left);
  const std::string b = p_.buffer_name(load->buffer, Access::read);
  if (words.elements > 1) p_.wide_buffers_.insert(b);
  p_.line(str("const ", storage_type(tile_type(left)), "* ", side, "_from[", words.each, "];"));
  p_.line(str("bool ", side, "_there[", words.each, "];"));
  const size_t numbers = apart ? apart->numbers.size() : 0;
  for (size_t i = 0; i < numbers; ++i)
    p_.line(str(apart->numbers[i].second.narrow ? "int " : "i64 ", side, "_number", i, "[", words.each, "];"));
  print_words(words, [&] {
    decode(left ? nest_.rows : nest_.columns, str("(", axis, "_begin + ", words.across, ")"), "rest");
    p_.line(str(side, "_there[e] = ", axis, "_begin + ", words.across, " < ", left ? rows_ : columns_, ";"));
    std::string first = moves ? str(" + ", words.term, " * ", p_.expr(moves->coefficient)) : "";
    if (apart && one_place_a_stage()) {
      const auto step = affine_in(apart->place.way, nest_.innermost_sum().var);
      first = str(" + ", words.term, " * ", p_.expr(step->coefficient));
    }
    p_.line(str(side, "_from[e] = ", b, " + ", p_.expr(moves ? moves->rest : apart->place.rest), first, ";"));
    for (size_t i = 0; i < numbers; ++i)
      p_.line(str(side, "_number", i, "[e] = ", apart->numbers[i].second.narrow ? "(int)" : "",
                  p_.expr(apart->numbers[i].second.rest), ";"));
  });
}

// The words of a stage whose places rows and terms give, each their part: the terms' is the same for all words of a
// thread.
void CudaTilePrinter::print_windows(bool left, const Windows& apart) {
  const Words words = words_of(left);
  const std::string side = this->side(left), own = str("(int)threadIdx.x % ", words.in_line, " * ", words.elements);
  p_.open("");
  decode(sum_loops(nest_.sums), one_place_a_stage() ? "term_begin" : str("(term_begin + ", own, ")"), "terms");
  p_.line(str("const i64 way = ", p_.expr(apart.place.way), ";"));
  for (size_t i = 0; i < apart.numbers.size(); ++i) {
    const Apart& number = apart.numbers[i].second;
    p_.line(str("const ", number.narrow ? "int" : "i64", " way", i, " = ", number.narrow ? "(int)" : "",
                p_.expr(number.way), ";"));
  }
  if (!whole_stages()) p_.line(str("const bool inside = term_begin + ", own, " < ", terms_, ";"));
  const Stmt* load = plain_load(left);
  print_words(words, [&] {
    for (size_t i = 0; i < apart.numbers.size(); ++i)
      p_.define(apart.numbers[i].first->results[0], str(side, "_number", i, "[e] + way", i), false);
    print_all(apart.mask);
    std::string there = str(side, "_there[e]", whole_stages() ? "" : " && inside");
    if (load->mask != no_value) there += str(" && ", p_.name(load->mask));
    p_.line(copied(words, str(side, "_from[e] + way"), there));
  });
  p_.close();
}

// A factor as it lies in memory.
void CudaTilePrinter::print_loads(bool left) {
  const char* axis = left ? "row" : "column";
  const std::string side = this->side(left);
  const Words words = words_of(left);
  const Stmt* load = plain_load(left);
  if (from_origins_[left ? 0 : 1]) {
    const auto moves = along_terms(*load);
    if (!moves) return print_windows(left, *windows(left, *load));
    const std::string way = p_.expr(moves->coefficient * Expr(grid_.tile_terms));
    print_words(words, [&] {
      p_.line(
          copied(words, str(side, "_from[e] + step * ", way),
                 str(side, "_there[e]", whole_stages() ? "" : str(" && term_begin + ", words.term, " < ", terms_))));
    });
    return;
  }
  print_words(words, [&] {
    decode(left ? nest_.rows : nest_.columns, str("(", axis, "_begin + ", words.across, ")"), "rest");
    decode(sum_loops(nest_.sums), str("(term_begin + ", words.term, ")"), "terms");
    print_all(mask_values(left, *load));
    const std::string b = p_.buffer_name(load->buffer, Access::read);
    if (words.elements > 1) p_.wide_buffers_.insert(b);
    std::string there = in_range(left, words.across, words.term);
    if (load->mask != no_value) there += str(" && ", p_.name(load->mask));
    p_.line(copied(words, str(b, " + ", p_.expr(p_.address(*load))), there));
  });
}

// What is computed on the way, or has no words: one element at a time.
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

void CudaTilePrinter::print_stage(bool left) {
  if (comes_in_words(left))
    print_loads(left);
  else
    print_elements(left);
}

}  // namespace kiln::codegen
