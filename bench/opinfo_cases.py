#!/usr/bin/env python3
"""Makes case directories out of PyTorch's own samples of its operators (OpInfo), all of them.

    python bench/opinfo_cases.py --out DIR                        # every operator, float32
    python bench/opinfo_cases.py --out DIR diff grid_sampler_2d   # some, by the names of PyTorch's op_db
    build/release/bin/kiln check DIR --backend compiled

Several samples of an operator share a program (--together), because a C++ compiler likes one file of many kernels; the case's
`about` says which. --together 1 --sample N makes one of them alone, to look at what failed. --dynamic makes every size that
PyTorch lets be dynamic. Needs PyTorch with its test helpers (`pip install expecttest`). tests/README.md describes a case.
"""
import argparse
import copy
import json
import pathlib
import shutil
import sys
import warnings

import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from save_model import save_model  # noqa: E402


class Call:
    """One sample: what is called, its tensors, and the rest of its arguments."""

    def __init__(self, number, op, sample):
        leaves, self.tree = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.number, self.op = number, op
        # Samples share tensors, and a call may write to them: each gets its own.
        self.tensors = copy.deepcopy([leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor)])
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.holes = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def __call__(self, *tensors):
        leaves = list(self.leaves)
        for hole, tensor in zip(self.holes, tensors):
            leaves[hole] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        results = pytree.tree_leaves(self.op(*args, **kwargs))
        return [r for r in results if isinstance(r, (torch.Tensor, int, float, bool))]

    def usable(self):
        """Whether it is dense, on the CPU, runs, and gives the same twice."""
        if any(t.layout != torch.strided or t.is_conj() or t.is_neg() for t in self.tensors):
            return False
        rows = []
        for seed in (0, 1):
            torch.manual_seed(seed)
            rows.append(self(*copy.deepcopy(self.tensors)))
        return bool(rows[0]) and all(same(a, b) for a, b in zip(*rows))


def same(a, b):
    if not isinstance(a, torch.Tensor):
        return a == b or a != a
    return a.layout == torch.strided and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


class Together(torch.nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, tensors):
        out, at = [], 0
        for call in self.calls:
            given = tensors[at : at + len(call.tensors)]
            at += len(call.tensors)
            out.append(call(*given))
        return out


def dynamic_shapes(tensors):
    return ([{d: Dim.AUTO for d in range(t.dim()) if t.shape[d] > 1} for t in tensors],)


def is_random(node):
    """Whether eager's result is not to be had again; what was never written counts, too."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags or "empty" in str(node.target)


def write(folder, calls, dynamic):
    tensors = [t for call in calls for t in call.tensors]
    module = Together(calls)
    shapes = dynamic_shapes(tensors) if dynamic else None
    program = torch.export.export(module, (copy.deepcopy(tensors),), dynamic_shapes=shapes, strict=False)
    if any(is_random(node) for node in program.graph.nodes):
        raise RuntimeError("draws random numbers")
    given = copy.deepcopy(tensors)
    outputs = pytree.tree_leaves(module(given))
    folder.mkdir(parents=True)
    save_model(program, folder / "model.pt2")
    torch.save(tensors, folder / "inputs_0.pt")
    if not all(same(a, b) for a, b in zip(tensors, given)):
        torch.save(given, folder / "mutated_0.pt")
    torch.save(outputs, folder / "expected_0.pt")
    about = f"samples {', '.join(str(c.number) for c in calls)}"
    (folder / "case.json").write_text(json.dumps({"about": about}) + "\n")


def samples_of(info, dtype, wanted):
    for number, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=False)):
        if wanted is not None and number != wanted:
            continue
        try:
            call = Call(number, info.op, sample)
            if call.usable():
                yield call
        except Exception as error:  # noqa: BLE001: a sample that eager refuses is not ours to run
            print(f"  {info.name} sample {number}: eager: {first_line(error)}")


def first_line(error):
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:200]


def make(info, dtype, options):
    name = "_".join(filter(None, [info.name.replace(".", "_"), info.variant_test_name, str(dtype)[6:]]))
    name += "_dyn" if options.dynamic else ""
    if (options.out / name).exists() and options.sample is None:
        return
    torch.manual_seed(0)
    calls = list(samples_of(info, dtype, options.sample))
    written = 0

    if options.at_most and len(calls) > options.at_most:  # spread over all of them: neighbours are alike
        calls = [calls[i * len(calls) // options.at_most] for i in range(options.at_most)]

    def put(part):
        nonlocal written
        folder = options.out / name / "_".join(dict.fromkeys([str(part[0].number), str(part[-1].number)]))
        if folder.exists():
            return
        try:
            write(folder, part, options.dynamic)
            written += len(part)
        except Exception as error:  # noqa: BLE001: what cannot be exported is said and left out
            shutil.rmtree(folder, ignore_errors=True)
            if len(part) > 1:
                for call in part:
                    put([call])
            else:
                print(f"  {name} sample {part[0].number}: export: {first_line(error)}")

    for at in range(0, len(calls), options.together):
        put(calls[at : at + options.together])
    print(f"{name}: {len(calls)} samples, {written} written", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--dtype", action="append", help="default: float32, or the first that the operator has")
    parser.add_argument("--together", type=int, default=16)
    parser.add_argument("--at-most", type=int, help="samples of one operator; some have over a thousand")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--dynamic", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

    names = {info.name for info in op_db}
    for unknown in set(options.operators) - names:
        sys.exit(f"op_db has no operator {unknown}")
    with torch.no_grad():
        for info in op_db:
            if options.operators and info.name not in options.operators:
                continue
            has = info.supported_dtypes("cpu")
            wanted = [getattr(torch, d) for d in options.dtype or ["float32"]]
            if not options.dtype and torch.float32 not in has:
                wanted = sorted(has, key=str)[-1:]
            for dtype in wanted:
                if dtype in has:
                    make(info, dtype, options)


if __name__ == "__main__":
    main()
