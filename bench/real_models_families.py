"""Further models of real_models.py: one or two of each family that the first list does not have."""
import torch

from real_models_list import (Example, Pick, encoder_decoder, image, images, model, speech, text, timm_model, tokens,
                              torchvision_model)

# What makes a configuration small, whatever its class calls it.
SIZES = dict(hidden_size=64, d_model=64, n_embd=64, num_hidden_layers=2, num_layers=2, n_layer=2, n_layers=2,
             num_attention_heads=4, num_heads=4, n_head=4, n_heads=4, num_key_value_heads=2, head_dim=16, intermediate_size=128,
             ffn_dim=128, n_inner=128, dff=128, vocab_size=512, max_position_embeddings=128, n_positions=128, rotary_dim=8,
             num_experts=4, num_local_experts=4, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
             shared_expert_intermediate_size=32, embedding_size=32, sliding_window=8, pad_token_id=0, bos_token_id=1,
             eos_token_id=2, use_cache=False)


def small(name, **options):
    import transformers
    config = getattr(transformers, name)
    known = config()
    return config(**{**{key: size for key, size in SIZES.items() if hasattr(known, key)}, **options})


def with_head(name, kind, config, cls, dynamic=True, names=("logits",), masked=True, **options):
    @model("transformers/" + name, kind)
    def make():
        import transformers
        return text(getattr(transformers, cls)(small(config, **options)), list(names), masked=masked, dynamic=dynamic)


# ---- Decoders ----

with_head("mixtral", "experts", "MixtralConfig", "MixtralForCausalLM")
with_head("qwen2_moe", "experts", "Qwen2MoeConfig", "Qwen2MoeForCausalLM")
with_head("olmoe", "experts", "OlmoeConfig", "OlmoeForCausalLM", dynamic=False)
with_head("gptj", "decoder", "GPTJConfig", "GPTJForCausalLM")
with_head("codegen", "decoder", "CodeGenConfig", "CodeGenForCausalLM")
with_head("gpt_neo", "decoder", "GPTNeoConfig", "GPTNeoForCausalLM", attention_types=[[["global", "local"], 1]], window_size=8)
with_head("mpt", "decoder", "MptConfig", "MptForCausalLM", dynamic=False)
with_head("cohere", "decoder", "CohereConfig", "CohereForCausalLM")
with_head("cohere2", "decoder", "Cohere2Config", "Cohere2ForCausalLM")
with_head("gemma3", "decoder", "Gemma3TextConfig", "Gemma3ForCausalLM")
with_head("phi3", "decoder", "Phi3Config", "Phi3ForCausalLM", dynamic=False)
with_head("stablelm", "decoder", "StableLmConfig", "StableLmForCausalLM")
with_head("starcoder2", "decoder", "Starcoder2Config", "Starcoder2ForCausalLM")
with_head("granite", "decoder", "GraniteConfig", "GraniteForCausalLM")
with_head("olmo2", "decoder", "Olmo2Config", "Olmo2ForCausalLM")
with_head("biogpt", "decoder", "BioGptConfig", "BioGptForCausalLM")
with_head("ctrl", "decoder", "CTRLConfig", "CTRLLMHeadModel")
with_head("bitnet", "decoder", "BitNetConfig", "BitNetForCausalLM")
with_head("bamba", "state-space", "BambaConfig", "BambaForCausalLM", dynamic=False, mamba_d_state=8, mamba_n_heads=8, mamba_d_head=16,
          mamba_n_groups=1, mamba_chunk_size=8)

# ---- Encoders ----

with_head("mpnet", "encoder", "MPNetConfig", "MPNetForMaskedLM")
with_head("convbert", "encoder", "ConvBertConfig", "ConvBertForMaskedLM", dynamic=False)
with_head("fnet", "encoder", "FNetConfig", "FNetForMaskedLM", dynamic=False, masked=False)
with_head("mobilebert", "encoder", "MobileBertConfig", "MobileBertForMaskedLM", intra_bottleneck_size=32)
with_head("squeezebert", "encoder", "SqueezeBertConfig", "SqueezeBertForMaskedLM", dynamic=False, embedding_size=64)
with_head("roformer", "encoder", "RoFormerConfig", "RoFormerForMaskedLM", dynamic=False)
with_head("layoutlm", "encoder", "LayoutLMConfig", "LayoutLMForMaskedLM")
with_head("esm", "encoder", "EsmConfig", "EsmForMaskedLM", dynamic=False, mask_token_id=3)

# ---- Encoders with decoders ----

SIDES = dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
             encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=512)
encoder_decoder("m2m_100", "M2M100Config", "M2M100ForConditionalGeneration", **SIDES)
encoder_decoder("marian", "MarianConfig", "MarianMTModel", decoder_start_token_id=1, pad_token_id=0, **SIDES)
encoder_decoder("pegasus", "PegasusConfig", "PegasusForConditionalGeneration", **SIDES)
encoder_decoder("prophetnet", "ProphetNetConfig", "ProphetNetForConditionalGeneration", hidden_size=64, num_encoder_layers=2,
                num_decoder_layers=2, num_encoder_attention_heads=4, num_decoder_attention_heads=4, encoder_ffn_dim=128,
                decoder_ffn_dim=128, vocab_size=512)

# ---- Speech, time series ----

speech("wavlm", "WavLMConfig", "WavLMModel")
speech("unispeech", "UniSpeechConfig", "UniSpeechModel")


@model("transformers/speech2text", "speech")
def speech2text():
    import transformers
    config = transformers.Speech2TextConfig(**SIDES, input_feat_per_channel=20, conv_channels=32, max_source_positions=100,
                                            max_target_positions=64, use_cache=False)
    return Example(Pick(transformers.Speech2TextForConditionalGeneration(config), ["logits"]),
                   kwargs={"input_features": torch.randn(2, 40, 20), "decoder_input_ids": tokens(5, 2)})


@model("transformers/patchtst", "time series")
def patchtst():
    import transformers
    config = transformers.PatchTSTConfig(num_input_channels=3, context_length=32, patch_length=8, patch_stride=8,
                                         prediction_length=6, d_model=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64)
    net = Pick(transformers.PatchTSTForPrediction(config), ["prediction_outputs"])
    return Example(net, kwargs={"past_values": torch.randn(2, 32, 3)})


@model("transformers/time_series", "time series")
def time_series():
    import transformers
    config = transformers.TimeSeriesTransformerConfig(
        prediction_length=6, context_length=12, lags_sequence=[1, 2, 3], num_time_features=2, d_model=32, encoder_layers=2,
        decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32)
    return Example(Pick(transformers.TimeSeriesTransformerModel(config), ["last_hidden_state"]), kwargs={
        "past_values": torch.randn(2, 15), "past_time_features": torch.randn(2, 15, 2),
        "past_observed_mask": torch.ones(2, 15), "future_values": torch.randn(2, 6), "future_time_features": torch.randn(2, 6, 2)})


# ---- Images ----

def vision(name, kind, config, cls, size=64, names=("logits",), dynamic=False, **options):
    @model("transformers/" + name, kind)
    def make():
        import transformers
        made = getattr(transformers, config)(**options)
        example = images(Pick(getattr(transformers, cls)(made), list(names)), size, dynamic)
        if dynamic:
            example.dynamic_shapes = {"args": example.dynamic_shapes}
        return example


PATCHES = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64, patch_size=16)
vision("beit", "classification", "BeitConfig", "BeitForImageClassification", dynamic=True, use_relative_position_bias=True, **PATCHES)
vision("swinv2", "classification", "Swinv2Config", "Swinv2ForImageClassification", image_size=64, patch_size=4, embed_dim=16,
       depths=[1, 1, 1], num_heads=[2, 2, 2], window_size=4)
vision("focalnet", "classification", "FocalNetConfig", "FocalNetForImageClassification", image_size=64, embed_dim=16,
       depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64])
vision("glpn", "depth", "GLPNConfig", "GLPNForDepthEstimation", names=("predicted_depth",), depths=[1, 1, 1, 1],
       hidden_sizes=[16, 32, 40, 64], decoder_hidden_size=32)
vision("yolos", "detection", "YolosConfig", "YolosForObjectDetection", names=("logits", "pred_boxes"), num_detection_tokens=10,
       **{**PATCHES, "image_size": [64, 64]})
vision("swin2sr", "super-resolution", "Swin2SRConfig", "Swin2SRForImageSuperResolution", size=32, names=("reconstruction",),
       image_size=32, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4, upscale=2)


@model("transformers/llava", "multimodal")
def llava():
    import transformers
    config = transformers.LlavaConfig(
        vision_config=dict(model_type="clip_vision_model", hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                           num_attention_heads=2, image_size=32, patch_size=8, projection_dim=16),
        text_config=dict(model_type="llama", hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=512, use_cache=False), image_token_index=5)
    ids = torch.cat([torch.full((1, 16), 5), torch.randint(6, 500, (1, 7))], 1)
    return Example(Pick(transformers.LlavaForConditionalGeneration(config), ["logits"]),
                   kwargs={"input_ids": ids, "pixel_values": image(32), "attention_mask": torch.ones_like(ids)})


@model("torchvision/region_heads", "detection")
def region_heads():
    from torchvision import ops

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pyramid = ops.FeaturePyramidNetwork([8, 8], 16)
            self.shift, self.deformed = torch.nn.Conv2d(8, 18, 3, padding=1), ops.DeformConv2d(8, 8, 3, padding=1)
            self.score = torch.nn.Linear(16 * 9, 1)

        def forward(self, x, boxes):
            fine = self.deformed(x, self.shift(x)).relu()
            levels = self.pyramid({"0": fine, "1": torch.nn.functional.max_pool2d(fine, 2)})
            picked = ops.roi_align(levels["0"], [boxes], (3, 3), 0.5, 2, aligned=True)
            coarse = ops.roi_align(levels["1"], [boxes], (3, 3), 0.25)
            score = self.score((picked + coarse).flatten(1))[:, 0]
            kept = ops.nms(boxes, score, 0.3)
            return boxes[kept], score[kept], ops.roi_pool(levels["0"], [boxes[kept]], 2, 0.5), ops.box_iou(boxes, boxes)
    corners = torch.rand(12, 2) * 20
    return Example(Net(), (torch.randn(1, 8, 16, 16), torch.cat([corners, corners + 1 + torch.rand(12, 2) * 10], 1)))


torchvision_model("googlenet", 64, init_weights=False, aux_logits=False)
torchvision_model("mobilenet_v2", 64, dynamic=True)
torchvision_model("alexnet", 96)
for name, size in [("cait_xxs24_224", 224), ("coat_lite_tiny", 224), ("crossvit_tiny_240", 240), ("eca_nfnet_l0", 64),
                   ("fastvit_t8", 64), ("gmlp_s16_224", 224), ("mambaout_femto", 64), ("mobilenetv4_conv_small", 64),
                   ("mvitv2_tiny", 224), ("pit_ti_224", 224), ("res2net50_26w_4s", 64), ("resnest14d", 64), ("skresnet18", 64),
                   ("starnet_s1", 64)]:
    timm_model(name, size)
