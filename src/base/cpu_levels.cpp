#include "base/cpu_levels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

#include "base/error.h"
#include "base/made_once.h"

namespace kiln {
namespace {

struct Level {
  const char* name;
  std::vector<std::string> adds;  // beyond the level before
};

const std::vector<Level>& levels() {
  static std::atomic<const std::vector<Level>*> table;
  return made_once(table, [] {
    return std::vector<Level>{
        {"x86-64", {}},
        {"x86-64-v2", {"cmpxchg16b", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"}},
        {"x86-64-v3", {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}},
        {"x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}},
    };
  });
}

std::vector<std::string> extension_features(std::string_view name) {
  if (name == "vnni") return {"avx512vnni"};
  if (name == "bf16") return {"avx512bf16", "avx512vnni"};  // no processor has the first alone
  if (name == "fp16") return {"avx512fp16"};
  if (name == "amx") return {"amx-tile", "amx-bf16", "amx-int8"};
  return {std::string(name)};
}

#if defined(__x86_64__) && defined(__linux__)
// Linux gives the registers of AMX to a process that asks (arch_prctl, linux/arch/x86/include/uapi/asm/prctl.h).
constexpr long ask_supported = 0x1021, ask_permission = 0x1023;
constexpr unsigned long tile_data = 18;  // the number of their part of a thread's state

bool system_saves_tiles() {
  unsigned long supported = 0;
  return syscall(SYS_arch_prctl, ask_supported, &supported) == 0 && (supported >> tile_data & 1) != 0;
}
bool system_allows_tiles() { return syscall(SYS_arch_prctl, ask_permission, tile_data) == 0; }
#else
[[maybe_unused]] bool system_saves_tiles() { return false; }
bool system_allows_tiles() { return false; }
#endif

}  // namespace

CpuFeatures processor_features() {
  CpuFeatures found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  found.insert("x86-64");
#define KILN_FEATURE(name) \
  if (__builtin_cpu_supports(name)) found.insert(name)
  KILN_FEATURE("popcnt");
  KILN_FEATURE("sse3");
  KILN_FEATURE("ssse3");
  KILN_FEATURE("sse4.1");
  KILN_FEATURE("sse4.2");
  KILN_FEATURE("avx");
  KILN_FEATURE("avx2");
  KILN_FEATURE("bmi");
  KILN_FEATURE("bmi2");
  KILN_FEATURE("fma");
  KILN_FEATURE("avx512f");
  KILN_FEATURE("avx512bw");
  KILN_FEATURE("avx512cd");
  KILN_FEATURE("avx512dq");
  KILN_FEATURE("avx512vl");
  KILN_FEATURE("avx512vnni");
  KILN_FEATURE("avx512bf16");
#undef KILN_FEATURE
  // Asked of the processor itself: not every compiler's __builtin_cpu_supports knows these names.
  unsigned a = 0, b = 0, basic = 0, extended = 0, d = 0;
  __get_cpuid(1, &a, &b, &basic, &d);
  __get_cpuid(0x80000001, &a, &b, &extended, &d);
  if (basic & bit_CMPXCHG16B) found.insert("cmpxchg16b");
  if (basic & bit_MOVBE) found.insert("movbe");
  if ((basic & bit_F16C) && found.count("avx")) found.insert("f16c");  // its registers are saved where avx's are
  if (extended & bit_LZCNT) found.insert("lzcnt");
  unsigned more = 0;
  constexpr unsigned bit_amx_bf16 = 1u << 22, bit_amx_tile = 1u << 24, bit_amx_int8 = 1u << 25;
  if (__get_cpuid_count(7, 0, &a, &b, &basic, &more) && (more & bit_amx_tile) && system_saves_tiles()) {
    found.insert("amx-tile");
    if (more & bit_amx_bf16) found.insert("amx-bf16");
    if (more & bit_amx_int8) found.insert("amx-int8");
  }
#elif defined(__aarch64__)
  found.insert("aarch64");
#endif
  return found;
}

TargetCheck check_target(std::string_view target, const CpuFeatures& features) {
  TargetCheck check;
  std::vector<std::string> parts = split(target, '+');
  auto need = [&](const std::string& feature) {
    if (!features.contains(feature)) check.missing.push_back(feature);
  };
  if (parts[0] == "generic") {
    check.known = true;  // what every processor of its kind has; of another kind, loading the code says so
  } else if (parts[0] == "aarch64") {
    check.known = true;
    need("aarch64");
  } else if (starts_with(parts[0], "x86-64")) {
    need("x86-64");
    for (const Level& level : levels()) {
      for (const std::string& feature : level.adds) need(feature);
      check.known = parts[0] == level.name;
      if (check.known) break;
    }
  }
  for (size_t i = 1; i < parts.size(); ++i)
    for (const std::string& feature : extension_features(parts[i])) need(feature);
  return check;
}

bool allow_target(std::string_view target) {
  const std::vector<std::string> parts = split(target, '+');
  for (size_t i = 1; i < parts.size(); ++i)
    if (parts[i] == "amx") return system_allows_tiles();
  return true;
}

std::string best_cpu_level(const CpuFeatures& features) {
  std::string best;
  for (const Level& level : levels())
    if (check_target(level.name, features).runs()) best = level.name;
  return best;
}

namespace {

// Levels order as their names do, and extensions make a name longer; code for every processor is the last choice. What
// has bf16 has products of bytes as well, so these alone are the least extension.
std::string rank(const std::string& target) {
  constexpr std::string_view bytes = "+vnni";
  return ends_with(target, bytes) ? target.substr(0, target.size() - bytes.size() + 1) : target;
}

bool better(const std::string& one, const std::string& other) {
  const bool generic = one == "generic", other_generic = other == "generic";
  return generic == other_generic ? rank(one) > rank(other) : other_generic;
}

std::string reason(const std::string& target, const TargetCheck& check) {
  const std::string missing = join(check.missing, ", ");
  if (check.known) return str(target, " needs ", missing);
  return str(target, " is not known to this runtime", missing.empty() ? "" : " and needs ", missing);
}

}  // namespace

size_t choose_target(const std::vector<std::string>& targets, const CpuFeatures& features) {
  size_t best = targets.size();
  for (size_t i = 0; i < targets.size(); ++i) {
    if (check_target(targets[i], features).runs() && (best == targets.size() || better(targets[i], targets[best])))
      best = i;
  }
  if (best < targets.size()) return best;
  std::string message = "this package has no code that this processor can run";
  if (targets.empty()) message = "this package has no code";
  for (const std::string& target : targets) message += "; " + reason(target, check_target(target, features));
  if (!targets.empty()) message += "; compile it again with --target naming a lower level";
  fail_user("K0511", message);
}

size_t choose_allowed_target(const std::vector<std::string>& targets, const CpuFeatures& features) {
  const size_t best = choose_target(targets, features);
  if (allow_target(targets[best])) return best;
  CpuFeatures allowed = features;
  allowed.erase("amx-tile");
  return choose_target(targets, allowed);
}

}  // namespace kiln
