"""Options that bench/models.py and bench/kernels.py share."""
import argparse
import os
import pathlib
import sys

import machine
from chosen import by_name
from harness import ROOT, Setting
from systems import SYSTEMS

INTERPRETERS = """Interpreters: the one that runs this command exports, and runs eager and AOT Inductor (torch, torchvision, transformers).
--peers-python (or KILN_BENCH_PEERS_PYTHON; default: the same) has onnxruntime, openvino, onnxscript and torch.
--executorch-python (or KILN_BENCH_EXECUTORCH_PYTHON; default: none) has torch and executorch."""


def parser(description, default_systems):
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--systems", default=default_systems, help=f"of {', '.join(SYSTEMS)} (default: {default_systems})")
    made.add_argument("--settings", help="b1-f32-t2,b8-bf16-t1: batch, f32 or bf16, threads (default: b1-f32 on two threads)")
    made.add_argument("--full", action="store_true", help="the default setting, and it with batch 8, with 1 thread, with bf16")
    made.add_argument("--rounds", type=int, default=7, help="counted rounds (7); of one there is no spread")
    made.add_argument("--seconds", type=float, default=0.5, help="of one turn (0.5)")
    made.add_argument("--limit", type=float, default=1800, help="seconds that one export or compilation may take (1800)")
    made.add_argument("--again", nargs="?", const="", help="measure again what is kept: everything chosen, or the systems named")
    made.add_argument("--turns", action="store_true", help="measure again what is kept, without compiling again: all systems chosen in one run")
    made.add_argument("--limits", action="store_true", help="measure the machine's limits again; the best of all measurements counts")
    made.add_argument("--list", action="store_true", help="print what can be chosen")
    made.add_argument("--report", action="store_true", help="measure nothing: show what is kept")
    made.add_argument("--out", default=ROOT / "build/bench", type=pathlib.Path, help="exports, packages and results (build/bench)")
    made.add_argument("--kiln", default=ROOT / "build/release/bin/kiln", type=pathlib.Path)
    made.add_argument("--library", default=ROOT / "build/release/lib/libkiln_runtime.so", type=pathlib.Path)
    made.add_argument("--peers-python", default=os.environ.get("KILN_BENCH_PEERS_PYTHON", sys.executable))
    made.add_argument("--executorch-python", default=os.environ.get("KILN_BENCH_EXECUTORCH_PYTHON"))
    return made


def names(text, known, what):
    given = [name for name in text.split(",") if name]
    return by_name(given, known, what) if given else []


def finish(options):
    """Checks and fills in; gives the settings."""
    options.python = sys.executable
    options.systems = names(options.systems, SYSTEMS, "system")
    options.again = None if options.again is None else names(options.again, SYSTEMS, "system")
    if options.rounds < 1:
        sys.exit("--rounds is at least 1")
    busy = None if options.report else machine.busy_text()
    if busy:
        print(busy, file=sys.stderr)
    two = min(2, len(os.sched_getaffinity(0)))
    if options.settings:
        try:
            return [Setting.parse(text) for text in options.settings.split(",")]
        except (ValueError, IndexError):
            sys.exit(f"'{options.settings}' are no settings; one is b1-f32-t2: batch, f32 or bf16, threads")
    settings = [Setting(1, "f32", two)]
    if options.full:
        settings += [Setting(8, "f32", two), Setting(1, "f32", 1), Setting(1, "bf16", two)]
    return list(dict.fromkeys(settings))
