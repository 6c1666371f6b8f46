#include "check/check_json.h"

#include "check/check.h"

namespace kiln {
namespace {

CaseStatus status_from_name(const std::string& name) {
  for (const CaseStatus status : {CaseStatus::passed, CaseStatus::failed, CaseStatus::skipped})
    if (name == case_status_name(status)) return status;
  fail_bug(str("a case with the status ", quote(name)));
}

}  // namespace

Json case_to_json(const CaseResult& result) {
  Json json = Json::object();
  json.set("path", result.path);
  json.set("status", case_status_name(result.status));
  json.set("stage", result.stage);
  json.set("message", result.message);
  json.set("code", result.code);
  json.set("operator", result.op);
  Json::Array notes;
  for (const std::string& note : result.notes) notes.emplace_back(note);
  json.set("notes", Json(std::move(notes)));
  json.set("log", result.log);
  json.set("calls", result.calls);
  json.set("rescued", result.rescued);
  json.set("worst", result.worst);
  json.set("seconds", result.seconds);
  json.set("compile_seconds", result.compile_seconds);
  return json;
}

CaseResult case_from_json(std::string_view text) {
  const Json json = parse_json(text, "a case's result");
  CaseResult result;
  result.path = json.at("path").as_string();
  result.status = status_from_name(json.at("status").as_string());
  result.stage = json.at("stage").as_string();
  result.message = json.at("message").as_string();
  result.code = json.at("code").as_string();
  result.op = json.at("operator").as_string();
  for (const Json& note : json.at("notes").items()) result.notes.push_back(note.as_string());
  result.log = json.at("log").as_string();
  result.calls = static_cast<int>(json.at("calls").as_int());
  result.rescued = json.at("rescued").as_int();
  result.worst = json.at("worst").as_double();
  result.seconds = json.at("seconds").as_double();
  result.compile_seconds = json.at("compile_seconds").as_double();
  return result;
}

Json summary_json(const CheckSummary& summary) {
  Json json = Json::object();
  json.set("passed", summary.passed);
  json.set("failed", summary.failed);
  json.set("skipped", summary.skipped);
  json.set("rescued", summary.rescued);
  json.set("seconds", summary.seconds);
  Json cases = Json::array();
  for (const CaseResult& result : summary.cases) cases.push(case_to_json(result));
  json.set("cases", std::move(cases));
  return json;
}

}  // namespace kiln
