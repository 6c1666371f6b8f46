#!/usr/bin/env python3
"""Real models: exported by PyTorch, compiled by Kiln, compared with eager PyTorch.

    python bench/real_models.py --kiln build/release/bin/kiln --cache DIR [--only REGEX] [--again] [--list]

Makes the exports of torchvision, timm and transformers models (random weights, seed 0; configurations made small where
the full one is large) in DIR/<model>/ as case directories: model.pt2, inputs_<i>.pt, expected_<i>.pt; _0 is the size of
the export, _1 another size where a dimension is dynamic. Then compiles each with `kiln compile`, runs it with
`kiln run` on each inputs file, and prints a table: model, nodes, dynamic dimensions, seconds to compile, largest error
against eager, result.

Exports are made once. Results are kept in DIR/<model>/result.json, so an interrupted run goes on where it stopped;
--again compares all anew. "ok" means that every output is as close to eager as torch.testing.assert_close demands, or
that its error against eager's own fp64 result is at most 4 times the error of eager's fp32 result.

Needs torch, torchvision, timm and transformers; no weights are downloaded. It is a check of the product, no part of it.
"""
import argparse
import copy
import gc
import json
import pathlib
import re
import subprocess
import sys
import time
import warnings

import torch
import torch.utils._pytree as pytree

from real_model_list import MODELS


def flatten(args):
    return pytree.tree_flatten((args, {}))[0]


def eager(model, args):
    with torch.no_grad():
        return pytree.tree_flatten(model(*copy.deepcopy(args)))[0]


def as_double(value):
    return pytree.tree_map(lambda x: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x, value)


def make_export(entry, folder):
    """Writes model.pt2 last: its presence says that the export is complete."""
    torch.manual_seed(0)
    model, inputs, dynamic = entry.make()
    model = model.eval()
    program = torch.export.export(model, copy.deepcopy(inputs[0]), dynamic_shapes=dynamic)
    folder.mkdir(parents=True, exist_ok=True)
    for i, args in enumerate(inputs):
        torch.save(flatten(args), folder / f"inputs_{i}.pt")
        torch.save(eager(model, args), folder / f"expected_{i}.pt")
    try:
        double = copy.deepcopy(model).double()
        for i, args in enumerate(inputs):
            torch.save(eager(double, as_double(args)), folder / f"exact_{i}.pt")
    except Exception as error:  # a model that insists on float32
        (folder / "exact.txt").write_text(f"no fp64 run: {error}")
    facts = {"nodes": sum(node.op == "call_function" for node in program.graph.nodes), "dynamic": dynamic is not None}
    (folder / "facts.json").write_text(json.dumps(facts))
    torch.export.save(program, folder / "saving.pt2")
    (folder / "saving.pt2").rename(folder / "model.pt2")


def compare(actual, expected, exact):
    """(largest error relative to the output's largest value, what is wrong or None)"""
    if len(actual) != len(expected):
        return 0.0, f"{len(actual)} outputs instead of {len(expected)}"
    worst = 0.0
    for i, (a, e) in enumerate(zip(actual, expected)):
        if not isinstance(e, torch.Tensor):
            if a != e:
                return worst, f"output {i} is {a} instead of {e}"
            continue
        if a.shape != e.shape or a.dtype != e.dtype:
            return worst, f"output {i} is {a.dtype}{list(a.shape)} instead of {e.dtype}{list(e.shape)}"
        if e.numel() == 0:
            continue
        scale = e.double().abs().max().item() or 1.0
        worst = max(worst, (a.double() - e.double()).abs().max().item() / scale)
        try:
            torch.testing.assert_close(a, e, equal_nan=True)
            continue
        except AssertionError:
            pass
        if exact is None or not e.is_floating_point():
            return worst, f"output {i} differs"
        own = (e.double() - exact[i]).abs().max().item()
        error = (a.double() - exact[i]).abs().max().item()
        if not error <= 4 * own + 1e-6 * scale:
            return worst, f"output {i}: error {error:.2e}, eager's own {own:.2e}"
    return worst, None


def last_error(text):
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if "error[" in line:
            return " ".join(part.strip() for part in lines[number:number + 3])[:400]
    return lines[-1][:400] if lines else "no message"


def load(folder, name):
    return torch.load(folder / name, weights_only=True) if (folder / name).exists() else None


def check(kiln, folder, timeout):
    """The row of the table: compile_s, error, result."""
    package, output = folder / "model.kiln.pt2", folder / "output.pt"
    start = time.time()
    try:
        done = subprocess.run([kiln, "compile", folder / "model.pt2", "-o", package], capture_output=True, text=True,
                              timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"result": f"compile: not done in {timeout} s"}
    row = {"compile_s": round(time.time() - start, 1)}
    if done.returncode != 0:
        return row | {"result": "compile: " + last_error(done.stderr)}
    row["error"] = 0.0
    for inputs in sorted(folder.glob("inputs_*.pt")):
        output.unlink(missing_ok=True)
        try:
            done = subprocess.run([kiln, "run", package, "--inputs", inputs, "-o", output], capture_output=True,
                                  text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return row | {"result": f"run {inputs.stem}: not done in {timeout} s"}
        if done.returncode != 0:
            return row | {"result": f"run {inputs.stem}: " + last_error(done.stderr)}
        number = inputs.stem.split("_")[1]
        error, wrong = compare(load(folder, "output.pt"), load(folder, f"expected_{number}.pt"),
                               load(folder, f"exact_{number}.pt"))
        row["error"] = max(row["error"], error)
        if wrong:
            return row | {"result": f"{inputs.stem}: {wrong}"}
    package.unlink()
    output.unlink(missing_ok=True)
    return row | {"result": "ok"}


def row_of(entry, options):
    folder = pathlib.Path(options.cache) / entry.name
    result = folder / "result.json"
    if not (folder / "model.pt2").exists():
        try:
            make_export(entry, folder)
        except Exception as error:
            text = str(error).strip().splitlines()
            return {"result": f"not exported: {type(error).__name__}: {text[-1][:200] if text else ''}"}
    facts = json.loads((folder / "facts.json").read_text())
    if result.exists() and not options.again:
        return facts | json.loads(result.read_text())
    row = check(options.kiln, folder, options.timeout)
    result.write_text(json.dumps(row))
    return facts | row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--cache", required=True, help="where exports and results are kept")
    parser.add_argument("--only", default="", help="models whose name matches this regular expression")
    parser.add_argument("--again", action="store_true", help="compile and compare all anew")
    parser.add_argument("--timeout", type=int, default=600, help="seconds for one command")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    entries = [entry for entry in MODELS if re.search(options.only, entry.name)]
    if options.list:
        print("\n".join(f"{entry.kind:16} {entry.name}" for entry in entries))
        return
    print(f"{'kind':16} {'model':28} {'nodes':>6} {'dynamic':>8} {'compile s':>10} {'max error':>10}  result")
    counts = {"ok": 0, "dynamic ok": 0, "all": 0}
    for entry in entries:
        row = row_of(entry, options)
        gc.collect()
        good = row["result"] == "ok"
        counts["all"] += 1
        counts["ok"] += good
        counts["dynamic ok"] += good and row.get("dynamic", False)
        error = f"{row['error']:.1e}" if "error" in row else ""
        print(f"{entry.kind:16} {entry.name:28} {row.get('nodes', ''):>6} {'yes' if row.get('dynamic') else '':>8} "
              f"{row.get('compile_s', ''):>10} {error:>10}  {row['result']}", flush=True)
    print(f"{counts['ok']} of {counts['all']} equal eager, {counts['dynamic ok']} of them with dynamic dimensions")
    sys.exit(0 if counts["ok"] == counts["all"] else 1)


if __name__ == "__main__":
    main()
