"""What a user is told of an exported program that PyTorch itself cannot write to a .pt2."""

from __future__ import annotations

from . import errors

TYPE_CHECKING = False  # typing itself is not imported: importing kiln stays quick
if TYPE_CHECKING:
    from typing import Any, Optional


def _named_node(program: Any, text: str) -> Optional[Any]:
    """The innermost node that PyTorch's message names."""
    import re

    names = re.findall(r"Failed serializing node (\S+) in graph", text)
    for module in program.graph_module.modules() if names else ():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if node.name == names[-1]:
                return node
    return None


def _operator(node: Any) -> str:
    target = node.target
    if node.op != "call_function":
        return f"{node.op} {target}"
    namespace = "higher_order" if type(target).__module__.startswith("torch._higher_order_ops") else ""
    shown = str(target) if "." in str(target) else f"{getattr(target, 'namespace', namespace)}.{target}"
    return shown.removeprefix("torch.ops.").removeprefix(".")


def _cut(text: str, most: int = 200) -> str:
    return text if len(text) <= most else text[: most - 2] + " …"


def source_line(node: Any) -> str:
    """Where the user wrote what a node does, as Kiln's messages have it: "model.py:42 in forward:  y = …"."""
    import re

    frames = re.findall(r'File "([^"]*)", line (\d+), in (\S+)\n\s*([^\n]*)', node.meta.get("stack_trace") or "")
    if not frames:
        return ""
    import os

    import torch

    inside = os.path.dirname(torch.__file__) + os.sep  # PyTorch's own, or code that it generated, is no user's line
    users = [frame for frame in frames if not frame[0].startswith((inside, "<"))]
    path, line, function, code = (users or frames)[-1]
    return f"{path}:{line} in {function}:  {_cut(code)}"


def check_values(program: Any) -> None:
    """Weights without values would be saved as empty ones."""
    from torch._subclasses.fake_tensor import FakeTensor

    for kind, values in (("weight", program.state_dict), ("constant", program.constants)):
        for name, value in values.items():
            if not isinstance(value, FakeTensor) and not getattr(value, "is_meta", False):
                continue
            how = "was exported under FakeTensorMode" if isinstance(value, FakeTensor) else "is on the meta device"
            error = errors.ArgumentError(
                f"the {kind} {name!r} has no values: it {how}. Export the module with real weights; of a module on the meta "
                "device module.to_empty(device='cpu') and load_state_dict make one"
            )
            error.code = "K0718"
            raise error


def cannot_be_saved(program: Any, problem: BaseException) -> errors.Error:
    text = str(problem)
    reasons = [line.strip() for line in text.splitlines() if line.strip()]
    reason = _cut(reasons[-1].split("SerializeError: ")[-1]) if reasons else type(problem).__name__
    node = _named_node(program, text)
    if node is None:
        lines = [f"PyTorch cannot write this program to a .pt2: {reason}"]
    else:
        where = source_line(node)
        lines = [
            f"PyTorch cannot write {_operator(node)} to a .pt2, and so Kiln cannot compile it: {reason}",
            *([f"  --> {where}"] if where else []),
            f"  operator {_operator(node)} · node {node.name}",
        ]
    error = errors.UnsupportedError("\n".join(lines))
    error.code = "K0717"
    return error
