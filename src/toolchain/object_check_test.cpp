#include "toolchain/object_check.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "toolchain/compiler.h"

namespace kiln {
namespace {

const char* const source = "extern \"C\" __attribute__((visibility(\"default\"))) int f(int x) { return x + 1; }\n";

BuildRequest request_for(const std::string& text) {
  BuildRequest request;
  request.sources = {text};
  request.flags = {"-O0", "-fPIC", "-fvisibility=hidden"};
  request.functions = {"f"};
  return request;
}

std::string code_of(const Compiler& compiler, const BuildRequest& request, const KernelCache& cache) {
  try {
    build_shared_object(compiler, request, cache);
    return "";
  } catch (const Error& error) {
    return error.code() + " " + error.message();
  }
}

// A compiler that ends well and does `body` with the path of the output in $out.
Compiler fake_compiler(const TemporaryDirectory& directory, const std::string& body) {
  const std::string path = join_path(directory.path(), "fake");
  write_file_atomic(path,
                    str("#!/bin/sh\nfor a in \"$@\"; do [ \"$last\" = -o ] && out=$a; last=$a; done\n", body, "\n"));
  EXPECT_EQ(0, system(str("chmod +x ", path).c_str()));
  return {path, "a fake compiler"};
}

TEST(ObjectCheck, WhatTheCompilerMadeIsASharedObjectWithTheFunctions) {
  const Compiler compiler = find_compiler();
  const std::string good = build_shared_object(compiler, request_for(source), KernelCache("")).shared_object;
  EXPECT_EQ(shared_object_problem(good, {"f"}), "");
  EXPECT_EQ(shared_object_problem(good, {"f", "g"}), "it lacks the function g");
  EXPECT_EQ(shared_object_problem("", {}), "it is empty");
  EXPECT_EQ(shared_object_problem("not an object at all, whatever the compiler says about it, and it goes on", {}),
            "it is no ELF file");
  for (size_t length = 1; length < good.size(); length += 97)
    EXPECT_NE(shared_object_problem(std::string_view(good).substr(0, length), {"f"}), "") << length;
  // Damaged anywhere, it is judged without reading outside.
  for (size_t at = 0; at < good.size(); at += 3) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x5a);
    shared_object_problem(bad, {"f"});
  }
}

TEST(ObjectCheck, ACompilerThatOnlySaysYesIsAnError) {
  const TemporaryDirectory directory;
  const KernelCache cache(join_path(directory.path(), "cache"));
  EXPECT_EQ(code_of({"/bin/true", "true"}, request_for(source), cache).substr(0, 5), "K0405");
  for (const char* body : {"echo warning; exit 0", "echo garbage > \"$out\"", ": > \"$out\"",
                           "head -c 300 /bin/sh > \"$out\"", "cp /bin/sh \"$out\""})
    EXPECT_EQ(code_of(fake_compiler(directory, body), request_for(source), cache).substr(0, 5), "K0405") << body;
  EXPECT_TRUE(cache.entries().empty());  // nothing of that is found again
  BuildRequest two = request_for(source);
  two.sources.push_back("int g;\n");
  EXPECT_EQ(code_of({"/bin/true", "true"}, two, cache).substr(0, 5), "K0405");
}

TEST(ObjectCheck, ACacheThatTakesNothingIsSaidAndNoError) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  const TemporaryDirectory directory;
  const KernelCache cache(directory.path());
  ASSERT_EQ(chmod(directory.path().c_str(), 0500), 0);
  const BuildResult built = build_shared_object(find_compiler(), request_for(source), cache);
  EXPECT_NE(built.not_kept.find("Permission denied"), std::string::npos);
  ASSERT_EQ(chmod(directory.path().c_str(), 0700), 0);
}

TEST(ObjectCheck, KeptSourcesAreNamedWhereTheyAre) {
  const TemporaryDirectory directory;
  ASSERT_EQ(0, setenv("TMPDIR", directory.path().c_str(), 1));
  const std::string message = code_of(find_compiler(), request_for("this is no C++\n"), KernelCache(""));
  EXPECT_EQ(message.substr(0, 5), "K0411");
  const size_t at = message.find("kept in "), end = message.find(":\n", at);
  ASSERT_NE(at, std::string::npos);
  const std::string kept = message.substr(at + 8, end - at - 8);
  EXPECT_TRUE(file_exists(join_path(kept, "kernels_0.cpp"))) << message;
  EXPECT_EQ(message.find("kiln-build_"), std::string::npos) << message;
  EXPECT_TRUE(remove_stray_directories().empty());
  EXPECT_TRUE(is_directory(kept));
  unsetenv("TMPDIR");
}

}  // namespace
}  // namespace kiln
