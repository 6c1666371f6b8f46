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


class LargeProducts(nn.Module):
    """Products that a GPU's warps multiply together: factors both ways, rests in every direction, tiles that blocks share, what
    is done with results. The results are summed up, so that little is to be kept."""

    def __init__(self, dtype):
        super().__init__()
        self.along = nn.Linear(200, 328, dtype=dtype)
        self.few = nn.Linear(656, 72, dtype=dtype)
        self.across = nn.Parameter(torch.randn(72, 264, dtype=torch.float32).to(dtype) / 9)

    def forward(self, x):
        first = F.gelu(self.along(x))
        second = self.few(torch.cat([first, F.relu(first)], 1)) + x[:, :72].abs() + 2
        third = second @ self.across
        return first.abs().mean(0), second, third.abs().mean(1), (second.t() @ third.abs())[::8, ::8]


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


class Attention(nn.Module):
    """Attention as a block of rows on a GPU: masks of both kinds with a row that sees nothing, causal, grouped queries, widths
    that are no power of two, what follows it as a next layer reads it."""

    def __init__(self, dtype):
        super().__init__()
        self.out = nn.Linear(192, 32, dtype=dtype)

    def forward(self, q, k, v, wide, seen, bias):
        attend = F.scaled_dot_product_attention
        joined = attend(q, k, v).transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)
        written = torch.softmax((wide @ wide.transpose(-1, -2)).float() / 5 + 1, -1).to(v.dtype) @ wide[..., :24]
        return (self.out(joined) + 2, attend(q, k, v, is_causal=True), attend(q, k[:, :1], v[:, :1], enable_gqa=True),
                attend(q, k, v, attn_mask=seen), attend(q, k, v, attn_mask=bias), written)


class Heads(nn.Module):
    """Queries, keys and values as three products of the same rows, which a GPU joins."""

    def __init__(self, dtype):
        super().__init__()
        self.q = nn.Linear(64, 64, dtype=dtype)
        self.k, self.v = nn.Linear(64, 32, dtype=dtype), nn.Linear(64, 32, dtype=dtype)

    def forward(self, x):
        q, k, v = (f(x).view(x.shape[0], x.shape[1], -1, 16).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return a.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1) + 3


class CachedStep(nn.Module):
    """One token of a decoder: keys and values go into a cache in place, and all of it is attended to."""

    def forward(self, x, place, keys, values):
        q = x.view(1, 1, 4, 32).transpose(1, 2)
        k, v = x[..., :64].view(1, 1, 2, 32).transpose(1, 2), x[..., 64:].view(1, 1, 2, 32).transpose(1, 2)
        keys.index_copy_(2, place, k)
        values.index_copy_(2, place, v)
        mask = (torch.arange(40) <= place).view(1, 1, 1, -1)
        a = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
        wide = a.reshape(1, 1, 128).float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * x


def attention_inputs(randn, dtype, rows, keys):
    torch.backends.cuda.enable_flash_sdp(False)  # the CPU's too: it rounds weights to the narrow type, the plain way does not
    seen = torch.arange(rows).view(-1, 1) * 7 % 11 >= torch.arange(keys).view(1, -1) % 10
    seen[0] = False
    return [randn(2, 3, rows, 64, dtype=dtype), randn(2, 3, keys, 64, dtype=dtype), randn(2, 3, keys, 64, dtype=dtype),
            randn(2, rows, 40, dtype=dtype), seen, randn(rows, keys, dtype=dtype)]


def cases(case_class, of, randn):
    half = {"bf16": torch.bfloat16, "f16": torch.float16}
    made = {}
    for name, dtype in half.items():
        made[f"products_{name}"] = lambda d=dtype: case_class(
            Products(d), [[randn(50, 72, dtype=d), randn(50, 24, dtype=d)]], f"products in {d}: tiles of matrix instructions")
        made[f"large_products_{name}"] = lambda d=dtype: case_class(
            LargeProducts(d), [[randn(150, 200, dtype=d)]], f"products in {d} by matrix instructions of four warps together")
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
    for name, dtype in half.items():
        made[f"attention_{name}"] = lambda d=dtype: case_class(
            Attention(d), [attention_inputs(randn, d, 50, 139)], f"attention in {d}: a block of rows, scores in registers")
    made["joined_heads"] = lambda: case_class(
        Heads(torch.bfloat16), [[attention_inputs(randn, torch.bfloat16, 40, 40)[0][:, 0]]],
        "three products of the same rows")
    made["attention_any"] = lambda: of(
        lambda self, q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True),
        [attention_inputs(randn, torch.bfloat16, n, n)[:2] for n in (33, 5, 130)], "attention over any number of rows",
        {"q": {2: Dim("rows", min=2, max=256)}, "k": {2: Dim("rows", min=2, max=256)}})
    made["cached_step"] = lambda: case_class(
        CachedStep(), [[randn(1, 1, 128, dtype=torch.bfloat16), torch.tensor([n]), randn(1, 2, 40, 32, dtype=torch.bfloat16),
                        randn(1, 2, 40, 32, dtype=torch.bfloat16)] for n in (7, 39)], "a token of a decoder with a cache in bf16")
    made["long_sums"] = lambda: of(
        lambda self, x: (x.sum(), x.amax(0), x.mean(), (x > 3).any(), x[:, :7].sum(0), x.double().prod(0)), [[randn(700, 90)]],
        "reductions of few results, which a GPU splits")
    return made
