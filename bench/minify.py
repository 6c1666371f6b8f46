#!/usr/bin/env python3
"""Measures what the minifier promises: the documentation's example, programs of 1,000 and 5,000 nodes with one injected
fault of each kind, and random programs.

    bench/minify.py [--kiln build/release/bin/kiln] [--only example,large,random] [--nodes 1000,5000] [--programs 50]

Needs Python with torch, to export the programs; Kiln itself does not. Prints one line per case and exits with 1 if a limit
was missed. Nothing is left behind: the script checks for temporary files and processes of its own runs too.
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import torch

SIZE = 32
FAULTS = {  # fault of inject_fault_TESTING_ONLY -> operators that must be left
    'internal_error:relu': 1,
    'compile_error:relu': 1,
    'runtime_error:relu': 1,
    'accuracy:relu': 1,
    'nan:relu': 1,
    'crash:relu': 1,
    'hang:relu': 1,
    'accuracy:relu+erf': 2,
    'accuracy:relu:above=100': 1,
    'accuracy:relu:dynamic': 1,
}


class Example(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(10, 16)
        self.relu = torch.nn.ReLU()
        self.sigmoid = torch.nn.Sigmoid()

    def forward(self, x):
        return self.sigmoid(self.relu(self.fc1(x)))


class RandomProgram(torch.nn.Module):
    """A chain with side arms; one relu followed by an erf, whose error reaches the output."""

    def __init__(self, nodes, seed):
        super().__init__()
        self.nodes, self.seed = nodes, seed
        self.fc = torch.nn.ModuleList([torch.nn.Linear(SIZE, SIZE) for _ in range(3)])

    def forward(self, x, y):
        choose = random.Random(self.seed)
        place = choose.randrange(self.nodes // 4, self.nodes * 3 // 4)
        values, kept, count = [x, y], None, 0
        while count < self.nodes:
            a, b = values[-1], choose.choice(values[-6:])
            kind = choose.randrange(8)
            if kept is None and count >= place:
                kept = torch.erf(torch.relu(a))
                value, cost = kept, 2
            elif kind == 0:
                value, cost = choose.choice(self.fc)(a), 1
            elif kind == 1:
                value, cost = torch.sigmoid(a), 1
            elif kind == 2:
                value, cost = a + b, 1
            elif kind == 3:
                value, cost = a * torch.tanh(b), 2
            elif kind == 4:
                value, cost = torch.nn.functional.layer_norm(a, (SIZE,)), 1
            elif kind == 5:
                value, cost = torch.softmax(a, -1), 1
            elif kind == 6:
                value, cost = a.transpose(0, 1).reshape(SIZE, a.shape[0]).transpose(0, 1), 3
            else:
                value, cost = torch.nn.functional.gelu(a) - b, 2
            values.append(value)
            count += cost
        return values[-1], kept


class InBranch(torch.nn.Module):
    def forward(self, x):
        def yes(v):
            return torch.sin(torch.relu(torch.cos(v)))

        def no(v):
            return torch.cos(v)

        for _ in range(20):
            x = torch.tanh(x) + 1
        return torch.sigmoid(torch.cond(x.sum() > 0, yes, no, (x,)))


def export(model, inputs, path, dynamic=False):
    torch.manual_seed(0)
    shapes = None
    if dynamic:
        batch = torch.export.Dim('batch', min=2, max=1024)
        shapes = tuple({0: batch} for _ in inputs)
    torch.export.save(torch.export.export(model, inputs, dynamic_shapes=shapes), path)


class Bench:
    def __init__(self, kiln, directory):
        self.kiln, self.directory, self.missed = os.path.abspath(kiln), directory, 0
        self.environment = dict(os.environ, KILN_CACHE_DIR=os.path.join(directory, 'cache'),
                                TMPDIR=os.path.join(directory, 'tmp'))
        os.makedirs(self.environment['TMPDIR'], exist_ok=True)

    def left_behind(self):
        files = os.listdir(self.environment['TMPDIR'])
        children = subprocess.run(['pgrep', '-P', str(os.getpid())], capture_output=True, text=True).stdout.split()
        return files or [c for c in children if os.path.exists(f'/proc/{c}')]

    def run(self, name, model, settings, limit, operators):
        work = tempfile.mkdtemp(dir=self.directory)
        command = [self.kiln, 'minify', model, '--accuracy']
        for setting in settings:
            command += ['--config', setting]
        begin = time.time()
        result = subprocess.run(command, cwd=work, env=self.environment, capture_output=True, text=True)
        seconds = time.time() - begin
        found = re.search(r'^(\d+) operators? left of (\d+), (\d+) candidates', result.stdout, re.M)
        left = int(found.group(1)) if found else -1
        stray = self.left_behind()
        good = result.returncode == 0 and 0 < left <= operators and seconds <= limit and not stray
        self.missed += not good
        print(f"{'ok  ' if good else 'MISS'} {name}: {left} left of {found.group(2) if found else '?'}"
              f" (at most {operators}), {seconds:.1f} s (at most {limit:g} s)"
              f"{', left behind: ' + str(stray) if stray else ''}", flush=True)
        if not found:
            print((result.stdout + result.stderr).strip()[-400:])
        return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--kiln', default='build/release/bin/kiln')
    parser.add_argument('--only', default='example,large,random')
    parser.add_argument('--nodes', default='1000,5000')
    parser.add_argument('--programs', type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(options.kiln, directory)
        model = os.path.join(directory, 'model.pt2')
        if 'example' in options.only:
            export(Example(), (torch.randn(8, 10),), model)
            for bug, limit in (('compile_error', 5), ('runtime_error', 2), ('accuracy', 2)):
                bench.run(f'example, {bug}', model, [f'cpp.inject_relu_bug_TESTING_ONLY={bug}'], limit, 1)
        if 'large' in options.only:
            export(InBranch(), (torch.randn(8, SIZE),), model)
            bench.run('in a subgraph', model, ['inject_fault_TESTING_ONLY=accuracy:relu:subgraph'], 60, 3)
            for nodes in map(int, options.nodes.split(',')):
                for fault, operators in FAULTS.items():
                    inputs = (torch.randn(16, SIZE), torch.randn(16, SIZE))
                    export(RandomProgram(nodes, 1), inputs, model, 'dynamic' in fault)
                    limit = nodes * 0.06 * (3 if 'hang' in fault else 1)
                    bench.run(f'{nodes} nodes, {fault}', model, [f'inject_fault_TESTING_ONLY={fault}'], limit, operators)
        if 'random' in options.only:
            good = 0
            faults = [fault for fault in FAULTS if 'hang' not in fault]
            for seed in range(options.programs):
                fault = faults[seed % len(faults)]
                inputs = (torch.randn(16, SIZE), torch.randn(16, SIZE))
                export(RandomProgram(random.Random(seed).randrange(20, 120), seed), inputs, model, 'dynamic' in fault)
                good += bench.run(f'program {seed}, {fault}', model, [f'inject_fault_TESTING_ONLY={fault}'], 60,
                                  FAULTS[fault])
            print(f'{good} of {options.programs} random programs minimal')
        sys.exit(bench.missed > 0)


if __name__ == '__main__':
    main()
