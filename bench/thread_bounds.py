#!/usr/bin/env python3
"""What more threads could gain at most, from how each kernel's items are dealt out: no machine with many cores is needed.

    python bench/thread_bounds.py [--kiln build/release/bin/kiln] [--threads 2,4,8,16] [--no-kernels] MODEL.pt2…

For each kernel of a model: calls, time on one thread here, items, grain, and for each number of threads the gain that whole rounds of
items allow, then the one that is left when the pool deals them out (runtime/parallel.cpp, runtime/thread_pool.cpp): too little for a thread
is not handed out, and pieces are larger than items. All threads are awake and as fast as one another, and nobody waits for memory: real
gains are less. Last, the bounds of the whole model, which are those of its kernels weighed by their time."""
import argparse
import heapq
import json
import math
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_RANGES, PIECES_AT_FIRST = 16, 4  # of runtime/thread_pool.h and parallel.cpp


def whole_rounds(items, threads):
    return items / math.ceil(items / threads)


def dealt_out(items, grain, threads):
    """Parallel::run and ThreadPool::work, with items that take as long as one another."""
    used = min(threads, math.ceil(items / grain))
    piece = min(math.ceil(items / (4 * used)), max(math.ceil(items / (16 * used)), grain))
    least, most = max(1, min(piece, grain)), PIECES_AT_FIRST * piece
    used = min(used, math.ceil(items / least))
    if used <= 1:
        return 1.0
    ranges = min(used, MOST_RANGES)
    next_item = [items // ranges * i + min(i, items % ranges) for i in range(ranges + 1)]
    end = next_item[1:]
    free, last = [(0, number) for number in range(used)], 0
    while free:
        now, number = heapq.heappop(free)
        for i in range(ranges):
            at = (number + i) % ranges
            left = end[at] - next_item[at]
            if left > 0:
                size = min(left, max(least, min(left // 2, most)))
                next_item[at] += size
                last = max(last, now + size)
                heapq.heappush(free, (now + size, number))
                break
    return items / last


def schedules(kiln, model, package):
    """Of each kernel: items and grain. Sizes are known: dynamic ones have no number of items."""
    command = [kiln, "compile", model, "-o", package, "--config", "freezing=1", "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    text = subprocess.run(command + ["--dump-after", "name_kernels"], check=True, capture_output=True, text=True).stdout
    found, name = {}, None
    for line in text.splitlines():
        if match := re.match(r"\s*kernel (\S+)", line):
            name = match[1]
        elif match := re.match(r"\s*schedule items \[(\d+)\] grain (\d+)", line):
            found[name] = int(match[1]), int(match[2])
    return found


def times(kiln, package, runs):
    text = subprocess.run([kiln, "profile", package, "--random", "--threads", "1", "--runs", str(runs), "--json", "-"], check=True,
                          capture_output=True, text=True).stdout
    return {kernel["name"]: kernel["least_seconds"] for function in json.loads(text)["functions"] for kernel in function["kernels"]}


def report(options, model, package):
    found = schedules(options.kiln, model, package)
    rows = {}
    for name, seconds in times(options.kiln, package, options.runs).items():
        if name in found:
            row = rows.setdefault((re.sub(r"_\d+$", "", name), *found[name]), [0, 0.0])
            row[0] += 1
            row[1] += seconds
    everything = sum(seconds for _, seconds in rows.values())
    bounds = {(kind, threads): 0.0 for kind in ("rounds", "dealt") for threads in options.threads}
    print(f"{model}: {everything * 1e3:.2f} ms on one thread")
    for (name, items, grain), (calls, seconds) in sorted(rows.items(), key=lambda row: -row[1][1]):
        gains = []
        for threads in options.threads:
            both = whole_rounds(items, threads), dealt_out(items, grain, threads)
            bounds["rounds", threads] += seconds / both[0]
            bounds["dealt", threads] += seconds / both[1]
            gains.append(f"{threads}: {both[0]:.1f}/{both[1]:.1f}")
        if options.kernels:
            print(f"{calls:4} x {seconds * 1e3:8.3f} ms  items {items:5} grain {grain:4}  {'  '.join(gains):40} {name}")
    for kind, words in (("rounds", "whole rounds of items"), ("dealt", "items as they are dealt out")):
        print(f"  at most, by {words}: " + "  ".join(f"{n}: {everything / bounds[kind, n]:.2f}" for n in options.threads))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.pt2")
    parser.add_argument("--kiln", default=str(ROOT / "build/release/bin/kiln"))
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[2, 4, 8, 16])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--no-kernels", dest="kernels", action="store_false", help="only the bounds of whole models")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models:
            report(options, model, str(pathlib.Path(folder) / "model.kiln.pt2"))


if __name__ == "__main__":
    main()
