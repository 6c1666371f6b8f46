"""How a program takes its arguments and gives its results: the pytrees that the export recorded, as the module
``_kiln`` takes them (python/module/tree.h)."""

from __future__ import annotations

import collections
import sys

from . import errors

TYPE_CHECKING = False  # typing itself is not imported: importing kiln stays quick
if TYPE_CHECKING:
    from typing import Any, Callable, Optional, Tuple

# What a user registered, by the name that the export gave the type.
_registered: dict[str, Tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], Any],
    unflatten_fn: Callable[[Any], Any],
    *,
    serialized_type_name: Optional[str] = None,
) -> None:
    """Says how values of a class are taken apart and put together, where PyTorch, which knows it from the export, is
    not there. ``flatten_fn(value)`` gives the parts, ``unflatten_fn(parts)`` the value."""
    name = serialized_type_name or f"{cls.__module__}.{cls.__qualname__}"
    _registered[name] = (cls, flatten_fn, unflatten_fn)


def _damaged(what: str) -> errors.FileError:
    error = errors.FileError(f"the package's description of its arguments cannot be read: {what}")
    error.code = "K0700"
    return error


def _missing_class(name: str) -> Callable[..., Any]:
    """Stands for a class that is not there: whoever needs it is told what to do."""

    def build(*args: Any, **kwargs: Any) -> Any:
        error = errors.UnsupportedError(
            f"the model's results hold a {name}, and no such class is known here: import the module that defines it "
            "before the model is loaded, register it (torch.export.register_dataclass, kiln.register_pytree_node), or "
            "take the flat list of results: model.run_flat([...])"
        )
        error.code = "K0708"
        raise error

    return build


def _torch_pytree() -> Any:
    return sys.modules.get("torch.utils._pytree")


def _find_class(name: str) -> Optional[type]:
    if name in _registered:
        return _registered[name][0]
    if (pytree := _torch_pytree()) is not None:
        found = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name)
        if found is not None:
            return found  # type: ignore[no-any-return]
    parts = name.split(".")
    for split in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:split]))
        if module is None:
            import importlib

            try:
                module = importlib.import_module(".".join(parts[:split]))
            except Exception:  # whatever a module does when it is imported
                continue
        value: Any = module
        for part in parts[split:]:
            value = getattr(value, part, None)
        if isinstance(value, type):
            return value
    return None


def _context(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text


def _names_fields(context: Any) -> bool:
    """As torch.export.register_dataclass has it: the fields that have values, and those that are None."""
    return isinstance(context, list) and len(context) == 2 and all(isinstance(part, list) for part in context)


def _refuse_fields(name: str, exported: Any, got: Any) -> None:
    differences = [f"{field} is None, and was not in the export" for field in exported[0] if field in got[1]]
    differences += [f"{field} was None in the export, and is not" for field in exported[1] if field in got[0]]
    if not differences:
        return
    error = errors.InputError(f"{name}: the field {', '.join(differences)}")
    error.code = "K0701"
    raise error


def _custom(name: str, text: Any, children: list[Any]) -> Tuple[Any, ...]:
    """A class of the user's."""
    if name in _registered:
        cls, flatten, unflatten = _registered[name]
        return ("custom", children, lambda v: list(flatten(v)) if isinstance(v, cls) else None, unflatten, name)
    pytree = _torch_pytree()
    cls_found = _find_class(name)
    context = _context(text)
    if pytree is not None and cls_found in pytree.SUPPORTED_NODES:
        node = pytree.SUPPORTED_NODES[cls_found]
        serial = pytree.SUPPORTED_SERIALIZED_TYPES.get(cls_found)
        load = getattr(serial, "from_dumpable_context", None)
        value = load(text) if load is not None else context

        def flatten_node(v: Any) -> Any:
            if type(v) is not cls_found:
                return None
            parts, found = node.flatten_fn(v)
            parts = list(parts)
            if _names_fields(value) and _names_fields(found) and found != value:
                _refuse_fields(name, value, found)
            return parts if found == value or len(parts) == len(children) else None

        return ("custom", children, flatten_node, lambda parts: node.unflatten_fn(list(parts), value), name)
    if _names_fields(context) and len(context[0]) == len(children):  # torch.export.register_dataclass: fields, and those that are None
        return ("fields", children, context[0], context[1], cls_found or _missing_class(name), name)
    if isinstance(context, list) and len(context) == len(children) and hasattr(cls_found, "__dataclass_fields__"):
        return ("fields", children, context, [], cls_found, name)
    return ("custom", children, lambda v: None, _missing_class(name), name)


def _read(node: Any) -> Tuple[Any, ...]:
    kind = node["type"]
    if kind is None:
        return ("leaf",)
    children = [_read(child) for child in node["children_spec"]]
    context = node["context"]
    if kind == "builtins.tuple":
        return ("tuple", children)
    if kind == "builtins.list":
        return ("list", children)
    if kind in ("builtins.dict", "collections.OrderedDict"):
        return ("dict", children, _context(context), None if kind == "builtins.dict" else collections.OrderedDict)
    if kind == "collections.defaultdict":
        keys = _context(context)
        while len(keys) == 2 and isinstance(keys[1], list):
            keys = keys[1]
        return ("dict", children, keys, collections.defaultdict)
    if kind == "collections.namedtuple":
        name = _context(context)
        found = _find_class(name) if isinstance(name, str) else None
        # A named tuple is made from its fields, one argument each.
        return ("named_tuple", children, found or _missing_class(str(name)), str(name))
    if kind == "collections.deque":
        return ("custom", children, lambda v: list(v) if isinstance(v, collections.deque) else None, collections.deque, kind)
    return _custom(kind, context, children)


def read(text: str) -> Tuple[Any, ...]:
    """What ``torch.utils._pytree.treespec_dumps`` wrote, for ``Model._set_structure``."""
    import json

    try:
        version, root = json.loads(text)
        if version != 1:
            raise _damaged(f"pytrees of version {version} are not known")
        return _read(root)
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(str(error)) from None


def leaves(count: int) -> Tuple[Any, ...]:
    """A structure for packages that have none: so many leaves in a row."""
    return ("tuple", [("leaf",)] * count)
