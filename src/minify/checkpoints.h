// Where the results go: <save_dir>/N.pt2 and N.py on the way, and copies named repro in the current directory.
#pragma once
#include "minify/minify.h"

namespace kiln::minify {

class Checkpoints {
 public:
  Checkpoints(const MinifyOptions& options, std::string torch_version);
  // Writes a program that is a good deal smaller than the last one written.
  void offer(const Program& program);
  // Writes this one in any case, with what is known about it, and the copies; gives the path of repro.py.
  std::string finish(const Program& program, const std::vector<std::string>& notes);
  const std::string& directory() const { return directory_; }

 private:
  void write(const Program& program, const std::vector<std::string>& notes);
  std::string repro_name(const std::string& target) const;
  ReproScript script(const Program& program, const std::vector<std::string>& notes) const;

  const MinifyOptions& options_;
  std::string directory_;
  std::string torch_version_;
  int last_ = 0;  // nodes of the last one
};

}  // namespace kiln::minify
