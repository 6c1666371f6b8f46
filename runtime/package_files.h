// The archive a model came from, for those who look into it later: the checked run reads the debug section, a fault
// bundle copies code. Bytes stay mapped as long as somebody shares this.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "base/zip.h"

namespace kiln::runtime {

class PackageFiles {
 public:
  // `folder`: where the plan lies, with a slash at its end.
  PackageFiles(std::shared_ptr<const ZipReader> zip, std::shared_ptr<const void> keep, std::string folder)
      : zip_(std::move(zip)), keep_(std::move(keep)), folder_(std::move(folder)) {}
  // The sidecar of a stripped package; used for what the package itself lacks.
  void add_sidecar(std::shared_ptr<const ZipReader> zip, std::shared_ptr<const void> keep) {
    sidecar_ = std::move(zip), keep_sidecar_ = std::move(keep);
  }
  const std::string& label() const { return zip_->label(); }
  const std::string& folder() const { return folder_; }
  // The target whose code runs: where the debug section has a part of its own for it, that is meant.
  void set_target(const std::string& target) { own_debug_ = str("debug/", target, "/"); }
  // Entries are named by their whole path, or from the folder of the plan. Throws K0115 when it is damaged.
  std::optional<ByteSpan> entry(const std::string& name) const {
    if (!own_debug_.empty() && starts_with(name, "debug/"))
      if (const auto own = find(own_debug_ + name.substr(6))) return own;
    return find(name);
  }

 private:
  std::optional<ByteSpan> find(const std::string& name) const {
    for (const ZipReader* zip : {zip_.get(), sidecar_.get()}) {
      if (!zip) continue;
      for (const std::string& path : {name, folder_ + name})
        if (const ZipEntry* found = zip->find(path)) {
          zip->check_crc(*found);
          return zip->stored(*found);
        }
    }
    return std::nullopt;
  }
  std::shared_ptr<const ZipReader> zip_, sidecar_;
  std::shared_ptr<const void> keep_, keep_sidecar_;
  std::string folder_, own_debug_;
};

}  // namespace kiln::runtime
