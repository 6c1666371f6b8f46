// What the programs that run long campaigns (random_programs/, mutants/) have in common: their command lines, which
// piece of the campaign is asked for, and where compiled kernels are kept.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/settings.h"

namespace kiln::campaign {

// `--name value` and `--flag`, in any order. What is wrong ends the program with exit code 2 and its usage.
class Arguments {
 public:
  Arguments(int argc, char** argv, std::string usage);
  void flag(const std::string& name, bool& out);
  void number(const std::string& name, size_t& out, size_t least = 0);
  void text(const std::string& name, std::string& out);
  void texts(const std::string& name, std::vector<std::string>& out);
  void no_others() const;  // call last: an option that nobody asked for is unknown
  [[noreturn]] void fail(const std::string& why) const;

 private:
  bool take_value(const std::string& name, std::string& value);

  std::vector<std::string> given_;
  std::string usage_;
};

// Which members of the campaign that follows from the seed; all campaigns call them alike.
struct Piece {
  size_t seed = 1, count = 500, first = 0, only = SIZE_MAX, jobs = 1;
  std::string save, replay, cache;

  void read(Arguments& arguments);
  std::vector<size_t> indices() const;
};

// Sets KILN_CACHE_DIR: the directory given; what the environment says; otherwise one that ends with the program, since
// compiled code of thousands of programs is of no use to anybody else. Also what the C++ compiler leaves behind goes to
// a directory that ends.
class KernelCache {
 public:
  explicit KernelCache(const std::string& directory);
  static const Settings& settings();  // that compile with it

 private:
  TemporaryDirectory temporary_{"kiln-campaign"};
};

}  // namespace kiln::campaign
