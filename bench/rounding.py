#!/usr/bin/env python3
"""Compares the rounding of Kiln's sums with eager's: the errors of both against float64, per operator, sizes fixed and dynamic.

    python bench/rounding.py [--kiln build/release/bin/kiln] [NAME ...]

An error is the largest |got - truth| of a result, in units of float32's epsilon times the largest |truth|. The last column says
how many times eager's Kiln's is (eager's counted as at least half a unit: less is luck). Exit 1 if one is above --most (2).
Needs PyTorch; it is the oracle here, nothing that Kiln uses.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch.export import Dim

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "measuring"))
from chosen import by_name  # noqa: E402

CASES = {}


def case(*shapes):
    def add(function):
        CASES[function.__name__] = (function, shapes)
        return function

    return add


@case((64, 64), (64, 64))
def mm_short(x, y):
    return x @ y


@case((33, 4096), (4096, 40))
def mm_long(x, y):
    return x @ y


@case((7, 5000), (5000, 3))
def mm_few_columns(x, y):
    return x @ y


@case((2000, 9), (2000, 11))
def mm_transposed(x, y):
    return x.t() @ y


@case((3000,), (3000,))
def dot(x, y):
    return torch.dot(x, y)


@case((20, 3000), (3000,))
def mv(x, y):
    return x @ y


@case((5, 20, 700), (5, 700, 30))
def bmm(x, y):
    return torch.bmm(x, y)


@case((20, 30), (9, 20, 500), (9, 500, 30))
def addbmm(a, x, y):
    return torch.addbmm(a, x, y)


@case((9, 20, 30), (9, 20, 500), (9, 500, 30))
def baddbmm(a, x, y):
    return torch.baddbmm(a, x, y, beta=0.6, alpha=0.7)


@case((6, 800), (10, 800), (10,))
def linear(x, w, b):
    return F.linear(x, w, b)


@case((4, 12, 9), (4, 30, 9), (4, 30, 300))
def einsum_chain(x, y, z):
    return torch.einsum("bij,bkj,bkl->bil", x, y, z)


@case((2, 64, 60), (20, 64, 5), (20,))
def conv1d(x, w, b):
    return F.conv1d(x, w, b, padding=2)


@case((2, 48, 14, 14), (20, 48, 3, 3), (20,))
def conv2d(x, w, b):
    return F.conv2d(x, w, b, stride=2, padding=1)


@case((1, 24, 6, 7, 8), (10, 24, 3, 3, 3), (10,))
def conv3d(x, w, b):
    return F.conv3d(x, w, b, padding=1)


@case((2, 32, 9, 9), (32, 1, 7, 7))
def conv2d_depthwise(x, w):
    return F.conv2d(x, w, groups=32)


@case((2, 64, 40), (64, 20, 5), (20,))
def conv_transpose1d(x, w, b):
    return F.conv_transpose1d(x, w, b, stride=2)


@case((2, 48, 9, 9), (48, 20, 3, 3), (20,))
def conv_transpose2d(x, w, b):
    return F.conv_transpose2d(x, w, b, stride=2, padding=1)


@case((1, 24, 4, 5, 6), (24, 10, 3, 3, 3), (10,))
def conv_transpose3d(x, w, b):
    return F.conv_transpose3d(x, w, b, stride=2, output_padding=1)


@case((2, 4, 90, 32), (2, 4, 700, 32), (2, 4, 700, 24))
def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


@case((2, 4, 120, 32), (2, 4, 120, 32), (2, 4, 120, 24))
def attention_causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@case((30, 5000))
def sum_rows(x):
    return x.sum(-1)


@case((5000, 30))
def sum_columns(x):
    return x.sum(0)


@case((40, 30, 50))
def sum_middle(x):
    return x.sum(1)


@case((30, 40, 50))
def sum_all(x):
    return x.sum()


@case((8, 3000))
def mean_and_variance(x):
    return x.mean(-1), x.var(-1)


@case((3000, 8))
def variance_of_columns(x):
    return x.var(0)


@case((20, 3000))
def norms(x):
    return x.norm(dim=-1), torch.linalg.vector_norm(x, 3, dim=-1)


@case((8, 2500))
def softmax(x):
    return x.softmax(-1), x.log_softmax(-1), x.logsumexp(-1)


@case((16, 1000))
def layer_norm(x):
    return F.layer_norm(x, (x.shape[-1],))


@case((4, 32, 9, 9))
def group_norm(x):
    return F.group_norm(x, 4)


@case((2, 16, 30, 30))
def pooling(x):
    return F.avg_pool2d(x, 7), F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (3, 5))


@case((500, 6))
def cumulative(x):
    return x.cumsum(0), torch.logcumsumexp(x, 0)


@case((4, 2000))
def trapezoid(x):
    return torch.trapezoid(x), torch.cumulative_trapezoid(x)


@case((30, 400), (20, 400))
def distances(x, y):
    return torch.cdist(x, y), F.cosine_similarity(x[:20], y)


@case((40, 60))
def losses(x):
    return F.mse_loss(x, x.flip(0)), F.cross_entropy(x, torch.arange(40)), F.kl_div(x, x.flip(0).softmax(-1))


@case((700, 4), (700, 5), (6, 4, 5))
def bilinear(x, y, w):
    return F.bilinear(x, y, w)


@case((3000, 4))
def scatter_sums(x):
    index = torch.arange(3000) % 3
    return torch.zeros(3, 4).index_add(0, index, x), torch.zeros(3, 4).scatter_add(0, index[:, None].expand(-1, 4), x)


def units(got, truth):
    scale = torch.finfo(torch.float32).eps * truth.abs().max()
    return float(((got.double() - truth).abs().max() / scale) if truth.numel() and scale > 0 else 0.0)


def measure(name, kiln, folder, dynamic, backends):
    function, shapes = CASES[name]
    torch.manual_seed(len(name))
    inputs = tuple(torch.randn(s) for s in shapes)
    module = type("Model", (torch.nn.Module,), {"forward": lambda self, *a: function(*a)})()
    dims = (tuple({d: Dim.AUTO for d in range(len(s))} for s in shapes),) if dynamic else None
    program = torch.export.export(module, inputs, dynamic_shapes=dims, strict=False)
    torch.export.save(program, folder / "model.pt2")
    torch.save(list(inputs), folder / "inputs.pt")

    def results(value):
        return [v.contiguous() for v in (value if isinstance(value, tuple) else (value,))]

    truth = results(function_in_double(function, inputs))
    eager = [units(g, t) for g, t in zip(results(function(*inputs)), truth)]
    rows = {}
    for backend in backends:
        out = folder / f"{backend}.pt"
        if backend == "compiled":
            subprocess.run([kiln, "compile", folder / "model.pt2", "-o", folder / "m.kiln.pt2"], check=True, capture_output=True)
            command = [kiln, "run", folder / "m.kiln.pt2"]
        else:
            command = [kiln, "interpret", folder / "model.pt2"]
        subprocess.run([*command, "--inputs", folder / "inputs.pt", "-o", out], check=True, capture_output=True)
        rows[backend] = [units(g, t) for g, t in zip(torch.load(out), truth)]
    return eager, rows


def function_in_double(function, inputs):
    return function(*(x.double() for x in inputs)) if function is not scatter_sums else _scatter_truth(inputs[0].double())


def _scatter_truth(x):
    index = torch.arange(len(x)) % 3
    sums = torch.zeros(3, 4, dtype=torch.float64).index_add(0, index, x)
    return sums, sums


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(CASES))
    parser.add_argument("--kiln", default="build/release/bin/kiln", help="the command (build/release/bin/kiln)")
    parser.add_argument("--most", type=float, default=2.0, help="times eager's error that is still right (2)")
    options = parser.parse_args()
    by_name(options.names, CASES, "case")
    bad = 0
    print(f"{'':22} {'sizes':8} {'eager':>8} {'Kiln':>8} {'times':>7}")
    for name in options.names or CASES:
        for dynamic in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    eager, rows = measure(name, options.kiln, pathlib.Path(folder), dynamic, ["compiled"])
                except subprocess.CalledProcessError as error:
                    print(f"{name:22} {'dynamic' if dynamic else 'fixed':8} {error.stderr.decode().strip()[:200]}")
                    bad += 1
                    continue
                except Exception as error:  # noqa: BLE001: an export that PyTorch refuses is said and passed over
                    print(f"{name:22} {'dynamic' if dynamic else 'fixed':8} no export: {str(error).strip().splitlines()[0][:150]}")
                    continue
            for at, (theirs, ours) in enumerate(zip(eager, rows["compiled"])):
                times = ours / max(theirs, 0.5)
                bad += times > options.most
                label = name if at == 0 else f"  result {at}"
                print(f"{label:22} {'dynamic' if dynamic else 'fixed':8} {theirs:8.2f} {ours:8.2f} {times:7.2f}{'  <--' if times > options.most else ''}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
