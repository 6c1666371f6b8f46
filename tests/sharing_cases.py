"""Cases exported with examples whose elements share memory: no caller's tensor has to. Listed by generate_cases.py."""
import torch
from torch.export import Dim


def add_cases(case, Case, of, randn):
    @case
    def expanded_input():
        def forward(self, x):
            return x * 2 + 1
        return of(forward, [(randn(1, 4).expand(3, 4),), (randn(3, 4),), (randn(6, 8)[::2, ::2],)],
                  "exported with an expanded input, called with one and with tensors of three different rows")

    @case
    def expanded_mask():
        def forward(self, scores, mask):
            return torch.softmax(scores + mask, -1), mask.sum(0), mask
        batch = Dim("batch", min=1, max=64)
        base = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), -1e4)
        return of(forward, [(randn(2, 3, 5, 5), base.expand(2, 1, 5, 5)), (randn(4, 3, 5, 5), randn(4, 1, 5, 5)),
                            (randn(3, 3, 5, 5), base.expand(3, 1, 5, 5)), (randn(1, 3, 5, 5), randn(1, 1, 5, 5))],
                  "an attention mask expanded over a dynamic batch, and one that differs per element of it",
                  {"scores": {0: batch}, "mask": {0: batch}}, bad=[(randn(2, 3, 5, 5), randn(3, 1, 5, 5))])

    @case
    def sliding_windows():
        def forward(self, x, y):
            return x.sum(-1), x.t().contiguous() * 2, x.reshape(-1) + 1, y[1:] - y[:-1]
        rows = Dim("rows", min=2, max=100)
        return of(forward, [(randn(8).unfold(0, 3, 1), randn(12).as_strided((4, 4), (2, 1))), (randn(5, 3), randn(4, 4)),
                            (randn(9).unfold(0, 3, 1), randn(4, 4))],
                  "exported with overlapping windows as inputs, called with windows and with tensors of their own",
                  {"x": {0: rows}})

    @case
    def columns_of_a_fixed_table():
        def forward(self, x):
            return x * 3, x.amax(1)
        return of(forward, [(randn(4, 10)[:, :6],), (randn(4, 14),), (randn(4, 30)[:, :20],)],
                  "strides that are wide enough for the export's sizes and overlap at larger ones",
                  {"x": {1: Dim.DYNAMIC}})

    @case
    def expanded_constants():
        class Constants(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(randn(1, 4).expand(3, 4))
                self.register_buffer("table", randn(4, 1).expand(4, 5))
                self.register_buffer("windows", randn(6).unfold(0, 3, 1))
                self.register_buffer("count", torch.zeros(3))

            def forward(self, x):
                self.count.add_(self.table[:3].sum(-1))
                return x @ self.table + self.weight @ self.table, self.windows * 2 + x[0, :3], self.count * 1
        return Case(Constants(), [(randn(3, 4),) for _ in range(2)],
                    "a weight and buffers whose elements share memory, and one that is written from them", sequence=True)

    @case
    def expanded_and_written():
        class Written(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("total", torch.zeros(4))

            def forward(self, x, y, z):
                self.total.add_(x[0])
                y.add_(x)
                z[0].mul_(2)
                z[:, 1].add_(1)
                own = x.clone()
                own[1].zero_()
                return x + 1, own, x, z.sum(0)
        example = (randn(1, 4).expand(3, 4), randn(3, 4), randn(1, 4).expand(3, 4))
        return Case(Written(), [(randn(1, 4).expand(3, 4), randn(3, 4), randn(3, 4)), (randn(3, 4), randn(3, 4), randn(3, 4)),
                                (randn(3, 8)[:, ::2], randn(3, 8)[:, 4:], randn(3, 8)[:, ::2])],
                    "expanded examples beside writes: what they are added to, copies of them, and one that is written itself",
                    sequence=True, example=example)

    @case
    def expanded_control_flow():
        from torch._higher_order_ops import while_loop

        def forward(self, pred, x, n):
            def double(x):
                return x * 2

            def turn(x):
                return x.flip(0) + 1
            chosen = torch.cond(pred, double, turn, (x,))
            _, grown = while_loop(lambda i, c: i < 3, lambda i, c: (i + 1, c + x), (n.clone(), x.clone()))
            return chosen, grown
        zero = torch.zeros((), dtype=torch.int64)
        return of(forward, [(torch.tensor(True), randn(1, 4).expand(3, 4), zero), (torch.tensor(False), randn(3, 4), zero),
                            (torch.tensor(True), randn(3, 4), zero)],
                  "an expanded example that branches and loops are given")
