"""Cases of values and sizes at the edge of what an operator is defined for: NaN and infinities, sizes that turn out to
be 0, arguments that eager refuses. Listed by generate_cases.py."""
import torch
import torch.nn.functional as F
from torch.export import Dim

NAN, INF = float("nan"), float("inf")


def narrow_float_steps(of):
    """A step function at the end of a chain: the roundings before it show, wherever in the chain they stand."""
    def forward(self, a, b, h):
        lost = (a + b) - a
        big = h * h
        return (lost == 0, lost.bool(), lost.sign(), lost.argmax(), (lost.abs().sum(-1) == 0), torch.isinf(big / 2),
                torch.isfinite(big), torch.isnan(big - big), torch.nonzero((big - big).isnan()), lost.float() * 3)

    def call(n):
        return (torch.full((4, n), 256.0).bfloat16(), (torch.rand(4, n) * 1.5).bfloat16(),
                torch.tensor([300.0, 3.0, 250.0, 256.0]).half())
    return of(forward, [call(16), call(16)], "comparisons and tests for NaN after chains of bf16 and f16")


def sizes_of_nothing(of):
    """What is defined over nothing, at a size that is 0 in one of the calls."""
    def forward(self, x):
        points = x.t()
        return (x.median(), x.nanmedian(), x.long().median(), x.logsumexp(0), torch.cdist(points, points, p=INF),
                torch.linalg.vector_norm(x, 2, dim=0), x.softmax(0).sum(0), x.amax(1), x.cummax(0).values,
                torch.std_mean(x, 0)[1], torch.searchsorted(x[:, 0].contiguous(), torch.ones(2)))
    return of(forward, [(torch.randn(n, 2).sort(0).values,) for n in (5, 0, 1)],
              "medians, norms, softmax and searches over a dynamic size of 0",
              {"x": {0: Dim("n", min=0, max=64)}})


def sizes_of_one_value(of):
    """n // 4 is 1 for every n from 4 to 7: such sizes broadcast, are squeezed and expanded, and equal 1."""
    def forward(self, x):
        pooled, quarter = F.avg_pool1d(x, 4), x[..., :x.shape[-1] // 4]
        return (pooled * x, pooled.squeeze(-1), pooled.expand(2, 3, 9), torch.where(x > 0, pooled, x),
                F.interpolate(x, scale_factor=0.25) * x, F.layer_norm(quarter, (1,)),
                torch.arange(x.shape[-1] // 4) + x, pooled + torch.ones(9))
    return of(forward, [(torch.randn(2, 3, n),) for n in (5, 4, 7)], "sizes that have one value over the range of their symbols",
              {"x": {2: Dim("n", min=4, max=7)}})


def refused_over_nothing(forward):
    def make(of):
        calls = [(torch.randn(n, 2),) for n in (5, 3)]
        return of(forward, calls, "refused at a dynamic size of 0", {"x": {0: Dim("n", min=0, max=64)}},
                  bad=[(torch.randn(0, 2),)])
    return make


OVER_NOTHING = {
    "no_maximum": lambda self, x: (x.max(), x.amin(0)),
    "no_argmax": lambda self, x: x.argmax(0),
    "no_median": lambda self, x: x.median(0),
    "no_kthvalue": lambda self, x: x.kthvalue(1, 0),
    "no_infinite_norm": lambda self, x: torch.linalg.vector_norm(x, -INF, dim=0),
    "no_pool": lambda self, x: F.adaptive_avg_pool1d(x.t()[None], 2),
    "no_image": lambda self, x: F.interpolate(x.t()[None], size=3, mode="linear"),
    "no_edge": lambda self, x: F.pad(x.t()[None], (1, 1), mode="replicate"),
    "no_edge_between_sums": lambda self, x: F.pad((x * x.sum(0)).t()[None], (1, 1), mode="replicate").sum(1),
}


def pool_to_nothing(of):
    def forward(self, x):
        return F.adaptive_avg_pool1d(x, 0), F.adaptive_max_pool1d(x, 0), F.adaptive_avg_pool2d(x[None], (0, 2))
    return of(forward, [(torch.randn(2, 3, 4),)], "adaptive pools to a size of 0")


ODD_PLACES = [NAN, INF, -INF, 1e10, -1e10, 3e38, -3e38, 1e5, -1e5, 2.5, -2.5, 0.3]


def grids_of(of, modes, image, grid, alignments=(False, True)):
    """Positions that are no number, infinite or far away."""
    def forward(self, image, grid):
        return [F.grid_sample(image, grid, mode, edge, corners) for mode in modes
                for edge in ("zeros", "border", "reflection") for corners in alignments]
    return of(forward, [(image, grid)], "grid_sample at NaN, infinite and huge positions: " + ", ".join(modes))


def flat_grid():
    return torch.tensor([[x, 0.3] for x in ODD_PLACES] + [[0.3, x] for x in ODD_PLACES]).view(1, 2, 12, 2)


def odd_grids(of):
    return grids_of(of, ("bilinear", "nearest"), torch.randn(1, 2, 4, 5), flat_grid())


def odd_grids_cubic(of):
    return grids_of(of, ("bicubic",), torch.randn(1, 2, 4, 5), flat_grid(), (False,))  # large kernels: three are enough


def odd_grids_deep(of):
    places = torch.tensor([[x, 0.3, 0.1] for x in ODD_PLACES]).view(1, 1, 1, 12, 3)
    return grids_of(of, ("bilinear", "nearest"), torch.randn(1, 2, 3, 4, 5), places)


def odd_complex(of):
    """Quotients, means and powers of infinities. Enough elements that eager computes all of them in vectors."""
    def forward(self, z, w, r):
        return (z.reciprocal(), z / w, z / r, z / 3, z * r, z * 2, torch.stack([z, w]).mean(0), z.pow(-1), z.pow(0.5),
                z.pow(-0.5), z.sqrt(), z.rsqrt())
    values = [0.0, 1.0, -2.0, INF, -INF, NAN, 1e-30, 5.0]
    z = torch.tensor([complex(a, b) for a in values for b in values], dtype=torch.complex64)
    return of(forward, [(z, z.roll(27), z.real.roll(11).contiguous()), (z.roll(9), z, z.imag.contiguous())],
              "complex quotients, products with numbers, means and powers of infinities and NaN")


def odd_complex_powers(of):
    """Powers that are made by way of the logarithm, of numbers that have none."""
    def forward(self, z, w):
        return z.pow(-3), z.pow(2.5), z.pow(-1.5), z.pow(3 + 1j), z.pow(1j), torch.pow(z, w)
    values = [0.0, 1.0, -2.0, INF, -INF, NAN, 0.5, 5.0]
    z = torch.tensor([complex(a, b) for a in values for b in values], dtype=torch.complex64)
    w = torch.tensor([-3, 2.5, 0, 1, 2j, -1 + 1j, 0.5, -0.5] * 8, dtype=torch.complex64)
    return of(forward, [(z, w), (z.roll(9), w)], "complex powers of zeros, infinities and NaN")


def odd_values(of):
    def forward(self, x, h, i, at):
        table = torch.zeros(4, dtype=torch.int64)
        return (torch.heaviside(x, x.new_tensor([5.0])), x.pow(0.5), x.pow(-0.5), x.half().pow(0.5), torch.i0(x),
                torch.special.i1(x), torch.div(h, h.flip(0), rounding_mode="trunc"),
                torch.div(h.bfloat16(), h.bfloat16().flip(0), rounding_mode="trunc"),
                torch.div(h, 3.0, rounding_mode="trunc"), F.max_pool2d(x.view(1, 8, 8), 2, return_indices=True),
                F.adaptive_max_pool1d(x.view(1, 64), 5, return_indices=True),
                table.scatter_reduce(0, at, i, "mean", include_self=False), torch.aminmax(i))
    x = torch.randn(64)
    x[[0, 1, 8, 9, 20, 30, 40]] = torch.tensor([NAN, NAN, NAN, INF, -INF, 0.0, -0.0])
    i = torch.tensor([2**62, 2**62 - 1, -2**62, -2**62 - 3, 2**61 + 7, 2**61, 2**60 + 1, 5])
    return of(forward, [(x, (torch.randn(64) * 100).half(), i, torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]))],
              "NaN, infinities and large integers where eager has a choice of its own")


def one_hot_classes(of):
    calls = [(torch.tensor([[0, 2], [1, 3]]),), (torch.tensor([[3, 3], [0, 0]]),)]
    return of(lambda self, x: F.one_hot(x, 4), calls, "one_hot, and classes that there are not",
              bad=[(torch.tensor([[0, 4], [1, 3]]),), (torch.tensor([[0, -1], [1, 3]]),)])


def bags_of_offsets(of):
    def forward(self, table, ids, starts, ends):
        return (F.embedding_bag(ids, table, starts, mode="sum"), F.embedding_bag(ids, table, starts, mode="mean"),
                F.embedding_bag(ids, table, starts, mode="max"),
                F.embedding_bag(ids, table, ends, mode="sum", include_last_offset=True),
                F.embedding_bag(ids, table, ends, mode="mean", include_last_offset=True),
                F.embedding_bag(ids, table, ends, mode="max", include_last_offset=True))

    def call(starts, ends):
        return torch.randn(5, 3), torch.tensor([0, 4, 2, 1, 3, 0]), torch.tensor(starts), torch.tensor(ends)
    bad = [call([1, 2, 3], [0, 2, 6]), call([0, 2, 7], [0, 2, 6]), call([0, 4, 2], [0, 2, 6]), call([0, 2, 3], [0, 2, 7])]
    return of(forward, [call([0, 2, 2], [0, 3, 6]), call([0, 0, 6], [0, 0, 6])],
              "embedding_bag with all offsets, and offsets that are none", bad=bad)


def bags_of_equal_length(of):
    """A matrix of indices: every bag is a row of it."""
    def forward(self, table, ids, scale):
        options = [{"mode": "sum"}, {"mode": "mean"}, {"mode": "max"}, {"mode": "sum", "padding_idx": 2}, {"mode": "mean", "padding_idx": 2},
                   {"mode": "max", "padding_idx": 2}, {"mode": "sum", "per_sample_weights": scale}]
        return tuple(F.embedding_bag(ids, table, **each) for each in options)

    def call(n):
        return torch.randn(9, 20), torch.randint(0, 9, (n, 3)), torch.rand(n, 3)
    outside, below = call(4), call(4)
    outside[1][2, 1], below[1][3, 2] = 9, -1
    n = Dim("n", min=1, max=64)
    return of(forward, [call(5), call(1), call(33)], "embedding_bag of a matrix of indices",
              {"table": {}, "ids": {0: n}, "scale": {0: n}}, bad=[outside, below])


def bags_with_gradients(of):
    """Where a gradient is wanted, PyTorch gives the sizes of bags in another size."""
    def forward(self, table, ids, ends):
        return tuple(F.embedding_bag(ids, table * self.scale, ends, mode=mode, include_last_offset=True)
                     for mode in ("sum", "mean", "max"))
    made = of(forward, [(torch.randn(5, 3), torch.tensor([0, 4, 2, 1, 3, 0]), torch.tensor([0, 3, 3, 6]))],
              "embedding_bag with all offsets of a table that has a gradient", gradients=True)
    made.module.scale = torch.nn.Parameter(torch.tensor(2.0))
    return made


def bounds_beyond_integers(of):
    def forward(self, b, s, h, i):
        return (b.clamp(max=300), b.clamp(-3, 5), b.clamp_min(-1), F.hardtanh(b, -3, 300), s.clamp(-200, 200), h.clamp(max=40000),
                i.clamp(max=2**32), i.clamp(min=-2**40))
    calls = [(torch.tensor([0, 3, 5, 100, 200, 255], dtype=torch.uint8), torch.tensor([-128, -5, 0, 127], dtype=torch.int8),
              torch.tensor([-2**15, 0, 2**15 - 1], dtype=torch.int16), torch.tensor([-2**31, 0, 2**31 - 1], dtype=torch.int32))]
    return of(forward, calls, "bounds that an integer type does not have")


def variances_far_from_zero(of):
    def forward(self, x):
        return x.var((0, 2)), x.var((0, 1)), x.std((0, 1, 2)), torch.var_mean(x, (1, 2)), x.var(1)
    return of(forward, [(torch.randn(3, 6, 17) + 1e4,)], "variances over several dimensions of numbers near 10,000")


def window_of_minus_infinity(of):
    return of(lambda self, x: F.max_pool2d(x, 2, 2, 1, 2, return_indices=True), [(torch.full((1, 1, 5, 6), -INF),)],
              "the place of a maximum of -inf where the window begins in the padding and has gaps")


def running_and_first_of_equals(of):
    """Equal values, NaN and infinities where a running value or a place is asked for; runs and counts of dense vectors."""
    def forward(self, x, few, n):
        picture = x.view(1, 2, 16, 20)
        return (torch.logcumsumexp(x, 1), torch.logcumsumexp(x, 0), torch.logcumsumexp(few, 0), torch.cummax(x, 1), torch.cummin(x, 0),
                torch.cummax(n, 0), torch.cummin(n, 0), F.max_pool2d(picture, 3, 2, 1, return_indices=True),
                F.max_pool2d(picture, (2, 3), 1, ceil_mode=True, return_indices=True),
                F.adaptive_max_pool2d(picture, (4, 7), return_indices=True),
                torch.unique_consecutive(few, return_inverse=True, return_counts=True), torch.unique_consecutive(n),
                torch.unique_consecutive(n.int(), return_counts=True), torch.unique_consecutive(few.double(), return_inverse=True),
                torch.bincount(n), torch.bincount(n.int(), few, minlength=9), torch.lgamma(x), torch.lgamma(x.double() * 7),
                torch.quantile(few.nan_to_num(), 0.3))

    def call(size):
        x = torch.randint(-3, 3, (16, 40)).float() / 2
        x[0, 3], x[1, 5:9], x[2, 0], x[2, 20], x[3] = NAN, INF, -INF, NAN, -INF
        x[4, 0], x[4, 1], x[5, :4], x[6, 7:] = INF, -INF, -INF, NAN
        few = torch.randint(0, 3, (size,)).float()
        few[:6] = torch.tensor([0.0, -0.0, NAN, NAN, -0.0, 0.0])
        return x, few, torch.randint(0, 3, (size,))
    return of(forward, [call(50), call(50)], "running values, places of maxima and runs of equals, with NaN and infinities")


def rounded_once_for_all(of):
    """A norm of rows of one value, whose mean is the value itself only if both were rounded alike."""
    def forward(self, x, y):
        return F.layer_norm(self.one(x), (1,)) + 1, self.two(y)
    made = of(forward, [(torch.randn(4, 129).bfloat16(), torch.randn(10, 2).bfloat16())],
              "bf16: rows of one value normalised, a product of two terms")
    made.module.one, made.module.two = torch.nn.Linear(129, 1).bfloat16(), torch.nn.Linear(2, 64).bfloat16()
    return made


def one_row_narrow(of):
    """A decoder's step: one row with weights along their columns (packed) and along their terms; a depthwise window."""
    def forward(self, x, y, picture):
        parts = []
        for i, dtype in enumerate((torch.bfloat16, torch.float16)):
            row = torch.addmm(self.shift[i], x.to(dtype), self.columns[i])
            parts += [row, F.gelu(self.rows[i](y.to(dtype))), self.depthwise[i](picture.to(dtype))]
        return tuple(parts)
    made = of(forward, [(torch.randn(1, 160), torch.randn(1, 192), torch.randn(1, 24, 9, 13)) for _ in range(2)],
              "bf16 and f16: products of one row, depthwise windows")
    narrow = (torch.bfloat16, torch.float16)
    made.module.columns = torch.nn.ParameterList([torch.randn(160, 100).to(d) for d in narrow])
    made.module.shift = torch.nn.ParameterList([torch.randn(100).to(d) for d in narrow])
    made.module.rows = torch.nn.ModuleList([torch.nn.Linear(192, 70).to(d) for d in narrow])
    made.module.depthwise = torch.nn.ModuleList([torch.nn.Conv2d(24, 24, 3, padding=1, groups=24).to(d) for d in narrow])
    return made


def smoothed_labels(of):
    def forward(self, x, labels, shares):
        return tuple(F.cross_entropy(x, target, reduction=how, label_smoothing=0.3) for how in ("none", "mean", "sum")
                     for target in (labels, shares))

    def call(n, classes):
        labels = torch.randint(0, classes, (n,))
        labels[1] = -100
        return torch.randn(n, classes), labels, torch.rand(n, classes).softmax(1)
    n, classes = Dim("n", min=2, max=64), Dim("classes", min=2, max=1024)
    return of(forward, [call(4, 7), call(3, 40), call(5, 2)], "cross entropy with label smoothing over a dynamic number of classes",
              {"x": {0: n, 1: classes}, "labels": {0: n}, "shares": {0: n, 1: classes}})


def attention_without_keys(of):
    """Weights over nothing weigh nothing: 0, not the NaN of a division by their sum. Rows of -inf alone stay NaN."""
    def forward(self, q, k, v, wide):
        return torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1) @ v, torch.softmax(wide @ wide.transpose(-1, -2), -1) @ wide

    def call(rows, keys, all_rows):
        k = torch.randn(1, 2, keys, 8)
        if keys > 9:
            k[:, 1] = -INF
        return torch.rand(1, 2, rows, 8), k, torch.randn(1, 2, keys, 8), torch.randn(1, 1, all_rows, 8)
    rows, keys, every = Dim("rows", min=1, max=256), Dim("keys", min=0, max=2048), Dim("every", min=0, max=2048)
    return of(forward, [call(33, 9, 40), call(3, 0, 0), call(40, 0, 300), call(40, 1200, 1)],
              "attention over a number of keys that may be 0",
              {"q": {2: rows}, "k": {2: keys}, "v": {2: keys}, "wide": {2: every}})


def cache_of_two(of):
    def forward(self, x, cache, at):
        new = self.linear(x).reshape(2, 1, 3, 8).transpose(1, 2)
        return cache.index_copy(2, at, new) * 2
    made = of(forward, [(torch.randn(2, 1, 24), torch.randn(2, 3, 16, 8), torch.tensor([n])) for n in (0, 15)],
              "a token of two sequences, put into a cache by the product's kernel")
    made.module.linear = torch.nn.Linear(24, 24)
    return made


def attention_many_keys(of):
    """So many keys that they are taken in parts, of which later ones have higher scores, or none at all."""
    def forward(self, q, k, v, mask):
        scores = q @ k.transpose(-1, -2) * 0.3 + mask
        return torch.softmax(scores, -1) @ v, F.scaled_dot_product_attention(q, k, v, attn_mask=mask > -1)

    def call(keys):
        mask = torch.randn(20, keys)
        mask[0, : keys // 2] = -INF
        mask[3] = -INF
        mask[5] = torch.finfo(torch.float32).min
        mask[7, :-1] = -INF
        mask[8, : keys // 2] = torch.finfo(torch.float32).min
        mask[9, ::2] = -100
        mask[10] *= 300
        mask[11, -1] = NAN
        mask[12], mask[12, 0] = -INF, NAN
        return torch.randn(1, 2, 20, 8), torch.randn(1, 2, keys, 8), torch.randn(1, 2, keys, 8), mask
    keys = Dim("keys", min=2, max=2000)
    return of(forward, [call(n) for n in (600, 517, 40)], "attention in parts, with masks of whole parts and rows",
              {"q": None, "k": {2: keys}, "v": {2: keys}, "mask": {1: keys}})


def keys_that_are_masked_off(of):
    """A mask is added to the scores: what is NaN or infinite stays so. Later keys are not looked at, whatever they hold."""
    def forward(self, q, k, v, mask):
        return (F.scaled_dot_product_attention(q, k, v, attn_mask=mask), F.scaled_dot_product_attention(q, k, v, is_causal=True),
                F.scaled_dot_product_attention(q, k[:, :, :9], v[:, :, :9], attn_mask=mask[:, :9]))

    def call(odd):
        k, mask = torch.randn(1, 2, 24, 8), torch.rand(24, 24) < 0.7
        k[0, 0, 7, 3] = odd
        k[0, 1, 20] = odd
        mask[3] = False
        return torch.randn(1, 2, 24, 8), k, torch.randn(1, 2, 24, 8), mask
    return of(forward, [call(odd) for odd in (NAN, INF, -INF, 1.0)], "attention over keys of NaN and infinities that a mask forbids")


def examples_of_a_part(of):
    """Exported with views of larger tensors: other callers' tensors lie as they like."""
    def forward(self, x, y, z, w):
        return (torch.mode(x).values, x + 1, x.t().contiguous(), y.sum(1, keepdim=True), y * 2, z.flatten(), z.relu(), w + 1, x.sum(0),
                x.expand(2, -1, -1), torch.empty_like(x).fill_(2))

    def call(n, m, part):
        x = torch.arange(n * (2 * m + 1.0)).reshape(n, 2 * m + 1) % 7
        y, z, w = torch.randn(m + 2, n + 3), torch.randn(n, m), torch.randn(n, 1)
        if not part:
            return x[:, 1::2].contiguous(), y[1:-1, 2:-1].contiguous(), z.t().contiguous().t(), w.expand(n, m).contiguous()
        return x[:, 1::2], y[1:-1, 2:-1], z.t().contiguous().t(), w.expand(n, m)
    shapes = {name: {0: Dim.DYNAMIC, 1: Dim.DYNAMIC} for name in "xyzw"}
    return of(forward, [call(5, 17, True), call(9, 6, False), call(6, 9, True)], "inputs exported as parts of others, of any size", shapes)


def modes(of):
    """The place of a mode is where eager's sort leaves the last of the equals."""
    def forward(self, x, i, h, line):
        return (torch.mode(x), torch.mode(i, 0, True), torch.mode(i), torch.mode(h), torch.mode(i.bool()), torch.mode(line),
                torch.mode(x.double(), 1), torch.mode(i.float(), 0))

    def call(rows, columns):
        x = torch.randint(-3, 4, (rows, columns)).float()
        x[0], x[1] = NAN, x[1] * -0.0
        x[2] = torch.randn(columns)
        return x, torch.randint(0, 30, (rows, columns)), torch.randint(0, 9, (columns,)).bfloat16(), torch.randint(0, 5, (40000,))
    rows, columns = Dim("rows", min=3, max=64), Dim("columns", min=2, max=512)
    return of(forward, [call(5, 200), call(9, 17), call(3, 2)], "modes of rows with equals, zeros of both signs and NaN alone",
              {"x": {0: rows, 1: columns}, "i": {0: rows, 1: columns}, "h": {0: columns}, "line": None})


def between_two_ends(of):
    def forward(self, a, b, w):
        return torch.lerp(a, b, w), torch.lerp(a, b, 0.25), torch.lerp(a, b, 1.0), torch.lerp(a, b, 0.0)
    values = torch.tensor([0.0, -0.0, 5.0, -5.0, 1e-45, 3e38, -3e38, INF, NAN, 1.0, 0.5, -1.0, 2.0, 7.0, -7.0, 0.25])
    a, b = values.repeat_interleave(16), values.repeat(16)
    return of(forward, [(a, b, torch.tensor([0.0, 0.25, 0.5, 1.0, -1.0, 1.5, 0.75, 1.0]).repeat(32))],
              "lerp between zeros of both signs, and what is infinite")


def pictures_that_are_infinite_in_parts(of):
    """An interpolation looks at what is within its reach, and at nothing else."""
    def forward(self, x):
        return (F.interpolate(x, (7, 9), mode="bilinear", antialias=True), F.interpolate(x, (40, 10), mode="bicubic", antialias=True),
                F.interpolate(x, (9, 7), mode="bilinear", antialias=True, align_corners=True),
                F.interpolate(x, scale_factor=(0.4, 1.3), mode="bilinear", antialias=True),
                F.interpolate(x, tuple(x.shape[2:]), mode="bilinear"), F.interpolate(x, (20, 41), mode="bilinear"),
                F.interpolate(x[0], (x.shape[3],), mode="linear"))
    x = torch.randn(1, 2, 20, 24)
    x[0, 0, 3, 4], x[0, 0, 15, 20], x[0, 1, 9, 9] = NAN, INF, -INF
    return of(forward, [(x,), (torch.randn(1, 2, 20, 24),)], "interpolation of pictures with NaN and infinities")


def antialiased_at_any_size(of):
    def forward(self, x):
        return (F.interpolate(x, (7, 40), mode="bilinear", antialias=True), F.interpolate(x, scale_factor=0.6, mode="bicubic", antialias=True),
                F.interpolate(x.double(), (12, 5), mode="bicubic", antialias=True))
    height, width = Dim("height", min=4, max=100), Dim("width", min=4, max=100)
    return of(forward, [(torch.randn(1, 2, h, w),) for h, w in ((20, 24), (9, 50), (60, 4))], "antialiased interpolation of a dynamic size",
              {"x": {2: height, 3: width}})


def values_that_nearly_overflow(of):
    """Attention divides by the sum of its weights after it has weighed: what is weighed may be as large as f32 has."""
    def forward(self, q, k, v, mask):
        weights = torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1)
        masked = torch.softmax(q @ k.transpose(-1, -2) * 0.3 + mask, -1)
        narrow = torch.softmax((q @ k.transpose(-1, -2) * 0.3).bfloat16(), -1)
        return weights @ v, masked @ v, narrow @ v.bfloat16()

    def call(keys):
        mask = torch.zeros(33, keys)
        mask[2], mask[3, 5:], mask[4] = -INF, -INF, torch.finfo(torch.float32).min
        return torch.randn(1, 2, 33, 8), torch.randn(1, 2, keys, 8), torch.rand(1, 2, keys, 16) * 1e38 + 1e38, mask
    keys = Dim("keys", min=8, max=4000)
    return of(forward, [call(n) for n in (600, 40, 64)], "attention written by hand over values near the largest number",
              {"q": None, "k": {2: keys}, "v": {2: keys}, "mask": {1: keys}},
              # A GPU adds 600 equal terms one to the other.
              tolerance={"rtol": 4e-6, "atol": 0})


def values_that_nearly_overflow_of_known_keys(of):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1) @ v
    return of(forward, [(torch.randn(2, 40, 8), torch.randn(2, 50, 8), torch.rand(2, 50, 16) * 1e38 + 2e38)],
              "the same with a number of keys that is known")


def means_of_infinities(of):
    def forward(self, x):
        return torch.var_mean(x, 1), torch.std_mean(x, 0), torch.var_mean(x), x.mean(1)
    x = torch.randn(6, 40)
    x[1, 3], x[2, 4], x[3, 5], x[4, 6], x[4, 7] = INF, -INF, NAN, INF, -INF
    return of(forward, [(x,)], "means beside variances of what is infinite in part")


def weights_of_each_sample(of):
    def forward(self, x, w, scales):
        b, c, h, wide = x.shape
        together = x.reshape(1, b * c, h, wide)
        modulated = torch.nn.functional.conv2d(together, (w * scales.view(b, 1, c, 1, 1)).reshape(b * 10, c, 3, 3), padding=1, groups=b)
        turned = (w * scales.view(b, 1, c, 1, 1)).transpose(1, 2).reshape(b * c, 10, 3, 3)
        larger = torch.nn.functional.conv_transpose2d(together, turned, stride=2, groups=b)
        depthwise = torch.nn.functional.conv2d(together, w[:, 0].reshape(b * c, 1, 3, 3), groups=b * c)
        return modulated.reshape(b, 10, h, wide).relu(), larger.reshape(b, 10, 2 * h + 1, 2 * wide + 1), depthwise.reshape(b, c, h - 2, wide - 2)

    def call(b):
        return torch.randn(b, 6, 7, 9), torch.randn(b, 10, 6, 3, 3) * 0.2, torch.rand(b, 6)
    batch = Dim("batch", min=1, max=64)
    return of(forward, [call(n) for n in (3, 1, 8)], "groups of a convolution that depend on a dynamic batch: samples with weights of their own",
              {"x": {0: batch}, "w": {0: batch}, "scales": {0: batch}})


def special_functions_far_out(of):
    """Where a series has too many terms, a distribution next to nothing, a power of two that the type does not hold."""
    def forward(self, x, wide, tiny, exponents, shares):
        s, size = torch.special, wide[1:].abs()
        return (s.polygamma(1, wide), s.polygamma(1, x), s.ndtri(tiny), s.ndtri(tiny.double()), s.i1(wide),
                s.spherical_bessel_j0(x), torch.ldexp(x, exponents), torch.ldexp(wide, exponents * 7),
                torch.ldexp(x, shares), s.gammainc(size, size + size.sqrt()), s.gammaincc(size, size - size.sqrt()),
                s.airy_ai(exponents.clamp(-20, 20) / 4 + 0.125), s.airy_ai(x))
    x = torch.tensor([INF, -INF, NAN, 1e30, -20.25, 0.5, 1e-30, 3e38])
    wide = torch.tensor([INF, -1e12 - 0.5, -1e6 - 0.25, 1e200, 3.5, 1e300, 1e308, 9e18], dtype=torch.float64)
    tiny = torch.tensor([1e-38, 1e-20, 1e-10, 0.3, -1e-20, 0.0, 1.0, 1.5])
    exponents = torch.tensor([3, -3, 0, -200, 5, 128, 200, -260], dtype=torch.int32)
    return of(forward, [(x, wide, tiny, exponents, torch.rand(8))], "special functions of large and of tiny numbers",
              tolerance={"rtol": 2e-6, "atol": 0})


def complex_near_poles(of):
    def forward(self, near, large, turn):
        return (near.log1p(), large.log1p(), near.to(torch.complex128).log1p(), large.asin(), large.acos(), large.asinh(),
                turn.tan(), (turn * 1j).tanh(), turn.sigmoid())
    near = torch.tensor([-1 + 1e-4j, -1 + 1e-2j, -0.9828 + 0.0059j, -1.00527 + 0.02479j, 1e-8 + 1e-9j, 0.3 - 0.2j],
                        dtype=torch.complex64)
    large = torch.tensor([1e18 + 1e18j, 1e19 + 1e19j, -1e20 + 3e19j, 3e38 - 1e38j, -1e25 + 0j, 2 - 3j], dtype=torch.complex64)
    turn = torch.tensor([-1.5093512 + 0.042486j, 1.56906 + 4.6927e-6j, -0.0393725 + 1.6247j, 30 + 2j, -2 - 100j, 0.5j],
                        dtype=torch.complex64)
    return of(forward, [(near, large, turn)], "complex functions near their poles and of large numbers")


def fused_to_large(of):
    """Fused: the product alone overflows."""
    def forward(self, a, b, w):
        return (torch.lerp(a, b, w), torch.lerp(a, b, -0.55), torch.lerp(a.double(), b.double(), w.double()),
                torch.addcmul(b, b, w - 2.2, value=0.5), torch.addcmul(a, a, w), torch.addcmul(a.int(), a.int(), a.int()))
    return of(forward, [(torch.randn(19), torch.full((19,), 3.4028234663852886e38), torch.linspace(-0.8, 1.8, 19))],
              "interpolation and sums of products, near the largest number")


def maxima_of_bags_with_nan(of):
    """A bag's first row that counts stays if it is NaN; later ones are passed over."""
    def forward(self, w, i, flat, offsets):
        return (F.embedding_bag(i, w, mode="max"), F.embedding_bag(i, w, mode="max", padding_idx=1),
                F.embedding_bag(flat, w, offsets, mode="max"))
    w = torch.randn(6, 4)
    w[1, 0], w[4], w[5, 2] = NAN, NAN, -INF
    return of(forward, [(w, torch.randint(0, 6, (9, 4)), torch.randint(0, 6, (14,)), torch.tensor([0, 3, 3, 4, 9])),
                        (w, torch.tensor([[0, 1, 2, 3], [1, 0, 2, 3], [1, 4, 0, 2]] * 3), torch.randint(0, 6, (14,)),
                         torch.tensor([0, 1, 5, 9, 14]))], "maxima of bags with NaN in some rows")


def reductions_down(of):
    """Every reduction of every kind of number over a dimension that is not the last, of more columns than lanes."""
    def forward(self, x, whole, small, flags, half, wide, turning):
        high = x > 0
        results = [high.sum(0), high.sum(1), flags.sum(1), torch.count_nonzero(x, dim=0), x.isnan().sum(1), high.float().mean(0)]
        for t in (x, whole, small, flags, half, wide, turning):
            results += [t.sum(0), t.sum(1), t.reshape(-1, 66).sum(0)]
        for t in (x, whole, small, half, wide):
            results += [t.amax(0), t.amin(1), t.argmax(1), t.cumsum(1)[:, -1]]
        results += [t.mean(1) for t in (x, half, wide, turning)] + [t.var(1) for t in (x, wide)]
        results += [(whole % 3).prod(1), (x * 0.1 + 1).prod(1), flags.any(1), flags.all(0), torch.logsumexp(x, 1),
                    torch.stack(torch.var_mean(x, 1), -1), torch.complex(x.sum(1), wide.float().sum(1)), (turning * 2j).sum(1)]
        return results

    def call():
        whole = torch.randint(-50, 50, (2, 24, 66))
        return (torch.randn(2, 24, 66), whole, whole.to(torch.uint8), torch.rand(2, 24, 66) > 0.3, torch.randn(2, 24, 66).bfloat16(),
                torch.randn(2, 24, 66).double(), torch.randn(2, 24, 66, dtype=torch.complex64))
    return of(forward, [call()], "reductions of all kinds of numbers over the first and a middle dimension")


def places_looked_up_beside_products(of):
    """Scores plus a bias that a table has for each row and column (WavLM, T5): the lookup is in the product's kernel."""
    def forward(self, q, k, v, table, at, far):
        bias = torch.nn.functional.embedding(at, table)[:, :, :3].permute(2, 0, 1).unsqueeze(0).repeat(1, 1, 1, 1).view(3, 49, 49)
        scores = torch.baddbmm(q[:, :, :1] * bias, q, k.transpose(1, 2))
        rows = q[0] @ k[0].t() + table[:, 0][at - 160]
        columns = (q[0] @ table[far].t()).relu() + k[0, :, 0][far]
        again = torch.baddbmm(k[:, :, 1:2] * bias, k, q.transpose(1, 2)).softmax(-1) @ v
        return scores.softmax(-1) @ v, rows, columns, again

    def call():
        return (torch.randn(3, 49, 64), torch.randn(3, 49, 64), torch.randn(3, 49, 64), torch.randn(320, 64)[:, :64],
                torch.randint(0, 320, (49, 49)), torch.randint(-49, 49, (49,)))
    return of(forward, [call()], "products beside lookups of a place for each row and column")


def add_cases(case, of):
    def add(name, make):
        def made():
            return make(of)
        made.__name__ = name
        case(made)
    for make in (narrow_float_steps, sizes_of_nothing, sizes_of_one_value, pool_to_nothing, odd_grids, odd_grids_cubic, odd_grids_deep,
                 odd_complex, odd_complex_powers, odd_values, one_hot_classes, bags_of_offsets, bags_of_equal_length,
                 bags_with_gradients, bounds_beyond_integers, variances_far_from_zero, window_of_minus_infinity,
                 running_and_first_of_equals, rounded_once_for_all, one_row_narrow, smoothed_labels, attention_without_keys, attention_many_keys,
                 cache_of_two, keys_that_are_masked_off, examples_of_a_part, modes, between_two_ends,
                 pictures_that_are_infinite_in_parts, antialiased_at_any_size,
                 values_that_nearly_overflow, values_that_nearly_overflow_of_known_keys,
                 means_of_infinities, weights_of_each_sample, special_functions_far_out, complex_near_poles,
                 fused_to_large, maxima_of_bags_with_nan, reductions_down,
                 places_looked_up_beside_products):
        add(make.__name__, make)
    for name, forward in OVER_NOTHING.items():
        add(name, refused_over_nothing(forward))
