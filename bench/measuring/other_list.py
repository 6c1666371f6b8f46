"""The models of bench/other_models.py: a name and a function that makes a module, its arguments and its dynamic shapes (None: fixed).

Sizes are those that people use; weights are random. Where a library's module returns more than a tensor, one is picked."""
import pathlib
import sys

import torch
from torch import nn
from torch.export import Dim

MODELS = {}
BATCH = ({0: Dim("batch", min=1, max=64)},)


def picture(size, batch=1):
    return torch.randn(batch, 3, size, size)


class Picked(nn.Module):
    def __init__(self, inner, key):
        super().__init__()
        self.inner, self.key = inner, key

    def forward(self, *args):
        return self.inner(*args)[self.key]


# ---- Pictures and films ----

def torchvision_model(name, size=224, dynamic=False, **options):
    def make():
        import torchvision
        module = getattr(torchvision.models, name)(weights=None, **options)
        return module, (picture(size, 2 if dynamic else 1),), BATCH if dynamic else None
    MODELS[f"torchvision/{name}{'-dynamic' if dynamic else ''}"] = make


for name in ("alexnet", "vgg11_bn", "googlenet", "densenet121", "squeezenet1_1", "shufflenet_v2_x1_0", "mnasnet1_0", "mobilenet_v2",
             "regnet_y_400mf", "regnet_x_800mf", "resnext50_32x4d", "efficientnet_v2_s", "swin_v2_t", "maxvit_t"):
    torchvision_model(name)
torchvision_model("inception_v3", 299, init_weights=False)
for name in ("resnet50", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny"):
    torchvision_model(name, dynamic=True)


def segmentation(name):
    def make():
        import torchvision
        net = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None)
        return Picked(net, "out"), (picture(256),), None
    MODELS["segmentation/" + name] = make


segmentation("deeplabv3_mobilenet_v3_large")
segmentation("fcn_resnet50")


def film(name, frames, size):
    def make():
        import torchvision
        return getattr(torchvision.models.video, name)(weights=None), (torch.randn(1, 3, frames, size, size),), None
    MODELS["film/" + name] = make


film("r3d_18", 8, 112)
film("s3d", 16, 224)
film("mvit_v2_s", 16, 224)


def timm_model(name):
    def make():
        import timm
        return timm.create_model(name, pretrained=False), (picture(224),), None
    MODELS["timm/" + name] = make


for name in ("deit_tiny_patch16_224", "mobilevit_s", "levit_256", "edgenext_small", "convnextv2_nano", "ghostnet_100", "efficientformerv2_s0",
             "repvgg_a0", "hrnet_w18_small", "mixer_s16_224", "res2net50_26w_4s", "pvt_v2_b0", "poolformer_s12", "fastvit_t8",
             "tiny_vit_5m_224", "resnest14d", "xcit_nano_12_p16_224", "cspdarknet53", "gmlp_s16_224", "mobilenetv4_conv_small",
             "mobileone_s0", "vgg16_bn"):
    timm_model(name)


# ---- transformers ----

def text_model(name, config, cls, tokens=128, key="last_hidden_state", dynamic=False, **options):
    def make():
        import transformers
        made = getattr(transformers, config)(**options)
        made.use_cache = False
        ids = torch.randint(3, min(getattr(made, "vocab_size", 30000), 30000), (2 if dynamic else 1, tokens))
        shapes = ({"args": ({0: Dim("batch", min=1, max=16), 1: Dim("tokens", min=4, max=512)},)}) if dynamic else None
        return Picked(getattr(transformers, cls)(made), key), (ids,), shapes
    MODELS["transformers/" + name] = make


text_model("distilbert", "DistilBertConfig", "DistilBertModel")
text_model("bert_512_tokens", "BertConfig", "BertModel", tokens=512, num_hidden_layers=4)
text_model("bert-dynamic", "BertConfig", "BertModel", dynamic=True, num_hidden_layers=4)
text_model("albert", "AlbertConfig", "AlbertModel", hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_hidden_layers=4)
text_model("electra_small", "ElectraConfig", "ElectraModel")
text_model("deberta_v2", "DebertaV2Config", "DebertaV2Model", hidden_size=384, num_attention_heads=6, intermediate_size=1536,
           num_hidden_layers=4, relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=256, share_att_key=True)
text_model("modernbert", "ModernBertConfig", "ModernBertModel", num_hidden_layers=4, pad_token_id=0, bos_token_id=1, eos_token_id=2,
           cls_token_id=1, sep_token_id=2)
text_model("opt", "OPTConfig", "OPTForCausalLM", key="logits", num_hidden_layers=4)
text_model("qwen2", "Qwen2Config", "Qwen2ForCausalLM", key="logits", hidden_size=896, intermediate_size=4864, num_hidden_layers=3,
           num_attention_heads=14, num_key_value_heads=2, vocab_size=32000)
text_model("gemma2", "Gemma2Config", "Gemma2ForCausalLM", key="logits", hidden_size=768, intermediate_size=3072, num_hidden_layers=3,
           num_attention_heads=6, num_key_value_heads=2, head_dim=128, vocab_size=32000)
text_model("gpt_neox", "GPTNeoXConfig", "GPTNeoXForCausalLM", key="logits", hidden_size=512, intermediate_size=2048, num_hidden_layers=6,
           num_attention_heads=8, vocab_size=32000)
text_model("bloom", "BloomConfig", "BloomForCausalLM", key="logits", hidden_size=768, n_layer=3, n_head=12, vocab_size=32000)
text_model("mamba", "MambaConfig", "MambaForCausalLM", tokens=64, key="logits", hidden_size=384, num_hidden_layers=3, vocab_size=32000)
text_model("t5_encoder", "T5Config", "T5EncoderModel")
text_model("xlnet", "XLNetConfig", "XLNetModel", d_model=512, n_layer=3, n_head=8, d_inner=2048)


def other_transformer(name, config, cls, example, key="last_hidden_state", **options):
    def make():
        import transformers
        return Picked(getattr(transformers, cls)(getattr(transformers, config)(**options)), key), (example(),), None
    MODELS["transformers/" + name] = make


other_transformer("segformer_b0", "SegformerConfig", "SegformerForSemanticSegmentation", lambda: picture(256), "logits")
other_transformer("dinov2_small", "Dinov2Config", "Dinov2Model", lambda: picture(224), hidden_size=384, num_attention_heads=6,
                  num_hidden_layers=6)
other_transformer("clip_vision", "CLIPVisionConfig", "CLIPVisionModel", lambda: picture(224), num_hidden_layers=4)
other_transformer("yolos", "YolosConfig", "YolosModel", lambda: picture(256), hidden_size=192, num_hidden_layers=4, num_attention_heads=3,
                  intermediate_size=768, image_size=[256, 256], num_detection_tokens=100)
other_transformer("wav2vec2", "Wav2Vec2Config", "Wav2Vec2Model", lambda: torch.randn(1, 32000), num_hidden_layers=4)
other_transformer("hubert", "HubertConfig", "HubertModel", lambda: torch.randn(1, 32000), num_hidden_layers=2)


# ---- Plain PyTorch ----

def plain(name, dynamic=None):
    def register(make):
        MODELS["plain/" + name] = lambda: (*make(), dynamic)
        return make
    return register


class Recurrent(nn.Module):
    def __init__(self, cell, inputs, width, layers, both_ways=False):
        super().__init__()
        self.cells = getattr(nn, cell)(inputs, width, layers, bidirectional=both_ways, batch_first=True)
        self.out = nn.Linear(width * (2 if both_ways else 1), 64)

    def forward(self, x):
        return self.out(self.cells(x)[0])


@plain("gru")
def gru():
    return Recurrent("GRU", 128, 256, 2), (torch.randn(1, 100, 128),)


@plain("lstm_both_ways")
def lstm_both_ways():
    return Recurrent("LSTM", 128, 256, 2, True), (torch.randn(4, 100, 128),)


@plain("lstm_batch_32")
def lstm_batch_32():
    return Recurrent("LSTM", 64, 128, 1), (torch.randn(32, 50, 64),)


class Dilated(nn.Module):
    """A temporal network of dilated windows."""

    def __init__(self, width=64):
        super().__init__()
        self.into, self.out = nn.Conv1d(8, width, 1), nn.Conv1d(width, 1, 1)
        self.layers = nn.ModuleList([nn.Conv1d(width, width, 3, padding=2**k, dilation=2**k) for k in range(8)])

    def forward(self, x):
        x = self.into(x)
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.out(x)


@plain("dilated")
def dilated():
    return Dilated(), (torch.randn(1, 8, 2000),)


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(32, inputs), nn.GroupNorm(32, outputs)])
        self.windows = nn.ModuleList([nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)])
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        y = x
        for norm, window in zip(self.norms, self.windows):
            y = window(nn.functional.silu(norm(y)))
        return y + self.skip(x)


class Decoder(nn.Module):
    """What makes a picture of a latent one, as in diffusion models."""

    def __init__(self):
        super().__init__()
        widths = [128, 128, 128, 64]
        self.into = nn.Conv2d(4, 128, 3, padding=1)
        self.blocks = nn.ModuleList([Residual(a, b) for a, b in zip([128, *widths], widths)])
        self.larger = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for width in widths[:3]])
        self.norm, self.out = nn.GroupNorm(32, 64), nn.Conv2d(64, 3, 3, padding=1)

    def forward(self, x):
        x = self.blocks[0](self.into(x))
        for window, block in zip(self.larger, self.blocks[1:]):
            x = block(window(nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")))
        return self.out(nn.functional.silu(self.norm(x)))


@plain("vae_decoder")
def vae_decoder():
    return Decoder(), (torch.randn(1, 4, 32, 32),)


@plain("super_resolution")
def super_resolution():
    inner = [part for _ in range(8) for part in (nn.Conv2d(32, 32, 3, padding=1), nn.PReLU())]
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), *inner, nn.Conv2d(32, 12, 3, padding=1), nn.PixelShuffle(2)), (torch.randn(1, 3, 180, 320),)


@plain("dcgan_generator")
def dcgan_generator():
    layers, widths = [], [100, 512, 256, 128, 64]
    for k in range(4):
        layers += [nn.ConvTranspose2d(widths[k], widths[k + 1], 4, 2 if k else 1, 1 if k else 0, bias=False), nn.BatchNorm2d(widths[k + 1]), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()), (torch.randn(1, 100, 1, 1),)


class Volume(nn.Module):
    """A U-Net over volumes."""

    def __init__(self):
        super().__init__()

        def twice(inputs, outputs):
            return nn.Sequential(*[part for a in (inputs, outputs) for part in (
                nn.Conv3d(a, outputs, 3, padding=1), nn.InstanceNorm3d(outputs), nn.LeakyReLU(0.1))])
        self.down = nn.ModuleList([twice(1, 16), twice(16, 32), twice(32, 64)])
        self.up = nn.ModuleList([nn.ConvTranspose3d(64, 32, 2, 2), nn.ConvTranspose3d(32, 16, 2, 2)])
        self.joined, self.out = nn.ModuleList([twice(64, 32), twice(32, 16)]), nn.Conv3d(16, 2, 1)

    def forward(self, x):
        first = self.down[0](x)
        second = self.down[1](nn.functional.max_pool3d(first, 2))
        x = self.down[2](nn.functional.max_pool3d(second, 2))
        for up, joined, beside in zip(self.up, self.joined, (second, first)):
            x = joined(torch.cat([up(x), beside], 1))
        return self.out(x)


@plain("unet_3d")
def unet_3d():
    return Volume(), (torch.randn(1, 1, 32, 64, 64),)


def layers_of_512():
    return nn.Sequential(nn.Linear(300, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


@plain("mlp_batch_1")
def mlp_batch_1():
    return layers_of_512(), (torch.randn(1, 300),)


@plain("mlp_batch_32")
def mlp_batch_32():
    return layers_of_512(), (torch.randn(32, 300),)


@plain("mlp-dynamic", dynamic=BATCH)
def mlp_dynamic():
    return layers_of_512(), (torch.randn(16, 300),)


@plain("transformer_encoder")
def transformer_encoder():
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), (torch.randn(4, 200, 256),)


@plain("transformer")
def transformer():
    return nn.Transformer(256, 4, 3, 3, 1024, batch_first=True), (torch.randn(1, 100, 256), torch.randn(1, 60, 256))


class ConformerLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.feeds = nn.ModuleList([nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
                                    for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.windows = nn.Sequential(nn.Conv1d(width, 2 * width, 1), nn.GLU(1), nn.Conv1d(width, width, 31, padding=15, groups=width),
                                     nn.BatchNorm1d(width), nn.SiLU(), nn.Conv1d(width, width, 1))

    def forward(self, x):
        x = x + 0.5 * self.feeds[0](x)
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.windows(self.norms[1](x).transpose(1, 2)).transpose(1, 2)
        return self.norms[2](x + 0.5 * self.feeds[1](x))


@plain("conformer")
def conformer():
    return nn.Sequential(*[ConformerLayer(256) for _ in range(4)]), (torch.randn(1, 200, 256),)


# ---- Quantised by torchao, which these need; beside them the same in f32 ----

def quantised_models():
    """The functions of bench/quantised_models.py, which quantise a module and export it."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
    import quantised_models
    return quantised_models


def small_bert():
    from transformers import BertConfig, BertModel
    config = BertConfig(vocab_size=1000, num_hidden_layers=4, max_position_embeddings=128, attn_implementation="sdpa")
    return Picked(BertModel(config, add_pooling_layer=False), "last_hidden_state"), (torch.randint(0, 1000, (1, 128)),)


def wide_mlp():
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)), (torch.randn(64, 1024),)


def torchvision_net(name):
    def make():
        import torchvision
        net = getattr(torchvision.models, name)(weights=None).eval()
        for module in net.modules():  # statistics that keep values where they are
            if isinstance(module, nn.BatchNorm2d):
                module.train()
                module.momentum = None
        net(picture(224, 2))
        return net.eval(), (picture(224),)
    return make


def quantised(name, make):
    def static():
        from torchao.quantization.pt2e import allow_exported_model_train_eval
        tools = quantised_models()
        module, args = make()
        return allow_exported_model_train_eval(tools.pt2e(module.eval(), args, tools.x86())[0]), args, None

    def dynamic():
        tools = quantised_models()
        module, args = make()
        return (*tools.quantised(module.eval(), args, tools.torchao_config("Int8DynamicActivationInt8WeightConfig"))[::2], None)

    MODELS[f"int8/{name}-f32"] = lambda: (*make(), None)
    MODELS[f"int8/{name}-static"] = static
    if not name.startswith("resnet"):  # of whose layers one is linear
        MODELS[f"int8/{name}-dynamic"] = dynamic


for name in ("resnet18", "resnet50"):
    quantised(name, torchvision_net(name))
quantised("bert-4-layers", small_bert)
quantised("mlp-64x1024x4096", wide_mlp)
