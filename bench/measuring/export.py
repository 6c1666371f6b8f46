"""Exports one model for one batch size and type, with all that the systems and the checks need beside it.

    python export.py NAME FOLDER BATCH DTYPE        (a process of its own; started by harness.py)

Writes to FOLDER: model.pt2, state.pt (the weights, for eager), inputs/, expected/ (eager's results), exact/ (in
float64, from the same rounded weights and inputs) and export.json. With --onnx it writes model.onnx from model.pt2.
"""
import contextlib
import json
import pathlib
import sys
import time
import warnings

import torch
from torch.utils import _pytree as pytree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import raw_tensors  # noqa: E402
from kernel_list import KERNELS  # noqa: E402
from model_list import MODELS, minilm_weights  # noqa: E402

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def calibrate(module, args):
    """Sets the statistics of batch norms to those of one call: with the initial ones values grow or vanish with depth."""
    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    for norm in norms:
        norm.train()
        norm.momentum = None
    with torch.no_grad():
        module(*(torch.randn(4, *arg.shape[1:]) for arg in args))
    module.eval()


def converted(tree, dtype):
    return pytree.tree_map(lambda x: x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x, tree)


def make(name, batch, dtype):
    """The module and its arguments, on the same seed wherever it is made."""
    torch.manual_seed(0)
    module, args = {**MODELS, **KERNELS}[name].make(batch)
    module.eval().requires_grad_(False)
    return module.to(DTYPES[dtype]), converted(args, DTYPES[dtype])


def tensors(tree):
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def copied(tree):
    return pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, tree)


def count_flops(module, args):
    """Multiplications and additions of products and convolutions; one multiply-add is two. The module is the exported one:
    PyTorch's own layers have quick ways of their own, which the counter knows nothing of."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode
    counter = FlopCounterMode(display=False)
    # The decomposed forms: attention as two products, recurrent layers as the products of their steps.
    with sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False), counter:
        module(*copied(args))
    return counter.get_total_flops()


def weight_bytes(module):
    """What a call must read: all weights and buffers but embedding tables, of which it reads a few rows."""
    seen, total = set(), 0
    for part in module.modules():
        if isinstance(part, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
            continue
        for value in [*part.parameters(recurse=False), *part.buffers(recurse=False)]:
            if id(value) not in seen:
                seen.add(id(value))
                total += value.numel() * value.element_size()
    return total


def export(name, folder, batch, dtype):
    module, args = make(name, batch, dtype)
    if dtype == "f32":
        calibrate(module, args)
    else:  # on the calibrated statistics of f32, rounded
        wide, wide_args = make(name, batch, "f32")
        calibrate(wide, wide_args)
        module.load_state_dict(converted(wide.state_dict(), DTYPES[dtype]))
    state = {key: value.clone() for key, value in module.state_dict().items()}
    started = time.perf_counter()
    with torch.no_grad():
        program = torch.export.export(module, copied(args), strict=False)
        seconds = time.perf_counter() - started
        torch.export.save(program, folder / "model.pt2")
        torch.save(state, folder / "state.pt")
        module.load_state_dict(state)
        inputs, expected = tensors(args), tensors(module(*copied(args)))
        raw_tensors.write_torch(folder / "inputs", inputs)
        raw_tensors.write_torch(folder / "expected", expected)
        changed = [key for key, value in module.state_dict().items() if not torch.equal(value, state[key])]
        module.load_state_dict(state)
        flops = count_flops(program.module(check_guards=False), args)
        moved = weight_bytes(module) + sum(t.numel() * t.element_size() for t in inputs + expected)
        module.load_state_dict(state)
        exact = None
        with contextlib.suppress(RuntimeError):  # a model that makes float32 tensors inside itself has none
            exact = tensors(module.double()(*converted(copied(args), torch.float64)))
            raw_tensors.write_torch(folder / "exact", exact)
    facts = {"nodes": sum(node.op == "call_function" for node in program.graph.nodes), "seconds": seconds,
             "parameters": sum(p.numel() for p in module.parameters()), "flops": flops, "bytes": moved,
             "state": changed, "exact": exact is not None,
             "weights": "real" if name == "minilm" and minilm_weights() else "random", "torch": torch.__version__}
    (folder / "export.json").write_text(json.dumps(facts, indent=1))


def export_onnx(folder):
    if json.loads((folder / "export.json").read_text())["state"]:
        raise RuntimeError("the model keeps state in buffers, which ONNX has not")
    program = torch.export.load(folder / "model.pt2")
    made = torch.onnx.export(program, dynamo=True, verbose=False)
    made.save(folder / "model.onnx", external_data=True)


def main():
    warnings.simplefilter("ignore")
    if sys.argv[1] == "--onnx":
        export_onnx(pathlib.Path(sys.argv[2]))
    else:
        name, folder, batch, dtype = sys.argv[1:]
        export(name, pathlib.Path(folder), int(batch), dtype)


if __name__ == "__main__":
    main()
