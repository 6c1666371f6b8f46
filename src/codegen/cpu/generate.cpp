#include "base/side_by_side.h"
#include "codegen/c_family/kernel_printer.h"
#include "codegen/c_family/printed_kernel.h"
#include "codegen/cpu/backend.h"
#include "codegen/cpu/checked_access.h"
#include "codegen/cpu/common_parts.h"
#include "codegen/cpu/dialect.h"
#include "loops/line_windows.h"
#include "schedule/schedule.h"

namespace kiln::codegen {
using namespace loops;
namespace {

// Kernel text is divided over translation units of equal length, about: so long that the compiler's start does not
// count, so short that units can be compiled side by side. Their number is even, unless there is little text at all, so
// that two processors have equal parts. It depends on the program only, so packages are the same wherever they are
// made.
constexpr size_t longest_unit = 80 * 1024, short_program = 12 * 1024;

size_t unit_count(size_t bytes) {
  return bytes <= short_program ? 1 : (bytes + 2 * longest_unit - 1) / (2 * longest_unit) * 2;
}

}  // namespace

std::string CpuBackend::unit_text(const std::string& kernels, const Target& target) const {
  PreludeRequest request;
  request.lanes = target.lanes;
  request.level = cpu_level(target);
  collect_prelude_names(kernels, request);
  return prelude(request) + "\n" + kernels;
}

std::string CpuBackend::with_checked_accesses(const std::string& unit, int lanes) const {
  return codegen::with_checked_accesses(unit, lanes);
}

namespace {

constexpr int64_t most_rows = 12;  // with a pointer each, so that some registers are left

// Sizes as arguments cost next to nothing where they are extents of loops and strides between rows, each of which then
// has a pointer of its own. Where a text is written out for each of many points, distances are parts of addresses.
bool may_take_sizes(const Kernel& kernel) {
  const Tile& tile = kernel.schedule->tile;
  bool may = !tile.matrix && !tile.pairs && !tile.quads && !takes_lines(tile) && !takes_points(kernel);
  for_each_stmt(kernel.body, [&](const Stmt& stmt) {
    if (stmt.loop && stmt.loop->directives.binding == Binding::unroll) may &= stmt.loop->directives.factor <= most_rows;
  });
  return may;
}

std::string without_numbers(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (!std::isdigit(static_cast<unsigned char>(c))) out += c;
  return out;
}

// The text with its loops' variables called by the order in which they are met: equal for functions that differ in
// nothing but these names.
std::string with_neutral_names(const std::string& text) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  const auto is_type = [](std::string_view name) {
    return name == "i8" || name == "i16" || name == "i32" || name == "i64";
  };
  std::map<std::string_view, size_t> names;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_part(text[end])) ++end;
    std::string_view word(text.data() + at, end - at);
    if (word.empty()) {
      out += text[at++];
      continue;
    }
    at = end;
    // i3, e_i3, i3_0, r0_block: the variable is a letter and a number.
    if (word.starts_with("e_")) out += "e_", word.remove_prefix(2);
    const size_t length = std::min(word.find('_'), word.size());
    const std::string_view name = word.substr(0, length);
    const bool variable = length > 1 && std::string_view("iorj").find(name[0]) != std::string_view::npos &&
                          name.find_first_not_of("0123456789", 1) == std::string_view::npos && !is_type(name);
    if (variable)
      out += str(name[0], "$", names.emplace(name, names.size()).first->second, word.substr(length));
    else
      out += word;
  }
  return out;
}

// The kernels that take their sizes as arguments: those of which several become one function by that.
class SharedSizes {
 public:
  explicit SharedSizes(const LoopProgram& program) : program_(program) {}
  // The kernel as it is printed with its sizes.
  void add(const Kernel& kernel, const std::string& text) {
    if (may_take_sizes(kernel)) alike_[without_numbers(text)][with_neutral_names(text)].push_back(&kernel);
  }
  std::set<const Kernel*> find() const {
    std::vector<const std::vector<const Kernel*>*> groups;
    for (const auto& [shape, texts] : alike_)
      if (texts.size() > 1)
        for (const auto& [text, kernels] : texts) groups.push_back(&kernels);
    std::vector<std::string> printed(groups.size());
    side_by_side(groups.size(), [&](size_t i) {
      printed[i] = with_neutral_names(KernelPrinter(*groups[i]->front(), program_, cpu_dialect(), true).print().text);
    });
    std::map<std::string_view, int> count;
    for (const std::string& text : printed) ++count[text];
    std::set<const Kernel*> out;
    for (size_t i = 0; i < groups.size(); ++i)
      if (count[printed[i]] > 1) out.insert(groups[i]->begin(), groups[i]->end());
    return out;
  }

 private:
  const LoopProgram& program_;
  // By text without numbers, then by text.
  std::map<std::string, std::map<std::string, std::vector<const Kernel*>>> alike_;
};

}  // namespace

StepCode CpuBackend::step_code(const Kernel& kernel, const LoopProgram& program) const {
  SharedSizes sizes(program);
  for_each_item(program.block, [&](const Item& item) {
    if (const auto* each = std::get_if<Kernel>(&item.what))
      sizes.add(*each, KernelPrinter(*each, program, cpu_dialect()).print().text);
  });
  return KernelPrinter(kernel, program, cpu_dialect(), sizes.find().contains(&kernel)).print().step;
}

namespace {

struct Taken {
  size_t buffers, ints;
};

// Says to the runtime which kernels there are and what each takes.
std::string kernel_table(const std::vector<std::string>& symbols, const std::vector<Taken>& taken) {
  const char* parameters = "(const kiln_kernel_context*, void* const*, const i64*, i64, i64)";
  std::string text = "extern \"C\" {\n", entries;
  for (size_t i = 0; i < symbols.size(); ++i) {
    text += str("int ", symbols[i], parameters, ";\n");
    entries += str("  {\"", symbols[i], "\", ", symbols[i], ", ", taken[i].buffers, ", ", taken[i].ints, "},\n");
  }
  return text + str("struct kiln_kernel_entry { const char* name; int (*run)", parameters,
                    "; unsigned buffer_count, int_count; };\n",
                    "struct kiln_kernel_table { unsigned version, count; const kiln_kernel_entry* kernels; };\n",
                    "static const kiln_kernel_entry kernel_entries[] = {\n", entries, "};\n",
                    "extern __attribute__((visibility(\"default\"))) const kiln_kernel_table kiln_kernels;\n",
                    "const kiln_kernel_table kiln_kernels = {", kernel_table_version, ", ", symbols.size(),
                    ", kernel_entries};\n}\n");
}

}  // namespace

std::map<std::string, std::string> CpuBackend::functions_of_unit(const std::string& unit) const {
  static const std::string head = "extern \"C\" __attribute__((visibility(\"default\"))) int ";
  std::map<std::string, std::string> out;
  for (size_t at = unit.find(head); at != std::string::npos;) {
    const size_t next = unit.find(head, at + 1), name = at + head.size();
    std::string text = unit.substr(at, next == std::string::npos ? next : next - at);
    while (ends_with(text, "\n\n")) text.pop_back();
    out[unit.substr(name, unit.find('(', name) - name)] = std::move(text);
    at = next;
  }
  return out;
}

namespace {

// Divides texts over units, in order. A unit has one width of vectors.
class Division {
 public:
  explicit Division(size_t bytes) : bytes_(bytes) {}
  // Whether a text of this length begins a unit.
  bool begins_unit(size_t length, int lanes) {
    // The unit in which the text's middle lies.
    const size_t own = unit_count(bytes_) * (before_ + length / 2) / bytes_;
    const bool begins = units_.empty() || own != last_ || lanes != units_.back().lanes;
    before_ += length, last_ = own;
    if (begins) units_.push_back({"", lanes});
    return begins;
  }
  void add(const std::string& text) { units_.back().text += text; }
  std::vector<KernelText> finish(const std::string& table) {
    if (!units_.empty()) units_.back().text += table;
    return std::move(units_);
  }

 private:
  size_t bytes_, before_ = 0, last_ = 0;
  std::vector<KernelText> units_;
};

std::vector<KernelText> divided(const std::vector<KernelText>& kernels, const std::string& table) {
  size_t bytes = 0;
  for (const KernelText& kernel : kernels) bytes += kernel.text.size();
  Division division(bytes);
  for (const KernelText& kernel : kernels) {
    division.begins_unit(kernel.text.size(), kernel.lanes);
    division.add(kernel.text + "\n");
  }
  return division.finish(table);
}

// A part stands in front of the first kernel that calls it; units behind that one declare it.
std::vector<KernelText> divided(const SharedText& shared, const std::vector<KernelText>& kernels,
                                const std::string& table) {
  std::vector<size_t> lengths;
  size_t bytes = 0, defined = 0;
  for (const KernelWithCalls& kernel : shared.kernels) {
    size_t length = kernel.text.size();
    for (const size_t part : kernel.parts)
      if (part == defined) length += shared.parts[defined++].definition.size();
    lengths.push_back(length);
    bytes += length;
  }
  Division division(bytes);
  std::set<size_t> declared;  // in the unit
  defined = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (division.begins_unit(lengths[i], kernels[i].lanes)) declared.clear();
    for (const size_t part : shared.kernels[i].parts) {
      if (!declared.insert(part).second) continue;
      division.add(part == defined ? shared.parts[defined++].definition : shared.parts[part].declaration);
    }
    division.add(shared.kernels[i].text + "\n");
  }
  return division.finish(table);
}

// A distinct function: its text, and what it takes.
struct Function {
  std::string text;
  int lanes;
  Taken taken;
};

}  // namespace

GeneratedCode CpuBackend::generate(const LoopProgram& program, const Target& target,
                                   const FaultInjection& fault) const {
  GeneratedCode code;
  SharedSizes sizes(program);
  std::vector<std::pair<const Kernel*, PrintedKernel>> printed;
  const auto add = [&](const Item& item) {
    if (const auto* kernel = std::get_if<Kernel>(&item.what)) printed.emplace_back(kernel, PrintedKernel());
  };
  for_each_item(program.init, add);
  const size_t once = printed.size();  // kernels of `init`, whose sizes are arguments anyway
  for_each_item(program.block, add);
  side_by_side(printed.size(),
               [&](size_t i) { printed[i].second = printed_kernel(*printed[i].first, program, {}, cpu_dialect()); });
  for (size_t i = once; i < printed.size(); ++i) sizes.add(*printed[i].first, printed[i].second.text);
  const std::set<const Kernel*> shared = sizes.find();
  side_by_side(printed.size(), [&](size_t i) {
    auto& [kernel, made] = printed[i];
    if (shared.contains(kernel) || !fault_line(fault).empty())
      made = printed_kernel(*kernel, program, fault, cpu_dialect(), shared.contains(kernel));
  });
  std::map<std::string, int> by_text;
  std::vector<Function> functions;
  for (auto& [kernel, made] : printed) {
    auto [found, inserted] = by_text.emplace(with_neutral_names(made.text), static_cast<int>(functions.size()));
    if (inserted) {
      functions.push_back({replace_all(made.text, "$NAME", kernel->name),
                           kernel->schedule->lanes,
                           {made.step.buffers.size(), made.step.ints.size()}});
      code.symbols.push_back(kernel->name);
    }
    made.step.function = found->second;
    code.steps.emplace(kernel, std::move(made.step));
  }
  std::vector<KernelText> texts;
  std::vector<Taken> taken;
  for (Function& function : functions) {
    code.texts.push_back(function.text);
    taken.push_back(function.taken);
    texts.push_back({std::move(function.text), function.lanes});
  }
  const std::string table = kernel_table(code.symbols, taken);
  const auto complete = [&](const std::vector<KernelText>& units) {
    std::vector<std::string> out(units.size());
    side_by_side(units.size(), [&](size_t i) {
      Target unit_target = target;
      unit_target.lanes = units[i].lanes;
      out[i] = unit_text(units[i].text, unit_target);
    });
    return out;
  };
  code.sources = complete(divided(texts, table));
  const SharedText shared_text = with_common_parts(texts);
  if (!shared_text.parts.empty()) code.compiled = complete(divided(shared_text, texts, table));
  code.flags = prelude_flags(cpu_level(target), target.lanes);
  code.flags.push_back("-fPIC");
  return code;
}

}  // namespace kiln::codegen
