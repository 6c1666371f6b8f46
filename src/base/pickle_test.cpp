#include "base/pickle.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kiln {
namespace {

using Kind = PickleValue::Kind;

std::string pickle_error_of(std::string_view bytes) {
  try {
    parse_pickle(as_bytes(bytes), "input");
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Pickle, WhatIsWrittenIsRead) {
  PickleWriter writer;
  writer.empty_list();
  writer.mark();
  for (int64_t v : {int64_t{0}, int64_t{255}, int64_t{256}, int64_t{-1}, INT64_MAX, INT64_MIN}) writer.integer(v);
  writer.real(-1.5);
  writer.boolean(true);
  writer.none();
  writer.string("text");
  writer.global("torch", "float32");
  writer.empty_tuple();
  writer.reduce();
  writer.appends();
  const std::string bytes = writer.finish();
  const PickleTree tree = parse_pickle(as_bytes(bytes), "input");
  const auto& items = tree.root().items;
  ASSERT_EQ(tree.root().kind, Kind::list);
  ASSERT_EQ(items.size(), 11u);
  EXPECT_EQ(items[1]->integer, 255);
  EXPECT_EQ(items[2]->integer, 256);
  EXPECT_EQ(items[3]->integer, -1);
  EXPECT_EQ(items[4]->integer, INT64_MAX);
  EXPECT_EQ(items[5]->integer, INT64_MIN);
  EXPECT_EQ(items[6]->real, -1.5);
  EXPECT_EQ(items[7]->kind, Kind::boolean);
  EXPECT_EQ(items[8]->kind, Kind::none);
  EXPECT_EQ(items[9]->text, "text");
  EXPECT_TRUE(items[10]->is_call_of("torch.float32"));
}

// tests/fuzz_seeds/pickle/kinds_*.pkl were written by Python with protocols 2, 4 and 5.
TEST(Pickle, ReadsWhatPythonWrites) {
  const char* source = std::getenv("KILN_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "KILN_SOURCE_DIR is not set";
  for (const char* protocol : {"2", "4", "5"}) {
    const std::string bytes = read_file(join_path(source, str("tests/fuzz_seeds/pickle/kinds_", protocol, ".pkl")));
    const PickleTree tree = parse_pickle(as_bytes(bytes), "input");
    const auto& items = tree.root().items;
    ASSERT_EQ(items.size(), 17u) << protocol;
    EXPECT_EQ(items[4]->integer, 70000);
    EXPECT_EQ(items[6]->kind, Kind::big_integer);
    EXPECT_EQ(items[6]->text, "0x400000000000000000");
    EXPECT_EQ(items[7]->text, "-0x400000000000000000");
    EXPECT_EQ(items[8]->real, 1.5);
    EXPECT_EQ(items[9]->text, "s");
    EXPECT_EQ(items[12]->items.size(), 4u);
    EXPECT_EQ(items[13]->find("k")->items[0]->integer, 1);
    EXPECT_EQ(items[15]->kind, Kind::call);
    EXPECT_EQ(items[15]->find("a")->integer, 1);
    EXPECT_EQ(items[16]->args->items[1]->real, 2.0);
  }
}

TEST(Pickle, SharedValuesAreOneValue) {
  const PickleTree tree = parse_pickle(as_bytes("\x80\x02](]q\x01h\x01"
                                                "e."),
                                       "input");
  ASSERT_EQ(tree.root().items.size(), 2u);
  EXPECT_EQ(tree.root().items[0], tree.root().items[1]);
}

TEST(Pickle, HostileInputIsRefused) {
  EXPECT_NE(pickle_error_of(""), "");
  EXPECT_NE(pickle_error_of("\x80\x02"), "");
  EXPECT_NE(pickle_error_of("."), "");
  EXPECT_NE(pickle_error_of("NN."), "");      // values left over
  EXPECT_NE(pickle_error_of("e."), "");       // no mark
  EXPECT_NE(pickle_error_of("(N."), "");      // a mark left over
  EXPECT_NE(pickle_error_of("Nh\x05."), "");  // memo that was never stored
  EXPECT_NE(pickle_error_of("N)R."), "");     // a call of None
  EXPECT_NE(pickle_error_of("X\xff\xff\xff\xff"
                            "abc."),
            "");  // a string longer than the file
  EXPECT_NE(pickle_error_of("\x8e\xff\xff\xff\xff\xff\xff\xff\xff"
                            "."),
            "");
  EXPECT_NE(pickle_error_of("iposix\nsystem\n."), "");  // INST, an opcode outside the list
  EXPECT_NE(pickle_error_of("]q\x01h\x01"
                            "a.")
                .find("contains itself"),
            std::string::npos);
  EXPECT_NE(pickle_error_of("](K\x01K\x02u.").find("added to"), std::string::npos);
}

TEST(Pickle, NestingIsLimited) {
  std::string deep = "N";
  for (int i = 0; i < 1000; ++i) deep += '\x85';
  EXPECT_NE(pickle_error_of(deep + ".").find("deeper"), std::string::npos);
}

TEST(Pickle, MemoBombsAreRefused) {
  // Each level holds the one before ten times: 10^30 values when walked.
  std::string bomb = "Nq";
  bomb += '\0';
  for (int level = 0; level < 30; ++level) {
    bomb += "0(";
    for (int i = 0; i < 10; ++i) bomb += std::string("h") + static_cast<char>(level);
    bomb += std::string("tq") + static_cast<char>(level + 1);
  }
  EXPECT_NE(pickle_error_of(bomb + ".").find("expand"), std::string::npos);
}

}  // namespace
}  // namespace kiln
