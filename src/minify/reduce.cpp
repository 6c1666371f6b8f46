#include "minify/reduce.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "graph/graph_text.h"
#include "minify/cut.h"

namespace kiln::minify {
namespace {

// What a trial depends on: the program's text (constants by hash) and its inputs.
std::string content_key(const Program& program) {
  Sha256 hash;
  hash.add(print(program));
  for (const Datum& datum : program.sample_inputs) {
    if (datum.is_tensor())
      hash.add(str("\n", tensor_type_text(datum.tensor()), " ", graph_text::constant_hash(datum.tensor())));
    if (datum.is_scalar()) hash.add(str("\n", datum.scalar().text()));
  }
  return hash.hex();
}

std::vector<bool> window(size_t count, size_t begin, size_t end, bool inside) {
  std::vector<bool> keep(count, !inside);
  for (size_t i = begin; i < end && i < count; ++i) keep[i] = inside;
  return keep;
}

bool any(const std::vector<bool>& flags) { return std::find(flags.begin(), flags.end(), true) != flags.end(); }

}  // namespace

Reducer::Reducer(Program program, Trials& trials, ReduceOptions options)
    : best_(std::move(program)), trials_(trials), options_(std::move(options)) {
  accepted_.push_back(std::make_shared<Program>(best_.clone()));
  known_[content_key(best_)] = Verdict::same;
}

// A trial that a limit ended has not shown that the failure is gone.
Reducer::Verdict Reducer::verdict_of(const Failure& failure) const {
  if (matches(options_.signature, failure)) return Verdict::same;
  const bool cut_off =
      failure.kind == FailureKind::hang || failure.kind == FailureKind::memory || failure.code == not_judged;
  return cut_off ? Verdict::undecided : Verdict::other;
}

void Reducer::say(const std::string& step) const {
  if (options_.progress) options_.progress(step);
}

void Reducer::record() {
  recorded_ = RecordedValues(best_, options_.probe.custom_op_libs, options_.recorded_bytes, options_.recording_seconds,
                             [this] { trials_.look_for_signals(); });
}

void Reducer::accept(Program program) {
  const int before = count_nodes(best_);
  best_ = std::move(program);
  accepted_.push_back(std::make_shared<Program>(best_.clone()));
  if (options_.smaller && count_nodes(best_) < before) options_.smaller(best_);
}

std::optional<size_t> Reducer::try_all(const std::vector<Maker>& makers) {
  std::vector<std::unique_ptr<Program>> programs(makers.size());
  std::vector<std::string> keys(makers.size());
  std::vector<Failure> failures(makers.size());
  const auto make = [&](size_t i) -> std::optional<Trials::Task> {
    try {
      std::optional<Program> made = makers[i]();
      if (!made) return std::nullopt;
      verify(*made);
      programs[i] = std::make_unique<Program>(std::move(*made));
    } catch (const Error&) {
      return std::nullopt;  // an edit that does not fit makes no candidate
    }
    keys[i] = content_key(*programs[i]);
    // What failed the same way is the best already, or larger.
    if (const auto known = known_.find(keys[i]); known != known_.end()) {
      undecided_ += known->second == Verdict::undecided;
      return std::nullopt;
    }
    ++tried_;
    return [this, program = programs[i].get()](const auto& entering) {
      Failure failure;
      for (int t = 0; t < options_.tries && !matches(options_.signature, failure); ++t)
        failure = probe(*program, options_.probe, entering);
      return failure;
    };
  };
  const auto ended = [&](size_t i, const TrialResult& result) {
    failures[i] = result.failure;
    const Verdict verdict = verdict_of(result.failure);
    known_[keys[i]] = verdict;
    undecided_ += verdict == Verdict::undecided;
    if (verdict != Verdict::same) programs[i].reset();
    return verdict == Verdict::same;
  };
  const std::optional<size_t> found = trials_.first_accepted(makers.size(), make, ended);
  if (found) {
    failure_ = failures[*found];
    accept(std::move(*programs[*found]));
  }
  return found;
}

// The node that an error names, alone or with its neighbours, is worth a look before anything else.
void Reducer::use_hint() {
  if (options_.hint.empty()) return;
  const size_t count = best_.graph.nodes.size();
  size_t at = count, position = 0;
  for (const auto& node : best_.graph.nodes) {
    if (node->name == options_.hint) at = position;
    ++position;
  }
  if (at == count || count < 2) return;
  say("the node that the failure names");
  std::vector<Maker> makers;
  for (const size_t around : {size_t{0}, size_t{2}, size_t{10}}) {
    const size_t begin = at - std::min(at, around), end = std::min(count, at + around + 1);
    makers.push_back([this, count, begin, end] { return cut(best_, window(count, begin, end, true), recorded_); });
  }
  try_all(makers);
}

void Reducer::drop_symbols() {
  const bool dynamic =
      std::any_of(best_.symbols.begin(), best_.symbols.end(), [](const auto& entry) { return !entry.second.unbacked; });
  if (!dynamic) return;
  say("dynamic sizes made static");
  try_all({[this] { return make_static(best_, recorded_.symbols()); }});
}

// Delta debugging: parts alone, then all but a part, then smaller parts.
bool Reducer::reduce_nodes() {
  bool changed = false;
  size_t parts = 2;
  for (size_t count = best_.graph.nodes.size(); count >= 2;) {
    parts = std::min(parts, count);
    say(str("nodes in ", parts, " parts"));
    std::vector<Maker> makers;
    const auto add = [&](size_t begin, size_t end, bool inside) {
      makers.push_back([this, count, begin, end, inside] {
        const std::vector<bool> keep = window(count, begin, end, inside);
        return any(keep) ? cut(best_, keep, recorded_) : std::nullopt;
      });
    };
    const auto bound = [&](size_t i) { return count * i / parts; };
    for (size_t i = 0; i < parts; ++i) add(bound(i), bound(i + 1), true);
    if (parts == 2 && count >= 4) add(count / 4, count - count / 4, true);
    const size_t alone = makers.size();
    if (parts > 2)
      for (size_t i = 0; i < parts; ++i) add(bound(i), bound(i + 1), false);
    const std::optional<size_t> found = try_all(makers);
    if (found) {
      changed = true;
      count = best_.graph.nodes.size();
      parts = *found < alone ? 2 : std::max<size_t>(parts - 1, 2);
    } else if (parts >= count) {
      break;
    } else {
      parts *= 2;
    }
  }
  return changed;
}

bool Reducer::reduce_outputs() {
  bool changed = false;
  for (;;) {
    const size_t count = best_.graph.outputs.size();
    if (count == 0) return changed;
    say("outputs");
    std::vector<Maker> makers;
    // Dead nodes alone; one output alone; all but one.
    makers.push_back([this, count] { return keep_outputs(best_, std::vector<bool>(count, true), recorded_); });
    for (size_t i = 0; count > 1 && i < std::min<size_t>(count, 16); ++i)
      makers.push_back([this, count, i] { return keep_outputs(best_, window(count, i, i + 1, true), recorded_); });
    for (size_t i = 0; count > 2 && i < count; ++i)
      makers.push_back([this, count, i] { return keep_outputs(best_, window(count, i, i + 1, false), recorded_); });
    if (!try_all(makers)) return changed;
    changed = true;
  }
}

// All edits at once, then halves of them, down to single ones.
bool Reducer::apply_in_chunks(const std::function<std::vector<Edit>()>& list) {
  bool changed = false;
  std::vector<Edit> edits = list();
  for (size_t chunk = edits.size(); chunk >= 1 && !edits.empty(); chunk /= 2) {
    size_t from = 0;
    while (from < edits.size()) {
      std::vector<Maker> makers;
      for (size_t begin = from; begin < edits.size(); begin += chunk)
        makers.push_back([this, &edits, begin, chunk]() -> std::optional<Program> {
          Program program = best_.clone();
          int applied = 0;
          for (size_t i = begin; i < std::min(edits.size(), begin + chunk); ++i) applied += edits[i].apply(program);
          if (applied == 0) return std::nullopt;
          tidy(program, recorded_.symbols());
          return program;
        });
      const std::optional<size_t> found = try_all(makers);
      if (!found) break;
      changed = true;
      from += *found * chunk;
      record();
      edits = list();
      if (edits.empty()) return true;
    }
    chunk = std::min(chunk, std::max<size_t>(edits.size(), 1));
  }
  return changed;
}

// Constants made simple, each once: zeros, else ones, else random numbers.
bool Reducer::apply_groups() {
  bool changed = false;
  for (std::vector<Edit>& group : constant_edits(best_)) {
    const std::string name = group.front().what.substr(0, group.front().what.find(" as "));
    if (!filled_.insert(name).second) continue;
    say(name);
    std::vector<Maker> makers;
    for (Edit& edit : group)
      makers.push_back([this, &edit]() -> std::optional<Program> {
        Program program = best_.clone();
        if (!edit.apply(program)) return std::nullopt;
        return program;
      });
    changed |= try_all(makers).has_value();
  }
  if (changed) record();
  return changed;
}

// A subgraph alone, at once: the rest of the program may be large.
bool Reducer::use_subgraph() {
  bool changed = false;
  for (;;) {
    std::vector<Maker> makers;
    for (const Edit& edit : subgraph_edits(best_, recorded_))
      makers.push_back([this, edit]() -> std::optional<Program> {
        Program program = best_.clone();
        if (!edit.apply(program)) return std::nullopt;
        tidy(program, recorded_.symbols());
        return program;
      });
    if (makers.empty() || !try_all(makers)) return changed;
    changed = true;
    record();
  }
}

// The smallest number down to `least` that fails the same way.
bool Reducer::reduce_number(int64_t from, int64_t least, const std::function<Program(int64_t at, int64_t to)>& with) {
  // `fails` is known to fail the same way, `passes` not to; at first the smallest are worth a try.
  int64_t fails = from, passes = least - 1;
  const auto attempt = [&](const std::vector<int64_t>& numbers) {
    std::vector<Maker> makers;
    for (const int64_t to : numbers) makers.push_back([&with, fails, to] { return std::optional(with(fails, to)); });
    return try_all(makers);
  };
  std::vector<int64_t> first;
  for (const int64_t to : {least, least + 1, from / 2})
    if (to < from && to >= least && (first.empty() || to > first.back())) first.push_back(to);
  if (first.empty()) return false;
  if (const auto found = attempt(first)) {
    fails = first[*found];
    if (*found > 0) passes = first[*found - 1];
  } else {
    passes = first.back();
  }
  for (int step = 0; step < 8 && fails - passes > 1; ++step) {
    const int64_t middle = passes + (fails - passes) / 2;
    if (attempt({middle}))
      fails = middle;
    else
      passes = middle;
  }
  return fails < from;
}

bool Reducer::reduce_sizes() {
  bool changed = false;
  for (const int64_t size : input_sizes(best_)) {
    say(str("size ", size));
    changed |= reduce_number(size, 1, [this](int64_t at, int64_t to) {
      Program program = best_.clone();
      resize(program, at, to);
      return program;
    });
  }
  if (changed) record();
  return changed;
}

// Dynamic sizes that stay dynamic: smaller inputs.
bool Reducer::reduce_symbols() {
  bool changed = false;
  const auto symbols = best_.symbols;
  for (const auto& [name, info] : symbols) {
    const auto value = recorded_.symbols().find(name);
    if (info.unbacked || value == recorded_.symbols().end()) continue;
    say(str("dynamic size ", name));
    const bool smaller =
        reduce_number(value->second, std::max<int64_t>(info.range.low, 1), [this, &key = name](int64_t, int64_t to) {
          Program program = best_.clone();
          resize_symbol(program, recorded_.symbols(), key, to);
          return program;
        });
    if (smaller) record();
    changed |= smaller;
  }
  return changed;
}

bool Reducer::reduce_once() {
  bool changed = reduce_nodes();
  changed |= reduce_outputs();
  if (options_.only_nodes) return changed;
  say("subgraphs");
  changed |= use_subgraph();
  changed |= apply_in_chunks([this] { return inline_edits(best_, recorded_); });
  say("operators bypassed");
  changed |= apply_in_chunks([this] { return bypass_edits(best_); });
  changed |= apply_in_chunks([this] { return branch_edits(best_, recorded_); });
  drop_symbols();
  changed |= reduce_sizes();
  changed |= reduce_symbols();
  changed |= apply_groups();
  say("dtypes and layouts");
  changed |= apply_in_chunks([this] { return dtype_edits(best_); });
  changed |= apply_in_chunks([this] { return layout_edits(best_); });
  return changed;
}

// Every operator out once: cut out, or replaced by an argument; those of subgraphs too. What the search has tried
// already is known and costs nothing.
bool Reducer::prove_minimal() {
  say("is it minimal?");
  record();
  not_removable_ = undecided_ = 0;
  std::vector<Maker> makers;
  for (size_t i = 0; i < best_.graph.nodes.size(); ++i) {
    not_removable_ += !without_node(best_, i, recorded_);
    makers.push_back([this, i] { return without_node(best_, i, recorded_); });
  }
  std::vector<Edit> edits = bypass_edits(best_);
  for (auto& more : {inline_edits(best_, recorded_), branch_edits(best_, recorded_)})
    edits.insert(edits.end(), more.begin(), more.end());
  for (const Edit& edit : edits)
    makers.push_back([this, edit]() -> std::optional<Program> {
      Program program = best_.clone();
      if (!edit.apply(program)) return std::nullopt;
      tidy(program, recorded_.symbols());
      // As many operators as before prove nothing.
      if (count_calls(program.graph) >= count_calls(best_.graph)) return std::nullopt;
      return program;
    });
  const bool smaller = try_all(makers).has_value();
  proved_ = !smaller && undecided_ == 0;
  if (smaller) record();
  return !smaller;
}

void Reducer::run() {
  if (options_.recorded)
    recorded_ = *std::exchange(options_.recorded, std::nullopt);
  else
    record();
  use_hint();
  drop_symbols();
  do {
    while (reduce_once()) {
    }
  } while (options_.prove && !prove_minimal());
}

}  // namespace kiln::minify
