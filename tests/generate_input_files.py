#!/usr/bin/env python3
"""Makes tests/input_files with PyTorch: one model with nested arguments, and its inputs in every form that --inputs takes.

The results are committed, so running the tests (cli/inputs_test.sh) needs no Python. `expected.pt` is PyTorch's result for
all files but those whose names begin with "bad_".
"""
import collections
import dataclasses
import pathlib
import shutil
import sys
import typing

import numpy
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
from save_model import save_model  # noqa: E402


class Model(torch.nn.Module):
    def forward(self, x, parts, scale, *, bias):
        return (x * 2 + parts["left"] * 3 - parts["pair"][0] * 5 + parts["pair"][1] * 7) * scale + bias


@dataclasses.dataclass
class Result:
    logits: torch.Tensor
    hidden: typing.Optional[torch.Tensor] = None
    loss: typing.Optional[torch.Tensor] = None


torch.export.register_dataclass(Result, serialized_type_name="Result")


class Outputs(torch.nn.Module):
    """Constants of every kind, and a dataclass of which one field is None."""

    def forward(self, x):
        return {"result": Result(logits=x + 1, loss=x.mean()), "mode": "hello", "count": 3, "rate": 2.5, "flag": True,
                "nothing": None}


class Colliding(torch.nn.Module):
    """Keys and places of the result, and of the arguments, that come to the same names."""

    def forward(self, d, d_a):
        return {"feat": [d["a"] + 1, d["a"] + 2], "feat.0": d_a + 3, 1: d_a + 4, "1": d_a + 5}


class DecidedByRounding(torch.nn.Module):
    """Values at the edge of a step, nearly equal numbers, vectors of a singular matrix, magnified rounding: results that
    are right may differ. And the logits of a bfloat16 model, stored in float32."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4))).bfloat16()

    def forward(self, x):
        steps = (x.softmax(-1).cumsum(-1) * 3.0).to(torch.int8).float()
        logits = self.layers(torch.nn.functional.pad(x, (0, 31)).bfloat16()).float()
        products = x @ x.mT
        return (torch.nn.functional.normalize(steps, dim=-1), logits, products.flatten().topk(40).indices,
                torch.linalg.svd(x[:, :4] @ x[:, :4].mT).U, (products * 3).exp(), torch.fft.fft(x).angle())


class Masked(torch.nn.Module):
    """Of the last row of the second batch the mask forbids everything: safe softmax gives zeros for it."""

    def forward(self, q, mask):
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)


class Divides(torch.nn.Module):
    """The quotient is a value of the program, whatever becomes of it."""

    def forward(self, x):
        y = x / x.sum(-1, keepdim=True)
        return torch.where(torch.isnan(y), 0.0, y), y.argmax(-1)


@dataclasses.dataclass
class Plain:
    a: torch.Tensor
    none: typing.Optional[torch.Tensor] = None
    b: typing.Any = None


@dataclasses.dataclass(slots=True)
class Slots(Plain):
    pass


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: torch.Tensor
    none: typing.Optional[torch.Tensor] = None
    b: typing.Any = None


class Pair(typing.NamedTuple):
    p: torch.Tensor
    q: torch.Tensor


class Node:
    """A class that is registered with PyTorch's pytree and says the names of its attributes."""

    def __init__(self, u, v):
        self.v, self.u = v, u


torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="classes.Pair")
for kind in (Plain, Slots, Frozen):
    torch.export.register_dataclass(kind, serialized_type_name=f"classes.{kind.__name__}")
torch.utils._pytree.register_pytree_node(
    Node, lambda node: ([node.u, node.v], ["u", "v"]), lambda children, _: Node(*children),
    serialized_type_name="classes.Node", to_dumpable_context=lambda names: names,
    from_dumpable_context=lambda names: names,
    flatten_with_keys_fn=lambda node: (
        [(torch.utils._pytree.GetAttrKey(name), getattr(node, name)) for name in ("u", "v")], ["u", "v"]))


class Classes(torch.nn.Module):
    def forward(self, one, two, *, node):
        parts = [one.a, one.b.p, one.b.q, two["s"].a, two["s"].b[0].a, two["s"].b[0].b, node.u, node.v.a, node.v.b]
        return sum(part * 3 ** i for i, part in enumerate(parts))


def write_classes(folder):
    """Arguments that are dataclasses (plain, with slots, frozen with slots), named tuples and a class of the user's."""
    torch.manual_seed(13)
    x = [torch.randn(4) for _ in range(9)]
    args = (Plain(x[0], b=Pair(x[1], x[2])), {"s": Slots(x[3], b=[Frozen(x[4], b=x[5])])})
    kwargs = {"node": Node(x[6], Plain(x[7], b=x[8]))}
    save_model(torch.export.export(Classes(), args, kwargs), folder / "classes.pt2", False)
    torch.save(x, folder / "classes_flat.pt")
    torch.save((args, kwargs), folder / "classes_args_and_kwargs.pt")
    torch.save({"node": kwargs["node"], "one": args[0], "two": args[1]}, folder / "classes_arguments.pt")
    names = ["one.a", "one.b.0", "one.b.1", "two.s.a", "two.s.b.0.a", "two.s.b.0.b", "node.u", "node.v.a", "node.v.b"]
    torch.save(dict(reversed(list(zip(names, x)))), folder / "classes_names.pt")


class Weighted(torch.nn.Module):
    """Its state dict has a number that the program does not use (num_batches_tracked) and a buffer that calls write."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.norm(self.linear(x)) + self.calls


def write_weights(folder):
    torch.manual_seed(12)
    model, x = Weighted().eval(), torch.randn(5, 4)
    save_model(torch.export.export(model, (x,)), folder / "weighted.pt2", False)
    with torch.no_grad():
        for value in model.state_dict().values():
            value.copy_(torch.rand(value.shape) * 3 if value.is_floating_point() else 7)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    torch.save({**state, "another.model": torch.ones(2)}, folder / "weights.pt")
    numpy.savez(folder / "weights.npz", **{name: value.numpy() for name, value in state.items()})
    write_safetensors(folder / "weights.safetensors", state)
    torch.save({name: value for name, value in state.items() if name != "linear.bias"}, folder / "weights_lacking.pt")
    torch.save({**state, "linear.bias": torch.rand(4)}, folder / "bad_weights_size.pt")
    torch.save({**state, "linear.bias": 1.5}, folder / "bad_weights_number.pt")
    torch.save([model(x)], folder / "weights_expected.pt")


def write_safetensors(path, tensors):
    """The format by hand: a length, a JSON header, the bytes."""
    import json

    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.numpy().tobytes()
        header[name] = {"dtype": {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def main():
    folder = HERE / "input_files"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    torch.manual_seed(11)
    x, left, first, second, bias = (torch.randn(4) for _ in range(5))
    args, kwargs = (x, {"left": left, "pair": [first, second]}, 1.5), {"bias": bias}
    model = Model().eval()
    save_model(torch.export.export(model, args, kwargs), folder / "nested.pt2", False)
    torch.save([model(*args, **kwargs)], folder / "expected.pt")

    flat = {"x": x, "parts_left": left, "parts_pair_0": first, "parts_pair_1": second, "scale": torch.tensor(1.5),
            "bias": bias}
    turned = dict(reversed(flat.items()))
    without = {name: value for name, value in turned.items() if name != "scale"}
    torch.save([x, left, first, second, 1.5, bias], folder / "flat.pt")
    torch.save([x, left, first, second, bias], folder / "flat_without_constant.pt")
    torch.save(turned, folder / "names.pt")
    numpy.savez(folder / "names.npz", **{name: value.numpy() for name, value in turned.items()})
    write_safetensors(folder / "names_without_constant.safetensors", without)
    torch.save({"scale": 1.5, "bias": bias, "parts": collections.OrderedDict(pair=(first, second), left=left), "x": x},
               folder / "arguments.pt")
    torch.save((args, kwargs), folder / "args_and_kwargs.pt")
    torch.save([list(args), kwargs], folder / "args_and_kwargs_as_lists.pt")

    misspelt = {("prats_left" if name == "parts_left" else name): value for name, value in flat.items()}
    torch.save(misspelt, folder / "bad_name.pt")
    numpy.savez(folder / "bad_name.npz", **{name: value.numpy() for name, value in misspelt.items()})
    write_safetensors(folder / "bad_name.safetensors", misspelt)
    torch.save({**flat, "more": x}, folder / "bad_one_more.pt")
    torch.save({"x": x, "parts": {"left": left, "pair": [first]}, "bias": bias}, folder / "bad_form.pt")
    torch.save({**flat, "scale": 2.5}, folder / "bad_constant.pt")

    save_model(torch.export.export(Outputs(), (x,)), folder / "outputs.pt2", False)
    torch.manual_seed(13)
    save_model(torch.export.export(DecidedByRounding(), (torch.randn(16, 33),)), folder / "decided_by_rounding.pt2", False)
    d, d_a = {"a": torch.tensor([10.0, 20.0])}, torch.tensor([100.0, 200.0])
    save_model(torch.export.export(Colliding(), (d, d_a)), folder / "colliding.pt2", False)
    numpy.savez(folder / "colliding.npz", **{"d.a": d["a"].numpy(), "d_a": d_a.numpy()})
    numpy.savez(folder / "colliding_flat.npz", **{"d_a": d["a"].numpy(), "d_a_1": d_a.numpy()})
    q, mask = torch.randn(2, 2, 40, 16), torch.rand(2, 1, 40, 40) > 0.3
    mask[1, :, -1] = False
    save_model(torch.export.export(Masked(), (q, mask)), folder / "masked.pt2", False)
    rows = torch.rand(3, 8)
    rows[1] = 0
    save_model(torch.export.export(Divides(), (rows,)), folder / "divides.pt2", False)
    write_weights(folder)
    write_classes(folder)


main()
