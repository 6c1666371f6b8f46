"""``torch.compile(f, backend="kiln")``: what Dynamo captures, compiled by Kiln.

AOT Autograd makes each captured graph functional and deals with aliases and mutated inputs; Kiln compiles the graphs
that come out of it, when they are first called, with the sizes of that call. Sizes that Dynamo made dynamic stay dynamic
where the export allows it."""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
from typing import Any, Callable, Mapping, Optional, Sequence

from . import _dynamo_graph, _dynamo_random, config, errors
from ._package import AOTICompiledModel, compile_with_callbacks

# The directory of packages that this process compiled for torch.compile.
_packages: Optional[tempfile.TemporaryDirectory[str]] = None
_lock = threading.Lock()
_numbers = iter(range(1 << 62))


def _package_path() -> str:
    global _packages
    with _lock:
        if _packages is None:
            _packages = tempfile.TemporaryDirectory(prefix="kiln_torch_compile_")
            atexit.register(_packages.cleanup)  # left to itself it would warn
        return os.path.join(_packages.name, f"graph_{next(_numbers)}.kiln.pt2")


def _plain(value: Any) -> Any:
    """A tensor as the export should see it: with values of its own kind, outside of any computation of gradients."""
    import torch

    return value.detach() if isinstance(value, torch.Tensor) else value


def _dynamic_dims(example: Any) -> Any:
    """Which sizes Dynamo left open, as torch.export takes them."""
    import torch

    if isinstance(example, torch.Tensor):
        dims = {i: torch.export.Dim.AUTO for i, size in enumerate(example.shape) if isinstance(size, torch.SymInt)}
        return dims or None
    return torch.export.Dim.AUTO if isinstance(example, torch.SymInt) else None


def _threads_are_chosen() -> bool:
    """Whether the number of threads is a setting of Kiln's: it wins over PyTorch's."""
    return int(config.cpp.threads) > 0 or "cpp.threads" in config._changed()


def _gpu_of(values: Sequence[Any]) -> int:
    """The GPU that the tensors of a call are on; -1: none."""
    import torch

    gpus = [v.device.index for v in values if isinstance(v, torch.Tensor) and v.device.type == "cuda"]
    return gpus[0] if gpus else -1


def torch_threads() -> int:
    import torch

    return int(torch.get_num_threads())


class CompiledGraph:
    """One graph of Dynamo's. Compiled when it is first called; again where sizes come that it was not compiled for."""

    def __init__(self, graph: Any, examples: Sequence[Any], settings: Mapping[str, Any]) -> None:
        self._graph = graph
        self._settings = settings
        self._dynamic = tuple(_dynamic_dims(example) for example in examples)
        self._draws = _dynamo_random.draws(graph)
        self._models: list[AOTICompiledModel] = []
        self._follows_torch = False
        self._torch_threads = 0
        self._lock = threading.Lock()

    def _export(self, inputs: Sequence[Any], dynamic: bool) -> Any:
        import torch

        module = _dynamo_graph.as_module(self._graph)
        shapes = (self._dynamic,) if dynamic else None
        with torch.no_grad():
            return torch.export.export(module, tuple(map(_plain, inputs)), dynamic_shapes=shapes, strict=False)

    def _export_any(self, inputs: Sequence[Any], dynamic: bool) -> tuple[Any, bool]:
        """The program, and whether its sizes are open: those that cannot stay so are the ones that came."""
        try:
            try:
                return self._export(inputs, dynamic), dynamic
            except Exception:
                if not dynamic:
                    raise
                return self._export(inputs, False), False
        except Exception as problem:
            error = errors.UnsupportedError(
                f"torch.compile(backend='kiln'): the captured graph cannot be exported for Kiln: {problem}"
            )
            error.code = "K0716"
            raise error from problem

    def _compile(self, inputs: Sequence[Any]) -> AOTICompiledModel:
        program, dynamic = self._export_any(inputs, any(dims is not None for dims in self._dynamic) and not self._models)
        path = _package_path()
        with config.patch(self._settings):
            try:
                compile_with_callbacks(program, path, {}, pytorchs_too=True)
            except (errors.CompileError, errors.UnsupportedError):
                # A graph of a training step may have sizes as inputs that are computed of others (s0*s1), or views whose
                # strides follow from an equation of sizes: of known sizes neither is a question.
                if not dynamic:
                    raise
                compile_with_callbacks(self._export_any(inputs, False)[0], path, {}, pytorchs_too=True)
            model = AOTICompiledModel(path, _gpu_of(inputs))
            self._follows_torch = not _threads_are_chosen()
        return model

    def _run(self, model: AOTICompiledModel, values: list[Any], seed: Optional[int]) -> list[Any]:
        """With as many threads as torch.set_num_threads says, but no more than the processors that the process may use."""
        if self._follows_torch:
            threads = torch_threads()
            if threads != self._torch_threads:
                self._torch_threads = threads
                for each in self._models:
                    each.set_threads(-1)
                    each.set_threads(min(threads, each.threads))
        return model._run_flat(values, seed)

    def __call__(self, inputs: list[Any]) -> list[Any]:
        values = list(inputs)
        inputs.clear()
        seed = _dynamo_random.next_seed() if self._draws else None
        for model in self._models:
            try:
                return self._run(model, values, seed)
            except errors.InputError as error:
                # Compiled for other sizes: the next one may fit. What else is wrong with an input is the caller's.
                if error.code not in ("K0612", "K0615", "K0616", "K0617", "K0618", "K0619"):
                    raise
        with self._lock:
            model = self._compile(values)
            self._models.append(model)
            self._torch_threads = 0  # as yet unknown to this model
        return self._run(model, values, seed)


# PyTorch's names for sets of Inductor's options. CUDA graphs are replayed wherever that is safe, without being asked.
MODES: Mapping[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {},
    "max-autotune": {"max_autotune": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
}


def backend(graph: Any, examples: Sequence[Any], **given: Any) -> Callable[..., Any]:
    """The backend that PyTorch finds by its entry point (torch_dynamo_backends). ``options`` of torch.compile are
    settings of Kiln's, by their names."""
    from torch._dynamo.backends.common import aot_autograd

    if unknown := sorted(set(given) - {"mode", "options"}):
        raise errors.ArgumentError(f"torch.compile(backend='kiln') does not take {', '.join(unknown)}; settings are options={{…}}")
    mode = given.get("mode") or "default"
    if mode not in MODES:
        raise errors.ArgumentError(f"torch.compile has no mode {mode!r}; it has {', '.join(MODES)}")
    settings = MODES[mode] | dict(given.get("options") or {})
    config.patch(settings)  # raises now for a name that does not exist

    def compiler(captured: Any, captured_examples: Sequence[Any]) -> Callable[..., Any]:
        compiled = CompiledGraph(captured, captured_examples, settings)

        def run(inputs: list[Any]) -> list[Any]:
            return compiled(inputs)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    return aot_autograd(fw_compiler=compiler, partition_fn=_dynamo_random.partition)(graph, examples)  # type: ignore[no-any-return]
