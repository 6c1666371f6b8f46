#include "runtime/fault_bundle.h"

#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/zip.h"
#include "package/plan_io.h"
#include "package/step_plan.h"
#include "runtime/element.h"
#include "runtime/saved_tensor.h"
#include "runtime/step_text.h"
#include "runtime/tensor_statistics.h"

namespace kiln::runtime {
namespace {

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) >= 32)
      out += c;
  }
  return out + "\"";
}

std::string hex(uint64_t value) {
  char buffer[20];
  std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(value));
  return buffer;
}

std::string plain_name(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') c = '_';
  return out;
}

}  // namespace

std::string FaultWriter::fault_json(const kiln_step& step, const std::string& message) const {
  std::string text =
      str("{\n  \"kernel\": ", json_text(step.name), ",\n  \"kind\": ", json_text(step.kind),
          ",\n  \"step\": ", step.number, ",\n  \"run\": ", step.run,
          ",\n  \"iterations\": ", dims_text(step.iterations, static_cast<int32_t>(step.loop_depth)),
          ",\n  \"message\": ", json_text(message), ",\n  \"model\": ", json_text(plan_.model_name),
          ",\n  \"package\": ", json_text(file_name(files_ ? files_->label() : "")),
          ",\n  \"build_id\": ", json_text(plan_.build_id), ",\n  \"kiln\": ", json_text(plan_.kiln_version),
          ",\n  \"torch\": ", json_text(plan_.torch_version), ",\n  \"target\": ", json_text(target_),
          ",\n  \"values\": ", with_values_ ? "true" : "false", ",\n  \"symbols\": {");
  for (size_t i = 0; i < step.symbol_count; ++i)
    text += str(i ? ", " : "", json_text(step.symbol_names[i]), ": ", step.symbol_values[i]);
  text += "},\n  \"arguments\": [";
  for (size_t i = 0; i < step.arg_count; ++i) {
    const kiln_step_arg& arg = step.args[i];
    text += str(i ? "," : "", "\n    {\"name\": ", json_text(arg.name), ", \"access\": ", arg.access,
                ", \"source\": ", json_text(source_of(arg)), ", \"type\": ", json_text(tensor_text(arg.tensor)),
                ", \"checksum\": ", json_text(hex(tensor_checksum(host_tensor(step, arg)))), "}");
  }
  return text + "\n  ]\n}\n";
}

std::string FaultWriter::sample_inputs(const format::Plan& plan, const kiln_step& step) const {
  std::vector<SavedItem> items;
  for (const format::Input& input : plan.inputs) {
    SavedItem item;
    if (input.what == format::InputWhat::tensor) {
      for (size_t i = 0; i < step.arg_count; ++i)
        if (input.name == step.args[i].name) item.tensor = &host_tensor(step, step.args[i]);
      if (!item.tensor) return "";
    } else {
      for (size_t i = 0; i < step.symbol_count; ++i)
        if (input.name == step.symbol_names[i]) item.integer = step.symbol_values[i];
      item.is_float = input.what == format::InputWhat::sym_float;
    }
    items.push_back(item);
  }
  return list_file(items);
}

std::string FaultWriter::write(const kiln_step& step, const std::string& message) const {
  const format::Step* original = format::find_step(plan_, step.number);
  if (!original) fail_bug(str("no step has the number ", step.number));
  const format::StepPlan extracted = format::step_plan(plan_, *original);
  make_directories(directory_, 0700);
  const int number = written_.fetch_add(1);
  const std::string path =
      join_path(directory_, str("fault_", plain_name(step.name), "_", getpid(), "_", number, ".kiln.pt2"));
  const std::string root = plan_.model_name, prefix = str(root, "/data/kiln/", root, "/");
  AtomicFile file(path, FileAccess::owner);  // it has the values of the call
  ZipWriter zip([&](ByteSpan bytes) { file.write(bytes); });
  zip.add(root + "/archive_format", std::string_view("pt2"));
  zip.add(root + "/archive_version", std::string_view("0"));
  zip.add(prefix + "plan", format::write_plan(extracted.plan));
  zip.add(prefix + "fault.json", fault_json(step, message));
  std::vector<std::string> copied;
  for (const format::CodeObject& code : plan_.code) copied.push_back(code.entry);
  for (const format::CustomLibrary& library : plan_.custom_libraries) copied.push_back(library.entry);
  copied.push_back("debug/loops.txt");
  copied.push_back("debug/lowered_graph.txt");
  for (const std::string& name : copied)
    if (const auto bytes = files_ ? files_->entry(name) : std::nullopt)
      zip.add(starts_with(name, prefix) ? name : prefix + name, *bytes);
  format::Origins origins{plan_.build_id, {}};
  for (const format::StepOrigin& origin : origins_.steps)
    if (origin.number == step.number) origins.steps.push_back(origin);
  zip.add(prefix + "debug/origins", format::write_origins(origins));
  const std::string inputs = with_values_ ? sample_inputs(extracted.plan, step) : "";
  if (!inputs.empty()) zip.add(str(root, "/data/sample_inputs/", root, ".pt"), inputs);
  zip.finish();
  file.commit();
  return path;
}

}  // namespace kiln::runtime
