#include "trace/pass_record.h"

#include "base/json.h"

namespace kiln {
namespace {

std::string text_at(const Json& record, const char* key) {
  const Json* found = record.find(key);
  return found && found->is_string() ? found->as_string() : "";
}

bool flag_at(const Json& record, const char* key) {
  const Json* found = record.find(key);
  return found && found->is_bool() && found->as_bool();
}

}  // namespace

std::string pass_record(const std::vector<RecordedPass>& passes) {
  Json list = Json::array();
  for (const RecordedPass& pass : passes) {
    Json notes = Json::array(), decisions = Json::array();
    for (const std::string& note : pass.notes) notes.push(note);
    for (const loops::Decision& d : pass.decisions) {
      Json one = Json::object();
      one.set("verdict", d.verdict), one.set("subject", d.subject);
      if (!d.other.empty()) one.set("link", d.link), one.set("other", d.other);
      if (!d.reason.empty()) one.set("reason", d.reason);
      one.set("taken", d.taken);
      decisions.push(std::move(one));
    }
    Json record = Json::object();
    record.set("name", pass.name), record.set("stage", pass.stage), record.set("changed", pass.changed);
    if (!pass.notes.empty()) record.set("notes", std::move(notes));
    if (!pass.decisions.empty()) record.set("decisions", std::move(decisions));
    list.push(std::move(record));
  }
  Json root = Json::object();
  root.set("passes", std::move(list));
  return json_text(root) + "\n";
}

std::vector<RecordedPass> read_pass_record(const std::string& text) {
  std::vector<RecordedPass> out;
  const Json root = parse_json(text, "debug/passes.json");
  for (const Json& record : root.at("passes").items()) {
    RecordedPass pass;
    pass.name = text_at(record, "name"), pass.stage = text_at(record, "stage"),
    pass.changed = flag_at(record, "changed");
    if (const Json* notes = record.find("notes"))
      for (const Json& note : notes->items()) pass.notes.push_back(note.as_string());
    if (const Json* decisions = record.find("decisions"))
      for (const Json& d : decisions->items())
        pass.decisions.push_back({text_at(d, "verdict"), text_at(d, "subject"), text_at(d, "link"), text_at(d, "other"),
                                  text_at(d, "reason"), flag_at(d, "taken"), pass.name});
    out.push_back(std::move(pass));
  }
  return out;
}

}  // namespace kiln
