#!/usr/bin/env python3
"""Kiln beside eager PyTorch, operator by operator: which call is slower than eager's?

    tools/build.sh release && python bench/operators.py [PART…] [--rounds 7] [--kiln build/release/bin/kiln] [--json FILE] [--docs docs]
    python bench/operators.py --report FILE --docs docs
    python bench/operators.py --list

PART: calls whose names contain it (default: all of bench/measuring/operator_list.py; half an hour). Each call is exported, compiled, compared with
eager's result and measured: processor time on one thread, both called from one process in turns, the least of some rounds, so that a busy machine
shows little. Both allocate their results in each call. What is behind eager comes last, the worst first; the exit status is 1 if a
result is wrong. Needs torch."""
import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/measuring"))
PIECE = 24  # calls of one process: what it holds stays small, and what ends it leaves the others be
ROUND_SECONDS = 0.012


def torch_dtypes():
    import torch
    return {(0, 8): torch.int8, (0, 16): torch.int16, (0, 32): torch.int32, (0, 64): torch.int64, (1, 8): torch.uint8,
            (2, 16): torch.float16, (2, 32): torch.float32, (2, 64): torch.float64, (4, 16): torch.bfloat16,
            (5, 64): torch.complex64, (5, 128): torch.complex128, (6, 8): torch.bool}


class LoadedCall:
    """A package and the tensors it is called with; results are allocated by Kiln, call by call, as eager's are."""

    def __init__(self, library, path, tensors):
        from kiln_abi import TENSOR, DataType, Package, Tensor, Value
        self.package, self.tensors, self.dtypes = Package(library, path, ["cpp.threads=1"]), tensors, torch_dtypes()
        codes = {dtype: code for code, dtype in self.dtypes.items()}
        self.given, self.kept = (Value * max(1, len(tensors)))(), []
        for value, tensor in zip(self.given, tensors):
            rank = tensor.dim()
            sizes, strides = (ctypes.c_int64 * rank)(*tensor.shape), (ctypes.c_int64 * rank)(*tensor.stride())
            described = Tensor(tensor.data_ptr(), 1, 0, rank, DataType(*codes[tensor.dtype], 1), sizes, strides, 0)
            value.kind, value.as_.tensor = TENSOR, ctypes.pointer(described)
            self.kept.append((described, sizes, strides))
        self.count = self.package.library.kiln_output_count(self.package.model)
        self.made = (Value * max(1, self.count))()
        run, clear = self.package.library.kiln_run, self.package.library.kiln_value_clear
        run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]
        clear.argtypes, self.run, self.clear = [ctypes.c_void_p], run, clear
        self.arguments = (self.package.instance, ctypes.addressof(self.given), len(tensors), ctypes.addressof(self.made), self.count)
        self.addresses = [ctypes.addressof(value) for value in self.made][:self.count]

    def __call__(self):
        if self.run(*self.arguments):
            raise RuntimeError(self.package.library.kiln_last_error().decode())
        for address in self.addresses:
            self.clear(address)

    def results(self):
        if self.run(*self.arguments):
            raise RuntimeError(self.package.library.kiln_last_error().decode())
        results = [self.copied(value.as_.tensor.contents) for value in self.made[:self.count]]
        for address in self.addresses:
            self.clear(address)
        return results

    def copied(self, tensor):
        import torch
        dtype = self.dtypes[(tensor.dtype.code, tensor.dtype.bits)]
        sizes, strides = tensor.shape[:tensor.ndim], tensor.strides[:tensor.ndim]
        if 0 in sizes:
            return torch.empty(sizes, dtype=dtype)
        length = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
        memory = (ctypes.c_char * (length * dtype.itemsize)).from_address(tensor.data + tensor.byte_offset)
        return torch.frombuffer(memory, dtype=dtype).as_strided(sizes, strides).clone()


def exported(entry):
    """The program, and what it is called with."""
    import torch
    from torch.export import Dim
    tensors = [made.make() for made in entry.tensors]

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for i, (made, tensor) in enumerate(zip(entry.tensors, tensors)):
                if made.is_constant:
                    self.register_buffer(f"weight{i}", tensor)

        def forward(self, *given):
            left = iter(given)
            return entry.function(*[getattr(self, f"weight{i}") if made.is_constant else next(left) for i, made in enumerate(entry.tensors)])

    given = [tensor for made, tensor in zip(entry.tensors, tensors) if not made.is_constant]
    shapes = tuple({dim: Dim.AUTO for dim in made.dynamic} for made in entry.tensors if not made.is_constant)
    return torch.export.export(Module(), tuple(given), dynamic_shapes=(shapes,) if any(shapes) else None), given, tensors


def flat(value):
    import torch
    return torch.utils._pytree.tree_leaves(value)


def difference_of(results, expected, tolerance):
    """The largest difference in units of the largest value; "wrong" beyond the tolerance, or where whole numbers differ at all."""
    import torch
    if [(r.shape, r.dtype) for r in results] != [(e.shape, e.dtype) for e in expected]:
        return "wrong", "other sizes or types"
    largest = 0.0
    for result, right in zip(results, expected):
        if not (right.is_floating_point() or right.is_complex()):
            if not torch.equal(result, right):
                return "wrong", f"{int((result != right).sum())} of {right.numel()} whole numbers differ"
            continue
        wide = torch.complex128 if right.is_complex() else torch.float64
        result, right = result.to(wide), right.to(wide)
        same = (result == right) | (result.isnan() & right.isnan())
        if bool(same.all()):
            continue
        finite = right.abs()[right.isfinite()]
        off = (result - right).abs().masked_fill(same, 0) / finite.max().clamp(min=1e-30) if finite.numel() else torch.tensor(1.0)
        largest = max(largest, float(off.nan_to_num(nan=1e30).max()))
    return "wrong" if largest > tolerance else "right", f"{largest:.1e}"


def compile_call(kiln, program, folder):
    import torch
    torch.export.save(program, folder / "model.pt2")
    subprocess.run([kiln, "compile", folder / "model.pt2", "-o", folder / "model.kiln.pt2", "--quiet", "--config", "freezing=1"],
                   check=True, capture_output=True, text=True)


def measure(entry, library, path, given, tensors, rounds):
    kiln = LoadedCall(library, path, given)
    entry_call = (lambda: entry.function(*tensors))
    judgement, difference = difference_of(kiln.results(), flat(entry_call()), entry.tolerance)
    least, counts = {}, {}
    systems = {"kiln": kiln, "eager": entry_call}
    for _ in range(rounds):
        for system, run in systems.items():
            if system not in counts:
                for _ in range(2):
                    run()
                begin = time.thread_time()
                run()
                counts[system] = max(1, min(2000, int(ROUND_SECONDS / max(time.thread_time() - begin, 1e-6))))
            begin = time.thread_time()
            for _ in range(counts[system]):
                run()
            least[system] = min(least.get(system, float("inf")), (time.thread_time() - begin) / counts[system])
    return {"seconds": least, "judgement": judgement, "difference": difference}


def measure_piece(names, options):
    """In a process of its own. One line of JSON for each call; the next one compiles while one is measured."""
    import torch
    from operator_list import CALLS
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as compiler:
        def prepared(name):
            torch.manual_seed(0)
            place = pathlib.Path(folder) / str(names.index(name))
            place.mkdir()
            try:
                program, given, tensors = exported(CALLS[name])
            except Exception as error:
                return None, str(error)
            return compiler.submit(compile_call, options.kiln, program, place), place / "model.kiln.pt2", given, tensors
        waiting = [prepared(name) for name in names[:1]]
        for i, name in enumerate(names):
            waiting += [prepared(following) for following in names[i + 1:i + 2]]
            result, (compiling, *rest) = {"name": name}, waiting[i]
            print(json.dumps({"begun": name}), flush=True)
            try:
                if compiling is None:
                    raise RuntimeError("not exported: " + rest[0])
                compiling.result()
                result |= measure(CALLS[name], options.library, *rest, options.rounds)
            except subprocess.CalledProcessError as error:
                result["note"] = (error.stderr.strip().splitlines() or ["compile failed"])[0][:200]
            except Exception as error:
                result["note"] = (str(error).strip().splitlines() or [repr(error)])[0][:200]
            waiting[i] = None
            print(json.dumps(result), flush=True)


def results_of(names, options):
    """Results one by one; a call that ends the process is a result, and the others of its piece get another process."""
    while names:
        piece, names = names[:PIECE], names[PIECE:]
        command = [sys.executable, __file__, "--piece", json.dumps(piece), "--kiln", str(options.kiln), "--library", str(options.library),
                   "--rounds", str(options.rounds)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        begun = piece[0]
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            result = json.loads(line)
            if "begun" in result:
                begun = result["begun"]
                continue
            piece.remove(result["name"])
            yield result
        if process.wait() and piece:
            yield {"name": begun, "note": f"the process ended with {process.returncode}"}
            piece.remove(begun)
        names = piece + names


def ratio(result):
    return result["seconds"]["kiln"] / result["seconds"]["eager"]


def shown(result):
    if "seconds" not in result:
        return f"{result['name']:42} {result['note']}"
    kiln, eager = (result["seconds"][system] * 1e6 for system in ("kiln", "eager"))
    wrong = "  WRONG: " + result["difference"] if result["judgement"] == "wrong" else ""
    return f"{result['name']:42} {kiln:10.1f} us {eager:10.1f} us {kiln / eager:7.2f}{wrong}"


def summary(results, behind):
    measured = [r for r in results if "seconds" in r]
    lines = [f"{len(measured)} calls measured, {len(results) - len(measured)} not; {sum(r['judgement'] == 'wrong' for r in measured)} wrong"]
    if measured:
        product = 1.0
        for result in measured:
            product *= ratio(result) ** (1 / len(measured))
        slower = sorted((r for r in measured if ratio(r) > behind), key=ratio, reverse=True)
        lines += [f"Kiln / eager: geometric mean {product:.2f}; {len(slower)} calls above {behind}" + (":" if slower else "")]
        lines += [shown(result) for result in slower]
    return "\n".join(lines)


def page(results, machine, behind):
    """Markdown of what was measured: the calls that are behind, then all of them."""
    cpu, caches = machine["cpu"], ", ".join(f"{level} {size}" for level, size in machine["caches"].items())
    measured = [r for r in results if "seconds" in r]
    slower = sorted((r for r in measured if ratio(r) > behind), key=ratio, reverse=True)

    def table(rows):
        lines = ["| call | Kiln | eager | Kiln's time over eager's |", "| --- | ---: | ---: | ---: |"]
        for r in rows:
            kiln, eager = (r["seconds"][system] * 1e6 for system in ("kiln", "eager"))
            wrong = f" (differs: {r['difference']})" if r["judgement"] == "wrong" else ""
            lines.append(f"| {r['name'].replace('|', chr(92) + '|')}{wrong} | {kiln:.1f} us | {eager:.1f} us | {kiln / eager:.2f} |")
        return "\n".join(lines)

    return f"""# Benchmarks of single operators

`bench/operators.py` makes this page: {len(results)} calls of operators in the sizes that models have (`bench/measuring/operator_list.py`), each
exported alone, compiled with freezing, its result compared with eager PyTorch's (whole numbers must be equal), and both called from one
process in turns. Times are processor time on one thread, the least of some rounds; both allocate their results in each call.
<!-- docs-test: skip needs PyTorch -->
```
$ tools/build.sh release && python bench/operators.py --docs docs
```
{cpu}{" (a virtual machine)" if machine["virtual"] else ""}, {caches}, busy with other work, so single numbers move by a tenth.

```
{summary(results, behind).splitlines()[0]}
{summary(results, behind).splitlines()[1].rstrip(":")}
```

## Behind eager
{table(slower)}

## All
{table(measured)}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="calls whose names contain it (default: all; --list shows them)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds in turns, of which the least counts (7)")
    parser.add_argument("--behind", type=float, default=1.2, help="times eager's time from which a call is listed as behind (1.2)")
    parser.add_argument("--kiln", default=ROOT / "build/release/bin/kiln", type=pathlib.Path, help="the command (build/release/bin/kiln)")
    parser.add_argument("--library", type=pathlib.Path, help="the runtime (lib/libkiln_runtime.so beside the command's folder)")
    parser.add_argument("--json", type=pathlib.Path, help="writes all results to this file")
    parser.add_argument("--docs", type=pathlib.Path, help="writes benchmarks-operators.md to this folder")
    parser.add_argument("--report", type=pathlib.Path, help="measures nothing: shows what is in this --json")
    parser.add_argument("--list", action="store_true", help="prints the names of the calls, or of those that fit, and ends")
    parser.add_argument("--piece", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.library = options.library or options.kiln.resolve().parent.parent / "lib/libkiln_runtime.so"
    if options.piece:
        return measure_piece(json.loads(options.piece), options)
    if options.report:
        return conclude(json.loads(options.report.read_text()), options)
    from chosen import by_part
    from operator_list import CALLS
    chosen = by_part(options.parts, CALLS, "call whose name contains")
    if options.list:
        return print("\n".join(chosen))
    print(f"{'call':42} {'Kiln':>13} {'eager':>13} {'ratio':>7}", flush=True)
    results = []
    for result in results_of(chosen, options):
        results.append(result)
        print(shown(result), flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
    return conclude(results, options)


def conclude(results, options):
    print("\n" + summary(results, options.behind))
    if options.docs:
        import machine
        (options.docs / "benchmarks-operators.md").write_text(page(results, machine.describe(), options.behind))
    return 1 if any(r.get("judgement") == "wrong" for r in results) else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
