"""The models of real_models.py: each makes (module, [arguments of the export, arguments of another size], dynamic shapes).

Configurations are small where the published one is large: the operators and their composition are what counts.
"""
import torch
from torch.export import Dim

AUTO = Dim.AUTO


class Entry:
    def __init__(self, kind, name, make):
        self.kind, self.name, self.make = kind, name, make


MODELS = []


def model(kind, name):
    def register(make):
        MODELS.append(Entry(kind, name, make))
        return make
    return register


class Pick(torch.nn.Module):
    """Calls a model with keyword arguments by position and gives the named fields of its result as a tuple."""

    def __init__(self, inner, names, fields, **fixed):
        super().__init__()
        self.inner, self.names, self.fields, self.fixed = inner, names, fields, fixed

    def forward(self, *args):
        out = self.inner(**dict(zip(self.names, args)), **self.fixed)
        return tuple(out[field] for field in self.fields)


# ---- images: torchvision ----------------------------------------------------------------------------------------------

def image(n, size):
    return (torch.randn(n, 3, size, size),)


def images(module, size, batch=False):
    if not batch:
        return module, [image(1, size)], None
    return module, [image(2, size), image(5, size)], ({0: AUTO},)


def vision(name, size=64, kind="classification", batch=False, **options):
    @model(kind, name)
    def make():
        import torchvision
        return images(getattr(torchvision.models, name)(weights=None, **options), size, batch)


vision("resnet18", batch=True)
vision("mobilenet_v3_small", batch=True)
vision("efficientnet_b0")
vision("convnext_tiny")
vision("swin_t")
vision("densenet121")
vision("regnet_y_400mf", batch=True)
vision("shufflenet_v2_x0_5", batch=True)
vision("squeezenet1_1")
vision("mnasnet0_5")
vision("googlenet", init_weights=False, aux_logits=False)


@model("classification", "vit_small")
def vit_small():
    from torchvision.models import VisionTransformer
    return images(VisionTransformer(image_size=64, patch_size=16, num_layers=4, num_heads=4, hidden_dim=128,
                                    mlp_dim=256), 64, True)


@model("detection", "resnet18_fpn")
def resnet18_fpn():
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    class Levels(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = resnet_fpn_backbone(backbone_name="resnet18", weights=None)

        def forward(self, x):
            return tuple(self.backbone(x).values())
    return images(Levels(), 96)


@model("detection", "mobilenet_fpn")
def mobilenet_fpn():
    from torchvision.models.detection.backbone_utils import mobilenet_backbone

    class Levels(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = mobilenet_backbone(backbone_name="mobilenet_v3_large", weights=None, fpn=True)

        def forward(self, x):
            return tuple(self.backbone(x).values())
    return images(Levels(), 96)


@model("detection", "retinanet_head")
def retinanet_head():
    from torchvision.models.detection.retinanet import RetinaNetHead

    class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = RetinaNetHead(32, 3, 4)

        def forward(self, a, b):
            out = self.head([a, b])
            return out["cls_logits"], out["bbox_regression"]
    return Head(), [(torch.randn(1, 32, 16, 16), torch.randn(1, 32, 8, 8))], None


def segmentation(name):
    @model("segmentation", name)
    def make():
        import torchvision
        module = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=5)
        return Pick(module, ["x"], ["out"]), [image(1, 64)], None


segmentation("deeplabv3_mobilenet_v3_large")
segmentation("fcn_resnet50")
segmentation("lraspp_mobilenet_v3_large")


@model("optical flow", "raft_small")
def raft_small():
    from torchvision.models.optical_flow import raft_small as raft

    class Flow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.raft = raft(weights=None)

        def forward(self, a, b):
            return self.raft(a, b, num_flow_updates=2)[-1]
    return Flow(), [image(1, 128) + image(1, 128)], None


@model("video", "r3d_small")
def r3d_small():
    from torchvision.models.video import r3d_18
    return r3d_18(weights=None, num_classes=7), [(torch.randn(1, 3, 4, 32, 32),)], None


# ---- images: timm -----------------------------------------------------------------------------------------------------

def timm_model(name, size=64, batch=False, **options):
    @model("timm", "timm_" + name)
    def make():
        import timm
        return images(timm.create_model(name, pretrained=False, num_classes=10, **options), size, batch)


timm_model("deit_tiny_patch16_224", img_size=64, depth=3, batch=True)
timm_model("mixer_s32_224", img_size=64, num_blocks=3)
timm_model("poolformer_s12")
timm_model("mobilevit_xxs")
timm_model("edgenext_xx_small")
timm_model("ghostnet_050", batch=True)
timm_model("resnest14d")
timm_model("tf_efficientnetv2_b0")
timm_model("levit_128s", size=224)
timm_model("pvt_v2_b0")


# ---- text -------------------------------------------------------------------------------------------------------------

VOCABULARY = 99


def tokens(n, length):
    return torch.randint(2, VOCABULARY, (n, length))


def small(config_class, **more):
    common = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                  intermediate_size=64, max_position_embeddings=128)
    return config_class(**(common | more))


def encoder(name, config, model_class, dynamic=True, **more):
    @model("encoder", name)
    def make():
        import transformers
        module = getattr(transformers, model_class)(small(getattr(transformers, config), **more))
        wrapped = Pick(module, ["input_ids"], ["last_hidden_state"])
        if not dynamic:
            return wrapped, [(tokens(2, 12),)], None
        return wrapped, [(tokens(2, 12),), (tokens(3, 20),)], (({0: AUTO, 1: AUTO},),)


encoder("bert", "BertConfig", "BertModel")
encoder("roberta", "RobertaConfig", "RobertaModel", dynamic=False)
encoder("distilbert", "DistilBertConfig", "DistilBertModel", dim=32, hidden_dim=64, n_layers=2, n_heads=4)
encoder("electra", "ElectraConfig", "ElectraModel", embedding_size=32)
encoder("albert", "AlbertConfig", "AlbertModel", embedding_size=16)
encoder("deberta_v2", "DebertaV2Config", "DebertaV2Model", dynamic=False, relative_attention=True,
        pos_att_type=["p2c", "c2p"])
encoder("mpnet", "MPNetConfig", "MPNetModel", dynamic=False)


def decoder(name, config, model_class, dynamic=True, **more):
    @model("decoder", name)
    def make():
        import transformers
        module = getattr(transformers, model_class)(small(getattr(transformers, config), **more))
        wrapped = Pick(module, ["input_ids"], ["logits"], use_cache=False)
        if not dynamic:
            return wrapped, [(tokens(1, 12),)], None
        return wrapped, [(tokens(2, 12),), (tokens(3, 20),)], (({0: AUTO, 1: AUTO},),)


decoder("gpt2", "GPT2Config", "GPT2LMHeadModel", n_embd=32, n_layer=2, n_head=4, n_positions=128)
decoder("llama", "LlamaConfig", "LlamaForCausalLM", num_key_value_heads=2)
decoder("mistral", "MistralConfig", "MistralForCausalLM", num_key_value_heads=2, sliding_window=8)
decoder("qwen2", "Qwen2Config", "Qwen2ForCausalLM", num_key_value_heads=2)
decoder("gemma", "GemmaConfig", "GemmaForCausalLM", num_key_value_heads=1, head_dim=8)
decoder("opt", "OPTConfig", "OPTForCausalLM", ffn_dim=64, word_embed_proj_dim=32)
decoder("phi", "PhiConfig", "PhiForCausalLM")
decoder("gpt_neox", "GPTNeoXConfig", "GPTNeoXForCausalLM")
decoder("bloom", "BloomConfig", "BloomForCausalLM", dynamic=False, n_layer=2, n_head=4)


class OneToken(torch.nn.Module):
    """A decoding step: tokens and the keys and values so far -> logits and the longer keys and values."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, input_ids, keys, values):
        from transformers import DynamicCache
        cache = DynamicCache()
        for layer, (k, v) in enumerate(zip(keys, values)):
            cache.update(k, v, layer)
        out = self.inner(input_ids=input_ids, past_key_values=cache, use_cache=True)
        layers = out.past_key_values.layers
        return out.logits, [layer.keys for layer in layers], [layer.values for layer in layers]


def with_cache(name, config, model_class, heads, **more):
    @model("decoder, cache", name)
    def make():
        import transformers
        module = OneToken(getattr(transformers, model_class)(small(getattr(transformers, config), **more)))

        def step(n, length):
            return (tokens(n, 1), [torch.randn(n, heads, length, 8) for _ in range(2)],
                    [torch.randn(n, heads, length, 8) for _ in range(2)])
        past = [{0: AUTO, 2: AUTO}] * 2
        return module, [step(2, 6), step(3, 11)], ({0: AUTO}, past, past)


with_cache("gpt2_cache", "GPT2Config", "GPT2LMHeadModel", 4, n_embd=32, n_layer=2, n_head=4, n_positions=128)
with_cache("llama_cache", "LlamaConfig", "LlamaForCausalLM", 2, num_key_value_heads=2)


@model("encoder-decoder", "t5")
def t5():
    import transformers
    config = transformers.T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                                   decoder_start_token_id=0)
    module = transformers.T5ForConditionalGeneration(config)
    wrapped = Pick(module, ["input_ids", "decoder_input_ids"], ["logits"], use_cache=False)
    return wrapped, [(tokens(2, 12), tokens(2, 7))], None


@model("encoder-decoder", "bart")
def bart():
    import transformers
    config = transformers.BartConfig(vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2,
                                     encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
                                     decoder_ffn_dim=64, max_position_embeddings=128)
    module = transformers.BartForConditionalGeneration(config)
    wrapped = Pick(module, ["input_ids", "decoder_input_ids"], ["logits"], use_cache=False)
    return wrapped, [(tokens(2, 12), tokens(2, 7))], None


@model("state space", "mamba")
def mamba():
    import transformers
    config = transformers.MambaConfig(vocab_size=VOCABULARY, hidden_size=32, state_size=8, num_hidden_layers=2)
    wrapped = Pick(transformers.MambaForCausalLM(config), ["input_ids"], ["logits"], use_cache=False)
    return wrapped, [(tokens(2, 12),)], None


# ---- speech -----------------------------------------------------------------------------------------------------------

def speech(name, config, model_class):
    @model("speech", name)
    def make():
        import transformers
        made = small(getattr(transformers, config), conv_dim=(32, 32, 32), conv_kernel=(10, 3, 3),
                     conv_stride=(5, 2, 2), num_feat_extract_layers=3, num_conv_pos_embeddings=16,
                     num_conv_pos_embedding_groups=4)
        wrapped = Pick(getattr(transformers, model_class)(made), ["input_values"], ["last_hidden_state"])
        return wrapped, [(torch.randn(2, 1200),)], None


speech("wav2vec2", "Wav2Vec2Config", "Wav2Vec2Model")
speech("hubert", "HubertConfig", "HubertModel")


def whisper_config():
    import transformers
    return transformers.WhisperConfig(vocab_size=VOCABULARY, num_mel_bins=16, encoder_layers=2, decoder_layers=2,
                                      encoder_attention_heads=4, decoder_attention_heads=4, d_model=32,
                                      encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=30,
                                      max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                      decoder_start_token_id=1, begin_suppress_tokens=None)


@model("speech", "whisper_encoder")
def whisper_encoder():
    import transformers
    module = transformers.WhisperModel(whisper_config()).get_encoder()
    return Pick(module, ["input_features"], ["last_hidden_state"]), [(torch.randn(2, 16, 60),)], None


@model("speech", "whisper_decoder")
def whisper_decoder():
    import transformers
    module = transformers.WhisperModel(whisper_config()).get_decoder()
    wrapped = Pick(module, ["input_ids", "encoder_hidden_states"], ["last_hidden_state"], use_cache=False)
    return wrapped, [(tokens(2, 7), torch.randn(2, 30, 32))], None


# ---- text and images --------------------------------------------------------------------------------------------------

def two_towers(name, prefix, text_more, fields):
    @model("multimodal", name)
    def make():
        import transformers
        text = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                    intermediate_size=64, max_position_embeddings=32) | text_more
        seen = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32,
                    patch_size=8)
        config = getattr(transformers, prefix + "Config")(text_config=text, vision_config=seen, projection_dim=16)
        module = getattr(transformers, prefix + "Model")(config)
        wrapped = Pick(module, ["input_ids", "pixel_values"], fields)
        return wrapped, [(tokens(2, 9), torch.randn(2, 3, 32, 32))], None


two_towers("clip", "CLIP", {"eos_token_id": 98, "bos_token_id": 97}, ["text_embeds", "image_embeds", "logits_per_text"])
two_towers("siglip", "Siglip", {"max_position_embeddings": 9}, ["text_embeds", "image_embeds", "logits_per_text"])
two_towers("blip", "Blip", {"bos_token_id": 97, "eos_token_id": 98}, ["text_embeds", "image_embeds", "logits_per_text"])
