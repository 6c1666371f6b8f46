#include "codegen/cpu/common_parts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/side_by_side.h"
#include "base/text.h"

namespace kiln::codegen {
namespace {

constexpr size_t least_length = 1000;   // of a part: below, a function saves the compiler little
constexpr size_t most_parameters = 32;  // of a part: what it takes from around it

bool is_part_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool is_type(std::string_view word) {
  static const std::set<std::string_view> types = {
      "f32",   "f64", "i8",   "u8",   "i16", "u16", "i32",  "u32",  "i64",  "u64",  "f16",  "bf16", "bool",
      "bool8", "int", "vf32", "vf64", "vi8", "vu8", "vi16", "vu16", "vi32", "vu32", "vi64", "vu64", "vmask"};
  return types.contains(word);
}

// A name that means the same in every kernel.
bool is_common(std::string_view word) {
  static const std::set<std::string_view> words = {"for",   "if",    "else",     "const", "static",
                                                   "void",  "break", "continue", "char",  "kiln_kernel_context",
                                                   "while", "true",  "false"};
  return is_type(word) || starts_with(word, "k_") || starts_with(word, "__builtin_") || words.contains(word);
}

struct DeclaredName {
  std::string_view name, type, extent;  // extent: "[22]" of an array
  std::string_view line;                // all of it where it gives a name to a number, else empty
};

// What a line, without its indentation, begins by declaring. A form that is not known here declares nothing, and then
// no part uses the name.
std::optional<DeclaredName> declared_by(std::string_view line) {
  const bool loop = starts_with(line, "for (");
  std::string_view rest = line.substr(loop ? 5 : 0);
  const auto skip = [&](std::string_view word) {
    const bool there = starts_with(rest, word);
    if (there) rest.remove_prefix(word.size());
    return there;
  };
  const auto take_name = [&] {
    size_t length = 0;
    while (length < rest.size() && is_part_of_name(rest[length])) ++length;
    const std::string_view name = rest.substr(0, length);
    rest.remove_prefix(length);
    return name;
  };
  const bool fixed = skip("static ");
  const std::string_view from = rest;
  const bool constant = skip("const ");
  if (!is_type(take_name())) return {};
  skip("*");
  if (!skip(" const ") && !skip(" ")) return {};
  const std::string_view type = trim(from.substr(0, from.size() - rest.size()));
  DeclaredName out{take_name(), type, {}, {}};
  if (out.name.empty()) return {};
  if (starts_with(rest, "[")) {
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) return {};
    out.extent = rest.substr(0, end + 1);
    rest.remove_prefix(end + 1);
  }
  if (!starts_with(rest, " = ") && !starts_with(rest, ";")) return {};
  if (constant && !fixed && !loop && skip(" = ") && !rest.empty() &&
      (std::isdigit(static_cast<unsigned char>(rest[0])))) {
    const bool number = rest.find_first_of(" *(/%,") == std::string_view::npos && rest.find(';') == rest.size() - 1;
    if (number) out.line = line;
  }
  return out;
}

struct NameInText {
  std::string_view text;
  bool changed = false;  // assigned to, or handed to who may do so
};

// The names of a line that are not members of something.
template <class Visit>
void for_each_name(std::string_view line, Visit visit) {
  for (size_t at = 0; at < line.size();) {
    if (!is_part_of_name(line[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < line.size() && is_part_of_name(line[at])) ++at;
    if (std::isdigit(static_cast<unsigned char>(line[begin]))) continue;
    const std::string_view before = line.substr(0, begin), after = trim(line.substr(at));
    if (ends_with(before, "->") || ends_with(before, ".")) continue;
    const auto follows = [&](std::string_view what) { return starts_with(after, what); };
    const bool assigned = (follows("=") && !follows("==")) ||
                          (after.size() > 1 && after[1] == '=' &&
                           std::string_view("+-*/%&|^").find(after[0]) != std::string_view::npos) ||
                          follows("++") || follows("--") || follows("<<=") || follows(">>=");
    const bool handed = ends_with(before, "++") || ends_with(before, "--") || ends_with(before, "k_in_memory(") ||
                        (ends_with(before, "&") && !ends_with(before, "&&"));
    visit(NameInText{line.substr(begin, at - begin), assigned || handed}, begin, at);
  }
}

struct TextLine {
  std::string_view text;  // without its indentation
  size_t begin, end;      // in the kernel's text, with indentation and without the line's end
  size_t block_end;       // of one that opens a block: the line that closes it
  size_t inside;          // the line that opened the block around it
};

// A loop or block, and how it stands in its kernel.
struct PartOfKernel {
  size_t kernel, first, last;  // lines
  size_t length;
  std::string key;  // equal for those that one function can stand for
  std::vector<std::string> arguments;
  std::vector<std::string> parameters;
  std::string numbers;  // declarations, from around it, of names for numbers
};

class KernelLines {
 public:
  explicit KernelLines(std::string_view text) : text_(text) {
    constexpr size_t none = static_cast<size_t>(-1);
    std::vector<size_t> open;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = trim(text.substr(at, end - at));
      const size_t own = lines_.size();
      if (starts_with(line, "}") && !open.empty()) {
        lines_[open.back()].block_end = own;
        open.pop_back();
      }
      lines_.push_back({line, at, end, none, open.empty() ? none : open.back()});
      const bool opens = ends_with(line, "{");
      if (const auto declared = declared_by(line))
        declarations_[declared->name].push_back({own, opens ? own : lines_[own].inside, *declared});
      if (opens) open.push_back(own);
      at = end + 1;
    }
    well_formed_ = open.empty() && !lines_.empty();
  }

  const std::vector<TextLine>& lines() const { return lines_; }

  std::vector<PartOfKernel> candidates(size_t number, int lanes) const {
    std::vector<PartOfKernel> out;
    if (!well_formed_) return out;
    for (size_t first = 1; first < lines_.size(); ++first)
      if (auto candidate = candidate_at(first, lanes)) {
        candidate->kernel = number;
        out.push_back(std::move(*candidate));
      }
    return out;
  }

 private:
  struct Place {
    size_t line, block;
    DeclaredName declaration;
  };

  const DeclaredName* visible(std::string_view name, size_t line) const {
    const auto found = declarations_.find(name);
    if (found == declarations_.end()) return nullptr;
    for (auto place = found->second.rbegin(); place != found->second.rend(); ++place)
      if (place->line < line && place->block < lines_.size() && lines_[place->block].block_end >= line)
        return &place->declaration;
    return nullptr;
  }

  // Whether a loop that begins at line `first` or behind it has the line in its body.
  bool in_loop(size_t line, size_t first) const {
    while (lines_[line].inside < lines_.size() && lines_[line].inside >= first) {
      line = lines_[line].inside;
      if (starts_with(lines_[line].text, "for (")) return true;
    }
    return false;
  }

  std::optional<PartOfKernel> candidate_at(size_t first, int lanes) const {
    const TextLine& opening = lines_[first];
    const bool loop = starts_with(opening.text, "for (") && ends_with(opening.text, "{");
    if (!loop && opening.text != "{") return {};
    const size_t last = opening.block_end;
    if (last >= lines_.size() || lines_[last].text != "}") return {};
    PartOfKernel out{0, first, last, 0, str(lanes, "\n"), {}, {}, ""};
    bool has_loop = false;
    for (size_t i = first; i <= last; ++i) {
      const std::string_view line = lines_[i].text;
      out.length += line.size();
      has_loop |= starts_with(line, "for (");
      if (line.find("return") != std::string_view::npos) return {};
      if ((ends_with(line, "continue;") || ends_with(line, "break;")) && !in_loop(i, first)) return {};
    }
    if (out.length < least_length || !has_loop) return {};
    std::map<std::string_view, size_t> names;  // in the order in which they are met
    std::set<std::string_view> local;
    std::string types;
    for (size_t i = first; i <= last; ++i) {
      const std::string_view line = lines_[i].text;
      size_t done = 0;
      bool may = true;
      const auto declared = declared_by(line);
      if (declared) local.insert(declared->name);
      for_each_name(line, [&](const NameInText& word, size_t begin, size_t end) {
        if (is_common(word.text)) return;
        const auto [known, inserted] = names.emplace(word.text, names.size());
        out.key += line.substr(done, begin - done);
        out.key += str("$", known->second);
        done = end;
        if (local.contains(word.text)) return;
        const DeclaredName* outer = visible(word.text, first);
        if (!outer || (word.changed && outer->extent.empty())) may = false;
        if (!may || !inserted) return;
        if (!outer->line.empty()) {
          out.numbers += str("  ", outer->line, "\n");
          types += str("$", known->second, outer->line.substr(outer->line.find(" = ")), "\n");
          return;
        }
        const bool constant = starts_with(outer->type, "const ") || ends_with(outer->type, "const");
        const bool array = !outer->extent.empty();
        const std::string type = str(array || constant ? "" : "const ", outer->type);
        types += str("$", known->second, " ", type, outer->extent, "\n");
        out.parameters.push_back(array ? str(type, " (&", outer->name, ")", outer->extent)
                                       : str(type, " ", outer->name));
        out.arguments.emplace_back(outer->name);
      });
      if (!may || out.parameters.size() > most_parameters) return {};
      out.key += line.substr(done);
      out.key += '\n';
    }
    out.key += types;
    return out;
  }

  std::string_view text_;
  std::vector<TextLine> lines_;
  std::map<std::string_view, std::vector<Place>> declarations_;
  bool well_formed_ = false;
};

std::string name_of(const std::string& text) {
  const size_t end = text.find('(', text.find(" int "));
  const size_t begin = text.rfind(' ', end) + 1;
  return text.substr(begin, end - begin);
}

// The candidates that become functions: of those that stand in one another the longest. Each group has one key.
std::vector<std::vector<PartOfKernel*>> chosen(std::vector<PartOfKernel>& candidates) {
  std::map<std::string_view, std::vector<PartOfKernel*>> by_key;
  for (PartOfKernel& candidate : candidates) by_key[candidate.key].push_back(&candidate);
  std::vector<std::vector<PartOfKernel*>> groups, out;
  for (auto& [key, group] : by_key)
    if (group.size() > 1) groups.push_back(std::move(group));
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    const PartOfKernel &x = *a.front(), &y = *b.front();
    return std::tuple(y.length, x.kernel, x.first) < std::tuple(x.length, y.kernel, y.first);
  });
  std::map<size_t, std::vector<const PartOfKernel*>> taken;  // by kernel
  for (auto& group : groups) {
    std::erase_if(group, [&](const PartOfKernel* candidate) {
      return std::ranges::any_of(taken[candidate->kernel], [&](const PartOfKernel* other) {
        return other->first <= candidate->first && candidate->last <= other->last;
      });
    });
    if (group.size() < 2) continue;
    for (const PartOfKernel* candidate : group) taken[candidate->kernel].push_back(candidate);
    out.push_back(group);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::pair(a.front()->kernel, a.front()->first) < std::pair(b.front()->kernel, b.front()->first);
  });
  return out;
}

}  // namespace

SharedText with_common_parts(const std::vector<KernelText>& kernels) {
  std::vector<std::optional<KernelLines>> read(kernels.size());
  std::vector<std::vector<PartOfKernel>> found(kernels.size());
  side_by_side(kernels.size(),
               [&](size_t i) { found[i] = read[i].emplace(kernels[i].text).candidates(i, kernels[i].lanes); });
  std::vector<PartOfKernel> candidates;
  for (std::vector<PartOfKernel>& each : found)
    candidates.insert(candidates.end(), std::make_move_iterator(each.begin()), std::make_move_iterator(each.end()));
  SharedText out;
  struct Call {
    const PartOfKernel* where;
    size_t part;
    std::string text;
  };
  std::vector<std::vector<Call>> calls(kernels.size());
  std::map<size_t, size_t> count;  // of the parts that begin in a kernel
  for (const std::vector<PartOfKernel*>& group : chosen(candidates)) {
    const PartOfKernel& first = *group.front();
    const std::vector<TextLine>& lines = read[first.kernel]->lines();
    const std::string name = str(name_of(kernels[first.kernel].text), "_part", count[first.kernel]++);
    const std::string head = str("extern \"C\" __attribute__((visibility(\"protected\"), noinline)) void ", name, "(",
                                 join(first.parameters, ", "), ")");
    const size_t begin = lines[first.first].begin;
    out.parts.push_back(
        {head + ";\n", str(head, " {\n", first.numbers,
                           kernels[first.kernel].text.substr(begin, lines[first.last].end - begin), "\n}\n\n")});
    for (const PartOfKernel* each : group)
      calls[each->kernel].push_back({each, out.parts.size() - 1, str(name, "(", join(each->arguments, ", "), ");")});
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::sort(calls[i].begin(), calls[i].end(),
              [](const Call& a, const Call& b) { return a.where->first < b.where->first; });
    KernelWithCalls made;
    size_t at = 0;
    for (const Call& call : calls[i]) {
      const std::vector<TextLine>& lines = read[i]->lines();
      made.text += kernels[i].text.substr(at, lines[call.where->first].begin - at) + call.text;
      at = lines[call.where->last].end;
      if (std::ranges::find(made.parts, call.part) == made.parts.end()) made.parts.push_back(call.part);
    }
    made.text += kernels[i].text.substr(at);
    out.kernels.push_back(std::move(made));
  }
  return out;
}

}  // namespace kiln::codegen
