#!/usr/bin/env python3
"""How compile time grows with the graph: exports models of 10 to 1,000 equal blocks and compiles each three
times; the best counts. The time per node should stay the same.

    bench/compile_curve.py [--kiln PATH] [--blocks 10,100,1000]      (needs torch)
"""
import argparse
import pathlib
import re
import subprocess
import tempfile

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x):
        y = x + self.second(torch.relu(self.first(self.norm(x))))
        return y + (y.transpose(0, 1) * 0.5).transpose(0, 1).sigmoid()


class Stack(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def milliseconds(text, what):
    number, unit = re.search(what + r" ([0-9.]+) (ms|s)", text).groups()
    return float(number) * (1000 if unit == "s" else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", default="build/release/bin/kiln")
    parser.add_argument("--blocks", default="10,30,100,300,1000")
    options = parser.parse_args()
    print(f"{'nodes':>7} {'kernels':>8} {'passes ms':>10} {'C++ ms':>8} {'package ms':>11} {'passes us/node':>15}")
    with tempfile.TemporaryDirectory() as folder:
        for blocks in map(int, options.blocks.split(",")):
            program = torch.export.export(Stack(blocks).eval(), (torch.randn(8, 16),))
            model, package = pathlib.Path(folder) / "model.pt2", pathlib.Path(folder) / "package.pt2"
            torch.export.save(program, model)
            said = min((subprocess.run([options.kiln, "compile", model, "-o", package], capture_output=True, text=True,
                                       check=True).stdout for _ in range(3)),
                       key=lambda text: milliseconds(text, "schedule"))
            nodes, passes = len(program.graph.nodes), milliseconds(said, "schedule")
            compiler = milliseconds(said, r"C\+\+")
            kernels = re.match(r"(\d+) kernels", said).group(1)
            print(f"{nodes:>7} {kernels:>8} {passes:>10.1f} {compiler:>8.1f} "
                  f"{milliseconds(said, 'package'):>11.1f} {1000 * passes / nodes:>15.1f}", flush=True)


if __name__ == "__main__":
    main()
