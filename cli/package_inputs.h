// The inputs of a package on the command line: --inputs, or the samples it carries.
#pragma once
#include "options.h"
#include "types/expr.h"
#include "types/tensor.h"

namespace kiln::cli {

std::vector<Datum> package_inputs(const std::string& package, const ParsedOptions& options);

// The same for commands that also take --random, --shape and --seed, and where the inputs came from, in words.
struct MadeInputs {
  std::vector<Datum> inputs;
  std::string source;  // "samples", "random, seed 0", the file's path
};
MadeInputs given_or_random_inputs(const std::string& package, const ParsedOptions& options);
// Says, before a failure of a call on them is, that inputs were random: the program may ask for more of their values.
void note_random_inputs(const ParsedOptions& options);
// Says, before a failure of one of many calls is, that the buffers of a model that writes them go on from call to call:
// a cache fills up. `fewer`: how this command makes fewer calls.
void note_kept_buffers(const std::string& package, const char* fewer);
// Those options, for the commands that take them.
std::vector<OptionSpec> random_input_options();
// "s0=8,s1=128"; a UsageError says what is wrong with it.
SymbolValues parse_shape(const std::string& text);

}  // namespace kiln::cli
