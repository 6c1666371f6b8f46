#include "package/writer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/leftovers.h"
#include "base/sha256.h"
#include "base/zip.h"
#include "package/plan_io.h"

namespace kiln {

// Every storage once, however many constants look into it.
struct StoredWeights {
  std::vector<std::pair<std::string, ByteSpan>> entries;
  Json config = Json::object();
};

namespace {

bool same_entries(const StoredWeights& a, const StoredWeights& b) {
  return std::equal(
      a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(), [](const auto& x, const auto& y) {
        return x.first == y.first && x.second.data() == y.second.data() && x.second.size() == y.second.size();
      });
}

Json int_list(const std::vector<int64_t>& values) {
  Json list = Json::array();
  for (int64_t v : values) list.push(Json(Json::Object{{"as_int", Json(v)}}));
  return list;
}

// PyTorch's own description of a weight, so that its tools find them in a package too.
Json weight_config(const std::string& file, const Tensor& tensor) {
  Json device(Json::Object{{"type", Json("cpu")}, {"index", Json()}});
  Json meta(Json::Object{{"dtype", Json(dtype_schema_number(tensor.dtype))},
                         {"sizes", int_list(tensor.sizes)},
                         {"requires_grad", Json(false)},
                         {"device", std::move(device)},
                         {"strides", int_list(tensor.strides)},
                         {"storage_offset", Json(Json::Object{{"as_int", Json(tensor.offset)}})},
                         {"layout", Json(7)}});
  return Json(Json::Object{{"path_name", Json(file)},
                           {"is_param", Json(false)},
                           {"use_pickle", Json(false)},
                           {"tensor_meta", std::move(meta)}});
}

// Finds the first constant that is the very same tensor: the compiled program reads only one of them.
class TiedNames {
 public:
  TiedNames(const format::Plan& plan, const PackageContents& contents) : plan_(plan), contents_(contents) {}

  int32_t first_of(size_t index) {
    const Tensor& tensor = tensor_of(index);
    if (tensor.numel() == 0) return format::none;
    std::vector<size_t>& here = by_start_[{tensor.storage->data, tensor.offset * dtype_bytes(tensor.dtype)}];
    for (size_t i : here) {
      const Tensor& other = tensor_of(i);
      if (other.dtype == tensor.dtype && other.sizes == tensor.sizes && other.strides == tensor.strides &&
          plan_.constants[i].mutated == plan_.constants[index].mutated)
        return static_cast<int32_t>(i);
    }
    here.push_back(index);
    return format::none;
  }

 private:
  const Tensor& tensor_of(size_t index) const { return contents_.constants.at(plan_.constants[index].name); }
  const format::Plan& plan_;
  const PackageContents& contents_;
  std::map<std::pair<const std::byte*, int64_t>, std::vector<size_t>> by_start_;
};

StoredWeights store_weights(const std::string& root, format::Plan& plan, const PackageContents& contents) {
  StoredWeights stored;
  std::map<std::pair<const std::byte*, int64_t>, std::string> by_storage;
  TiedNames tied(plan, contents);
  for (format::Constant& constant : plan.constants) {
    auto found = contents.constants.find(constant.name);
    KILN_CHECK(found != contents.constants.end() && found->second.defined(),
               str("no values for the constant ", constant.name));
    const Tensor& tensor = found->second;
    constant.same_as = tied.first_of(static_cast<size_t>(&constant - plan.constants.data()));
    int64_t element = dtype_bytes(tensor.dtype);
    int64_t span = storage_bytes_needed(tensor.dtype, tensor.sizes, tensor.strides, 0);
    if ((contents.without_state && contents.state.contains(constant.name)) || constant.packed_in != format::none) {
      constant.bytes = span;
      continue;
    }
    auto key = std::make_pair(static_cast<const std::byte*>(tensor.storage->data), tensor.storage->bytes);
    auto [entry, inserted] = by_storage.emplace(key, str("weight_", by_storage.size()));
    if (inserted)
      stored.entries.push_back({str(root, "/data/weights/", entry->second),
                                ByteSpan(tensor.storage->data, static_cast<size_t>(tensor.storage->bytes))});
    constant.entry = str(root, "/data/weights/", entry->second);
    constant.storage_offset = tensor.offset * element;
    constant.bytes = span;
    stored.config.set(constant.name, weight_config(entry->second, tensor));
  }
  return stored;
}

std::string build_id(const PackageContents& contents) {
  Sha256 hash;
  for (const PackageContents::Variant& variant : contents.variants) {
    hash.add(format::write_plan(variant.plan));
    if (!variant.code.empty()) hash.add(str("\n", variant.target, "\n")), hash.add(variant.code);
  }
  for (const PackageContents::Library& library : contents.custom_libraries)
    hash.add(str("\n", library.name, "\n")), hash.add(library.bytes);
  for (const std::string& setting : contents.run_settings) hash.add(str("\n", setting, "\n"));
  return hash.hex().substr(0, 32);
}

std::string dims_text(const format::Plan& plan, const std::vector<format::ExprIndex>& dims) {
  return "[" + join_map(dims, ", ", [&](format::ExprIndex e) { return plan.exprs[static_cast<size_t>(e)].text; }) + "]";
}

// The value that an argument always has. JSON has no infinities and no NaN: they stay out.
void set_constant(const format::Input& input, Json& spec) {
  using Kind = format::ConstantKind;
  if (input.constant_kind == Kind::none) spec.set("constant", Json());
  if (input.constant_kind == Kind::integer) spec.set("constant", input.constant_int);
  if (input.constant_kind == Kind::floating && std::isfinite(input.constant_float))
    spec.set("constant", input.constant_float);
  if (input.constant_kind == Kind::boolean) spec.set("constant", input.constant_int != 0);
  if (input.constant_kind == Kind::string) spec.set("constant", input.constant_string);
}

// For people and other tools; the runtime reads the plan.
std::string manifest(const PackageContents& contents) {
  const format::Plan& plan = contents.variants.front().plan;
  Json root = Json::object();
  root.set("kiln", plan.kiln_version);
  root.set("build_id", plan.build_id);
  root.set("model", plan.model_name);
  root.set("torch", plan.torch_version);
  root.set("plan_version", str(format::plan_major, ".", format::plan_minor));
  root.set("kernel_abi", static_cast<int64_t>(plan.kernel_abi));
  root.set("device", device_type_name(plan.device));
  auto tensor_spec = [&](const std::string& name, int32_t buffer) {
    Json spec = Json::object();
    spec.set("name", name);
    if (buffer >= 0) {
      const format::Buffer& b = plan.buffers[static_cast<size_t>(buffer)];
      spec.set("dtype", dtype_torch_name(b.dtype));
      spec.set("sizes", dims_text(plan, b.sizes));
    }
    return spec;
  };
  Json inputs = Json::array(), outputs = Json::array(), targets = Json::array(), kernels = Json::array();
  for (const format::Input& input : plan.inputs) {
    Json spec = tensor_spec(input.name, input.buffer);
    if (input.what == format::InputWhat::constant) set_constant(input, spec);
    inputs.push(std::move(spec));
  }
  for (const format::Output& output : plan.outputs) outputs.push(tensor_spec(output.shown_name(), output.buffer));
  for (const format::CodeObject& code : plan.code) targets.push(code.target);
  for (const format::Kernel& kernel : plan.kernels) kernels.push(kernel.symbol);
  root.set("inputs", std::move(inputs));
  root.set("outputs", std::move(outputs));
  root.set("targets", std::move(targets));
  root.set("kernels", std::move(kernels));
  if (!contents.in_spec.empty()) root.set("in_spec", contents.in_spec);
  if (!contents.out_spec.empty()) root.set("out_spec", contents.out_spec);
  Json state = Json::array();
  for (const format::Constant& constant : plan.constants)
    if (contents.state.contains(constant.name)) state.push(constant.name);
  root.set("state", std::move(state));
  Json arguments = Json::array();
  for (const std::string& name : contents.argument_names) arguments.push(name);
  root.set("argument_names", std::move(arguments));
  return json_text(root, JsonStyle::pretty) + "\n";
}

const char* kernels_entry(DeviceType device) { return device == DeviceType::cuda ? "kernels.gpu" : "kernels.so"; }

void write_sidecar(const std::string& path, const std::string& prefix, const PackageContents& contents) {
  remove_unfinished(path);
  AtomicFile file(path);
  ZipWriter zip([&](ByteSpan bytes) { file.write(bytes); });
  zip.add(prefix + "build_id", contents.variants.front().plan.build_id);
  for (const auto& [name, text] : contents.debug) zip.add(prefix + "debug/" + name, text);
  zip.finish();
  file.commit();
}

}  // namespace

struct PackageWriter::State {
  explicit State(std::string to) : path(std::move(to)) {}

  // The file, and what every archive begins with. Opened when the first bytes are there to write.
  void begin(const std::string& root) {
    remove_unfinished(path);
    file = std::make_unique<AtomicFile>(path);
    zip = std::make_unique<ZipWriter>([this](ByteSpan bytes) {
      // In pieces, so that a compile that fails does not wait for gigabytes.
      for (size_t at = 0; at < bytes.size() && !given_up; at += piece_bytes)
        file->write(bytes.subspan(at, std::min(piece_bytes, bytes.size() - at)));
      written += bytes.size();
    });
    zip->add(root + "/archive_format", std::string_view("pt2"));
    zip->add(root + "/archive_version", std::string_view("0"));
    zip->add(root + "/byteorder", std::string_view("little"));
    zip->add(root + "/.data/version", std::string_view("6\n"));
  }
  void add_weights(const StoredWeights& weights) {
    for (const auto& [name, bytes] : weights.entries)
      if (!given_up) zip->add(name, bytes);
  }

  static constexpr size_t piece_bytes = size_t{4} << 20;
  std::string path;
  std::unique_ptr<AtomicFile> file;
  std::unique_ptr<ZipWriter> zip;
  uint64_t written = 0;
  std::thread writing;
  std::atomic<bool> given_up = false;
  std::exception_ptr problem;           // of the thread
  StoredWeights early;                  // what it writes
  std::map<std::string, Tensor> alive;  // whose storages it reads
  double seconds = 0;
};

PackageWriter::PackageWriter(std::string path) : state_(std::make_unique<State>(std::move(path))) {}

PackageWriter::~PackageWriter() {
  state_->given_up = true;
  if (state_->writing.joinable()) state_->writing.join();
}

double PackageWriter::weights_seconds() const { return state_->seconds; }
const std::string& PackageWriter::path() const { return state_->path; }

void PackageWriter::start_weights(format::Plan plan, const PackageContents& contents) {
  KILN_CHECK(!state_->file, "a package whose writing has begun");
  const std::string root = plan.model_name;
  state_->early = store_weights(root, plan, contents);
  state_->alive = contents.constants;
  state_->begin(root);
  state_->writing = std::thread([state = state_.get()] {
    const auto began = std::chrono::steady_clock::now();
    try {
      state->add_weights(state->early);
    } catch (...) {
      state->problem = std::current_exception();
    }
    state->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  });
}

PackageWritten write_package(const std::string& path, PackageContents contents) {
  return PackageWriter(path).finish(std::move(contents));
}

PackageWritten PackageWriter::finish(PackageContents contents) {
  KILN_CHECK(!contents.variants.empty(), "a package without a plan");
  const std::string root = contents.variants.front().plan.model_name, prefix = str(root, "/data/kiln/", root, "/");
  // The first variant's plan is the package's; another target's lies beside its code, and so does what its part of the
  // debug section says.
  auto folder = [&](const PackageContents::Variant& variant) {
    return &variant == &contents.variants.front() ? std::string() : variant.target + "/";
  };
  std::vector<format::CodeObject> objects;
  for (const PackageContents::Variant& variant : contents.variants) {
    const std::string code = str(prefix, "code/", variant.target, "/"), own = folder(variant);
    if (!variant.code.empty())
      objects.push_back({variant.target, code + kernels_entry(variant.plan.device),
                         own.empty() ? std::string() : code + "kernels.plan", variant.plan.device});
  }
  StoredWeights weights;
  std::vector<std::pair<std::string, ByteSpan>> packed;
  for (PackageContents::Variant& variant : contents.variants) {
    StoredWeights stored = store_weights(root, variant.plan, contents);
    for (const auto& [buffer, memory] : variant.derived) {
      const std::string entry = str(root, "/data/packed/", variant.target, "/", buffer);
      variant.plan.buffers[static_cast<size_t>(buffer)].entry = entry;
      packed.emplace_back(entry, ByteSpan(memory->data, static_cast<size_t>(memory->bytes)));
    }
    if (folder(variant).empty()) weights = std::move(stored);
    variant.plan.code = objects;
    variant.plan.custom_libraries.clear();
    for (const PackageContents::Library& library : contents.custom_libraries)
      variant.plan.custom_libraries.push_back({library.name, str(prefix, "custom/", library.name)});
  }
  const std::string id = build_id(contents);
  for (PackageContents::Variant& variant : contents.variants) {
    variant.plan.build_id = variant.origins.build_id = id;
    contents.debug[folder(variant) + "origins"] = format::write_origins(variant.origins);
    for (auto& [name, text] : variant.debug) contents.debug[folder(variant) + name] = std::move(text);
  }

  PackageWritten written;
  written.build_id = id;
  if (state_->writing.joinable()) {
    state_->writing.join();
    if (state_->problem) std::rethrow_exception(state_->problem);
    KILN_CHECK(same_entries(state_->early, weights), "other weights than those that were written");
  } else {
    state_->begin(root);
    state_->add_weights(weights);
  }
  ZipWriter& zip = *state_->zip;
  zip.add(prefix + "manifest.json", manifest(contents));
  zip.add(prefix + "plan", format::write_plan(contents.variants.front().plan));
  if (!contents.run_settings.empty()) zip.add(prefix + "settings", join(contents.run_settings, "\n") + "\n");
  for (const PackageContents::Variant& variant : contents.variants) {
    const std::string code = str(prefix, "code/", variant.target, "/");
    if (!variant.code.empty()) zip.add(code + kernels_entry(variant.plan.device), variant.code);
    if (!variant.code.empty() && !folder(variant).empty())
      zip.add(code + "kernels.plan", format::write_plan(variant.plan));
  }
  for (const PackageContents::Library& library : contents.custom_libraries)
    zip.add(str(prefix, "custom/", library.name), library.bytes);
  for (const auto& [name, bytes] : packed) zip.add(name, bytes);
  zip.add(str(root, "/data/weights/", root, "_weights_config.json"),
          json_text(Json(Json::Object{{"config", weights.config}})));
  if (!contents.sample_inputs.empty()) zip.add(str(root, "/data/sample_inputs/", root, ".pt"), contents.sample_inputs);
  for (const auto& [name, bytes] : contents.test) zip.add(prefix + "test/" + name, bytes);
  if (!contents.strip_debug)
    for (const auto& [name, text] : contents.debug) zip.add(prefix + "debug/" + name, text);
  zip.finish();
  state_->file->commit();
  written.bytes = state_->written;
  if (contents.strip_debug) {
    written.debug_path = state_->path + ".debug";
    write_sidecar(written.debug_path, prefix, contents);
  }
  return written;
}

}  // namespace kiln
