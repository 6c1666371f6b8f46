#!/usr/bin/env python3
"""Round trip of exported programs: .pt2 -> Kiln -> .pt2 -> torch.export.load -> run, compared with what PyTorch gave.

    python bench/pt2_round_trip.py --kiln build/release/bin/kiln CASES… [--work DIR] [--custom-ops FILE.py] [--failures]
                                    [--after PASS]

A CASE is a case directory (model.pt2, inputs_<i>.pt, expected_<i>.pt) or a folder searched for them. Every program is
written again by `kiln inspect --write`, loaded by PyTorch and run on every inputs file; sizes, dtypes and values must
be those of the expected file. Where PyTorch cannot load or run its own original file the case is counted apart.
Needs PyTorch; it is a check of the product, no part of it.
"""
import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch
import torch.utils._pytree as pytree


def cases_in(paths):
    for path in map(pathlib.Path, paths):
        if (path / "model.pt2").exists():
            yield path
        else:
            yield from sorted(found.parent for found in path.rglob("model.pt2"))


def run(model, flat):
    """The flat outputs of a fresh instance of the program."""
    program = torch.export.load(model)
    in_spec = program.module_call_graph[0].signature.in_spec
    args, kwargs = pytree.tree_unflatten(list(flat), in_spec)
    with torch.no_grad():
        return pytree.tree_flatten(program.module()(*args, **kwargs))[0]


def compare(actual, expected, shapes_only, tolerance):
    if len(actual) != len(expected):
        return f"{len(actual)} outputs instead of {len(expected)}"
    for i, (a, e) in enumerate(zip(actual, expected)):
        if not isinstance(e, torch.Tensor):
            if a != e and not (a != a and e != e):
                return f"output {i} is {a} instead of {e}"
            continue
        if a.shape != e.shape or a.dtype != e.dtype:
            return f"output {i} is {a.dtype}{list(a.shape)} instead of {e.dtype}{list(e.shape)}"
        if shapes_only:
            continue
        try:
            torch.testing.assert_close(a, e, equal_nan=True, **tolerance)
        except AssertionError as error:
            return f"output {i}: {str(error).splitlines()[0]}"
    return None


def check(case, written):
    """None, or what is wrong with the written program."""
    about = json.loads((case / "case.json").read_text()) if (case / "case.json").exists() else {}
    for inputs in sorted(case.glob("inputs_*.pt")):
        expected = torch.load(case / inputs.name.replace("inputs", "expected"), weights_only=True)
        flat = torch.load(inputs, weights_only=True)
        wrong = compare(run(written, flat), expected, about.get("compare") == "shapes", about.get("tolerance", {}))
        if wrong:
            return f"{inputs.name}: {wrong}"
    return None


def first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return f"{type(error).__name__}: {last[:300]}"


def attempt(case, model):
    try:
        return check(case, model)
    except Exception as error:  # whatever PyTorch raises is the result
        return first_line(error)


def round_trip(kiln, case, work, after):
    written = work / "written.pt2"
    written.unlink(missing_ok=True)
    command = [kiln, "inspect", case / "model.pt2", "--write", written] + (["--after", after] if after else [])
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return "kiln", done.stderr.strip().splitlines()[0]
    wrong = attempt(case, written)
    if wrong is None:
        return "same", ""
    original = attempt(case, case / "model.pt2")
    if original is not None:
        return "torch", f"its own file too: {original}"
    return "differs", wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--kiln", required=True)
    parser.add_argument("--work", help="where written files go (default: a temporary folder)")
    parser.add_argument("--custom-ops", help="a Python file that defines the custom operators of the cases")
    parser.add_argument("--after", help="writes the program as this pass over the graph leaves it")
    parser.add_argument("--failures", action="store_true", help="only rows that are not the same")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.custom_ops:
        spec = importlib.util.spec_from_file_location("custom_ops", options.custom_ops)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    counts = {"same": 0, "differs": 0, "kiln": 0, "torch": 0}
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(options.work or temporary)
        work.mkdir(parents=True, exist_ok=True)
        for case in cases_in(options.cases):
            result, what = round_trip(options.kiln, case, work, options.after)
            counts[result] += 1
            if result != "same" or not options.failures:
                print(f"{result:8} {case.parent.name}/{case.name}  {what}", flush=True)
    print(f"{counts['same']} the same, {counts['differs']} differ, {counts['kiln']} not written by Kiln, "
          f"{counts['torch']} that PyTorch itself cannot run")
    sys.exit(1 if counts["differs"] or counts["kiln"] else 0)


if __name__ == "__main__":
    main()
