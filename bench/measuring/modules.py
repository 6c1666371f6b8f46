"""Modules of the measured models that no library has in this form."""
import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    """The documents' MLP (docs/getting-started.md)."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(10, 16), nn.Linear(16, 1)

    def forward(self, x):
        return torch.sigmoid(self.fc2(torch.relu(self.fc1(x))))


class Pick(nn.Module):
    """Calls a module of transformers and keeps one tensor of what it returns."""

    def __init__(self, inner, name):
        super().__init__()
        self.inner, self.name = inner, name

    def forward(self, *args):
        return self.inner(*args)[self.name]


class TextEncoder(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, ids, mask):
        return self.inner(input_ids=ids, attention_mask=mask).last_hidden_state


class Prefill(nn.Module):
    """The prompt's logits of the last token, and the cache that the prompt leaves behind."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, ids):
        out = self.inner(input_ids=ids, use_cache=True, logits_to_keep=1)
        return (out.logits, *cache_tensors(out.past_key_values))


class Decode(nn.Module):
    """One token after a cache that comes in as tensors and goes out one token longer."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, ids, *past):
        from transformers import DynamicCache
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        out = self.inner(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return (out.logits, *cache_tensors(out.past_key_values))


def cache_tensors(cache):
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


class LlamaLayer(nn.Module):
    def __init__(self, width, heads, groups, inner):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def rotated(self, x, cos, sin):
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat([-right, left], -1) * sin

    def forward(self, x, cos, sin, cached, **attention):
        y = self.norm1(x)
        q, k, v = (part(y).unflatten(-1, (-1, self.size)).transpose(1, 2) for part in (self.q, self.k, self.v))
        keys, values = cached(self.rotated(k, cos, sin), v)
        y = F.scaled_dot_product_attention(self.rotated(q, cos, sin), keys, values, enable_gqa=True, **attention)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def rotary_tables(longest, size, base=10000.0):
    """Cosines and sines of the rotary positions."""
    angle = torch.arange(longest)[:, None] * base ** (-torch.arange(0, size, 2) / size)
    return angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)


class Llama(nn.Module):
    """A stack of Llama's layers: rotary positions, grouped queries, gated products. tied: the embedding gives the logits too."""

    def __init__(self, layers=4, width=1024, heads=16, groups=8, inner=2816, vocabulary=32000, longest=256, base=10000.0, tied=False):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaLayer(width, heads, groups, inner) for _ in range(layers))
        self.norm = nn.RMSNorm(width, 1e-5)
        self.logits = None if tied else nn.Linear(width, vocabulary, bias=False)
        self.longest, self.base = longest, base
        cos, sin = rotary_tables(longest, width // heads, base)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def logits_of(self, x):
        return self.norm(x) @ self.embed.weight.t() if self.logits is None else self.logits(self.norm(x))


class LlamaPrefill(Llama):
    """The prompt's logits of the last token, and the cache that the prompt leaves behind."""

    def forward(self, ids):
        x, count, caches = self.embed(ids), ids.shape[1], []

        def cached(keys, values):
            caches.extend([keys, values])
            return keys, values
        for layer in self.layers:
            x = layer(x, self.cos[:count], self.sin[:count], cached, is_causal=True)
        return (self.logits_of(x[:, -1:]), *caches)


class LlamaDecode(Llama):
    """One token at a position; keys and values of fixed length are kept in buffers, which a call writes to."""

    def __init__(self, batch, longest, groups=8, size=64, **more):
        super().__init__(groups=groups, longest=longest, **more)
        for i in range(len(self.layers)):
            self.register_buffer(f"keys_{i}", torch.randn(batch, groups, longest, size))
            self.register_buffer(f"values_{i}", torch.randn(batch, groups, longest, size))

    def forward(self, ids, position):
        x, cos, sin = self.embed(ids), self.cos[position], self.sin[position]
        mask = (torch.arange(self.longest) <= position)[None, None, None]
        for i, layer in enumerate(self.layers):
            def cached(keys, values, i=i):
                kept = getattr(self, f"keys_{i}"), getattr(self, f"values_{i}")
                kept[0].index_copy_(2, position, keys)
                kept[1].index_copy_(2, position, values)
                return kept
            x = layer(x, cos, sin, cached, attn_mask=mask)
        return self.logits_of(x)


class LlamaWithCaches(Llama):
    """The logits of the last token: of a whole prompt, or, with caches that it writes to, of one token at a place."""

    def forward(self, ids, place=None, caches=None):
        x, count = self.embed(ids), ids.shape[1]
        whole = caches is None
        cos, sin = (self.cos[:count], self.sin[:count]) if whole else (self.cos[place], self.sin[place])
        attention = {"is_causal": True} if whole else {
            "attn_mask": (torch.arange(self.longest, device=ids.device) <= place).view(1, 1, 1, -1)}
        for i, layer in enumerate(self.layers):
            def cached(keys, values, i=i):
                if whole:
                    return keys, values
                caches[2 * i].index_copy_(2, place, keys)
                caches[2 * i + 1].index_copy_(2, place, values)
                return caches[2 * i], caches[2 * i + 1]
            x = layer(x, cos.to(x.dtype), sin.to(x.dtype), cached, **attention)
        return self.logits_of(x[:, -1:])


class UNet(nn.Module):
    """The segmentation network: four levels of two convolutions each, joined across."""

    def __init__(self, channels=32, classes=2):
        super().__init__()
        widths = [channels, 2 * channels, 4 * channels, 8 * channels]
        self.down = nn.ModuleList(self.level(a, b) for a, b in zip([3] + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.joined = nn.ModuleList(self.level(2 * a, a) for a in widths[:-1])
        self.last = nn.Conv2d(channels, classes, 1)

    @staticmethod
    def level(before, after):
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
                             nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())

    def forward(self, x):
        kept = []
        for i, level in enumerate(self.down):
            x = level(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for i in reversed(range(len(self.up))):
            x = self.joined[i](torch.cat([self.up[i](x), kept[i]], 1))
        return self.last(x)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(256, 512, 2, batch_first=True), nn.Linear(512, 128)

    def forward(self, x):
        return self.out(self.lstm(x)[0])


class Dlrm(nn.Module):
    """A recommendation model: bags of embeddings, pairwise products of features, two dense stacks."""

    def __init__(self, tables=26, rows=10_000, width=64):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = self.stack(13, 512, 256, width)
        features = tables + 1
        self.top = self.stack(width + features * (features - 1) // 2, 512, 256, 1)
        self.register_buffer("pairs", torch.tril_indices(features, features, -1))

    @staticmethod
    def stack(*widths):
        layers = [layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*layers[:-1])

    def forward(self, dense, ids):
        x = torch.relu(self.bottom(dense))
        features = torch.stack([x] + [table(ids[:, i]) for i, table in enumerate(self.tables)], 1)
        products = torch.bmm(features, features.transpose(1, 2))
        return torch.sigmoid(self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], 1)))
