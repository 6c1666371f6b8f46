#!/usr/bin/env python3
"""Makes the case directories in tests/cases with PyTorch (the only place where the tests need it).

    python tests/generate_cases.py            # all cases
    python tests/generate_cases.py mlp cond   # some

The results are committed, so running the tests needs no Python. tests/README.md describes a case directory. Values
come from a generator seeded per case: a case does not change because another one was added.
"""
import inspect
import linecache
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch.export import Dim

from case_writer import write_case
from custom_operators import register_custom_operators
import edge_cases
import gpu_cases
import numeric_cases
import picture_cases
import quantised_cases
import sharing_cases
import state_cases

HERE = pathlib.Path(__file__).resolve().parent

CASES = {}  # name -> function that makes it; in the order of this file


class Case:
    """What one function below returns: a module, calls (the first is the export's), and what else the case wants."""

    def __init__(self, module, calls, about, dynamic=None, bad=(), sequence=False, needs=None, decompose=False,
                 keep_library_frames=False, example=None, gradients=False, tolerance=None):
        self.module, self.calls, self.about, self.dynamic, self.bad = module, calls, about, dynamic, bad
        self.sequence, self.needs, self.decompose = sequence, needs, decompose
        self.keep_library_frames = keep_library_frames
        self.tolerance = tolerance  # {rtol, atol}, where rounding is not within that of the dtype
        self.gradients = gradients  # whether they are wanted at export, as they are by default
        self.example = example  # what it is exported with, where that is not the first call


def case(make):
    CASES[make.__name__.rstrip("_")] = make
    return make


def of(forward, calls, about, dynamic=None, **more):
    """A case whose module has nothing but a forward; `dynamic` names the inputs that have dynamic dimensions."""
    module = type("Model", (torch.nn.Module,), {"forward": forward})()
    if dynamic is not None:
        dynamic = {name: dynamic.get(name) for name in list(inspect.signature(forward).parameters)[1:]}
    return Case(module, calls, about, dynamic, **more)


def randn(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, dtype=torch.float32).to(dtype)


def special(*sizes):
    """Normal values with NaN, both infinities, both zeros and a subnormal among them."""
    values = torch.randn(*sizes)
    flat = values.view(-1)
    odd = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-40, 100.0, -100.0]
    places = torch.randperm(flat.numel())[: len(odd)]
    flat[places] = torch.tensor(odd[: len(places)])
    return values


# ---- The documents' model ------------------------------------------------------------------------------------------


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(10, 16)
        self.relu = torch.nn.ReLU()
        self.fc2 = torch.nn.Linear(16, 1)
        self.sigmoid = torch.nn.Sigmoid()

    def forward(self, x):
        x = self.fc1(x)
        x = self.relu(x)
        x = self.fc2(x)
        x = self.sigmoid(x)
        return x


def mlp_case(decompose):
    batch = Dim("batch", min=1, max=1024)
    bad = [
        [torch.randn(8, 11)],                       # size
        [torch.randn(8, 10, dtype=torch.float64)],  # dtype
        [torch.randn(10)],                          # number of dimensions
        [torch.randn(0, 10)],                       # below the range
        [torch.randn(1025, 10)],                    # above the range
        [],                                         # number of inputs
        [torch.randn(8, 10), torch.randn(8, 10)],
        [3],                                        # not a tensor
    ]
    calls = [(torch.randn(8, 10),), (torch.randn(1, 10),), (torch.randn(67, 10),), (torch.randn(10, 6).t(),)]
    about = "the documents' MLP over a dynamic batch" + (", decomposed to Core ATen" if decompose else "")
    return Case(Mlp(), calls, about, {"x": {0: batch}}, bad=() if decompose else bad, decompose=decompose,
                keep_library_frames=True)


@case
def mlp():
    return mlp_case(decompose=False)


@case
def mlp_decomposed():
    return mlp_case(decompose=True)


# ---- One operator each -----------------------------------------------------------------------------------------------


@case
def add():
    def forward(self, x, y, row, n):
        return x + y, torch.add(x, y, alpha=2), x + row, x + 1.5, n + x, n + 3, n + n
    calls = [(randn(4, 5), randn(4, 5), randn(5), torch.randint(-9, 9, (4, 5))) for _ in range(2)]
    return of(forward, calls, "add: broadcasting, alpha, scalars, int with float")


@case
def add_bf16():
    def forward(self, x, y):
        return x + y, x + y.float(), x * 2 + y
    calls = [(randn(6, 9, dtype=torch.bfloat16), randn(6, 9, dtype=torch.bfloat16)) for _ in range(2)]
    return of(forward, calls, "bfloat16 arithmetic and promotion to float32")


@case
def spectral():
    def forward(self, x, tall, wide, z):
        sym, hermitian = x + x.mT, z + z.mH
        tall_u, tall_s, tall_v = torch.linalg.svd(tall)
        wide_u, wide_s, wide_v = torch.linalg.svd(wide, full_matrices=False)
        u, s, v = torch.linalg.svd(z)
        factors, pivots = torch.linalg.ldl_factor(sym)
        packed, tau = torch.geqrf(tall)
        return (*torch.linalg.eigh(sym), *torch.linalg.eigh(hermitian), torch.linalg.eigvals(x), *torch.linalg.eig(z),
                tall_u[:, :3], tall_s, tall_v, wide_u, wide_s, wide_v, u, s, v, factors, pivots, packed, tau,
                torch.linalg.householder_product(packed, tau))
    calls = [(randn(5, 5), randn(4, 3), randn(3, 5), torch.randn(4, 4, dtype=torch.complex64)) for _ in range(3)]
    return of(forward, calls, "eigenvalues, singular values and factors with LAPACK's signs and orders")


@case
def mul():
    def forward(self, x, column, n, flags):
        return x * column, x * 0.5, n * n, n * 2.5, flags * x, flags * flags, x * 3
    calls = [(randn(4, 5), randn(4, 1), torch.randint(-9, 9, (4, 5)), torch.rand(4, 5) > 0.5) for _ in range(2)]
    return of(forward, calls, "mul: broadcasting, scalars, ints, bools")


@case
def relu():
    def forward(self, x, n):
        return torch.relu(x), torch.relu(n), x.t().relu()
    return of(forward, [(special(5, 7), torch.randint(-9, 9, (13,))) for _ in range(2)],
              "relu of floats with NaN, of ints")


@case
def sigmoid():
    def forward(self, x, n):
        return torch.sigmoid(x), torch.sigmoid(n)
    return of(forward, [(special(6, 11), torch.randint(-9, 9, (3, 3))) for _ in range(2)],
              "sigmoid, with infinities; of ints")


@case
def exp():
    def forward(self, x, d):
        return torch.exp(x), torch.exp(d)
    calls = [(special(6, 11) * 10, torch.linspace(-800, 800, 33, dtype=torch.float64)) for _ in range(2)]
    return of(forward, calls, "exp over its whole range, float32 and float64")


@case
def view():
    def forward(self, x, y):
        return x.view(-1, 6) + 1, x.view(4, 3, 2), y.view(y.size(0), -1) * 2, y.view(-1)
    calls = [(randn(2, 12), randn(n, 3, 4)) for n in (3, 2, 7)]
    return of(forward, calls, "view with sizes, with -1, over a dynamic dimension", {"y": {0: Dim("n", min=1, max=64)}})


@case
def transpose():
    def forward(self, x):
        return x.transpose(0, 2), x.transpose(-1, -2) + 1, x.transpose(1, 1), x.transpose(0, 1).exp()
    return of(forward, [(randn(2, 3, 4),), (randn(2, 3, 4),)], "transpose, as result and as operand")


@case
def expand():
    def forward(self, x, y):
        return x.expand(3, 4) + 0, x.expand(2, 3, -1), x.expand(y.size(0), 3, 4) * y
    calls = [(randn(3, 1), randn(n, 1, 4)) for n in (5, 2)]
    return of(forward, calls, "expand to fixed and to dynamic sizes", {"y": {0: Dim("n", min=2, max=64)}})


@case
def slice_():
    def forward(self, x):
        return x[1:4] + 1, x[:, ::2], x[-3:-1, 1:], x[2:100], x[:, 5:5], x[3:1]
    return of(forward, [(randn(6, 7),), (randn(6, 7),)], "slices with steps, negative, out of range and empty")


@case
def cat():
    def forward(self, x, y, n):
        return torch.cat([x, y]), torch.cat([x, x, y[: x.size(0)]], 1), torch.cat([n, x], -1), torch.cat([y, x], 0) * 2
    calls = [(randn(3, 4), randn(m, 4), torch.randint(-9, 9, (3, 2))) for m in (5, 3, 8)]
    return of(forward, calls, "cat along both dimensions, dynamic, mixed dtypes", {"y": {0: Dim("m", min=3, max=64)}})


@case
def sum_():
    def forward(self, x, n, flags):
        return (x.sum(), x.sum(0), x.sum(-1, keepdim=True), x.sum((0, 2)), n.sum(), flags.sum(1),
                x.sum(1, dtype=torch.float64), x[:, :0].sum(1))
    calls = [(randn(5, 33, 7), torch.randint(-99, 99, (4, 9)), torch.rand(4, 9) > 0.5) for _ in range(2)]
    return of(forward, calls, "sum of all, over dimensions, of ints and bools, of nothing")


@case
def amax():
    def forward(self, x, y, n):
        return x.amax(1), x.amax((0, 1)), x.amax(-1, keepdim=True), y.amax(0), n.amax(0)
    calls = [(randn(5, 33), special(9, 4), torch.randint(-99, 99, (4, 9))) for _ in range(2)]
    return of(forward, calls, "amax over dimensions, with NaN, of ints")


@case
def softmax():
    def forward(self, x, masked):
        return torch.softmax(x, 1), x.softmax(0), x.softmax(-1).sum(-1), masked.softmax(-1)
    calls = []
    for rows in (5, 1, 9):
        masked = randn(4, 8)
        masked[:, 5:] = float("-inf")
        masked[3] = 1e4
        calls.append((randn(rows, 37), masked))
    return of(forward, calls,
              "softmax along both dimensions, with -inf and large values", {"x": {0: Dim("rows", min=1, max=64)}})


@case
def linear():
    def forward(self, x, batched, weight, bias):
        f = torch.nn.functional.linear
        return f(x, weight, bias), f(x, weight), f(batched, weight, bias), f(x[0], weight, bias)
    calls = [(randn(n, 24), randn(2, 3, 24), randn(17, 24), randn(17)) for n in (6, 1, 33)]
    return of(forward, calls,
              "linear with and without bias, of 1, 2 and 3 dimensions", {"x": {0: Dim("n", min=1, max=256)}})


@case
def mm():
    def forward(self, a, b, n):
        return a @ b, torch.mm(b.t(), a.t()), torch.mm(n, n)
    calls = [(randn(r, 19), randn(19, 21), torch.randint(-9, 9, (4, 4))) for r in (7, 2, 40)]
    return of(forward, calls, "matrix products, transposed operands, ints", {"a": {0: Dim("r", min=2, max=256)}})


@case
def add_inplace():
    def forward(self, x, y):
        z = x * 2
        z.add_(y)
        z[1].add_(1.0)
        z.t().add_(x.t(), alpha=3)
        return z, z + 1
    return of(forward, [(randn(4, 5), randn(5)) for _ in range(2)],
              "add_ on a value, through a row and a transposed view")


@case
def copy_inplace():
    def forward(self, x, n):
        z = torch.zeros_like(x)
        z[:2].copy_(x[2:])
        z[:, 1].copy_(n)
        return z, z.exp()
    return of(forward, [(randn(4, 5), torch.randint(-9, 9, (4,))) for _ in range(2)], "copy_ into slices, with a cast")


@case
def index():
    def forward(self, x, rows, columns, mask_like):
        return x[rows], x[rows, columns], x[:, columns], x[rows.view(-1, 1), columns], x[mask_like.long()]
    bad_rows = torch.tensor([0, 6, 1])  # row 6 of 6: the program must stop with an error, not read past the end
    calls = [(randn(6, 5), torch.randint(-6, 6, (3,)), torch.randint(0, 5, (3,)), torch.randint(0, 6, (2, 2)).int())
             for _ in range(2)]
    bad = [[randn(6, 5), bad_rows, torch.tensor([0, 1, 2]), torch.zeros(2, 2).int()]]
    return of(forward, calls, "indexing by one and two index tensors, negative, out of range", bad=bad)


@case
def embedding():
    class Tokens(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(11, 8, padding_idx=0)

        def forward(self, tokens):
            return self.table(tokens), self.table(tokens).sum(-1)
    calls = [(torch.randint(0, 11, (2, t)),) for t in (5, 1, 17)]
    bad = [[torch.tensor([[1, 2, 11], [0, 0, 0]])], [torch.tensor([[1, -1, 1], [0, 0, 0]])]]
    return Case(Tokens(), calls, "embedding of a dynamic number of tokens; tokens out of range are refused",
                {"tokens": {1: Dim("t", min=1, max=64)}}, bad=bad)


@case
def argmax():
    def forward(self, x, ties, odd):
        return x.argmax(), x.argmax(1), x.argmax(0, keepdim=True), ties.argmax(1), odd.argmax(-1)
    calls = [(randn(7, 19), torch.randint(0, 3, (5, 9)), special(4, 5)) for _ in range(2)]
    return of(forward, calls, "argmax of all, along dimensions, with ties and NaN")


@case
def nonzero():
    def forward(self, x, flags):
        return x.nonzero(), flags.nonzero() + 1
    calls = [(torch.randint(-1, 2, (4, 5)), torch.rand(9) > p) for p in (0.5, 0.9, 1.0)]
    return of(forward, calls, "nonzero: sizes that depend on data, none at all")


@case
def known_count():
    def forward(self, x, y):
        torch._check(x.nonzero().shape[0] == 6)
        return torch.ones(x.nonzero().shape[0]) + y
    return of(forward, [(torch.arange(1, 7), randn(6)), (-torch.arange(1, 7), randn(6))],
              "a count that the program says it knows: nobody reads the positions, and other counts are refused",
              bad=[(torch.arange(6), randn(6))])


@case
def slice_by_data():
    def forward(self, x, n):
        k = n.item()
        swapped = torch.cat([x[k:], x[:k]])
        x[:k] *= 2
        return swapped, x[-k:, ::2] + 1, torch.ones(x[1:k].shape[0], 2), x[:k] @ x.t()
    return of(forward, [(randn(6, 4), torch.tensor(k)) for k in (2, 0, 6, 9, -2)],
              "slices whose bounds are read from a tensor: in range, empty, past the end, from the end",
              {"x": {0: Dim.DYNAMIC}})


@case
def topk():
    def forward(self, x, odd):
        values, indices = x.topk(3)
        smallest, _ = x.topk(2, dim=0, largest=False)
        return values, indices, smallest, odd.topk(4, dim=1).values
    return of(forward, [(torch.randperm(45).view(5, 9).float(), special(3, 9)) for _ in range(2)],
              "topk largest and smallest, along both dimensions, with NaN")


# ---- Dynamic sizes --------------------------------------------------------------------------------------------------


@case
def same_size():
    def forward(self, x, y):
        return x * y, (x + y).sum(0)
    n = Dim("n", min=2, max=32)
    calls = [(randn(k, 3), randn(k, 3)) for k in (4, 2, 32)]
    bad = [[randn(4, 3), randn(5, 3)], [randn(33, 3), randn(33, 3)], [randn(1, 3), randn(1, 3)]]
    return of(forward, calls, "two inputs of one dynamic size, 2 to 32", {"x": {0: n}, "y": {0: n}}, bad=bad)


@case
def strided_inputs():
    # The strides of these results do not follow the input's: PyTorch's are the same whatever the strides given.
    def forward(self, x, weight):
        return x.sum(0), x.sum(), torch.nn.functional.linear(x, weight), torch.cat([x.sum(1), x[:, 0]])
    n = Dim("n", min=2, max=32)
    weight = randn(3, 4)
    calls = [(randn(5, 4), weight), (randn(4, 5).t(), weight), (randn(10, 9)[1:10:2, 3:7], weight),
             (randn(1, 4).expand(5, 4), weight), (randn(61)[1:].as_strided((5, 4), (12, 3)), randn(4, 3).t())]
    return of(forward, calls, "inputs with other strides and offsets than exported", {"x": {0: n}})


@case
def twice_the_size():
    def forward(self, x, y):
        return y.view(2, -1) + x, torch.cat([x, y]), y[x.size(0):] * 2
    n = Dim("n", min=2, max=32)
    calls = [(randn(k), randn(2 * k)) for k in (4, 2, 32)]
    bad = [[randn(4), randn(9)], [randn(4), randn(4)], [randn(33), randn(66)]]
    return of(forward, calls, "one size is twice another", {"x": {0: n}, "y": {0: 2 * n}}, bad=bad)


@case
def effects_and_wrappers():
    from torch._higher_order_ops.out_dtype import out_dtype
    from torch._higher_order_ops.strict_mode import strict_mode

    def forward(self, x, a, b):
        torch._higher_order_ops.print("x is {}", 3)
        return strict_mode(lambda v: v.sin() + 1, (x,)), out_dtype(torch.ops.aten.mm.default, torch.int32, a, b)
    small = [(randn(3), torch.randint(-100, 100, (2, 40), dtype=torch.int8),
              torch.randint(-100, 100, (40, 3), dtype=torch.int8)) for _ in range(2)]
    return of(forward, small, "print with its token, strict_mode, out_dtype", decompose=True)


@case
def masked_scatter_without_source():
    """As a multimodal model on text alone: no features, and no place for them."""
    def forward(self, x, places, features, keep):
        kept = features[keep]
        return x.masked_scatter(places.unsqueeze(-1), kept), x.masked_scatter(places.unsqueeze(-1), kept * 2).sum(0)

    def call(places, keep):
        return randn(6, 4), torch.tensor(places) > 0, randn(5, 4), torch.tensor(keep) > 0
    some, none = call([0, 1, 0, 1, 1, 0], [1, 0, 1, 1, 0]), call([0] * 6, [0] * 5)
    spare = call([0, 0, 1, 0, 0, 0], [1, 1, 1, 1, 1])
    rows = Dim("rows", min=1, max=64)
    return of(forward, [some, none, spare], "masked_scatter whose source may be empty or have more than is asked for",
              {"x": {0: rows}, "places": {0: rows}},
              bad=[call([1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0]), call([1, 0, 0, 0, 0, 0], [0] * 5)])


@case
def masked_off_indices():
    """What a mask switches off is not looked at: padding, ignored targets, empty bags, nothing selected."""
    def forward(self, x, table, ids, keep, targets):
        kept = ids[keep]
        fill = torch.ops.aten._unsafe_masked_index(table[:, 0], ids < 3, [ids * 100], -1.0)
        put = torch.ops.aten._unsafe_masked_index_put_accumulate(table[:, 0], ids < 3, [ids * 100], x[:, 0])
        offsets = torch.zeros(2, dtype=torch.int64)
        return (torch.take(table, kept), F.embedding(kept, table, padding_idx=1), table.index_select(0, kept),
                F.embedding_bag(kept, table, offsets, mode="sum"), fill, put,
                x.index_put((kept,), torch.zeros(())), x.index_add(0, kept, x[keep]),
                F.nll_loss(x, targets, ignore_index=99, reduction="sum"),
                torch.where((ids < 3).unsqueeze(-1), table[ids.clamp(max=4)], x))

    def call(keep, targets):
        return randn(6, 4), randn(5, 4), torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor(keep) > 0, torch.tensor(targets)
    good = [call([1, 0, 1, 1, 0, 1], [0, 99, 1, 2, 99, 3]), call([0] * 6, [99] * 6), call([1] * 6, [0, 1, 2, 3, 0, 1])]
    bad = [call([1] * 6, [0, 1, 2, 4, 0, 1]), call([1] * 6, [0, 1, -1, 2, 0, 1])]
    wrong = list(call([1] * 6, [0] * 6))
    wrong[2] = torch.tensor([0, 1, 2, 3, 5, 0])
    return of(forward, good, "indices under masks, of nothing, and ignored ones", bad=[*bad, tuple(wrong)])


@case
def blocks32():
    """Thirty-two equal blocks, each on a source line of its own: kernels are shared, provenance is not."""
    width, count = 8, 32
    lines = ["def forward(self, x):"]
    lines += [f"    x = x + torch.relu(self.layers[{i}](x))" for i in range(count)]
    lines += ["    return x"]
    source = "\n".join(lines) + "\n"
    linecache.cache["blocks.py"] = (len(source), None, source.splitlines(True), "blocks.py")
    scope = {"torch": torch}
    exec(compile(source, "blocks.py", "exec"), scope)

    class Blocks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(count))

    Blocks.forward = scope["forward"]
    return Case(Blocks(), [(randn(n, width),) for n in (4, 1)], "32 equal residual blocks, one source line each",
                {"x": {0: Dim("n", min=1, max=64)}})


state_cases.add_cases(case, Case, of, randn)
sharing_cases.add_cases(case, Case, of, randn)
quantised_cases.add_cases(case, Case, of)
edge_cases.add_cases(case, of)
numeric_cases.add_cases(case, of)
picture_cases.add_cases(case, Case, randn)
CASES.update(gpu_cases.cases(Case, of, randn))


def main():
    library = register_custom_operators()  # kept alive: the registration lives as long as it
    wanted = sys.argv[1:] or list(CASES)
    unknown = [name for name in wanted if name not in CASES]
    if unknown:
        sys.exit(f"no case named {', '.join(unknown)}; there are {', '.join(CASES)}")
    for name in wanted:
        write_case(HERE / "cases" / name, CASES[name])
    del library


if __name__ == "__main__":
    main()
