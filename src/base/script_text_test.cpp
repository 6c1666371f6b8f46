#include "base/script_text.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/file.h"
#include "base/text.h"

namespace kiln {
namespace {

// What the shell makes of the word.
std::string echoed(const std::string& word) {
  std::string out;
  FILE* pipe = popen(("printf %s. " + word).c_str(), "r");
  for (int c; pipe && (c = fgetc(pipe)) != EOF;) out += static_cast<char>(c);
  if (pipe) pclose(pipe);
  return out.substr(0, out.empty() ? 0 : out.size() - 1);
}

TEST(ScriptText, ShellWordsAreWhatTheyWere) {
  for (const std::string text : {"plain/path.pt2", "two words", "it's", "a\nb", "$(id)`id`\"\\", "", "*?[a]", "é\xff"})
    EXPECT_EQ(echoed(shell_quote(text)), text);
}

TEST(ScriptText, PythonStringsHaveNoControlCharactersAndNoOpenQuote) {
  EXPECT_EQ(python_quote("it's\n\r\x01\\"), "'it\\'s\\n\\x0d\\x01\\\\'");
  EXPECT_EQ(python_quote("é"), "'é'");
  EXPECT_EQ(python_quote("\xff\xc3"), "'\\udcff\\udcc3'");  // as os.fsdecode gives them
  EXPECT_EQ(python_quote("\xed\xa0\x80"), "'\\udced\\udca0\\udc80'");
}

TEST(ScriptText, CommentsEndWithTheirLine) {
  EXPECT_EQ(comment_text("a\nimport os\r\x0c"), "a\\nimport os\\x0d\\x0c");
  EXPECT_FALSE(ends_with(comment_text("y = f(x) \\"), "\\"));
  EXPECT_FALSE(ends_with(trim(comment_text("y = f(x) \\  ")), "\\"));
  EXPECT_EQ(comment_lines("a\n\nb\r", "#"), "# a\n#\n# b\\x0d\n");
}

}  // namespace
}  // namespace kiln
