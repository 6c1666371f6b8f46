"""Cases of convolutions in their surroundings: layouts, padding, groups, residuals, pooling, odd sizes.

Listed by generate_cases.py.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.export import Dim


class Picture(nn.Module):
    """A convolutional network in small: stem, depthwise, 1x1, residual, strided, pooled, classified."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 20, 5, stride=2, padding=2, bias=False)
        self.norm = nn.BatchNorm2d(20)
        self.depthwise = nn.Conv2d(20, 20, 3, padding=1, groups=20)
        self.wide = nn.Conv2d(20, 40, 1)
        self.back = nn.Conv2d(40, 20, 3, padding=2, dilation=2)
        self.down = nn.Conv2d(20, 33, 3, stride=2, padding=1)
        self.head = nn.Linear(33, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        y = F.hardswish(self.wide(F.max_pool2d(self.depthwise(x), 3, 1, 1)))
        x = F.relu(x + self.back(y))
        x = self.down(x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), x


class Groups(nn.Module):
    """Groups, transposed, one and three dimensions; results the user sees in the order of the export."""

    def __init__(self):
        super().__init__()
        self.grouped = nn.Conv2d(12, 18, 3, padding=1, groups=3)
        self.up = nn.ConvTranspose2d(18, 16, 4, stride=2, padding=1)
        self.line = nn.Conv1d(16, 24, 3, padding=1)
        self.space = nn.Conv3d(2, 9, (2, 3, 3), padding=(0, 1, 1))

    def forward(self, x, z):
        x = self.up(torch.tanh(self.grouped(x)))
        return x, self.line(x.mean(3)), torch.sigmoid(self.space(z))


class ChannelsLast(nn.Module):
    """Normalised over channels between convolutions, as ConvNeXt does: permuted views on both sides."""

    def __init__(self):
        super().__init__()
        self.depthwise = nn.Conv2d(24, 24, 7, padding=3, groups=24)
        self.norm = nn.LayerNorm(24)
        self.wide, self.back = nn.Linear(24, 48), nn.Linear(48, 24)
        self.down = nn.Conv2d(24, 32, 2, stride=2)

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.back(F.gelu(self.wide(y))).permute(0, 3, 1, 2)
        return self.down(x + y)


class Windows(nn.Module):
    """Windows of 3 by 3 over many channels, which take fewer multiplications: padding on all, on some and on no sides,
    a residual, odd sizes."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.Conv2d(32, 32, 3, padding=1)
        self.norm = nn.BatchNorm2d(32)
        self.uneven, self.inner = nn.Conv2d(32, 48, 3, padding=(0, 2)), nn.Conv2d(48, 32, 3)

    def forward(self, x):
        y = F.relu(self.norm(self.first(x)))
        x = F.relu(x + self.second(y))
        x = F.hardswish(self.uneven(F.pad(x, (0, 1, 2, 0))))
        return self.inner(x), x


class Atrous(nn.Module):
    """Windows whose far places see little of the picture, or nothing, and norms over groups of their channels."""

    def __init__(self):
        super().__init__()
        self.some = nn.Conv2d(24, 32, 3, padding=8, dilation=8, bias=False)
        self.none = nn.Conv2d(24, 32, 3, padding=20, dilation=20)
        self.uneven = nn.Conv2d(24, 32, (3, 5), padding=(15, 2), dilation=(15, 1))
        self.strided = nn.Conv2d(32, 16, 3, stride=2, padding=7, dilation=7)
        self.one, self.four = nn.GroupNorm(1, 96), nn.GroupNorm(4, 96)

    def forward(self, x):
        y = self.one(torch.cat([self.some(x), self.none(x), self.uneven(x)], 1))
        y = self.four(F.relu(y))
        return self.strided(y[:, :32]), y


class FewResults(nn.Module):
    """What makes pictures ends with windows of many channels and few results."""

    def __init__(self):
        super().__init__()
        self.up, self.colours = nn.ConvTranspose2d(24, 3, 4, stride=2, padding=1), nn.Conv2d(24, 3, 3, padding=1)
        self.mask = torch.nn.utils.parametrizations.weight_norm(nn.Conv1d(24, 1, 5, padding=2))

    def forward(self, x):
        return torch.tanh(self.up(x)), self.colours(x), self.mask(x.mean(2))


class Norms(nn.Module):
    """Norms over groups of few channels, which are neighbours in memory between convolutions."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(6, 48, 3, padding=1)
        self.uneven, self.pairs, self.each = nn.GroupNorm(8, 48), nn.GroupNorm(24, 48), nn.InstanceNorm2d(48)
        self.second, self.third = nn.Conv2d(48, 48, 3, padding=1), nn.Conv2d(48, 48, 1)
        self.last = nn.Conv2d(48, 4, 3, stride=3)
        for norm in (self.uneven, self.pairs):
            nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)

    def forward(self, x):
        x = self.first(x)
        y = self.second(F.silu(self.uneven(x)))
        return self.last(self.each(self.third(F.relu(self.pairs(x + y)))))


class AnySize(nn.Module):
    """Windows of all kinds over pictures of any height and width: over colours, depthwise, over few channels and over
    many, pools, and results as large as the picture."""

    def __init__(self):
        super().__init__()
        self.stem, self.pool = nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.MaxPool2d(3, 2, 1)
        self.wide, self.apart = nn.Conv2d(32, 32, 5, padding=2, groups=32), nn.Conv2d(32, 32, 3, 2, 1, groups=32)
        self.uneven = nn.Conv2d(32, 32, 3, padding=(0, 2), dilation=(1, 2), groups=32)
        self.first, self.second = nn.Conv2d(32, 64, 3, padding=1), nn.Conv2d(64, 32, 3, padding=2, dilation=2)
        self.few, self.colours = nn.Conv2d(32, 16, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x):
        small = F.hardswish(self.stem(x))
        y = self.uneven(F.pad(F.relu(self.wide(small)), (0, 0, 2, 0)))
        y = F.relu(self.second(F.relu(self.first(y + small))) + y)
        y = F.interpolate(self.few(y), size=x.shape[-2:], mode="bilinear")
        return self.colours(y), self.apart(self.pool(small))


class Corners(nn.Module):
    """Pictures of one point and of one column under windows with padding, and factors that are not quite 1 or 2."""

    def __init__(self):
        super().__init__()
        self.wide, self.point = nn.Conv2d(16, 8, (1, 3), padding=(0, 3)), nn.Conv2d(6, 8, 3, padding=2)
        self.line = nn.Conv1d(16, 16, 3, padding=2)

    def forward(self, column, point, picture):
        made = [F.interpolate(picture, scale_factor=factor, mode="nearest") for factor in (1.3, 2.2, 1.7)]
        return self.wide(column), self.point(point), self.line(column[:, :, :, 0][:, :, :1]), *made


class Shuffled(nn.Module):
    """Channels that are shuffled between convolutions, wide groups, a picture that becomes rows of tokens."""

    def __init__(self):
        super().__init__()
        self.first, self.halves = nn.Conv2d(4, 48, 3, padding=1), nn.Conv2d(24, 24, 1)
        self.apart, self.wide = nn.Conv2d(48, 48, 3, 2, 1, groups=48), nn.Conv2d(48, 48, 3, padding=1, groups=3)
        self.pairs, self.out = nn.Conv2d(48, 48, 1, groups=4), nn.Linear(48, 5)

    @staticmethod
    def shuffle(x, groups):
        return x.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)

    def forward(self, x):
        kept, x = self.shuffle(self.first(x), 2).chunk(2, 1)
        x = torch.cat([kept, F.relu(self.halves(x))], 1)
        small = self.apart(self.shuffle(x, 2))
        x = self.wide(F.relu(self.shuffle(self.pairs(x), 4)))
        return self.out(F.gelu(x.flatten(2).transpose(1, 2))), small, F.pixel_shuffle(small, 2)


def settled(module):
    """With statistics that are not those of a fresh norm."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.copy_(torch.randn_like(part.running_mean) * 0.2)
            part.running_var.copy_(torch.rand_like(part.running_var) + 0.5)
    return module.eval()


def add_cases(case, Case, randn):
    @case
    def picture():
        batch = Dim("batch", min=1, max=8)
        return Case(settled(Picture()), [(randn(2, 3, 29, 31),), (randn(1, 3, 29, 31),), (randn(3, 3, 29, 31),)],
                    "convolutions, pooling and residuals with a dynamic batch", {"x": {0: batch}})

    @case
    def picture_groups():
        return Case(Groups().eval(), [(randn(2, 12, 9, 7), randn(1, 2, 4, 6, 5))],
                    "grouped, transposed, one- and three-dimensional convolutions")

    @case
    def picture_channels_last():
        high, wide = Dim("high", min=2, max=64), Dim("wide", min=2, max=64)
        return Case(ChannelsLast().eval(), [(randn(1, 24, 10, 12),), (randn(1, 24, 8, 6),)],
                    "norms over channels between convolutions, dynamic height and width",
                    {"x": {2: 2 * high, 3: 2 * wide}})

    @case
    def picture_windows():
        return Case(settled(Windows()), [(randn(2, 32, 21, 18),)], "windows of 3 by 3 over many channels")

    @case
    def picture_atrous():
        return Case(Atrous().eval(), [(randn(2, 24, 14, 11),)],
                    "windows wider than the picture, norms over groups of channels")

    @case
    def picture_few_results():
        batch = Dim("batch", min=1, max=8)
        return Case(FewResults().eval(), [(randn(2, 24, 9, 13),), (randn(1, 24, 9, 13),)],
                    "convolutions of few results, plain, transposed and with computed weights", {"x": {0: batch}})

    @case
    def picture_norms():
        batch = Dim("batch", min=1, max=8)
        return Case(Norms().eval(), [(randn(2, 6, 27, 29),), (randn(1, 6, 27, 29),), (randn(3, 6, 27, 29),)],
                    "norms over groups of few channels between convolutions", {"x": {0: batch}})

    @case
    def picture_any_size():
        high, wide = Dim("high", min=9, max=300), Dim("wide", min=9, max=300)
        sizes = [(40, 36), (9, 9), (10, 31), (33, 9), (17, 64), (57, 130)]
        return Case(settled(AnySize()), [(randn(1, 3, *size),) for size in sizes],
                    "windows of all kinds, dynamic height and width", {"x": {2: high, 3: wide}})

    @case
    def picture_corners():
        return Case(Corners().eval(), [(randn(2, 16, 2, 1), randn(1, 6, 1, 1), randn(1, 2, 3, 4))],
                    "windows over single points and columns, factors near whole ones")

    @case
    def picture_shuffled():
        return Case(Shuffled().eval(), [(randn(1, 4, 19, 18),)], "shuffled channels, wide groups, pictures as rows of tokens")
