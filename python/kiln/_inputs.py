"""The inputs of a call as a file that Kiln's commands read, and their results read back."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from typing import Any, Iterator, Mapping, Optional, Sequence

from . import errors


def _refuse(message: str) -> errors.ArgumentError:
    error = errors.ArgumentError(message)
    error.code = "K0713"
    return error


def _for_torch(value: Any, torch: Any) -> Any:
    """Tensors of whatever kind as torch's, structures as the plain ones that torch.save keeps."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, Mapping):
        return {key: _for_torch(part, torch) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(_for_torch(part, torch) for part in value)
    if isinstance(value, list):
        return [_for_torch(part, torch) for part in value]
    if hasattr(value, "__dlpack__"):
        return torch.from_dlpack(value)
    raise _refuse(f"a {type(value).__name__} cannot be written as an input; give a flat list of tensors and numbers")


@contextlib.contextmanager
def saved(inputs: Any, kwargs: Optional[Mapping[str, Any]] = None) -> Iterator[list[str]]:
    """The options of a command for these inputs: a path, the arguments of the call (a tuple), a dict of them by name (of
    arguments, or of the flat inputs), or nothing."""
    if inputs is None and not kwargs:
        yield []
        return
    if isinstance(inputs, (str, os.PathLike)):
        yield ["--inputs", os.fspath(inputs)]
        return
    named = dict(inputs) if isinstance(inputs, Mapping) else None
    if named is not None and kwargs:
        raise _refuse("inputs are a dict by name, or positional with kwargs, not both")
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    with tempfile.TemporaryDirectory(prefix="kiln_inputs_") as directory:
        torch = sys.modules.get("torch")
        if torch is not None:
            path = os.path.join(directory, "inputs.pt")
            plain = _for_torch(arguments if named is None else named, torch)
            # (args, kwargs) for whoever reads names; a call without structures stays the flat list.
            torch.save((plain, _for_torch(dict(kwargs), torch)) if kwargs else plain if named is not None else list(plain), path)
        else:
            numpy = sys.modules.get("numpy")
            if numpy is None:
                raise _refuse("inputs can be given as a path, or with torch or numpy imported")
            path = os.path.join(directory, "inputs.npz")
            if named is not None:
                numpy.savez(path, **{name: numpy.asarray(value) for name, value in named.items()})
                yield ["--inputs", path]
                return
            if kwargs or any(isinstance(value, (Mapping, list, tuple)) or value is None for value in arguments):
                raise _refuse("without torch inputs are a flat sequence of arrays and numbers")
            numpy.savez(path, *[numpy.asarray(value) for value in arguments])
        yield ["--inputs", path]


def result_path(directory: str) -> str:
    """Where a command writes results that this process can read."""
    if "torch" in sys.modules:
        return os.path.join(directory, "outputs.pt")
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise _refuse("results are read with torch or numpy, and neither is here") from None
    return os.path.join(directory, "outputs.npz")


def read_results(path: str) -> Sequence[Any]:
    """The flat results, in the order of the program."""
    if path.endswith(".pt"):
        found = sys.modules["torch"].load(path, weights_only=True)
        return list(found.values()) if isinstance(found, Mapping) else list(found)
    import numpy

    with numpy.load(path) as archive:
        return [archive[name] for name in archive.files]
