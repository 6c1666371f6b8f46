"""A graph that AOT Autograd made, as torch.export takes it: with the user's source lines, and without the tokens that
order its effects."""

from __future__ import annotations

import copy
import operator
from typing import Any


def without_effect_tokens(graph: Any) -> Any:
    """The graph with what ``with_effects(token, operator, …)`` calls in its place. Tokens are None in every call: inputs
    that are tokens stay, unused, and outputs that are tokens are None. The order of the graph is that of the effects;
    torch.export gives the calls tokens of its own."""
    import torch

    wrapper = getattr(torch.ops.higher_order, "with_effects", None)
    if not any(node.target is wrapper for node in graph.graph.nodes if node.op == "call_function"):
        return graph
    graph = copy.copy(graph)  # GraphModule: with a graph of its own, and the same submodules
    for node in list(graph.graph.nodes):
        if node.op != "call_function" or node.target is not wrapper:
            continue
        called = node.args[1]
        count = len(node.meta["val"]) - 1  # what with_effects gives beside the token
        with graph.graph.inserting_before(node):
            direct = graph.graph.call_function(called, tuple(node.args[2:]), dict(node.kwargs))
        direct.meta = {key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta}
        for part in list(node.users):
            place = part.args[1]
            if place == 0:
                _replace_by_none(part)
            elif count == 1:
                part.replace_all_uses_with(direct)
            else:
                with graph.graph.inserting_before(part):
                    part.replace_all_uses_with(graph.graph.call_function(operator.getitem, (direct, place - 1)))
            graph.graph.erase_node(part)
        graph.graph.erase_node(node)
    graph.recompile()
    return graph


def _replace_by_none(node: Any) -> None:
    import torch

    for user in list(node.users):
        user.args = torch.fx.map_arg(user.args, lambda used: None if used is node else used)
        user.kwargs = torch.fx.map_arg(user.kwargs, lambda used: None if used is node else used)


def as_module(graph: Any) -> Any:
    """The graph as a module to export. It is interpreted, node by node: what is traced then has the lines of the user's
    source that Dynamo noted at the nodes, and not those of the code that PyTorch generated for the graph."""
    import torch

    graph = without_effect_tokens(graph)

    class Captured(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.graph = graph

        def forward(self, *values: Any) -> Any:
            with torch.fx.traceback.preserve_node_meta():
                return torch.fx.Interpreter(self.graph).run(*values)

    return Captured()
