// Rows of text in columns, for inspect and its kin.
#pragma once
#include <string>
#include <vector>

namespace kiln {

class TextTable {
 public:
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // Every line begins with two spaces; columns are as wide as their widest cell, the last one as it is.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "weights: 4 tensors, 1.1 kB" and the rows below; nothing at all for no rows unless `when_empty` has a text.
std::string text_section(const std::string& title, const TextTable& table, const std::string& when_empty = "");

}  // namespace kiln
