"""Cases of control flow, state, writes to inputs and buffers, and custom operators. Listed by generate_cases.py."""
import torch
from torch.export import Dim


class CustomWrites(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4, 3))

    def forward(self, x, y):
        torch.ops.mylib.inc_(x[1:3], 2)  # rows of an input
        torch.ops.mylib.inc_(self.total, 1)  # a buffer
        both = y * 2
        sums = torch.ops.mylib.add_to_both(both[0], both[1], x[0])  # two views of one value, and a result
        torch.ops.mylib.inc_all_([both[2], both[3]], 5)
        out = torch.zeros_like(y)
        plus = torch.ops.mylib.add_with_out(y, out) + torch.ops.mylib.add_with_out(y, None)
        return self.total + x, both, sums, out, plus


def add_cases(case, Case, of, randn):
    @case
    def cond():
        def forward(self, x, flag):
            return torch.cond(flag, lambda a: (a + 1, a.sum(0)), lambda a: (a * 2, a.amax(0)), (x,))
        n = Dim("n", min=2, max=32)
        calls = [(randn(k, 4), torch.tensor(flag)) for k, flag in ((5, True), (5, False), (2, True))]
        return of(forward, calls, "cond on a tensor, two results, dynamic rows", {"x": {0: n}})

    @case
    def counter():
        class Counter(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
                self.register_buffer("total", torch.zeros(3))
                self.register_buffer("scale", torch.tensor(0.5))  # read only

            def forward(self, x):
                self.calls.add_(1)
                self.total.add_(x.sum(0) * self.scale)
                return self.total * 1, self.calls + 0
        return Case(Counter(), [(randn(4, 3),), (randn(4, 3),)],
                    "a counter and a running sum kept in buffers", sequence=True)

    @case
    def filled_in_parts():
        class Parts(torch.nn.Module):
            """Tensors that several products fill or update part by part: by rows, columns, indices, masks, sums, in a buffer."""

            def __init__(self):
                super().__init__()
                self.rows, self.columns, self.experts, self.layers = (
                    torch.nn.ModuleList([torch.nn.Linear(8, width) for _ in range(4)]) for width in (8, 1, 8, 8))
                self.gate = torch.nn.Linear(8, 4)
                self.register_buffer("cache", torch.zeros(4, 8, 8))

            def forward(self, x, kind):
                rows, columns, marked = torch.zeros_like(x), x.new_zeros(x.shape[0], 4), x.clone()
                added, mixed = torch.zeros_like(x), torch.zeros_like(x)
                chosen = self.gate(x).softmax(-1)
                for i in range(4):
                    rows[i * 2:i * 2 + 2] = self.rows[i](x[i * 2:i * 2 + 2])
                    columns[:, i] = torch.tanh(self.columns[i](x))[:, 0]
                    marked[kind == i] = self.experts[i](x)[kind == i]
                    added = added.index_add(0, kind[i * 2:i * 2 + 2], self.rows[i](x[2:4]))
                    mixed += self.experts[i](x) * chosen[:, i:i + 1]
                    self.cache[i] = self.layers[i](x)
                    x = x + torch.sin(self.cache[i])
                return rows, columns.softmax(-1), marked, added, mixed, x
        calls = [(randn(8, 8), torch.tensor([0, 1, 2, 3, 3, 0, 1, 2])) for _ in range(2)]
        return Case(Parts(), calls, "tensors that several products fill or update part by part", sequence=True)

    @case
    def scaled_by_number():
        def forward(self, x, factor):
            return torch.relu(x * factor)
        return of(forward, [(randn(k), torch.tensor(factor)) for k, factor in ((5, 2.5), (1, -1.0), (300, 0.0))],
                  "a tensor without dimensions scales one of any length", {"x": {0: Dim("n", min=1)}})

    @case
    def mutated_input():
        def forward(self, x, cache, row):
            cache[1:3].copy_(x)
            cache[0].add_(row)
            return cache.sum(0), x * 2
        return of(forward, [(randn(2, 4), randn(5, 4), randn(4)) for _ in range(2)],
                  "writes through views of an input, then reads it")

    @case
    def custom_op():
        def forward(self, x):
            return torch.ops.mylib.foo_add1(x * 2) + 1
        return of(forward, [(randn(3, 4),), (randn(3, 4),)],
                  "a custom operator between two of ATen", needs="custom operators")

    @case
    def custom_writes():
        return Case(CustomWrites(), [(randn(4, 3), randn(4, 3)) for _ in range(2)],
                    "custom operators that write to inputs, buffers, views, lists and None", sequence=True,
                    needs="custom operators")

    @case
    def custom_writes_decomposed():
        return Case(CustomWrites(), [(randn(4, 3), randn(4, 3)) for _ in range(2)],
                    "the same, made functional by the export (auto_functionalized_v2)", sequence=True,
                    needs="custom operators", decompose=True)

    @case
    def custom_writes_dynamic():
        def forward(self, x):
            left = torch.ops.mylib.add_to_both(x[:, 0], x[:, 1], x[:, 2])
            y = x + 1
            torch.ops.mylib.inc_(y[1:], 3)
            return left, y
        return of(forward, [(randn(n, 3),) for n in (4, 3, 7)], "columns and rows of dynamic length",
                  {"x": {0: Dim("n", min=3, max=32)}}, needs="custom operators")

    @case
    def vmap_kept():
        def forward(self, x, w):
            inner = torch.vmap(lambda a: torch.vmap(lambda b: (a * b).sum())(w))(x)
            return torch.vmap(lambda a: torch.softmax(a @ w.t(), 0))(x), inner
        n = Dim("n", min=2, max=16)
        return of(forward, [(randn(k, 3), randn(5, 3)) for k in (4, 7)], "vmap that the export keeps, one inside another",
                  {"x": {0: n}})

    @case
    def dtype_views():
        def forward(self, z, x):
            z.real.add_(1)  # an input, through the real part
            pairs = torch.view_as_real(z)
            pairs[:, 1].mul_(2)
            z.conj().mul_(2j)
            y = x * 1
            torch.view_as_complex(y).mul_(1j)
            bits = x.clone()
            bits.view(torch.int32)[1:].bitwise_and_(0x7FFFFFFF)
            halves = x.clone()
            halves.view(torch.int16)[:, 0].zero_()
            return z * 1, y, bits, halves
        return of(forward, [(torch.complex(randn(3), randn(3)), randn(4, 2)) for _ in range(2)],
                  "writes through real, view_as_real, conj, view_as_complex and view(dtype)")

    @case
    def log_sigmoid_gradient():
        def forward(self, grad, x):
            value, buffer = torch.ops.aten.log_sigmoid_forward(x)
            return value, torch.ops.aten.log_sigmoid_backward(grad, x, buffer)

        return of(forward, [(randn(3, 4), randn(3, 4) * 3)], "the gradient takes what the function kept")

    @case
    def complex_as_bool():
        def forward(self, z):
            kept = torch.zeros(4, dtype=torch.bool)
            kept.copy_(z)
            fills = [torch.ones_like(z, dtype=torch.bool), torch.full_like(z, 1, dtype=torch.bool),
                     z.new_zeros(3, dtype=torch.bool), torch.empty_like(z, dtype=torch.bool).fill_(True)]
            return kept, z.to(torch.bool), torch.ops.aten._to_copy.default(z, dtype=torch.bool), *fills, torch.atleast_2d(z)

        z = torch.tensor([0 + 0j, 0 + 1j, 2 + 0j, -1 + 3j])
        return of(forward, [(z,), (-z,)], "complex numbers as bools: both parts count; fills look at neither")

    @case
    def shared_outputs():
        class Shared(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("total", torch.zeros(3))

            def forward(self, x, y):
                self.total.add_(x[0])
                y.mul_(2)
                doubled = x * 2
                row = doubled[0]
                doubled.add_(1)
                return x, x.t(), x[1:], self.total, self.total[1:], y, y.view(-1), doubled, doubled, row
        return Case(Shared(), [(randn(2, 3), randn(2, 2)) for _ in range(2)],
                    "outputs that are inputs, views, buffers, or twice the same", sequence=True)
