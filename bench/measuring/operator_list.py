"""The calls of bench/operators.py: operators as models use them, in the sizes that models have.

call(name, function, *tensors): each tensor is made by one of the makers below; .seen(…) gives it other strides, .constant makes it a
weight of the program, .free(0, 1) makes those sizes dynamic."""
import dataclasses
import math

import torch
import torch.nn.functional as F

CALLS = {}


@dataclasses.dataclass(frozen=True)
class Made:
    make: object
    is_constant: bool = False
    dynamic: tuple = ()

    def seen(self, view):
        return dataclasses.replace(self, make=lambda: view(self.make()))

    @property
    def constant(self):
        return dataclasses.replace(self, is_constant=True)

    def free(self, *dims):
        return dataclasses.replace(self, dynamic=dims)


@dataclasses.dataclass(frozen=True)
class Call:
    function: object
    tensors: tuple
    tolerance: float


def call(name, function, *tensors, tolerance=1e-4):
    if name in CALLS:
        raise ValueError(f"two calls are named {name}")
    CALLS[name] = Call(function, tensors, tolerance)


def f32(*shape):
    return Made(lambda: torch.randn(shape))


def f64(*shape):
    return Made(lambda: torch.randn(shape, dtype=torch.float64))


def bf16(*shape):
    return Made(lambda: torch.randn(shape).bfloat16())


def f16(*shape):
    return Made(lambda: torch.randn(shape).half())


def c64(*shape):
    return Made(lambda: torch.randn(shape, dtype=torch.complex64))


def unit(*shape):
    return Made(lambda: torch.rand(shape))


def coarse(*shape):
    """Many equal values."""
    return Made(lambda: torch.randint(-50, 50, shape).float())


def i64(high, *shape, low=0):
    return Made(lambda: torch.randint(low, high, shape))


def i32(high, *shape, low=0):
    return Made(lambda: torch.randint(low, high, shape, dtype=torch.int32))


def i8(*shape):
    return Made(lambda: torch.randint(-128, 128, shape, dtype=torch.int8))


def u8(*shape):
    return Made(lambda: torch.randint(0, 256, shape, dtype=torch.uint8))


def mask(*shape):
    return Made(lambda: torch.rand(shape) < 0.5)


def swapped(x):
    """The same sizes, the last two dimensions the other way round in memory."""
    return x.transpose(-1, -2).contiguous().transpose(-1, -2)


def channels_last(x):
    return x.contiguous(memory_format=torch.channels_last)


def every_second(x):
    """The same sizes, every second element of memory."""
    return torch.stack([x, x], -1)[..., 0]


# ---- Order: sort, topk, unique ----
call("sort 64x1000", lambda x: torch.sort(x), f32(64, 1000))
call("sort 64x1000 descending", lambda x: torch.sort(x, descending=True), f32(64, 1000))
call("sort 8x50257 descending", lambda x: torch.sort(x, descending=True), f32(8, 50257))
call("sort 8x50257 bf16", lambda x: torch.sort(x), bf16(8, 50257))
call("sort 64x1000 dim 0", lambda x: torch.sort(x, 0), f32(1000, 64))
call("sort 100000 int64", lambda x: torch.sort(x), i64(1 << 40, 100000))
call("sort 100000 small int64", lambda x: torch.sort(x), i64(1000, 100000))
call("sort 256x256 int32", lambda x: torch.sort(x), i32(1000, 256, 256))
call("sort 20000 stable", lambda x: torch.sort(x, stable=True), f32(20000))
call("sort 4096x16", lambda x: torch.sort(x), f32(4096, 16))
call("argsort 64x1000", lambda x: torch.argsort(x), f32(64, 1000))
call("argsort 16384 int64 stable", lambda x: torch.argsort(x, stable=True), i64(64, 16384))
call("msort 2000x32", lambda x: torch.msort(x), f32(2000, 32))
call("topk 50 of 8x50257", lambda x: torch.topk(x, 50), f32(8, 50257))
call("topk 1 of 8x50257", lambda x: torch.topk(x, 1), f32(8, 50257))
call("topk 5 of 64x1000", lambda x: torch.topk(x, 5), f32(64, 1000))
call("topk 5 of 64x1000 dynamic", lambda x: torch.topk(x, 5), f32(64, 1000).free(0))
call("topk 2 of 4096x8 (experts)", lambda x: torch.topk(x, 2), f32(4096, 8))
call("topk 8 of 2048x64 (experts)", lambda x: torch.topk(x, 8), f32(2048, 64))
call("topk 8 of 2048x64 (experts) bf16", lambda x: torch.topk(x, 8), bf16(2048, 64))
call("topk 300 of 1x76725 (boxes)", lambda x: torch.topk(x, 300), f32(1, 76725))
call("topk 1000 of 2x20000", lambda x: torch.topk(x, 1000), f32(2, 20000))
call("topk 500 of 32x1000 smallest", lambda x: torch.topk(x, 500, largest=False), f32(32, 1000))
call("topk 40 of 1024x1024 (neighbours)", lambda x: torch.topk(x, 20), f32(1024, 1024))
call("topk 5 of 64x1000 dim 0", lambda x: torch.topk(x, 5, 0), f32(1000, 64))
call("topk 5 of 64x1000 ties", lambda x: torch.topk(x, 5), coarse(64, 1000))
call("topk 10 of 32x4000 int64", lambda x: torch.topk(x, 10), i64(1 << 40, 32, 4000))
call("topk 10 of 32x4000 unsorted", lambda x: torch.topk(x, 10, sorted=False), f32(32, 4000))
call("kthvalue 64x1000", lambda x: torch.kthvalue(x, 100), f32(64, 1000))
call("median 64x1000 dim", lambda x: torch.median(x, -1), f32(64, 1000))
call("median all 100000", lambda x: torch.median(x), f32(100000))
call("nanmedian 64x1000 dim", lambda x: torch.nanmedian(x, -1), f32(64, 1000))
call("mode 64x200", lambda x: torch.mode(x, -1).values, coarse(64, 200))  # which of the places is nobody's promise
call("quantile 64x1000", lambda x: torch.quantile(x, 0.9, -1), f32(64, 1000))
call("quantile 64x4097", lambda x: torch.quantile(x, 0.9, -1), f32(64, 4097))
call("unique 20000 int64", lambda x: torch.unique(x), i64(500, 20000))
call("unique 20000 inverse counts", lambda x: torch.unique(x, return_inverse=True, return_counts=True), i64(500, 20000))
call("unique_consecutive 20000", lambda x: torch.unique_consecutive(x), i64(3, 20000))
call("unique_consecutive 20000 inverse counts", lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), i64(3, 20000))
call("searchsorted 64x1000", lambda s, x: torch.searchsorted(s, x), f32(64, 500).seen(lambda x: x.sort()[0]), f32(64, 1000))
call("bucketize 100000", lambda x, b: torch.bucketize(x, b), f32(100000), f32(256).seen(lambda x: x.sort()[0]))
call("isin 20000", lambda x, y: torch.isin(x, y), i64(5000, 20000), i64(5000, 100))
call("bincount 100000", lambda x: torch.bincount(x, minlength=256), i64(256, 100000))
call("bincount 100000 weights", lambda x, w: torch.bincount(x, w, minlength=256), i64(256, 100000), f32(100000))
call("histc 100000", lambda x: torch.histc(x, 64, -3, 3), f32(100000))

# ---- Sums along a dimension, one after the other ----
call("cumsum 64x1000", lambda x: torch.cumsum(x, -1), f32(64, 1000))
call("cumsum 64x1000 dim 0", lambda x: torch.cumsum(x, 0), f32(1000, 64))
call("cumsum 8x512 int64 (positions)", lambda x: torch.cumsum(x, 1), i64(2, 8, 512))
call("cumsum 4096x64 dim 0 int64 (experts)", lambda x: torch.cumsum(x, 0), i64(2, 4096, 64))
call("cumsum 8x50257 (nucleus)", lambda x: torch.cumsum(x, -1), unit(8, 50257))
call("cumsum 64x1000 bf16", lambda x: torch.cumsum(x, -1), bf16(64, 1000), tolerance=2e-2)
call("cumprod 64x1000", lambda x: torch.cumprod(x, -1), unit(64, 1000).seen(lambda x: x + 0.5), tolerance=1e-3)
call("logcumsumexp 64x1000", lambda x: torch.logcumsumexp(x, -1), f32(64, 1000))
call("logcumsumexp 64x4096", lambda x: torch.logcumsumexp(x, -1), f32(64, 4096))
call("logcumsumexp dim 0", lambda x: torch.logcumsumexp(x, 0), f32(1000, 64))
call("cummax 64x1000", lambda x: torch.cummax(x, -1), f32(64, 1000))
call("cummin 64x4096", lambda x: torch.cummin(x, -1), f32(64, 4096))
call("cummax int64 dim 0", lambda x: torch.cummax(x, 0), i64(1000, 1000, 64))
call("diff 64x1000", lambda x: torch.diff(x), f32(64, 1000))

# ---- Elements by index ----
call("gather 64x1000 by 64x100", lambda x, i: torch.gather(x, 1, i), f32(64, 1000), i64(1000, 64, 100))
call("gather 4096x64 by 4096x8", lambda x, i: torch.gather(x, 1, i), f32(4096, 64), i64(64, 4096, 8))
call("gather dim 0 512x256", lambda x, i: torch.gather(x, 0, i), f32(1000, 256), i64(1000, 512, 256))
call("take_along_dim 64x1000", lambda x, i: torch.take_along_dim(x, i, 1), f32(64, 1000), i64(1000, 64, 1000))
call("index_select rows", lambda x, i: torch.index_select(x, 0, i), f32(5000, 256), i64(5000, 1000))
call("index_select columns", lambda x, i: torch.index_select(x, 1, i), f32(256, 1000), i64(1000, 500))
call("x[i] rows bf16", lambda x, i: x[i], bf16(5000, 256), i64(5000, 1000))
call("x[i] rows dynamic", lambda x, i: x[i], f32(5000, 256), i64(5000, 1000).free(0))
call("x[:, i, j]", lambda x, i, j: x[:, i, j], f32(16, 64, 64), i64(64, 1000), i64(64, 1000))
call("x[i, j] pairs", lambda x, i, j: x[i, j], f32(1000, 1000), i64(1000, 20000), i64(1000, 20000))
call("embedding 8x512x768", lambda w, i: F.embedding(i, w), f32(30522, 768).constant, i64(30522, 8, 512))
call("embedding 8x512x64 bf16", lambda w, i: F.embedding(i, w), bf16(30522, 64).constant, i64(30522, 8, 512))
call("embedding_bag sum", lambda w, i: F.embedding_bag(i, w, mode="sum"), f32(10000, 64).constant, i64(10000, 512, 20))
call("embedding_bag mean offsets", lambda w, i, o: F.embedding_bag(i, w, o, mode="mean"), f32(10000, 64).constant, i64(10000, 8000),
     Made(lambda: torch.arange(0, 8000, 16)))
call("embedding_bag max", lambda w, i: F.embedding_bag(i, w, mode="max"), f32(10000, 64).constant, i64(10000, 512, 20))
call("one_hot 4096 of 64", lambda i: F.one_hot(i, 64), i64(64, 4096))
call("scatter 64x1000", lambda x, i, s: x.scatter(1, i, s), f32(64, 1000), i64(1000, 64, 100), f32(64, 100))
call("scatter value 4096x64", lambda x, i: x.scatter(1, i, 1.0), f32(4096, 64), i64(64, 4096, 8))
call("scatter_add 64x1000", lambda x, i, s: x.scatter_add(1, i, s), f32(64, 1000), i64(1000, 64, 1000), f32(64, 1000))
call("scatter_add dim 0 (graph)", lambda x, i, s: x.scatter_add(0, i[:, None].expand(-1, 64), s), f32(1000, 64), i64(1000, 20000), f32(20000, 64))
call("index_add (graph)", lambda x, i, s: x.index_add(0, i, s), f32(1000, 64), i64(1000, 20000), f32(20000, 64))
call("scatter_reduce amax (graph)", lambda x, i, s: x.scatter_reduce(0, i[:, None].expand(-1, 64), s, "amax"), f32(1000, 64),
     i64(1000, 20000), f32(20000, 64))
call("scatter_reduce mean", lambda x, i, s: x.scatter_reduce(0, i[:, None].expand(-1, 64), s, "mean"), f32(1000, 64), i64(1000, 20000),
     f32(20000, 64))
call("index_put rows", lambda x, i, v: x.index_put((i,), v), f32(5000, 256), i64(5000, 1000).seen(lambda _: torch.randperm(5000)[:1000]),
     f32(1000, 256))
call("index_put accumulate", lambda x, i, v: x.index_put((i,), v, True), f32(5000, 64), i64(5000, 2000), f32(2000, 64))
call("index_copy rows (cache)", lambda x, i, v: x.index_copy(2, i, v), f32(1, 12, 512, 64), Made(lambda: torch.tensor([100])), f32(1, 12, 1, 64))
call("masked_fill 8x512x512", lambda x, m: x.masked_fill(m, -1e9), f32(8, 512, 512), mask(8, 512, 512))
call("masked_fill broadcast", lambda x, m: x.masked_fill(m, -math.inf), f32(8, 12, 128, 128), mask(8, 1, 1, 128))
call("masked_select 100000", lambda x, m: torch.masked_select(x, m), f32(100000), mask(100000))
call("x[m] rows", lambda x, m: x[m], f32(4096, 64), mask(4096))
call("masked_scatter", lambda x, m, s: x.masked_scatter(m, s), f32(1000, 256), mask(1000, 1), f32(1000, 256))
call("nonzero 300x300", lambda m: torch.nonzero(m), mask(300, 300))
call("nonzero sparse 1000x1000", lambda m: torch.nonzero(m), mask(1000, 1000).seen(lambda m: m & (torch.rand(1000, 1000) < 0.01)))
call("where 1000x1000", lambda m, x, y: torch.where(m, x, y), mask(1000, 1000), f32(1000, 1000), f32(1000, 1000))
call("where x > 0 scalar", lambda x: torch.where(x > 0, x, 0.0), f32(1000, 1000))
call("take 100000", lambda x, i: torch.take(x, i), f32(1000, 1000), i64(1000000, 100000))
call("repeat_interleave 3", lambda x: torch.repeat_interleave(x, 3, 1), f32(64, 100, 64))
call("repeat_interleave by tensor", lambda x, n: torch.repeat_interleave(x, n, 0), f32(1000, 64), i64(5, 1000))

# ---- Moving data ----
call("cat dim 1 pictures", lambda x, y: torch.cat([x, y], 1), f32(1, 64, 56, 56), f32(1, 64, 56, 56))
call("cat last dim", lambda x, y, z: torch.cat([x, y, z], -1), f32(1024, 64), f32(1024, 32), f32(1024, 3))
call("cat cache bf16", lambda x, y: torch.cat([x, y], 2), bf16(1, 12, 511, 64), bf16(1, 12, 1, 64))
call("cat dynamic", lambda x, y: torch.cat([x, y], 1), f32(8, 500, 64).free(1), f32(8, 12, 64))
call("stack last dim", lambda x, y: torch.stack([x, y], -1), f32(512, 512), f32(512, 512))
call("stack 8 dim 0", lambda *x: torch.stack(x), *[f32(128, 256) for _ in range(8)])
call("split and contiguous", lambda x: [y.contiguous() for y in x.split(64, -1)], f32(1024, 192))
call("qkv unbind heads", lambda x: [y.contiguous() for y in x.view(8, 197, 3, 12, 64).permute(2, 0, 3, 1, 4).unbind(0)], f32(8, 197, 2304))
call("chunk silu mul", lambda x: (lambda a, b: F.silu(a) * b)(*x.chunk(2, -1)), f32(512, 4096))
call("roll windows", lambda x: torch.roll(x, (-3, -3), (1, 2)), f32(1, 56, 56, 96))
call("roll 1 dim 0", lambda x: torch.roll(x, 1, 0), f32(512, 512))
call("flip last", lambda x: torch.flip(x, [-1]), f32(3, 512, 512))
call("flip both u8", lambda x: torch.flip(x, [-1, -2]), u8(3, 512, 512))
call("rot90", lambda x: torch.rot90(x, 1, (-2, -1)), f32(3, 512, 512))
call("pad constant", lambda x: F.pad(x, (1, 1, 1, 1)), f32(1, 64, 112, 112))
call("pad reflect", lambda x: F.pad(x, (3, 3, 3, 3), "reflect"), f32(1, 64, 112, 112))
call("pad replicate", lambda x: F.pad(x, (1, 1, 1, 1), "replicate"), f32(1, 64, 112, 112))
call("pad circular", lambda x: F.pad(x, (1, 1, 1, 1), "circular"), f32(1, 64, 112, 112))
call("pad reflect 1d (stft)", lambda x: F.pad(x, (200, 200), "reflect"), f32(8, 1, 16000))
call("pad constant 3d", lambda x: F.pad(x, (1, 1, 1, 1, 1, 1)), f32(1, 16, 16, 56, 56))
call("repeat 4", lambda x: x.repeat(4, 1, 1), f32(8, 197, 96))
call("tile last", lambda x: x.tile(1, 8), f32(1024, 64))
call("expand contiguous heads", lambda x: x[:, :, None].expand(2, 8, 4, 512, 64).reshape(2, 32, 512, 64), f32(2, 8, 512, 64))
call("permute NCHW to NHWC", lambda x: x.permute(0, 2, 3, 1).contiguous(), f32(1, 64, 112, 112))
call("permute NHWC to NCHW", lambda x: x.permute(0, 3, 1, 2).contiguous(), f32(1, 112, 112, 64))
call("permute u8 picture to f32", lambda x: x.permute(0, 3, 1, 2).float() / 255, u8(1, 512, 512, 3))
call("transpose 1024x1024", lambda x: x.t().contiguous(), f32(1024, 1024))
call("transpose 1024x1024 bf16", lambda x: x.t().contiguous(), bf16(1024, 1024))
call("transpose 2000x3", lambda x: x.t().contiguous(), f32(20000, 3))
call("transpose 1024x1024 dynamic", lambda x: x.t().contiguous(), f32(1024, 1024).free(0, 1))
call("heads 0213", lambda x: x.transpose(1, 2).contiguous(), f32(8, 197, 12, 64))
call("heads 0213 bf16", lambda x: x.transpose(1, 2).contiguous(), bf16(8, 197, 12, 64))
call("patches (ViT)", lambda x: x.view(1, 3, 14, 16, 14, 16).permute(0, 2, 4, 3, 5, 1).reshape(1, 196, 768), f32(1, 3, 224, 224))
call("windows (Swin)", lambda x: x.view(1, 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(64, 49, 96), f32(1, 56, 56, 96))
call("channel shuffle", lambda x: x.view(1, 2, 58, 28, 28).transpose(1, 2).reshape(1, 116, 28, 28), f32(1, 116, 28, 28))
call("pixel_shuffle 2", lambda x: F.pixel_shuffle(x, 2), f32(1, 256, 64, 64))
call("pixel_shuffle 3 to 3 channels", lambda x: F.pixel_shuffle(x, 3), f32(1, 27, 128, 128))
call("pixel_unshuffle 2", lambda x: F.pixel_unshuffle(x, 2), f32(1, 64, 128, 128))
call("unfold 3x3", lambda x: F.unfold(x, 3, padding=1), f32(1, 64, 56, 56))
call("unfold 3x3 of 1x16x64x64", lambda x: F.unfold(x, 3), f32(1, 16, 64, 64))
call("unfold 4x4 stride 4", lambda x: F.unfold(x, 4, stride=4), f32(1, 16, 128, 128))
call("unfold 7x7 stride 4", lambda x: F.unfold(x, 7, stride=4, padding=2), f32(1, 3, 224, 224))
call("fold 3x3", lambda x: F.fold(x, (56, 56), 3, padding=1), f32(1, 64 * 9, 56 * 56))
call("fold 4x4 stride 4", lambda x: F.fold(x, (128, 128), 4, stride=4), f32(1, 256, 1024))
call("Tensor.unfold frames", lambda x: x.unfold(-1, 400, 160).contiguous(), f32(8, 16000))
call("tril 1024", lambda x: torch.tril(x), f32(1024, 1024))
call("triu 512 mask", lambda x: torch.triu(torch.full((512, 512), -math.inf), 1) + x, f32(8, 512, 512))
call("meshgrid stack", lambda x, y: torch.stack(torch.meshgrid(x, y, indexing="ij"), -1), f32(300), f32(300))
call("diagonal sum", lambda x: torch.diagonal(x, dim1=-2, dim2=-1).sum(-1), f32(256, 64, 64))
call("diag_embed", lambda x: torch.diag_embed(x), f32(64, 128))
call("contiguous of every second", lambda x: x.contiguous(), f32(512, 512).seen(every_second))
call("clone 1M", lambda x: x.clone(), f32(1024, 1024))
call("slices 2 by 2 (Swin merge)", lambda x: torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1),
     f32(1, 56, 56, 96))
call("rotary halves", lambda x, c, s: x * c + torch.cat([-x[..., 32:], x[..., :32]], -1) * s, f32(1, 12, 512, 64), f32(512, 64), f32(512, 64))
call("rotary pairs", lambda x, c, s: torch.stack([x[..., ::2] * c - x[..., 1::2] * s, x[..., ::2] * s + x[..., 1::2] * c], -1).flatten(-2),
     f32(1, 12, 512, 64), f32(512, 32), f32(512, 32))

# ---- Pools ----
call("max_pool2d 3 s2", lambda x: F.max_pool2d(x, 3, 2, 1), f32(1, 64, 112, 112))
call("max_pool2d 2 s2", lambda x: F.max_pool2d(x, 2), f32(1, 64, 112, 112))
call("max_pool2d 3 s2 channels last", lambda x: F.max_pool2d(x, 3, 2, 1), f32(1, 64, 112, 112).seen(channels_last))
call("max_pool2d 3 s2 indices", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), f32(1, 64, 112, 112))
call("max_pool2d 5 s1 (SPPF)", lambda x: F.max_pool2d(x, 5, 1, 2), f32(1, 256, 20, 20))
call("max_pool2d bf16", lambda x: F.max_pool2d(x, 3, 2, 1), bf16(1, 64, 112, 112))
call("max_pool2d dynamic", lambda x: F.max_pool2d(x, 3, 2, 1), f32(1, 64, 112, 112).free(0, 2, 3))
call("max_pool1d", lambda x: F.max_pool1d(x, 4), f32(8, 64, 4000))
call("max_pool3d", lambda x: F.max_pool3d(x, 2), f32(1, 32, 16, 56, 56))
call("avg_pool2d 3 s1", lambda x: F.avg_pool2d(x, 3, 1, 1), f32(1, 64, 56, 56))
call("avg_pool2d 2 s2", lambda x: F.avg_pool2d(x, 2), f32(1, 64, 112, 112))
call("avg_pool1d", lambda x: F.avg_pool1d(x, 25, 1, 12), f32(8, 64, 1000))
call("avg_pool3d", lambda x: F.avg_pool3d(x, 2), f32(1, 32, 16, 56, 56))
call("adaptive_avg_pool2d 1", lambda x: F.adaptive_avg_pool2d(x, 1), f32(8, 512, 14, 14))
call("adaptive_avg_pool2d 7", lambda x: F.adaptive_avg_pool2d(x, 7), f32(1, 512, 28, 28))
call("adaptive_avg_pool2d 6 of 32", lambda x: F.adaptive_avg_pool2d(x, 6), f32(1, 512, 32, 32))
call("adaptive_max_pool2d 1", lambda x: F.adaptive_max_pool2d(x, 1), f32(8, 512, 14, 14))
call("adaptive_max_pool2d 7", lambda x: F.adaptive_max_pool2d(x, 7), f32(1, 256, 56, 56))
call("adaptive_max_pool2d 5 of 32", lambda x: F.adaptive_max_pool2d(x, 5), f32(1, 64, 32, 32))
call("adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 10), f32(8, 64, 1000))
call("adaptive_max_pool2d 7 indices", lambda x: F.adaptive_max_pool2d(x, 7, return_indices=True), f32(1, 256, 56, 56))
call("lp_pool2d", lambda x: F.lp_pool2d(x, 2, 3, 2), f32(1, 64, 56, 56))
call("fractional_max_pool2d", lambda x, s: F.fractional_max_pool2d(x, 2, output_size=28, _random_samples=s), f32(1, 64, 56, 56), unit(1, 64, 2))
call("max_unpool2d", lambda x, i: F.max_unpool2d(x, i, 2), f32(1, 64, 56, 56),
     Made(lambda: F.max_pool2d(torch.randn(1, 64, 112, 112), 2, return_indices=True)[1]))

# ---- Pictures of other sizes ----
for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
    corners = {"align_corners": False} if mode in ("bilinear", "bicubic") else {}
    call(f"interpolate {mode} x2", lambda x, m=mode, c=corners: F.interpolate(x, scale_factor=2, mode=m, **c), f32(1, 64, 56, 56))
    call(f"interpolate {mode} 224 to 160", lambda x, m=mode, c=corners: F.interpolate(x, size=(160, 160), mode=m, **c), f32(1, 3, 224, 224))
call("interpolate bilinear corners", lambda x: F.interpolate(x, size=(128, 128), mode="bilinear", align_corners=True), f32(1, 21, 33, 33))
call("interpolate bilinear antialias", lambda x: F.interpolate(x, size=(224, 224), mode="bilinear", antialias=True), f32(1, 3, 512, 512))
call("interpolate bicubic antialias", lambda x: F.interpolate(x, size=(224, 224), mode="bicubic", antialias=True), f32(1, 3, 512, 512))
call("interpolate bilinear channels last", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), f32(1, 64, 56, 56).seen(channels_last))
call("interpolate linear 1d", lambda x: F.interpolate(x, scale_factor=4, mode="linear"), f32(8, 32, 1000))
call("interpolate trilinear", lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), f32(1, 8, 16, 28, 28))
call("interpolate nearest x2 bf16", lambda x: F.interpolate(x, scale_factor=2), bf16(1, 64, 56, 56))
call("grid_sample bilinear", lambda x, g: F.grid_sample(x, g, align_corners=False), f32(1, 32, 64, 64), f32(1, 64, 64, 2).seen(torch.tanh))
call("grid_sample bilinear 256 channels", lambda x, g: F.grid_sample(x, g, align_corners=False), f32(1, 256, 32, 32),
     f32(1, 64, 64, 2).seen(torch.tanh))
call("grid_sample bilinear 3 channels", lambda x, g: F.grid_sample(x, g, align_corners=True), f32(1, 3, 256, 256),
     f32(1, 256, 256, 2).seen(torch.tanh))
call("grid_sample nearest", lambda x, g: F.grid_sample(x, g, mode="nearest", align_corners=False), f32(1, 32, 64, 64),
     f32(1, 64, 64, 2).seen(torch.tanh))
call("grid_sample border", lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=False), f32(1, 32, 64, 64), f32(1, 64, 64, 2))
call("grid_sample reflection", lambda x, g: F.grid_sample(x, g, padding_mode="reflection", align_corners=False), f32(1, 32, 64, 64),
     f32(1, 64, 64, 2))
call("grid_sample bicubic", lambda x, g: F.grid_sample(x, g, mode="bicubic", align_corners=False), f32(1, 32, 64, 64),
     f32(1, 64, 64, 2).seen(torch.tanh), tolerance=1e-3)
call("grid_sample heads (DETR)", lambda x, g: F.grid_sample(x, g, align_corners=False), f32(8, 32, 64, 64), f32(8, 300, 4, 2).seen(torch.tanh))
call("grid_sample 3d", lambda x, g: F.grid_sample(x, g, align_corners=False), f32(1, 8, 16, 32, 32), f32(1, 16, 32, 32, 3).seen(torch.tanh))
call("affine_grid", lambda t: F.affine_grid(t, (8, 3, 64, 64), align_corners=False), f32(8, 2, 3))

# ---- Norms ----
call("layer_norm 768", lambda x, w, b: F.layer_norm(x, (768,), w, b), f32(8, 197, 768), f32(768).constant, f32(768).constant)
call("layer_norm 768 dynamic", lambda x, w, b: F.layer_norm(x, (768,), w, b), f32(8, 197, 768).free(0, 1), f32(768).constant, f32(768).constant)
call("layer_norm 768 bf16", lambda x, w, b: F.layer_norm(x, (768,), w, b), bf16(8, 197, 768), bf16(768).constant, bf16(768).constant,
     tolerance=2e-2)
call("layer_norm 32", lambda x: F.layer_norm(x, (32,)), f32(8192, 32))
call("layer_norm 3 dims", lambda x: F.layer_norm(x, (64, 28, 28)), f32(4, 64, 28, 28))
call("rms_norm 2048", lambda x, w: F.rms_norm(x, (2048,), w), f32(512, 2048), f32(2048).constant)
call("rms_norm 128 heads bf16", lambda x, w: F.rms_norm(x, (128,), w), bf16(512, 32, 128), bf16(128).constant, tolerance=2e-2)
call("group_norm 32 of 256", lambda x, w, b: F.group_norm(x, 32, w, b), f32(1, 256, 64, 64), f32(256).constant, f32(256).constant)
call("group_norm 1", lambda x: F.group_norm(x, 1), f32(1, 64, 56, 56))
call("group_norm 32 of 64 small", lambda x: F.group_norm(x, 32), f32(8, 64, 8, 8))
call("instance_norm", lambda x: F.instance_norm(x), f32(1, 64, 128, 128))
call("instance_norm small", lambda x: F.instance_norm(x), f32(8, 64, 8, 8))
call("batch_norm", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), f32(1, 64, 112, 112), f32(64).constant, unit(64).constant,
     f32(64).constant, f32(64).constant)
call("batch_norm training", lambda x: F.batch_norm(x, None, None, training=True), f32(8, 64, 28, 28))
call("batch_norm 1d training", lambda x: F.batch_norm(x, None, None, training=True), f32(512, 256))
call("normalize dim 1", lambda x: F.normalize(x, dim=1), f32(64, 2048))
call("normalize dim 1 pictures", lambda x: F.normalize(x, dim=1), f32(1, 256, 64, 64))
call("local_response_norm", lambda x: F.local_response_norm(x, 5), f32(1, 64, 55, 55))
call("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, -1), f32(1000, 512), f32(1000, 512))

# ---- Softmax and reductions ----
call("softmax last", lambda x: torch.softmax(x, -1), f32(8, 12, 197, 197))
call("softmax last bf16", lambda x: torch.softmax(x, -1), bf16(8, 12, 197, 197), tolerance=2e-2)
call("softmax 50257", lambda x: torch.softmax(x, -1), f32(8, 50257))
call("softmax dim 1 pictures", lambda x: torch.softmax(x, 1), f32(1, 21, 256, 256))
call("softmax dim 0", lambda x: torch.softmax(x, 0), f32(512, 512))
call("softmax 8 (experts)", lambda x: torch.softmax(x, -1), f32(8192, 8))
call("softmax dynamic", lambda x: torch.softmax(x, -1), f32(96, 197, 197).free(0, 1, 2))
call("log_softmax last", lambda x: torch.log_softmax(x, -1), f32(512, 1000))
call("log_softmax dim 1 pictures", lambda x: torch.log_softmax(x, 1), f32(1, 21, 256, 256))
call("logsumexp last", lambda x: torch.logsumexp(x, -1), f32(512, 1000))
call("logsumexp dim 0", lambda x: torch.logsumexp(x, 0), f32(512, 512))
call("softmin 1000", lambda x: F.softmin(x, -1), f32(256, 1000))
call("gumbel hard (argmax one-hot)", lambda x: F.one_hot(x.argmax(-1), 320).float(), f32(1000, 320))
for name, function in {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "argmax": torch.argmax, "std": torch.std,
                       "var": torch.var, "norm": torch.linalg.vector_norm, "prod": torch.prod}.items():
    call(f"{name} last 1024x1000", lambda x, f=function: f(x, dim=-1), f32(1024, 1000))
    call(f"{name} first 1024x1000", lambda x, f=function: f(x, dim=0), f32(1024, 1000))
    call(f"{name} middle 16x256x256", lambda x, f=function: f(x, dim=1), f32(16, 256, 256))
call("sum all 1M", lambda x: x.sum(), f32(1024, 1024))
call("sum all 1M bf16", lambda x: x.sum(), bf16(1024, 1024), tolerance=2e-2)
call("sum last swapped", lambda x: x.sum(-1), f32(1000, 1000).seen(swapped))
call("sum int64", lambda x: x.sum(-1), i64(100, 1024, 1000))
call("sum mask", lambda x: x.sum(-1), mask(1024, 1000))
call("sum of 3", lambda x: x.sum(-1), f32(100000, 3))
call("mean pictures", lambda x: x.mean((2, 3)), f32(8, 256, 28, 28))
call("mean pictures channels last", lambda x: x.mean((2, 3)), f32(8, 256, 28, 28).seen(channels_last))
call("mean bf16 last", lambda x: x.mean(-1), bf16(1024, 1000), tolerance=2e-2)
call("argmax 8x50257", lambda x: x.argmax(-1), f32(8, 50257))
call("argmax 8x50257 bf16", lambda x: x.argmax(-1), bf16(8, 50257))
call("argmax dim 1 pictures", lambda x: x.argmax(1), f32(1, 21, 256, 256))
call("argmin int64", lambda x: x.argmin(-1), i64(1 << 40, 512, 1000))
call("argmax all", lambda x: x.argmax(), f32(1000000))
call("max dim with indices", lambda x: torch.max(x, -1), f32(1024, 1000))
call("max dim 0 with indices", lambda x: torch.max(x, 0), f32(1000, 1024))
call("max of 8 with indices", lambda x: torch.max(x, -1), f32(20000, 8))
call("aminmax all", lambda x: torch.aminmax(x), f32(1000000))
call("any mask last", lambda x: x.any(-1), mask(1024, 1000))
call("all mask last", lambda x: x.all(-1), mask(1024, 1000))
call("any x > 3", lambda x: (x > 3).any(), f32(1000000))
call("count_nonzero", lambda x: torch.count_nonzero(x, -1), mask(1024, 1000))
call("isnan any", lambda x: torch.isnan(x).any(), f32(1000000))
call("var_mean pictures", lambda x: torch.var_mean(x, (2, 3)), f32(8, 128, 28, 28))
call("norm all", lambda x: torch.linalg.vector_norm(x), f32(1000000))
call("norm 1 last", lambda x: torch.linalg.vector_norm(x, 1, -1), f32(1024, 1000))
call("norm 3 last", lambda x: torch.linalg.vector_norm(x, 3, -1), f32(256, 1000))

# ---- Element by element ----
for name, function in {"gelu": F.gelu, "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "erf": torch.erf,
                       "softplus": F.softplus, "mish": F.mish, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "exp": torch.exp,
                       "sin": torch.sin, "cos": torch.cos, "expm1": torch.expm1, "atan": torch.atan, "hardswish": F.hardswish,
                       "elu": F.elu, "leaky_relu": F.leaky_relu, "round": torch.round, "sign": torch.sign,
                       "logsigmoid": F.logsigmoid, "hardsigmoid": F.hardsigmoid, "celu": F.celu}.items():
    call(f"{name} 512x1024", function, f32(512, 1024))
for name, function in {"gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh, "exp": torch.exp}.items():
    call(f"{name} 512x1024 bf16", function, bf16(512, 1024), tolerance=2e-2)
for name, function in {"log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "pow 0.5": lambda x: x ** 0.5,
                       "pow 2": lambda x: x ** 2, "pow 3": lambda x: x ** 3, "pow 1.7": lambda x: x ** 1.7, "logit": lambda x: torch.logit(x, 1e-6),
                       "acos": torch.acos, "erfinv": torch.erfinv, "lgamma": torch.lgamma, "digamma": torch.digamma,
                       "2 ** x": lambda x: 2.0 ** x}.items():
    call(f"{name} 512x1024", function, unit(512, 1024))
call("lgamma -5 to 5", torch.lgamma, f32(512, 1024).seen(lambda x: x * 5))
call("lgamma of 1000s", torch.lgamma, unit(512, 1024).seen(lambda x: x * 5000))
call("lgamma f64", torch.lgamma, f64(512, 512).seen(lambda x: x * 5))
call("pow tensor", torch.pow, unit(512, 512), f32(512, 512))
call("atan2", torch.atan2, f32(512, 512), f32(512, 512))
call("hypot", torch.hypot, f32(512, 512), f32(512, 512))
call("fmod", torch.fmod, f32(512, 512), f32(512, 512))
call("remainder", torch.remainder, f32(512, 512), f32(512, 512))
call("floor_divide", torch.floor_divide, f32(512, 512), f32(512, 512))
call("add broadcast rows", lambda x, y: x + y, f32(1024, 1000), f32(1000))
call("add broadcast columns", lambda x, y: x + y, f32(1024, 1000), f32(1024, 1))
call("add swapped", lambda x, y: x + y, f32(1000, 1000), f32(1000, 1000).seen(swapped))
call("add outer", lambda x, y: x[:, None] + y[None], f32(1000), f32(1000))
call("add bf16", lambda x, y: x + y, bf16(1024, 1024), bf16(1024, 1024), tolerance=2e-2)
call("add bf16 f32", lambda x, y: x + y, bf16(1024, 1024), f32(1024, 1024), tolerance=2e-2)
call("mul f64", lambda x, y: x * y, f64(512, 512), f64(512, 512))
call("exp f64", torch.exp, f64(512, 512))
call("add dynamic", lambda x, y: x + y, f32(1024, 1000).free(0, 1), f32(1000).free(0))
call("addcmul", lambda x, y, z: torch.addcmul(x, y, z), f32(512, 512), f32(512, 512), f32(512, 512))
call("lerp", lambda x, y: torch.lerp(x, y, 0.3), f32(512, 512), f32(512, 512))
call("clamp", lambda x: x.clamp(-1, 1), f32(1024, 1024))
call("nan_to_num", lambda x: torch.nan_to_num(x), f32(1024, 1024))
call("prelu pictures", lambda x, w: F.prelu(x, w), f32(1, 64, 112, 112), f32(64).constant)
call("glu dim 1", lambda x: F.glu(x, 1), f32(1, 512, 1000))
call("int64 add mul", lambda x, y: x * 3 + y, i64(1000, 512, 512), i64(1000, 512, 512))
call("int64 floor divide", lambda x: x // 7, i64(1000, 512, 512))
call("int64 remainder", lambda x: x % 7, i64(1000, 512, 512))
call("int64 divide by tensor", lambda x, y: x // y, i64(1000, 512, 512), i64(100, 512, 512, low=1))
call("int64 compare", lambda x, y: x == y, i64(10, 512, 512), i64(10, 512, 512))
call("int64 clamp", lambda x: x.clamp(0, 100), i64(1000, 512, 512, low=-1000))
call("int8 add", lambda x, y: x + y, i8(1024, 1024), i8(1024, 1024))
call("int8 mul", lambda x, y: x * y, i8(1024, 1024), i8(1024, 1024))
call("uint8 add", lambda x, y: x + y, u8(1024, 1024), u8(1024, 1024))
call("uint8 to f32", lambda x: x.float(), u8(1024, 1024))
call("f32 to uint8", lambda x: (x * 255).to(torch.uint8), unit(1024, 1024))
call("f32 to int64", lambda x: x.long(), f32(512, 512))
call("int64 to f32", lambda x: x.float(), i64(1000, 512, 512))
call("f32 to bf16", lambda x: x.bfloat16(), f32(1024, 1024))
call("bf16 to f32", lambda x: x.float(), bf16(1024, 1024))
call("f32 to f16", lambda x: x.half(), f32(1024, 1024))
call("f32 to bool", lambda x: x.bool(), f32(1024, 1024))
call("mask and or not", lambda x, y: (x & y) | ~x, mask(1024, 1024), mask(1024, 1024))
call("uint8 shift and mask (4 bits)", lambda x: torch.stack([x & 15, x >> 4], -1).flatten(-2), u8(1024, 512))
call("mask to f32 minus", lambda m: (1.0 - m.float()) * -1e9, mask(8, 512, 512))
call("compare x > y", lambda x, y: x > y, f32(1024, 1024), f32(1024, 1024))
call("fake_quantize", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127), f32(512, 1024))
call("fake_quantize channels", lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 0, -128, 127), f32(512, 1024),
     unit(512).seen(lambda x: x * 0.1 + 0.01), i32(1, 512))
call("quantise rows to int8", lambda x: (lambda s: ((x / s).round().clamp(-128, 127).to(torch.int8), s))(x.abs().amax(-1, True) / 127), f32(512, 1024))
call("dequantise int8 rows", lambda x, s: x.float() * s, i8(512, 1024), unit(512, 1))

# ---- Convolutions ----
def convolution(name, shape, weight, dtype=f32, **options):
    function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(shape)]
    call(f"conv {name}", lambda x, w: function(x, w, **options), dtype(*shape), dtype(*weight).constant, tolerance=1e-3 if dtype is f32 else 3e-2)


convolution("3x3 64", (1, 64, 56, 56), (64, 64, 3, 3), padding=1)
convolution("1x1 256 to 64", (1, 256, 56, 56), (64, 256, 1, 1))
convolution("7x7 s2 of 3", (1, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3)
convolution("3x3 of 1 to 1", (1, 1, 512, 512), (1, 1, 3, 3), padding=1)
convolution("3x3 of 3 to 3", (1, 3, 256, 256), (3, 3, 3, 3), padding=1)
convolution("3x3 of 64 to 3", (1, 64, 128, 128), (3, 64, 3, 3), padding=1)
convolution("depthwise 3x3", (1, 96, 56, 56), (96, 1, 3, 3), padding=1, groups=96)
convolution("depthwise 7x7", (1, 96, 56, 56), (96, 1, 7, 7), padding=3, groups=96)
convolution("depthwise 31x31", (1, 64, 28, 28), (64, 1, 31, 31), padding=15, groups=64)
convolution("depthwise 5x5 s2", (1, 96, 56, 56), (96, 1, 5, 5), stride=2, padding=2, groups=96)
convolution("groups 32 of 4", (1, 128, 56, 56), (128, 4, 3, 3), padding=1, groups=32)
convolution("groups 8 of 3", (1, 24, 56, 56), (24, 3, 3, 3), padding=1, groups=8)
convolution("dilation 4", (1, 64, 56, 56), (64, 64, 3, 3), padding=4, dilation=4)
convolution("1x15", (1, 64, 32, 128), (64, 64, 1, 15), padding=(0, 7))
convolution("patches 16x16", (1, 3, 224, 224), (768, 3, 16, 16), stride=16)
convolution("bf16 3x3 64", (1, 64, 56, 56), (64, 64, 3, 3), dtype=bf16, padding=1)
convolution("1d 3 of 80 to 384", (1, 80, 3000), (384, 80, 3), padding=1)
convolution("1d 10 s5 of 1", (1, 1, 16000), (512, 1, 10), stride=5)
convolution("1d depthwise 31", (1, 256, 500), (256, 1, 31), padding=15, groups=256)
convolution("1d dilated 512", (1, 32, 4000), (32, 32, 2), dilation=512)
convolution("1d 128 groups 16 (positions)", (1, 768, 200), (768, 48, 128), padding=64, groups=16)
convolution("3d 3x3x3", (1, 16, 16, 56, 56), (32, 16, 3, 3, 3), padding=1)
convolution("3d of 3", (1, 3, 8, 112, 112), (16, 3, 3, 7, 7), stride=(1, 2, 2), padding=(1, 3, 3))
call("conv_transpose2d 4 s2", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), f32(1, 64, 32, 32), f32(64, 32, 4, 4).constant, tolerance=1e-3)
call("conv_transpose2d 2 s2", lambda x, w: F.conv_transpose2d(x, w, stride=2), f32(1, 128, 28, 28), f32(128, 64, 2, 2).constant, tolerance=1e-3)
call("conv_transpose2d to 1", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), f32(1, 16, 64, 64), f32(16, 1, 4, 4).constant, tolerance=1e-3)
call("conv_transpose2d depthwise", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, groups=64), f32(1, 64, 32, 32),
     f32(64, 1, 4, 4).constant, tolerance=1e-3)
call("conv_transpose1d 16 s8", lambda x, w: F.conv_transpose1d(x, w, stride=8, padding=4), f32(1, 128, 200), f32(128, 64, 16).constant, tolerance=1e-3)
call("conv_transpose3d 2 s2", lambda x, w: F.conv_transpose3d(x, w, stride=2), f32(1, 32, 8, 14, 14), f32(32, 16, 2, 2, 2).constant, tolerance=1e-3)
call("conv_transpose3d 3 s2", lambda x, w: F.conv_transpose3d(x, w, stride=2), f32(1, 16, 8, 14, 14), f32(16, 8, 3, 3, 3).constant, tolerance=1e-3)
call("conv2d computed weights", lambda x, w: F.conv2d(x, w, padding=1), f32(1, 32, 28, 28), f32(32, 32, 3, 3), tolerance=1e-3)
call("conv2d dynamic", lambda x, w: F.conv2d(x, w, padding=1), f32(1, 64, 56, 56).free(0, 2, 3), f32(64, 64, 3, 3).constant, tolerance=1e-3)

# ---- Products ----
call("linear 197x768 to 3072", lambda x, w: F.linear(x, w), f32(197, 768), f32(3072, 768).constant, tolerance=1e-3)
call("linear dynamic", lambda x, w: F.linear(x, w), f32(197, 768).free(0), f32(3072, 768).constant, tolerance=1e-3)
call("linear bf16", lambda x, w: F.linear(x, w), bf16(197, 768), bf16(3072, 768).constant, tolerance=3e-2)
call("linear 1 row", lambda x, w: F.linear(x, w), f32(1, 768), f32(768, 768).constant, tolerance=1e-3)
call("linear to 1", lambda x, w: F.linear(x, w), f32(5000, 256), f32(1, 256).constant, tolerance=1e-3)
call("linear of 3", lambda x, w: F.linear(x, w), f32(20000, 3), f32(64, 3).constant, tolerance=1e-3)
call("mm 512 computed", lambda x, y: x @ y, f32(512, 512), f32(512, 512), tolerance=1e-3)
call("mm 512 computed transposed", lambda x, y: x @ y.t(), f32(512, 512), f32(512, 512), tolerance=1e-3)
call("mm x.t() @ x", lambda x: x.t() @ x, f32(2000, 64), tolerance=1e-3)
call("mm f64", lambda x, y: x @ y, f64(256, 256), f64(256, 256))
call("mm int64", lambda x, y: x @ y, i64(100, 128, 128), i64(100, 128, 128))
call("bmm 96x64x64", lambda x, y: torch.bmm(x, y), f32(96, 64, 64), f32(96, 64, 64), tolerance=1e-3)
call("bmm many small 4x4", lambda x, y: torch.bmm(x, y), f32(5000, 4, 4), f32(5000, 4, 4))
call("bmm vector", lambda x, y: torch.bmm(x, y), f32(256, 1, 128), f32(256, 128, 64), tolerance=1e-3)
call("mm 1x4096 by weights", lambda x, y: x @ y, f32(1, 4096), f32(4096, 4096).constant, tolerance=1e-3)
call("mm 1x4096 computed", lambda x, y: x @ y, f32(1, 4096), f32(4096, 4096), tolerance=1e-3)
call("baddbmm", lambda b, x, y: torch.baddbmm(b, x, y, beta=0.5), f32(32, 64, 64), f32(32, 64, 64), f32(32, 64, 64), tolerance=1e-3)
call("matvec 1024", lambda x, y: x @ y, f32(1024, 1024), f32(1024), tolerance=1e-3)
call("dot 100000", torch.dot, f32(100000), f32(100000), tolerance=1e-3)
call("outer 1000", torch.outer, f32(1000), f32(1000))
call("einsum bhid,bhjd->bhij", lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y), f32(4, 8, 64, 64), f32(4, 8, 64, 64), tolerance=1e-3)
call("einsum bhwc,hkc->bhwk", lambda x, y: torch.einsum("bhwc,hkc->bhwk", x, y), f32(12, 14, 14, 64), f32(14, 14, 64), tolerance=1e-3)
call("einsum bnd,bnd->bn", lambda x, y: torch.einsum("bnd,bnd->bn", x, y), f32(8, 512, 64), f32(8, 512, 64), tolerance=1e-3)
call("cdist 500x500x64", lambda x, y: torch.cdist(x, y), f32(500, 64), f32(500, 64), tolerance=1e-3)
call("cdist 2000x3", lambda x, y: torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist"), f32(1000, 3), f32(1000, 3))
call("cdist p 1", lambda x, y: torch.cdist(x, y, p=1.0), f32(300, 64), f32(300, 64))
call("linalg inv 64x4x4", lambda x: torch.linalg.inv(x), f32(64, 4, 4).seen(lambda x: x + 4 * torch.eye(4)), tolerance=1e-3)
call("linalg solve 64", lambda x, y: torch.linalg.solve(x, y), f32(64, 64).seen(lambda x: x + 16 * torch.eye(64)), f32(64, 8), tolerance=1e-3)
call("linalg cholesky 128", lambda x: torch.linalg.cholesky(x), f32(128, 128).seen(lambda x: x @ x.t() + 128 * torch.eye(128)), tolerance=1e-3)
call("linalg det 3x3", lambda x: torch.linalg.det(x), f32(1000, 3, 3), tolerance=1e-3)
call("linalg svdvals 32", lambda x: torch.linalg.svdvals(x), f32(32, 32), tolerance=1e-3)
call("linalg cross", lambda x, y: torch.linalg.cross(x, y), f32(20000, 3), f32(20000, 3))
call("kron 32", torch.kron, f32(32, 32), f32(32, 32))

# ---- Cells and attention ----
call("lstm 64 steps 256", lambda x, *w: torch.lstm(x, (torch.zeros(1, 1, 256), torch.zeros(1, 1, 256)), list(w), True, 1, 0.0, False, False, True)[0],
     f32(1, 64, 256), *[f32(*s).seen(lambda x: x * 0.05).constant for s in ((1024, 256), (1024, 256), (1024,), (1024,))])
call("gru 64 steps 128", lambda x, *w: torch.gru(x, torch.zeros(1, 8, 128), list(w), True, 1, 0.0, False, False, True)[0],
     f32(8, 64, 128), *[f32(*s).seen(lambda x: x * 0.05).constant for s in ((384, 128), (384, 128), (384,), (384,))])
call("lstm_cell 256", lambda x, h, c, *w: torch.lstm_cell(x, (h, c), *w), f32(8, 256), f32(8, 256), f32(8, 256),
     *[f32(*s).seen(lambda x: x * 0.05).constant for s in ((1024, 256), (1024, 256), (1024,), (1024,))])
call("sdpa 12x197x64", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *[f32(1, 12, 197, 64)] * 3, tolerance=1e-3)
call("sdpa causal 12x512x64", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *[f32(1, 12, 512, 64)] * 3, tolerance=1e-3)
call("sdpa mask 12x128x64", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), *[f32(4, 12, 128, 64)] * 3, f32(4, 1, 1, 128), tolerance=1e-3)
call("sdpa bool mask", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), *[f32(1, 12, 197, 64)] * 3, mask(1, 1, 197, 197), tolerance=1e-3)
call("sdpa one query", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), f32(1, 12, 1, 64), f32(1, 12, 1024, 64), f32(1, 12, 1024, 64), tolerance=1e-3)
call("sdpa grouped heads", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), f32(1, 32, 128, 64), f32(1, 8, 128, 64),
     f32(1, 8, 128, 64), tolerance=1e-3)
call("sdpa windows 64x3x49x32", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *[f32(64, 3, 49, 32)] * 3, tolerance=1e-3)
call("sdpa bf16 12x197x64", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *[bf16(1, 12, 197, 64)] * 3, tolerance=3e-2)

# ---- Fourier transforms, complex numbers ----
call("rfft 512 of 200", lambda x: torch.fft.rfft(x), f32(200, 512))
call("rfft 400 of 200", lambda x: torch.fft.rfft(x), f32(200, 400))
call("irfft 512 of 200", lambda x: torch.fft.irfft(x), c64(200, 257), tolerance=1e-3)
call("rfft2 64x224x224", lambda x: torch.fft.rfft2(x), f32(16, 224, 224), tolerance=1e-3)
call("fft 1024 complex", lambda x: torch.fft.fft(x), c64(64, 1024), tolerance=1e-3)
call("fft along dim 1", lambda x: torch.fft.fft(x, dim=1), c64(8, 128, 64), tolerance=1e-3)
call("stft 400 hop 160", lambda x, w: torch.stft(x, 400, 160, window=w, return_complex=True).abs(), f32(1, 48000),
     Made(lambda: torch.hann_window(400)).constant, tolerance=1e-3)
call("fftshift", lambda x: torch.fft.fftshift(x, dim=(-2, -1)), f32(16, 224, 224))
call("complex multiply", lambda x, y: x * y, c64(512, 512), c64(512, 512))
call("complex abs", lambda x: x.abs(), c64(512, 512))
call("complex angle", lambda x: x.angle(), c64(512, 512))
call("polar rotary", lambda x, f: torch.view_as_real(torch.view_as_complex(x.view(1, 512, 12, 32, 2)) * f[None, :, None]).flatten(3),
     f32(1, 512, 12, 64), c64(512, 32))
call("complex matmul", lambda x, y: x @ y, c64(128, 128), c64(128, 128), tolerance=1e-3)

# ---- Losses ----
call("cross_entropy 512x1000", lambda x, y: F.cross_entropy(x, y), f32(512, 1000), i64(1000, 512))
call("cross_entropy pictures", lambda x, y: F.cross_entropy(x, y), f32(1, 21, 256, 256), i64(21, 1, 256, 256))
call("cross_entropy smoothing", lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), f32(512, 1000), i64(1000, 512))
call("nll_loss 512x1000", lambda x, y: F.nll_loss(x, y, reduction="none"), f32(512, 1000), i64(1000, 512))
call("bce logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y), f32(512, 512), unit(512, 512))
call("bce", lambda x, y: F.binary_cross_entropy(x, y), unit(512, 512), unit(512, 512))
call("mse", F.mse_loss, f32(512, 512), f32(512, 512))
call("smooth_l1", F.smooth_l1_loss, f32(512, 512), f32(512, 512))
call("kl_div", lambda x, y: F.kl_div(x, y, reduction="batchmean"), f32(512, 512), unit(512, 512))
