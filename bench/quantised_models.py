#!/usr/bin/env python3
"""Quantises models with torchao, exports them, and runs `kiln check` on what PyTorch gives.

    tools/build.sh release
    python bench/quantised_models.py CACHE_DIR [--only PATTERN]… [--kiln build/release/bin/kiln] [--backends interpret,loops,compiled]
                                     [--list] [--again]

Needs torch, torchvision, torchao and transformers. Weights are random (nothing is downloaded) and drawn from fixed seeds.
CACHE_DIR keeps a case directory for each program (tests/README.md); --again makes them anew.

A value that lies between two steps of a quantiser may fall on either side when a sum before it is rounded in another order;
in a deep model that shows as a difference of some steps further on. The tolerance of each case is therefore twice what PyTorch's
own result moves by when the results of its products, sums and functions are moved by at most one rounding error (six times, from
fixed seeds), and never less than a few rounding errors of the result's type.
"""
import argparse
import copy
import json
import logging
import os
import pathlib
import subprocess
import sys
import warnings

# PyTorch's oneDNN uses every instruction the processor claims to have; in virtual machines some of them are not there.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_VNNI")
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "bench/measuring")]
from chosen import by_pattern  # noqa: E402
from save_model import save_model  # noqa: E402

PROGRAMS = {}
NOT_RUN = {("int8_weights_bert_base", "loops")}  # the loop interpreter had not finished it after 280 s
SECONDS = 900


def program(make):
    """A function that gives (module that runs eagerly, exported program, example inputs)."""
    PROGRAMS[make.__name__] = make
    return make


# ---- The models, before they are quantised ----

class Mlp(nn.Module):
    def __init__(self, inputs=64, hidden=128, outputs=32):
        super().__init__()
        self.up, self.down = nn.Linear(inputs, hidden), nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))


class Convolutions(nn.Module):
    """Convolution, batch normalisation and ReLU with a residual connection, pooling and a linear layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.depthwise = nn.Conv2d(16, 16, 3, stride=2, groups=16)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.first(x)
        x = torch.relu(self.second(x) + x)
        x = torch.nn.functional.max_pool2d(self.depthwise(x), 2)
        return self.head(torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out, self.norm = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Tokens(nn.Module):
    """An embedding, attention and a head: the smallest language model."""

    def __init__(self, words=96, width=64):
        super().__init__()
        self.embed, self.block, self.mlp = nn.Embedding(words, width), Attention(width), Mlp(width, 128, width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.block(self.embed(tokens))
        return self.head(x + self.mlp(x))


def seeded(make, dtype=torch.float32):
    torch.manual_seed(0)
    model = make().eval().to(dtype)
    for module in model.modules():  # statistics that do something
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model


def random_input(*sizes, dtype=torch.float32, seed=1):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


def random_tokens(*sizes, below=96, seed=1):
    return torch.randint(0, below, sizes, generator=torch.Generator().manual_seed(seed))


def resnet18():
    import torchvision
    return torchvision.models.resnet18(weights=None)


class BertOutput(nn.Module):
    def __init__(self, **sizes):
        super().__init__()
        from transformers import BertConfig, BertModel
        self.bert = BertModel(BertConfig(attn_implementation="sdpa", **sizes))

    def forward(self, tokens, mask):
        result = self.bert(input_ids=tokens, attention_mask=mask)
        return result.last_hidden_state, result.pooler_output


def small_bert():
    return BertOutput(vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                      max_position_embeddings=64)


def base_bert():
    return BertOutput()


def bert_inputs(length=12):
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, length - 3:] = 0
    return random_tokens(2, length, below=200), mask


# ---- Quantised by pt2e: observers in an exported program, then quantize and dequantize operators ----

def x86(dynamic=False, qat=False):
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86_quantizer
    config = x86_quantizer.get_default_x86_inductor_quantization_config(is_dynamic=dynamic, is_qat=qat)
    return x86_quantizer.X86InductorQuantizer().set_global(config)


def arm(dynamic=False):
    from torchao.quantization.pt2e.quantizer import arm_inductor_quantizer as arm_quantizer
    config = arm_quantizer.get_default_arm_inductor_quantization_config(is_dynamic=dynamic)
    return arm_quantizer.ArmInductorQuantizer().set_global(config)


def xnnpack(per_channel=True, dynamic=False):
    from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack_quantizer
    config = xnnpack_quantizer.get_symmetric_quantization_config(is_per_channel=per_channel, is_dynamic=dynamic)
    return xnnpack_quantizer.XNNPACKQuantizer().set_global(config)


def pt2e(model, args, quantizer, calibration=(), dynamic_shapes=None, qat=False, reference=False):
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
    with torch.no_grad():
        # strict: quantisers find a module that is used twice (a ReLU of a ResNet) only in what Dynamo captures
        exported = torch.export.export(model, args, dynamic_shapes=dynamic_shapes, strict=True).module()
        prepared = (prepare_qat_pt2e if qat else prepare_pt2e)(exported, quantizer)
        for inputs in [args, *calibration]:
            prepared(*inputs)
        if qat:
            move_exported_model_to_eval(prepared)
        converted = convert_pt2e(prepared, use_reference_representation=reference)
        return converted, torch.export.export(converted, args, dynamic_shapes=dynamic_shapes), args


@program
def x86_static_convolutions():
    args = (random_input(2, 3, 32, 32),)
    return pt2e(seeded(Convolutions), args, x86(), [(random_input(2, 3, 32, 32, seed=2),)])


@program
def x86_qat_convolutions():
    args = (random_input(2, 3, 32, 32),)
    return pt2e(seeded(Convolutions), args, x86(qat=True), qat=True)


@program
def x86_static_resnet18():
    args = (random_input(1, 3, 64, 64),)
    return pt2e(seeded(resnet18), args, x86())


@program
def x86_static_attention():
    return pt2e(seeded(Attention), (random_input(2, 9, 64),), x86())


@program
def x86_static_bert():
    return pt2e(seeded(small_bert), bert_inputs(), x86())


@program
def x86_dynamic_bert():
    return pt2e(seeded(small_bert), bert_inputs(), x86(dynamic=True))


@program
def x86_dynamic_mlp():
    return pt2e(seeded(Mlp), (random_input(4, 64),), x86(dynamic=True))


@program
def x86_dynamic_mlp_any_batch():
    return pt2e(seeded(Mlp), (random_input(4, 64),), x86(dynamic=True),
                dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=64)},))


@program
def arm_static_mlp():
    return pt2e(seeded(Mlp), (random_input(4, 64),), arm())


@program
def arm_dynamic_mlp():
    return pt2e(seeded(Mlp), (random_input(4, 64),), arm(dynamic=True))


@program
def xnnpack_static_convolutions():
    return pt2e(seeded(Convolutions), (random_input(2, 3, 32, 32),), xnnpack())


@program
def xnnpack_per_tensor_convolutions():
    return pt2e(seeded(Convolutions), (random_input(2, 3, 32, 32),), xnnpack(per_channel=False))


@program
def xnnpack_dynamic_attention():
    return pt2e(seeded(Attention), (random_input(2, 9, 64),), xnnpack(dynamic=True))


@program
def xnnpack_reference_mlp():
    return pt2e(seeded(Mlp), (random_input(4, 64),), xnnpack(per_channel=False), reference=True)


@program
def quantised_embedding():
    from torchao.quantization.pt2e.quantizer.embedding_quantizer import EmbeddingQuantizer
    return pt2e(seeded(Tokens), (random_tokens(2, 7),), EmbeddingQuantizer())


# ---- Quantised by quantize_: weights become tensor subclasses ----

def torchao_config(name, *args, **kwargs):
    import torchao.quantization as quantization
    return getattr(quantization, name)(*args, **kwargs)


def groups(size):
    from torchao.quantization.granularity import PerGroup
    return PerGroup(size)


def quantised(model, args, config, unwrap=False, dynamic_shapes=None, filter_fn=None, decompose=False):
    from torchao.quantization import quantize_
    from torchao.utils import unwrap_tensor_subclass
    with torch.no_grad():
        quantize_(model, config, **({"filter_fn": filter_fn} if filter_fn else {}))
        if unwrap:
            model = unwrap_tensor_subclass(model)
        exported = torch.export.export(model, args, dynamic_shapes=dynamic_shapes)
        return model, exported.run_decompositions() if decompose else exported, args


@program
def int8_weights_mlp():
    return quantised(seeded(Mlp), (random_input(4, 64),), torchao_config("Int8WeightOnlyConfig"))


@program
def int8_weights_mlp_bf16():
    return quantised(seeded(Mlp, torch.bfloat16), (random_input(4, 64, dtype=torch.bfloat16),),
                     torchao_config("Int8WeightOnlyConfig"))


@program
def int8_weights_unwrapped_bert():
    return quantised(seeded(small_bert), bert_inputs(), torchao_config("Int8WeightOnlyConfig"), unwrap=True)


@program
def int8_activations_bert():
    return quantised(seeded(small_bert), bert_inputs(), torchao_config("Int8DynamicActivationInt8WeightConfig"))


@program
def int8_activations_mlp_any_batch():
    return quantised(seeded(Mlp), (random_input(4, 64),), torchao_config("Int8DynamicActivationInt8WeightConfig"),
                     dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=64)},))


@program
def int4_weights_tokens():
    return quantised(seeded(Tokens), (random_tokens(2, 7),), torchao_config("IntxWeightOnlyConfig", torch.int4, groups(32)))


@program
def int4_weights_and_embedding():
    return quantised(seeded(Tokens), (random_tokens(2, 7),), torchao_config("IntxWeightOnlyConfig", torch.int4, groups(16)),
                     filter_fn=lambda module, name: isinstance(module, (nn.Linear, nn.Embedding)))


@program
def int2_weights_mlp():
    return quantised(seeded(Mlp), (random_input(4, 64),), torchao_config("IntxWeightOnlyConfig", torch.int2, groups(32)))


@program
def int8_activations_int4_weights_bert():
    return quantised(seeded(small_bert), bert_inputs(),
                     torchao_config("Int8DynamicActivationIntxWeightConfig", torch.int4, groups(32)))


@program
def int8_activations_int4_weights_decomposed():
    return quantised(seeded(Mlp), (random_input(4, 64),),
                     torchao_config("Int8DynamicActivationIntxWeightConfig", torch.int4, groups(32)), decompose=True)


@program
def float8_weights_mlp():
    return quantised(seeded(Mlp), (random_input(4, 64),), torchao_config("Float8WeightOnlyConfig"))


@program
def int8_weights_bert_base():
    return quantised(seeded(base_bert), bert_inputs(16), torchao_config("Int8WeightOnlyConfig"))


# ---- Case directories ----

def flat(tree):
    return [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
            for leaf in torch.utils._pytree.tree_leaves(tree)]


# What adds up many products, or computes functions: its last digits depend on the order and the library.
ROUNDED = {"convolution", "mm", "addmm", "bmm", "baddbmm", "native_layer_norm", "native_batch_norm", "_softmax", "gelu", "tanh",
           "mean", "sum", "_native_batch_norm_legit_no_training", "_scaled_dot_product_flash_attention_for_cpu"}


class RoundedElsewhere(TorchDispatchMode):
    """Moves every result of ROUNDED by at most one rounding error of its largest value."""

    supports_higher_order_operators = True

    def __init__(self, seed):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if not isinstance(func, torch._ops.OpOverload) or func._schema.name.split("::")[1] not in ROUNDED:
            return result
        return torch.utils._pytree.tree_map_only(torch.Tensor, self.moved, result)

    def moved(self, x):
        if not x.is_floating_point() or not x.numel():
            return x
        noise = torch.rand(x.shape, generator=self.generator).to(x.dtype) * 2 - 1
        return x + noise * (torch.finfo(x.dtype).eps * x.abs().max())


def tolerance(exported, args, expected):
    """How far PyTorch's own results move when its sums are rounded in another way."""
    module, own = exported.module(), 0.0
    for seed in range(6):
        with RoundedElsewhere(seed):
            results = flat(module(*copy.deepcopy(args)))
        for got, wanted in zip(results, expected):
            if wanted.is_floating_point():
                own = max(own, (got.double() - wanted.double()).abs().max().item())
    return own


def write(name, folder):
    torch.set_num_threads(2)
    module, exported, args = PROGRAMS[name]()
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        expected = flat(module(*copy.deepcopy(args)))
        own = tolerance(exported, args, expected)
    save_model(exported, folder / "model.pt2")
    torch.save(flat(args), folder / "inputs_0.pt")
    torch.save(expected, folder / "expected_0.pt")
    case = {"about": f"{name} (torchao)"}
    base = 1e-2 if expected[0].dtype == torch.bfloat16 else 1e-5
    case["tolerance"] = {"rtol": max(1.3e-6, base), "atol": max(base, 2 * own)}
    operators = sorted({str(node.target) for node in exported.graph.nodes if node.op == "call_function"})
    (folder.parent / f"{name}.json").write_text(json.dumps({
        "operators": [o for o in operators if o.split(".")[0] in ("quantized_decomposed", "torchao", "export") or "_mm" in o],
        "nodes": sum(1 for node in exported.graph.nodes if node.op == "call_function"),
        "own": own, "scale": max(e.double().abs().max().item() for e in expected)}))
    # Last: a case with this file is complete.
    (folder / "case.json").write_text(json.dumps(case) + "\n")


def check(kiln, folder, backend):
    command = [kiln, "check", str(folder), "--backend", backend, "--timeout", str(SECONDS)]
    result = subprocess.run(command, capture_output=True, text=True)
    text = result.stdout + result.stderr
    if result.returncode == 0:
        return "right"
    first = [line for line in text.splitlines() if line.strip()]
    return "WRONG: " + " | ".join(first[:4])[:300]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=pathlib.Path, help="folder that keeps exports and good results")
    parser.add_argument("--only", action="append", default=[], help="names or patterns (default: all; --list shows them)")
    parser.add_argument("--kiln", default=str(ROOT / "build/release/bin/kiln"), help="the command (build/release/bin/kiln)")
    parser.add_argument("--backends", default="interpret,loops,compiled", help="of 'kiln check', separated by commas (all three)")
    parser.add_argument("--list", action="store_true", help="prints the names of those chosen and ends")
    parser.add_argument("--again", action="store_true", help="the Kiln part of all chosen anew, kept results or not")
    options = parser.parse_args()
    names = by_pattern(options.only, PROGRAMS, "program")
    if options.list:
        print("\n".join(names))
        return 0
    options.cache.mkdir(parents=True, exist_ok=True)
    backends = options.backends.split(",") if options.backends else []
    failed = partial = 0
    print(f"{'program':42} {'nodes':>5} {'atol/scale':>10}  " + "  ".join(f"{b:9}" for b in backends))
    for name in names:
        folder = options.cache / name
        if options.again or not (folder / "case.json").exists():
            try:
                write(name, folder)
            except Exception as error:  # one that does not export is reported, and the others go on
                print(f"{name:42} not exported: {type(error).__name__}: {str(error)[:300]}", flush=True)
                failed += 1
                continue
        facts = json.loads((options.cache / f"{name}.json").read_text())
        allowed = json.loads((folder / "case.json").read_text())["tolerance"]["atol"] / max(facts["scale"], 1e-30)
        verdicts = ["not run" if (name, backend) in NOT_RUN else check(options.kiln, folder, backend) for backend in backends]
        failed += any(v.startswith("WRONG") for v in verdicts)
        partial += "not run" in verdicts
        print(f"{name:42} {facts['nodes']:5} {allowed:10.1e}  " + "  ".join(f"{v:9}" for v in verdicts), flush=True)
    print(f"{len(names) - failed} of {len(names)} right" + (f", {partial} of them not in every backend" if partial else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
