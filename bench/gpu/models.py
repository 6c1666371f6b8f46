"""The models of the GPU's benchmark, in bf16, in plain PyTorch: the same here, where they are exported, and on the machine
with the GPU, where they are compared. Weights are drawn there: a package is compiled without them."""
import math
import pathlib
import sys
from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "measuring"))
from modules import LlamaWithCaches, Mlp, rotary_tables  # noqa: E402


class GeluNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4096)

    def forward(self, x, y):
        return self.norm(F.gelu(x + y))


class BertLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.norm1 = nn.Linear(width, width), nn.LayerNorm(width)
        self.up, self.down, self.norm2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.LayerNorm(width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (f(x).view(batch, length, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = self.norm1(x + self.out(a))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, words=30522):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(BertLayer(width, heads) for _ in range(layers))

    def forward(self, ids):
        x = self.norm(self.words(ids) + self.places.weight[: ids.shape[1]])
        for layer in self.layers:
            x = layer(x)
        return x


def _llama():
    """About a billion parameters."""
    return LlamaWithCaches(layers=16, width=2048, heads=32, groups=8, inner=8192, longest=1024, base=500000.0, tied=True)


def _torchvision(name):
    def make():
        import torchvision

        return getattr(torchvision.models, name)(weights=None)

    return make


@dataclass
class Benchmark:
    make: Callable[[], nn.Module]
    inputs: Callable[[Any], tuple]  # for a device
    limit_bytes: float = 0  # that the GPU must read and write at least
    limit_flops: float = 0
    layers: int = 16


def _floats(*sizes):
    return lambda device: (torch.randn(*sizes, dtype=torch.bfloat16, device=device),)


def _decode_inputs(device):
    caches = [torch.zeros(1, 8, 1024, 64, dtype=torch.bfloat16, device=device) for _ in range(32)]
    return torch.randint(0, 32000, (1, 1), device=device), torch.tensor([511], device=device), caches


MODELS = {
    "mlp": Benchmark(Mlp, _floats(8, 10)),
    "gelu_norm": Benchmark(GeluNorm, lambda d: _floats(8192, 4096)(d) + _floats(8192, 4096)(d),
                           limit_bytes=3 * 8192 * 4096 * 2),
    "bert": Benchmark(Bert, lambda d: (torch.randint(0, 30522, (1, 128), device=d),), 170e6, 2 * 128 * 85e6),
    "llama_decode": Benchmark(_llama, _decode_inputs, 2.08e9),
    "resnet50_1": Benchmark(_torchvision("resnet50"), _floats(1, 3, 224, 224), 51e6, 8.2e9),
    "resnet50_32": Benchmark(_torchvision("resnet50"), _floats(32, 3, 224, 224), 51e6, 32 * 8.2e9),
    "vit_b_8": Benchmark(_torchvision("vit_b_16"), _floats(8, 3, 224, 224), 172e6, 8 * 35e9),
    "llama_prefill": Benchmark(_llama, lambda d: (torch.randint(0, 32000, (1, 512), device=d),), 2.08e9, 2 * 512 * 0.97e9),
}


class Attention(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal = causal

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)


def _linear(rows, terms, columns):
    return Benchmark(lambda: nn.Linear(terms, columns), _floats(rows, terms), 2 * (rows * terms + terms * columns + rows * columns),
                     2 * rows * terms * columns)


def _convolution(batch, channels, filters, size, kernel):
    return Benchmark(lambda: nn.Conv2d(channels, filters, kernel, padding=kernel // 2).to(memory_format=torch.channels_last),
                     lambda d: (_floats(batch, channels, size, size)(d)[0].to(memory_format=torch.channels_last),),
                     2 * (batch * size * size * (channels + filters) + channels * filters * kernel * kernel),
                     2 * batch * size * size * channels * filters * kernel * kernel)


def _attention(batch, heads, length, size, causal=False):
    return Benchmark(lambda: Attention(causal), lambda d: tuple(_floats(batch, heads, length, size)(d)[0] for _ in range(3)),
                     2 * 4 * batch * heads * length * size, 4 * batch * heads * length * length * size / (2 if causal else 1))


# Single operators, in the shapes of the models above.
KERNELS = (
    {f"linear {m}x{k}x{n}": _linear(m, k, n) for m, k, n in (
        (1, 2048, 8192), (1, 8192, 2048), (128, 768, 768), (128, 768, 3072), (128, 3072, 768), (512, 2048, 2048),
        (512, 2048, 8192), (512, 8192, 2048), (1576, 768, 3072), (1576, 3072, 768), (4096, 4096, 4096))}
    | {f"conv {k}x{k} {b}x{c}x{s}x{s} to {f}": _convolution(b, c, f, s, k) for b, c, f, s, k in (
        (1, 64, 64, 56, 3), (1, 256, 256, 14, 3), (1, 512, 2048, 7, 1), (32, 64, 64, 56, 3), (32, 256, 256, 14, 3),
        (32, 256, 1024, 14, 1), (32, 512, 512, 7, 3))}
    | {"attention 1x12x128x64": _attention(1, 12, 128, 64), "attention 8x12x197x64": _attention(8, 12, 197, 64),
       "attention 1x32x512x64 causal": _attention(1, 32, 512, 64, True)})


def package_name(name):
    return name.replace(" ", "_") + ".kiln.pt2"


def seeded(name, device="cpu"):
    """The module with weights that depend on the name alone, wherever it is made, and its inputs."""
    benchmark = (MODELS | KERNELS)[name]
    with torch.device("meta"):
        module = benchmark.make()
    module = module.to(torch.bfloat16).to_empty(device=device).eval()
    generator = torch.Generator(device=device).manual_seed(17)
    with torch.no_grad():
        for key, value in list(module.named_parameters()) + list(module.named_buffers()):
            if not value.is_floating_point():
                value.zero_()
            elif key.endswith(("running_var",)) or (value.ndim == 1 and key.endswith("weight")):
                value.fill_(1)
            elif key in ("cos", "sin"):
                pass
            else:
                value.normal_(0, 0.5 / math.sqrt(max(value[0].numel() if value.ndim > 1 else 64, 1)), generator=generator)
        if hasattr(module, "cos"):
            cos, sin = rotary_tables(*module.cos.shape, module.base)
            module.cos.copy_(cos), module.sin.copy_(sin)
    torch.manual_seed(3)
    return module, benchmark.inputs(device)
