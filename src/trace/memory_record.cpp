#include "trace/memory_record.h"

#include "base/error.h"
#include "trace/plan_text.h"

namespace kiln {
namespace {

struct Life {
  int first = -1, last = -1;
};

// Bytes for the sample; nothing where a size depends on what only a run knows.
std::optional<int64_t> sample_bytes(const format::Plan& plan, format::ExprIndex bytes, const SymbolValues& values) {
  if (bytes == format::none) return std::nullopt;
  try {
    return evaluate(parse_expr(plan_expr(plan, bytes)), values);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

SymbolValues sample_values(const std::map<std::string, SymbolInfo>& symbols) {
  SymbolValues values;
  for (const auto& [name, info] : symbols)
    values[name] = info.hint ? *info.hint : info.range.low == INT64_MIN ? 1 : std::max<int64_t>(info.range.low, 1);
  return values;
}

Json memory_record(const format::Plan& plan, const std::map<std::string, SymbolInfo>& symbols) {
  std::vector<Life> lives(plan.buffers.size());
  Json steps = Json::array();
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    steps.push(plan.steps[s].name);
    for (const StepAccess& access : step_accesses(plan.steps[s])) {
      Life& life = lives.at(static_cast<size_t>(access.buffer));
      if (life.first < 0) life.first = static_cast<int>(s);
      life.last = static_cast<int>(s);
    }
  }
  const SymbolValues values = sample_values(symbols);
  Json buffers = Json::array();
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const format::Buffer& buffer = plan.buffers[b];
    Life life = lives[b];
    const int end = static_cast<int>(plan.steps.size()) - 1;
    // What others own is there from beginning to end; a result stays until the caller has it.
    if (buffer.role == format::BufferRole::output && life.first >= 0) life.last = end;
    if (buffer.role != format::BufferRole::output && buffer.role != format::BufferRole::temp) life = {0, end};
    if (life.first < 0) continue;
    Json one = Json::object();
    one.set("name", buffer.name);
    for (const format::Output& output : plan.outputs)
      if (output.buffer == static_cast<int32_t>(b) && !output.key.empty()) one.set("output", output.key);
    one.set("role", buffer_role_name(buffer.role));
    one.set("type", plan_buffer_type(plan, static_cast<int32_t>(b)));
    one.set("first", life.first);
    one.set("last", life.last);
    if (const auto bytes = sample_bytes(plan, buffer.bytes, values)) one.set("bytes", *bytes);
    buffers.push(std::move(one));
  }
  Json record = Json::object();
  record.set("steps", std::move(steps));
  record.set("buffers", std::move(buffers));
  Json sample = Json::object();
  for (const auto& [name, value] : values) sample.set(name, value);
  record.set("sample", std::move(sample));
  return record;
}

}  // namespace kiln
