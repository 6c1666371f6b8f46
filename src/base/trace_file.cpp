#include "base/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "base/file.h"
#include "base/made_once.h"
#include "base/version.h"

namespace kiln {

const std::string& process_stamp() {
  static std::atomic<const std::string*> stamp;
  return made_once(stamp, [] {
    timeval now{};
    gettimeofday(&now, nullptr);
    tm local{};
    localtime_r(&now.tv_sec, &local);
    char text[96];
    snprintf(text, sizeof text, "%04d_%02d_%02d_%02d_%02d_%02d_%06ld-pid_%ld", local.tm_year + 1900, local.tm_mon + 1,
             local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, static_cast<long>(now.tv_usec),
             static_cast<long>(getpid()));
    return std::string(text);
  });
}

TraceFile::TraceFile(const std::string& directory) {
  make_directories(directory, 0700);
  path_ = join_path(directory, str("kiln_trace_", process_stamp(), ".jsonl"));
  const bool fresh = !file_exists(path_);
  // The directory may be one that others write to as well: nothing of theirs is followed or added to.
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  if (descriptor_ < 0) fail_user("K0101", str("cannot write ", path_, ": ", strerror(errno)));
  struct stat info {};
  if (fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
    close(descriptor_);
    fail_user("K0101", str("cannot write ", path_, ": it is not a file of this user"));
  }
  if (!fresh) return;
  Json session = Json::object();
  session.set("trace_version", trace_version);
  session.set("kiln_version", version_text);
  session.set("pid", static_cast<int64_t>(getpid()));
  write("session", session);
}

TraceFile::~TraceFile() { close(descriptor_); }

void TraceFile::write(std::string_view type, const Json& record) {
  timeval now{};
  gettimeofday(&now, nullptr);
  Json line = Json::object();
  line.set("type", type);
  line.set("time", static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_usec) * 1e-6);
  std::string text = json_text(line);
  const std::string members = json_text(record);
  if (members.size() > 2) {
    text.back() = ',';
    text.append(members, 1);
  }
  text += '\n';
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(descriptor_, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_user("K0101", str("cannot write ", path_, ": ", strerror(errno)));
    done += static_cast<size_t>(count);
  }
}

}  // namespace kiln
