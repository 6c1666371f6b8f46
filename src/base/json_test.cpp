#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace kiln {
namespace {

std::string error_of(std::string_view text) {
  try {
    parse_json(text, "doc");
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Json, ReadsEveryKind) {
  const Json json = parse_json(R"( {"a": [1, -2.5e3, true, false, null, "x"], "b": {"c": {}}} )", "doc");
  const auto& items = json.at("a").items();
  EXPECT_EQ(items[0].as_int(), 1);
  EXPECT_EQ(items[1].as_double(), -2500.0);
  EXPECT_TRUE(items[2].as_bool());
  EXPECT_FALSE(items[3].as_bool());
  EXPECT_TRUE(items[4].is_null());
  EXPECT_EQ(items[5].as_string(), "x");
  EXPECT_TRUE(json.at("b").at("c").members().empty());
  EXPECT_EQ(json.find("z"), nullptr);
}

TEST(Json, NumbersKeepTheirMeaning) {
  EXPECT_EQ(parse_json("9223372036854775807", "doc").as_int(), INT64_MAX);
  EXPECT_EQ(parse_json("-9223372036854775808", "doc").as_int(), INT64_MIN);
  const Json big = parse_json("1171368248680556527362", "doc");
  ASSERT_TRUE(big.is_big_int());
  EXPECT_EQ(big.big_text(), "1171368248680556527362");
  EXPECT_EQ(json_text(big), "1171368248680556527362");
  EXPECT_THROW(big.as_int(), Error);
  EXPECT_EQ(parse_json("0.1", "doc").as_double(), 0.1);
  EXPECT_TRUE(std::isinf(parse_json("1e999", "doc").as_double()));
  EXPECT_TRUE(std::isnan(parse_json("NaN", "doc").as_double()));
  EXPECT_EQ(parse_json("-Infinity", "doc").as_double(), -INFINITY);
  EXPECT_TRUE(parse_json("\"Infinity\"", "doc").is_string());
}

TEST(Json, Strings) {
  EXPECT_EQ(parse_json(R"("a\n\"\\\/\t\u00e9\ud83d\ude00")", "doc").as_string(), "a\n\"\\/\t\u00e9\U0001F600");
  EXPECT_NE(error_of(R"("\ud83d")"), "");
  EXPECT_NE(error_of(R"("\q")"), "");
  EXPECT_NE(error_of("\"a\nb\""), "");
  EXPECT_NE(error_of("\"a"), "");
}

TEST(Json, ErrorsGiveLineAndColumn) {
  EXPECT_EQ(error_of("{\n  \"a\": tru\n}"), "doc, line 2, column 8: expected a value");
  EXPECT_NE(error_of("[1, 2").find("line 1, column 6"), std::string::npos);
  EXPECT_NE(error_of("[1] 2").find("after the end"), std::string::npos);
  EXPECT_NE(error_of("{\"a\": 1, \"a\": 2}").find("twice"), std::string::npos);
  for (const char* bad : {"", "{", "[1,]", "{\"a\"}", "01", "-", "1.", "1e", "{a: 1}", "'a'"})
    EXPECT_NE(error_of(bad), "") << bad;
}

TEST(Json, DepthIsLimited) {
  EXPECT_EQ(error_of(std::string(400, '[') + std::string(400, ']')), "");
  EXPECT_NE(error_of(std::string(100000, '[')).find("deeper"), std::string::npos);
}

TEST(Json, WrongKindsNameTheByte) {
  const Json json = parse_json("{\"a\": \"x\"}", "doc");
  try {
    json.at("a").as_int();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "K0121");
    EXPECT_NE(error.message().find("at byte 6"), std::string::npos);
  }
}

TEST(Json, WritesCompactAndPretty) {
  Json json = Json::object();
  json.set("name", "a\"b");
  Json& list = json.set("list", Json::array());
  list.push(1);
  list.push(2.0);
  json.set("inf", INFINITY);
  json.set("nested", Json::object()).set("x", nullptr);
  json.set("name", "again");
  EXPECT_EQ(json_text(json), R"({"name":"again","list":[1,2.0],"inf":"Infinity","nested":{"x":null}})");
  EXPECT_EQ(json_text(json, JsonStyle::pretty),
            "{\n  \"name\": \"again\",\n  \"list\": [1, 2.0],\n  \"inf\": \"Infinity\",\n  \"nested\": {\n    \"x\": "
            "null\n  }\n}\n");
  EXPECT_EQ(parse_json(json_text(json), "doc"), parse_json(json_text(json, JsonStyle::pretty), "doc"));
  EXPECT_EQ(json_text(Json(std::string("\x01"))), "\"\\u0001\"");
  EXPECT_EQ(json_text(Json(UINT64_MAX)), "18446744073709551615");
}

}  // namespace
}  // namespace kiln
