#!/usr/bin/env python3
"""Kiln beside eager PyTorch and OpenVINO (and AOT Inductor) on some two hundred models that models.py does not have: where is it behind?

    tools/build.sh release && python bench/other_models.py [PART…] [--rounds 3] [--kiln build/release/bin/kiln] [--json FILE]
    python bench/other_models.py --list

PART: models whose names contain it (default: all, some hours). What is compared is processor time on one thread, the least of some
rounds in turns, so that a busy machine shows little: it finds kernels that are many times too slow, not shares of a percent
(models.py measures those). Each model has a process of its own. Needs torch, torchvision, timm and transformers, and openvino for the last
column; a model that OpenVINO does not take has none there. Its work: the processor time of the compile, on a busy machine worth more than
its duration."""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/measuring"))
LIMIT = 400  # seconds for one model


def processor_seconds_of_children():
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


class KilnPackage:
    """Runs in processes of its own: what loading takes is measured apart and taken off."""

    def __init__(self, kiln, program, folder):
        import torch
        torch.export.save(program, folder / "model.pt2")
        self.kiln, self.package, self.output, self.count = kiln, folder / "model.kiln.pt2", folder / "output.pt", 0
        begin, before = time.perf_counter(), processor_seconds_of_children()
        subprocess.run([kiln, "compile", folder / "model.pt2", "-o", self.package, "--quiet", "--config", "freezing=1"], check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "KILN_CACHE_DIR": str(folder / "cache")})
        self.compile_seconds, self.compile_work = time.perf_counter() - begin, processor_seconds_of_children() - before

    def calls(self, count):
        before = processor_seconds_of_children()
        subprocess.run([self.kiln, "run", self.package, "--repeat", str(count), "--config", "cpp.threads=1", "-o", self.output, "--quiet"],
                       check=True, stdout=subprocess.DEVNULL)
        return processor_seconds_of_children() - before

    def seconds(self, count):
        # As many calls as take half a second: what loading takes is taken off, and moves by some milliseconds.
        if self.count == 0:
            self.count = 3 * count
            while (spent := self.calls(self.count + 1) - self.calls(1)) < 0.05:
                self.count *= 4
            self.count = max(self.count, int(self.count * 0.5 / spent))
        return (self.calls(self.count + 1) - self.calls(1)) / self.count

    def first_output(self):
        import torch
        self.calls(1)
        return torch.load(self.output)[0]


class Callable:
    def __init__(self, call):
        self.call = call
        call()

    def seconds(self, count):
        begin = time.process_time()
        for _ in range(count):
            self.call()
        return (time.process_time() - begin) / count


def openvino_call(module, args, dynamic_shapes):
    import openvino
    import torch
    try:
        converted = openvino.convert_model(torch.export.export(module, args, dynamic_shapes=dynamic_shapes).run_decompositions())
    except Exception:  # its other reader takes some of what this one does not
        converted = openvino.convert_model(module, example_input=args)
    if dynamic_shapes is None:
        converted.reshape({port.any_name: list(arg.shape) for port, arg in zip(converted.inputs, args)})
    compiled = openvino.Core().compile_model(converted, "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    for i, arg in enumerate(args):
        request.set_input_tensor(i, openvino.Tensor(arg.numpy()))
    return lambda: request.infer(share_outputs=True)


def inductor_call(module, args, dynamic_shapes, folder):
    import torch
    import torch._inductor.config
    torch._inductor.config.freezing = True
    program = torch.export.export(module, args, dynamic_shapes=dynamic_shapes)
    package = torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "inductor.pt2"))
    loaded = torch._inductor.aoti_load_package(package)
    return lambda: loaded(*args)


def measure(name, options):
    import torch
    import other_families  # noqa: F401  (its models come to the others)
    from other_list import MODELS
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    module, args, dynamic_shapes = MODELS[name]()
    module.eval()
    with tempfile.TemporaryDirectory() as folder:
        kiln = KilnPackage(options.kiln, torch.export.export(module, args, dynamic_shapes=dynamic_shapes), pathlib.Path(folder))
        expected = module(*args)
        largest = expected.abs().max().clamp(min=1e-30)
        systems = {"kiln": kiln, "eager": Callable(lambda: module(*args))}
        difference = float((kiln.first_output() - expected).abs().max() / largest)
        note = ""
        try:
            systems["openvino"] = Callable(openvino_call(module, args, dynamic_shapes))
        except Exception as error:
            note = str(error).strip().splitlines()[0][:100]
        if options.inductor:
            systems["inductor"] = Callable(inductor_call(module, args, dynamic_shapes, pathlib.Path(folder)))
        count = max(2, min(200, int(0.6 / max(systems["eager"].seconds(1), 1e-3))))
        least = dict.fromkeys(systems, float("inf"))
        for _ in range(options.rounds):
            for system, runner in systems.items():
                least[system] = min(least[system], runner.seconds(count))
    return {"name": name, "seconds": least, "compile": kiln.compile_seconds, "compile_work": kiln.compile_work, "difference": difference, "note": note}


def in_own_process(name, options):
    command = [sys.executable, __file__, "--one", name, "--kiln", str(options.kiln), "--rounds", str(options.rounds),
               *(["--inductor"] if options.inductor else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    except subprocess.TimeoutExpired:
        return {"name": name, "note": f"not done after {LIMIT} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    errors = done.stderr.strip().splitlines()
    return json.loads(lines[-1]) if lines else {"name": name, "note": errors[-1][:160] if errors else f"ended with {done.returncode}"}


def shown(result, others):
    if "seconds" not in result:
        return f"{result['name']:34} {result['note']}"
    seconds = result["seconds"]
    kiln = seconds["kiln"]
    others = "".join(f" {seconds[other] / kiln:9.2f}" if other in seconds else f" {'–':>9}" for other in others)
    behind = any(value < kiln for value in seconds.values())
    return (f"{result['name']:34} {kiln * 1e3:9.2f} ms{others} {result['compile']:8.2f} s {result['compile_work']:7.2f} s {result['difference']:9.1e}"
            f"{'  behind' if behind else ''}{'  ' + result['note'] if result['note'] else ''}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="models whose names contain it (default: all; --list shows them)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds in turns, of which the least counts (3)")
    parser.add_argument("--kiln", default=ROOT / "build/release/bin/kiln", type=pathlib.Path, help="the command (build/release/bin/kiln)")
    parser.add_argument("--inductor", action="store_true", help="AOT Inductor with freezing too, which compiles for half a minute a model")
    parser.add_argument("--json", type=pathlib.Path, help="writes all results to this file")
    parser.add_argument("--list", action="store_true", help="prints the names of the models, or of those that fit, and ends")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return print(json.dumps(measure(options.one, options)))
    import other_families  # noqa: F401  (its models come to the others)
    from chosen import by_part
    from other_list import MODELS
    chosen = by_part(options.parts, MODELS, "model whose name contains")
    if options.list:
        return print("\n".join(chosen))
    others = ("eager", "openvino", *(["inductor"] if options.inductor else []))
    titles = {"eager": "eager", "openvino": "OpenVINO", "inductor": "Inductor"}
    print(f"{'model':34} {'Kiln':>12}{''.join(f' {titles[other]:>9}' for other in others)} {'compile':>10} {'its work':>9} largest difference", flush=True)
    results = []
    for name in chosen:
        results.append(in_own_process(name, options))
        print(shown(results[-1], others), flush=True)
        if options.json:
            options.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
