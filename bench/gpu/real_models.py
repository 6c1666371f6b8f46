#!/usr/bin/env python3
"""The real models of bench/real_models.py on a GPU, on a machine that has neither their libraries nor their weights.

    python bench/gpu/real_models.py prepare DIR [--only PATTERN]…       # here: a small file for each model
    python bench/gpu/real_models.py run DIR --kiln bin/kiln [--device cuda] [--jobs 12] [--seconds 110] [--json FILE]   # there

`prepare` needs what bench/real_models.py needs. It exports each model with weights and inputs that are made from a number
(torch.rand, the same bits everywhere), runs it in float32 and float64, and writes DIR/MODEL.zip: the exported program without
those weights, how they are made, and some hundred elements of the results. `run` needs torch alone: it makes the
weights, compiles, runs and compares. A result counts as right as in bench/real_models.py: its error against float64 is at
most 4 times that of PyTorch in float32, and a floor of a few roundings of the largest value.
"""
import argparse
import concurrent.futures
import ctypes
import fnmatch
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
import zlib

import torch

LARGE = 1024  # elements: what has fewer is kept as it is
SAMPLES = 1024  # of the results of one call
ROOT = pathlib.Path(__file__).resolve().parent.parent


# ---- Values that are made from a number
def made(name, sizes, mean, std):
    """Evenly spread around the mean. Products and sums of float32, each rounded: the same bits on every machine."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    unit = torch.rand(sizes, generator=generator)
    return unit.mul(2).sub(1).mul(torch.tensor(3.0**0.5 * std)).add(torch.tensor(mean))


def rule_of(name, tensor):
    return {"name": name, "sizes": list(tensor.shape), "mean": float(tensor.mean()), "std": float(tensor.std())}


def is_large(value):
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32 and value.numel() >= LARGE


def from_rule(rule):
    return made(rule["name"], rule["sizes"], rule["mean"], rule["std"])


def bytes_of(tensor):
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def made_inputs(label, leaves):
    """The leaves with large tensors made, and what `run` needs to make them again."""
    out, rules = [], []
    for i, leaf in enumerate(leaves):
        if is_large(leaf) and leaf.is_contiguous():
            rules.append(rule_of(f"{label} {i}", leaf))
            out.append(from_rule(rules[-1]))
        else:
            rules.append(None)
            out.append(leaf)
    return out, rules


# ---- prepare
def bare_program(path, rules):
    """The entries of the .pt2 without what the rules make, and without its sample inputs."""
    made_of = {}
    kept, empty = [], []
    with zipfile.ZipFile(path) as archive:
        config = next(name for name in archive.namelist() if name.endswith("weights_config.json"))
        folder = config.rsplit("/", 1)[0]
        for name, entry in json.loads(archive.read(config))["config"].items():
            if name in rules:
                made_of[f"{folder}/{entry['path_name']}"] = rules[name]
        for name in archive.namelist():
            if "/sample_inputs/" in name:
                continue
            data = archive.read(name)
            rule = made_of.get(name)
            if rule and bytes_of(from_rule(rule)) == data:
                empty.append({"entry": name, "rule": rule})
            else:
                kept.append((name, data))
    return kept, empty


def sampled(outputs, exact, budget):
    """Of each output its kind, some elements, the float64 results there, and what counts as right."""
    out = []
    for i, value in enumerate(outputs):
        if not isinstance(value, torch.Tensor):
            out.append({"number": value})
            continue
        flat = value.flatten()
        count = min(flat.numel(), max(budget // max(len(outputs), 1), 16))
        places = torch.arange(count, dtype=torch.int64) * max(flat.numel() // max(count, 1), 1)
        row = {"dtype": str(value.dtype), "sizes": list(value.shape), "places": places, "values": flat[places]}
        if value.is_floating_point() and flat.numel():
            truth = (exact[i] if exact is not None else value).double().flatten()
            finite = torch.isfinite(flat)
            scale = float(flat[finite].abs().max()) if finite.any() else 0.0
            own = float((flat.double() - truth)[finite].abs().max()) if finite.any() else 0.0
            floor = 16 * torch.finfo(value.dtype).eps * scale * (1 if exact is not None else 64)
            row.update(truth=truth[places], allowed=4 * own + floor)
        out.append(row)
    return out


def prepare_one(name, folder):
    sys.path.insert(0, str(ROOT))
    import real_models
    import torch.utils._pytree as pytree

    torch.manual_seed(0)
    torch.set_num_threads(2)
    model = real_models.MODELS[name].make()
    module = model.module.eval()
    rules = {}
    with torch.no_grad():
        for parameter_name, weight in module.named_parameters():
            if is_large(weight) and weight.is_contiguous():
                if not weight.any():  # heads that start as zeros would hide everything before them
                    torch.nn.init.normal_(weight, std=0.02)
                rules[parameter_name] = rule_of(parameter_name, weight)
                weight.copy_(from_rule(rules[parameter_name]))
        calls = []
        for i, call in enumerate([(model.args, model.kwargs)] + model.other_calls):
            leaves, spec = pytree.tree_flatten(call)
            leaves, input_rules = made_inputs(f"call {i}", leaves)
            calls.append((pytree.tree_unflatten(leaves, spec), input_rules))
        (args, kwargs), _ = calls[0]
        program = torch.export.export(module, real_models.copied(args), kwargs=real_models.copied(kwargs),
                                      dynamic_shapes=model.dynamic_shapes, strict=False)
        file = io.BytesIO()
        torch.export.save(program, file)
        results = [real_models.plain(real_models.flat_tensors(real_models.copy.deepcopy(module)(
            *real_models.copied(a), **real_models.copied(k)))) for (a, k), _ in calls]
        exact, doubled = [], module.double()
        for (a, k), _ in calls:
            try:
                exact.append(real_models.plain(real_models.flat_tensors(
                    doubled(*real_models.doubled(a), **real_models.doubled(k)))))
            except RuntimeError:  # a model that makes float32 tensors inside itself
                exact.append(None)
    kept, empty = bare_program(file, rules)
    about = {"name": name, "dynamic": model.dynamic_shapes is not None, "empty": empty, "calls": []}
    with zipfile.ZipFile(folder / (name.replace("/", "__") + ".zip"), "w", zipfile.ZIP_DEFLATED) as out:
        for entry, data in kept:
            out.writestr("program/" + entry, data)
        for i, ((call, input_rules), got, truth) in enumerate(zip(calls, results, exact)):
            leaves = pytree.tree_leaves(call)
            plain = real_models.plain([None if rule else leaf for leaf, rule in zip(leaves, input_rules)])
            for kind, what in (("inputs", plain), ("expected", sampled(got, truth, SAMPLES))):
                file = io.BytesIO()
                torch.save(what, file)
                out.writestr(f"{kind}_{i}.pt", file.getvalue())
            about["calls"].append(input_rules)
        out.writestr("about.json", json.dumps(about))


def prepare(options):
    """Each model in a process of its own, which has the libraries already."""
    options.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(ROOT))
    import real_models

    for name in dict.fromkeys(name for pattern in options.only or ["*"] for name in fnmatch.filter(real_models.MODELS, pattern)):
        file = options.folder / (name.replace("/", "__") + ".zip")
        if file.exists():
            continue
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            try:
                prepare_one(name, options.folder)
            except BaseException as problem:  # one line: the others are worth having
                print(name, " ".join(f"{type(problem).__name__}: {problem}".split())[:300], flush=True)
                file.unlink(missing_ok=True)
            os._exit(0)
        os.waitpid(child, 0)
        if file.exists():
            print(f"{name:40} {time.monotonic() - began:5.1f} s  {file.stat().st_size >> 10} KB", flush=True)


# ---- run
def write_program(archive, about, path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as out:
        for name in archive.namelist():
            if name.startswith("program/"):
                out.writestr(name[len("program/"):], archive.read(name))
        for empty in about["empty"]:
            out.writestr(empty["entry"], bytes_of(from_rule(empty["rule"])))


def problem_of(got, expected):
    """The worst ratio of the error to what is allowed, or what is wrong."""
    if len(got) != len(expected):
        return f"{len(got)} outputs, expected {len(expected)}"
    worst = 0.0
    for i, (mine, row) in enumerate(zip(got, expected)):
        if "number" in row:
            if mine != row["number"]:
                return f"output {i}: {mine}, expected {row['number']}"
            continue
        if str(mine.dtype) != row["dtype"] or list(mine.shape) != row["sizes"]:
            return f"output {i}: {mine.dtype} {list(mine.shape)}, expected {row['dtype']} {row['sizes']}"
        values, theirs = mine.flatten()[row["places"]], row["values"]
        if "truth" not in row:
            if not torch.equal(values, theirs):
                return f"output {i}: {(values != theirs).sum().item()} of {theirs.numel()} values differ"
            continue
        if not torch.equal(torch.isfinite(values), torch.isfinite(theirs)):
            return f"output {i}: NaN or Inf differ"
        finite = torch.isfinite(theirs)
        if finite.any():
            error = (values.double() - row["truth"])[finite].abs().max().item()
            worst = max(worst, error / row["allowed"] if row["allowed"] else (0.0 if error == 0 else float("inf")))
    return worst


def run_one(file, options):
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(file) as archive:
        folder = pathlib.Path(folder)
        about = json.loads(archive.read("about.json"))
        facts = {"name": about["name"], "dynamic": about["dynamic"]}

        def command(*words):
            left = max(options.until - time.monotonic(), 1)
            done = subprocess.run([options.kiln, *map(str, words)], capture_output=True, text=True, timeout=left)
            if done.returncode:
                text = [line for line in done.stderr.splitlines() if not line.startswith("note:")] or [f"exit {done.returncode}"]
                raise RuntimeError(" | ".join(text[:4])[:400])

        try:
            write_program(archive, about, folder / "model.pt2")
            started = time.monotonic()
            command("compile", folder / "model.pt2", "--device", options.device, "-o", folder / "model.kiln.pt2", "--quiet")
            facts["compile"] = round(time.monotonic() - started, 2)
            ratios = []
            for i, rules in enumerate(about["calls"]):
                inputs = torch.load(io.BytesIO(archive.read(f"inputs_{i}.pt")), weights_only=True)
                torch.save([from_rule(rule) if rule else leaf for leaf, rule in zip(inputs, rules)], folder / "inputs.pt")
                command("run", folder / "model.kiln.pt2", "--inputs", folder / "inputs.pt", "-o", folder / "got.pt")
                outcome = problem_of(torch.load(folder / "got.pt", weights_only=True),
                                     torch.load(io.BytesIO(archive.read(f"expected_{i}.pt")), weights_only=True))
                if isinstance(outcome, str):
                    raise RuntimeError(f"call {i}: {outcome}")
                ratios.append(outcome)
            facts["error"] = max(ratios)
            facts["result"] = "ok" if facts["error"] <= 1 else "differs"
        except (RuntimeError, subprocess.TimeoutExpired) as problem:
            facts.update(result="no time" if isinstance(problem, subprocess.TimeoutExpired) else "fails", why=str(problem))
        facts["seconds"] = round(time.monotonic() - began, 1)
        return facts


def run(options):
    torch.set_num_threads(1)
    options.until = time.monotonic() + options.seconds
    files = sorted(options.folder.glob("*.zip"), key=lambda file: -file.stat().st_size)
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run_one, file, options) for file in files]):
            facts = done.result()
            results.append(facts)
            print(f"{facts['name']:40} {'dynamic' if facts['dynamic'] else '':8} compile {facts.get('compile', ''):>6} "
                  f"error {facts['error'] if 'error' in facts else float('nan'):8.3f}  {facts['result']}"
                  f"{': ' + facts['why'] if 'why' in facts else ''}", flush=True)
    right = sum(facts["result"] == "ok" for facts in results)
    print(f"{right} of {len(results)} right on {options.device}; error 1 is the most that counts as right")
    if options.json:
        options.json.write_text(json.dumps(sorted(results, key=lambda facts: facts["name"]), indent=1))
    sys.exit(0 if right == len(results) else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["prepare", "run"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", action="append", help="prepare: names or patterns, in this order")
    parser.add_argument("--kiln", default=str(ROOT.parent / "build/release/bin/kiln"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    (prepare if options.command == "prepare" else run)(options)


if __name__ == "__main__":
    main()
