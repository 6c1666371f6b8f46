// Regular expressions for tests: the C library's (POSIX extended ones, with \s, \w and \b). <regex> costs every program
// that uses it seconds of compilation.
#pragma once
#include <regex.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace kiln {

class Pattern {
 public:
  explicit Pattern(const std::string& text) : compiled_(new regex_t, Free{}) {
    if (regcomp(compiled_.get(), text.c_str(), REG_EXTENDED) != 0) throw std::invalid_argument("bad pattern: " + text);
  }

  struct Match {
    size_t position = 0;
    std::vector<std::string> groups;  // the first is the whole match; empty where a group took no part
  };
  std::optional<Match> find(const std::string& text, size_t from = 0) const {
    std::vector<regmatch_t> found(compiled_->re_nsub + 1);
    if (regexec(compiled_.get(), text.c_str() + from, found.size(), found.data(), from > 0 ? REG_NOTBOL : 0) != 0)
      return {};
    Match match{from + static_cast<size_t>(found[0].rm_so), {}};
    for (const regmatch_t& group : found)
      match.groups.push_back(group.rm_so < 0 ? ""
                                             : text.substr(from + static_cast<size_t>(group.rm_so),
                                                           static_cast<size_t>(group.rm_eo - group.rm_so)));
    return match;
  }
  bool matches(const std::string& text) const { return find(text).has_value(); }
  // One after the other; a match is never empty.
  std::vector<Match> find_all(const std::string& text) const {
    std::vector<Match> all;
    size_t from = 0;
    while (auto match = find(text, from)) {
      if (match->groups[0].empty()) throw std::invalid_argument("a pattern that matches nothing");
      from = match->position + match->groups[0].size();
      all.push_back(std::move(*match));
    }
    return all;
  }

 private:
  struct Free {
    void operator()(regex_t* compiled) const {
      regfree(compiled);
      delete compiled;
    }
  };
  std::shared_ptr<regex_t> compiled_;
};

}  // namespace kiln
