"""Every kernel of a model, as it runs in it: `kiln profile` on one core and on two, against what the machine can do."""
import json
import os
import pathlib
import re
import subprocess

from machine import arithmetic_now, reading_rate
from processors import chosen_processors
from tables import seconds_text, text_table

# What a kernel's time is set against, and which share of it there should be on one core and on two.
AIMS = {"product": (0.85, 0.80), "points": (0.60, 0.60), "attention": (0.60, 0.60), "one row": (0.85, 0.85), "other": (0, 0)}
COLUMNS = ["kernel", "kind", "model", "calls", "FLOPs", "1 core", "GFLOP/s", "of peak", "2 cores", "GFLOP/s", "of peak", "GB/s", "of reading", ""]
FEW_FLOPS_PER_BYTE = 2  # a product that does no more with what it reads waits for it


def kind_of(name, flops, size):
    """By the name, which has the template and the operators, and by what a byte is used for."""
    if re.search(r"matmul|bmm|attention", name) and "amax" in name:
        return "attention"
    product = re.search(r"linear|mm|convolution", name)
    if product and 0.25 * size < flops < FEW_FLOPS_PER_BYTE * size:
        return "one row"
    if name.startswith(("cpp_mm", "cpp_pairs", "cpp_matrix")) and flops >= FEW_FLOPS_PER_BYTE * size:
        return "product"
    return "points" if "convolution" in name and flops >= FEW_FLOPS_PER_BYTE * size else "other"


def count_text(value):
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f}"


def profiled(kiln, package, threads, runs):
    """The kernels of a package by function and size: calls, and the least seconds, FLOPs and bytes of one call."""
    processors = chosen_processors(threads)
    done = subprocess.run([str(kiln), "profile", str(package), "--runs", str(runs), "--json", "-"], capture_output=True, text=True,
                          check=True, preexec_fn=lambda: os.sched_setaffinity(0, processors))
    found, clock = {}, "least_cpu_seconds" if threads == 1 else "least_seconds"  # one thread's own time tells no others'
    for function in json.loads(done.stdout)["functions"]:
        for kernel in function["kernels"]:
            calls, size = kernel["calls"], round(kernel["bytes"] / kernel["calls"])
            flops = round(max(0, kernel.get("flops", 0)) / calls)
            facts = found.setdefault((function["name"], flops, size), {"calls": 0, "seconds": 0.0, "least": float("inf")})
            facts["calls"] += calls
            facts["seconds"] += kernel[clock]
            facts["least"] = min(facts["least"], kernel[clock] / calls)
    return found


def merged(first, second):
    """Of several profiles of the same package: the least that each kernel ever took."""
    for key, facts in second.items():
        kept = first.setdefault(key, facts)
        kept["seconds"], kept["least"] = min(kept["seconds"], facts["seconds"]), min(kept["least"], facts["least"])
    return first


class Line:
    """One distinct kernel of a model. Its time is its calls' mean, each at its best: what a model spends on it."""

    def __init__(self, model, key, one, two, peaks, model_bytes):
        self.name, self.flops, self.bytes = key
        self.model, self.calls = model, one["calls"]
        self.kind = kind_of(self.name, self.flops, self.bytes)
        self.seconds = [one["seconds"] / self.calls] + ([two["seconds"] / self.calls] if two else [])
        self.of_peak = [self.flops / s / (peak["f32"] * 1e9) for s, peak in zip(self.seconds, peaks)]
        # The other kernels' weights were read since its own were: they come from where all of them fit.
        self.of_reading = [self.bytes / s / (reading_rate(peak, model_bytes) * 1e9) for s, peak in zip(self.seconds, peaks)]

    @property
    def shares(self):
        return self.of_reading if self.kind == "one row" else self.of_peak

    def lost(self):
        """Seconds of a call of the model, on one core, that it takes longer than its aim."""
        aim = AIMS[self.kind][0]
        return max(0.0, 1 - self.shares[0] / aim) * self.seconds[0] * self.calls if aim else 0.0

    def below(self):
        return [i + 1 for i, (share, aim) in enumerate(zip(self.shares, AIMS[self.kind])) if share < aim]

    def cells(self):
        row = [self.name, self.kind, self.model, str(self.calls), count_text(self.flops)]
        for i in range(2):
            if i < len(self.seconds):
                row += [seconds_text(self.seconds[i]), f"{self.flops / self.seconds[i] * 1e-9:.0f}", f"{100 * self.of_peak[i]:.0f} %"]
            else:
                row += ["–"] * 3
        one_row = self.kind == "one row"
        row += [f"{self.bytes / self.seconds[-1] * 1e-9:.1f}" if one_row else "", f"{100 * self.of_reading[-1]:.0f} %" if one_row else ""]
        below = self.below()
        return row + [f"below on {' and '.join(map(str, below))}" if below else ""]


def lines_of(kiln, package, model, peaks, runs, rounds, folder):
    """Profiles on one core and on two, and the arithmetic that they can do, in turns, so that what else the machine does
    meets all of them alike."""
    by_threads = [{} for _ in peaks]
    arithmetic = [0.0 for _ in peaks]
    for _ in range(rounds):
        for i in range(len(peaks)):
            by_threads[i] = merged(by_threads[i], profiled(kiln, package, i + 1, runs))
            arithmetic[i] = max(arithmetic[i], arithmetic_now(folder, i + 1))
    print(f"  while {model} ran: " + ", ".join(f"{rate:.0f} GFLOP/s in f32 on {i + 1}" for i, rate in enumerate(arithmetic)), flush=True)
    peaks = [{**peak, "f32": now} for peak, now in zip(peaks, arithmetic)]
    model_bytes = sum(key[2] * facts["calls"] for key, facts in by_threads[0].items())
    two = by_threads[1] if len(by_threads) > 1 else {}
    lines = [Line(model, key, facts, two.get(key), peaks, model_bytes) for key, facts in by_threads[0].items()]
    return sorted(lines, key=lambda line: -line.seconds[0] * line.calls)


def show(lines, least_share):
    """The table, largest first, without what is less than this share of its model; and what stays below its aim."""
    totals = {}
    for line in lines:
        totals[line.model] = totals.get(line.model, 0) + line.seconds[0] * line.calls
    shown = [line for line in lines if line.seconds[0] * line.calls >= least_share * totals[line.model]]
    print(text_table(COLUMNS, [line.cells() for line in shown]) + "\n")
    rows = []
    for kind, aims in AIMS.items():
        of_kind = [line for line in lines if line.kind == kind]
        time = sum(line.seconds[0] * line.calls for line in of_kind)
        if not of_kind:
            continue
        needed = sum(line.shares[0] * line.seconds[0] * line.calls for line in of_kind)
        reached = [sum(1 for line in of_kind if len(line.shares) > i and line.shares[i] >= aim) for i, aim in enumerate(aims)]
        rows.append([kind, str(len(of_kind)), f"{100 * time / sum(totals.values()):.0f} %"] +
                    ([f"{100 * aims[0]:.0f} / {100 * aims[1]:.0f} %", f"{100 * needed / time:.0f} %", *map(str, reached)] if aims[0] else [""] * 4))
    print(text_table(["kind", "kernels", "of all time", "aim on 1 / 2", "reached on 1, by time", "kernels at it on 1", "on 2"], rows) + "\n")
    late = sorted((line for line in lines if line.lost() > 0), key=lambda line: -line.lost() / totals[line.model])
    for line in late[:12]:
        print(f"{line.model}: {100 * line.lost() / totals[line.model]:.1f} % less if {line.name} reached its aim")


def packages(harness, models, setting, progress):
    for i, model in enumerate(models):
        progress(f"[{i + 1}/{len(models)}] {model}")
        exported = harness.export(model, setting)
        folder = harness.folder(model, setting, "kiln")
        folder.mkdir(parents=True, exist_ok=True)
        harness.compile("kiln", model, setting, exported, folder)
        yield model, pathlib.Path(folder) / "model.kiln.pt2"
