#!/usr/bin/env python3
"""Measures Kiln beside its peers on the CPU: exports models, compiles them with every system, and lets the systems take turns.

    tools/build.sh release && python bench/models.py [--models a,b] [--systems x,y] [--rounds 7] [--full] [--docs docs]

Results are kept in OUT/results.json per model, setting and system; an interrupted run goes on where it was. Prints a table per
model and a summary, and writes benchmarks.md with plots (SVG) to --docs, by default to OUT.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "measuring"))
import document  # noqa: E402
import options as common  # noqa: E402
from harness import Harness  # noqa: E402
from model_list import MODELS  # noqa: E402
from systems import SYSTEMS  # noqa: E402
from tables import COLUMNS, LEGEND, model_rows, summary, text_table  # noqa: E402


def list_all():
    print("models")
    for name, entry in MODELS.items():
        print(f"  {name:22} {entry.about}")
    print("\nsystems")
    for name, system in SYSTEMS.items():
        print(f"  {name:22} {system.label}: {system.about}")


def show_model(results, model, setting, systems):
    rows, failures = model_rows(results, model, setting, systems)
    if rows:
        print(text_table(COLUMNS, rows))
    for label, why in failures:
        print(f"{label} fails: {why}")
    print(flush=True)


def main():
    parser = common.parser(__doc__ + "\n" + common.INTERPRETERS, ",".join(SYSTEMS))
    parser.add_argument("--models", default=",".join(MODELS), help="names of --list, separated by commas (default: all)")
    parser.add_argument("--docs", type=pathlib.Path, help="folder that benchmarks.md and images/ are written to (default: OUT)")
    parser.add_argument("--page", help="a page of this name with the chosen settings alone, instead of benchmarks.md with all")
    options = parser.parse_args()
    if options.list:
        return list_all()
    settings = common.finish(options)
    models = common.names(options.models, MODELS, "model")
    harness = Harness(options)
    if not options.report:
        systems = harness.find_systems(options.systems)
        harness.measure_machine({setting.threads for setting in settings})
        count = len(models) * len(settings)
        for i, (setting, model) in enumerate((s, m) for s in settings for m in models):
            print(f"[{i + 1}/{count}] {model}, {setting}", flush=True)
            harness.measure(model, setting, systems)
            show_model(harness.results, model, setting.name, options.systems)
    for setting in settings:
        columns, rows = summary(harness.results, setting.name, models, options.systems)
        if rows:
            print(f"Time per call, {setting}: Kiln's, and the others' as multiples of it (geometric means over what both run right)")
            print(text_table(columns, rows) + "\n")
    print(LEGEND)
    for path in document.write(harness.results, options.docs or harness.out, list(MODELS), list(SYSTEMS), options.page,
                               [setting.name for setting in settings]):
        print(path)


if __name__ == "__main__":
    main()
