#include "base/settings.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace kiln {
namespace {

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

Settings::Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

TEST(Settings, TableIsSound) {
  std::set<std::string> keys;
  for (const Setting& setting : settings_table()) {
    EXPECT_TRUE(keys.insert(setting.key).second) << setting.key;
    EXPECT_NE(std::string(setting.meaning), "") << setting.key;
    Settings settings(Phase::both);
    settings.set(setting.key, setting.default_text);  // the default is a legal value
    EXPECT_TRUE(settings.notes().empty()) << setting.key;
  }
  const auto ignored = ignored_inductor_keys();
  EXPECT_TRUE(
      std::is_sorted(ignored.begin(), ignored.end(), [](std::string_view a, std::string_view b) { return a < b; }));
  for (const char* key : ignored) EXPECT_FALSE(keys.contains(key)) << key;
}

TEST(Settings, DefaultsEnvironmentAndExplicitValues) {
  Settings settings(Phase::both);
  EXPECT_EQ(settings.get_int("cpp.threads"), -1);
  EXPECT_FALSE(settings.get_optional_int("check_inputs").has_value());
  EXPECT_TRUE(settings.get_bool("pattern_matcher"));
  settings.set("nan_asserts=True");
  settings.read_environment(environment({{"TORCHINDUCTOR_NAN_ASSERTS", "0"}, {"AOTI_RUNTIME_CHECK_INPUTS", "1"}}));
  EXPECT_TRUE(settings.get_bool("nan_asserts"));  // given explicitly, so the environment does not count
  EXPECT_EQ(settings.get_optional_int("check_inputs"), 1);
  EXPECT_TRUE(settings.given("check_inputs"));
  EXPECT_TRUE(settings.get_bool("check_inputs"));
  EXPECT_FALSE(settings.given("cpp.threads"));
}

TEST(Settings, OneVariableMaySetSeveralKeys) {
  Settings settings(Phase::both);
  settings.read_environment(environment({{"TORCH_COMPILE_DEBUG", "1"}}));
  EXPECT_TRUE(settings.get_bool("debug"));
  EXPECT_TRUE(settings.get_bool("trace.enabled"));
}

TEST(Settings, ListsIgnoreSpaces) {
  Settings settings(Phase::run);
  settings.set("aot_inductor.filtered_kernel_names", " a, b* ,,c ");
  EXPECT_EQ(settings.get_list("aot_inductor.filtered_kernel_names"), (std::vector<std::string>{"a", "b*", "c"}));
  EXPECT_TRUE(settings.get_list("TORCH_LOGS").empty());
}

TEST(Settings, PhaseIsChecked) {
  Settings run(Phase::run);
  EXPECT_NE(message_of([&] { run.set("freezing", "1"); }).find("compiled"), std::string::npos);
  EXPECT_NE(message_of([&] {
              run.read_environment(environment({{"TORCHINDUCTOR_FREEZING", "1"}}));
            }).find("TORCHINDUCTOR_FREEZING"),
            std::string::npos);
  run.read_environment(environment({{"TORCHINDUCTOR_FREEZING", "0"}, {"KILN_CXX", "g++"}}));  // asks for nothing
  Settings compile(Phase::compile);
  compile.set("freezing", "1");
  compile.set("nan_asserts", "1");  // acts later, on the package
  EXPECT_TRUE(compile.get_bool("freezing"));
}

TEST(Settings, UnknownKeysNameTheNearest) {
  Settings settings(Phase::both);
  EXPECT_NE(message_of([&] { settings.set("nan_assert", "1"); }).find("\"nan_asserts\""), std::string::npos);
  EXPECT_NE(message_of([&] { settings.set("nan_asserts", "maybe"); }).find("maybe"), std::string::npos);
  EXPECT_NE(message_of([&] { settings.set("cpp.threads", "many"); }).find("whole number"), std::string::npos);
  EXPECT_NE(message_of([&] { settings.set("freezing"); }).find("KEY=VALUE"), std::string::npos);
}

TEST(Settings, NotesComeOnce) {
  Settings settings(Phase::both);
  settings.set("epilogue_fusion", "0");
  settings.set("epilogue_fusion", "1");
  ASSERT_EQ(settings.notes().size(), 1u);
  EXPECT_NE(settings.notes()[0].find("epilogue_fusion"), std::string::npos);
  const auto table = settings_table();
  const auto missing = std::find_if(table.begin(), table.end(), [](const Setting& s) {
    return !s.built && s.type == SettingType::boolean && std::string(s.default_text) == "0";
  });
  if (missing == table.end()) return;  // everything is built
  settings.set(missing->key, "1");
  settings.set(missing->key, "1");
  ASSERT_EQ(settings.notes().size(), 2u);
  EXPECT_NE(settings.notes()[1].find("not built yet"), std::string::npos);
}

}  // namespace
}  // namespace kiln
