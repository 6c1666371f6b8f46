#include "base/native_stack.h"

#include <elf.h>
#include <execinfo.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/environment.h"
#include "base/error.h"
#include "base/file.h"

// Weak: a program that has the C++ library lends its demangler, and the runtime, which has that library inside, is not
// a twentieth larger for names in a stack.
extern "C" __attribute__((weak)) char* __cxa_demangle(const char* name, char* buffer, size_t* bytes, int* status);

namespace kiln {
namespace {

constexpr int most_frames = 64;

struct Module {
  std::string path;
  uintptr_t base = 0;
};

struct Search {
  uintptr_t address;
  std::optional<Module> found;
};

int visit_module(dl_phdr_info* info, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const uintptr_t start = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || search.address < start || search.address >= start + segment.p_memsz) continue;
    const bool program = info->dlpi_name == nullptr || info->dlpi_name[0] == '\0';
    search.found = Module{program ? "/proc/self/exe" : info->dlpi_name, info->dlpi_addr};
    return 1;
  }
  return 0;
}

// The functions of one ELF file. Every offset is checked: the file may be anything.
class SymbolTable {
 public:
  explicit SymbolTable(const std::string& path) {
    try {
      file_ = MappedFile::open(path);
    } catch (const Error&) {
      return;  // a library that was replaced or removed since it was loaded: no names
    }
    const auto* header = at<ElfW(Ehdr)>(0);
    if (header == nullptr || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
    if (!read(*header, SHT_SYMTAB)) read(*header, SHT_DYNSYM);
  }

  // The function that contains this address of the file, with the distance from its start.
  std::optional<std::pair<std::string, uintptr_t>> find(uintptr_t address) const {
    auto after = functions_.upper_bound(address);
    if (after == functions_.begin()) return std::nullopt;
    const auto& [start, function] = *std::prev(after);
    if (address >= start + std::max<uintptr_t>(function.size, 1)) return std::nullopt;
    return std::pair{function.name, address - start};
  }

 private:
  struct Function {
    uintptr_t size;
    std::string name;
  };

  template <class T>
  const T* at(uint64_t offset, uint64_t count = 1) const {
    const uint64_t bytes = file_->bytes().size();
    if (offset > bytes || count > (bytes - offset) / sizeof(T)) return nullptr;
    return reinterpret_cast<const T*>(file_->bytes().data() + offset);
  }

  bool read(const ElfW(Ehdr) & header, uint32_t type) {
    const auto* sections = at<ElfW(Shdr)>(header.e_shoff, header.e_shnum);
    if (sections == nullptr) return false;
    for (size_t s = 0; s < header.e_shnum; ++s) {
      if (sections[s].sh_type != type || sections[s].sh_link >= header.e_shnum) continue;
      const auto& names = sections[sections[s].sh_link];
      const char* text = at<char>(names.sh_offset, names.sh_size);
      const uint64_t count = sections[s].sh_size / sizeof(ElfW(Sym));
      const auto* symbols = at<ElfW(Sym)>(sections[s].sh_offset, count);
      if (text == nullptr || symbols == nullptr) continue;
      for (uint64_t i = 0; i < count; ++i) {
        if ((symbols[i].st_info & 15) != STT_FUNC || symbols[i].st_value == 0 || symbols[i].st_name >= names.sh_size)
          continue;
        const char* name = text + symbols[i].st_name;
        functions_[symbols[i].st_value] = {symbols[i].st_size,
                                           {name, strnlen(name, names.sh_size - symbols[i].st_name)}};
      }
    }
    return !functions_.empty();
  }

  std::shared_ptr<const MappedFile> file_;
  std::map<uintptr_t, Function> functions_;
};

std::string demangled(const std::string& name) {
  if (!__cxa_demangle) return name;
  int status = 0;
  char* text = __cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string out = status == 0 && text != nullptr ? text : name;
  std::free(text);
  return out;
}

std::string hex(uintptr_t value) {
  char text[32];
  snprintf(text, sizeof text, "0x%zx", static_cast<size_t>(value));
  return text;
}

}  // namespace

namespace {
thread_local bool scope_wants = false;
}  // namespace

NativeStackScope::NativeStackScope(bool on) : before_(scope_wants) { scope_wants = before_ || on; }
NativeStackScope::~NativeStackScope() { scope_wants = before_; }

bool native_stacks_wanted() { return scope_wants || native_stacks_of_environment(); }

std::string native_stack_text(int skip) {
  void* addresses[most_frames];
  const int count = backtrace(addresses, most_frames);
  std::map<std::string, SymbolTable> tables;
  std::string out;
  for (int i = 1 + skip, number = 0; i < count; ++i, ++number) {
    // A return address: the call itself is the byte before.
    const uintptr_t address = reinterpret_cast<uintptr_t>(addresses[i]) - 1;
    Search search{address, {}};
    dl_iterate_phdr(visit_module, &search);
    if (!search.found) {
      out += str("  #", number, " ", hex(address), "\n");
      continue;
    }
    const Module& module = *search.found;
    const auto& table = tables.try_emplace(module.path, module.path).first->second;
    const std::string label = module.path == "/proc/self/exe" ? "this program" : file_name(module.path);
    const auto function = table.find(address - module.base);
    out += function
               ? str("  #", number, " ", demangled(function->first), " + ", hex(function->second), " [", label, "]\n")
               : str("  #", number, " ", hex(address - module.base), " [", label, "]\n");
  }
  return out;
}

}  // namespace kiln
