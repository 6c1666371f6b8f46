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

// A name in a line that may mean something else in every kernel.
struct NameInLine {
  size_t begin, end;
  bool changed;   // assigned to, or handed to who may do so
  bool accessed;  // an element or a member of it
};

std::vector<NameInLine> names_in(std::string_view line) {
  std::vector<NameInLine> out;
  for (size_t at = 0; at < line.size();) {
    if (!is_part_of_name(line[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < line.size() && is_part_of_name(line[at])) ++at;
    if (std::isdigit(static_cast<unsigned char>(line[begin])) || is_common(line.substr(begin, at - begin))) continue;
    const std::string_view before = line.substr(0, begin);
    if (ends_with(before, "->") || ends_with(before, ".")) continue;  // a member
    std::string_view after = line.substr(at);
    while (starts_with(after, " ")) after.remove_prefix(1);
    const auto follows = [&](std::string_view what) { return starts_with(after, what); };
    const bool assigned = (follows("=") && !follows("==")) ||
                          (after.size() > 1 && after[1] == '=' &&
                           std::string_view("+-*/%&|^").find(after[0]) != std::string_view::npos) ||
                          follows("++") || follows("--") || follows("<<=") || follows(">>=");
    const bool handed = ends_with(before, "++") || ends_with(before, "--") || ends_with(before, "k_in_memory(") ||
                        (ends_with(before, "&") && !ends_with(before, "&&"));
    out.push_back({begin, at, assigned || handed, follows("[") || follows(".")});
  }
  return out;
}

struct TextLine {
  std::string_view text;  // without its indentation
  size_t begin, end;      // in the kernel's text, with indentation and without the line's end
  size_t block_end;       // of one that opens a block: the line that closes it
  size_t inside;          // the line that opened the block around it
  std::vector<NameInLine> names;
  bool is_loop() const { return starts_with(text, "for (") && ends_with(text, "{"); }
};

// Loops and blocks of a kernel that could be functions, before anybody has looked at their names.
struct LinesOfKernel {
  size_t first, last;
  size_t length;  // without indentation
  uint64_t hash;  // of their text without names: different for those that no function can stand for both of
};

// One of them that can be a function.
struct PartOfKernel {
  size_t kernel = 0, first = 0, last = 0, length = 0;
  std::string key;  // equal for those that one function can stand for
  std::vector<std::string> arguments, parameters;
  std::string numbers;  // declarations, from around it, of names for numbers
};

class KernelLines {
 public:
  explicit KernelLines(std::string_view text) {
    std::vector<size_t> open;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = trim(text.substr(at, end - at));
      const size_t own = lines_.size();
      if (starts_with(line, "}") && !open.empty()) {
        lines_[open.back()].block_end = own;
        open.pop_back();
      }
      lines_.push_back({line, at, end, none, open.empty() ? none : open.back(), names_in(line)});
      const bool opens = ends_with(line, "{");
      if (const auto declared = declared_by(line))
        declarations_[declared->name].push_back({own, opens ? own : lines_[own].inside, *declared});
      if (opens) open.push_back(own);
      at = end + 1;
    }
    well_formed_ = open.empty();
  }

  const std::vector<TextLine>& lines() const { return lines_; }

  std::vector<LinesOfKernel> candidates(int lanes) const {
    std::vector<LinesOfKernel> out;
    if (!well_formed_) return out;
    // Of the lines before each one: so that lines are looked at once, however many blocks they stand in.
    std::vector<uint64_t> hashes = {0}, powers = {1};
    std::vector<size_t> lengths = {0}, loops = {0}, returns = {0};
    constexpr uint64_t base = 0x9e3779b97f4a7c15;
    for (const TextLine& line : lines_) {
      hashes.push_back(hashes.back() * base + hash_without_names(line));
      powers.push_back(powers.back() * base);
      lengths.push_back(lengths.back() + line.text.size());
      loops.push_back(loops.back() + (line.is_loop() ? 1 : 0));
      returns.push_back(returns.back() + (line.text.find("return") != std::string_view::npos ? 1 : 0));
    }
    for (size_t first = 1; first < lines_.size(); ++first) {
      const size_t last = lines_[first].block_end;
      if (last == none || lines_[last].text != "}" || (!lines_[first].is_loop() && lines_[first].text != "{")) continue;
      const size_t length = lengths[last + 1] - lengths[first];
      if (length < least_length || loops[last + 1] == loops[first] || returns[last + 1] > returns[first]) continue;
      const uint64_t hash = hashes[last + 1] - hashes[first] * powers[last + 1 - first];
      out.push_back({first, last, length, hash * base + static_cast<uint64_t>(lanes)});
    }
    return out;
  }

  // Nothing where the lines use what only their kernel can have, or change it.
  std::optional<PartOfKernel> part(const LinesOfKernel& candidate, int lanes) const {
    PartOfKernel out{0, candidate.first, candidate.last, candidate.length, str(lanes, "\n"), {}, {}, ""};
    std::map<std::string_view, size_t> numbers;  // of the names, in the order in which they are met
    std::set<std::string_view> taken;            // from around the part
    std::string types;
    for (size_t i = out.first; i <= out.last; ++i) {
      const std::string_view line = lines_[i].text;
      if ((ends_with(line, "continue;") || ends_with(line, "break;")) && !in_loop(i, out.first)) return {};
      size_t done = 0;
      for (const NameInLine& word : lines_[i].names) {
        const std::string_view name = line.substr(word.begin, word.end - word.begin);
        const std::string neutral = str("$", numbers.emplace(name, numbers.size()).first->second);
        out.key += line.substr(done, word.begin - done);
        out.key += neutral;
        done = word.end;
        const DeclaredAt* declared = declaration(name, i);
        if (!declared) return {};
        if (declared->line >= out.first) continue;
        const DeclaredName& outer = declared->name;
        const bool array = !outer.extent.empty(), pointer = outer.type.find('*') != std::string_view::npos;
        if (!array && (word.changed || (word.accessed && !pointer))) return {};
        if (!taken.insert(name).second) continue;
        if (!outer.line.empty()) {
          out.numbers += str("  ", outer.line, "\n");
          types += str(neutral, outer.line.substr(outer.line.find(" = ")), "\n");
          continue;
        }
        const bool constant = pointer || starts_with(outer.type, "const ");
        const std::string type = str(array || constant ? "" : "const ", outer.type);
        types += str(neutral, " ", type, outer.extent, "\n");
        out.parameters.push_back(array ? str(type, " (&", name, ")", outer.extent) : str(type, " ", name));
        out.arguments.emplace_back(name);
      }
      if (out.parameters.size() > most_parameters) return {};
      out.key += line.substr(done);
      out.key += '\n';
    }
    out.key += types;
    return out;
  }

 private:
  struct DeclaredAt {
    size_t line, block;
    DeclaredName name;
  };

  static uint64_t hash_without_names(const TextLine& line) {
    uint64_t hash = 14695981039346656037u;
    const auto add = [&](std::string_view text) {
      for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    };
    size_t done = 0;
    for (const NameInLine& name : line.names) {
      add(line.text.substr(done, name.begin - done));
      add("$");
      done = name.end;
    }
    add(line.text.substr(done));
    return hash;
  }

  // What a name means in a line.
  const DeclaredAt* declaration(std::string_view name, size_t line) const {
    const auto found = declarations_.find(name);
    if (found == declarations_.end()) return nullptr;
    for (auto place = found->second.rbegin(); place != found->second.rend(); ++place)
      if (place->line <= line && place->block != none && lines_[place->block].block_end >= line) return &*place;
    return nullptr;
  }

  // Whether a loop that begins at line `first` or behind it has the line in its body.
  bool in_loop(size_t line, size_t first) const {
    while (lines_[line].inside != none && lines_[line].inside >= first) {
      line = lines_[line].inside;
      if (lines_[line].is_loop()) return true;
    }
    return false;
  }

  static constexpr size_t none = static_cast<size_t>(-1);
  std::vector<TextLine> lines_;
  std::map<std::string_view, std::vector<DeclaredAt>> declarations_;
  bool well_formed_ = false;
};

// The parts of all kernels that occur elsewhere too, or nearly so.
std::vector<PartOfKernel> repeated_parts(const std::vector<KernelText>& kernels,
                                         std::vector<std::optional<KernelLines>>& read) {
  std::vector<std::vector<LinesOfKernel>> candidates(kernels.size());
  side_by_side(kernels.size(),
               [&](size_t i) { candidates[i] = read[i].emplace(kernels[i].text).candidates(kernels[i].lanes); });
  std::map<uint64_t, size_t> count;
  for (const std::vector<LinesOfKernel>& of_kernel : candidates)
    for (const LinesOfKernel& each : of_kernel) ++count[each.hash];
  std::vector<PartOfKernel> out;
  for (size_t i = 0; i < kernels.size(); ++i)
    for (const LinesOfKernel& each : candidates[i]) {
      if (count[each.hash] < 2) continue;
      if (auto part = read[i]->part(each, kernels[i].lanes)) {
        part->kernel = i;
        out.push_back(std::move(*part));
      }
    }
  return out;
}

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
  std::vector<PartOfKernel> candidates = repeated_parts(kernels, read);
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
