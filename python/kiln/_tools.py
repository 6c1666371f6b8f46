"""Kiln's debugging tools, from Python: each is the command of the same name."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

from . import _command, _inputs, _kiln, _trees, config, errors
from ._package import AOTICompiledModel, ExportedFile

if TYPE_CHECKING:
    from ._package import PathLike

    Inputs = Union[None, PathLike, Sequence[Any]]


class _File(ExportedFile):
    """A program or package as a file: a path, a loaded package, or an exported program in memory."""

    def __init__(self, source: Any) -> None:
        super().__init__(source.path if isinstance(source, AOTICompiledModel) else source)


def _settings(patches: Optional[Mapping[str, Any]]) -> list[str]:
    given = {**config._for_compile(), **{key: config._text(value) for key, value in (patches or {}).items()}}
    return _command.settings_arguments(given)


def _run_settings(patches: Optional[Mapping[str, Any]]) -> list[str]:
    given = {**config._for_run(), **{key: config._text(value) for key, value in (patches or {}).items()}}
    return _command.settings_arguments(given)


def _tolerances(rtol: Optional[float], atol: Optional[float]) -> list[str]:
    out: list[str] = []
    if rtol is not None:
        out += ["--rtol", repr(rtol)]
    if atol is not None:
        out += ["--atol", repr(atol)]
    return out


def _libraries(libraries: Sequence[PathLike]) -> list[str]:
    out: list[str] = []
    for library in libraries:
        out += ["--custom-op-lib", os.fspath(library)]
    return out


def run_repro(
    exported_program: Any,
    *,
    config_patches: Optional[Mapping[str, Any]] = None,
    accuracy: Union[bool, str] = False,
    command: str = "run",
    save_dir: Optional[PathLike] = None,
    check_str: Optional[str] = None,
    inputs: Inputs = None,
) -> int:
    """What ``minifier_launcher.py`` and ``repro.py`` call: ``command="minify"`` finds the smallest program that fails
    the same way and writes ``repro.py``; ``command="run"`` compiles, loads and runs the program, in a process of its
    own. Raises what went wrong; AOTIMinifierError where there is no failure to minify. Gives 0."""
    if command not in ("minify", "run"):
        error = errors.ArgumentError(f'command is "minify" or "run", not {command!r}')
        error.code = "K0711"
        raise error
    with _File(exported_program) as file, _inputs.saved(inputs) as given:
        arguments = ["minify", file.path, "--command", command, *given]
        if accuracy:
            arguments.append("--accuracy")
        if save_dir is not None:
            arguments += ["--save-dir", os.fspath(save_dir)]
        if check_str is not None:
            arguments += ["--check-str", check_str]
        _command.checked(arguments + _settings(config_patches), show_output=True)
    return 0


def minify(
    exported_program: Any,
    inputs: Inputs = None,
    *,
    accuracy: bool = False,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    check_str: Optional[str] = None,
    save_dir: Optional[PathLike] = None,
    after: str = "aot",
    config_patches: Optional[Mapping[str, Any]] = None,
    custom_op_libraries: Sequence[PathLike] = (),
) -> str:
    """The smallest program that still fails the same way; ``repro.py``, ``repro.pt2`` and ``repro.sh`` land in the current
    directory. Gives the path of ``repro.pt2``."""
    with _File(exported_program) as file, _inputs.saved(inputs) as given:
        arguments = ["minify", file.path, *given, *_tolerances(rtol, atol), "--after", after]
        arguments += ["--accuracy"] if accuracy else []
        arguments += ["--save-dir", os.fspath(save_dir)] if save_dir is not None else []
        arguments += ["--check-str", check_str] if check_str is not None else []
        arguments += _libraries(custom_op_libraries)
        result = _command.checked(arguments + _settings(config_patches), show_output=True)
    for line in reversed(result.output.splitlines()):
        if " repro out to " in line:
            script = line.split(" repro out to ", 1)[1].split(",")[0].strip()
            return os.path.abspath(script[: -len(".py")] + ".pt2")
    return os.path.abspath("repro.pt2")


class Bisected:
    """What ``kiln.bisect`` found: ``differs``, and the whole report as ``text``."""

    def __init__(self, differs: bool, text: str) -> None:
        self.differs = differs
        self.text = text

    def __bool__(self) -> bool:
        return self.differs

    def __repr__(self) -> str:
        return self.text


def bisect(
    package: Any,
    inputs: Inputs = None,
    *,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    config_patches: Optional[Mapping[str, Any]] = None,
    custom_op_libraries: Sequence[PathLike] = (),
) -> Bisected:
    """The first kernel, then the first operator inside it, that differs from the reference. ``package`` is a loaded
    package or its path."""
    with _File(package) as file, _inputs.saved(inputs) as given:
        arguments = ["bisect", file.path, *given, *_tolerances(rtol, atol), *_libraries(custom_op_libraries)]
        result = _command.run(arguments + _run_settings(config_patches))
    if result.code not in (0, 1) or "error[K" in result.errors or result.errors.startswith("Error: "):
        raise _command.failure(result)
    return Bisected(result.code == 1, result.output)


def inspect(source: Any, *, verify: bool = False) -> str:
    """What is in a model or a package, as text: signature, symbols with ranges, guards, weights, kernels with origins.
    ``verify`` reads every byte against its checksum instead, and raises where one is damaged."""
    with _File(source) as file:
        result = _command.run(["inspect", file.path, *(["--verify"] if verify else [])])
    if result.code != 0:
        damaged = _command.Result(result.code, result.output, result.errors or result.output)
        raise _command.failure(damaged, errors.FileError)
    return result.output


def _out_spec(path: str) -> Optional[str]:
    """How an exported program structures its results."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if "/models/" in name and name.endswith(".json"):
                program = json.loads(archive.read(name))
                calls = program.get("graph_module", {}).get("module_call_graph", [])
                for call in calls:
                    if call.get("fqn") == "" and call.get("signature"):
                        return call["signature"]["out_spec"]  # type: ignore[no-any-return]
    return None


def interpret(
    exported_program: Any,
    inputs: Inputs = None,
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    fp64: bool = False,
    custom_op_libraries: Sequence[PathLike] = (),
) -> Any:
    """Runs a program in the reference interpreter, operator by operator. The results have the program's own structure
    (a flat list where some of them is None and torch is not there)."""
    with _File(exported_program) as file, _inputs.saved(inputs, kwargs) as given:
        with tempfile.TemporaryDirectory(prefix="kiln_outputs_") as directory:
            path = _inputs.result_path(directory)
            arguments = ["interpret", file.path, *given, "--output", path, *(["--fp64"] if fp64 else [])]
            _command.checked(arguments + _libraries(custom_op_libraries))
            results = list(_inputs.read_results(path))
            spec = _out_spec(file.path)
    if spec is None:
        return results
    tree = _trees.read(spec)
    try:
        return _kiln.unflatten(tree, results)
    except errors.ArgumentError:
        if "torch" in sys.modules:
            raise
        return results


def report(trace_directory: PathLike, output: PathLike = "report.html", *, redact: bool = False) -> str:
    """One page of what TORCH_TRACE collected in a directory. Gives the page's path."""
    arguments = ["report", os.fspath(trace_directory), "--output", os.fspath(output), *(["--redact"] if redact else [])]
    _command.checked(arguments)
    return os.path.abspath(os.fspath(output))
