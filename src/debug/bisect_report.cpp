#include "debug/bisect_report.h"

#include <bit>

#include "base/json.h"

namespace kiln {
namespace {

// Exactly, infinities and NaNs too.
Json bits(double value) { return Json(std::to_string(std::bit_cast<uint64_t>(value))); }
double number(const Json& json) { return std::bit_cast<double>(uint64_t{std::stoull(json.as_string())}); }

Json difference_json(const Difference& difference) {
  Json::Array index;
  for (int64_t i : difference.index) index.emplace_back(i);
  return Json(Json::Object{{"index", Json(std::move(index))},
                           {"got", bits(difference.got)},
                           {"expected", bits(difference.expected)},
                           {"ulps", bits(difference.ulps)},
                           {"count", Json(difference.count)},
                           {"of", Json(difference.of)}});
}

Difference read_difference(const Json& json) {
  Difference out;
  for (const Json& i : json.at("index").items()) out.index.push_back(i.as_int());
  out.got = number(json.at("got")), out.expected = number(json.at("expected")), out.ulps = number(json.at("ulps"));
  out.count = json.at("count").as_int(), out.of = json.at("of").as_int();
  return out;
}

}  // namespace

std::string report_text(const BisectResult& result) {
  Json::Array candidates, untold, by_loops, calls;
  for (const std::string& name : result.by_loops) by_loops.emplace_back(name);
  for (const std::string& name : result.untold) untold.emplace_back(name);
  for (const std::string& name : result.candidates) candidates.emplace_back(name);
  for (const auto& sums : result.output_sums) {
    Json::Array call;
    for (uint64_t sum : sums) call.emplace_back(std::to_string(sum));
    calls.emplace_back(std::move(call));
  }
  Json::Object out{{"fault", Json(static_cast<int>(result.fault))},
                   {"step", Json(result.step)},
                   {"buffer", Json(result.buffer)},
                   {"op", Json(result.op)},
                   {"value", Json(result.value)},
                   {"node", Json(result.node)},
                   {"candidates", Json(std::move(candidates))},
                   {"method", Json(result.method)},
                   {"steps", Json(result.steps)},
                   {"against_graph", Json(result.against_graph)},
                   {"against_loops", Json(result.against_loops)},
                   {"untold", Json(std::move(untold))},
                   {"by_loops", Json(std::move(by_loops))},
                   {"unexplained", Json(result.unexplained)},
                   {"output_sums", Json(std::move(calls))},
                   {"text", Json(result.text)}};
  if (result.difference) out.push_back({"difference", difference_json(*result.difference)});
  return json_text(Json(std::move(out)));
}

std::string report_text(const Error& error) {
  // The message with the lines that say where: only the kind and the code are the parent's to add again.
  const std::string whole = error.what(), head = str("error[", error.code(), "]: ");
  return json_text(
      Json(Json::Object{{"error", Json(starts_with(whole, head) ? whole.substr(head.size()) : error.message())},
                        {"code", Json(error.code())},
                        {"kind", Json(static_cast<int>(error.kind()))}}));
}

Json bisect_json(const BisectResult& result) {
  Json out = Json::object();
  out.set("fault", fault_class_name(result.fault));
  const auto text = [&](const char* key, const std::string& value) {
    out.set(key, value.empty() ? Json() : Json(value));
  };
  text("step", result.step), text("buffer", result.buffer), text("operator", result.op), text("value", result.value);
  text("node", result.node), text("method", result.method);
  Json candidates = Json::array(), untold = Json::array();
  for (const std::string& name : result.candidates) candidates.push(name);
  for (const std::string& name : result.untold) untold.push(name);
  out.set("uncertain_between", std::move(candidates));
  out.set("steps", result.steps), out.set("compared_with_reference", result.against_graph);
  out.set("compared_with_loops", result.against_loops), out.set("not_compared", std::move(untold));
  if (const auto& difference = result.difference) {
    Json one = Json::object(), index = Json::array();
    for (const int64_t i : difference->index) index.push(i);
    one.set("index", std::move(index)), one.set("got", difference->got), one.set("expected", difference->expected);
    one.set("ulps", difference->ulps), one.set("count", difference->count), one.set("of", difference->of);
    out.set("difference", std::move(one));
  }
  out.set("text", result.text);
  return out;
}

BisectResult read_report(const std::string& text) {
  const Json json = parse_json(text, "the report of a child process");
  if (const Json* error = json.find("error"))
    throw Error(static_cast<ErrorKind>(json.at("kind").as_int()), json.at("code").as_string(), error->as_string());
  BisectResult out;
  out.fault = static_cast<FaultClass>(json.at("fault").as_int());
  out.step = json.at("step").as_string(), out.buffer = json.at("buffer").as_string();
  out.op = json.at("op").as_string(), out.value = json.at("value").as_string();
  out.node = json.at("node").as_string(), out.method = json.at("method").as_string();
  for (const Json& name : json.at("candidates").items()) out.candidates.push_back(name.as_string());
  out.steps = static_cast<int>(json.at("steps").as_int());
  out.against_graph = static_cast<int>(json.at("against_graph").as_int());
  out.against_loops = static_cast<int>(json.at("against_loops").as_int());
  for (const Json& name : json.at("untold").items()) out.untold.push_back(name.as_string());
  for (const Json& name : json.at("by_loops").items()) out.by_loops.push_back(name.as_string());
  out.unexplained = json.at("unexplained").as_bool();
  for (const Json& call : json.at("output_sums").items()) {
    out.output_sums.emplace_back();
    for (const Json& sum : call.items()) out.output_sums.back().push_back(std::stoull(sum.as_string()));
  }
  out.text = json.at("text").as_string();
  if (const Json* difference = json.find("difference")) out.difference = read_difference(*difference);
  return out;
}

}  // namespace kiln
