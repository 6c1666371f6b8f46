#!/usr/bin/env python3
"""Measures single operators in the shapes that the models of bench/models.py have, against what the machine can do.

    tools/build.sh release && python bench/kernels.py [--kernels linear,conv3x3] [--systems kiln,inductor] [--rounds 5]

Each operator is exported alone, compiled and measured as a whole model is. --kernels takes beginnings of names (--list).

    python bench/kernels.py --models all [--runs 12] [--rounds 2]

measures instead every distinct kernel of those models where it stands, with the caches as the kernel before leaves them: on one
core and on two, at its best of all runs, and says which stay below what they should reach.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "measuring"))
import model_kernels  # noqa: E402
import options as common  # noqa: E402
from harness import Failure, Harness, Setting  # noqa: E402
from kernel_list import KERNELS  # noqa: E402
from model_list import MODELS  # noqa: E402
from systems import SYSTEMS  # noqa: E402
from tables import seconds_text, share_of_limit, share_text, spread_text, text_table  # noqa: E402

COLUMNS = ["operator", "system", "median", "spread", "GFLOP/s", "GB/s", "of limit", "limited by", "right"]


def rows_of(results, name, setting, systems):
    rows, exported = [], results.exports.get(f"{name}/{setting.exported}", {})
    for system in systems:
        facts = results.get(name, setting.name, system)
        if facts is None:
            continue
        if facts["status"] != "ok":
            rows.append([name, SYSTEMS[system].label, "fails", "", "", "", "", "", facts["why"][:60]])
            continue
        share, limit = share_of_limit(results, name, setting.name, facts)
        rows.append([name, SYSTEMS[system].label, seconds_text(facts["median"]), spread_text(facts),
                     f"{exported['flops'] / facts['median'] * 1e-9:.1f}", f"{exported['bytes'] / facts['median'] * 1e-9:.1f}",
                     share_text(share), limit, "yes" if facts["right"] else facts["verdict"]])
    return rows


def show_models(options):
    models = list(MODELS) if options.models == "all" else common.names(options.models, MODELS, "model")
    common.finish(options)
    harness = Harness(options, "kernels.json")
    harness.find_systems(["kiln"])
    cores = range(1, min(2, len(os.sched_getaffinity(0))) + 1)
    harness.measure_machine(set(cores))
    peaks = [harness.results.peak(count) for count in cores]

    def progress(text):
        print(text, file=sys.stderr, flush=True)
    lines = []
    try:
        for model, package in model_kernels.packages(harness, models, Setting(1, "f32", cores[-1]), progress):
            lines += model_kernels.lines_of(options.kiln, package, model, peaks, options.runs, options.rounds, options.out)
    except Failure as failure:
        sys.exit(str(failure))
    for count, peak in zip(cores, peaks):
        print(f"{count} core{'s' if count > 1 else ''} of this machine: {peak['f32']:.0f} GFLOP/s in f32, {peak['reading'][-1][1]:.1f} GB/s from memory")
    model_kernels.show(lines, options.least / 100)


def main():
    parser = common.parser(__doc__ + "\n" + common.INTERPRETERS, "kiln")
    parser.add_argument("--kernels", default="", help="beginnings of names, separated by commas (default: all)")
    parser.add_argument("--models", help="the kernels of these models where they stand: names of bench/models.py --list, or all")
    parser.add_argument("--runs", type=int, default=12, help="with --models: profiled runs in each of --rounds (12)")
    parser.add_argument("--least", type=float, default=1, help="with --models: percent of its model that a kernel takes to be shown (1)")
    options = parser.parse_args()
    if options.models:
        return show_models(options)
    if options.list:
        for name, entry in KERNELS.items():
            print(f"{name:36} {entry.about}")
        return
    settings = common.finish(options)
    wanted = [part for part in options.kernels.split(",") if part]
    for part in wanted:
        if not any(name.startswith(part) for name in KERNELS):
            sys.exit(f"no operator's name begins with '{part}'; --list shows them")
    chosen = [name for name in KERNELS if not wanted or any(name.startswith(part) for part in wanted)]
    harness = Harness(options, "kernels.json")
    if not options.report:
        systems = harness.find_systems(options.systems)
        harness.measure_machine({setting.threads for setting in settings})
        for i, (setting, name) in enumerate((s, k) for s in settings for k in chosen):
            print(f"[{i + 1}/{len(chosen) * len(settings)}] {name}, {setting}", file=sys.stderr, flush=True)
            harness.measure(name, setting, systems)
    for setting in settings:
        rows = [row for name in chosen for row in rows_of(harness.results, name, setting, options.systems)]
        peak = harness.results.peak(setting.threads)
        if rows and peak:
            print(f"{setting}; this machine: {peak['f32']:.0f} GFLOP/s in f32, {peak['reading'][-1][1]:.1f} GB/s from memory")
            print(text_table(COLUMNS, rows) + "\n")
    print("GB/s: weights, inputs and outputs once each. of limit: the time that this machine needs at least over the time taken (? above\n"
          "it: the limits were measured while the machine was busy, --limits measures them again).")


if __name__ == "__main__":
    main()
