#include "check/bundle.h"

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/inflate.h"
#include "base/json.h"
#include "base/text.h"
#include "base/zip.h"
#include "check/case_calls.h"
#include "check/elements.h"
#include "pt2/input_files.h"

namespace kiln {
namespace {

constexpr int bundle_version = 1;
constexpr size_t most_test_files = 100'000;

std::string pt_text(const TensorFile& file) {
  std::string out;
  write_pt(file, [&](ByteSpan bytes) { out += as_text(bytes); });
  return out;
}

[[noreturn]] void of_another_program(const std::string& what, const std::string& why) {
  fail_user("K0738", str(what, " is not for this model: ", why));
}

void check_inputs(const std::string& what, const std::vector<Datum>& inputs, const Program& program) {
  size_t position = 0;
  for (size_t i = 0; i < program.input_specs.size(); ++i) {
    const InputKind kind = program.input_specs[i].kind;
    if (kind != InputKind::user && kind != InputKind::constant_value) continue;
    const Value& value = *program.graph.inputs[i];
    if (position >= inputs.size()) break;
    const Datum& given = inputs[position++];
    if (kind != InputKind::user || value.kind != ValueKind::tensor) continue;
    if (!given.is_tensor()) of_another_program(what, str("input '", value.name, "' is a tensor there"));
    const Tensor& tensor = given.tensor();
    if (tensor.dtype != value.type.dtype || tensor.sizes.size() != value.type.sizes.size())
      of_another_program(
          what, str("input '", value.name, "' is ", dtype_torch_name(tensor.dtype), list_text(tensor.sizes),
                    ", the model takes ", dtype_torch_name(value.type.dtype), "[", shape_text(value.type.sizes), "]"));
  }
  const size_t count = input_form(program).slots.size();
  if (inputs.size() != count)
    of_another_program(what, str("it has ", counted(inputs.size(), "input"), ", the model takes ", count));
}

void check_outputs(const std::string& what, const std::vector<Datum>& outputs, const Program& program) {
  const auto count = std::count_if(
      program.output_specs.begin(), program.output_specs.end(),
      [](const OutputSpec& spec) { return spec.kind == OutputKind::user || spec.kind == OutputKind::loss; });
  if (static_cast<int64_t>(outputs.size()) != count)
    of_another_program(what, str("it has ", counted(outputs.size(), "output"), ", the model gives ", count));
}

TensorFile by_name(const std::map<std::string, Tensor>& tensors) {
  TensorFile file;
  for (const auto& [name, tensor] : tensors) file.names.push_back(name), file.items.push_back({tensor});
  return file;
}

Json case_json(const CaseFiles& files) {
  Json root = Json::object(), tolerance = Json::object();
  if (files.rtol) tolerance.set("rtol", *files.rtol);
  if (files.atol) tolerance.set("atol", *files.atol);
  if (files.rtol || files.atol) root.set("tolerance", std::move(tolerance));
  if (files.shapes_only) root.set("compare", "shapes");
  return root;
}

// Files of the test's names only: what is listed is opened.
bool is_test_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && (ends_with(name, ".pt") || name == "case.json");
}

}  // namespace

std::map<std::string, std::string> bundle_files(const std::string& directory, const Program& program) {
  if (!is_directory(directory)) fail_user("K0170", str(directory, ": there is no such directory"));
  CaseFiles files = read_case_files(directory, &program);
  complete_inputs(files, program);
  if (files.calls.empty()) fail_user("K0172", str(directory, ": a test needs a call: inputs_0.pt and expected_0.pt"));
  std::map<std::string, std::string> out;
  for (size_t i = 0; i < files.calls.size(); ++i) {
    const CaseFiles::Call& call = files.calls[i];
    check_inputs(join_path(directory, str("inputs_", i, ".pt")), call.inputs, program);
    check_outputs(join_path(directory, str("expected_", i, ".pt")), call.expected, program);
    out[str("inputs_", i, ".pt")] = pt_text({call.inputs, {}});
    out[str("expected_", i, ".pt")] = pt_text({call.expected, {}});
    if (call.mutated) out[str("mutated_", i, ".pt")] = pt_text({*call.mutated, {}});
    if (call.state) out[str("state_", i, ".pt")] = pt_text(by_name(*call.state));
  }
  if (files.sequence) {
    TensorFile sequence;
    for (const std::vector<Datum>& call : *files.sequence) {
      check_outputs(join_path(directory, "expected_sequence.pt"), call, program);
      sequence.items.push_back({call});
    }
    out["expected_sequence.pt"] = pt_text(sequence);
  }
  size_t bad_count = 0;  // inputs that could not even be put in order never reach the runtime
  for (const CaseFiles::BadInputs& bad : files.bad_inputs)
    if (bad.refusal.empty()) out[str("bad_inputs_", bad_count++, ".pt")] = pt_text({bad.inputs, {}});
  out["case.json"] = json_text(case_json(files), JsonStyle::pretty);
  Json index = Json::object(), names = Json::array();
  for (const auto& [name, bytes] : out) names.push(name);
  index.set("version", bundle_version), index.set("files", std::move(names));
  out["files.json"] = json_text(index, JsonStyle::pretty);
  return out;
}

CaseFiles read_bundle(const std::string& label, const TestFile& file) {
  const auto index_bytes = file("files.json");
  if (!index_bytes)
    fail_user("K0739",
              str(label, " carries no test: 'kiln compile --bundle DIR' puts the calls of a case directory into it"));
  const std::string where = label + "!test";
  try {
    const Json index = parse_json(as_text(*index_bytes), join_path(where, "files.json"));
    if (index.at("version").as_int() != bundle_version)
      fail_user("K0741", str(where, " is of version ", index.at("version").as_int(), "; this Kiln reads version ",
                             bundle_version));
    CaseSource source;
    source.label = where;
    source.open = [&](const std::string& name) -> FileBytes {
      const auto bytes = file(name);
      if (!bytes) fail_user("K0741", str(join_path(where, name), " is listed but not there"));
      return {*bytes, nullptr, join_path(where, name)};
    };
    if (index.at("files").items().size() > most_test_files) fail_user("K0741", str(where, " lists too many files"));
    for (const Json& name : index.at("files").items()) {
      if (!is_test_name(name.as_string()))
        fail_user("K0741", str(where, " lists ", quote(name.as_string()), ", which is no file of a test"));
      source.names.push_back(name.as_string());
    }
    CaseFiles files = read_case_files(source);
    if (files.calls.empty()) fail_user("K0741", str(where, " has no call in it"));
    return files;
  } catch (const Error& error) {
    if (error.code() == "K0741" || error.kind() == ErrorKind::bug) throw;
    fail_user("K0741", str("the package's test cannot be read: ", error.code(), ": ", error.message()));
  }
}

CaseFiles read_package_bundle(const std::string& path) {
  require_package(path);
  const auto mapped = MappedFile::open(path);
  const ZipReader zip(mapped->bytes(), path, inflate_entry);
  std::string folder;
  for (const ZipEntry& entry : zip.entries())
    if (entry.name.find("data/kiln/") != std::string::npos && ends_with(entry.name, "/plan"))
      folder = entry.name.substr(0, entry.name.size() - std::string_view("plan").size()) + "test/";
  return read_bundle(path, [&](const std::string& name) -> std::optional<ByteSpan> {
    const ZipEntry* entry = zip.find(folder + name);
    if (!entry) return std::nullopt;
    zip.check_crc(*entry);
    return zip.stored(*entry);
  });
}

SelfTest self_test(const CaseFiles& files, PackageExecutable& package, std::optional<double> rtol,
                   std::optional<double> atol) {
  CompareOptions compare;
  compare.rtol = rtol ? rtol : files.rtol;
  compare.atol = atol ? atol : files.atol;
  compare.shapes_only = files.shapes_only;
  CaseCalls calls(files, package, compare);
  calls.written = [&] { return package.written_inputs(); };
  calls.whole_state = [&](const std::map<std::string, Tensor>&) { return package.all_constants(); };
  try {
    calls.run();
  } catch (const CaseFailure& failure) {
    fail_user("K0742", str("the self-test failed: ", failure.stage, ": ", failure.message));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::bug) throw;
    fail_user("K0742", str("the self-test failed: ", calls.stage, ": ", error.code(), ": ", error.message()));
  }
  return {calls.calls, calls.worst};
}

}  // namespace kiln
