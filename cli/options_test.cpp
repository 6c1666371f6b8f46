#include "options.h"

#include <gtest/gtest.h>

namespace kiln::cli {
namespace {

CommandSpec bake() {
  CommandSpec spec;
  spec.name = "bake";
  spec.positional = "DOUGH";
  spec.least = 1;
  spec.most = 1;
  spec.summary = "bakes";
  spec.options = {{"--output", "-o", "PATH", "where it goes", false},
                  {"--seed", "", "S", "sprinkled on top", true},
                  {"--hot", "", "", "a flag", false}};
  spec.examples = {"kiln bake bread"};
  return spec;
}

std::string usage_error(const std::vector<std::string>& args) {
  try {
    parse_options(bake(), args);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Options, BothSpellingsOfAValue) {
  EXPECT_EQ(parse_options(bake(), {"a", "--output", "b"}).value("--output"), "b");
  EXPECT_EQ(parse_options(bake(), {"--output=b=c", "a"}).value("--output"), "b=c");
  EXPECT_EQ(parse_options(bake(), {"-o", "b", "a"}).value("--output"), "b");
  EXPECT_EQ(parse_options(bake(), {"-ob", "a"}).value("--output"), "b");
}

TEST(Options, FlagsAndRepeatedOptions) {
  const ParsedOptions parsed = parse_options(bake(), {"a", "--hot", "--seed", "1", "--seed=2"});
  EXPECT_TRUE(parsed.has("--hot"));
  EXPECT_EQ(parsed.values("--seed"), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(parsed.positional, std::vector<std::string>{"a"});
}

TEST(Options, DoubleDashEndsOptions) {
  EXPECT_EQ(parse_options(bake(), {"--", "--hot"}).positional, std::vector<std::string>{"--hot"});
}

TEST(Options, UnknownOptionNamesTheNearest) {
  EXPECT_EQ(usage_error({"a", "--ouput", "b"}), "'kiln bake' has no option --ouput; the nearest is '--output'");
}

TEST(Options, MissingThingsAreSaid) {
  EXPECT_EQ(usage_error({}), "'kiln bake' needs DOUGH");
  EXPECT_EQ(usage_error({"a", "--output"}), "--output needs a value: --output PATH");
  EXPECT_EQ(usage_error({"a", "b"}), "'kiln bake' does not know what to do with 'b'");
  EXPECT_EQ(usage_error({"a", "--hot=1"}), "--hot takes no value");
  EXPECT_EQ(usage_error({"a", "-o", "1", "-o", "2"}), "--output is given twice");
}

TEST(Options, HelpDemandsNothingElse) { EXPECT_TRUE(parse_options(bake(), {"--help"}).has("--help")); }

TEST(Options, NumbersAreChecked) {
  const ParsedOptions parsed = parse_options(bake(), {"a", "--output", "12x"});
  EXPECT_THROW(parsed.integer("--output", 0, 100), UsageError);
  EXPECT_THROW(parsed.number("--output", 0), UsageError);
  const ParsedOptions good = parse_options(bake(), {"a", "--output", "12"});
  EXPECT_EQ(good.integer("--output", 0, 100), 12);
  EXPECT_THROW(good.integer("--output", 13, 100), UsageError);
  EXPECT_EQ(good.integer("--seed", 0, 1), std::nullopt);
}

TEST(Options, HelpListsEveryOptionAndExample) {
  const std::string help = command_help(bake());
  for (const char* part : {"usage: kiln bake DOUGH", "-o, --output PATH", "--seed S", "(repeatable)", "--hot",
                           "--config K=V", "kiln bake bread"})
    EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
}

}  // namespace
}  // namespace kiln::cli
