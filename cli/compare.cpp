#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/file_kind.h"
#include "check/differences.h"
#include "command.h"
#include "console.h"
#include "executable/package_executable.h"
#include "json_output.h"
#include "package_inputs.h"
#include "pt2/output_files.h"
#include "watched_package.h"
#include "weights_option.h"

namespace kiln::cli {
namespace {

// What a package gave, or a file has.
struct Outputs {
  std::vector<NamedDatum> values;
  bool named = false;  // the names say which is which; otherwise the order does
};

bool names_package(const std::string& path) {
  switch (file_kind_of(path)) {
    case FileKind::kiln_package:
      return true;
    case FileKind::saved_values:
    case FileKind::safetensors:
    case FileKind::numpy:
    case FileKind::other_zip:
      return false;
    default:
      fail_user("K0735", str(path,
                             " is neither a package of Kiln nor a file of saved outputs (.pt, .npz, .npy, "
                             ".safetensors); 'kiln check' compares an exported program with what PyTorch computed"));
  }
}

std::string output_label(size_t number, const std::string& key) {
  return key.empty() || key == std::to_string(number) ? str("output ", number) : str("output ", number, " ", key);
}

std::vector<NamedDatum> labelled(const std::vector<Datum>& outputs, const std::vector<std::string>& keys) {
  std::vector<NamedDatum> out;
  for (size_t i = 0; i < outputs.size(); ++i)
    out.push_back({output_label(i, i < keys.size() ? keys[i] : ""), outputs[i]});
  return out;
}

// All that a call leaves behind: outputs, and what it wrote to inputs and buffers.
Outputs call_package(const std::string& path, const std::vector<Datum>& inputs, const ParsedOptions& options,
                     const Settings& settings, bool all) {
  WatchedPackage watched(path, settings, options);
  watched.begin(inputs);
  PackageOptions package_options;
  package_options.settings = options.values("--config");
  package_options.custom_op_libs = options.values("--custom-op-lib");
  package_options.weights = given_weights(path, options);
  package_options.fault = [&](const std::string& text) { watched.fault(text); };
  CallResult result;
  try {
    result = watched.watch([&] { return PackageExecutable(path, package_options).call(inputs); });
  } catch (const Error&) {
    note_random_inputs(options);
    tell_note(str("this is of ", path, ":"));  // which of the two
    throw;
  }
  Outputs out;
  out.values = labelled(result.outputs, package_output_keys(path));
  if (!all) return out;
  const format::Plan plan = package_plan(path);
  for (size_t i = 0; i < std::min(plan.inputs.size(), result.inputs.size()); ++i)
    if (plan.inputs[i].mutated)
      out.values.push_back({str("input ", plan.inputs[i].name, " after the call"), result.inputs[i]});
  for (const auto& [name, tensor] : result.state)
    out.values.push_back({str("buffer ", name, " after the call"), Datum{tensor}});
  return out;
}

// Lists inside lists become values of their own.
void flatten(const std::string& name, const Datum& value, std::vector<NamedDatum>& out) {
  if (!value.is_list()) return out.push_back({name, value});
  for (size_t i = 0; i < value.list().size(); ++i) flatten(str(name, ".", i), value.list()[i], out);
}

Outputs saved_outputs(const std::string& path) {
  const TensorFile file = read_tensor_file(path);
  Outputs out;
  out.named = !file.names.empty();
  for (size_t i = 0; i < file.items.size(); ++i)
    flatten(out.named ? file.names[i] : str("output ", i), file.items[i], out.values);
  return out;
}

Outputs saved_outputs_of(const std::string& path, const std::string& package) {
  const OutputForm form = package_output_form(package);
  if (auto outputs = read_outputs(path, form)) return {labelled(*outputs, form.keys), false};
  Outputs named = saved_outputs(path);
  if (named.values.size() == 1 && form.keys.size() == 1) return {labelled({named.values[0].value}, form.keys), false};
  fail_user("K0736", str(path, ": its names are not those of the outputs of ", package, ": ",
                         join_map(named.values, ", ", [](const NamedDatum& v) { return v.name; }), "; expected ",
                         join(form.keys, ", ")));
}

// The values of b in the order of a; what only one of them has is said.
struct Paired {
  std::vector<NamedDatum> a;
  std::vector<Datum> b;
  std::vector<std::string> alone;  // one line each
};

Paired pair_outputs(const Outputs& a, const Outputs& b, const std::string& a_path, const std::string& b_path) {
  if (a.named != b.named && (a.values.size() != 1 || b.values.size() != 1))
    fail_user("K0736", str(a.named ? a_path : b_path, " has names and ", a.named ? b_path : a_path,
                           " has none: which output belongs to which is not known"));
  Paired out;
  const bool by_name = a.named && b.named;
  for (size_t i = 0; i < a.values.size(); ++i) {
    size_t j = i;
    if (by_name)
      j = static_cast<size_t>(std::find_if(b.values.begin(), b.values.end(),
                                           [&](const NamedDatum& v) { return v.name == a.values[i].name; }) -
                              b.values.begin());
    if (j >= b.values.size()) {
      out.alone.push_back(str(a.values[i].name, ": DIFFERS: only in ", a_path));
      continue;
    }
    out.a.push_back(a.values[i]);
    out.b.push_back(b.values[j].value);
  }
  for (size_t j = 0; j < b.values.size(); ++j) {
    const bool there = by_name ? std::any_of(a.values.begin(), a.values.end(),
                                             [&](const NamedDatum& v) { return v.name == b.values[j].name; })
                               : j < a.values.size();
    if (!there) out.alone.push_back(str(b.values[j].name, ": DIFFERS: only in ", b_path));
  }
  return out;
}

struct BothOutputs {
  Outputs a, b;
  std::string inputs;  // where they came from; empty: nothing was run
};

// "8", "s0"
std::vector<std::string> size_texts(const format::Plan& plan, const format::Input& input) {
  std::vector<std::string> out;
  for (const format::ExprIndex size : plan.buffers.at(static_cast<size_t>(input.buffer)).sizes)
    out.push_back(plan.exprs.at(static_cast<size_t>(size)).text);
  return out;
}

// "x float32[s0, 16], mask bool[s0]"
std::string inputs_text(const format::Plan& plan) {
  return join_map(plan.inputs, ", ", [&](const format::Input& input) {
    if (input.what != format::InputWhat::tensor) return input.name;
    return str(input.name, " ", dtype_torch_name(plan.buffers.at(static_cast<size_t>(input.buffer)).dtype), "[",
               join(size_texts(plan, input), ", "), "]");
  });
}

// Packages of one model may differ in floating types, and have sizes fixed that are dynamic in the other.
bool takes_alike(const format::Plan& a, const format::Input& x, const format::Plan& b, const format::Input& y) {
  if (x.what != y.what) return false;
  if (x.what != format::InputWhat::tensor) return true;
  const auto whole = [](const format::Plan& plan, const format::Input& input) {
    return is_integral(plan.buffers.at(static_cast<size_t>(input.buffer)).dtype);
  };
  const auto fixed = [](const std::string& size) { return size.find_first_not_of("0123456789") == std::string::npos; };
  const std::vector<std::string> of_x = size_texts(a, x), of_y = size_texts(b, y);
  return whole(a, x) == whole(b, y) &&
         std::equal(of_x.begin(), of_x.end(), of_y.begin(), of_y.end(),
                    [&](const auto& one, const auto& other) { return one == other || !fixed(one) || !fixed(other); });
}

void note_other_model(const std::string& a, const std::string& b) {
  const format::Plan of_a = package_plan(a), of_b = package_plan(b);
  const bool alike = std::equal(of_a.inputs.begin(), of_a.inputs.end(), of_b.inputs.begin(), of_b.inputs.end(),
                                [&](const auto& x, const auto& y) { return takes_alike(of_a, x, of_b, y); });
  const auto outputs = [](const format::Plan& plan) {
    return str(plan.outputs.size(), plan.outputs.size() == 1 ? " output" : " outputs");
  };
  if (alike && of_a.outputs.size() == of_b.outputs.size()) return;
  tell_note(str("these are not of one model as it was exported once: ", a, " takes ", inputs_text(of_a), " and has ",
                outputs(of_a), "; ", b, " takes ", inputs_text(of_b), " and has ", outputs(of_b)));
}

BothOutputs both_outputs(const ParsedOptions& options, const Settings& settings) {
  const std::string &a = options.positional[0], &b = options.positional[1];
  const bool a_runs = names_package(a), b_runs = names_package(b);
  BothOutputs out;
  if (!a_runs && !b_runs) {
    for (const char* option : {"--inputs", "--random", "--shape", "--seed"})
      if (options.has(option)) throw UsageError(str(option, " is for packages: neither of the two is one"));
    out.a = saved_outputs(a), out.b = saved_outputs(b);
    return out;
  }
  if (a_runs && b_runs) note_other_model(a, b);
  // Samples, and sizes for random inputs, are the first package's; a file is read for each as its names are.
  const bool second_has = a_runs && b_runs && !package_sample_inputs(a) && package_sample_inputs(b);
  const MadeInputs made = given_or_random_inputs(!a_runs || second_has ? b : a, options);
  out.inputs = made.source;
  const auto inputs_for = [&](const std::string& package) {
    return options.has("--inputs") ? package_inputs(package, options) : made.inputs;
  };
  out.a = a_runs ? call_package(a, inputs_for(a), options, settings, b_runs) : saved_outputs_of(a, b);
  out.b = b_runs ? call_package(b, inputs_for(b), options, settings, a_runs) : saved_outputs_of(b, a);
  return out;
}

int run_compare(const ParsedOptions& options) {
  const Settings settings = settings_of(options, Phase::run);
  const std::string &a = options.positional[0], &b = options.positional[1];
  DifferenceLimits limits;
  limits.tolerance.rtol = options.number("--rtol", 0);
  limits.tolerance.atol = options.number("--atol", 0);
  limits.values_only = options.has("--values-only");
  limits.most_places = static_cast<size_t>(options.integer("--top", 0, 1'000'000).value_or(3));
  const JsonOutput json(options);
  const BothOutputs both = both_outputs(options, settings);
  const Paired paired = pair_outputs(both.a, both.b, a, b);
  const std::vector<OutputDifference> differences = find_differences(paired.a, paired.b, limits);
  size_t different = paired.alone.size();
  std::string text;
  Json list = Json::array(), alone = Json::array(), root = JsonOutput::document("compare");
  for (const OutputDifference& difference : differences) {
    different += difference.ok() ? 0 : 1;
    text += difference_text(difference);
    list.push(difference_json(difference));
  }
  for (const std::string& line : paired.alone) text += line + "\n", alone.push(line);
  const size_t all = differences.size() + paired.alone.size();
  const bool exact = std::all_of(differences.begin(), differences.end(),
                                 [](const OutputDifference& difference) { return difference.unequal == 0; });
  const std::string things = str(all, all == 1 ? " output" : " outputs");
  const std::string summary = different > 0 ? str(different, " of ", things, different == 1 ? " differs" : " differ")
                              : exact       ? str(things, ", equal")
                                            : str(things, ", equal within the tolerance");
  root.set("a", a), root.set("b", b);
  root.set("inputs", both.inputs.empty() ? Json() : Json(both.inputs)), root.set("equal", different == 0);
  root.set("outputs", std::move(list)), root.set("only_in_one", std::move(alone));
  if (!json.instead_of_text()) printf("%s%s\n", is_quiet() ? "" : text.c_str(), summary.c_str());
  json.write(root);
  return different == 0 ? 0 : 1;
}

}  // namespace

Command compare_command() {
  CommandSpec spec;
  spec.name = "compare";
  spec.positional = "A B";
  spec.least = spec.most = 2;
  spec.summary = "compares what two packages compute, or saved outputs";
  spec.details =
      "A and B are packages, which are run on the same inputs, or files of saved outputs (.pt, .npz, .npy, "
      ".safetensors: what 'kiln run -o' or PyTorch wrote). Of each output the places that are furthest over the "
      "tolerance: where, both values, how far off, absolute and relative to B's. Of two packages also inputs and "
      "buffers that the call writes. Outputs in a file "
      "are a list in order, or by the keys of the program's result. Exit code 1 when something differs by more than "
      "the tolerance, which is that of torch.testing.assert_close for the dtype.";
  spec.options = {
      {"--inputs", "", "F", "the inputs: a list in the model's order, or by name (default: the samples)", false,
       FileUse::read},
  };
  for (const OptionSpec& option : random_input_options()) spec.options.push_back(option);
  const std::vector<OptionSpec> more = {
      {"--rtol", "", "R", "relative tolerance for floats, instead of the dtype's", false},
      {"--atol", "", "A", "absolute tolerance for floats, instead of the dtype's", false},
      {"--values-only", "", "", "another dtype is no difference: a bfloat16 output against a saved float32", false},
      {"--top", "", "N", "places to list per output (3)", false},
      JsonOutput::option(),
      weights_option(),
      {"--custom-op-lib", "", "L", "shared library with custom operators, beside those in the packages", true,
       FileUse::read},
  };
  spec.options.insert(spec.options.end(), more.begin(), more.end());
  spec.examples = {"kiln compare old.kiln.pt2 new.kiln.pt2", "kiln compare model.kiln.pt2 eager.npz --inputs batch.npz",
                   "kiln compare a.pt b.pt --rtol 1e-3 --atol 1e-3"};
  return {spec, run_compare};
}

}  // namespace kiln::cli
