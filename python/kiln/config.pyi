# Made by tools/config_stub.py from the table of settings (src/base/settings_table.cpp).
from typing import Any, Callable, Iterator, Mapping, TypeVar, overload

from . import errors

_Function = TypeVar("_Function", bound=Callable[..., Any])

class UnknownSettingError(errors.ArgumentError, AttributeError): ...

class _Patch:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: Any) -> None: ...
    def __call__(self, function: _Function) -> _Function: ...

@overload
def patch(key_or_changes: Mapping[str, Any] | None = None, **changes: Any) -> _Patch: ...
@overload
def patch(key_or_changes: str, value: Any) -> _Patch: ...
def reset() -> None: ...
def shallow_copy_dict() -> dict[str, Any]: ...
def get_config_copy() -> dict[str, Any]: ...
def explain(name: str = "") -> Iterator[str]: ...
def __getattr__(name: str) -> Any: ...  # settings of PyTorch's that Kiln has no use for
def _text(value: Any) -> str: ...
def _for_compile() -> dict[str, str]: ...
def _for_run() -> dict[str, str]: ...

class _aot_inductor:
    debug_intermediate_value_printer: int  # 0 off, 1 save, 2 print, 3 print kernel names only
    filtered_kernel_names: list[str] | None  # kernels to print or save: names or globs, case ignored
    dump_aoti_minifier: bool  # on any error in compile, load or run: write the minifier's directory and say where
    repro_level: int  # 1 graph only, 2 launcher on failure, 3 always, 4 on accuracy failure
    package: bool  # what is compiled is a package
    package_constants_in_so: bool  # weights are in the package; 0: it is loaded without parameters and persistent buffers, and given them
    metadata: str | None  # what the package says of itself to its users: a JSON object, {"author": "me"}
    def __getattr__(self, name: str) -> Any: ...

class _cpp:
    threads: int  # threads of a run; -1: all that the process may use
    simdlen: int | None  # vector width in bits; None: detected; 1: scalar
    inject_relu_bug_TESTING_ONLY: str | None  # compile_error, runtime_error or accuracy: a wrong relu, to try the debugging tools on
    def __getattr__(self, name: str) -> Any: ...

class _trace:
    enabled: bool  # the debug directory
    def __getattr__(self, name: str) -> Any: ...

class _triton:
    cudagraphs: int | None  # replay as CUDA graphs: None wherever it is possible, 0 never, 1 with a hint where it is not
    debug_sync_kernel: bool  # wait after each kernel on a GPU
    debug_sync_graph: bool  # wait after each run on a GPU, whatever its caller asked for
    unique_kernel_names: bool  # every kernel has a name of its own
    inject_relu_bug_TESTING_ONLY: str | None  # compile_error, runtime_error or accuracy: a wrong relu, to try the debugging tools on
    def __getattr__(self, name: str) -> Any: ...

aot_inductor: _aot_inductor
cpp: _cpp
trace: _trace
triton: _triton

check_inputs: int | None  # checks of inputs: None the cheap ones, 0 off, 1 also reports strides and alignments that force a copy
nan_asserts: bool  # NaN and Inf check before and after each kernel
nan_asserts_infinities: bool  # nan_asserts stops at Inf too; 0: at NaN alone, for programs that mask with -inf
check_bounds: bool  # every load and store of generated kernels is checked
verify_weights: int | None  # checksums of weights at loading: None of up to 4 MB of them, 0 never, 1 always
fault_dir: str | None  # where a fault bundle is written
name_faults: bool  # a signal inside a kernel is named, with step and source line; the command kiln always does unless 0
fault_values: bool  # a fault bundle holds the values of the step's arguments
intermediate_value_dir: str | None  # where mode 1 of the value printer saves; None: aoti_torch in the temporary directory
intermediate_value_style: list[str] | None  # form of mode 2 of the value printer: written, table or json (values that kernels wrote), init (weights' too)
code_dir: str | None  # folder that kernels' code is kept in as files, where perf can read their names; None: memory only
CUDA_LAUNCH_BLOCKING: bool  # each launch on a GPU is waited for
PYTORCH_NO_CUDA_MEMORY_CACHING: bool  # each buffer its own exact allocation, against a guard page on the CPU
TORCHDYNAMO_REPRO_AFTER: str | None  # aot: minify the graph; inductor: down to the kernel
TORCH_SHOW_CPP_STACKTRACES: bool  # native stack with errors
debug: bool  # the debug directory
debug_dir_root: str  # where debug directories are made
TORCH_LOGS: list[str] | None  # components and artifacts to log, with + and -
TORCH_LOGS_OUT: str | None  # file that the log goes to; None: standard error
TORCH_TRACE: str | None  # directory of the structured trace for the report
freezing: bool  # fold and prepack weights at compile time: the package has them packed, and loading packs nothing
max_autotune: bool  # measured choice of kernels
max_autotune_gemm: bool  # measured choice of kernels for matrix products
autotune_local_cache: bool  # keep measured choices on disk
autotune_remote_cache: bool  # share measured choices through Redis
TORCHINDUCTOR_REDIS_HOST: str  # host of the Redis server
TORCHINDUCTOR_REDIS_PORT: int  # port of the Redis server
cpp_wrapper: bool  # no Python between the kernels
generate_intermediate_hooks: bool  # a hook can look at every step of a run
float32_matmul_precision: str  # medium: factors of f32 products with a weight, of attention, or with numbers of bf16, are rounded to bf16 on a CPU with instructions for those; high or medium: to TF32 on a GPU
pattern_matcher: bool  # 0: the passes that look for known patterns (fuse_attention, join_products, use_winograd) are left out
verbose_progress: bool  # progress lines
inject_fault_TESTING_ONLY: str | None  # a fault put in on purpose: KIND:OPERATOR[+OPERATOR][:above=N|dynamic|subgraph|sometimes|node=NAME] (src/loop_passes/inject_fault.h)
disable_pass: list[str] | None  # passes that do not run
stop_after: str | None  # the last pass that runs; the program is printed, no package made
dump_after: str | None  # the pass after which the program is printed, or all; no package is made
full_source_paths: bool  # packages name the user's source files with their whole paths, not shortened
cache_dir: str | None  # the cache of compiled kernels; None: under the user's cache directory
compiler: str | None  # the C++ compiler, of a run with check_bounds too; None: the first of g++, clang++, c++ that is found
nvrtc: str | None  # the path of NVRTC, which compiles for cuda, in a run with check_bounds too; None: of a CUDA toolkit or of Python's packages
