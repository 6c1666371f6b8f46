"""More models of bench/other_models.py: one or two of each family that people ship and that other_list.py does not have."""
import torch
from torch import nn
from torch.nn import functional as F

from other_list import MODELS, Picked, film, picture, plain, text_model, timm_model, torchvision_model

# ---- Pictures ----

for name in ("vit_b_32", "efficientnet_b2", "regnet_x_400mf", "regnet_y_1_6gf", "shufflenet_v2_x0_5", "shufflenet_v2_x2_0", "resnet34",
             "wide_resnet50_2", "densenet169", "mnasnet0_5"):
    torchvision_model(name)
film("r2plus1d_18", 8, 112)
film("mc3_18", 8, 112)
film("swin3d_t", 8, 112)

for name in ("repvit_m0_9", "lcnet_100", "tinynet_d", "hardcorenas_a", "selecsls42b", "dla34", "cspresnext50", "ese_vovnet19b_dw",
             "legacy_xception", "inception_v4", "skresnet18", "resnetv2_50x1_bit", "seresnext26d_32x4d", "nf_regnet_b0", "eca_nfnet_l0",
             "coatnet_0_rw_224", "davit_tiny", "beit_base_patch16_224", "eva02_tiny_patch14_224", "hiera_tiny_224",
             "convmixer_1024_20_ks9_p14", "ghostnetv2_100", "mobilevitv2_100", "efficientformer_l1", "volo_d1_224", "twins_pcpvt_small",
             "twins_svt_small", "nest_tiny", "crossvit_tiny_240", "cait_xxs24_224", "coat_lite_tiny", "convit_tiny", "visformer_tiny",
             "pit_ti_224", "sequencer2d_s", "focalnet_tiny_srf", "inception_next_tiny", "mambaout_femto", "starnet_s1", "rdnet_tiny",
             "gcvit_xxtiny", "hgnetv2_b0", "repghostnet_100", "mixnet_s", "fbnetc_100", "rexnet_100", "resnext26ts", "botnet26t_256",
             "halonet26t", "regnetz_b16", "fastvit_sa12", "swiftformer_xs", "efficientvit_b0", "efficientvit_m0", "resmlp_12_224", "shvit_s1",
             "mvitv2_tiny", "tf_efficientnetv2_b0", "vit_small_patch16_224", "resnet26d", "mobilenetv4_hybrid_medium"):
    timm_model(name)


def whole(name, make_module, *shapes):
    """A module of a library and the shapes of what it takes; where it returns several tensors, the first."""
    def make():
        return First(make_module()), tuple(torch.randn(*shape) for shape in shapes), None
    MODELS[name] = make


class First(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args):
        out = self.inner(*args)
        while not isinstance(out, torch.Tensor):
            out = next(iter(out.values())) if isinstance(out, dict) else out[0]
        return out


def pyramid():
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
    return resnet_fpn_backbone(backbone_name="resnet18", weights=None)


class Boxes(nn.Module):
    """What a detector of one stage computes before its boxes are sorted out."""

    def __init__(self, detector):
        super().__init__()
        self.backbone, self.head = detector.backbone, detector.head

    def forward(self, x):
        levels = self.backbone(x)
        out = self.head(list(levels.values()) if isinstance(levels, dict) else [levels])
        return torch.cat([value.flatten(1) for value in out.values()], 1)


def detector(name, **options):
    def make():
        import torchvision
        return Boxes(getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None, **options))
    return make


whole("detection/pyramid", pyramid, (1, 3, 320, 320))
whole("detection/ssdlite320", detector("ssdlite320_mobilenet_v3_large"), (1, 3, 320, 320))
whole("detection/retinanet", detector("retinanet_resnet50_fpn"), (1, 3, 256, 256))
whole("detection/fcos", detector("fcos_resnet50_fpn"), (1, 3, 256, 256))


def lraspp():
    import torchvision
    return torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None)


whole("segmentation/lraspp_mobilenet_v3_large", lraspp, (1, 3, 256, 256))


class Unit(nn.Sequential):
    """A window, its norm, an activation."""

    def __init__(self, inputs, outputs, size=1, stride=1, groups=1, act=nn.SiLU):
        super().__init__(nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs),
                         *([act()] if act else []))


class Halves(nn.Module):
    """The block of recent YOLOs: halves that pass some windows, all joined in the end."""

    def __init__(self, inputs, outputs, count, shortcut=True):
        super().__init__()
        self.into, self.out, self.shortcut = Unit(inputs, outputs), Unit((2 + count) * outputs // 2, outputs), shortcut
        self.blocks = nn.ModuleList([nn.Sequential(Unit(outputs // 2, outputs // 2, 3), Unit(outputs // 2, outputs // 2, 3))
                                     for _ in range(count)])

    def forward(self, x):
        parts = list(self.into(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]) + parts[-1] if self.shortcut else block(parts[-1]))
        return self.out(torch.cat(parts, 1))


class Pooled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.into, self.out = Unit(width, width // 2), Unit(2 * width, width)

    def forward(self, x):
        parts = [self.into(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.out(torch.cat(parts, 1))


class Yolo(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.first = nn.Sequential(Unit(3, w, 3, 2), Unit(w, 2 * w, 3, 2), Halves(2 * w, 2 * w, 1), Unit(2 * w, 4 * w, 3, 2), Halves(4 * w, 4 * w, 2))
        self.second = nn.Sequential(Unit(4 * w, 8 * w, 3, 2), Halves(8 * w, 8 * w, 2))
        self.third = nn.Sequential(Unit(8 * w, 16 * w, 3, 2), Halves(16 * w, 16 * w, 1), Pooled(16 * w))
        self.up = nn.ModuleList([Halves(24 * w, 8 * w, 1, False), Halves(12 * w, 4 * w, 1, False)])
        self.down = nn.ModuleList([Unit(4 * w, 4 * w, 3, 2), Unit(8 * w, 8 * w, 3, 2)])
        self.join = nn.ModuleList([Halves(12 * w, 8 * w, 1, False), Halves(24 * w, 16 * w, 1, False)])
        self.boxes = nn.ModuleList([nn.Sequential(Unit(k * w, 64, 3), Unit(64, 64, 3), nn.Conv2d(64, 64, 1)) for k in (4, 8, 16)])
        self.classes = nn.ModuleList([nn.Sequential(Unit(k * w, 80, 3), Unit(80, 80, 3), nn.Conv2d(80, 80, 1)) for k in (4, 8, 16)])

    def forward(self, x):
        a = self.first(x)
        b = self.second(a)
        c = self.third(b)
        b = self.up[0](torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        a = self.up[1](torch.cat([F.interpolate(b, scale_factor=2.0), a], 1))
        b = self.join[0](torch.cat([self.down[0](a), b], 1))
        c = self.join[1](torch.cat([self.down[1](b), c], 1))
        out = torch.cat([torch.cat([box(y), cls(y)], 1).flatten(2) for box, cls, y in zip(self.boxes, self.classes, (a, b, c))], 2)
        boxes, scores = out.split((64, 80), 1)
        far = boxes.view(1, 4, 16, -1).softmax(2).mul(torch.arange(16.0).view(1, 1, 16, 1)).sum(2)
        return torch.cat([far, scores.sigmoid()], 1)


@plain("yolo")
def yolo():
    return Yolo(), (torch.randn(1, 3, 320, 320),)


class Styled(nn.Module):
    """Pictures in another style: norms of single pictures, edges reflected."""

    def __init__(self):
        super().__init__()

        def unit(inputs, outputs, size, stride=1):
            return [nn.ReflectionPad2d(size // 2), nn.Conv2d(inputs, outputs, size, stride), nn.InstanceNorm2d(outputs, affine=True)]
        self.into = nn.Sequential(*unit(3, 32, 9), nn.ReLU(), *unit(32, 64, 3, 2), nn.ReLU(), *unit(64, 128, 3, 2), nn.ReLU())
        self.blocks = nn.ModuleList([nn.Sequential(*unit(128, 128, 3), nn.ReLU(), *unit(128, 128, 3)) for _ in range(5)])
        self.out = nn.Sequential(nn.Upsample(scale_factor=2), *unit(128, 64, 3), nn.ReLU(), nn.Upsample(scale_factor=2), *unit(64, 32, 3),
                                 nn.ReLU(), nn.ReflectionPad2d(4), nn.Conv2d(32, 3, 9))

    def forward(self, x):
        x = self.into(x)
        for block in self.blocks:
            x = x + block(x)
        return self.out(x)


@plain("style_transfer")
def style_transfer():
    return Styled(), (picture(224),)


@plain("fsrcnn")
def fsrcnn():
    inner = [part for _ in range(4) for part in (nn.Conv2d(12, 12, 3, padding=1), nn.PReLU(12))]
    return nn.Sequential(nn.Conv2d(1, 56, 5, padding=2), nn.PReLU(56), nn.Conv2d(56, 12, 1), nn.PReLU(12), *inner, nn.Conv2d(12, 56, 1),
                         nn.PReLU(56), nn.ConvTranspose2d(56, 1, 9, 2, 4, output_padding=1)), (torch.randn(1, 1, 180, 320),)


@plain("espcn")
def espcn():
    return nn.Sequential(nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(),
                         nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3)), (torch.randn(1, 1, 180, 320),)


class Edsr(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.into = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
                                     for _ in range(6)])
        self.out = nn.Sequential(nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x):
        first = x = self.into(x)
        for block in self.blocks:
            x = x + 0.1 * block(x)
        return self.out(x + first)


@plain("edsr")
def edsr():
    return Edsr(), (torch.randn(1, 3, 96, 96),)


class Crossed(nn.Module):
    """A block of a diffusion network: windows with a time's scale, attention over the picture and over a text."""

    def __init__(self, width, text=256):
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(32, width) for _ in range(3)])
        self.windows = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(2)])
        self.time = nn.Linear(256, 2 * width)
        self.rows = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.own = nn.MultiheadAttention(width, 8, batch_first=True)
        self.other = nn.MultiheadAttention(width, 8, kdim=text, vdim=text, batch_first=True)
        self.into, self.out = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def forward(self, x, time, text):
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, 1)
        y = self.windows[0](F.silu(self.norms[0](x)))
        x = x + self.windows[1](F.silu(self.norms[1](y) * (1 + scale) + shift))
        rows = self.norms[2](x).flatten(2).transpose(1, 2)
        y = self.rows[0](rows)
        rows = rows + self.own(y, y, y, need_weights=False)[0]
        rows = rows + self.other(self.rows[1](rows), text, text, need_weights=False)[0]
        value, gate = self.into(self.rows[2](rows)).chunk(2, -1)
        rows = rows + self.out(value * F.gelu(gate))
        return x + rows.transpose(1, 2).view(x.shape)


class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Conv2d(4, 128, 3, padding=1), nn.Conv2d(128, 4, 3, padding=1)
        self.first, self.inner, self.last = Crossed(128), Crossed(256), Crossed(128)
        self.down, self.up = nn.Conv2d(128, 256, 3, 2, 1), nn.Conv2d(256, 128, 3, padding=1)
        self.joined = nn.Conv2d(256, 128, 1)

    def forward(self, x, time, text):
        first = self.first(self.into(x), time, text)
        inner = self.inner(self.down(first), time, text)
        up = self.up(F.interpolate(inner, scale_factor=2.0))
        return self.out(self.last(self.joined(torch.cat([up, first], 1)), time, text))


@plain("diffusion")
def diffusion():
    return Diffusion(), (torch.randn(1, 4, 32, 32), torch.randn(1, 256), torch.randn(1, 77, 256))


# ---- Sound ----

class Separator(nn.Module):
    """Conv-TasNet: depthwise windows along time, norms over all of it."""

    def __init__(self, width=128, inner=256):
        super().__init__()
        self.encoder, self.decoder = nn.Conv1d(1, 256, 16, 8, bias=False), nn.ConvTranspose1d(256, 1, 16, 8, bias=False)
        self.norm, self.into = nn.GroupNorm(1, 256), nn.Conv1d(256, width, 1)
        self.blocks = nn.ModuleList([nn.Sequential(
            nn.Conv1d(width, inner, 1), nn.PReLU(), nn.GroupNorm(1, inner), nn.Conv1d(inner, inner, 3, padding=2**(k % 6), dilation=2**(k % 6), groups=inner),
            nn.PReLU(), nn.GroupNorm(1, inner), nn.Conv1d(inner, width, 1)) for k in range(12)])
        self.mask = nn.Sequential(nn.PReLU(), nn.Conv1d(width, 512, 1))

    def forward(self, x):
        sound = F.relu(self.encoder(x))
        y = self.into(self.norm(sound))
        for block in self.blocks:
            y = y + block(y)
        masks = torch.sigmoid(self.mask(y)).view(1, 2, 256, -1)
        return self.decoder((masks * sound[:, None]).flatten(0, 1))


@plain("conv_tasnet")
def conv_tasnet():
    return Separator(), (torch.randn(1, 1, 16000),)


class Demucs(nn.Module):
    def __init__(self, width=32, depth=4):
        super().__init__()
        widths = [1] + [width * 2**k for k in range(depth)]
        self.down = nn.ModuleList([nn.Sequential(nn.Conv1d(a, b, 8, 4, 2), nn.ReLU(), nn.Conv1d(b, 2 * b, 1), nn.GLU(1))
                                   for a, b in zip(widths, widths[1:])])
        self.cells = nn.LSTM(widths[-1], widths[-1] // 2, 2, bidirectional=True)
        self.up = nn.ModuleList([nn.Sequential(nn.Conv1d(b, 2 * b, 1), nn.GLU(1), nn.ConvTranspose1d(b, a, 8, 4, 2))
                                 for a, b in reversed(list(zip(widths, widths[1:])))])

    def forward(self, x):
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
        x = self.cells(x.permute(2, 0, 1))[0].permute(1, 2, 0)
        for k, up in enumerate(self.up):
            x = up(x + kept.pop())
            x = F.relu(x) if k + 1 < len(self.up) else x
        return x


@plain("demucs")
def demucs():
    return Demucs(), (torch.randn(1, 1, 16384),)


class Vocoder(nn.Module):
    """HiFi-GAN's generator: transposed windows along time, dilated ones behind each."""

    def __init__(self, width=128):
        super().__init__()
        self.into, self.up, self.blocks = nn.Conv1d(80, width, 7, padding=3), nn.ModuleList(), nn.ModuleList()
        for size, rate in ((16, 8), (16, 8), (4, 2), (4, 2)):
            self.up.append(nn.ConvTranspose1d(width, width // 2, size, rate, (size - rate) // 2))
            width //= 2
            self.blocks.append(nn.ModuleList([nn.ModuleList([nn.Conv1d(width, width, k, padding=(k - 1) // 2 * d, dilation=d) for d in (1, 3, 5)])
                                              for k in (3, 7, 11)]))
        self.out = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, x):
        x = self.into(x)
        for up, blocks in zip(self.up, self.blocks):
            x = up(F.leaky_relu(x, 0.1))
            total = 0
            for block in blocks:
                y = x
                for window in block:
                    y = y + window(F.leaky_relu(y, 0.1))
                total = total + y
            x = total / 3
        return torch.tanh(self.out(F.leaky_relu(x)))


@plain("hifi_gan")
def hifi_gan():
    return Vocoder(), (torch.randn(1, 80, 32),)


class Gated(nn.Module):
    """WaveNet: gated dilated windows, all of whose ways out are added up."""

    def __init__(self, width=64, layers=10):
        super().__init__()
        self.into = nn.Conv1d(1, width, 1)
        self.windows = nn.ModuleList([nn.Conv1d(width, 2 * width, 2, dilation=2**k) for k in range(layers)])
        self.ways = nn.ModuleList([nn.Conv1d(width, 2 * width, 1) for _ in range(layers)])
        self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 256, 1))

    def forward(self, x):
        x, total = self.into(x), 0
        for k, (window, way) in enumerate(zip(self.windows, self.ways)):
            a, b = window(F.pad(x, (2**k, 0))).chunk(2, 1)
            more, out = way(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            x, total = x + more, total + out
        return self.out(total)


@plain("wavenet")
def wavenet():
    return Gated(), (torch.randn(1, 1, 4000),)


class Separable(nn.Module):
    """QuartzNet: long depthwise windows along time."""

    def __init__(self):
        super().__init__()

        def unit(inputs, outputs, size, stride=1):
            return nn.Sequential(nn.Conv1d(inputs, inputs, size, stride, size // 2, groups=inputs, bias=False), nn.Conv1d(inputs, outputs, 1, bias=False),
                                 nn.BatchNorm1d(outputs))
        self.into = unit(64, 256, 33, 2)
        self.blocks = nn.ModuleList([nn.ModuleList([unit(256, 256, size) for _ in range(3)]) for size in (33, 39, 51)])
        self.ways, self.out = nn.ModuleList([nn.Conv1d(256, 256, 1) for _ in range(3)]), nn.Conv1d(256, 29, 1)

    def forward(self, x):
        x = F.relu(self.into(x))
        for block, way in zip(self.blocks, self.ways):
            y = x
            for k, part in enumerate(block):
                y = part(y)
                y = F.relu(y) if k < 2 else y
            x = F.relu(y + way(x))
        return self.out(x).log_softmax(1)


@plain("quartznet")
def quartznet():
    return Separable(), (torch.randn(1, 64, 400),)


class Speaker(nn.Module):
    """ECAPA-TDNN: windows over parts of the channels one after the other, attention over time."""

    def __init__(self, width=256):
        super().__init__()
        self.into, self.blocks = nn.Sequential(nn.Conv1d(80, width, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(width)), nn.ModuleList()
        for dilation in (2, 3, 4):
            self.blocks.append(nn.ModuleDict({
                "into": nn.Conv1d(width, width, 1), "out": nn.Conv1d(width, width, 1), "norm": nn.BatchNorm1d(width),
                "parts": nn.ModuleList([nn.Conv1d(width // 8, width // 8, 3, padding=dilation, dilation=dilation) for _ in range(7)]),
                "gate": nn.Sequential(nn.Conv1d(width, 64, 1), nn.ReLU(), nn.Conv1d(64, width, 1), nn.Sigmoid())}))
        self.join = nn.Conv1d(3 * width, 3 * width, 1)
        self.attention = nn.Sequential(nn.Conv1d(9 * width, 64, 1), nn.Tanh(), nn.Conv1d(64, 3 * width, 1))
        self.out = nn.Linear(6 * width, 192)

    def forward(self, x):
        x, kept = self.into(x), []
        for block in self.blocks:
            parts = list(F.relu(block["into"](x)).chunk(8, 1))
            for k, window in enumerate(block["parts"]):
                parts[k + 1] = F.relu(window(parts[k + 1] + parts[k] if k else parts[k + 1]))
            y = block["norm"](F.relu(block["out"](torch.cat(parts, 1))))
            x = x + y * block["gate"](y.mean(2, keepdim=True))
            kept.append(x)
        x = F.relu(self.join(torch.cat(kept, 1)))
        mean, std = x.mean(2, keepdim=True), x.var(2, keepdim=True).clamp(min=1e-8).sqrt()
        weights = self.attention(torch.cat([x, mean.expand_as(x), std.expand_as(x)], 1)).softmax(2)
        mean = (x * weights).sum(2)
        return self.out(torch.cat([mean, ((x * x * weights).sum(2) - mean * mean).clamp(min=1e-8).sqrt()], 1))


@plain("ecapa_tdnn")
def ecapa_tdnn():
    return Speaker(), (torch.randn(1, 80, 300),)


class Transducer(nn.Module):
    """RNN-T: an encoder of cells, a predictor, and what joins every pair of their steps."""

    def __init__(self):
        super().__init__()
        self.encoder, self.predictor = nn.LSTM(80, 256, 3, batch_first=True), nn.GRU(128, 256, 1, batch_first=True)
        self.words, self.joint = nn.Embedding(500, 128), nn.Sequential(nn.Tanh(), nn.Linear(256, 500))

    def forward(self, sound, words):
        return self.joint(self.encoder(sound)[0][:, :, None] + self.predictor(self.words(words))[0][:, None]).log_softmax(-1)


@plain("rnn_transducer")
def rnn_transducer():
    return Transducer(), (torch.randn(1, 60, 80), torch.randint(0, 500, (1, 12)))


class Characters(nn.Module):
    """CRNN: windows over a line of text, cells along it."""

    def __init__(self):
        super().__init__()
        parts, widths = [], (1, 64, 128, 256, 256)
        for k, (a, b) in enumerate(zip(widths, widths[1:])):
            parts += [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2 if k < 2 else (2, 1))]
        self.windows, self.cells, self.out = nn.Sequential(*parts), nn.LSTM(512, 128, 2, bidirectional=True), nn.Linear(256, 97)

    def forward(self, x):
        x = self.windows(x)
        return self.out(self.cells(x.flatten(1, 2).permute(2, 0, 1))[0]).log_softmax(-1)


@plain("crnn")
def crnn():
    return Characters(), (torch.randn(1, 1, 32, 200),)


# ---- Tables, graphs, points, time series ----

class Features(nn.Module):
    """FT-Transformer: a token for each number and each category of a row."""

    def __init__(self, numbers=20, categories=10, width=64):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(numbers, width)), nn.Parameter(torch.randn(numbers, width))
        self.first, self.table = nn.Parameter(torch.randn(1, 1, width)), nn.Embedding(100 * categories, width)
        self.register_buffer("begin", torch.arange(categories) * 100)
        layer = nn.TransformerEncoderLayer(width, 8, 2 * width, batch_first=True, norm_first=True, activation="gelu")
        self.layers, self.out = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), nn.Linear(width, 2)

    def forward(self, numbers, categories):
        rows = torch.cat([self.first.expand(len(numbers), -1, -1), numbers[..., None] * self.weight + self.bias, self.table(categories + self.begin)], 1)
        return self.out(F.relu(self.layers(rows)[:, 0]))


@plain("ft_transformer")
def ft_transformer():
    return Features(), (torch.randn(64, 20), torch.randint(0, 100, (64, 10)))


class TabNet(nn.Module):
    """Steps that choose among features by a sparse softmax."""

    def __init__(self, features=64, width=64, steps=3):
        super().__init__()
        self.norm, self.shared = nn.BatchNorm1d(features), nn.Linear(features, 4 * width)
        self.steps = nn.ModuleList([nn.ModuleList([nn.Linear(2 * width, 4 * width), nn.Linear(width, features), nn.BatchNorm1d(features)])
                                    for _ in range(steps)])
        self.out, self.width = nn.Linear(width, 3), width

    @staticmethod
    def sparsemax(x):
        ordered = x.sort(-1, descending=True)[0]
        sums, place = ordered.cumsum(-1), torch.arange(1, x.shape[-1] + 1)
        count = (1 + place * ordered > sums).sum(-1, keepdim=True)
        return (x - (sums.gather(-1, count - 1) - 1) / count).clamp(min=0)

    def forward(self, x):
        x = self.norm(x)
        left, total, attention = torch.ones_like(x), 0, F.glu(self.shared(x))[:, self.width:]
        for feed, choose, norm in self.steps:
            mask = self.sparsemax(norm(choose(attention)) * left)
            left = left * (1.3 - mask)
            y = F.glu(self.shared(mask * x))
            y = (y + F.glu(feed(y))) * 0.7071
            total, attention = total + F.relu(y[:, :self.width]), y[:, self.width:]
        return self.out(total)


@plain("tabnet")
def tabnet():
    return TabNet(), (torch.randn(256, 64),)


class Graph(nn.Module):
    """Two layers of attention over a graph's edges."""

    def __init__(self, inputs=64, width=16, heads=4):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(inputs, width * heads), nn.Linear(width * heads, width * heads)])
        self.scores = nn.ParameterList([nn.Parameter(torch.randn(2, heads, width)) for _ in range(2)])
        self.out, self.heads, self.width = nn.Linear(width * heads, 7), heads, width

    def forward(self, x, edges):
        here, there = edges[0], edges[1]
        for layer, score in zip(self.layers, self.scores):
            y = layer(x).view(-1, self.heads, self.width)
            a = F.leaky_relu((y * score[0]).sum(-1)[here] + (y * score[1]).sum(-1)[there], 0.2)
            most = torch.full((len(x), self.heads), -1e30).scatter_reduce(0, there[:, None].expand(-1, self.heads), a, "amax")
            weight = (a - most[there]).exp()
            total = torch.zeros(len(x), self.heads).index_add(0, there, weight)
            x = F.elu(torch.zeros_like(y).index_add(0, there, y[here] * (weight / total[there])[..., None]).flatten(1))
        return self.out(x)


@plain("graph_attention")
def graph_attention():
    return Graph(), (torch.randn(1000, 64), torch.randint(0, 1000, (2, 8000)))


class Convolved(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(3)])

    def forward(self, x, edges):
        count = torch.ones(len(x)).index_add(0, edges[1], torch.ones(edges.shape[1]))
        scale = count.rsqrt()
        for layer in self.layers:
            y = layer(x) * scale[:, None]
            x = F.relu((y + torch.zeros_like(y).index_add(0, edges[1], y[edges[0]])) * scale[:, None])
        return x.mean(0, keepdim=True)


@plain("graph_convolution")
def graph_convolution():
    return Convolved(), (torch.randn(1000, 64), torch.randint(0, 1000, (2, 8000)))


class Points(nn.Module):
    """PointNet."""

    def __init__(self):
        super().__init__()

        def unit(*widths):
            return nn.Sequential(*[part for a, b in zip(widths, widths[1:]) for part in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())])
        self.first, self.second, self.out = unit(3, 64, 64), unit(64, 64, 128, 1024), nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 40))

    def forward(self, x):
        return self.out(self.second(self.first(x)).max(2)[0])


@plain("pointnet")
def pointnet():
    return Points(), (torch.randn(1, 3, 1024),)


class Factorised(nn.Module):
    """DeepFM: tables of categories, their products by pairs, and layers beside them."""

    def __init__(self, fields=26, width=16):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(1000, width) for _ in range(fields)])
        self.linear = nn.ModuleList([nn.Embedding(1000, 1) for _ in range(fields)])
        self.layers = nn.Sequential(nn.Linear(fields * width, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 1))

    def forward(self, x):
        rows = torch.stack([table(x[:, k]) for k, table in enumerate(self.tables)], 1)
        first = torch.cat([table(x[:, k]) for k, table in enumerate(self.linear)], 1).sum(1, keepdim=True)
        second = 0.5 * (rows.sum(1)**2 - (rows**2).sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(first + second + self.layers(rows.flatten(1)))


@plain("deepfm")
def deepfm():
    return Factorised(), (torch.randint(0, 1000, (128, 26)),)


@plain("nerf")
def nerf():
    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.ModuleList([nn.Linear(63 if k == 0 else 256, 256) for k in range(4)])
            self.second, self.out = nn.ModuleList([nn.Linear(319 if k == 0 else 256, 256) for k in range(3)]), nn.Linear(256, 4)

        def forward(self, x):
            waves = x[:, None] * (2.0**torch.arange(10))[:, None]
            x = y = torch.cat([x, waves.sin().flatten(1), waves.cos().flatten(1)], 1)
            for layer in self.first:
                y = F.relu(layer(y))
            y = torch.cat([y, x], 1)
            for layer in self.second:
                y = F.relu(layer(y))
            return self.out(y)
    return Field(), (torch.randn(1024, 3),)


class Series(nn.Module):
    """N-BEATS: stacks of layers that take off what they explain."""

    def __init__(self):
        super().__init__()
        self.stacks = nn.ModuleList([nn.Sequential(nn.Linear(96, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                                                   nn.Linear(256, 120)) for _ in range(6)])

    def forward(self, x):
        total = 0
        for stack in self.stacks:
            back, ahead = stack(x).split((96, 24), 1)
            x, total = x - back, total + ahead
        return total


@plain("n_beats")
def n_beats():
    return Series(), (torch.randn(32, 96),)


@plain("text_windows")
def text_windows():
    class Windows(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.windows = nn.Embedding(5000, 128), nn.ModuleList([nn.Conv1d(128, 100, k) for k in (3, 4, 5)])
            self.out = nn.Linear(300, 4)

        def forward(self, x):
            x = self.words(x).transpose(1, 2)
            return self.out(torch.cat([F.relu(window(x)).amax(2) for window in self.windows], 1))
    return Windows(), (torch.randint(0, 5000, (8, 60)),)


# ---- transformers ----

def of_transformers(name, config, cls, key, inputs, **options):
    def make():
        import transformers
        net = getattr(transformers, cls)(getattr(transformers, config)(**options))
        net.config.use_cache = False

        class Named(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = net

            def forward(self, *args):
                return self.net(**dict(zip(inputs, args)), return_dict=True)[key]
        return Named(), tuple(value() for value in inputs.values()), None
    MODELS["transformers/" + name] = make


def ids(count, limit=1000):
    return lambda: torch.randint(3, limit, (1, count))


def numbers(*shape):
    return lambda: torch.randn(*shape)


text_model("mpnet", "MPNetConfig", "MPNetModel", num_hidden_layers=4)
text_model("roberta", "RobertaConfig", "RobertaModel", num_hidden_layers=4)
text_model("xlm", "XLMConfig", "XLMModel", emb_dim=512, n_layers=3, n_heads=8)
text_model("longformer", "LongformerConfig", "LongformerModel", tokens=256, hidden_size=384, num_attention_heads=6, intermediate_size=1536,
           num_hidden_layers=2, attention_window=64, pad_token_id=0)
text_model("big_bird", "BigBirdConfig", "BigBirdModel", hidden_size=384, num_attention_heads=6, intermediate_size=1536, num_hidden_layers=3,
           attention_type="original_full")
text_model("fnet", "FNetConfig", "FNetModel", hidden_size=384, intermediate_size=1536, num_hidden_layers=3)
text_model("mobilebert", "MobileBertConfig", "MobileBertModel", num_hidden_layers=8)
text_model("squeezebert", "SqueezeBertConfig", "SqueezeBertModel", num_hidden_layers=4)
text_model("convbert", "ConvBertConfig", "ConvBertModel", num_hidden_layers=3)
text_model("roformer", "RoFormerConfig", "RoFormerModel", num_hidden_layers=4, max_position_embeddings=256)
DECODER = dict(hidden_size=768, intermediate_size=2048, num_hidden_layers=3, num_attention_heads=12, num_key_value_heads=4, vocab_size=16000)
for name, config, more in (
        ("mistral", "Mistral", {}), ("qwen3", "Qwen3", dict(head_dim=64)), ("phi3", "Phi3", dict(pad_token_id=0)), ("gemma3", "Gemma3Text", dict(head_dim=64)),
        ("olmo2", "Olmo2", {}), ("starcoder2", "Starcoder2", {}), ("granite", "Granite", {}), ("stablelm", "StableLm", {}),
        ("mixtral", "Mixtral", dict(num_local_experts=4, num_experts_per_tok=2))):
    text_model(name, config + "Config", config.replace("Text", "") + "ForCausalLM", key="logits", tokens=64, **DECODER, **more)
text_model("phi", "PhiConfig", "PhiForCausalLM", key="logits", tokens=64, hidden_size=768, intermediate_size=3072, num_hidden_layers=3,
           num_attention_heads=12, vocab_size=16000)
text_model("gptj", "GPTJConfig", "GPTJForCausalLM", key="logits", tokens=64, n_embd=768, n_layer=3, n_head=12, rotary_dim=32, vocab_size=16000)
text_model("falcon", "FalconConfig", "FalconForCausalLM", key="logits", tokens=64, hidden_size=768, num_hidden_layers=3, num_attention_heads=12,
           vocab_size=16000)
text_model("mamba2", "Mamba2Config", "Mamba2ForCausalLM", key="logits", tokens=64, hidden_size=384, num_hidden_layers=3, num_heads=12,
           head_dim=64, vocab_size=16000, n_groups=1)
text_model("rwkv", "RwkvConfig", "RwkvModel", tokens=32, hidden_size=384, num_hidden_layers=3, attention_hidden_size=384, vocab_size=16000)
text_model("clip_text", "CLIPTextConfig", "CLIPTextModel", tokens=77, num_hidden_layers=6)
of_transformers("t5", "T5Config", "T5ForConditionalGeneration", "logits", {"input_ids": ids(96), "decoder_input_ids": ids(32)}, num_layers=3,
                vocab_size=16000)
of_transformers("bart", "BartConfig", "BartForConditionalGeneration", "logits", {"input_ids": ids(96), "decoder_input_ids": ids(32)},
                d_model=512, encoder_layers=3, decoder_layers=3, encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048,
                decoder_ffn_dim=2048, vocab_size=16000)
of_transformers("t5_step", "T5Config", "T5ForConditionalGeneration", "logits",
                {"encoder_outputs": lambda: torch.randn(1, 96, 512), "decoder_input_ids": ids(1)}, num_layers=3, vocab_size=16000)
of_transformers("whisper", "WhisperConfig", "WhisperForConditionalGeneration", "logits",
                {"input_features": numbers(1, 80, 3000), "decoder_input_ids": ids(16)}, d_model=256, encoder_layers=2, decoder_layers=2,
                encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=1024, decoder_ffn_dim=1024, vocab_size=16000)
PICTURE = {"pixel_values": numbers(1, 3, 224, 224)}
of_transformers("siglip_vision", "SiglipVisionConfig", "SiglipVisionModel", "last_hidden_state", PICTURE, num_hidden_layers=3)
of_transformers("detr", "DetrConfig", "DetrForObjectDetection", "logits", {"pixel_values": numbers(1, 3, 256, 256)},
                use_pretrained_backbone=False, backbone="resnet18", use_timm_backbone=True, encoder_layers=2, decoder_layers=2, backbone_config=None)
of_transformers("dpt", "DPTConfig", "DPTForDepthEstimation", "predicted_depth", {"pixel_values": numbers(1, 3, 224, 224)}, hidden_size=192,
                num_hidden_layers=4, num_attention_heads=3, intermediate_size=768, image_size=224, backbone_out_indices=[0, 1, 2, 3],
                neck_hidden_sizes=[48, 96, 192, 192], fusion_hidden_size=64)
of_transformers("mobilevitv2", "MobileViTV2Config", "MobileViTV2Model", "last_hidden_state", {"pixel_values": numbers(1, 3, 256, 256)})
of_transformers("swin2sr", "Swin2SRConfig", "Swin2SRForImageSuperResolution", "reconstruction", {"pixel_values": numbers(1, 3, 64, 64)},
                image_size=64, embed_dim=60, depths=[2, 2], num_heads=[6, 6], window_size=8, upscale=2)
of_transformers("videomae", "VideoMAEConfig", "VideoMAEModel", "last_hidden_state", {"pixel_values": numbers(1, 16, 3, 112, 112)},
                image_size=112, hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536)
of_transformers("audio_spectrogram", "ASTConfig", "ASTModel", "last_hidden_state", {"input_values": numbers(1, 256, 128)}, max_length=256,
                hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536)
of_transformers("wavlm", "WavLMConfig", "WavLMModel", "last_hidden_state", {"input_values": numbers(1, 16000)}, num_hidden_layers=2)
of_transformers("data2vec_audio", "Data2VecAudioConfig", "Data2VecAudioModel", "last_hidden_state", {"input_values": numbers(1, 16000)}, num_hidden_layers=2)
of_transformers("sew", "SEWConfig", "SEWModel", "last_hidden_state", {"input_values": numbers(1, 16000)}, hidden_size=384, num_hidden_layers=3,
                num_attention_heads=6, intermediate_size=1536)
of_transformers("encodec", "EncodecConfig", "EncodecModel", "audio_values", {"input_values": numbers(1, 1, 8000)})
of_transformers("sam_vision", "SamVisionConfig", "SamVisionModel", "last_hidden_state", {"pixel_values": numbers(1, 3, 256, 256)}, image_size=256,
                hidden_size=192, num_hidden_layers=4, num_attention_heads=3, mlp_dim=768, window_size=7, global_attn_indexes=[1, 3])
of_transformers("patchtst", "PatchTSTConfig", "PatchTSTForPrediction", "prediction_outputs", {"past_values": numbers(4, 96, 7)}, num_input_channels=7,
                context_length=96, patch_length=8, patch_stride=8, prediction_length=24, d_model=128, num_hidden_layers=3,
                num_attention_heads=8, ffn_dim=256)
