// A stand-in for NVRTC, for tests on machines without one: what it "compiles" is a shared object of the host in which
// the kernels run by emulation.h, for the stand-in of the driver to load. Of PTX it makes a text that nobody can load.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

extern const char emulation_text[];
extern "C" char** environ;

namespace {

struct Program {
  std::string source, name, log, code, ptx;
};

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// For each kernel a function that the driver's stand-in can call.
std::string launchers(const std::string& source) {
  const std::string head = "extern \"C\" __global__ void __launch_bounds__(";
  std::string out;
  for (size_t at = source.find(head); at != std::string::npos;) {
    const size_t next = source.find(head, at + 1), name = source.find(") ", at) + 2, open = source.find('(', name);
    const size_t type = open + std::strlen("(const "), type_end = source.find("> args", type) + 1;
    const std::string body = source.substr(at, next == std::string::npos ? next : next - at);
    const bool meets = body.find("team_reduce<") != std::string::npos || body.find("__sync") != std::string::npos;
    const std::string clusters = "__cluster_dims__(";
    const size_t dims = body.find(clusters);
    const std::string cluster =
        dims == std::string::npos ? "1"
                                  : body.substr(dims + clusters.size(), body.find(')', dims) - dims - clusters.size());
    const std::string kernel = source.substr(name, open - name), arguments = source.substr(type, type_end - type);
    out += "extern \"C\" __attribute__((visibility(\"default\"))) void emulated_" + kernel +
           "(const void* arguments, unsigned blocks, unsigned threads) {\n  emu_launch([](const void* given) { " +
           kernel + "(*(const " + arguments + "*)given); }, arguments, blocks, threads, " + (meets ? "true" : "false") +
           ", " + cluster +
           ");\n}\nextern \"C\" __attribute__((visibility(\"default\"))) const unsigned long parameter_bytes_" +
           kernel + " = sizeof(" + arguments + ");\n";
    at = next;
  }
  return out;
}

int run(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) return 1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// Part of what kept kernels are found by: it grows when the stand-in of the driver wants other objects.
EXPORT int nvrtcVersion(int* major, int* minor) { return *major = 0, *minor = 3, 0; }
EXPORT const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_COMPILATION"; }
EXPORT int nvrtcCreateProgram(Program** out, const char* source, const char* name, int, const char* const*,
                              const char* const*) {
  *out = new Program{source, name ? name : "", "", "", ""};
  return 0;
}
EXPORT int nvrtcDestroyProgram(Program** program) { return delete *program, *program = nullptr, 0; }

EXPORT int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  for (int i = 0; i < count; ++i)
    if (std::strstr(options[i], "=compute_")) return program->ptx = "// the stand-in makes no PTX", 0;
  char folder[] = "/tmp/kiln-stand-in-XXXXXX";
  if (!mkdtemp(folder)) return 1;
  const std::string in = std::string(folder) + "/kernels.cpp", out = std::string(folder) + "/kernels.so",
                    log = std::string(folder) + "/log";
  std::ofstream(in) << emulation_text << "#line 1 \"" << program->name << "\"\n"
                    << program->source << launchers(program->source);
  const char* compiler = std::getenv("KILN_CXX");
  const int status =
      run({"sh", "-c", "exec \"$0\" \"$@\" > " + log + " 2>&1", compiler && *compiler ? compiler : "g++", "-std=c++17",
           "-O1", "-fPIC", "-shared", "-fwrapv", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden",
           "-fno-exceptions", "-fno-strict-aliasing", "-w", in, "-o", out, "-lm"});
  program->log = file_text(log);
  if (status == 0) program->code = file_text(out);
  for (const std::string& file : {in, out, log}) unlink(file.c_str());
  rmdir(folder);
  return status == 0 ? 0 : 6;
}

EXPORT int nvrtcGetProgramLogSize(Program* program, size_t* size) { return *size = program->log.size() + 1, 0; }
EXPORT int nvrtcGetProgramLog(Program* program, char* to) {
  std::memcpy(to, program->log.c_str(), program->log.size() + 1);
  return 0;
}
EXPORT int nvrtcGetCUBINSize(Program* program, size_t* size) { return *size = program->code.size(), 0; }
EXPORT int nvrtcGetCUBIN(Program* program, char* to) {
  std::memcpy(to, program->code.data(), program->code.size());
  return 0;
}
EXPORT int nvrtcGetPTXSize(Program* program, size_t* size) { return *size = program->ptx.size() + 1, 0; }
EXPORT int nvrtcGetPTX(Program* program, char* to) {
  std::memcpy(to, program->ptx.c_str(), program->ptx.size() + 1);
  return 0;
}
