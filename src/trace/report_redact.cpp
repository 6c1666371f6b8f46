#include "trace/report_redact.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"

namespace kiln {
namespace {

// Numbered names in the order in which they are first asked for.
class Names {
 public:
  explicit Names(std::string kind) : kind_(std::move(kind)) {}
  std::string of(const std::string& name) {
    if (name.empty()) return "";
    return numbers_.try_emplace(name, str(kind_, "_", numbers_.size())).first->second;
  }
  const std::map<std::string, std::string>& all() const { return numbers_; }
  const std::string* known(const std::string& name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? nullptr : &found->second;
  }

 private:
  std::string kind_;
  std::map<std::string, std::string> numbers_;
};

const Json::Array& items_of(const Json& object, std::string_view key) {
  static const Json::Array none;
  const Json* value = object.is_object() ? object.find(key) : nullptr;
  return value && value->is_array() ? value->items() : none;
}

class Redactor {
 public:
  explicit Redactor(const Json& report) : report_(report) {
    for (const Json& compile : items_of(report, "compiles")) {
      const Json* memory = compile.find("memory");
      if (!memory) continue;
      for (const Json& buffer : items_of(*memory, "buffers")) {
        const std::string name = text_of(buffer, "name"), role = text_of(buffer, "role");
        if (role == "constant") weights_.of(name);
        if (role == "derived") derived_.of(name);
        if (role == "input") inputs_.of(name);
        if (const std::string key = text_of(buffer, "output"); !key.empty()) outputs_.of(key);
      }
      if (const Json* guards = compile.find("guards"))
        for (const Json& input : items_of(*guards, "inputs")) inputs_.of(text_of(input, "name"));
      if (const Json* guards = compile.find("guards"))
        for (const Json& output : items_of(*guards, "outputs")) outputs_.of(text_of(output, "name"));
    }
    for (const Names* names : {&derived_, &weights_})
      longest_first_.insert(longest_first_.end(), names->all().begin(), names->all().end());
    std::stable_sort(longest_first_.begin(), longest_first_.end(),
                     [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  }

  Json run() {
    Json out = Json::object();
    for (const JsonMember& member : report_.members()) {
      const std::string& key = member.key;
      if (key == "compiles")
        out.set(key, each(member.value, [&](const Json& one) { return compile(one); }));
      else if (key == "runs")
        out.set(key, each(member.value, [&](const Json& one) { return with_model(one); }));
      else if (key == "numerics")
        out.set(key, each(member.value, [&](const Json& one) { return with_model(with_buffers(one)); }));
      else if (key == "errors")
        out.set(key, each(member.value, [&](const Json& one) { return error(one); }));
      else if (key == "problems")  // they name files
        out.set(key,
                each(member.value, [](const Json&) { return Json("a file of the trace could not be read whole"); }));
      else if (key == "lines")
        out.set(key, Json::array());
      else
        out.set(key, member.value);
    }
    return out;
  }

 private:
  template <class F>
  static Json each(const Json& list, F f) {
    Json out = Json::array();
    if (list.is_array())
      for (const Json& one : list.items()) out.push(f(one));
    return out;
  }

  // Kiln makes names of its own of a weight's ("pack_" and its name, a number behind it).
  std::string renamed_inside(std::string word) const {
    if (word.find('_') == std::string::npos) return word;
    for (const auto& [name, other] : longest_first_) {
      const size_t at = word.find(name), end = at + name.size();
      const bool begins = at != std::string::npos && (at == 0 || word[at - 1] == '_');
      if (begins && (end == word.size() || word[end] == '_')) return word.replace(at, name.size(), other);
    }
    return word;
  }
  // Identifiers that are names of weights or inputs, wherever they stand in a text. A sentence may hold a word that is
  // also the name of an input ("a"): there only weights are looked for.
  std::string renamed(const std::string& text, bool sentence = false) const {
    const auto of_name = [](char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    std::string out;
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      while (end < text.size() && of_name(text[end])) ++end;
      const std::string word = text.substr(i, end - i);
      const std::string* other = weights_.known(word);
      if (!other) other = derived_.known(word);
      if (!other && !sentence) other = inputs_.known(word);
      if (!other && !sentence) other = outputs_.known(word);
      out += other ? *other : renamed_inside(word);
      if (end < text.size()) out += text[end++];
      i = end;
    }
    return out;
  }
  // All texts inside.
  Json with_buffers(const Json& value) const {
    if (value.is_string()) return renamed(value.as_string());
    if (value.is_array()) return each(value, [&](const Json& one) { return with_buffers(one); });
    if (!value.is_object()) return value;
    Json out = Json::object();
    for (const JsonMember& member : value.members()) out.set(member.key, with_buffers(member.value));
    return out;
  }

  Json with_model(const Json& record) {
    Json out = record;
    out.set("model", models_.of(text_of(record, "model")));
    return out;
  }

  // "dir/model.py:42 in forward:  y = f(x)" -> "file_0:42"
  std::string place(const std::string& line) {
    const std::string head = line.substr(0, line.find(":  "));
    size_t end = head.rfind(" in ");
    if (end == std::string::npos) end = head.size();
    const size_t colon = head.rfind(':', end);
    if (colon == std::string::npos || colon + 1 >= end) return files_.of(head);
    const std::string number = head.substr(colon + 1, end - colon - 1);
    if (number.find_first_not_of("0123456789") != std::string::npos) return files_.of(head);
    return str(files_.of(head.substr(0, colon)), ":", number);
  }

  Json origin(const Json& from) {
    Json out = Json::object();
    out.set("node", renamed(text_of(from, "node")));
    out.set("op", text_of(from, "op"));
    out.set("module", modules_.of(text_of(from, "module")));
    out.set("line", text_of(from, "line").empty() ? "" : place(text_of(from, "line")));
    return out;
  }

  Json kernel(const Json& record) {
    // Texts that Kiln makes of buffers, symbols and numbers; any other text is left out.
    static const std::set<std::string> known = {"name",     "kind",  "call",  "symbol",
                                                "schedule", "hints", "reads", "writes"};
    Json out = Json::object();
    for (const JsonMember& member : record.members()) {
      if (member.key == "origins")
        out.set(member.key, each(member.value, [&](const Json& one) { return origin(one); }));
      else if (known.contains(member.key))
        out.set(member.key, with_buffers(member.value));
      else if (member.value.is_bool() || member.value.is_number())
        out.set(member.key, member.value);
    }
    return out;
  }

  Json decision(const Json& record) const {
    Json out = with_buffers(record);
    out.set("reason", renamed(text_of(record, "reason"), true));
    return out;
  }

  Json compile(const Json& record) {
    Json out = with_model(record);
    out.set("model_path", "");
    out.set("package_path", "");
    out.set("stages", Json::array());
    out.set("notes", Json::array());  // free text
    out.set("values", Json::array());
    if (record.find("settings")) out.set("settings", Json::array());  // they may name folders
    out.set("fusion", each(record.at("fusion"), [&](const Json& one) { return decision(one); }));
    for (const char* key : {"guards", "memory"})
      if (const Json* part = record.find(key)) out.set(key, with_buffers(*part));
    out.set("kernels", each(record.at("kernels"), [&](const Json& one) { return kernel(one); }));
    return out;
  }

  Json error(const Json& record) {
    Json out = Json::object();
    for (const char* key : {"code", "kind"})
      if (const Json* value = record.find(key)) out.set(key, *value);
    out.set("message", "the message is left out");  // it may name anything
    out.set("text", "");
    const Json* where = record.find("where");
    if (!where || !where->is_object()) return out;
    Json kept = Json::object();
    for (const char* key : {"line", "op", "pass"})
      if (const Json* value = where->find(key)) kept.set(key, *value);
    kept.set("node", renamed(text_of(*where, "node")));
    kept.set("module", modules_.of(text_of(*where, "module")));
    if (!text_of(*where, "file").empty()) kept.set("file", files_.of(text_of(*where, "file")));
    kept.set("function", "");
    kept.set("text", "");
    out.set("where", std::move(kept));
    return out;
  }

  const Json& report_;
  Names weights_{"weight"}, derived_{"derived"}, inputs_{"input"}, outputs_{"output"}, modules_{"module"},
      files_{"file"}, models_{"model"};
  std::vector<std::pair<std::string, std::string>> longest_first_;  // of weights and what is derived of them
};

}  // namespace

std::string text_of(const Json& object, std::string_view key) {
  const Json* value = object.is_object() ? object.find(key) : nullptr;
  return value && value->is_string() ? value->as_string() : "";
}

Json redacted_report(const Json& report) { return Redactor(report).run(); }

}  // namespace kiln
