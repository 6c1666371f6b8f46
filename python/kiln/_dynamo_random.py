"""Random numbers of graphs that torch.compile captured: each call's seed comes from torch's default generator, and so
``torch.manual_seed`` repeats a run, and a state that is saved and set again (``torch.random.fork_rng``, activation
checkpointing around a compiled function) repeats a call."""

from __future__ import annotations

from typing import Any


def _is_random(node: Any) -> bool:
    import torch

    if node.op != "call_function" or torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    names = [argument.name for argument in node.target._schema.arguments]
    if "dropout_p" not in names:
        return True
    place = names.index("dropout_p")  # of attention: without dropout it draws nothing
    default = node.target._schema.arguments[place].default_value
    given = node.args[place] if place < len(node.args) else node.kwargs.get("dropout_p", default)
    return not (isinstance(given, (int, float)) and given == 0)


def draws(graph: Any) -> bool:
    """Whether a graph, or one inside it (a branch, the body of a loop), draws random numbers."""
    import torch

    return any(
        _is_random(node)
        for module in graph.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    )


def next_seed() -> int:
    import torch

    return int(torch.empty((), dtype=torch.int64, device="cpu").random_().item())


def partition(joint: Any, inputs: Any, **how: Any) -> Any:
    """Cuts the joint graph into forward and backward. What is drawn inside of torch.utils.checkpoint is kept for the
    backward graph, not drawn again there: the backward graph is another one, and would draw other numbers."""
    from torch._functorch.partitioners import default_partition
    from torch.utils.checkpoint import CheckpointPolicy

    again = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)
    for node in joint.graph.nodes:
        if _is_random(node) and node.meta.get("recompute") in again:
            parts = [user for user in node.users if getattr(user.target, "__name__", "") == "getitem"]
            for kept in (node, *parts):
                kept.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return default_partition(joint, inputs, **how)
