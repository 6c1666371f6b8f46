#include "base/text.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <random>

namespace kiln {
namespace {

// What str() takes. A pointer once read "true".
template <class T>
concept has_text = std::is_constructible_v<text_detail::Part, const T&>;
static_assert(has_text<bool> && has_text<int> && has_text<char> && has_text<double> && has_text<std::string>);
static_assert(has_text<const char*> && has_text<char*> && has_text<char[4]>);
static_assert(!has_text<int*> && !has_text<const void*> && !has_text<void (*)()>);

std::string by_to_chars(double value) {
  char buffer[64];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

TEST(FloatText, IsTheShortestThatReadsBack) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t bits = random();
    double any;
    std::memcpy(&any, &bits, sizeof any);
    for (double value : {any, static_cast<double>(bits >> 40) / 1000, static_cast<double>(bits >> (bits % 64)),
                         static_cast<double>(static_cast<float>(bits)), (i - 10'000) * 0.1, i * 1e-5, i * 1e5}) {
      if (!std::isfinite(value)) continue;
      const std::string text = float_text(value);
      EXPECT_EQ(std::strtod(text.c_str(), nullptr), value) << text;
      // Powers of two may get a digit more: their neighbours below are nearer than those above.
      int exponent;
      if (std::fabs(std::frexp(value, &exponent)) != 0.5) {
        EXPECT_EQ(text, by_to_chars(value));
      }
    }
  }
}

TEST(FloatText, SpecialValues) {
  EXPECT_EQ(float_text(0.0), "0.0");
  EXPECT_EQ(float_text(-0.0), "-0.0");
  EXPECT_EQ(float_text(-INFINITY), "-inf");
  EXPECT_EQ(float_text(NAN), "nan");
  EXPECT_EQ(float_text(1e5), "1e+05");
  EXPECT_EQ(float_text(-0.1), "-0.1");
}

TEST(UniqueNames, TheFirstKeepsItsNameUnlessAnotherIsSettled) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(unique_names({"a", "b", "a", "a"}, {false, false, false, false}), (Names{"a", "b", "a_1", "a_2"}));
  EXPECT_EQ(unique_names({"a", "a", "a_1"}, {false, false, false}), (Names{"a", "a_2", "a_1"}));
  EXPECT_EQ(unique_names({"0", "x", "0"}, {false, false, true}), (Names{"0_1", "x", "0"}));
  EXPECT_EQ(unique_names({}, {}), Names{});
}

}  // namespace
}  // namespace kiln
