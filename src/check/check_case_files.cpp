#include "check/check_case_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "pt2/input_files.h"
#include "pt2/output_files.h"
#include "pt2/pytree.h"
#include "pt2/reader.h"
#include "pt2/tensor_files.h"

namespace kiln {
namespace {

class CaseReader {
 public:
  explicit CaseReader(const CaseSource& source) : source_(source) {}

  CaseFiles read() {
    files_.model = path_of("model.pt2");
    for (size_t i = 0; exists(numbered("inputs", i)); ++i) files_.calls.push_back(read_call(i));
    if (exists("expected_sequence.pt")) files_.sequence = read_sequence();
    for (size_t j = 0; exists(numbered("bad_inputs", j)); ++j) files_.bad_inputs.push_back(read_bad_inputs(j));
    if (exists("case.json")) read_case_json();
    check_names();
    return std::move(files_);
  }

 private:
  static std::string numbered(const char* what, size_t i) { return str(what, "_", i, ".pt"); }
  std::string path_of(const std::string& name) const { return join_path(source_.label, name); }
  bool exists(const std::string& name) const {
    return std::find(source_.names.begin(), source_.names.end(), name) != source_.names.end();
  }
  std::optional<double> tolerance_of(const Json& tolerance, const char* key) const {
    const Json* given = tolerance.find_value(key);
    if (!given) return {};
    const double value = given->as_double();
    if (!(value >= 0)) refuse("case.json", str(key, ": a tolerance is 0 or more, not ", value));
    return value;
  }

  [[noreturn]] void refuse(const std::string& name, const std::string& why) const {
    fail_user("K0172", str(path_of(name), ": ", why));
  }

  TensorFile read_file_of(const std::string& name) const { return read_pt(source_.open(name)); }
  std::vector<Datum> read_list(const std::string& name) {
    known_.push_back(name);
    TensorFile file = read_file_of(name);
    if (!file.names.empty()) refuse(name, "is a dictionary; a case has flat lists in the order of the graph");
    return std::move(file.items);
  }
  // Most cases are flat lists, for which nobody needs to know the model.
  bool is_flat_list(const std::string& name) const { return is_flat_pt_list(source_.open(name)); }
  // For the order of what stands in this file.
  const Program& program_for(const std::string& name) {
    if (source_.program) return *source_.program;
    if (!exists("model.pt2")) refuse(name, "is not a flat list, and there is no model here that says in which order");
    if (!program_) program_ = read_pt2(files_.model);
    return *program_;
  }
  std::vector<Datum> read_inputs_of(const std::string& name) {
    if (is_flat_list(name)) return read_list(name);
    known_.push_back(name);
    return read_inputs(path_of(name), input_form(program_for(name)));
  }
  CaseFiles::BadInputs read_bad_inputs(size_t j) {
    const std::string name = str("bad_inputs_", j);
    try {
      return {name, read_inputs_of(name + ".pt"), ""};
    } catch (const Error& error) {
      if (error.code() != "K0155" && error.code() != "K0156") throw;
      return {name, {}, error.message()};
    }
  }
  std::vector<Datum> read_outputs_of(const std::string& name) {
    if (is_flat_list(name)) return read_list(name);
    known_.push_back(name);
    const std::string& spec = program_for(name).out_spec;
    const OutputForm form = output_form(output_keys(spec), spec);
    if (auto outputs = read_pt_outputs(source_.open(name), form)) return std::move(*outputs);
    refuse(name, str("its keys are not those of the outputs: ", join(form.keys, ", ")));
  }

  std::map<std::string, Tensor> read_state(const std::string& name) {
    known_.push_back(name);
    const TensorFile file = read_file_of(name);
    if (file.names.size() != file.items.size()) refuse(name, "is not a dictionary of tensors by name");
    std::map<std::string, Tensor> state;
    for (size_t i = 0; i < file.items.size(); ++i) {
      if (!file.items[i].is_tensor()) refuse(name, str(file.names[i], " is not a tensor"));
      state.emplace(file.names[i], file.items[i].tensor());
    }
    return state;
  }
  std::vector<std::vector<Datum>> read_sequence() {
    std::vector<std::vector<Datum>> sequence;
    for (const Datum& call : read_list("expected_sequence.pt")) {
      if (!call.is_list()) refuse("expected_sequence.pt", "is not a list of lists of outputs");
      sequence.push_back(call.list());
    }
    return sequence;
  }
  CaseFiles::Call read_call(size_t i) {
    CaseFiles::Call call;
    call.inputs = read_inputs_of(numbered("inputs", i));
    if (!exists(numbered("expected", i)))
      refuse(numbered("expected", i), str("is missing beside ", numbered("inputs", i)));
    call.expected = read_outputs_of(numbered("expected", i));
    if (exists(numbered("mutated", i))) call.mutated = read_inputs_of(numbered("mutated", i));
    if (exists(numbered("state", i))) call.state = read_state(numbered("state", i));
    return call;
  }

  void read_case_json() {
    known_.push_back("case.json");
    const Json json = parse_json(as_text(source_.open("case.json").bytes), path_of("case.json"));
    for (const JsonMember& member : json.members()) {
      if (member.key == "about") continue;
      if (member.key == "tolerance") {
        files_.rtol = tolerance_of(member.value, "rtol");
        files_.atol = tolerance_of(member.value, "atol");
      } else if (member.key == "compare") {
        if (member.value.as_string() != "shapes")
          refuse("case.json", str("compare: ", quote(member.value.as_string()), " is not known"));
        files_.shapes_only = true;
      } else if (member.key == "needs") {
        read_needs(member.value);
      } else {
        refuse("case.json", str("the key ", quote(member.key), " is not known"));
      }
    }
  }
  void read_needs(const Json& needs) {
    if (needs.is_string()) files_.needs.push_back(needs.as_string());
    if (needs.is_array())
      for (const Json& need : needs.items()) files_.needs.push_back(need.as_string());
  }

  // A file of the case's naming that was not read is a mistake in the case (a gap in the numbering): not silently less
  // checked.
  void check_names() const {
    for (const std::string& name : source_.names) {
      if (!ends_with(name, ".pt")) continue;
      if (std::find(known_.begin(), known_.end(), name) == known_.end())
        refuse(name, "belongs to no call of this case (are the numbers without a gap?)");
    }
    if (files_.calls.empty() && files_.bad_inputs.empty()) refuse("inputs_0.pt", "is missing");
  }

  const CaseSource& source_;
  CaseFiles files_;
  std::vector<std::string> known_;
  std::optional<Program> program_;
};

}  // namespace

CaseFiles read_case_files(const CaseSource& source) { return CaseReader(source).read(); }

CaseFiles read_case_files(const std::string& path, const Program* program) {
  if (is_directory(path)) {
    const auto open = [&](const std::string& name) {
      const auto mapped = MappedFile::open(join_path(path, name));
      return FileBytes{mapped->bytes(), mapped, mapped->path()};
    };
    return read_case_files(CaseSource{path, list_directory(path), open, program});
  }
  CaseFiles files;
  files.model = path;
  files.bare = true;
  return files;
}

void complete_inputs(CaseFiles& files, const Program& program) {
  const InputForm form = input_form(program);
  const auto complete = [&](std::vector<Datum>& list, const char* what, size_t call) {
    list = completed_inputs(str(what, "_", call, ".pt"), std::move(list), form);
  };
  for (size_t i = 0; i < files.calls.size(); ++i) {
    complete(files.calls[i].inputs, "inputs", i);
    if (files.calls[i].mutated) complete(*files.calls[i].mutated, "mutated", i);
  }
}

}  // namespace kiln
