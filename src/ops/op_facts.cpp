#include "ops/op_facts.h"

#include "ops/op_record.h"

namespace kiln {

namespace {

template <class T>
void join(T& known, const T& more, std::string_view what, std::string_view op) {
  if (more == T{} || known == more) return;
  if (!(known == T{})) fail_bug(str(op, ": its ", what, " is stated twice, in two ways"));
  known = more;
}

}  // namespace

void add_facts(OpFacts& facts, const OpFacts& more, std::string_view op) {
  join(facts.complex, more.complex, "complex form", op);
  join(facts.autocast, more.autocast, "autocast class", op);
  join(facts.inverse_view, more.inverse_view, "inverse view", op);
  join(facts.shares, more.shares, "sharing of memory", op);
  join(facts.types_hold, more.types_hold, "check of types", op);
  facts.moves_data |= more.moves_data;
  facts.uninitialised |= more.uninitialised;
  facts.fills |= more.fills;
  facts.sees_storage |= more.sees_storage;
  facts.conjugate_view |= more.conjugate_view;
  facts.matrix_product |= more.matrix_product;
  facts.rounds_factors |= more.rounds_factors;
  facts.convolves |= more.convolves;
  facts.rounds_weights |= more.rounds_weights;
  facts.of_near_matrix |= more.of_near_matrix;
  facts.wraps |= more.wraps;
  facts.same_count |= more.same_count;
  facts.takes_source |= more.takes_source;
  facts.keeps_gaps |= more.keeps_gaps;
}

std::set<std::string, std::less<>> names_with(bool OpFacts::*fact) {
  std::set<std::string, std::less<>> out;
  for (const OpRecord* record : Registry::instance().all())
    if (record->facts.*fact) out.insert(record->name());
  return out;
}

std::set<std::string, std::less<>> short_names_with(bool OpFacts::*fact) {
  std::set<std::string, std::less<>> out;
  for (const OpRecord* record : Registry::instance().all())
    if (record->facts.*fact) out.insert(op_short_name(record->name()));
  return out;
}

void Registry::describe(std::initializer_list<std::string_view> names, const OpFacts& facts) {
  for (const std::string_view name : names) {
    bool found = false;
    const bool overload = name.find('.') != std::string_view::npos;
    const std::string full = str("aten.", name);
    for (auto at = records_.lower_bound(full); at != records_.end() && starts_with(at->first, full); ++at) {
      if (overload ? at->first != full : at->first[full.size()] != '.') continue;
      add_facts(at->second->facts, facts, at->first);
      found = true;
    }
    if (!found) fail_bug(str("facts about aten.", name, ", which no record declares by now"));
  }
}

}  // namespace kiln
