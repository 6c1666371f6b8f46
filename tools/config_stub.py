#!/usr/bin/env python3
"""Prints python/kiln/config.pyi: the names of kiln.config for editors and type checkers, from the table of settings.

    python tools/config_stub.py > python/kiln/config.pyi      (with the package importable)

tests/python/test_types.py compares the two."""

import keyword

from kiln import _kiln

types = {"bool": "bool", "int": "int", "str": "str", "list": "list[str]"}

HEADING = '''# Made by tools/config_stub.py from the table of settings (src/base/settings_table.cpp).
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
'''


def line(name, row, indent):
    kind = types[row["type"]] + (" | None" if row["default"] == "None" else "")
    return f"{indent}{name}: {kind}  # {row['meaning']}"


def stub():
    groups, plain = {}, []
    for row in _kiln.settings_table():
        group, _, name = row["key"].rpartition(".")
        assert not keyword.iskeyword(name)
        if group:
            groups.setdefault(group, []).append(line(name, row, "    "))
        else:
            plain.append(line(name, row, ""))
    out = [HEADING]
    for group, lines in sorted(groups.items()):
        out += [f"class _{group}:", *lines, "    def __getattr__(self, name: str) -> Any: ...", ""]
    out += [f"{group}: _{group}" for group in sorted(groups)]
    return "\n".join([*out, "", *plain, ""])


if __name__ == "__main__":
    print(stub(), end="")
