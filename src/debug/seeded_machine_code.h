// For tests only: damage to the machine code of one kernel in a shared object, found through its symbol table.
#pragma once
#include <elf.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace kiln::seeded {

struct CodeRange {
  size_t begin = 0, end = 0;  // in the file
};

// The function whose name holds `part`.
inline CodeRange function_in(const std::string& object, const std::string& part) {
  Elf64_Ehdr head;
  std::memcpy(&head, object.data(), sizeof head);
  std::vector<Elf64_Shdr> sections(head.e_shnum);
  std::memcpy(sections.data(), object.data() + head.e_shoff, sizeof(Elf64_Shdr) * sections.size());
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM) continue;
    const Elf64_Shdr& names = sections[section.sh_link];
    for (size_t i = 0; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, object.data() + section.sh_offset + i * sizeof symbol, sizeof symbol);
      const std::string name = object.data() + names.sh_offset + symbol.st_name;
      if (symbol.st_shndx == SHN_UNDEF || name.find(part) == std::string::npos) continue;
      const Elf64_Shdr& code = sections[symbol.st_shndx];
      const size_t begin = symbol.st_value - code.sh_addr + code.sh_offset;
      return {begin, begin + symbol.st_size};
    }
  }
  fail_bug(str("no function ", part, " in the code object"));
}

inline void patch(std::string& object, size_t at, const std::vector<int>& bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) object[at + i] = static_cast<char>(bytes[i]);
}

// The function begins with other instructions.
inline void patch_start(std::string& object, const std::string& part, const std::vector<int>& bytes) {
  patch(object, function_in(object, part).begin, bytes);
}

// Its additions of floats (0f 58 in SSE, c5 .. 58 in AVX) become subtractions.
inline void patch_additions(std::string& object, const std::string& part) {
  const CodeRange range = function_in(object, part);
  bool found = false;
  for (size_t at = range.begin; at + 2 < range.end; ++at)
    for (const auto& [first, opcode] : {std::pair<int, size_t>{0x0f, at + 1}, {0xc5, at + 2}})
      if (object[at] == static_cast<char>(first) && object[opcode] == 0x58) object[opcode] = 0x5c, found = true;
  if (!found) fail_bug("no addition in the function");
}

// A number, wherever the compiler has put it.
inline void patch_number(std::string& object, float from, float to) {
  const std::string was(reinterpret_cast<const char*>(&from), sizeof from);
  bool found = false;
  for (size_t at = object.find(was); at != std::string::npos; at = object.find(was, at + 4)) {
    std::memcpy(object.data() + at, &to, sizeof to);
    found = true;
  }
  if (!found) fail_bug("the number is not in the code object");
}

}  // namespace kiln::seeded
