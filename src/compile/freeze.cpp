#include "compile/freeze.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/cpu_levels.h"
#include "base/error.h"
#include "base/file.h"
#include "base/side_by_side.h"
#include "kiln/kernel_abi.h"
#include "package/step_plan.h"

namespace kiln {
namespace {

using format::BufferRole;

// Calls f with a word of the type's width; of 16 bytes the first eight.
template <class F>
void as_words(int64_t width, const F& f) {
  switch (width) {
    case 1:
      return f(uint8_t());
    case 2:
      return f(uint16_t());
    case 4:
      return f(uint32_t());
    default:
      return f(uint64_t());
  }
}

class Kernels {
 public:
  explicit Kernels(const std::string& code) {
    const std::string path = join_path(folder_.path(), "kernels.so");
    write_file_atomic(path, code);
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) table_ = static_cast<const kiln_kernel_table*>(dlsym(handle_, "kiln_kernels"));
  }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  ~Kernels() {
    if (handle_) dlclose(handle_);
  }
  bool loaded() const { return table_ != nullptr; }
  kiln_kernel function(int32_t index) const { return table_->kernels[index].run; }

 private:
  TemporaryDirectory folder_{"kiln-freeze"};
  void* handle_ = nullptr;
  const kiln_kernel_table* table_ = nullptr;
};

// The init section of a plan, run here. What cannot be known now (sizes that are symbols, library calls) stays for the
// runtime.
class Init {
 public:
  Init(const PackageContents& contents, const format::Plan& plan, const Kernels& kernels)
      : contents_(contents), plan_(plan), kernels_(kernels), memory_(plan.buffers.size()) {}

  void run() {
    for (const format::Step& step : plan_.init)
      if (!run(step, nullptr))
        for (const format::KernelArg& a : format::buffers_used(step))
          if (writes(a.access)) spoilt_.insert(a.buffer);
  }

  // What a derived buffer holds; nullptr: it is not known now.
  std::shared_ptr<Storage> derived(int32_t b) const {
    const format::Buffer& buffer = plan_.buffers[static_cast<size_t>(b)];
    const bool plain = buffer.role == BufferRole::derived && buffer.same_memory_as == format::none &&
                       (buffer.offset == format::none || number(buffer.offset) == 0);
    return plain && !spoilt_.contains(b) ? memory_[static_cast<size_t>(b)] : nullptr;
  }

  // All that decides in which order such a step puts so many values.
  std::string packing_text(const format::Step& packing, int32_t to, int64_t count) const {
    std::string out = str(packing.kernel, " ", number(packing.items).value_or(-1), " ", count, " ",
                          memory_[static_cast<size_t>(to)]->bytes);
    for (format::ExprIndex e : packing.ints) out += str(" ", number(e).value_or(-1));
    for (const format::KernelArg& a : packing.args)
      out += str(" ", a.buffer == to, " ", static_cast<int>(plan_.buffers[static_cast<size_t>(a.buffer)].dtype));
    return out;
  }

  // Where the values of a constant went: for each element of the packed buffer the number of its value, from 1; 0: it
  // is padding. The step that packs tells it, if it is given the numbers to pack. Empty: it cannot be told.
  std::vector<uint64_t> order(const format::Step& packing, int32_t from, int32_t to, int64_t count) {
    const auto width = dtype_bytes(plan_.buffers[static_cast<size_t>(from)].dtype);
    const std::shared_ptr<Storage> packed = memory_[static_cast<size_t>(to)];
    std::vector<uint64_t> out(static_cast<size_t>(packed->bytes / width));
    const int64_t bits = format::packed_number_bits(width);
    bool ran = true;
    for (int64_t shift = 0; ran && shift < 64 && (count >> shift) > 0; shift += bits) {
      const std::shared_ptr<Storage> numbers = Storage::allocate(count * width);
      memory_[static_cast<size_t>(to)] = nullptr;
      as_words(width, [&](auto word) {
        for (int64_t i = 0; i < count; ++i) {
          word = static_cast<decltype(word)>((static_cast<uint64_t>(i + 1) >> shift) & ((uint64_t{1} << bits) - 1));
          std::memcpy(numbers->data + i * width, &word, sizeof word);
        }
      });
      ran = run(packing, numbers);
      if (!ran) break;
      const std::byte* made = memory_[static_cast<size_t>(to)]->data;
      as_words(width, [&](auto word) {
        for (size_t j = 0; j < out.size(); ++j) {
          std::memcpy(&word, made + static_cast<int64_t>(j) * width, sizeof word);
          out[j] |= static_cast<uint64_t>(word) << shift;
        }
      });
    }
    memory_[static_cast<size_t>(to)] = packed;
    return ran ? out : std::vector<uint64_t>();
  }

 private:
  std::optional<int64_t> number(format::ExprIndex e) const {
    if (e == format::none) return std::nullopt;
    const format::ExprProgram& expr = plan_.exprs[static_cast<size_t>(e)];
    if (expr.code.size() != 1 || expr.code[0].code != format::ExprCode::constant) return std::nullopt;
    return expr.code[0].operand;
  }

  std::shared_ptr<Storage> constant(const format::Buffer& buffer) const {
    const format::Constant& described = plan_.constants[static_cast<size_t>(buffer.position)];
    const auto found = contents_.constants.find(described.name);
    if (found == contents_.constants.end() || !found->second.defined() || described.mutated) return nullptr;
    // A copy: kernels count on the alignment, which a file need not have.
    const Tensor& tensor = found->second;
    const int64_t bytes = storage_bytes_needed(tensor.dtype, tensor.sizes, tensor.strides, 0);
    std::shared_ptr<Storage> out = Storage::allocate(bytes);
    if (bytes > 0) std::memcpy(out->data, tensor.data(), static_cast<size_t>(bytes));
    return out;
  }

  // `numbers`: what takes the place of the constant that it reads.
  bool run(const format::Step& step, const std::shared_ptr<Storage>& numbers) {
    const auto items = number(step.items);
    if (step.kind != format::StepKind::kernel || !items) return false;
    std::vector<int64_t> ints;
    for (format::ExprIndex e : step.ints) {
      const auto value = number(e);
      if (!value) return false;
      ints.push_back(*value);
    }
    std::vector<void*> pointers;
    std::vector<std::shared_ptr<Storage>> held;  // constants are large: no longer than for this step
    for (const format::KernelArg& a : step.args) {
      const format::Buffer& buffer = plan_.buffers[static_cast<size_t>(a.buffer)];
      std::shared_ptr<Storage>& memory = memory_[static_cast<size_t>(a.buffer)];
      if (!memory && a.access == Access::write)
        if (const auto bytes = number(buffer.bytes)) memory = Storage::allocate(*bytes);
      held.push_back(buffer.role != BufferRole::constant ? memory : numbers ? numbers : constant(buffer));
      if (!held.back() || spoilt_.contains(a.buffer)) return false;
      pointers.push_back(held.back()->data);
    }
    if (step.scratch != format::none && !number(step.scratch)) return false;
    const int64_t parts = std::clamp<int64_t>(*items, 1, most_parts);
    std::vector<int> failed(static_cast<size_t>(parts));
    side_by_side(static_cast<size_t>(parts), [&](size_t part) {
      const std::shared_ptr<Storage> scratch = Storage::allocate(number(step.scratch).value_or(0));
      kiln_error_slot error = {};
      const kiln_kernel_context context = {
          KILN_KERNEL_ABI_VERSION, 0, scratch->data, scratch->bytes, &error, 0, nullptr};
      const int64_t begin = *items * static_cast<int64_t>(part) / parts,
                    end = *items * static_cast<int64_t>(part + 1) / parts;
      failed[part] = kernels_.function(step.kernel)(&context, pointers.data(), ints.data(), begin, end);
    });
    return std::all_of(failed.begin(), failed.end(), [](int code) { return code == 0; });
  }

  static constexpr int64_t most_parts = 128;  // of a step's items: enough for all processors (base/side_by_side.cpp)

  const PackageContents& contents_;
  const format::Plan& plan_;
  const Kernels& kernels_;
  std::vector<std::shared_ptr<Storage>> memory_;  // by buffer
  std::set<int32_t> spoilt_;                      // not all of what writes them could run
};

template <class F>
void for_each_step(const std::vector<format::Step>& block, const F& f) {
  for (const format::Step& step : block) {
    f(step);
    for (const auto& inner : step.blocks) for_each_step(inner, f);
  }
}

// The constants that nothing reads but one step that packs them, with that step.
std::map<int32_t, const format::Step*> read_for_packing_alone(const format::Plan& plan) {
  std::map<int32_t, const format::Step*> out;
  std::set<int32_t> seen, others;
  const auto constant_of = [&](int32_t b) {
    const format::Buffer& buffer = plan.buffers[static_cast<size_t>(b)];
    return buffer.role == BufferRole::constant ? buffer.position : format::none;
  };
  for (const format::Step& step : plan.init) {
    const std::vector<format::KernelArg> used = format::buffers_used(step);
    const auto read = std::count_if(used.begin(), used.end(), [](const auto& a) { return reads(a.access); });
    const bool packs = step.kind == format::StepKind::kernel && used.size() == 2 && read == 1;
    for (const format::KernelArg& a : used)
      if (const int32_t c = constant_of(a.buffer); c != format::none)
        (packs && seen.insert(c).second ? void(out[c] = &step) : void(others.insert(c)));
    for (const auto& block : step.blocks)
      for_each_step(block, [&](const format::Step& inner) {
        for (const format::KernelArg& a : format::buffers_used(inner)) others.insert(constant_of(a.buffer));
      });
  }
  for_each_step(plan.steps, [&](const format::Step& step) {
    for (const format::KernelArg& a : format::buffers_used(step)) others.insert(constant_of(a.buffer));
  });
  for (const format::Output& output : plan.outputs)
    if (output.what == format::OutputWhat::tensor) others.insert(constant_of(output.buffer));
  for (int32_t c : others) out.erase(c);
  std::erase_if(out, [&](const auto& one) { return plan.constants[static_cast<size_t>(one.first)].mutated; });
  return out;
}

// What a step that packs does to so many values. Layers of a model are packed alike: it is found out once for all.
struct PackingOrder {
  std::vector<uint64_t> numbers;  // as Init::order gives them
  bool whole = false;             // every value is there
};

PackingOrder packing_order(std::vector<uint64_t> numbers, int64_t count) {
  PackingOrder out;
  std::vector<uint8_t> there(static_cast<size_t>(count));  // bits would take longer
  int64_t found = 0;
  for (uint64_t number : numbers) {
    if (number == 0) continue;
    if (number > static_cast<uint64_t>(count)) return out;
    found += 1 - there[number - 1];
    there[number - 1] = 1;
  }
  out.whole = found == count;
  out.numbers = std::move(numbers);
  return out;
}

// True: every value can be had back from the packed form. Tried, not believed.
template <class Value>
bool recovered_as(const std::byte* original, const std::byte* packed, const std::vector<uint64_t>& numbers) {
  for (size_t j = 0; j < numbers.size(); ++j) {
    if (numbers[j] == 0) continue;
    Value there, here;
    std::memcpy(&there, packed + j * sizeof(Value), sizeof(Value));
    std::memcpy(&here, original + (numbers[j] - 1) * sizeof(Value), sizeof(Value));
    if (there != here) return false;
  }
  return true;
}

bool recovered(const Tensor& original, const Storage& packed, const PackingOrder& order) {
  if (!order.whole) return false;
  switch (dtype_bytes(original.dtype)) {
    case 1:
      return recovered_as<uint8_t>(original.data(), packed.data, order.numbers);
    case 2:
      return recovered_as<uint16_t>(original.data(), packed.data, order.numbers);
    case 4:
      return recovered_as<uint32_t>(original.data(), packed.data, order.numbers);
    case 8:
      return recovered_as<uint64_t>(original.data(), packed.data, order.numbers);
    default:
      return recovered_as<std::array<uint64_t, 2>>(original.data(), packed.data, order.numbers);
  }
}

}  // namespace

std::string freeze(PackageContents& contents) {
  PackageContents::Variant& variant = contents.variants.front();
  format::Plan& plan = variant.plan;
  if (plan.init.empty()) return "";
  if (contents.without_state) return "freezing does nothing: the package is written without its weights";
  if (!check_target(variant.target, processor_features()).runs())
    return str("freezing does nothing: this machine cannot run code for ", variant.target,
               ", so that weights are packed when the package is loaded");
  const Kernels kernels(variant.code);
  if (!kernels.loaded()) return "freezing does nothing: the kernels cannot be loaded here";
  Init init(contents, plan, kernels);
  init.run();
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    if (std::shared_ptr<Storage> made = init.derived(static_cast<int32_t>(b)); made && made->bytes > 0)
      variant.derived[static_cast<int32_t>(b)] = std::move(made);
  if (contents.variants.size() > 1)
    return str("freezing: the packed weights are those of ", variant.target,
               "; other targets pack when they are loaded: name first what most machines run, or compile a package for "
               "each target");
  std::map<std::string, PackingOrder> orders;  // by what decides them
  struct Packed {
    format::Constant* constant;
    int32_t to;
    const PackingOrder* order;
    bool whole = false;
  };
  std::vector<Packed> all;
  for (const auto& [c, step] : read_for_packing_alone(plan)) {
    const std::vector<format::KernelArg> used = format::buffers_used(*step);
    const int32_t from = reads(used[0].access) ? used[0].buffer : used[1].buffer;
    const int32_t to = reads(used[0].access) ? used[1].buffer : used[0].buffer;
    format::Constant& constant = plan.constants[static_cast<size_t>(c)];
    const auto packed = variant.derived.find(to);
    const Tensor& original = contents.constants.at(constant.name);
    if (packed == variant.derived.end() || original.numel() == 0 ||
        original.dtype != plan.buffers[static_cast<size_t>(to)].dtype)
      continue;
    const int64_t count =
        storage_bytes_needed(original.dtype, original.sizes, original.strides, 0) / dtype_bytes(original.dtype);
    // What lies between the values of a constant with gaps would be lost, and with it the proof that nothing has
    // changed.
    if (count != original.numel()) continue;
    const auto [order, unknown] = orders.try_emplace(init.packing_text(*step, to, count));
    if (unknown) order->second = packing_order(init.order(*step, from, to, count), count);
    all.push_back({&constant, to, &order->second});
  }
  side_by_side(all.size(), [&](size_t i) {
    all[i].whole =
        recovered(contents.constants.at(all[i].constant->name), *variant.derived.at(all[i].to), *all[i].order);
  });
  for (const Packed& one : all)
    if (one.whole) one.constant->packed_in = one.to;
  return "";
}

}  // namespace kiln
