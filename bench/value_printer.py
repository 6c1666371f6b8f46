#!/usr/bin/env python3
"""The intermediate value printer on a 12-layer transformer: seconds of mode 2, and that PyTorch reads all that mode 1 saves.

    python bench/value_printer.py [--kiln build/release/bin/kiln] [--width 768] [--length 64] [--layers 12]

Needs PyTorch. Mode 2 must finish in seconds although it looks at every weight before and after each kernel; every file of
mode 1 is loaded with torch.load(weights_only=True).
"""
import argparse
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.before_attention(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, w))
        return x + self.down(F.gelu(self.up(self.before_mlp(x))))


class Transformer(nn.Module):
    def __init__(self, layers, width, heads=12, tokens=1000):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, tokens)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def run(kiln, package, settings, **more):
    command = [kiln, "run", package] + [part for s in settings for part in ("--config", s)]
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return f"{time.perf_counter() - began:.2f} s ({busy:.2f} s of processor time)", done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kiln", default="build/release/bin/kiln")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--layers", type=int, default=12)
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as work:
        model, package = os.path.join(work, "t.pt2"), os.path.join(work, "t.kiln.pt2")
        program = torch.export.export(Transformer(options.layers, options.width).eval(),
                                      (torch.randint(1000, (1, options.length)),))
        torch.export.save(program, model)
        subprocess.run([options.kiln, "compile", model, "-o", package], check=True, stdout=subprocess.DEVNULL)
        off, _ = run(options.kiln, package, [])
        printer = "aot_inductor.debug_intermediate_value_printer="
        printed, text = run(options.kiln, package, [printer + "2"])
        launches = text.count("[ before_launch - ")
        numbers = len(re.findall(r" checksum [0-9a-f]{16}", text))
        print(f"{options.layers} layers of {options.width}: run {off}, mode 2 {printed} "
              f"({launches} launches, {numbers} arguments looked at)")
        saved = os.path.join(work, "saved")
        seconds, _ = run(options.kiln, package, [printer + "1", "intermediate_value_dir=" + saved])
        files = sorted(pathlib.Path(saved).rglob("*.pt"))
        for path in files:
            if not isinstance(torch.load(path, weights_only=True), torch.Tensor):
                sys.exit(f"{path} is no tensor")
        size = sum(path.stat().st_size for path in files)
        print(f"mode 1 {seconds}: {len(files)} files, {size / 1e6:.0f} MB, all read by torch.load(weights_only=True)")
        # Of memory that a kernel fills itself mode 1 also saves what was there before, for replay.
        if len(files) < numbers:
            sys.exit(f"mode 2 looked at {numbers} arguments, mode 1 saved {len(files)}")


if __name__ == "__main__":
    main()
