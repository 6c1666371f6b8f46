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
  run.read_environment(environment({{"TORCHINDUCTOR_FREEZING", "1"}, {"KILN_CXX", "g++"}}));  // not for this phase
  EXPECT_FALSE(run.given("freezing"));
  Settings compile(Phase::compile);
  compile.set("freezing", "1");
  compile.set("nan_asserts", "1");  // acts later, on the package
  EXPECT_TRUE(compile.get_bool("freezing"));
}

TEST(Settings, UnknownKeysNameTheNearest) {
  Settings settings(Phase::both);
  EXPECT_NE(message_of([&] { settings.set("nan_assert", "1"); }).find("'nan_asserts'"), std::string::npos);
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
    return s.use == SettingUse::not_built && s.type == SettingType::boolean && std::string(s.default_text) == "0";
  });
  if (missing == table.end()) return;  // everything is built
  settings.set(missing->key, "1");
  settings.set(missing->key, "1");
  ASSERT_EQ(settings.notes().size(), 2u);
  EXPECT_NE(settings.notes()[1].find("not built yet"), std::string::npos);
}

TEST(Settings, ValuesOutsideTheTableAreRefused) {
  const std::pair<const char*, std::vector<const char*>> bad[] = {
      {"check_inputs", {"2", "-1"}},
      {"aot_inductor.debug_intermediate_value_printer", {"4", "-1"}},
      {"cpp.threads", {"0", "-5", "-2"}},
      {"cpp.simdlen", {"7", "0", "96"}},
      {"aot_inductor.repro_level", {"0", "5"}},
      {"TORCHDYNAMO_REPRO_AFTER", {"dynamo"}},
      {"float32_matmul_precision", {"lowest"}},
      {"cpp.inject_relu_bug_TESTING_ONLY", {"crash"}},
      {"TORCHINDUCTOR_REDIS_PORT", {"0", "70000"}},
      {"intermediate_value_style", {"plain"}},
  };
  for (const auto& [key, values] : bad)
    for (const char* value : values) {
      Settings settings(Phase::both);
      EXPECT_NE(message_of([&] { settings.set(key, value); }).find(str("not ", quote(value))), std::string::npos)
          << key << "=" << value;
    }
  Settings good(Phase::both);
  good.set("cpp.threads", "3");
  good.set("cpp.simdlen", "256");
  good.set("cpp.simdlen", "None");
  good.set("check_inputs", "True");
  EXPECT_NE(message_of([&] { good.set("cpp.threads", "0"); }).find("-1 or at least 1"), std::string::npos);
}

TEST(Settings, WhatIsAlwaysSoSaysIt) {
  for (const Setting& setting : settings_table()) {
    if (setting.use != SettingUse::always_so) continue;
    Settings settings(Phase::both);
    settings.set(setting.key, "True");
    EXPECT_TRUE(settings.notes().empty()) << setting.key;
    settings.set(setting.key, "False");
    ASSERT_EQ(settings.notes().size(), 1u) << setting.key;
    EXPECT_NE(settings.notes()[0].find("always"), std::string::npos) << settings.notes()[0];
  }
}

TEST(Settings, SuggestsOnlyWhatIsNear) {
  Settings settings(Phase::both);
  EXPECT_EQ(message_of([&] { settings.set("qwertyuiop", "1"); }).find("nearest"), std::string::npos);
  EXPECT_NE(message_of([&] { settings.set("threads", "1"); }).find("'cpp.threads'"), std::string::npos);
  EXPECT_NE(message_of([&] { settings.set("Max_Autotune_gem", "1"); }).find("'max_autotune_gemm'"), std::string::npos);
}

TEST(Settings, UnknownVariablesAreNoted) {
  Settings settings(Phase::run);
  settings.note_unknown_variables({"TORCHINDUCTOR_NAN_ASSERT=1", "TORCHINDUCTOR_CACHE_DIR=x", "TORCH_LOG=guards",
                                   "TORCH_HOME=x", "KILN_CACHE_DIR=x", "KILN_BINARY_DIR=x", "HOME=/",
                                   "TORCHINDUCTOR_FREEZING=1", "AOTI_RUNTIME_CHECK_INPUT=1"});
  const std::string notes = join(settings.notes(), "\n");
  EXPECT_EQ(settings.notes().size(), 4u) << notes;
  EXPECT_NE(notes.find("KILN_BINARY_DIR is no setting"), std::string::npos) << "these names are Kiln's own: " << notes;
  EXPECT_NE(notes.find("TORCHINDUCTOR_NAN_ASSERT is no setting of Kiln and does nothing; the nearest is "
                       "'TORCHINDUCTOR_NAN_ASSERTS'"),
            std::string::npos)
      << notes;
  EXPECT_NE(notes.find("'TORCH_LOGS'"), std::string::npos) << notes;
  EXPECT_EQ(notes.find("TORCHINDUCTOR_CACHE_DIR"), std::string::npos) << "PyTorch sets it itself: " << notes;
  EXPECT_NE(notes.find("'AOTI_RUNTIME_CHECK_INPUTS'"), std::string::npos) << notes;
}

TEST(Settings, AVariableOfASettingThatHasNoneOrAnother) {
  Settings settings(Phase::run);
  settings.note_unknown_variables({"KILN_THREADS=1", "KILN_NUM_THREADS=1", "KILN_FREEZING=1"});
  ASSERT_EQ(settings.notes().size(), 3u);
  for (size_t i : {0, 1})
    EXPECT_NE(settings.notes()[i].find("cpp.threads has no variable: give --config cpp.threads="), std::string::npos)
        << settings.notes()[i];
  EXPECT_NE(settings.notes()[2].find("freezing is read from TORCHINDUCTOR_FREEZING"), std::string::npos);
}

TEST(Settings, PackageDefaultsGiveWay) {
  Settings settings(Phase::run);
  settings.set("cpp.threads", "2");
  settings.read_environment(environment({{"TORCHINDUCTOR_NAN_ASSERTS", "0"}}));
  for (const char* assignment : {"cpp.threads=7", "nan_asserts=1", "check_bounds=1", "of_the_future=3"})
    settings.set_package_default(assignment);
  EXPECT_EQ(settings.get_int("cpp.threads"), 2);
  EXPECT_FALSE(settings.get_bool("nan_asserts"));
  EXPECT_TRUE(settings.get_bool("check_bounds"));
  ASSERT_EQ(settings.notes().size(), 1u);
  EXPECT_NE(settings.notes()[0].find("of_the_future"), std::string::npos);
}

}  // namespace
}  // namespace kiln
