// A file written by torch.save: a zip with one pickle and the bytes of the storages it refers to.
// The names that are understood are a closed list (tensors, parameters, numbers, containers); all else is refused.
#pragma once
#include <map>
#include <optional>

#include "base/pickle.h"
#include "base/zip.h"
#include "pt2/tensor_files.h"

namespace kiln {

// A tensor that Python builds around other tensors (the quantised weights of torchao): its class, and what it is made
// of by the names of the attributes. Parts may be such tensors again.
struct WrapperTensor {
  std::string class_name;
  std::vector<std::pair<std::string, const PickleValue*>> parts;
};

class PtArchive {
 public:
  explicit PtArchive(const FileBytes& file);
  const PickleValue& root() const { return tree_.root(); }
  // The value as tensors, numbers, strings, None and lists of those. Throws K0151 for anything else.
  Datum datum(const PickleValue& value);
  // Keys and values of a dict or OrderedDict; nothing if it is neither.
  static bool is_dict(const PickleValue& value);
  static std::optional<WrapperTensor> wrapper(const PickleValue& value);

 private:
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_subclass(const PickleValue& value) const;
  Tensor tensor(const PickleValue& call);
  Tensor tensor_of(const std::string& name, const std::vector<const PickleValue*>& args);
  Tensor rebuild(const std::vector<const PickleValue*>& args, bool typed);
  struct StorageRef {
    std::shared_ptr<Storage> storage;
    std::optional<DType> dtype;  // nothing: untyped
    Device device;
  };
  StorageRef storage(const PickleValue& id);
  std::vector<int64_t> int_tuple(const PickleValue& value) const;
  Scalar number(const PickleValue& value) const;

  FileBytes file_;
  ZipReader zip_;
  std::string prefix_;  // of the entries, with the slash
  PickleTree tree_;
  std::map<std::string, std::shared_ptr<Storage>> storages_;
};

}  // namespace kiln
