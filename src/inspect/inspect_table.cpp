#include "inspect/inspect_table.h"

#include <algorithm>
#include <cstddef>

namespace kiln {
namespace {

// Characters, not bytes: continuation bytes of UTF-8 take no column.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string TextTable::text() const {
  std::vector<size_t> widths;
  for (const auto& cells : rows_) {
    widths.resize(std::max(widths.size(), cells.size()), 0);
    for (size_t i = 0; i + 1 < cells.size(); ++i) widths[i] = std::max(widths[i], width_of(cells[i]));
  }
  std::string out;
  for (const auto& cells : rows_) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      line += "  " + cells[i];
      if (i + 1 < cells.size()) line += std::string(widths[i] - width_of(cells[i]), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string text_section(const std::string& title, const TextTable& table, const std::string& when_empty) {
  if (!table.empty()) return "\n" + title + "\n" + table.text();
  return when_empty.empty() ? "" : "\n" + title + "\n  " + when_empty + "\n";
}

}  // namespace kiln
