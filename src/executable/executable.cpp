#include "executable/executable.h"

#include <cstring>

#include "executable/backends.h"

namespace kiln {
namespace {

struct BackendEntry {
  Backend backend;
  const char* name;
  std::unique_ptr<Executable> (*make)(const Program&, const ExecutableOptions&);
};
constexpr BackendEntry backends[] = {
    {Backend::compiled, "compiled", make_compiled_executable},
    {Backend::loops, "loops", make_loops_executable},
    {Backend::interpret, "interpret", make_interpret_executable},
};
const BackendEntry& entry_of(Backend backend) {
  for (const BackendEntry& entry : backends)
    if (entry.backend == backend) return entry;
  fail_bug("a backend without an entry");
}

using StorageCopies = std::map<const Storage*, std::shared_ptr<Storage>>;

Datum copy_datum(const Datum& datum, StorageCopies& copies) {
  if (datum.is_list()) {
    std::vector<Datum> items;
    for (const Datum& item : datum.list()) items.push_back(copy_datum(item, copies));
    return Datum{std::move(items)};
  }
  if (!datum.is_tensor() || !datum.tensor().defined()) return datum;
  Tensor tensor = datum.tensor();
  std::shared_ptr<Storage>& copy = copies[tensor.storage.get()];
  if (!copy) {
    copy = Storage::allocate(tensor.storage->bytes);
    if (tensor.storage->bytes > 0)
      std::memcpy(copy->data, tensor.storage->data, static_cast<size_t>(tensor.storage->bytes));
  }
  tensor.storage = copy;
  return Datum{std::move(tensor)};
}

}  // namespace

const char* backend_name(Backend backend) { return entry_of(backend).name; }

std::optional<Backend> backend_from_name(std::string_view name) {
  for (const BackendEntry& entry : backends)
    if (name == entry.name) return entry.backend;
  return std::nullopt;
}

std::unique_ptr<Executable> make_executable(const Program& program, const ExecutableOptions& options) {
  return entry_of(options.backend).make(program, options);
}

std::vector<Datum> copy_inputs(const std::vector<Datum>& inputs) {
  StorageCopies copies;
  std::vector<Datum> out;
  for (const Datum& input : inputs) out.push_back(copy_datum(input, copies));
  return out;
}

}  // namespace kiln
