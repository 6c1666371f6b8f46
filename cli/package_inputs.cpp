#include "package_inputs.h"

#include <charconv>

#include "base/error.h"
#include "base/text.h"
#include "bench/random_inputs.h"
#include "console.h"
#include "executable/package_executable.h"
#include "pt2/input_files.h"

namespace kiln::cli {

std::vector<Datum> package_inputs(const std::string& package, const ParsedOptions& options) {
  const InputForm form = package_input_form(package);
  if (const auto file = options.value("--inputs")) return read_inputs(*file, form);
  if (auto samples = package_sample_inputs(package)) return std::move(*samples);
  if (!form.slots.empty()) fail_user("K0674", str(package, " carries no sample inputs: give --inputs"));
  return {};
}

std::vector<OptionSpec> random_input_options() {
  return {
      {"--random", "", "", "inputs of the sample's sizes with values drawn at random from the sample's", false},
      {"--shape", "", "S=N,…", "random inputs of these sizes, by symbol (kiln inspect lists them): s0=8,s1=128", true},
      {"--seed", "", "N", "of the random inputs (0)", false}};
}

SymbolValues parse_shape(const std::string& text) {
  SymbolValues sizes;
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string name(trim(std::string_view(part).substr(0, equals)));
    const std::string number(equals == std::string::npos ? "" : trim(std::string_view(part).substr(equals + 1)));
    int64_t value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (name.empty() || number.empty() || error != std::errc() || end != number.data() + number.size())
      throw UsageError(str("--shape takes sizes by symbol, s0=8,s1=128, not '", text, "'"));
    if (!sizes.emplace(name, value).second) throw UsageError(str("--shape gives ", name, " twice"));
  }
  return sizes;
}

void note_random_inputs(const ParsedOptions& options) {
  if (options.has("--random") || options.has("--shape"))
    tell_note(
        "the inputs are random, drawn from the samples' values without their order: where the program asks for "
        "more (sorted offsets, a permutation), give --inputs");
}

void note_kept_buffers(const std::string& package, const char* fewer) {
  const format::Plan plan = package_plan(package);
  std::vector<std::string> names;
  for (const format::Constant& constant : plan.constants)
    if (constant.mutated) names.push_back(constant.name);
  if (names.empty()) return;
  const size_t count = names.size();
  if (count > 3) names.resize(3), names.push_back("…");
  tell_note(str("the model writes ", count == 1 ? "a buffer (" : str(count, " buffers ("), join(names, ", "),
                "), which go on from call to call: a cache that is full fails; make fewer calls (", fewer, ")"));
}

MadeInputs given_or_random_inputs(const std::string& package, const ParsedOptions& options) {
  const bool random = options.has("--random") || options.has("--shape");
  if (random && options.has("--inputs"))
    throw UsageError("--inputs and random inputs (--random, --shape) exclude each other");
  if (!random && options.has("--seed")) throw UsageError("--seed belongs to --random or --shape");
  if (!random) return {package_inputs(package, options), options.value_or("--inputs", "samples")};
  SymbolValues sizes;
  for (const std::string& text : options.values("--shape"))
    for (const auto& [name, value] : parse_shape(text))
      if (!sizes.emplace(name, value).second) throw UsageError(str("--shape gives ", name, " twice"));
  const int64_t seed = options.integer("--seed", 0, INT64_MAX).value_or(0);
  require_package(package);
  RandomInputs made =
      random_inputs(package_plan(package), package_sample_inputs(package).value_or(std::vector<Datum>{}), sizes,
                    static_cast<uint64_t>(seed));
  tell_notes(made.notes);
  return {std::move(made.inputs), str("random, seed ", seed)};
}

}  // namespace kiln::cli
