#include "runtime/package_loader.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_kind.h"
#include "base/zip.h"
#include "package/plan_io.h"
#include "runtime/element.h"
#include "runtime/kernel_table.h"
#include "types/device_names.h"

namespace kiln::runtime {
namespace {

std::shared_ptr<const ZipReader> open_archive(const PackageSource& source) {
  if (!begins_like_zip(source.bytes)) fail_user("K0520", not_a_package_text(source.label, file_kind(source.bytes)));
  return std::make_shared<ZipReader>(source.bytes, source.label);
}

bool is_plan(const ZipEntry& entry) {
  return entry.name.find("data/kiln/") != std::string::npos && ends_with(entry.name, "/plan");
}

// Up to the slash before "plan".
std::string folder_of(const ZipEntry& plan) { return plan.name.substr(0, plan.name.size() - 4); }

class Loader {
 public:
  Loader(const PackageSource& source, const Allocator& allocator, const Log& log)
      : source_(source),
        zip_holder_(source.zip ? source.zip : open_archive(source)),
        zip_(*zip_holder_),
        allocator_(allocator),
        log_(log) {}

  ModelParts run(const std::vector<std::string>& custom_libraries, const CpuFeatures& features, VerifyWeights weights) {
    const ZipEntry& plan = find_plan();
    folder_ = folder_of(plan);
    zip_.check_crc(plan);
    parts_.plan = format::read_plan(zip_.stored(plan));
    check_version();
    parts_.device = source_.device                           ? source_.device
                    : parts_.plan.device == DeviceType::cuda ? (check_manifest(), cuda_device(source_.device_index))
                                                             : cpu_device();
    check_fits();
    files_ = std::make_shared<PackageFiles>(zip_holder_, source_.keep, folder_);
    load_code(features);
    find_sidecar();
    load_origins();
    load_custom(custom_libraries);
    if (weights != VerifyWeights::never) verify_weights(weights == VerifyWeights::always);
    for (const format::Constant& constant : parts_.plan.constants) parts_.constants.push_back(load_constant(constant));
    for (const format::Buffer& buffer : parts_.plan.buffers) parts_.derived.push_back(load_derived(buffer));
    parts_.keep = source_.keep;
    parts_.files = files_;
    return std::move(parts_);
  }

 private:
  const ZipEntry& find_plan() const {
    const ZipEntry* found = nullptr;
    std::vector<std::string> models;
    for (const ZipEntry& entry : zip_.entries()) {
      if (!is_plan(entry)) continue;
      if (!found) found = &entry;
      models.push_back(entry.name);
    }
    if (models.size() > 1) fail_unsupported("K0520", str(source_.label, " holds several models: ", join(models, ", ")));
    if (found) return *found;
    fail_user("K0520", not_a_package_text(source_.label, file_kind(zip_)));
  }

  void check_version() const {
    const format::Plan& plan = parts_.plan;
    if (plan.kernel_abi < KILN_KERNEL_ABI_OLDEST || plan.kernel_abi > KILN_KERNEL_ABI_VERSION)
      fail_user("K0521",
                str("the kernels of ", source_.label, " have interface version ", plan.kernel_abi,
                    ", this runtime has ", KILN_KERNEL_ABI_VERSION, ": ",
                    plan.kernel_abi > KILN_KERNEL_ABI_VERSION ? "use a newer runtime" : "compile the model again"));
  }

  void check_fits() const {
    const DeviceType device = parts_.plan.device;
    const std::string here = device_text(parts_.device->id().device_type);
    const std::string compiled = str(static_cast<int>(device), "(", device_type_name(device), ")");
    if (compiled != here)
      fail_user("K0522", str("the package was compiled for ", compiled, ", and this runtime loads it for ", here,
                             ": the device types of compiling and loading must agree"));
    check_manifest();
  }

  // The manifest is for people, but what it says of the device must be so: the plan decides nothing else than it.
  void check_manifest() const {
    const ZipEntry* manifest = zip_.find(folder_ + "manifest.json");
    if (!manifest) return;
    const std::string_view text = as_text(zip_.stored(*manifest));
    const size_t key = text.find("\"device\""), colon = text.find(':', key);
    if (key == std::string_view::npos || colon == std::string_view::npos) return;
    const size_t open = text.find('"', colon), close = text.find('"', open + 1);
    if (open == std::string_view::npos || close == std::string_view::npos) return;
    const std::string_view device = text.substr(open + 1, close - open - 1);
    if (device_type_from_name(device) != parts_.plan.device)
      fail_user("K0522", str("the manifest of ", source_.label, " says that it was compiled for ", device,
                             ", and its plan is for ", device_type_name(parts_.plan.device),
                             ": the device types of compiling and loading must agree"));
  }

  // Entries are named by their whole path, or from the folder of the plan.
  const ZipEntry& entry(const std::string& name) const {
    if (const ZipEntry* found = zip_.find(name)) return *found;
    if (const ZipEntry* found = zip_.find(folder_ + name)) return *found;
    fail_user("K0523", str(source_.label, " lacks the entry ", name, " that its plan names"));
  }

  void load_code(const CpuFeatures& features) {
    if (parts_.plan.kernels.empty()) return;
    std::vector<std::string> targets;
    std::vector<format::CodeObject> objects;
    for (const format::CodeObject& code : parts_.plan.code)
      if (code.device == parts_.plan.device) objects.push_back(code), targets.push_back(code.target);
    const format::CodeObject code = objects[parts_.device->choose(targets, features)];
    const ZipEntry& object = entry(code.entry);
    zip_.check_crc(object);
    parts_.target = code.target;
    if (!code.plan.empty()) load_plan_of(code);
    const std::string label = str(source_.label, ":", code.entry);
    const std::string name = str("kiln-", parts_.plan.build_id, "-", code.target, ".so");
    if (!source_.code_dir.empty()) {
      try {
        parts_.code = parts_.device->load_code(zip_.stored(object), label, join_path(source_.code_dir, name));
      } catch (const Error& error) {
        log_.write(KILN_LOG_WARNING, str("code_dir is not used: ", error.message()));
      }
    }
    if (!parts_.code) parts_.code = parts_.device->load_code(zip_.stored(object), label, "");
    check_kernels(parts_.plan, *parts_.code, label);
  }

  // Another target than the first has a schedule of its own, and so a plan.
  void load_plan_of(const format::CodeObject& code) {
    const ZipEntry& own = entry(code.plan);
    zip_.check_crc(own);
    format::Plan plan = format::read_plan(zip_.stored(own));
    const format::Plan& first = parts_.plan;
    if (plan.build_id != first.build_id || plan.inputs.size() != first.inputs.size() ||
        plan.outputs.size() != first.outputs.size() || plan.kernel_abi != first.kernel_abi ||
        plan.device != first.device || plan.kernels.empty())
      fail_user("K0503", str("the plan for ", code.target, " of ", source_.label, " is of another program"));
    parts_.plan = std::move(plan);
    files_->set_target(code.target);
  }

  // --strip-debug puts the debug section into a file of its own; where it lies beside the package it is used.
  void find_sidecar() {
    const std::string path = source_.label + ".debug";
    if (!source_.keep || zip_.find(folder_ + "debug/origins") || !file_exists(path)) return;
    try {
      auto file = MappedFile::open(path);
      auto sidecar = std::make_shared<ZipReader>(file->bytes(), path);
      const ZipEntry* id = sidecar->find(folder_ + "build_id");
      if (!id || as_text(sidecar->stored(*id)) != parts_.plan.build_id)
        return log_.write(KILN_LOG_WARNING, str(path, " belongs to another build and is not used"));
      files_->add_sidecar(std::move(sidecar), std::move(file));
    } catch (const Error& error) {
      log_.write(KILN_LOG_WARNING, str(path, " is not used: ", error.message()));
    }
  }

  void load_origins() {
    try {
      const auto found = files_->entry("debug/origins");
      if (!found) return;
      parts_.origins = format::read_origins(*found);
    } catch (const Error& error) {
      log_.write(KILN_LOG_WARNING, str("the debug section is left out: ", error.message()));
      return;
    }
    if (!parts_.origins.build_id.empty() && parts_.origins.build_id != parts_.plan.build_id) {
      log_.write(KILN_LOG_WARNING, "the debug section belongs to another build and is left out");
      parts_.origins = {};
    }
  }

  void load_custom(const std::vector<std::string>& paths) {
    for (const format::CustomLibrary& library : parts_.plan.custom_libraries) {
      const ZipEntry& object = entry(library.entry);
      zip_.check_crc(object);
      std::string label = str(source_.label, ":", library.name);
      parts_.custom_code.push_back(load_shared_object(zip_.stored(object), label));
      add_custom_ops(*parts_.custom_code.back(), label, parts_.custom_ops);
    }
    for (const std::string& path : paths) {
      parts_.custom_code.push_back(open_shared_object(path));
      add_custom_ops(*parts_.custom_code.back(), path, parts_.custom_ops);
    }
  }

  // A flipped bit in a weight gives a model that runs and is wrong. Small models are looked at always: it takes no time
  // that shows beside loading their code.
  void verify_weights(bool all) const {
    constexpr uint64_t small_enough = 4 << 20;
    std::vector<const ZipEntry*> entries;  // each once, however many constants look into it
    for (const format::Constant& constant : parts_.plan.constants)
      if (!constant.entry.empty()) entries.push_back(&entry(constant.entry));
    for (const format::Buffer& buffer : parts_.plan.buffers)
      if (!buffer.entry.empty()) entries.push_back(&entry(buffer.entry));
    std::sort(entries.begin(), entries.end());
    entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
    uint64_t bytes = 0;
    for (const ZipEntry* one : entries) bytes += one->bytes;
    if (!all && bytes > small_enough) return;
    for (const ZipEntry* one : entries) zip_.check_crc(*one);
  }

  // What init would make, as the package has it.
  StoredBuffer load_derived(const format::Buffer& buffer) const {
    if (buffer.entry.empty()) return {};
    const ByteSpan bytes = zip_.stored(entry(buffer.entry));
    return {in_place_or_copied(bytes, static_cast<size_t>(buffer.alignment)), static_cast<int64_t>(bytes.size())};
  }

  ConstantData load_constant(const format::Constant& constant) const {
    if (constant.packed_in != format::none) return {};
    if (constant.entry.empty()) {
      auto block =
          std::make_shared<Block>(allocator_, constant.bytes, std::max(memory_alignment, alignment_of(constant)));
      std::fill_n(block->data(), constant.bytes, std::byte{0});
      return {block->data(), block, constant.bytes > 0};
    }
    ByteSpan bytes = zip_.stored(entry(constant.entry));
    auto offset = static_cast<uint64_t>(constant.storage_offset), size = static_cast<uint64_t>(constant.bytes);
    if (offset > bytes.size() || size > bytes.size() - offset)
      fail_user("K0524", str("constant ", constant.name, " lies outside its entry ", constant.entry));
    return in_place_or_copied(bytes.subspan(offset, size), alignment_of(constant));
  }

  ConstantData in_place_or_copied(ByteSpan region, size_t alignment) const {
    // Nobody writes through this pointer: the mapping is read-only and mutable constants are copied per instance.
    auto* data = const_cast<std::byte*>(region.data());
    if (data && reinterpret_cast<uintptr_t>(data) % alignment == 0) return {data, nullptr};
    auto block =
        std::make_shared<Block>(allocator_, static_cast<int64_t>(region.size()), std::max(memory_alignment, alignment));
    std::copy(region.begin(), region.end(), block->data());
    return {block->data(), block};
  }

  size_t alignment_of(const format::Constant& constant) const {
    auto index = &constant - parts_.plan.constants.data();
    size_t alignment = 1;
    for (const format::Buffer& b : parts_.plan.buffers)
      if (b.role == format::BufferRole::constant && b.position == index)
        alignment = std::max(alignment, static_cast<size_t>(b.alignment));
    return alignment;
  }

  const PackageSource& source_;
  std::shared_ptr<const ZipReader> zip_holder_;
  const ZipReader& zip_;
  std::shared_ptr<PackageFiles> files_;
  const Allocator& allocator_;
  const Log& log_;
  std::string folder_;
  ModelParts parts_;
};

}  // namespace

std::vector<std::string> package_settings(PackageSource& source) {
  std::vector<std::string> out;
  try {
    source.zip = open_archive(source);
    const auto& entries = source.zip->entries();
    const auto plan = std::find_if(entries.begin(), entries.end(), is_plan);
    const ZipEntry* found = plan == entries.end() ? nullptr : source.zip->find(folder_of(*plan) + "settings");
    if (!found) return out;
    source.zip->check_crc(*found);
    for (const std::string& line : split(as_text(source.zip->stored(*found)), '\n'))
      if (!line.empty()) out.push_back(line);
  } catch (const Error&) {
    return {};
  }
  return out;
}

void add_custom_ops(const CodeModule& module, const std::string& label, CustomOps& ops) {
  auto entry = reinterpret_cast<kiln_custom_ops_fn>(module.symbol("kiln_custom_ops"));
  if (!entry) fail_user("K0513", str(label, " is no custom operator library: it does not export kiln_custom_ops"));
  const kiln_custom_op_table* table = entry();
  if (!kiln_custom_op_table_known(table))
    fail_user("K0513", str(label, " was built for another version of kiln/custom_op.h (",
                           table ? table->abi_version : 0u, ", this runtime has ", KILN_CUSTOM_OP_ABI_VERSION, ")"));
  for (uint32_t i = 0; i < table->count; ++i)
    if (kiln_custom_op op = kiln_custom_op_at(table, i); op.name && op.run) ops[op.name] = op;
}

ModelParts load_package(const PackageSource& source, const std::vector<std::string>& custom_libraries,
                        const Allocator& allocator, const Log& log, const CpuFeatures& features,
                        VerifyWeights weights) {
  return Loader(source, allocator, log).run(custom_libraries, features, weights);
}

}  // namespace kiln::runtime
