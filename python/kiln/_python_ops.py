"""Custom operators that PyTorch knows in this process (torch.library) and no library of Kiln's has: the package gets a
small library that calls them back through Python. Slow beside an operator in C++ (include/kiln/custom_op.h), and only
where there is a Python with that operator registered."""

from __future__ import annotations

import os
import sys

from . import _kiln, config, errors

TYPE_CHECKING = False  # typing itself is not imported: importing kiln stays quick
if TYPE_CHECKING:
    from typing import Any, Callable, Optional, Sequence

_builtin = ("aten", "prims", "prim")

_source = r"""// Calls operators that are defined in Python, where the process has Kiln's Python package.
#include <dlfcn.h>

#include "kiln/custom_op.h"

typedef int32_t (*kiln_python_operator_fn)(const char* name, kiln_op_call* call);

static int32_t call_python(const char* name, kiln_op_call* call) {
  kiln_python_operator_fn run = (kiln_python_operator_fn)dlsym(RTLD_DEFAULT, "kiln_python_operator");
  if (run) return run(name, call);
  kiln_op_fail(call, "the operator is defined in Python, and no Python with Kiln's package runs here; give a library with it");
  return 1;
}
"""


def unknown_operators(error: errors.Error, pytorchs_too: bool = False) -> list[str]:
    """The operators that a failed compile did not know, as "mylib::foo.default". Those of PyTorch itself only where the
    program runs in a process with PyTorch in any case."""
    if error.code != "K0200":
        return []
    import re

    found = re.findall(r"^  (\w+)\.(\w+)\.(\w+)(?:,| \()", str(error), re.MULTILINE)
    if not pytorchs_too and any(namespace in _builtin for namespace, _, _ in found):
        return []
    return [f"{namespace}::{name}.{overload}" for namespace, name, overload in found]


def _operator(name: str) -> Optional[Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    namespace, rest = name.split("::")
    packet, overload = rest.rsplit(".", 1)
    try:
        return getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    except AttributeError:
        return None


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def build_library(names: Sequence[str], directory: str) -> Optional[str]:
    """A library for these operators, or nothing where PyTorch does not know them all."""
    import shutil
    import subprocess

    operators = [_operator(name) for name in names]
    if not names or any(operator is None for operator in operators):
        return None
    lines = [_source]
    rows = []
    for i, (name, operator) in enumerate(zip(names, operators)):
        shown = name[: -len(".default")] if name.endswith(".default") else name
        schema = str(operator._schema)  # type: ignore[union-attr]
        lines.append(f"static int32_t run_{i}(kiln_op_call* call) {{ return call_python({_quoted(name)}, call); }}")
        rows.append(f"    {{{_quoted(shown)}, run_{i}, {_quoted(schema)}}},")
    lines += ["static const kiln_custom_op ops[] = {", *rows, "};"]
    lines.append(f"static const kiln_custom_op_table table = {{KILN_CUSTOM_OP_ABI_VERSION, {len(names)}, ops}};")
    lines.append(
        'extern "C" KILN_CUSTOM_OP_EXPORT const kiln_custom_op_table* kiln_custom_ops(void) { return &table; }\n'
    )
    source, library = os.path.join(directory, "python_ops.cpp"), os.path.join(directory, "libkiln_python_ops.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    compiler = config.compiler or next(filter(None, map(shutil.which, ("g++", "clang++", "c++"))), "c++")
    include = os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")
    command = [compiler, "-shared", "-fPIC", "-O1", "-I", include, source, "-o", library, "-ldl"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as problem:
        done = subprocess.CompletedProcess(command, 1, "", str(problem))
    if done.returncode != 0:
        error = errors.CompileError(f"the library for operators defined in Python cannot be built: {done.stderr.strip()}")
        error.code = "K0715"
        raise error
    for name in names:
        sys.stderr.write(
            f"perf hint: the operator {name} runs in Python: every call takes the interpreter's lock and some 10 us; "
            "a library in C++ (kiln/custom_op.h, custom_op_libraries=[…]) does not\n"
        )
    return library


def call(name: str, arguments: dict[str, Any], output: Callable[[int, list[int]], Any], count: int) -> None:
    """Called by a running package, through kiln_python_operator."""
    import torch

    def torch_value(value: Any) -> Any:
        if isinstance(value, _kiln.Tensor):
            return torch.from_dlpack(value)
        return [torch_value(part) for part in value] if isinstance(value, list) else value

    operator = _operator(name)
    if operator is None:
        raise RuntimeError(f"PyTorch does not know the operator {name} in this process; import what registers it")
    with torch.no_grad():
        results = operator(**{key: torch_value(value) for key, value in arguments.items()})
        if count == 0:
            return
        flat: list[Any] = []
        for result in results if isinstance(results, (tuple, list)) else (results,):
            flat.extend(result if isinstance(result, (tuple, list)) else (result,))
        if len(flat) != count:
            raise RuntimeError(f"{name} gave {len(flat)} tensors, and the exported program takes {count}")
        for i, result in enumerate(flat):
            place = output(i, list(result.shape))
            if place is None:
                raise RuntimeError(f"result {i} of {name} has sizes {list(result.shape)}, which contradict the program")
            torch.from_dlpack(place).copy_(result)


def ready() -> None:
    """Lets packages that are loaded call back."""
    global _is_ready
    if not _is_ready:
        _kiln.set_python_call(call)
        _is_ready = True


_is_ready = False
