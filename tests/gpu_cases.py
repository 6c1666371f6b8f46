"""Cases for the schedules of GPUs: rows in registers, wide words, reductions that are split, products in bf16 and f16.

Small where they can be: all of them run on the CPU, and on an emulated GPU, in the tests. Listed by generate_cases.py.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim


class Products(nn.Module):
    """Products whose factors lie both ways, with rests in every direction, prologues and epilogues."""

    def __init__(self, dtype):
        super().__init__()
        self.along = nn.Linear(72, 48, dtype=dtype)
        self.odd = nn.Linear(48, 37, dtype=dtype)
        self.across = nn.Parameter(torch.randn(48, 56, dtype=torch.float32).to(dtype) / 7)

    def forward(self, x, y):
        first = x[:, :48]
        return (F.relu(self.along(x)), self.odd(first), (first @ self.across).t(), first.t() @ y,
                torch.relu(first) @ self.across)


class Pictures(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.first = nn.Conv2d(8, 24, 3, padding=1, bias=False, dtype=dtype)
        self.norm = nn.BatchNorm2d(24, dtype=dtype)
        self.down = nn.Conv2d(24, 16, 3, stride=2, padding=1, dtype=dtype)
        self.point = nn.Conv2d(16, 40, 1, dtype=dtype)

    def forward(self, x):
        return self.point(F.relu(self.down(F.relu(self.norm(self.first(x))))))


class Rows(nn.Module):
    def __init__(self, width, dtype):
        super().__init__()
        self.norm = nn.LayerNorm(width, dtype=dtype)

    def forward(self, x, y):
        z = F.gelu(x + y)
        return self.norm(z), F.softmax(x, -1), F.rms_norm(y, (y.shape[-1],)), F.log_softmax(z, -1)


def cases(case_class, of, randn):
    half = {"bf16": torch.bfloat16, "f16": torch.float16}
    made = {}
    for name, dtype in half.items():
        made[f"products_{name}"] = lambda d=dtype: case_class(
            Products(d), [[randn(50, 72, dtype=d), randn(50, 24, dtype=d)]], f"products in {d}: tiles of matrix instructions")
    made["products_rows"] = lambda: case_class(
        Products(torch.bfloat16), [[randn(n, 72, dtype=torch.bfloat16), randn(n, 24, dtype=torch.bfloat16)] for n in (33, 2, 70)],
        "products of bf16 with any number of rows", {"x": {0: Dim("rows", min=2, max=512)}, "y": {0: Dim("rows", min=2, max=512)}})
    made["products_any_f32"] = lambda: of(
        lambda self, x, y: x @ y.transpose(-1, -2), [[randn(2, n, m), randn(2, n + 2, m)] for n, m in ((17, 19), (40, 33))],
        "products of f32 whose every size is open: no words",
        {"x": {1: Dim("n", min=16, max=64), 2: Dim("m", min=8, max=64)}, "y": {1: Dim("n", min=16, max=64) + 2, 2: Dim("m", min=8, max=64)}})
    made["pictures_bf16"] = lambda: case_class(
        Pictures(torch.bfloat16), [[randn(2, 8, 9, 11, dtype=torch.bfloat16)]], "convolutions in bf16 as products of channels")
    for width, dtype in ((96, torch.float32), (1028, torch.float32), (520, torch.bfloat16), (2050, torch.bfloat16)):
        short = "f32" if dtype == torch.float32 else "bf16"
        made[f"rows_{width}_{short}"] = lambda w=width, d=dtype: case_class(
            Rows(w, d), [[randn(5, w, dtype=d), randn(5, w, dtype=d)]], f"norms and softmax of rows of {w} in {d}")
    made["long_sums"] = lambda: of(
        lambda self, x: (x.sum(), x.amax(0), x.mean(), (x > 3).any(), x[:, :7].sum(0), x.double().prod(0)), [[randn(700, 90)]],
        "reductions of few results, which a GPU splits")
    return made
