// No setting is silently without effect.
//
// Every setting of phase R, demonstrated on a package that was compiled without it: given by the environment, as an
// option of kiln_load and on the command line, to a whole package and to a stripped one with its sidecar. A setting of
// the table that has no demonstration here fails the test.
//
// Every setting given to a compile acts, is kept in the package, or has a note or an error that says so; every name of
// the documents is known.
#include "base/settings.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>

#include "base/file.h"
#include "base/text.h"
#include "base/zip.h"
#include "kiln/kiln.hpp"

namespace kiln {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

struct Outcome {
  std::string error;   // of loading or running; "" when it went well
  std::string text;    // what was said: the log's lines, standard error of the command
  std::string folder;  // where it may have written
};

enum class Input { good, nan, other_dtype, damaged_weights /* good ones, to a damaged package */ };
enum class Way { environment, option, command };

struct Demonstration {
  const char* key;
  const char* value;                // "@": a folder of the test, "@/log": a file in it
  std::vector<std::string> beside;  // other settings that make it show
  Input input = Input::good;
  std::function<bool(const Outcome&)> shown;
};

// Some file below the folder whose name has `name`, and that holds `text`.
bool written(const std::string& folder, const std::string& name, const std::string& text = "") {
  if (!file_exists(folder)) return false;
  for (const std::string& entry : list_directory(folder)) {
    const std::string path = join_path(folder, entry);
    if (is_directory(path) ? written(path, name, text)
                           : entry.find(name) != std::string::npos && read_file(path).find(text) != std::string::npos)
      return true;
  }
  return false;
}
auto says(std::string text) {
  return [text = std::move(text)](const Outcome& o) {
    return o.text.find(text) != std::string::npos || o.error.find(text) != std::string::npos;
  };
}
auto writes(std::string name, std::string text = "") {
  return [=](const Outcome& o) { return written(o.folder, name, text); };
}
// Built for CUDA only: accepted, and said to have no use yet.
auto is_idle() { return says("does nothing: the package runs on the CPU"); }  // on a GPU: tests/cuda_stand_in

std::vector<Demonstration> demonstrations() {
  const std::string print = "aot_inductor.debug_intermediate_value_printer";
  const std::vector<std::string> root{"debug_dir_root=@"},
      dump{"debug_dir_root=@", "aot_inductor.dump_aoti_minifier=1"}, failing{"debug_dir_root=@", "nan_asserts=1"};
  return {
      {"check_inputs", "0", {}, Input::other_dtype, [](const Outcome& o) { return o.error.empty(); }},
      {"verify_weights", "0", {}, Input::damaged_weights, [](const Outcome& o) { return o.error.empty(); }},
      {"nan_asserts", "1", {}, Input::nan, says("it was already in input x of the model")},
      {"nan_asserts_infinities", "0", {"nan_asserts=1"}, Input::nan, says("NaN before kernel")},
      {"check_bounds", "1", {print + "=3"}, Input::good, [](const Outcome& o) { return o.error.empty(); }},
      {"aot_inductor.debug_intermediate_value_printer", "2", {}, Input::good, says("checksum")},
      {"aot_inductor.filtered_kernel_names", "no_such*", {print + "=3"}, Input::good, says("matches no kernel")},
      {"fault_dir", "@", {"nan_asserts=1"}, Input::nan, writes("fault_cpp_", "sample_inputs")},
      {"fault_values",
       "0",
       {"nan_asserts=1", "fault_dir=@"},
       Input::nan,
       [](const Outcome& o) {
         return written(o.folder, "fault_cpp_") && !written(o.folder, "fault", "sample_inputs");
       }},
      {"name_faults", "1", {}, Input::good, [](const Outcome& o) { return o.error.empty(); }},
      {"intermediate_value_style", "json", {print + "=2"}, Input::good, says("\"mean\":")},
      {"code_dir", "@", {}, Input::good, writes("kiln-", "cpp_")},
      {"intermediate_value_dir", "@", {print + "=1"}, Input::good, writes("before_launch_cpp_")},
      {"CUDA_LAUNCH_BLOCKING", "1", {}, Input::good, is_idle()},
      {"PYTORCH_NO_CUDA_MEMORY_CACHING", "1", {}, Input::good, [](const Outcome& o) { return o.error.empty(); }},
      {"triton.cudagraphs", "1", {}, Input::good, is_idle()},
      {"triton.debug_sync_kernel", "1", {}, Input::good, is_idle()},
      {"triton.debug_sync_graph", "1", {}, Input::good, is_idle()},
      // That it is read at all; how many threads then run is looked at by the runtime's own tests.
      {"cpp.threads", "many", {}, Input::good, says("cpp.threads")},
      {"compiler", "/no/such/compiler", {"check_bounds=1"}, Input::good, says("/no/such/compiler")},
      {"nvrtc", "/no/such/nvrtc", {}, Input::good, [](const Outcome& o) { return o.error.empty(); }},
      {"aot_inductor.dump_aoti_minifier", "1", failing, Input::nan, writes("minifier_launcher.py")},
      {"aot_inductor.repro_level", "3", root, Input::good, writes("minifier_launcher.py")},
      {"TORCHDYNAMO_REPRO_AFTER", "inductor", failing, Input::nan, writes("minifier_launcher.py", "inductor")},
      {"TORCH_SHOW_CPP_STACKTRACES", "1", {}, Input::other_dtype, says("native stack")},
      {"debug", "1", root, Input::good, writes("fx_graph_readable.py", "linear")},
      {"trace.enabled", "1", root, Input::good, writes("output_code.cpp", "cpp_")},
      {"debug_dir_root", "@", {"debug=1"}, Input::good, writes("ir_post_fusion.txt")},
      {"TORCH_LOGS", "guards", {"TORCH_LOGS_OUT=@/log"}, Input::good, writes("log", "[__guards]")},
      {"TORCH_LOGS_OUT", "@/log", {"TORCH_LOGS=kernel_code"}, Input::good, writes("log", "[__kernel_code]")},
      {"TORCH_TRACE", "@", {}, Input::good, writes(".jsonl", "cpp_")},
  };
}

class PhaseR : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = new TemporaryDirectory;
    const std::string model = join_path(environment("KILN_SOURCE_DIR"), "tests/cases/mlp/model.pt2");
    ASSERT_EQ(shell(str("compile ", model, " -o ", package(false))).error, "");
    ASSERT_EQ(shell(str("compile ", model, " --strip-debug -o ", package(true))).error, "");
    for (const bool stripped : {false, true}) write_file_atomic(damaged(stripped), damaged_copy(package(stripped)));
    write_npy("good.npy", "<f4", std::vector<float>(80, 0.5f));
    write_npy("nan.npy", "<f4", std::vector<float>(80, NAN));
    write_npy("other.npy", "<f8", std::vector<double>(80, 0.5));
  }
  static void TearDownTestSuite() { delete std::exchange(folder(), nullptr); }
  static TemporaryDirectory*& folder() {
    static TemporaryDirectory* directory = nullptr;
    return directory;
  }
  static std::string in(const std::string& name) { return join_path(folder()->path(), name); }
  static std::string package(bool stripped) { return in(stripped ? "stripped.kiln.pt2" : "whole.kiln.pt2"); }

  static std::string damaged(bool stripped) { return in(stripped ? "stripped.bad.pt2" : "whole.bad.pt2"); }
  // One bit of the first weight (160 floats) is another.
  static std::string damaged_copy(const std::string& path) {
    std::string bytes = read_file(path);
    const ZipReader zip(as_bytes(bytes), path);
    bytes[zip.at("model/data/weights/weight_0").data + 100] ^= 1;
    return bytes;
  }

  template <class T>
  static void write_npy(const std::string& name, const char* type, const std::vector<T>& values) {
    std::string header = str("{'descr': '", type, "', 'fortran_order': False, 'shape': (8, 10), }");
    header.append(117 - header.size(), ' ').append("\n");
    std::string bytes("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(header.size()), bytes += '\0', bytes += header;
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    write_file_atomic(in(name), bytes);
  }

  // The command; an exit code other than 0 is an error whose text is what it printed.
  static Outcome shell(const std::string& arguments) {
    const std::string command = str(environment("KILN_BINARY_DIR"), "/bin/kiln ", arguments, " 2>&1");
    Outcome outcome;
    FILE* pipe = popen(command.c_str(), "r");
    char buffer[4096];
    while (size_t n = fread(buffer, 1, sizeof buffer, pipe)) outcome.text.append(buffer, n);
    if (pclose(pipe) != 0) outcome.error = outcome.text;
    return outcome;
  }

  static Outcome by_command(const std::string& path, const std::vector<std::string>& settings, Input input) {
    const char* files[] = {"good.npy", "nan.npy", "other.npy", "good.npy"};
    std::string arguments = str("run ", path, " --inputs ", in(files[static_cast<int>(input)]));
    for (const std::string& setting : settings) arguments += str(" --config '", setting, "'");
    return shell(arguments);
  }

  static Outcome by_interface(const std::string& path, const std::vector<std::string>& settings, Input input) {
    Outcome outcome;
    kiln::LoadOptions options;
    options.settings = settings;
    options.log = [](void* user, kiln_log_level, const char* text) {
      static_cast<std::string*>(user)->append(text).append("\n");
    };
    options.log_user = &outcome.text;
    try {
      kiln::Model model(path, options);
      kiln::Instance instance(model);
      std::vector<float> values(80, input == Input::nan ? NAN : 0.5f);
      std::vector<double> wide(80, 0.5);
      std::vector<kiln::Value> inputs;
      inputs.push_back(input == Input::other_dtype ? kiln::tensor(wide.data(), {8, 10})
                                                   : kiln::tensor(values.data(), {8, 10}));
      instance.run(inputs);
    } catch (const kiln::Exception& error) {
      outcome.error = error.what();
    }
    return outcome;
  }

  static Outcome run(const Demonstration& d, Way way, bool stripped, bool given) {
    const std::string folder = in(str("out_", counter()++));
    const auto fill = [&](std::string text) {
      if (const size_t at = text.find('@'); at != std::string::npos) text.replace(at, 1, folder);
      return text;
    };
    make_directories(folder);
    std::vector<std::string> settings;
    for (const std::string& setting : d.beside) settings.push_back(fill(setting));
    const Setting& setting = setting_of(d.key);
    const bool in_environment = given && way == Way::environment;
    if (in_environment) setenv(setting.environment, fill(d.value).c_str(), 1);
    if (given && !in_environment) settings.push_back(str(d.key, "=", fill(d.value)));
    const std::string path = d.input == Input::damaged_weights ? damaged(stripped) : package(stripped);
    Outcome outcome = way == Way::command ? by_command(path, settings, d.input) : by_interface(path, settings, d.input);
    if (in_environment) unsetenv(setting.environment);
    outcome.folder = folder;
    return outcome;
  }
  static constexpr const char* broken = "cpp.inject_relu_bug_TESTING_ONLY=compile_error";

  // A value that differs from the default and is allowed.
  static std::string other_value(const Setting& setting) {
    const std::string_view usual = setting.default_text;
    if (*setting.values)
      for (const std::string& one : split(setting.values, '|'))
        if (const std::string word = one.substr(0, one.find("..")); word != usual) return word;
    if (setting.type == SettingType::boolean) return usual == "1" ? "0" : "1";
    if (setting.type == SettingType::integer) return usual == "1" ? "2" : "1";
    return "other";
  }
  static std::vector<std::string> beside_only(std::vector<std::string> beside, const std::string& folder) {
    make_directories(folder);
    for (std::string& assignment : beside) assignment = replace_all(assignment, "@", folder);
    return beside;
  }
  // What a compile prints, and which package it makes.
  static std::string compile_text(const std::string& model, const std::vector<std::string>& settings) {
    const std::string out = in("compiled.pt2");
    std::string arguments = str("compile ", model, " -o ", out);
    for (const std::string& setting : settings) arguments += str(" --config '", setting, "'");
    remove(out.c_str());
    std::string text = shell(arguments).text;
    if (!file_exists(out)) return text;
    const std::string inspected = shell(str("inspect ", out)).text;
    const size_t build = inspected.find("build "), metadata = inspected.find("  metadata ");
    text += inspected.substr(build, 38);
    return metadata == std::string::npos ? text : text + inspected.substr(metadata, 40);
  }
  // Times differ from run to run. What is left of a build's name still tells one from another.
  static std::string masked(const std::string& text) {
    std::string out;
    for (const char c : text)
      if (!(c >= '0' && c <= '9')) out += c;
    for (const char* unit : {" ms", " µs", " s"}) out = replace_all(out, unit, "");
    return replace_all(out, ", from the cache", "");
  }
  static int& counter() {
    static int count = 0;
    return count;
  }
  static const Setting& setting_of(std::string_view key) {
    for (const Setting& setting : settings_table())
      if (setting.key == key) return setting;
    throw std::runtime_error(str("no setting ", key));
  }
};

TEST_F(PhaseR, CheckedRunsOpenTheirLibrary) {
  const auto opened = [] {
    std::ifstream maps("/proc/self/maps");
    const std::string text((std::istreambuf_iterator<char>(maps)), std::istreambuf_iterator<char>());
    return text.find("libkiln_debug.so") != std::string::npos;
  };
  // It stays open once it was: this process must not have used it yet.
  if (opened()) GTEST_SKIP() << "another test of this process has opened it";
  by_interface(package(false), {}, Input::good);
  EXPECT_FALSE(opened());
  EXPECT_EQ(by_interface(package(true), {"check_bounds=1"}, Input::good).error, "");
  EXPECT_TRUE(opened());
}

TEST_F(PhaseR, EverySettingHasADemonstration) {
  for (const Setting& setting : settings_table()) {
    if (setting.phase == Phase::compile) continue;
    const auto all = demonstrations();
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Demonstration& d) {
      return std::string_view(d.key) == setting.key;
    })) << setting.key;
  }
}

TEST_F(PhaseR, EveryOneActsOnAPackageCompiledWithoutIt) {
  const char* names[] = {"environment", "option", "command"};
  for (const Demonstration& d : demonstrations())
    for (const Way way : {Way::environment, Way::option, Way::command})
      for (const bool stripped : {false, true}) {
        if (way == Way::environment && !*setting_of(d.key).environment) continue;
        const Outcome outcome = run(d, way, stripped, true);
        EXPECT_TRUE(d.shown(outcome)) << d.key << " by " << names[static_cast<int>(way)]
                                      << (stripped ? ", stripped" : "") << "\nerror: " << outcome.error
                                      << "\nsaid: " << outcome.text;
      }
}

// The demonstrations can fail: without the setting nothing of the kind is there. (Those whose effect is that a run goes
// on as before are looked at by other tests, each by its own.)
TEST_F(PhaseR, NothingShowsWithoutIt) {
  for (const Demonstration& d : demonstrations()) {
    const std::string_view key = d.key;
    if (key == "check_bounds" || key == "PYTORCH_NO_CUDA_MEMORY_CACHING" || key == "fault_values" ||
        key == "name_faults" || key == "nvrtc")
      continue;
    Demonstration bare = d;
    if (key == "debug_dir_root" || key == "TORCH_LOGS_OUT" || key == "intermediate_value_dir") bare.beside.clear();
    EXPECT_FALSE(d.shown(run(bare, Way::option, false, false))) << d.key;
  }
}

// A package whose kernel crashes: named by the library where it is asked, by the command unless it is told not to.
TEST_F(PhaseR, CrashesAreNamed) {
  const std::string path = in("crash.kiln.pt2");
  const std::string model = join_path(environment("KILN_SOURCE_DIR"), "tests/cases/mlp/model.pt2");
  ASSERT_EQ(shell(str("compile ", model, " -o ", path, " --config inject_fault_TESTING_ONLY=crash:relu")).error, "");
  const auto load_and_run = [&](std::vector<std::string> settings) {
    kiln::LoadOptions options;
    options.settings = std::move(settings), options.ignore_environment = true;
    kiln::Model crashing(path, options);
    std::vector<float> x(80, 0.5f);
    kiln::Instance(crashing).run({kiln::tensor(x.data(), {8, 10})});
  };
  const char* named = "error.K0638.: SIGSEGV .* inside kernel cpp_.* \\(step [0-9]+\\)\n  --> generate_cases.py:";
  EXPECT_EXIT(load_and_run({"name_faults=1"}), testing::KilledBySignal(SIGSEGV), named);
  EXPECT_EXIT(load_and_run({}), testing::KilledBySignal(SIGSEGV), "^$");
  EXPECT_NE(shell(str("run ", path)).text.find("error[K0638]: SIGSEGV"), std::string::npos);
  EXPECT_EQ(shell(str("run ", path, " --config name_faults=0")).text.find("K0638"), std::string::npos);
}

// Settings of which the printed result says nothing.
TEST_F(PhaseR, BuffersOfTheirOwnEndAtAGuardPage) {
  const auto ends_at_page = [](const std::vector<std::string>& settings) {
    kiln::LoadOptions options;
    options.settings = settings;
    kiln::Model model(package(false), options);
    kiln::Instance instance(model);
    int temps[2] = {0, 0};  // all, and those whose last page is full but for the alignment
    instance.set_hook(
        [](void* user, kiln_hook_when, const kiln_step* step) {
          for (size_t i = 0; i < step->arg_count; ++i) {
            const DLTensor& t = step->args[i].tensor;
            if (step->args[i].role != KILN_ROLE_TEMP) continue;
            int64_t bytes = t.dtype.bits / 8;
            for (int32_t d = 0; d < t.ndim; ++d) bytes *= t.shape[d];
            const uintptr_t end = reinterpret_cast<uintptr_t>(t.data) + static_cast<uintptr_t>(bytes);
            ++static_cast<int*>(user)[0];
            static_cast<int*>(user)[1] += (4096 - end % 4096) % 4096 < 64;
          }
          return KILN_HOOK_CONTINUE;
        },
        temps);
    std::vector<float> x(80, 0.5f);
    instance.run({kiln::tensor(x.data(), {8, 10})});
    return temps[0] > 0 && temps[0] == temps[1];
  };
  EXPECT_TRUE(ends_at_page({"PYTORCH_NO_CUDA_MEMORY_CACHING=1"}));
}

// Given explicitly to a run, what acts while compiling is an error; in the environment it is not for that phase.
TEST_F(PhaseR, CompileSettingsComeTooLate) {
  for (const Setting& setting : settings_table()) {
    if (setting.phase != Phase::compile) continue;
    const Outcome outcome = by_interface(package(false), {str(setting.key, "=", other_value(setting))}, Input::good);
    EXPECT_NE(outcome.error.find("K0141"), std::string::npos) << setting.key << ": " << outcome.error;
    if (!*setting.environment) continue;
    setenv(setting.environment, other_value(setting).c_str(), 1);
    EXPECT_EQ(by_interface(package(false), {}, Input::good).error, "") << setting.environment;
    unsetenv(setting.environment);
  }
}

TEST_F(PhaseR, EachIdlePartOfAFilterIsNamed) {
  const Outcome outcome = by_interface(package(false),
                                       {"aot_inductor.debug_intermediate_value_printer=3",
                                        "aot_inductor.filtered_kernel_names=cpp_*, no_such, nor*this"},
                                       Input::good);
  EXPECT_NE(outcome.text.find("no_such, nor*this matches no kernel"), std::string::npos) << outcome.text;
}

TEST_F(PhaseR, CheckInputsReportsCopies) {
  std::vector<float> x(80, 0.5f);
  for (const char* level : {"1", "0", "None"}) {
    std::string text;
    kiln::LoadOptions options;
    options.settings = {str("check_inputs=", level)};
    options.log = [](void* user, kiln_log_level, const char* line) { static_cast<std::string*>(user)->append(line); };
    options.log_user = &text;
    kiln::Model model(package(false), options);
    kiln::Instance instance(model);
    for (int i = 0; i < 2; ++i) instance.run({kiln::tensor(x.data(), {8, 10}, {1, 8})});
    const bool said = text.find(
                          "input_handles[0] is copied before each run: its strides are [1, 8], the kernels take "
                          "[10, 1] (input 'x')") != std::string::npos;
    EXPECT_EQ(said, std::string_view(level) == "1") << level << ": " << text;
    if (!said) continue;
    EXPECT_EQ(text.find("is copied"), text.rfind("is copied")) << "once, not for each run";
  }
}

TEST_F(PhaseR, AnIndexOfTheOnlyCpuIsSaidToDoNothing) {
  const Outcome outcome = shell(str("run ", package(false), " --device-index 1"));
  EXPECT_EQ(outcome.error, "");
  EXPECT_NE(outcome.text.find("device index 1 does nothing"), std::string::npos) << outcome.text;
}

TEST_F(PhaseR, UnknownVariablesOfInductorAreNoted) {
  setenv("TORCHINDUCTOR_NAN_ASSERT", "1", 1);
  const Outcome run = shell(str("run ", package(false)));
  unsetenv("TORCHINDUCTOR_NAN_ASSERT");
  EXPECT_NE(run.text.find("the nearest is 'TORCHINDUCTOR_NAN_ASSERTS'"), std::string::npos) << run.text;
  EXPECT_EQ(run.text.find("TORCHINDUCTOR_NAN_ASSERT "), run.text.rfind("TORCHINDUCTOR_NAN_ASSERT ")) << run.text;
}

// ---- at compile: what was given shows in what is said, in what the package is, or in an error
TEST_F(PhaseR, EverySettingGivenToACompileShows) {
  const std::string model = join_path(environment("KILN_SOURCE_DIR"), "tests/cases/mlp/model.pt2");
  const std::string plain = masked(compile_text(model, {}));
  // Settings that need something beside them, or a value of their own, to show.
  const std::map<std::string, std::vector<std::string>> special = {
      {"aot_inductor.dump_aoti_minifier", {"aot_inductor.dump_aoti_minifier=1", broken, "debug_dir_root=@"}},
      {"aot_inductor.repro_level", {"aot_inductor.repro_level=3", "debug_dir_root=@"}},
      {"TORCHDYNAMO_REPRO_AFTER", {"TORCHDYNAMO_REPRO_AFTER=aot", broken, "debug_dir_root=@"}},
      {"TORCH_SHOW_CPP_STACKTRACES", {"TORCH_SHOW_CPP_STACKTRACES=1", broken}},
      {"debug", {"debug=1", "debug_dir_root=@"}},
      {"trace.enabled", {"trace.enabled=1", "debug_dir_root=@"}},
      {"debug_dir_root", {"debug_dir_root=@", "debug=1"}},
      {"TORCH_LOGS", {"TORCH_LOGS=guards"}},
      {"TORCH_LOGS_OUT", {"TORCH_LOGS_OUT=@/log", "TORCH_LOGS=guards"}},
      {"TORCH_TRACE", {"TORCH_TRACE=@"}},
      {"aot_inductor.metadata", {"aot_inductor.metadata={\"author\": \"me\"}"}},
      {"inject_fault_TESTING_ONLY", {"inject_fault_TESTING_ONLY=accuracy:relu"}},
      {"disable_pass", {"disable_pass=merge_kernels,inline_producers"}},
      {"stop_after", {"stop_after=lower"}},
      {"dump_after", {"dump_after=lower"}},
      {"cache_dir", {"cache_dir=@/cache"}},
      {"compiler", {"compiler=/no/such/compiler"}},
  };
  for (const Setting& setting : settings_table()) {
    if (std::string_view(setting.key) == "full_source_paths") continue;  // the cases' paths are short: driver's tests
    const std::string folder = in(str("out_", counter()++));
    make_directories(folder);
    const auto found = special.find(setting.key);
    std::vector<std::string> given =
        found != special.end() ? found->second : std::vector<std::string>{str(setting.key, "=", other_value(setting))};
    std::vector<std::string> beside(given.begin() + 1, given.end());
    for (std::string& assignment : given) assignment = replace_all(assignment, "@", folder);
    const std::string with = masked(compile_text(model, given));
    const std::string without = beside.empty() ? plain : masked(compile_text(model, beside_only(beside, in("beside"))));
    EXPECT_TRUE(with != without || !list_directory(folder).empty()) << setting.key << " shows nothing:\n" << with;
    if (setting.phase == Phase::run && setting.use == SettingUse::acts) {
      EXPECT_NE(with.find(masked(str("the package keeps ", setting.key, "="))), std::string::npos) << with;
    }
  }
}

// The names of the documents that users of AOT Inductor know.
// Products of f32 are bf16's where the target has instructions for those; else that is said.
TEST_F(PhaseR, MediumPrecisionRoundsFactorsWhereThatIsFaster) {
  const std::string model = join_path(environment("KILN_SOURCE_DIR"), "tests/cases/mlp/model.pt2");
  const auto made_for = [&](const char* target, const char* precision) {
    const std::string folder = in(str("precision_", counter()++));
    const Outcome made = shell(str("compile ", model, " --target ", target, " --generate ", folder,
                                   " --config float32_matmul_precision=", precision));
    EXPECT_EQ(made.error, "") << made.text;
    return std::pair(made.text, written(folder, "", " pairs\n"));
  };
  const std::string stays = "products of f32 stay f32 on ";
  const auto [no_note, rounded] = made_for("x86-64-v4+bf16", "medium");
  EXPECT_TRUE(rounded);
  EXPECT_EQ(no_note.find(stays), std::string::npos) << no_note;
  for (const auto& [target, precision, why] :
       {std::array{"x86-64-v4", "medium", "x86-64-v4, which has no instructions for bf16"},
        std::array{"x86-64-v4+bf16", "high", "x86-64-v4+bf16, which has nothing faster"},
        std::array{"x86-64-v4+bf16", "highest", ""}}) {
    const auto [text, narrow] = made_for(target, precision);
    EXPECT_FALSE(narrow) << target << " " << precision;
    EXPECT_EQ(text.find(stays) != std::string::npos, *why != 0) << text;
    EXPECT_NE(text.find(why), std::string::npos) << text;
  }
}

TEST_F(PhaseR, EveryNameOfTheDocumentsIsKnown) {
  for (const char* name : {"AOTI_RUNTIME_CHECK_INPUTS",
                           "TORCHINDUCTOR_NAN_ASSERTS",
                           "PYTORCH_NO_CUDA_MEMORY_CACHING",
                           "CUDA_LAUNCH_BLOCKING",
                           "AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER",
                           "AOT_INDUCTOR_FILTERED_KERNELS_TO_PRINT",
                           "DUMP_AOTI_MINIFIER",
                           "AOTINDUCTOR_REPRO_LEVEL",
                           "TORCHDYNAMO_REPRO_AFTER",
                           "TORCH_COMPILE_DEBUG",
                           "TORCH_COMPILE_DEBUG_DIR",
                           "TORCH_LOGS",
                           "TORCH_TRACE",
                           "TORCH_SHOW_CPP_STACKTRACES",
                           "TORCHINDUCTOR_FREEZING",
                           "TORCHINDUCTOR_TRITON_CUDAGRAPHS",
                           "TORCHINDUCTOR_MAX_AUTOTUNE",
                           "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM",
                           "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE",
                           "TORCHINDUCTOR_REDIS_HOST",
                           "TORCHINDUCTOR_REDIS_PORT",
                           "KILN_FAULT_DIR"}) {
    const auto table = settings_table();
    EXPECT_TRUE(std::any_of(table.begin(), table.end(), [&](const Setting& s) {
      return std::string_view(name) == s.environment;
    })) << name;
  }
  for (const char* key : {"check_inputs",
                          "nan_asserts",
                          "check_bounds",
                          "aot_inductor.debug_intermediate_value_printer",
                          "aot_inductor.filtered_kernel_names",
                          "fault_dir",
                          "triton.cudagraphs",
                          "triton.debug_sync_kernel",
                          "triton.debug_sync_graph",
                          "cpp.threads",
                          "aot_inductor.dump_aoti_minifier",
                          "aot_inductor.repro_level",
                          "debug",
                          "trace.enabled",
                          "debug_dir_root",
                          "freezing",
                          "max_autotune",
                          "max_autotune_gemm",
                          "autotune_local_cache",
                          "autotune_remote_cache",
                          "cpp.simdlen",
                          "triton.unique_kernel_names",
                          "cpp_wrapper",
                          "generate_intermediate_hooks",
                          "aot_inductor.package",
                          "float32_matmul_precision",
                          "pattern_matcher",
                          "verbose_progress",
                          "cpp.inject_relu_bug_TESTING_ONLY",
                          "triton.inject_relu_bug_TESTING_ONLY"})
    EXPECT_NO_THROW(setting_of(key)) << key;
}

}  // namespace
}  // namespace kiln
