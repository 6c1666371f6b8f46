"""Models of real_models.py written with plain PyTorch: what people build themselves and export."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from real_models_list import Example, image, model

AUTO = Dim.AUTO


class Block(nn.Module):
    """A residual block of a diffusion network: two convolutions, scaled and shifted by the time."""

    def __init__(self, before, after, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, before), nn.Conv2d(before, after, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(4, after), nn.Conv2d(after, after, 3, padding=1)
        self.time = nn.Linear(time, 2 * after)
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x, time):
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, 1)
        y = self.norm2(self.conv1(F.silu(self.norm1(x)))) * (1 + scale) + shift
        return self.skip(x) + self.conv2(F.silu(y))


class CrossAttention(nn.Module):
    def __init__(self, channels, context):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.q, self.kv = nn.Linear(channels, channels, bias=False), nn.Linear(context, 2 * channels, bias=False)
        self.out = nn.Linear(channels, channels)

    def forward(self, x, context):
        b, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = (z.unflatten(-1, (4, -1)).transpose(1, 2) for z in (self.q(y), *self.kv(context).chunk(2, -1)))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(y).transpose(1, 2).reshape(b, c, h, w)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 32))
        self.first, self.down = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(16, 32, 3, 2, 1)
        self.block1, self.block2, self.block3 = Block(16, 16, 32), Block(32, 32, 32), Block(32, 16, 32)
        self.attention, self.up, self.last = CrossAttention(32, 24), nn.Conv2d(32, 16, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x, step, context):
        angle = step[:, None].float() * torch.exp(-torch.arange(16) * 0.6)
        time = self.time(torch.cat([angle.sin(), angle.cos()], -1))
        high = self.block1(self.first(x), time)
        low = self.attention(self.block2(self.down(high), time), context)
        low = self.up(F.interpolate(low, scale_factor=2.0, mode="nearest"))
        return self.last(F.silu(self.block3(torch.cat([low, high], 1), time)))


@model("torch/diffusion_unet", "diffusion")
def diffusion_unet():
    def inputs(batch, height, width):
        return torch.randn(batch, 4, height, width), torch.randint(0, 1000, (batch,)), torch.randn(batch, 7, 24)
    return Example(UNet(), inputs(2, 16, 16), dynamic_shapes=({0: AUTO, 2: AUTO, 3: AUTO}, {0: AUTO}, {0: AUTO}),
                   other_calls=[(inputs(3, 24, 32), {})])


@model("torch/vae", "diffusion")
def vae():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.SiLU(), nn.Conv2d(16, 8, 3, 2, 1))
            self.decode = nn.Sequential(nn.ConvTranspose2d(4, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.GELU("tanh"),
                                        nn.Upsample(scale_factor=2, mode="bilinear"),
                                        nn.Conv2d(16, 3, 3, padding=1, padding_mode="reflect"), nn.Tanh())

        def forward(self, x):
            mean, log = self.encode(x).chunk(2, 1)
            log = log.clamp(-30, 20)
            return self.decode(mean + torch.exp(0.5 * log) * 0.3), 0.5 * (mean.pow(2) + log.exp() - 1 - log).sum((1, 2, 3))
    return Example(Net(), (image(32, 2),), dynamic_shapes=({0: AUTO, 2: AUTO, 3: AUTO},), other_calls=[((torch.randn(3, 3, 48, 64),), {})])


@model("torch/graph_attention", "graph network")
def graph_attention():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.score, self.update, self.out = nn.Linear(8, 16), nn.Linear(32, 1), nn.GRUCell(16, 16), nn.Linear(16, 3)

        def forward(self, x, edges, graph):
            h, (source, target) = self.embed(x), edges
            score = F.leaky_relu(self.score(torch.cat([h[source], h[target]], -1)), 0.2)
            most = torch.full((x.shape[0], 1), float("-inf")).scatter_reduce(0, target[:, None], score, "amax")
            weight = (score - most[target]).exp()
            total = torch.zeros(x.shape[0], 1).index_add(0, target, weight)
            message = torch.zeros_like(h).scatter_add(0, target[:, None].expand(-1, 16), h[source] * (weight / total[target]))
            return self.out(torch.zeros(2, 16).index_add_(0, graph, self.update(message, h)))

    def inputs(nodes, edges):
        target = torch.cat([torch.arange(nodes), torch.randint(0, nodes, (edges - nodes,))])
        return torch.randn(nodes, 8), torch.stack([torch.randint(0, nodes, (edges,)), target]), torch.arange(nodes) % 2
    return Example(Net(), inputs(6, 14), dynamic_shapes=({0: AUTO}, {1: AUTO}, {0: AUTO}), other_calls=[(inputs(9, 25), {})])


@model("torch/conformer", "speech")
def conformer():
    class Net(nn.Module):
        def __init__(self, width=32):
            super().__init__()
            self.window = nn.Parameter(torch.hann_window(32), False)
            self.project, self.norm1, self.norm2, self.norm3 = nn.Linear(17, width), *(nn.LayerNorm(width) for _ in range(3))
            self.forward1, self.forward2 = (nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.SiLU(), nn.Linear(64, width))
                                            for _ in range(2))
            self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
            self.widen, self.narrow = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
            self.depthwise, self.batch_norm = nn.Conv1d(width, width, 7, padding=3, groups=width), nn.BatchNorm1d(width)

        def forward(self, wave, lengths):
            power = torch.stft(wave, 32, 16, window=self.window, return_complex=True).abs().pow(2).transpose(1, 2)
            x = self.project(torch.log(power + 1e-5))
            padding = torch.arange(x.shape[1])[None] >= lengths[:, None]
            x = x + 0.5 * self.forward1(x)
            y = self.norm1(x)
            x = x + self.attention(y, y, y, key_padding_mask=padding, need_weights=False)[0]
            y = F.glu(self.widen(self.norm2(x).transpose(1, 2)), 1)
            x = x + self.narrow(F.silu(self.batch_norm(self.depthwise(y)))).transpose(1, 2)
            return self.norm3(x + 0.5 * self.forward2(x)).masked_fill(padding[..., None], 0)

    def inputs(batch, length):
        return torch.randn(batch, length), torch.tensor([length // 16 + 1] * (batch - 1) + [length // 32])
    return Example(Net(), inputs(2, 320), dynamic_shapes=({0: AUTO, 1: AUTO}, {0: AUTO}), other_calls=[(inputs(3, 480), {})])


@model("torch/kv_cache", "decoder")
def kv_cache():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.qkv, self.out = nn.Embedding(64, 32), nn.Linear(32, 96), nn.Linear(32, 64)
            self.register_buffer("keys", torch.zeros(1, 4, 16, 8))
            self.register_buffer("values", torch.zeros(1, 4, 16, 8))
            self.register_buffer("seen", torch.zeros(1, dtype=torch.int64))

        def forward(self, ids, position):
            q, k, v = self.qkv(self.embed(ids)).view(1, -1, 3, 4, 8).permute(2, 0, 3, 1, 4)
            self.keys[:, :, position] = k
            self.values.index_copy_(2, position, v)
            self.seen.add_(ids.shape[1])
            mask = torch.arange(16)[None, None, None] <= position[None, None, :, None]
            return self.out(F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask).transpose(1, 2).flatten(2))
    return Example(Net(), (torch.randint(0, 64, (1, 4)), torch.arange(4)), dynamic_shapes=({1: AUTO}, {0: AUTO}),
                   other_calls=[((torch.randint(0, 64, (1, 7)), torch.arange(7)), {})])


@model("torch/experts", "experts")
def experts():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(16, 4)
            self.up, self.down = nn.Parameter(torch.randn(4, 16, 32) * 0.1), nn.Parameter(torch.randn(4, 32, 16) * 0.1)

        def forward(self, x):
            weight, chosen = self.gate(x).softmax(-1).topk(2, -1)
            hit, out = F.one_hot(chosen, 4).permute(2, 1, 0), torch.zeros_like(x)
            for expert in range(4):
                rank, token = torch.where(hit[expert])
                out.index_add_(0, token, (F.silu(x[token] @ self.up[expert]) @ self.down[expert]) * weight[token, rank, None])
            return out
    return Example(Net(), (torch.randn(10, 16),), dynamic_shapes=({0: AUTO},), other_calls=[((torch.randn(17, 16),), {})])


@model("torch/point_cloud", "point cloud")
def point_cloud():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.shared = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1))
            self.near, self.out = nn.Linear(6, 8), nn.Linear(32, 5)

        def forward(self, x):
            nearest = torch.cdist(x, x).topk(4, largest=False).indices
            around = torch.gather(x[:, None].expand(-1, x.shape[1], -1, -1), 2, nearest[..., None].expand(-1, -1, -1, 3))
            local = self.near(torch.cat([around - x[:, :, None], around], -1)).relu().max(2).values
            return self.out(self.shared(x.transpose(1, 2)).amax(-1)).log_softmax(-1), local
    return Example(Net(), (torch.randn(2, 20, 3),), dynamic_shapes=({0: AUTO, 1: AUTO},), other_calls=[((torch.randn(3, 24, 3),), {})])


@model("torch/radiance_field", "rendering")
def radiance_field():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.field = nn.Sequential(nn.Linear(39, 32), nn.ReLU(inplace=True), nn.Linear(32, 4))

        def forward(self, origin, direction):
            t = torch.linspace(2, 6, 16)
            point = origin[:, None] + direction[:, None] * t[:, None]
            angle = (point[..., None] * 2.0 ** torch.arange(6)).flatten(-2)
            raw = self.field(torch.cat([point, angle.sin(), angle.cos()], -1))
            opaque = 1 - torch.exp(-F.softplus(raw[..., 3]) * torch.cat([t[1:] - t[:-1], torch.tensor([1e10])]))
            through = torch.cumprod(torch.cat([torch.ones_like(opaque[:, :1]), 1 - opaque + 1e-10], -1), -1)[:, :-1]
            return ((opaque * through)[..., None] * raw[..., :3].sigmoid()).sum(1)

    def inputs(rays):
        return torch.randn(rays, 3), F.normalize(torch.randn(rays, 3), dim=-1)
    return Example(Net(), inputs(5), dynamic_shapes=({0: AUTO}, {0: AUTO}), other_calls=[(inputs(9), {})])


@model("torch/transformer", "encoder-decoder")
def transformer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Transformer(32, 4, 2, 2, 64, batch_first=True)

        def forward(self, source, target):
            mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
            return self.net(source, target, tgt_mask=mask, tgt_is_causal=True)
    return Example(Net(), (torch.randn(2, 9, 32), torch.randn(2, 7, 32)), dynamic_shapes=({0: AUTO, 1: AUTO}, {0: AUTO, 1: AUTO}),
                   other_calls=[((torch.randn(3, 12, 32), torch.randn(3, 5, 32)), {})])


@model("torch/recurrent", "speech")
def recurrent():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 16, 2, bidirectional=True, proj_size=6, batch_first=True)
            self.gru, self.rnn = nn.GRU(12, 10, 2, bidirectional=True), nn.RNN(20, 7, nonlinearity="relu")

        def forward(self, x):
            y, (h, c) = self.lstm(x)
            z, last = self.gru(y.transpose(0, 1))
            return y, h, c, last, *self.rnn(z)
    return Example(Net(), (torch.randn(2, 9, 8),), dynamic_shapes=({0: AUTO},), other_calls=[((torch.randn(4, 9, 8),), {})])


@model("torch/coupling_flow", "density")
def coupling_flow():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.nets = nn.ModuleList([nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 8)) for _ in range(3)])
            self.mix = nn.Parameter(torch.linalg.qr(torch.randn(8, 8))[0])

        def forward(self, x):
            log = torch.zeros(x.shape[0])
            for net in self.nets:
                x = x @ self.mix
                log = log + torch.linalg.slogdet(self.mix)[1]
                left, right = x.chunk(2, 1)
                scale, shift = net(left).chunk(2, 1)
                scale = 2 * torch.tanh(scale)
                log, x = log + scale.sum(1), torch.cat([right * scale.exp() + shift, left], 1)
            return log - 0.5 * x.square().sum(1), torch.linalg.inv(self.mix) @ x.T
    return Example(Net(), (torch.randn(4, 8),), dynamic_shapes=({0: AUTO},), other_calls=[((torch.randn(7, 8),), {})])
