"""Kiln beside PyTorch on a GPU: one run, in which the systems take turns, and medians of CUDA events.

    python bench/gpu/run.py --packages packages --json result.json [--systems kiln,eager,…] [--seconds 150] [--each 60]
                            [--autotune mlp,bert] [MODEL…]

Systems: kiln; kiln_bound (inputs and outputs stay where they are, as those of a recorded graph do); eager; eager_graph, compile_graph, autotune_graph (replayed as a CUDA graph by hand); compile, autotune
(torch.compile, default and max-autotune without graphs of its own). Nothing is compiled by Kiln here: the packages come
from compile.py. What does not fit into --seconds is left out, and said; so is a system that is not ready in --each.
--autotune: the models for which max-autotune is worth its time (all)."""
import argparse
import json
import pathlib
import signal
import statistics
import time

import torch

import kiln
from models import MODELS, package_name, seeded

BANDWIDTH, PEAK = 4.65e12, 790e12  # bytes and bf16 operations a second, measured on an H200


def as_graph(function):
    """The call recorded once and replayed; its inputs stay where they are."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()

    def replay():
        graph.replay()
        return result

    return replay


def kiln_system(name, packages, module, inputs, settings=None, bound=False):
    model = kiln.aoti_load_package(str(packages / package_name(name)), settings=settings or {})
    state = dict(module.named_parameters()) | dict(module.named_buffers())
    wanted = {c["name"] for c in model._constants}
    model.load_constants({k: v for k, v in state.items() if k in wanted}, check_full_update=False, user_managed=False)
    model.errors_later = True
    return model.bind(*inputs) if bound else lambda: model(*inputs)


def systems_of(name, packages, module, inputs):
    def compiled(**options):
        torch._dynamo.reset()
        return torch.compile(module, **options)

    def make(system):
        if system == "kiln":
            return kiln_system(name, packages, module, inputs)
        if system == "kiln_bound":
            return kiln_system(name, packages, module, inputs, bound=True)
        if system == "kiln_launches":
            return kiln_system(name, packages, module, inputs, {"triton.cudagraphs": 0})
        if system in ("eager", "eager_graph"):
            function = lambda: module(*inputs)
        elif system in ("compile", "compile_graph"):
            ready = compiled()
            function = lambda: ready(*inputs)
        else:
            ready = compiled(mode="max-autotune-no-cudagraphs")
            function = lambda: ready(*inputs)
        if system.endswith("_graph"):
            function()
            return as_graph(function)
        return function

    return make


def median_us(function, rounds):
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(rounds)]
    for begin, end in pairs:
        begin.record()
        function()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) * 1e3 for begin, end in pairs]


class TooLong(Exception):
    pass


class Within:
    """What stands inside takes at most so many seconds."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        def stop(*_):
            raise TooLong(f"not ready in {self.seconds} s")
        self.before = signal.signal(signal.SIGALRM, stop)
        signal.alarm(self.seconds)

    def __exit__(self, *_):
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self.before)


def first(result):
    while not isinstance(result, torch.Tensor):
        result = result[0]
    return result


def error(got, wanted):
    got, wanted = got.float(), wanted.float()
    return float((got - wanted).norm() / wanted.norm())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--systems", default="kiln,kiln_bound,eager,eager_graph,compile,compile_graph,autotune_graph")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--each", type=int, default=3600)
    parser.add_argument("--autotune", type=lambda names: names.split(","), default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    began = time.monotonic()
    result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "kiln": kiln.__version__, "models": {}}
    for name in options.models:
        if not (options.packages / package_name(name)).exists():
            print(f"{name}: no package")
            continue
        row = result["models"][name] = {"us": {}, "notes": {}}
        with torch.no_grad():
            module, inputs = seeded(name, "cuda")
            wanted = first(module(*inputs)).clone()
            make, ready = systems_of(name, options.packages, module, inputs), {}
            for system in options.systems.split(","):
                if system.startswith("autotune") and name not in options.autotune:
                    continue
                if time.monotonic() - began > options.seconds * 0.8:
                    row["notes"][system] = "left out: no time"
                    continue
                try:
                    begin = time.monotonic()
                    with Within(options.each):
                        function = make(system)
                        got = first(function()).clone()
                        for _ in range(5):
                            function()
                        torch.cuda.synchronize()
                    row["notes"][system] = f"ready in {time.monotonic() - begin:.1f} s, error {error(got, wanted):.1e}"
                    ready[system] = function
                except Exception as problem:  # one system's failure is its own
                    row["notes"][system] = f"failed: {str(problem).splitlines()[0][:300]}"
            times = {system: [] for system in ready}
            for _ in range(options.rounds):
                for system, function in ready.items():
                    times[system] += median_us(function, options.calls)
            row["us"] = {system: round(statistics.median(found), 2) for system, found in times.items()}
            b = MODELS[name]
            row["limit_us"] = round(max(b.limit_bytes / BANDWIDTH, b.limit_flops / PEAK) * 1e6, 2)
            print(name, row, flush=True)
            del ready, module, inputs
            torch.cuda.empty_cache()
        if options.json:
            options.json.write_text(json.dumps(result, indent=1))
    systems = options.systems.split(",")
    print("| model | " + " | ".join(systems) + " | limit |\n|" + " --- |" * (len(systems) + 2))
    for name, row in result["models"].items():
        print(f"| {name} | " + " | ".join(str(row["us"].get(s, "–")) for s in systems) + f" | {row['limit_us']} |")


if __name__ == "__main__":
    main()
