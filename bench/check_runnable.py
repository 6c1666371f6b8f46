"""Proves fx_graph_runnable.py: runs it under PyTorch for every case and compares with the case's expected outputs.

  python bench/check_runnable.py build/release/bin/kiln CASES... [--keep]

Needs PyTorch (an oracle: nothing in the build or the product needs it). A case is a directory with model.pt2,
inputs_<i>.pt and expected_<i>.pt.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

import torch


def cases(paths):
    for path in paths:
        for folder, _, files in sorted(os.walk(path)):
            if "model.pt2" in files and "expected_0.pt" in files:
                yield folder


def make_runnable(kiln, case, root):
    """Writes the debug directory without making a package; gives the folder of the model."""
    command = [kiln, "compile", os.path.join(case, "model.pt2"), "--debug", "--stop-after", "inline_wrappers"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TORCH_COMPILE_DEBUG_DIR": root})
    for line in done.stderr.splitlines():
        if line.startswith("note: debug directory: "):
            return line[len("note: debug directory: "):]
    raise RuntimeError(done.stderr.strip() or "no debug directory")


def run(folder, inputs):
    spec = importlib.util.spec_from_file_location("fx_graph_runnable", os.path.join(folder, "fx_graph_runnable.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.run(inputs))


def check(kiln, case, root):
    folder = make_runnable(kiln, case, root)
    info = {}
    if os.path.exists(os.path.join(case, "case.json")):
        with open(os.path.join(case, "case.json")) as file:
            info = json.load(file)
    number = 0
    while os.path.exists(os.path.join(case, f"expected_{number}.pt")):
        inputs = torch.load(os.path.join(case, f"inputs_{number}.pt"), weights_only=True)
        expected = torch.load(os.path.join(case, f"expected_{number}.pt"), weights_only=True)
        torch.manual_seed(0)
        got = run(folder, inputs)
        if info.get("compare") == "shapes":
            got = [g.shape if torch.is_tensor(g) else g for g in got]
            expected = [e.shape if torch.is_tensor(e) else e for e in expected]
            assert got == expected, f"shapes {got} instead of {expected}"
        else:
            tolerance = info.get("tolerance") or {}
            torch.testing.assert_close(got, list(expected), equal_nan=True, **tolerance)
        number += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kiln")
    parser.add_argument("cases", nargs="+")
    options = parser.parse_args()
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as root:
        for case in cases(options.cases):
            try:
                check(options.kiln, case, root)
                passed += 1
            except Exception as error:  # every failure is a line of the result
                failed += 1
                text = " ".join(str(error).split())
                print(f"{case}: {type(error).__name__}: {text[:300]}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
