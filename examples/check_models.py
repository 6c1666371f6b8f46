#!/usr/bin/env python3
"""Twenty real models: exported, compiled with Kiln, run, and compared with eager PyTorch by kiln.check_correctness.

    python examples/check_models.py [--only PATTERN] [--torch-compile]

With --torch-compile they are compared as torch.compile(model, backend="kiln") runs them. Needs torch, and of torchvision,
timm and transformers what is installed. Weights are random: nothing is downloaded. Language models have a small
configuration, pictures are small. The exit code is 0 when every model agrees.
"""
import argparse
import fnmatch
import sys
import time
import warnings

import torch

import kiln


def picture(size=64):
    return (torch.randn(1, 3, size, size),)


def lively(module, size=64):
    """Random weights that let something through: statistics of real batches, no head of zeros. Else results would be next
    to nothing, and whatever is computed would agree."""
    for weight in module.parameters():
        if weight.dim() > 1 and not weight.any():
            torch.nn.init.normal_(weight, std=0.02)
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            part.momentum = None  # the plain average
    module.train()
    with torch.no_grad():
        for _ in range(2):
            module(torch.randn(4, 3, size, size))
    return module


def torchvision_model(name, **options):
    import torchvision

    return lively(torchvision.models.get_model(name, weights=None, **options)), picture(), {}


def timm_model(name, **options):
    import timm

    return lively(timm.create_model(name, pretrained=False, **options)), picture(options.get("img_size", 64)), {}


def transformers_model(kind, **options):
    import transformers

    small = dict(vocab_size=256, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    config = getattr(transformers, kind + "Config")(**{**small, **options})
    model = getattr(transformers, kind + "Model")(config)
    tokens = torch.randint(0, 256, (1, 16))
    return model, (), {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def decoder(kind, **options):
    model, args, kwargs = transformers_model(kind, **options)
    model.config.use_cache = False
    return model, args, kwargs


def transformer_encoder():
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(2, 10, 64),), {}


def lstm():
    return torch.nn.LSTM(32, 64, 2, batch_first=True), (torch.randn(2, 7, 32),), {}


MODELS = {
    "torchvision/resnet18": lambda: torchvision_model("resnet18"),
    "torchvision/mobilenet_v2": lambda: torchvision_model("mobilenet_v2"),
    "torchvision/mobilenet_v3_small": lambda: torchvision_model("mobilenet_v3_small"),
    "torchvision/squeezenet1_1": lambda: torchvision_model("squeezenet1_1"),
    "torchvision/shufflenet_v2_x0_5": lambda: torchvision_model("shufflenet_v2_x0_5"),
    "torchvision/efficientnet_b0": lambda: torchvision_model("efficientnet_b0"),
    "torchvision/mnasnet0_5": lambda: torchvision_model("mnasnet0_5"),
    "torchvision/regnet_y_400mf": lambda: torchvision_model("regnet_y_400mf"),
    "timm/vit_tiny": lambda: timm_model("vit_tiny_patch16_224", img_size=64),
    "timm/mixer_s32": lambda: timm_model("mixer_s32_224", img_size=64),
    "timm/mobilenetv4_conv_small": lambda: timm_model("mobilenetv4_conv_small"),
    "transformers/bert": lambda: transformers_model("Bert"),
    "transformers/roberta": lambda: transformers_model("Roberta", max_position_embeddings=64),
    "transformers/electra": lambda: transformers_model("Electra", embedding_size=64),
    "transformers/albert": lambda: transformers_model("Albert", embedding_size=32),
    "transformers/gpt2": lambda: decoder("GPT2", n_embd=64, n_layer=2, n_head=4),
    "transformers/llama": lambda: decoder("Llama", num_key_value_heads=2),
    "transformers/qwen2": lambda: decoder("Qwen2", num_key_value_heads=2),
    "torch/transformer_encoder": transformer_encoder,
    "torch/lstm": lstm,
}


def compare_compiled(module, args, kwargs):
    """The model as torch.compile runs it, beside eager."""
    from torch.utils import _pytree

    from kiln._check import compare_tensors
    from kiln._dynamo import backend

    torch._dynamo.reset()
    with torch.no_grad():
        expected = _pytree.tree_leaves(module(*args, **kwargs))
        got = _pytree.tree_leaves(torch.compile(module, backend=backend)(*args, **kwargs))
        exact = _pytree.tree_leaves(module.double()(*(a.double() if a.is_floating_point() else a for a in args), **kwargs))
    if len(expected) != len(got):
        return False, float("inf"), f"{len(got)} results instead of {len(expected)}"
    rows = [compare_tensors(f"output {i}", g, e, x, None, None) for i, (g, e, x) in enumerate(zip(got, expected, exact))]
    problems = [row.problem for row in rows if row.problem]
    return not problems, max((row.largest for row in rows), default=0.0), "; ".join(problems)


def compare_packaged(module, args, kwargs):
    report = kiln.check_correctness(module, args, kwargs, raise_on_difference=False, quiet=True)
    text = "" if report.passed else report.text.splitlines()[0]
    rescued = sum(output.rescued for output in report.outputs)
    note = f"{rescued} judged by fp64" if rescued else ""
    return report.passed, max((output.largest for output in report.outputs), default=0.0), text or note


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="*", help="a pattern of names")
    parser.add_argument("--torch-compile", action="store_true", help="through torch.compile instead of torch.export")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    compare = compare_compiled if options.torch_compile else compare_packaged
    wrong = run = 0
    print(f"{'model':34} {'result':10} {'largest difference':>19} {'seconds':>8}", flush=True)
    for name, make in MODELS.items():
        if not fnmatch.fnmatch(name, f"*{options.only}*"):
            continue
        torch.manual_seed(0)
        started = time.perf_counter()
        try:
            module, args, kwargs = make()
        except ImportError as error:
            print(f"{name:34} {'skipped':10} {error}", flush=True)
            continue
        run += 1
        try:
            passed, largest, note = compare(module.eval(), args, kwargs)
            result = "match" if passed else "DIFFERENT"
        except Exception as error:  # whatever a library or the compiler raises: the others go on
            passed, largest, result, note = False, float("nan"), "FAILED", f"{type(error).__name__}: {error}".splitlines()[0]
        wrong += not passed
        print(f"{name:34} {result:10} {largest:19.3g} {time.perf_counter() - started:8.1f}  {note}".rstrip(), flush=True)
    print(f"{run - wrong} of {run} models agree with eager")
    return 1 if wrong or not run else 0


if __name__ == "__main__":
    sys.exit(main())
