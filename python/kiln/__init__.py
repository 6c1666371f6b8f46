"""Kiln: exported PyTorch programs, compiled ahead of time.

    package = kiln.aoti_compile_and_package(torch.export.export(model, args))
    compiled = kiln.aoti_load_package(package)
    y = compiled(*args)

docs/python.md shows the rest. Importing this module imports neither torch nor numpy.
"""

from __future__ import annotations

import sys as _sys
import types as _types

from . import config
from ._kiln import Tensor
from ._kiln import runtime_version as __version__
from ._package import AOTICompiledModel, aoti_compile_and_package, aoti_load_package
from ._trees import register_pytree_node
from .errors import (
    AOTIMinifierError,
    ArgumentError,
    BugError,
    CommandError,
    CompileError,
    Error,
    FileError,
    InputError,
    OutOfMemoryError,
    RunError,
    StoppedError,
    UnsupportedError,
)

TYPE_CHECKING = False  # typing itself is not imported: importing kiln stays quick
if TYPE_CHECKING:
    from typing import Any

    from ._check import CorrectnessReport, check_correctness
    from ._deprecated import aot_compile, aot_load
    from ._profile import Profile, profile
    from ._tools import bisect, inspect, interpret, minify, report, run_repro

# Found when they are first used: importing kiln stays quick.
_later = {
    "CorrectnessReport": "_check",
    "check_correctness": "_check",
    "aot_compile": "_deprecated",
    "aot_load": "_deprecated",
    "Profile": "_profile",
    "profile": "_profile",
    "bisect": "_tools",
    "inspect": "_tools",
    "interpret": "_tools",
    "minify": "_tools",
    "report": "_tools",
    "run_repro": "_tools",
}

__all__ = [
    "AOTICompiledModel",
    "AOTIMinifierError",
    "ArgumentError",
    "BugError",
    "CommandError",
    "CompileError",
    "CorrectnessReport",
    "Error",
    "FileError",
    "InputError",
    "OutOfMemoryError",
    "Profile",
    "RunError",
    "StoppedError",
    "Tensor",
    "UnsupportedError",
    "__version__",
    "aot_compile",
    "aot_load",
    "aoti_compile_and_package",
    "aoti_load_package",
    "bisect",
    "check_correctness",
    "config",
    "inspect",
    "interpret",
    "minify",
    "profile",
    "register_pytree_node",
    "report",
    "run_repro",
]


class _Kiln(_types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name not in _later:
            raise AttributeError(f"module 'kiln' has no attribute {name!r}")
        import importlib

        value = getattr(importlib.import_module(f"kiln.{_later[name]}"), name)
        self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_later})

    # PyTorch keeps this one setting in another module (torch._dynamo.config); scripts may set it here.
    @property
    def debug_dir_root(self) -> Any:
        return config.debug_dir_root

    @debug_dir_root.setter
    def debug_dir_root(self, value: Any) -> None:
        config.debug_dir_root = value


_sys.modules[__name__].__class__ = _Kiln
