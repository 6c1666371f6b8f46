#include "trace/report.h"

#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/version.h"
#include "trace/report_page.h"
#include "trace/report_redact.h"

namespace kiln {
namespace {

// Lines of all stages, each once: most passes change a few lines of many.
class LineTable {
 public:
  Json add(std::string_view text) {
    Json out = Json::array();
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    for (const std::string& line : split(text, '\n')) {
      auto [found, fresh] = numbers_.try_emplace(line, static_cast<int64_t>(lines_.size()));
      if (fresh) lines_.push_back(line);
      out.push(found->second);
    }
    return out;
  }
  Json take() {
    Json out = Json::array();
    for (std::string& line : lines_) out.push(std::move(line));
    return out;
  }

 private:
  std::map<std::string, int64_t, std::less<>> numbers_;
  std::vector<std::string> lines_;
};

// A copy of the record's members but for those that every record has.
Json members_of(const Json& record) {
  Json out = Json::object();
  for (const JsonMember& member : record.members())
    if (member.key != "type" && member.key != "time") out.set(member.key, member.value);
  return out;
}

// The parts of one compile that records are appended to.
struct Compile {
  Json head = Json::object();
  Json passes = Json::array(), jobs = Json::array(), stages = Json::array(), fusion = Json::array(),
       kernels = Json::array(), notes = Json::array();
  Json end, guards, memory, values;
};

class Builder {
 public:
  explicit Builder(const ReportOptions& options) : options_(options) {}

  void read_file_of_trace(const std::string& path, const std::string& name) {
    const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
    std::string_view rest = as_text(file->bytes());
    int number = 0, bad = 0;
    open_ = false;
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      ++number;
      if (trim(line).empty()) continue;
      try {
        const Json record = parse_json(line, name);
        take(text_of(record, "type"), record);
      } catch (const Error&) {
        ++bad;
      }
    }
    if (bad > 0)
      problems_.push(
          str(name, ": ", bad, " of ", number, " lines could not be read (the process may have been ended)"));
  }

  void add_problem(const std::string& text) { problems_.push(text); }

  Json finish(int files) {
    Json out = Json::object();
    out.set("kiln_version", version_text);
    out.set("redacted", options_.redact);
    out.set("files", files);
    out.set("errors", std::move(errors_));
    out.set("problems", std::move(problems_));
    Json compiles = Json::array();
    std::vector<bool> again;
    for (size_t i = 0; i < compiles_.size(); ++i) again.push_back(told_before(i));
    for (size_t i = 0; i < compiles_.size(); ++i)
      if (!again[i]) compiles.push(compile_json(compiles_[i]));
    out.set("compiles", std::move(compiles));
    out.set("runs", std::move(runs_));
    out.set("numerics", std::move(numerics_));
    out.set("lines", lines_.take());
    return out;
  }

 private:
  void take(const std::string& type, const Json& record) {
    if (!record.is_object()) fail_user("K0144", "a record of a trace is an object");
    if (type == "compile_start") return start(record);
    if (type == "error") return errors_.push(members_of(record));
    if (type == "run") return runs_.push(members_of(record));
    if (type == "numerics") return numerics_.push(members_of(record));
    if (type == "session") return;
    part(type, record);
  }

  void start(const Json& record) {
    compiles_.emplace_back();
    open_ = true;
    compiles_.back().head = members_of(record);
  }

  void part(const std::string& type, const Json& record) {
    if (!open_) return;  // of a compile whose beginning is not here
    Compile& now = compiles_.back();
    if (type == "pass") now.passes.push(members_of(record));
    if (type == "job") now.jobs.push(members_of(record));
    if (type == "stage") stage(record, now);
    if (type == "fusion") decisions(record, now);
    if (type == "note") now.notes.push(members_of(record));
    if (type == "kernel") now.kernels.push(members_of(record));
    if (type == "guards") now.guards = members_of(record);
    if (type == "memory") now.memory = members_of(record);
    if (type == "values") now.values = record.at("values");
    if (type == "compile_end") now.end = members_of(record);
  }

  void stage(const Json& record, Compile& now) {
    Json one = Json::object();
    one.set("name", text_of(record, "name"));
    one.set("stage", text_of(record, "stage"));
    one.set("lines", lines_.add(record.at("text").as_string()));
    now.stages.push(std::move(one));
  }

  void decisions(const Json& record, Compile& now) {
    for (const Json& decision : record.at("decisions").items()) {
      Json one = decision;
      one.set("pass", text_of(record, "pass"));
      now.fusion.push(std::move(one));
    }
  }

  // The steps of a run first; those that only run when weights are loaded after them.
  static Json ordered(const Json& kernels) {
    Json out = Json::array();
    for (const bool init : {false, true})
      for (const Json& kernel : kernels.items()) {
        const Json* mark = kernel.find("init");
        if ((mark && mark->is_bool() && mark->as_bool()) == init) out.push(kernel);
      }
    return out;
  }

  // A run tells what its package recorded: once is enough, and not at all where the compile itself is in the trace.
  bool told_before(size_t index) const {
    const auto recorded = [](const Compile& one) {
      const Json* mark = one.head.find("recorded");
      return mark && mark->is_bool() && mark->as_bool();
    };
    const auto same = [&](const Compile& one) {
      return text_of(one.head, "model") == text_of(compiles_[index].head, "model") &&
             file_name(text_of(one.head, "package_path")) == file_name(text_of(compiles_[index].head, "package_path"));
    };
    if (!recorded(compiles_[index])) return false;
    for (size_t i = 0; i < compiles_.size(); ++i)
      if (i != index && same(compiles_[i]) && (!recorded(compiles_[i]) || i < index)) return true;
    return false;
  }

  static Json compile_json(Compile& one) {
    Json out = std::move(one.head);
    out.set("passes", std::move(one.passes));
    out.set("jobs", std::move(one.jobs));
    out.set("stages", std::move(one.stages));
    out.set("fusion", std::move(one.fusion));
    out.set("kernels", ordered(one.kernels));
    out.set("notes", std::move(one.notes));
    out.set("end", std::move(one.end));
    out.set("guards", std::move(one.guards));
    out.set("memory", std::move(one.memory));
    out.set("values", std::move(one.values));
    return out;
  }

  ReportOptions options_;
  LineTable lines_;
  std::vector<Compile> compiles_;
  bool open_ = false;  // a compile began in the file that is read
  Json errors_ = Json::array(), problems_ = Json::array(), runs_ = Json::array(), numerics_ = Json::array();
};

// In a script element only "</" can end it, and "<!--" changes how it is read.
std::string script_safe(std::string text) { return replace_all(std::move(text), "<", "\\u003c"); }

}  // namespace

Json report_data(const std::string& trace_directory, const ReportOptions& options) {
  if (!is_directory(trace_directory)) fail_user("K0144", str(trace_directory, " is not a directory of traces"));
  Builder builder(options);
  int files = 0;
  for (const std::string& name : list_directory(trace_directory)) {
    if (!ends_with(name, ".jsonl")) continue;
    try {
      builder.read_file_of_trace(join_path(trace_directory, name), name);
    } catch (const Error& error) {
      builder.add_problem(str(name, ": ", error.message()));
    }
    ++files;
  }
  if (files == 0)
    fail_user("K0144",
              str(trace_directory, " holds no trace (*.jsonl); compile or run with TORCH_TRACE=", trace_directory));
  const Json report = builder.finish(files);
  return options.redact ? redacted_report(report) : report;
}

std::string report_html(const Json& report) {
  std::string page = report_page_html;
  const std::string parts[][2] = {
      {"$CSS", report_page_css}, {"$DATA", script_safe(json_text(report))}, {"$JS", report_page_js}};
  std::string out;
  size_t at = 0;
  for (const auto& [mark, text] : parts) {  // in the order in which they stand; what is put in is not searched
    const size_t found = page.find(mark, at);
    KILN_CHECK(found != std::string::npos, str("the page has no ", mark));
    out.append(page, at, found - at);
    out += text;
    at = found + mark.size();
  }
  return out.append(page, at, std::string::npos);
}

}  // namespace kiln
