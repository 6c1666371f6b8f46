#!/usr/bin/env python3
"""A call from Python: the documents' MLP (10 → 16 → 1, batch 8) in Kiln, AOT Inductor's loaded model and onnxruntime.

    python bench/python_call.py [--rounds 7] [--calls 5000] [--threads]

Needs the Python package of Kiln and torch; numpy and onnxruntime where they are installed. All run on one thread. The
systems take turns within each round, so that a busy moment of the machine hits all of them; for each the median call of
the best round and the median over all rounds are printed, with the machine's load.

--threads: two Python threads calling one model (cpp.threads=1, a call of about a millisecond or more) against one.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time

import torch
import torch._inductor

import kiln

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(10, 16)
        self.relu = torch.nn.ReLU()
        self.fc2 = torch.nn.Linear(16, 1)
        self.sigmoid = torch.nn.Sigmoid()

    def forward(self, x):
        return self.sigmoid(self.fc2(self.relu(self.fc1(x))))


def median_call(call, calls):
    clock = time.perf_counter_ns
    times = []
    for _ in range(calls):
        start = clock()
        call()
        times.append(clock() - start)
    return statistics.median(times) / 1000


def onnx_session(model, directory):
    import numpy  # noqa: F401
    import onnxruntime
    from onnx_mlp import write_mlp

    path = os.path.join(directory, "mlp.onnx")
    write_mlp(path, {name: value.numpy() for name, value in model.state_dict().items()})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def calls(options):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, x = Mlp().eval(), torch.randn(8, 10)
    with tempfile.TemporaryDirectory() as directory, torch.no_grad():
        program = torch.export.export(model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=1024)}})
        ours = kiln.aoti_load_package(kiln.aoti_compile_and_package(program, package_path=os.path.join(directory, "mlp.kiln.pt2")))
        systems = {"kiln, torch tensors": lambda: ours(x)}
        try:
            import numpy

            a = x.numpy()
            systems["kiln, numpy arrays"] = lambda: ours(a)
        except ImportError:
            print("numpy is not installed: left out")
        theirs = torch._inductor.aoti_load_package(
            torch._inductor.aoti_compile_and_package(program, package_path=os.path.join(directory, "mlp.pt2"))
        )
        systems["AOT Inductor, torch tensors"] = lambda: theirs(x)
        systems["eager"] = lambda: model(x)
        try:
            session = onnx_session(model, directory)
            feed = {session.get_inputs()[0].name: a}
            systems["onnxruntime, numpy arrays"] = lambda: session.run(None, feed)
        except ImportError:
            print("onnxruntime is not installed: left out")
        torch.testing.assert_close(ours(x), model(x))
        found = {name: [] for name in systems}
        for call in systems.values():
            median_call(call, 500)
        for _ in range(options.rounds):
            for name, call in systems.items():
                found[name].append(median_call(call, options.calls))
    print(f"{'µs per call':32} {'best round':>10} {'median':>10}   load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    for name, times in found.items():
        print(f"{name:32} {min(times):10.2f} {statistics.median(times):10.2f}")


def throughput(model, x, threads, seconds):
    counts, stop = [0] * threads, threading.Event()

    def work(i):
        while not stop.is_set():
            model(x)
            counts[i] += 1

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    time.sleep(seconds)
    stop.set()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - start)


def two_threads(options):
    net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)]).eval()
    x = torch.randn(128, 256)
    program = torch.export.export(net, (x,))
    model = kiln.aoti_load_package(kiln.aoti_compile_and_package(program), settings={"cpp.threads": 1})
    model(x)
    print(f"a call takes {median_call(lambda: model(x), 50) / 1000:.2f} ms")
    ratios = []
    for _ in range(options.rounds):
        one, two = throughput(model, x, 1, 1.0), throughput(model, x, 2, 1.0)
        ratios.append(two / one)
        print(f"1 thread {one:8.1f} calls/s, 2 threads {two:8.1f} calls/s: {two / one:.2f} times  load {os.getloadavg()[0]:.1f}")
    print(f"best {max(ratios):.2f}, median {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--threads", action="store_true")
    given = parser.parse_args()
    two_threads(given) if given.threads else calls(given)
