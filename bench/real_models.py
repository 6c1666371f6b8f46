#!/usr/bin/env python3
"""Exports real models, compiles them with Kiln and compares the results with PyTorch's.

    tools/build.sh release
    python bench/real_models.py CACHE_DIR [--only PATTERN]… [--kiln build/release/bin/kiln] [--list] [--again]

Needs torch, torchvision, timm and transformers. Weights are random (nothing is downloaded), large architectures run in
a small configuration. CACHE_DIR keeps what was exported and every good result, so that an interrupted run goes on where it
stopped; --again repeats the Kiln part of all chosen.

A result counts as right when its error against PyTorch in float64 is at most 4 times that of PyTorch in float32 (and
a floor of a few roundings of the largest value): that is what "equal within rounding" means for a deep model. Models
with dynamic sizes run at two sizes; the second was not seen at export.
"""
import argparse
import copy
import json
import pathlib
import re
import subprocess
import sys
import time
import traceback
import warnings

import torch

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent / "measuring")]
import real_models_families, real_models_modules  # noqa: E401, E402, F401  (both add to MODELS)
from chosen import by_pattern  # noqa: E402
from real_models_list import MODELS  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXPORT_SECONDS = 600
KILN_SECONDS = 900


def flat_tensors(tree):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree)]


def plain(leaves):
    """What torch.load(weights_only=True) and Kiln read: tensors and numbers, without autograd."""
    return [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def doubled(tree):
    return torch.utils._pytree.tree_map(
        lambda x: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x, tree)


def copied(tree):
    return torch.utils._pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, tree)


def export(name, folder):
    """Writes model.pt2, and for each size inputs, outputs of eager and outputs in float64."""
    torch.manual_seed(0)
    torch.set_num_threads(2)
    model = MODELS[name].make()
    module = model.module.eval()
    for weight in module.parameters():  # heads that start as zeros would hide everything before them
        if weight.dim() > 1 and not weight.any():
            torch.nn.init.normal_(weight, std=0.02)
    started = time.perf_counter()
    with torch.no_grad():
        program = torch.export.export(module, copied(model.args), kwargs=copied(model.kwargs),
                                      dynamic_shapes=model.dynamic_shapes, strict=False)
        seconds = time.perf_counter() - started
        torch.export.save(program, folder / "model.pt2")
        calls = [(model.args, model.kwargs)] + model.other_calls
        for i, (args, kwargs) in enumerate(calls):
            torch.save(plain(flat_tensors((args, kwargs))), folder / f"inputs_{i}.pt")
            torch.save(plain(flat_tensors(copy.deepcopy(module)(*copied(args), **copied(kwargs)))), folder / f"expected_{i}.pt")
        doubled_module = module.double()
        for i, (args, kwargs) in enumerate(calls):
            try:
                exact = plain(flat_tensors(doubled_module(*doubled(args), **doubled(kwargs))))
            except RuntimeError:  # a model that makes float32 tensors inside itself
                exact = None
            torch.save(exact, folder / f"exact_{i}.pt")
    (folder / "export.json").write_text(json.dumps({
        "kind": MODELS[name].kind, "dynamic": model.dynamic_shapes is not None, "calls": len(calls),
        "nodes": sum(1 for node in program.graph.nodes if node.op == "call_function"),
        "parameters": sum(p.numel() for p in program.parameters()), "seconds": seconds}))


def scale_of(tensor):
    finite = tensor[torch.isfinite(tensor)]
    return finite.abs().max().item() if finite.numel() else 0.0


def compare(got, expected, exact):
    """The worst ratio of Kiln's error to what is allowed (at most 1 is right), or a reason."""
    if len(got) != len(expected):
        return f"{len(got)} outputs, expected {len(expected)}"
    worst = 0.0
    for i, (mine, theirs) in enumerate(zip(got, expected)):
        if not isinstance(theirs, torch.Tensor):
            if mine != theirs:
                return f"output {i}: {mine}, expected {theirs}"
            continue
        if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
            return f"output {i}: {mine.dtype} {list(mine.shape)}, expected {theirs.dtype} {list(theirs.shape)}"
        if not theirs.is_floating_point():
            if not torch.equal(mine, theirs):
                return f"output {i}: {(mine != theirs).sum().item()} of {theirs.numel()} values differ"
            continue
        if not theirs.numel():
            continue
        truth = exact[i].double() if exact is not None else theirs.double()
        if not torch.equal(torch.isnan(mine), torch.isnan(theirs)) or not torch.equal(torch.isinf(mine), torch.isinf(theirs)):
            return f"output {i}: NaN or Inf differ"
        finite = torch.isfinite(theirs)
        if not finite.any():
            continue
        error = (mine.double() - truth)[finite].abs().max().item()
        own = (theirs.double() - truth)[finite].abs().max().item()
        floor = 16 * torch.finfo(theirs.dtype).eps * scale_of(theirs)
        if exact is None:
            floor *= 64  # PyTorch's own rounding is not known
        worst = max(worst, error / (4 * own + floor) if own + floor else (0.0 if error == 0 else float("inf")))
    return worst


def run(command, seconds):
    result = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    if result.returncode:
        text = (result.stderr.strip() or result.stdout.strip()).splitlines()
        raise RuntimeError(" | ".join(text[:6])[:600] or f"exit {result.returncode}")
    return result


def check(kiln, folder):
    facts = json.loads((folder / "export.json").read_text())
    package = folder / "model.kiln.pt2"
    started = time.perf_counter()
    run([kiln, "compile", str(folder / "model.pt2"), "-o", str(package)], KILN_SECONDS)
    facts["compile"] = time.perf_counter() - started
    facts["package"] = package.stat().st_size
    ratios = []
    for i in range(facts["calls"]):
        out = folder / f"got_{i}.pt"
        run([kiln, "run", str(package), "--inputs", str(folder / f"inputs_{i}.pt"), "-o", str(out)], KILN_SECONDS)
        outcome = compare(torch.load(out, weights_only=True), torch.load(folder / f"expected_{i}.pt", weights_only=True),
                          torch.load(folder / f"exact_{i}.pt", weights_only=True))
        if isinstance(outcome, str):
            raise RuntimeError(f"call {i}: {outcome}")
        ratios.append(outcome)
    facts["error"] = max(ratios)
    facts["result"] = "ok" if facts["error"] <= 1 else "differs"
    return facts


def examine(name, options):
    folder = pathlib.Path(options.cache) / name
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "result.json"
    if done.exists() and not options.again:
        facts = json.loads(done.read_text())
        if facts["result"] == "ok":
            return facts
    if not (folder / "export.json").exists():
        result = subprocess.run([sys.executable, __file__, options.cache, "--export", name], capture_output=True,
                                text=True, timeout=EXPORT_SECONDS)
        if result.returncode:
            return {"result": "no export", "why": result.stderr.strip().splitlines()[-1][:300] if result.stderr else ""}
    try:
        facts = check(options.kiln, folder)
    except (RuntimeError, subprocess.TimeoutExpired) as problem:
        facts = json.loads((folder / "export.json").read_text())
        facts.update(result="fails", why=str(problem))
    done.write_text(json.dumps(facts))
    return facts


def show(name, facts):
    def number(key, form):
        return format(facts[key], form) if key in facts else ""
    print(f"{name:34} {facts.get('kind', ''):16} {'yes' if facts.get('dynamic') else '':8}{number('nodes', 'd'):>6} "
          f"{number('parameters', ','):>12} {number('compile', '.2f'):>9} {number('error', '.3f'):>8}  {facts['result']}"
          f"{': ' + facts['why'] if facts.get('why') else ''}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", help="folder that keeps exports and good results")
    parser.add_argument("--only", action="append", help="names or patterns (default: all; --list shows them)")
    parser.add_argument("--kiln", default=str(ROOT / "build/release/bin/kiln"), help="the command (build/release/bin/kiln)")
    parser.add_argument("--list", action="store_true", help="prints the names of those chosen and ends")
    parser.add_argument("--again", action="store_true", help="the Kiln part of all chosen anew, kept results or not")
    parser.add_argument("--export", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.export:
        warnings.simplefilter("ignore")
        try:
            export(options.export, pathlib.Path(options.cache) / options.export)
        except Exception as problem:  # shown in the table: one line
            traceback.print_exc()
            sys.exit(re.sub(r"\s+", " ", f"{type(problem).__name__}: {problem}"))
        return
    chosen = by_pattern(options.only, MODELS, "model")
    if options.list:
        print("\n".join(chosen))
        return
    print(f"{'model':34} {'kind':16} {'dynamic':8}{'nodes':>6} {'parameters':>12} {'compile s':>9} {'error':>8}  result")
    results = []
    for name in chosen:
        facts = examine(name, options)
        show(name, facts)
        results.append(facts)
    right = sum(facts["result"] == "ok" for facts in results)
    dynamic = sum(facts["result"] == "ok" and facts.get("dynamic", False) for facts in results)
    print(f"{right} of {len(results)} right, {dynamic} of them with dynamic sizes; error 1 is the most that counts as right")
    sys.exit(0 if right == len(results) else 1)


if __name__ == "__main__":
    main()
