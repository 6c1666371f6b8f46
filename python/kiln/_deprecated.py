"""Names of earlier interfaces, with a word about those that replace them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Mapping, Optional

from . import errors
from ._package import AOTICompiledModel, _is_path, _read_manifest, aoti_compile_and_package, aoti_load_package

if TYPE_CHECKING:
    from ._package import PathLike


def aot_compile(
    module: Any,
    args: tuple[Any, ...] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    dynamic_shapes: Any = None,
    options: Optional[Mapping[str, Any]] = None,
    **ignored: Any,
) -> str:
    """Deprecated: ``aoti_compile_and_package(torch.export.export(module, args))``. Gives the package's path."""
    warnings.warn(
        "kiln.aot_compile is deprecated; use kiln.aoti_compile_and_package(torch.export.export(module, args))",
        FutureWarning,
        stacklevel=2,
    )
    unknown = set(ignored) - {"remove_runtime_assertions", "disable_constraint_solver", "same_signature"}
    if unknown:
        raise TypeError(f"aot_compile() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    program = module
    if not _is_path(module) and not hasattr(module, "graph_signature"):
        from ._check import export

        program = export(module, args, kwargs, dynamic_shapes)
    return aoti_compile_and_package(program, inductor_configs=options)


def aot_load(path: PathLike, device: Any) -> AOTICompiledModel:
    """Deprecated: ``aoti_load_package(path)``, which knows the device type from the package."""
    warnings.warn("kiln.aot_load is deprecated; use kiln.aoti_load_package(path)", FutureWarning, stacklevel=2)
    wanted, _, index = str(device).partition(":")
    compiled = str(_read_manifest(str(path)).get("device", "cpu"))
    if wanted != compiled:
        error = errors.FileError(
            f"{path} was compiled for {compiled} and cannot be loaded on {wanted}: compile and load use the same device type"
        )
        error.code = "K0712"
        raise error
    return aoti_load_package(path, int(index) if index else -1)
