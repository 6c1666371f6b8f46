"""Kiln's settings, by the names that PyTorch's Inductor gives them::

    from kiln import config

    config.aot_inductor.dump_aoti_minifier = True
    with config.patch({"cpp.simdlen": 1}):
        ...

A value comes from here, else from PyTorch's own configuration where a script has set it there
(``torch._inductor.config``, ``torch._dynamo.config.debug_dir_root``), else from the environment, else it is the default.
Settings that act while compiling go to every compile that follows, those that act while running to every package that is
loaded. The names come from Kiln's one table (docs/settings.md); a name that nobody knows is an error with the nearest.
"""

from __future__ import annotations

import contextvars
import sys
import types
from collections.abc import Mapping

from . import _kiln, errors

TYPE_CHECKING = False  # typing itself is not imported: importing kiln stays quick
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Optional, TypeVar

    _Function = TypeVar("_Function", bound=Callable[..., Any])

_table: dict[str, dict[str, Any]] = {row["key"]: row for row in _kiln.settings_table()}
_ignored: frozenset[str] = frozenset(_kiln.ignored_settings())
_groups: frozenset[str] = frozenset(key.split(".")[0] for key in [*_table, *_ignored] if "." in key)
_given: dict[str, Any] = {}


class UnknownSettingError(errors.ArgumentError, AttributeError):
    """There is no such setting; the message names the nearest."""


def _text(value: Any) -> str:
    """A value as ``--config KEY=`` takes it."""
    if value is None:
        return "None"
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(str(part) for part in value)
    if isinstance(value, Mapping):
        import json

        return json.dumps(dict(value))
    return str(value)


def _check(key: str, value: Any) -> None:
    try:
        _kiln.check_setting(key, _text(value))
    except errors.ArgumentError as error:
        if error.code != "K0140":
            raise
        unknown = UnknownSettingError(str(error))
        unknown.code = error.code
        raise unknown from None


def _typed(key: str, text: str) -> Any:
    """A value as Python has it."""
    if text == "None" or text == "":
        return None
    kind = _table[key]["type"]
    if kind == "bool":
        return text.lower() in ("1", "true", "yes", "on")
    if kind == "int":
        return int(text)
    if kind == "list":
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _of_torch(key: str) -> Optional[Any]:
    """What a script has set in PyTorch's own configuration. PyTorch is never imported for it."""
    name = "torch._dynamo.config" if key == "debug_dir_root" else "torch._inductor.config"
    module = sys.modules.get(name)
    entry = getattr(module, "_config", {}).get(key) if module is not None else None
    if entry is None:
        return None
    override = getattr(entry, "user_override", None)
    # Of some versions a variable of the context; a dict, which has a method of that name too, is a value.
    value = override.get(None) if isinstance(override, contextvars.ContextVar) else override
    # PyTorch marks what is not set with an object of no class in particular; an empty dict is what it starts with.
    return None if type(value) is object or value == {} else value


def _current(key: str) -> Any:
    if key in _given:
        return _given[key]
    if key in _ignored:
        error = UnknownSettingError(f"'{key}' is a setting of PyTorch's that Kiln has no use for; it has no value here")
        error.code = "K0140"
        raise error
    if key not in _table:
        _check(key, None)  # raises, with the nearest name
    if (own := _of_torch(key)) is not None:
        return own
    text = _kiln.setting_from_environment(key)
    return _typed(key, text if text is not None else _table[key]["default"])


def _set(key: str, value: Any) -> None:
    _check(key, value)
    _given[key] = value


def _changed() -> dict[str, str]:
    out = {key: _text(value) for key, value in _given.items()}
    for key in _table:
        if key not in out and (value := _of_torch(key)) is not None:
            out[key] = _text(value)
    return out


def _for_compile() -> dict[str, str]:
    return _changed()


def _for_run() -> dict[str, str]:
    return {key: text for key, text in _changed().items() if key in _table and _table[key]["run"]}


class _Patch:
    """Values for a while: a context, or a decorator of a function."""

    def __init__(self, changes: Mapping[str, Any]) -> None:
        for key, value in changes.items():
            _check(key, value)
        self._changes = dict(changes)
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self._before.append(dict(_given))
        _given.update(self._changes)

    def __exit__(self, *_: Any) -> None:
        before = self._before.pop()
        for key in self._changes:
            if key in before:
                _given[key] = before[key]
            else:
                _given.pop(key, None)

    def __call__(self, function: _Function) -> _Function:
        import functools

        @functools.wraps(function)
        def patched(*args: Any, **kwargs: Any) -> Any:
            with _Patch(self._changes):
                return function(*args, **kwargs)

        return patched  # type: ignore[return-value]


def patch(key_or_changes: Any = None, value: Any = None, **changes: Any) -> _Patch:
    """``patch({"cpp.threads": 1})``, ``patch("cpp.threads", 1)`` or ``patch(debug=True)``."""
    if isinstance(key_or_changes, str):
        changes = {key_or_changes: value, **changes}
    elif key_or_changes is not None:
        changes = {**key_or_changes, **changes}
    return _Patch(changes)


def reset() -> None:
    """Forgets everything that was set here."""
    _given.clear()


def shallow_copy_dict() -> dict[str, Any]:
    """Every setting with its value."""
    return {key: _current(key) for key in _table}


get_config_copy = shallow_copy_dict


def explain(name: str = "") -> Iterator[str]:
    """A line for each setting with ``name`` in its key: the value, and what it means."""
    for key, row in _table.items():
        if name in key or name in row["environment"]:
            yield f"{key} = {_current(key)!r}: {row['meaning']}"


class _Group:
    """Settings whose keys begin alike: ``config.triton``, ``config.cpp``."""

    __slots__ = ("_prefix",)

    def __init__(self, prefix: str) -> None:
        object.__setattr__(self, "_prefix", prefix)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _current(f"{self._prefix}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        _set(f"{self._prefix}.{name}", value)

    def __delattr__(self, name: str) -> None:
        _given.pop(f"{self._prefix}.{name}", None)

    def __dir__(self) -> list[str]:
        return [key[len(self._prefix) + 1 :] for key in _table if key.startswith(self._prefix + ".")]

    def __repr__(self) -> str:
        return f"<kiln.config.{self._prefix}: {', '.join(dir(self))}>"


class _Config(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Group(name) if name in _groups else _current(name)

    def __setattr__(self, name: str, value: Any) -> None:
        # What Python itself sets on modules, and what this file has defined.
        if name.startswith("_") or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            _set(name, value)

    def __delattr__(self, name: str) -> None:
        if _given.pop(name, self) is self:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_groups, *(key for key in _table if "." not in key)})


sys.modules[__name__].__class__ = _Config
