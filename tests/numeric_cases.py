"""Cases of results whose every digit counts: next to 0, of tiny and of huge arguments, at infinities. Compared without an
absolute tolerance. Listed by generate_cases.py."""
import torch

NAN, INF = float("nan"), float("inf")


def sums_of_exponentials_near_zero(of):
    """Where the larger term is 0, what the smaller one adds is all there is of the sum."""
    def forward(self, x, y, rows):
        results = []
        for t in (torch.float32, torch.float64):
            results += [torch.logaddexp(x.to(t), y.to(t)), torch.logaddexp2(x.to(t), y.to(t)), torch.logcumsumexp(rows.to(t), 1)]
        return results
    x = torch.tensor([0.0, 0.0, 0.0, 0.0, 1e-10, -1e-3, -38.0, 3.0, INF, INF, -INF, -INF, NAN, 1.0, 0.0, -14.5, 0.0])
    y = torch.tensor([-14.5, -20.0, -38.0, -80.0, -30.0, -9.0, 0.0, 3.0, INF, -INF, -INF, 3.0, 0.0, NAN, 0.0, 0.0, -0.125])
    rows = torch.tensor([[0.0, -14.5, -20.0, -38.0], [-38.0, -20.0, 0.0, -30.0], [-38.0, 0.0, -80.0, 0.0], [0.0, -38.0, 3.0, 1.0],
                         [-INF, -INF, 0.0, -40.0], [-INF, 0.0, INF, INF], [0.0, NAN, 1.0, INF], [INF, -INF, 0.0, 0.0]])
    return of(forward, [(x, y, rows)], "logarithms of sums of exponentials that are next to 0",
              tolerance={"rtol": 2e-6, "atol": 0})


def add_cases(case, of):
    def add(make):
        def made():
            return make(of)
        made.__name__ = make.__name__
        case(made)
    for make in (sums_of_exponentials_near_zero,):
        add(make)
