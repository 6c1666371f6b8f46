
#include "base/settings.h"

namespace kiln {
namespace {

constexpr Phase C = Phase::compile, R = Phase::run, CR = Phase::both;
constexpr SettingType boolean = SettingType::boolean, integer = SettingType::integer, text = SettingType::text,
                      list = SettingType::list;
constexpr SettingUse acts = SettingUse::acts, not_built = SettingUse::not_built, always_so = SettingUse::always_so;
constexpr bool anywhere = false, this_machine = true;
constexpr const char* relu_bugs = "compile_error|runtime_error|accuracy";

constexpr Setting table[] = {
    // ---- checks
    {"check_inputs", "AOTI_RUNTIME_CHECK_INPUTS", R, integer, "None",
     "checks of inputs: None the cheap ones, 0 off, 1 also reports strides and alignments that force a copy", acts,
     anywhere, "0|1"},
    {"nan_asserts", "TORCHINDUCTOR_NAN_ASSERTS", R, boolean, "0", "NaN and Inf check before and after each kernel"},
    {"nan_asserts_infinities", "KILN_NAN_ASSERTS_INFINITIES", R, boolean, "1",
     "nan_asserts stops at Inf too; 0: at NaN alone, for programs that mask with -inf"},
    {"check_bounds", "", R, boolean, "0", "every load and store of generated kernels is checked"},
    {"verify_weights", "KILN_VERIFY_WEIGHTS", R, integer, "None",
     "checksums of weights at loading: None of up to 4 MB of them, 0 never, 1 always", acts, anywhere, "0|1"},
    // ---- looking at values
    {"aot_inductor.debug_intermediate_value_printer", "AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER", R, integer, "0",
     "0 off, 1 save, 2 print, 3 print kernel names only", acts, anywhere, "0..3"},
    {"aot_inductor.filtered_kernel_names", "AOT_INDUCTOR_FILTERED_KERNELS_TO_PRINT", R, list, "None",
     "kernels to print or save: names or globs, case ignored"},
    {"fault_dir", "KILN_FAULT_DIR", R, text, "None", "where a fault bundle is written"},
    {"name_faults", "KILN_NAME_FAULTS", R, boolean, "0",
     "a signal inside a kernel is named, with step and source line; the command kiln always does unless 0"},
    {"fault_values", "KILN_FAULT_VALUES", R, boolean, "1", "a fault bundle holds the values of the step's arguments"},
    {"intermediate_value_dir", "KILN_SAVE_DIR", R, text, "None",
     "where mode 1 of the value printer saves; None: aoti_torch in the temporary directory"},
    {"intermediate_value_style", "KILN_PRINTER_STYLE", R, list, "None",
     "form of mode 2 of the value printer: written, table or json (values that kernels wrote), init (weights' too)",
     acts, anywhere, "written|table|json|init"},
    {"code_dir", "KILN_CODE_DIR", R, text, "None",
     "folder that kernels' code is kept in as files, where perf can read their names; None: memory only"},
    // ---- CUDA
    {"CUDA_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING", R, boolean, "0", "each launch on a GPU is waited for"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_CUDA_MEMORY_CACHING", R, boolean, "0",
     "each buffer its own exact allocation, against a guard page on the CPU"},
    {"triton.cudagraphs", "TORCHINDUCTOR_TRITON_CUDAGRAPHS", R, integer, "None",
     "replay as CUDA graphs: None wherever it is possible, 0 never, 1 with a hint where it is not", acts, anywhere,
     "0|1"},
    {"triton.debug_sync_kernel", "", R, boolean, "0", "wait after each kernel on a GPU"},
    {"triton.debug_sync_graph", "", R, boolean, "0", "wait after each run on a GPU, whatever its caller asked for"},
    // ---- running
    {"cpp.threads", "", R, integer, "-1", "threads of a run; -1: all that the process may use", acts, anywhere,
     "-1|1.."},
    // ---- failures
    {"aot_inductor.dump_aoti_minifier", "DUMP_AOTI_MINIFIER", CR, boolean, "0",
     "on any error in compile, load or run: write the minifier's directory and say where"},
    {"aot_inductor.repro_level", "AOTINDUCTOR_REPRO_LEVEL", CR, integer, "2",
     "1 graph only, 2 launcher on failure, 3 always, 4 on accuracy failure", acts, anywhere, "1..4"},
    {"TORCHDYNAMO_REPRO_AFTER", "TORCHDYNAMO_REPRO_AFTER", CR, text, "None",
     "aot: minify the graph; inductor: down to the kernel", acts, anywhere, "aot|inductor"},
    {"TORCH_SHOW_CPP_STACKTRACES", "TORCH_SHOW_CPP_STACKTRACES", CR, boolean, "0", "native stack with errors"},
    // ---- logs
    {"debug", "TORCH_COMPILE_DEBUG", CR, boolean, "0", "the debug directory"},
    {"trace.enabled", "TORCH_COMPILE_DEBUG", CR, boolean, "0", "the debug directory"},
    {"debug_dir_root", "TORCH_COMPILE_DEBUG_DIR", CR, text, "torch_compile_debug", "where debug directories are made"},
    {"TORCH_LOGS", "TORCH_LOGS", CR, list, "None", "components and artifacts to log, with + and -"},
    {"TORCH_LOGS_OUT", "TORCH_LOGS_OUT", CR, text, "None", "file that the log goes to; None: standard error"},
    {"TORCH_TRACE", "TORCH_TRACE", CR, text, "None", "directory of the structured trace for the report"},
    // ---- compiling
    {"freezing", "TORCHINDUCTOR_FREEZING", C, boolean, "0",
     "fold and prepack weights at compile time: the package has them packed, and loading packs nothing"},
    {"max_autotune", "TORCHINDUCTOR_MAX_AUTOTUNE", C, boolean, "0", "measured choice of kernels", not_built},
    {"max_autotune_gemm", "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM", C, boolean, "0",
     "measured choice of kernels for matrix products", not_built},
    {"autotune_local_cache", "", C, boolean, "1", "keep measured choices on disk", not_built},
    {"autotune_remote_cache", "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE", C, boolean, "0",
     "share measured choices through Redis", not_built},
    {"TORCHINDUCTOR_REDIS_HOST", "TORCHINDUCTOR_REDIS_HOST", C, text, "localhost", "host of the Redis server",
     not_built},
    {"TORCHINDUCTOR_REDIS_PORT", "TORCHINDUCTOR_REDIS_PORT", C, integer, "6379", "port of the Redis server", not_built,
     anywhere, "1..65535"},
    {"cpp.simdlen", "", C, integer, "None", "vector width in bits; None: detected; 1: scalar", acts, anywhere,
     "1|128|256|512"},
    {"triton.unique_kernel_names", "", C, boolean, "1", "every kernel has a name of its own", always_so},
    {"cpp_wrapper", "", C, boolean, "1", "no Python between the kernels", always_so},
    {"generate_intermediate_hooks", "", C, boolean, "1", "a hook can look at every step of a run", always_so},
    {"aot_inductor.package", "", C, boolean, "1", "what is compiled is a package", always_so},
    {"aot_inductor.package_constants_in_so", "", C, boolean, "1",
     "weights are in the package; 0: it is loaded without parameters and persistent buffers, and given them"},
    {"aot_inductor.metadata", "", C, text, "None",
     "what the package says of itself to its users: a JSON object, {\"author\": \"me\"}"},
    {"float32_matmul_precision", "", C, text, "highest",
     "medium: factors of f32 products with a weight, of attention, or with numbers of bf16, are rounded to bf16 on a "
     "CPU with "
     "instructions for those; high or medium: to TF32 on a GPU",
     acts, anywhere, "highest|high|medium"},
    {"pattern_matcher", "", C, boolean, "1",
     "0: the passes that look for known patterns (fuse_attention, join_products, use_winograd) are left out"},
    {"verbose_progress", "", C, boolean, "0", "progress lines"},
    {"cpp.inject_relu_bug_TESTING_ONLY", "", C, text, "None",
     "compile_error, runtime_error or accuracy: a wrong relu, to try the debugging tools on", acts, anywhere,
     relu_bugs},
    {"triton.inject_relu_bug_TESTING_ONLY", "", C, text, "None",
     "compile_error, runtime_error or accuracy: a wrong relu, to try the debugging tools on", acts, anywhere,
     relu_bugs},
    // ---- Kiln's own
    {"inject_fault_TESTING_ONLY", "", C, text, "None",
     "a fault put in on purpose: KIND:OPERATOR[+OPERATOR][:above=N|dynamic|subgraph|sometimes|node=NAME] "
     "(src/loop_passes/inject_fault.h)"},
    {"disable_pass", "", C, list, "None", "passes that do not run"},
    {"stop_after", "", C, text, "None", "the last pass that runs; the program is printed, no package made"},
    {"dump_after", "", C, text, "None", "the pass after which the program is printed, or all; no package is made"},
    {"full_source_paths", "KILN_FULL_SOURCE_PATHS", C, boolean, "0",
     "packages name the user's source files with their whole paths, not shortened", acts, this_machine},
    {"cache_dir", "KILN_CACHE_DIR", C, text, "None",
     "the cache of compiled kernels; None: under the user's cache directory", acts, this_machine},
    {"compiler", "KILN_CXX", CR, text, "None",
     "the C++ compiler, of a run with check_bounds too; None: the first of g++, clang++, c++ that is found", acts,
     this_machine},
    {"nvrtc", "KILN_NVRTC", CR, text, "None",
     "the path of NVRTC, which compiles for cuda, in a run with check_bounds too; None: of a CUDA toolkit or of "
     "Python's "
     "packages",
     acts, this_machine},
};

}  // namespace

std::span<const Setting> settings_table() { return table; }

}  // namespace kiln
