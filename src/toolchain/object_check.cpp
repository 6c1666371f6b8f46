#include "toolchain/object_check.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <set>

#include "base/text.h"

namespace kiln {
namespace {

#if defined(__aarch64__)
constexpr uint16_t this_machine = EM_AARCH64;
#else
constexpr uint16_t this_machine = EM_X86_64;
#endif

std::optional<std::string_view> part(std::string_view bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.substr(offset, size);
}

template <class Record>
std::optional<Record> record_at(std::string_view bytes, uint64_t offset) {
  const auto found = part(bytes, offset, sizeof(Record));
  if (!found) return std::nullopt;
  Record record;
  std::memcpy(&record, found->data(), sizeof record);
  return record;
}

// The names that the object defines for others.
std::set<std::string_view> defined_names(std::string_view bytes, const Elf64_Shdr& symbols, const Elf64_Shdr& names) {
  std::set<std::string_view> out;
  const auto text = part(bytes, names.sh_offset, names.sh_size);
  if (!text || !part(bytes, symbols.sh_offset, symbols.sh_size)) return out;
  for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.sh_size; at += sizeof(Elf64_Sym)) {
    const auto symbol = record_at<Elf64_Sym>(bytes, symbols.sh_offset + at);
    if (!symbol || symbol->st_shndx == SHN_UNDEF || symbol->st_name >= text->size()) continue;
    const std::string_view rest = text->substr(symbol->st_name);
    out.insert(rest.substr(0, rest.find('\0')));
  }
  return out;
}

}  // namespace

std::string shared_object_problem(std::string_view bytes, const std::vector<std::string>& functions) {
  if (bytes.empty()) return "it is empty";
  const auto header = record_at<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return "it is no ELF file";
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_machine != this_machine)
    return "it is for another machine";
  if (header->e_type != ET_DYN) return "it is no shared object";
  if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_shentsize != sizeof(Elf64_Shdr)) return "it is damaged";
  for (uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = record_at<Elf64_Phdr>(bytes, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment || (segment->p_type == PT_LOAD && !part(bytes, segment->p_offset, segment->p_filesz)))
      return "it is cut off";
  }
  std::set<std::string_view> defined;
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = record_at<Elf64_Shdr>(bytes, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section) return "it is cut off";
    if (section->sh_type != SHT_DYNSYM) continue;
    const auto names = record_at<Elf64_Shdr>(bytes, header->e_shoff + uint64_t{section->sh_link} * sizeof(Elf64_Shdr));
    if (names) defined = defined_names(bytes, *section, *names);
  }
  for (const std::string& function : functions)
    if (!defined.contains(function)) return str("it lacks the function ", function);
  return "";
}

}  // namespace kiln
