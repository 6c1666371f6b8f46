#!/usr/bin/env python3
"""Kiln beside eager PyTorch on 1, 2, 4, … cores of this machine, and what both gain from them.

    tools/build.sh release && python bench/threads.py [--threads 1,2,4,8,16] [--rounds 3] [--seconds 0.4] [--json FILE] [--docs docs] [MODEL…]
    python bench/threads.py --report FILE --docs docs

Models: an MLP of four layers of 2048 for 64 rows, six layers of a BERT at 128 tokens, ResNet-50, a pointwise chain with a layer norm.
Each system has a process of its own for each number of threads, on as many cores; they take turns, and the one whose turn it is not is
stopped. In each round what the cores give is measured too (plain multiply-adds, measuring/peak.c; a product whose threads share nothing, each
with rows, weights and results of its own, measuring/apart.c): cores of a virtual machine may be halves of one, or busy with others'
work, from one minute to the next, and then nobody gains more from them than those do. The table has
the medians of the rounds, as a page with --docs (of an earlier --json with --report). Needs torch and torchvision."""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/measuring"))
import machine  # noqa: E402
import raw_tensors  # noqa: E402
from chosen import by_name  # noqa: E402
from processors import use_processors  # noqa: E402

# Multiply-adds of a call, counted as two; of the pointwise chain memory decides.
MODELS = {"mlp": 4 * 2 * 64 * 2048**2, "bert6": 6 * (2 * 128 * 12 * 768**2 + 4 * 128**2 * 768), "resnet50": 8.18e9, "pointwise": 0}


def make(name):
    import torch
    from torch import nn
    torch.manual_seed(0)
    if name == "mlp":
        layers = [part for _ in range(4) for part in (nn.Linear(2048, 2048), nn.ReLU())]
        return nn.Sequential(*layers).eval(), torch.randn(64, 2048)
    if name == "bert6":
        layer = nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True)
        return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval(), torch.randn(1, 128, 768)
    if name == "resnet50":
        import torchvision
        return torchvision.models.resnet50(weights=None).eval(), torch.randn(1, 3, 224, 224)

    class Pointwise(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(4096)

        def forward(self, x):
            return self.norm(nn.functional.gelu(x * 1.5 + 0.25) * torch.sigmoid(x))
    return Pointwise().eval(), torch.randn(2048, 4096)


def prepare(name, folder, kiln):
    import torch
    module, x = make(name)
    with torch.no_grad():
        program = torch.export.export(module, (x,))
        expected = module(x)
    torch.export.save(program, folder / "model.pt2")
    raw_tensors.write_torch(folder / "inputs", [x])
    raw_tensors.write_torch(folder / "expected", [expected])
    for freezing in (0, 1):
        subprocess.run([kiln, "compile", folder / "model.pt2", "-o", folder / f"frozen{freezing}.kiln.pt2", "--quiet",
                        "--config", f"freezing={freezing}"], check=True, stdout=subprocess.DEVNULL)


def kiln_call(folder, system, library, threads):
    from kiln_abi import Package
    package = Package(library, folder / f"frozen{int(system == 'kiln-freezing')}.kiln.pt2", [f"cpp.threads={threads}"])
    index = json.loads((folder / "inputs/index.json").read_text())
    call = package.bind([(spec, (folder / f"inputs/{i}.bin").read_bytes()) for i, spec in enumerate(index)])
    return call, lambda: package.results()[0][3]


def eager_call(name, threads):
    import torch
    torch.set_num_threads(threads)
    module, x = make(name)
    held = []

    def call():
        with torch.no_grad():
            held[:] = [module(x)]
    return call, lambda: held[0].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def largest_difference(folder, data):
    import numpy
    got, wanted = numpy.frombuffer(data, numpy.float32), numpy.fromfile(folder / "expected/0.bin", numpy.float32)
    return float(abs(got - wanted).max() / abs(wanted).max())


def work(options):
    """One system on some cores: each line from standard input is a turn, answered with its median."""
    folder, name = pathlib.Path(options.folder), options.models[0]
    call, result = (eager_call(name, options.work) if options.system == "eager" else
                    kiln_call(folder, options.system, options.library, options.work))
    for _ in range(3):
        call()
    difference = largest_difference(folder, result())
    print(json.dumps(difference), flush=True)
    for _ in sys.stdin:
        times, end = [], time.perf_counter() + options.seconds
        while not times or time.perf_counter() < end:
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        print(json.dumps(statistics.median(times)), flush=True)


class Worker:
    def __init__(self, options, folder, name, system, threads):
        self.process = subprocess.Popen(
            [sys.executable, __file__, name, "--work", str(threads), "--system", system, "--folder", str(folder), "--library",
             str(options.library), "--seconds", str(options.seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.difference = json.loads(self.process.stdout.readline())
        self.times = []
        os.kill(self.process.pid, signal.SIGSTOP)

    def turn(self):
        os.kill(self.process.pid, signal.SIGCONT)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.times.append(json.loads(self.process.stdout.readline()))
        os.kill(self.process.pid, signal.SIGSTOP)

    def end(self):
        os.kill(self.process.pid, signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()
        return statistics.median(self.times)


def measure(options, folder, name):
    rows = []
    for threads in options.threads:
        workers = {system: Worker(options, folder, name, system, threads) for system in options.systems}
        peaks, products = [], []
        for _ in range(options.rounds):
            peaks.append(machine.arithmetic_now(folder, threads))
            products.append(machine.product_now(folder, threads))
            for worker in workers.values():
                worker.turn()
        row = {"threads": threads, "difference": {s: w.difference for s, w in workers.items()}}
        row |= {system: worker.end() for system, worker in workers.items()}
        row["peak"], row["product"] = statistics.median(peaks), statistics.median(products)
        rows.append(row)
        times = ", ".join(f"{s} {1e3 * row[s]:.3g} ms ({rows[0][s] / row[s]:.1f} × one core's)" for s in options.systems)
        worst = max(row["difference"].values())
        peak = f"multiply-adds {row['peak']:.0f} GFLOP/s ({row['peak'] / rows[0]['peak']:.1f} × one core's)"
        peak += f", products apart {row['product']:.0f} ({row['product'] / rows[0]['product']:.1f} ×)"
        if MODELS[name]:
            peak += f", of which Kiln {100 * MODELS[name] / row[options.systems[-1]] / row['peak'] * 1e-9:.0f} %"
        print(f"{name:10} on {threads:2}: {times}; {peak}; eager / Kiln {row['eager'] / row[options.systems[-1]]:.2f}; difference {worst:.1e}", flush=True)
    return rows


ABOUT = {"mlp": "four layers of 2048 for 64 rows", "bert6": "six layers of a BERT, 128 tokens", "resnet50": "ResNet-50, one picture",
         "pointwise": "a pointwise chain with a layer norm, 2048 rows of 4096"}
HOW = """# Benchmarks on more cores

`bench/threads.py` makes this page: Kiln with freezing beside eager PyTorch, f32, on one and more cores of one machine, in turns.
<!-- docs-test: skip needs PyTorch -->
```
$ tools/build.sh release && python bench/threads.py --docs docs
```
{cpu}{virtual}, {processors} processors, {caches}.

*Gain*: time on one core over that on so many. *Cores' gain*: what plain multiply-adds gain from them, measured in the same turns; of a virtual
machine's cores two may be halves of one, and others' work may be on them, so this moves from minute to minute, and where arithmetic decides nobody gains much more than it does.
*Product's gain*: the same of products of 120 rows by 768 columns whose threads share nothing: each has rows, weights and results of its own in its own caches, and
waits for the others after each product, as after a model's step (`bench/measuring/apart.c`).
*Of the peak*: Kiln's multiply-adds beside those.
"""


def write_page(found, docs):
    facts = found["machine"]
    parts = [HOW.format(cpu=facts["cpu"], virtual=" (a virtual machine)" if facts["virtual"] else "", processors=facts["processors"],
                        caches=", ".join(f"{level} {size}" for level, size in facts["caches"].items()))]
    for name, rows in found["models"].items():
        first, lines = rows[0], []
        for row in rows:
            share = f"{100 * MODELS[name] / row['kiln-freezing'] / row['peak'] * 1e-9:.0f} %" if MODELS[name] else "–"
            lines.append(f"| {row['threads']} | {1e3 * row['kiln-freezing']:.3g} ms | {row['eager'] / row['kiln-freezing']:.2f} | "
                         f"{first['kiln-freezing'] / row['kiln-freezing']:.1f} | {first['eager'] / row['eager']:.1f} | {row['peak'] / first['peak']:.1f} | "
                         f"{row['product'] / first['product']:.1f} | {share} |")
        parts.append(f"## {name}: {ABOUT[name]}\n| cores | Kiln | eager's time over Kiln's | gain | eager's gain | cores' gain | product's gain | of the peak |\n"
                     "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n" + "\n".join(lines) + "\n")
    page = docs / "benchmarks-threads.md"
    page.write_text("\n".join(parts))
    print(page)


def main():
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")],
                        default=[n for n in (1, 2, 4, 8, 16) if n <= cores], help="1,2,4: numbers of cores (powers of two)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds in turns (3)")
    parser.add_argument("--seconds", type=float, default=0.4, help="of one turn")
    parser.add_argument("--json", type=pathlib.Path, help="writes all results to this file")
    parser.add_argument("--docs", type=pathlib.Path, help="folder that benchmarks-threads.md is written to")
    parser.add_argument("--report", type=pathlib.Path, help="measures nothing: the page of this --json")
    parser.add_argument("--kiln", default=ROOT / "build/release/bin/kiln")
    parser.add_argument("--library", default=ROOT / "build/release/lib/libkiln_runtime.so")
    for hidden, kind in (("--work", int), ("--system", str), ("--folder", str)):
        parser.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.systems = ("eager", "kiln", "kiln-freezing")
    if options.work:
        use_processors(options.work)
        return work(options)
    if options.report:
        return write_page(json.loads(options.report.read_text()), options.docs or pathlib.Path("."))
    by_name(options.models, MODELS, "model")
    found = {"machine": machine.describe(), "models": {}}
    with tempfile.TemporaryDirectory() as made:
        for name in options.models:
            folder = pathlib.Path(made) / name
            folder.mkdir()
            prepare(name, folder, options.kiln)
            found["models"][name] = measure(options, folder, name)
            if options.json:
                options.json.write_text(json.dumps(found, indent=1))
    if options.docs:
        write_page(found, options.docs)


if __name__ == "__main__":
    main()
