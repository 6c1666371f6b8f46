"""The models of real_models.py: each makes a module, its inputs, and where sizes are dynamic a second call."""
import dataclasses
from typing import Any, Callable

import torch
from torch.export import Dim


@dataclasses.dataclass
class Example:
    module: torch.nn.Module
    args: tuple = ()
    kwargs: dict = dataclasses.field(default_factory=dict)
    dynamic_shapes: Any = None
    other_calls: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Entry:
    kind: str
    make: Callable[[], Example]


MODELS: dict[str, Entry] = {}


def model(name, kind):
    def register(make):
        MODELS[name] = Entry(kind, make)
        return make
    return register


class Pick(torch.nn.Module):
    """Calls a module and keeps the named outputs: flat tensors, whatever class the library returns."""

    def __init__(self, inner, names):
        super().__init__()
        self.inner, self.names = inner, names

    def forward(self, *args, **kwargs):
        out = self.inner(*args, **kwargs)
        return tuple(out[name] for name in self.names)


# ---- Images ----

def image(size, batch=1):
    return torch.randn(batch, 3, size, size)


def images(module, size, dynamic=False):
    if not dynamic:
        return Example(module, (image(size),))
    return Example(module, (image(size, 2),), dynamic_shapes=({0: Dim("batch", min=1, max=16)},),
                   other_calls=[((image(size, 3),), {})])


def torchvision_model(name, size, kind="classification", dynamic=False, **options):
    def make():
        import torchvision
        return images(getattr(torchvision.models, name)(weights=None, **options), size, dynamic)
    MODELS["torchvision/" + name] = Entry(kind, make)


def timm_model(name, size, kind="classification", dynamic=False, **options):
    def make():
        import timm
        return images(timm.create_model(name, pretrained=False, **options), size, dynamic)
    MODELS["timm/" + name] = Entry(kind, make)


torchvision_model("resnet18", 224)
torchvision_model("resnet50", 96, dynamic=True)
torchvision_model("mobilenet_v3_small", 96, dynamic=True)
torchvision_model("efficientnet_b0", 64)
torchvision_model("convnext_tiny", 64)
torchvision_model("vit_b_16", 64, image_size=64)
torchvision_model("swin_t", 64)
torchvision_model("densenet121", 64)
torchvision_model("regnet_y_400mf", 64)
torchvision_model("shufflenet_v2_x0_5", 64, dynamic=True)
torchvision_model("squeezenet1_1", 64)
torchvision_model("mnasnet0_5", 64)
torchvision_model("maxvit_t", 224)
timm_model("mixer_s32_224", 224)
timm_model("levit_128s", 224)
timm_model("deit_tiny_patch16_224", 224, dynamic=True)
timm_model("convnextv2_atto", 64)
timm_model("mobilevit_xxs", 64)
timm_model("edgenext_xx_small", 64)
timm_model("eva02_tiny_patch14_224", 224)
timm_model("ghostnet_050", 64)
timm_model("efficientformerv2_s0", 224)


@model("torchvision/fpn_backbone", "detection")
def fpn_backbone():
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
    return Example(Pick(resnet_fpn_backbone(backbone_name="resnet18", weights=None), ["0", "1", "2", "3", "pool"]),
                   (image(96),))


@model("torchvision/ssdlite_backbone", "detection")
def ssdlite_backbone():
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large
    backbone = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None).backbone
    return Example(Pick(backbone, ["0", "1", "2", "3", "4", "5"]), (image(160),))


def segmentation(name, size):
    @model("torchvision/" + name, "segmentation")
    def make():
        import torchvision
        net = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None)
        return Example(Pick(net, ["out"]), (image(size),))


segmentation("lraspp_mobilenet_v3_large", 96)
segmentation("deeplabv3_mobilenet_v3_large", 96)
segmentation("fcn_resnet50", 64)


@model("torchvision/raft_small", "optical flow")
def raft_small():
    from torchvision.models.optical_flow import raft_small as raft

    class Flow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = raft(weights=None)

        def forward(self, first, second):
            return self.net(first, second, num_flow_updates=3)[-1]
    return Example(Flow(), (image(128), image(128)))


# ---- Text ----

SMALL = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=512)


def tokens(length, batch=1, vocabulary=512):
    return torch.randint(3, vocabulary, (batch, length))


def text_inputs(length, batch=1, masked=True):
    ids = tokens(length, batch)
    out = {"input_ids": ids}
    if masked:
        mask = torch.ones_like(ids)
        mask[-1, length - 2:] = 0
        out["attention_mask"] = mask
    return out


def text(module, names, masked=True, dynamic=False, length=16):
    picked = Pick(module, names)
    if not dynamic:
        return Example(picked, kwargs=text_inputs(length, masked=masked))
    batch, sequence = Dim("batch", min=1, max=8), Dim("sequence", min=4, max=64)
    inputs = text_inputs(length, 2, masked)
    return Example(picked, kwargs=inputs, dynamic_shapes={"kwargs": {name: {0: batch, 1: sequence} for name in inputs}},
                   other_calls=[((), text_inputs(23, 3, masked))])


def encoder(name, config, cls, dynamic=False, options=None):
    @model("transformers/" + name, "encoder")
    def make():
        import transformers
        made = getattr(transformers, config)(**{**SMALL, **(options or {})})
        return text(getattr(transformers, cls)(made), ["last_hidden_state"], dynamic=dynamic)


encoder("bert", "BertConfig", "BertModel", dynamic=True)
encoder("roberta", "RobertaConfig", "RobertaModel")
encoder("electra", "ElectraConfig", "ElectraModel", options=dict(embedding_size=64))
encoder("deberta_v2", "DebertaV2Config", "DebertaV2Model", options=dict(relative_attention=True, pos_att_type=["c2p", "p2c"]))
encoder("albert", "AlbertConfig", "AlbertModel", options=dict(embedding_size=32))
encoder("modernbert", "ModernBertConfig", "ModernBertModel", options=dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2))


@model("transformers/distilbert", "encoder")
def distilbert():
    import transformers
    config = transformers.DistilBertConfig(dim=64, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=512)
    return text(transformers.DistilBertModel(config), ["last_hidden_state"], dynamic=True)


def decoder(name, config, cls, dynamic=False, options=None, small=SMALL):
    @model("transformers/" + name, "decoder")
    def make():
        import transformers
        made = getattr(transformers, config)(**{**small, **(options or {})})
        made.use_cache = False
        return text(getattr(transformers, cls)(made), ["logits"], dynamic=dynamic)


GROUPED = dict(num_key_value_heads=2)
decoder("gpt2", "GPT2Config", "GPT2LMHeadModel", dynamic=True,
        small=dict(n_embd=64, n_layer=2, n_head=4, vocab_size=512, n_positions=128))
decoder("llama", "LlamaConfig", "LlamaForCausalLM", dynamic=True, options=GROUPED)
decoder("mistral", "MistralConfig", "MistralForCausalLM", dynamic=True, options=GROUPED)
decoder("qwen2", "Qwen2Config", "Qwen2ForCausalLM", dynamic=True, options=GROUPED)
decoder("qwen3", "Qwen3Config", "Qwen3ForCausalLM", options=dict(head_dim=16, **GROUPED))
decoder("gemma", "GemmaConfig", "GemmaForCausalLM", options=dict(head_dim=16, **GROUPED))
decoder("gemma2", "Gemma2Config", "Gemma2ForCausalLM", options=dict(head_dim=16, **GROUPED))
decoder("phi", "PhiConfig", "PhiForCausalLM")
decoder("gpt_neox", "GPTNeoXConfig", "GPTNeoXForCausalLM")
decoder("opt", "OPTConfig", "OPTForCausalLM", small=dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                                         ffn_dim=128, vocab_size=512, word_embed_proj_dim=64))
decoder("falcon", "FalconConfig", "FalconForCausalLM")
decoder("bloom", "BloomConfig", "BloomForCausalLM", small=dict(hidden_size=64, n_layer=2, n_head=4, vocab_size=512))


@model("transformers/llama_cache", "decoder")
def llama_cache():
    import transformers
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache
    config = transformers.LlamaConfig(**SMALL, **GROUPED)
    net = transformers.LlamaForCausalLM(config)
    net.generation_config = transformers.GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=32,
        cache_config={"batch_size": 1, "max_cache_len": 32, "device": "cpu"})
    return Example(TorchExportableModuleWithStaticCache(net), (),
                   {"input_ids": tokens(1), "cache_position": torch.tensor([3])})


@model("transformers/mamba", "state-space")
def mamba():
    import transformers
    config = transformers.MambaConfig(hidden_size=64, num_hidden_layers=2, vocab_size=512, state_size=8, use_cache=False)
    return text(transformers.MambaForCausalLM(config), ["logits"], masked=False)


@model("transformers/mamba2", "state-space")
def mamba2():
    import transformers
    config = transformers.Mamba2Config(hidden_size=64, num_hidden_layers=2, vocab_size=512, state_size=8, num_heads=8,
                                       head_dim=16, n_groups=1, chunk_size=8, use_cache=False)
    return text(transformers.Mamba2ForCausalLM(config), ["logits"], masked=False)


def encoder_decoder(name, config, cls, **options):
    @model("transformers/" + name, "encoder-decoder")
    def make():
        import transformers
        made = getattr(transformers, config)(**options)
        made.use_cache = False
        return Example(Pick(getattr(transformers, cls)(made), ["logits"]),
                       kwargs={"input_ids": tokens(12), "decoder_input_ids": tokens(7)})


encoder_decoder("t5", "T5Config", "T5ForConditionalGeneration", d_model=64, d_ff=128, num_layers=2, num_heads=4, d_kv=16,
                vocab_size=512)
encoder_decoder("bart", "BartConfig", "BartForConditionalGeneration", d_model=64, encoder_layers=2, decoder_layers=2,
                encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128,
                vocab_size=512)


# ---- Speech ----

def speech(name, config, cls, **options):
    @model("transformers/" + name, "speech")
    def make():
        import transformers
        made = getattr(transformers, config)(**{**SMALL, "num_feat_extract_layers": 3, "conv_dim": (32, 32, 32),
                                                "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3),
                                                "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, **options})
        return Example(Pick(getattr(transformers, cls)(made), ["last_hidden_state"]), (torch.randn(1, 1600),))


speech("wav2vec2", "Wav2Vec2Config", "Wav2Vec2Model")
speech("hubert", "HubertConfig", "HubertModel")


@model("transformers/whisper", "speech")
def whisper():
    import transformers
    config = transformers.WhisperConfig(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                                        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=512,
                                        num_mel_bins=20, max_source_positions=50, pad_token_id=0, bos_token_id=1,
                                        eos_token_id=2, decoder_start_token_id=1, use_cache=False)
    return Example(Pick(transformers.WhisperForConditionalGeneration(config), ["logits"]),
                   kwargs={"input_features": torch.randn(1, 20, 100), "decoder_input_ids": tokens(5)})


# ---- Several kinds of input, other vision ----

VISION = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=32, patch_size=8)


@model("transformers/clip", "multimodal")
def clip():
    import transformers
    config = transformers.CLIPConfig(text_config={**SMALL, "max_position_embeddings": 32, "eos_token_id": 2}, vision_config=VISION,
                                     projection_dim=32)
    return Example(Pick(transformers.CLIPModel(config), ["logits_per_image", "text_embeds", "image_embeds"]),
                   kwargs={"input_ids": tokens(9, 2), "pixel_values": image(32, 2), "attention_mask": torch.ones(2, 9, dtype=torch.int64)})


@model("transformers/siglip", "multimodal")
def siglip():
    import transformers
    config = transformers.SiglipConfig(text_config={**SMALL, "max_position_embeddings": 16}, vision_config=VISION)
    return Example(Pick(transformers.SiglipModel(config), ["logits_per_image"]),
                   kwargs={"input_ids": tokens(16, 2), "pixel_values": image(32, 2)})


@model("transformers/blip", "multimodal")
def blip():
    import transformers
    config = transformers.BlipConfig(text_config={**SMALL, "max_position_embeddings": 32}, vision_config=VISION, projection_dim=32)
    return Example(Pick(transformers.BlipModel(config), ["logits_per_image"]),
                   kwargs={"input_ids": tokens(9, 2), "pixel_values": image(32, 2), "attention_mask": torch.ones(2, 9, dtype=torch.int64)})


@model("transformers/dinov2", "classification")
def dinov2():
    import transformers
    config = transformers.Dinov2Config(**{**VISION, "mlp_ratio": 2})
    return Example(Pick(transformers.Dinov2Model(config), ["last_hidden_state"]), (image(32),))


@model("transformers/segformer", "segmentation")
def segformer():
    import transformers
    config = transformers.SegformerConfig(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 40, 64], decoder_hidden_size=64)
    return Example(Pick(transformers.SegformerForSemanticSegmentation(config), ["logits"]), (image(64),))


# ---- Plain PyTorch modules that people export ----

@model("torch/transformer_encoder", "encoder")
def transformer_encoder():
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    net = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return Example(net, (torch.randn(2, 10, 64),), dynamic_shapes=({0: Dim("batch", max=16), 1: Dim("length", min=2, max=64)},),
                   other_calls=[((torch.randn(3, 17, 64),), {})])


@model("torch/lstm", "speech")
def lstm():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(20, 32, num_layers=2, bidirectional=True, batch_first=True)
            self.out = torch.nn.Linear(64, 12)

        def forward(self, x):
            return torch.log_softmax(self.out(self.lstm(x)[0]), -1)
    return Example(Net(), (torch.randn(2, 12, 20),), dynamic_shapes=({0: Dim("batch", max=16)},),
                   other_calls=[((torch.randn(5, 12, 20),), {})])
