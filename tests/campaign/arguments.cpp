#include "arguments.h"

#include <cstdlib>
#include <iostream>

namespace kiln::campaign {

Arguments::Arguments(int argc, char** argv, std::string usage)
    : given_(argv + 1, argv + argc), usage_(std::move(usage)) {}

void Arguments::fail(const std::string& why) const {
  std::cerr << why << "\n" << usage_;
  std::exit(2);
}

bool Arguments::take_value(const std::string& name, std::string& value) {
  for (size_t i = 0; i < given_.size(); ++i) {
    if (given_[i] != name) continue;
    if (i + 1 == given_.size()) fail(name + " needs a value");
    value = given_[i + 1];
    given_.erase(given_.begin() + static_cast<std::ptrdiff_t>(i), given_.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    return true;
  }
  return false;
}

void Arguments::flag(const std::string& name, bool& out) { out = std::erase(given_, name) > 0; }

void Arguments::number(const std::string& name, size_t& out, size_t least) {
  std::string value;
  while (take_value(name, value)) {
    char* end = nullptr;
    const unsigned long long n = std::strtoull(value.c_str(), &end, 10);
    if (value.empty() || *end != '\0' || value[0] == '-') fail(name + " needs a number");
    if (n < least) fail(name + " must be at least " + std::to_string(least));
    out = n;
  }
}

void Arguments::text(const std::string& name, std::string& out) {
  while (take_value(name, out)) {
  }
}

void Arguments::texts(const std::string& name, std::vector<std::string>& out) {
  for (std::string value; take_value(name, value);) out.push_back(value);
}

void Arguments::no_others() const {
  if (!given_.empty()) fail("unknown option " + given_[0]);
}

void Piece::read(Arguments& arguments) {
  arguments.number("--seed", seed);
  arguments.number("--count", count);
  arguments.number("--first", first);
  arguments.number("--only", only);
  arguments.number("--jobs", jobs, 1);
  arguments.text("--save", save);
  arguments.text("--replay", replay);
  arguments.text("--cache", cache);
}

std::vector<size_t> Piece::indices() const {
  if (only != SIZE_MAX) return {only};
  std::vector<size_t> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = first + i;
  return out;
}

KernelCache::KernelCache(const std::string& directory) {
  if (!directory.empty())
    setenv("KILN_CACHE_DIR", directory.c_str(), 1);
  else
    setenv("KILN_CACHE_DIR", temporary_.path().c_str(), 0);
  setenv("TMPDIR", temporary_.path().c_str(), 1);
}

const Settings& KernelCache::settings() {
  static const Settings made = [] {
    Settings settings(Phase::compile);
    if (const char* directory = std::getenv("KILN_CACHE_DIR")) settings.set("cache_dir", directory);
    return settings;
  }();
  return made;
}

}  // namespace kiln::campaign
