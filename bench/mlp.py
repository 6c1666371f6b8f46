#!/usr/bin/env python3
"""The documents' MLP (10 → 16 → 1) in Kiln, AOTInductor and onnxruntime: seconds to compile, time per call.

    tools/build.sh release && python bench/mlp.py [--rounds 5] [--compile-rounds 3]

Needs PyTorch and onnxruntime. The systems take turns within each round, so that a busy moment of the machine hits all
of them; medians over the rounds are compared. All run on one thread.

What is timed:
  compile  Kiln: the whole `kiln compile` process, empty cache. AOTInductor: only the call of aoti_compile_and_package
           in a fresh process with an empty cache (imports and export not counted). onnxruntime: making the session.
  call     Kiln: examples/two_threads (C++, outputs of the caller). AOTInductor: its C++ loader in a C++ loop.
           onnxruntime: run_with_iobinding, called from Python (its own call from C++ is faster by a few µs).
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import numpy
    import onnxruntime
    import torch
except ImportError as missing:  # --help is for those who lack it too
    if not {"-h", "--help"} & set(sys.argv):
        sys.exit(f"bench/mlp.py needs PyTorch, numpy and onnxruntime: {missing}")
    print(__doc__)
    sys.exit(0)

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(HERE))
from generate_cases import Mlp  # noqa: E402
from onnx_mlp import write_mlp  # noqa: E402

BATCH = 8  # what examples/two_threads takes for a dynamic size

AOTI_LOOP = """
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <chrono>
#include <algorithm>
std::vector<double> time_calls(const std::string& package, const at::Tensor& x, int64_t calls) {
  torch::inductor::AOTIModelPackageLoader loader(package, "model", true);
  std::vector<at::Tensor> inputs{x};
  for (int i = 0; i < 1000; ++i) loader.run(inputs);
  std::vector<double> times;
  for (int64_t i = 0; i < calls; ++i) {
    const auto start = std::chrono::steady_clock::now();
    loader.run(inputs);
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return times;
}
"""

COMPILE_WITH_AOTI = """
import sys, time, torch
program = torch.export.load(sys.argv[1])
start = time.perf_counter()
torch._inductor.aoti_compile_and_package(program, package_path=sys.argv[2])
print(time.perf_counter() - start)
"""


def run(command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def fresh_caches(folder):
    """An environment whose compile caches are empty directories."""
    cache = tempfile.mkdtemp(dir=folder)
    return {**os.environ, "XDG_CACHE_HOME": cache, "KILN_CACHE_DIR": cache + "/kiln",
            "TORCHINDUCTOR_CACHE_DIR": cache + "/inductor", "OMP_NUM_THREADS": "1"}


def median_of_calls(call, count=20000):
    for _ in range(1000):
        call()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def kiln_call_seconds(program, package):
    """The median for one thread that examples/two_threads prints; it runs at batch 8."""
    text = run([program, package])
    match = re.search(r"one thread: +median ([0-9.]+) us", text)
    if not match:
        sys.exit(f"{program} printed no median:\n{text}")
    return float(match.group(1)) * 1e-6


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.model = folder / "mlp.pt2"
        self.kiln_package, self.aoti_package = folder / "mlp.kiln.pt2", folder / "mlp.aoti.pt2"
        self.onnx = folder / "mlp.onnx"
        torch.manual_seed(0)
        module = Mlp().eval().requires_grad_(False)
        self.x = torch.randn(BATCH, 10)
        batch = torch.export.Dim("batch", min=1, max=1024)
        program = torch.export.export(module, (torch.randn(8, 10),), dynamic_shapes={"x": {0: batch}})
        torch.export.save(program, self.model)
        write_mlp(self.onnx, {name: value.numpy() for name, value in module.state_dict().items()})
        found = self.session().run(None, {"x": self.x.numpy()})[0]
        torch.testing.assert_close(torch.from_numpy(found), module(self.x))

    def session(self):
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(str(self.onnx), settings, providers=["CPUExecutionProvider"])

    def compile_round(self):
        start = time.perf_counter()
        run([self.options.kiln, "compile", self.model, "-o", self.kiln_package], env=fresh_caches(self.folder))
        kiln = time.perf_counter() - start
        aoti = float(run([sys.executable, "-c", COMPILE_WITH_AOTI, self.model, self.aoti_package],
                         env=fresh_caches(self.folder)).split()[-1])
        start = time.perf_counter()
        self.session()
        return {"kiln": kiln, "aotinductor": aoti, "onnxruntime": time.perf_counter() - start}

    def prepare_calls(self):
        from torch.utils.cpp_extension import load_inline
        self.aoti_loop = load_inline("aoti_loop", AOTI_LOOP, functions=["time_calls"], build_directory=str(self.folder))
        self.live = self.session()
        self.binding = self.live.io_binding()
        self.output = torch.empty(BATCH, 1)
        for name, bind, value in (("x", self.binding.bind_input, self.x), ("y", self.binding.bind_output, self.output)):
            bind(name, "cpu", 0, numpy.float32, list(value.shape), value.data_ptr())

    def call_round(self):
        kiln = kiln_call_seconds(self.options.two_threads, self.kiln_package)
        aoti = statistics.median(self.aoti_loop.time_calls(str(self.aoti_package), self.x, 20000))
        onnx = median_of_calls(lambda: self.live.run_with_iobinding(self.binding))
        return {"kiln": kiln, "aotinductor": aoti, "onnxruntime": onnx}


def medians(rounds):
    return {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}


def report(what, values, unit, scale):
    line = [f"{name} {value * scale:.3f} {unit} ({value / values['kiln']:.2f}x)" for name, value in values.items()]
    print(f"{what:8} " + "   ".join(line), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", default=ROOT / "build/release/bin/kiln", type=pathlib.Path)
    parser.add_argument("--two-threads", default=ROOT / "build/release/bin/two_threads", type=pathlib.Path)
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--compile-rounds", default=3, type=int)
    parser.add_argument("--json", type=pathlib.Path, help="also write every round's numbers here")
    options = parser.parse_args()
    for program in (options.kiln, options.two_threads):
        if not program.exists():
            sys.exit(f"{program} does not exist; build it with tools/build.sh release")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, pathlib.Path(folder))
        compiles = [bench.compile_round() for _ in range(options.compile_rounds)]
        report("compile", medians(compiles), "s", 1)
        bench.prepare_calls()
        calls = [bench.call_round() for _ in range(options.rounds)]
        report(f"batch {BATCH}", medians(calls), "µs", 1e6)
    if options.json:
        options.json.write_text(json.dumps({"batch": BATCH, "compile": compiles, "call": calls}, indent=1))


if __name__ == "__main__":
    main()
