#!/usr/bin/env python3
"""Measures what the minifier promises: the documentation's example, programs of 1,000 and 5,000 nodes with one injected
fault of each kind, random programs, and real models with one wrong operator.

    bench/minify.py --all [--kiln build/release/bin/kiln]
    bench/minify.py [--only example,large,random,models] [--nodes 1000,5000] [--faults crash,hang] [--programs 50]

Needs Python with torch, to export the programs (models: torchvision and transformers too); Kiln itself does not. The
models are ResNet-50 at 224 x 224 and a BERT of 12 layers at 128 tokens, with random weights. Prints one line per case,
then a table, and exits with 1 if a limit was missed. Every result is judged here once more, without Kiln's own cutting:
PyTorch loads repro.pt2, each operator is taken out in turn (its result becomes an input), and the failure must be gone.
What fails must be what failed at first, and nothing may be left behind: no temporary file, no process.
"""
import argparse
import copy
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'measuring'))
from chosen import by_name  # noqa: E402

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
    'accuracy:relu:subgraph': 2,  # the cond and the relu in it
}


# Model -> (fault, the operator that must be left). Each is one node among many of its kind.
MODEL_FAULTS = {
    'resnet50': [('accuracy:relu:node=relu__24', 'aten.relu'), ('accuracy:convolution:node=conv2d_45', 'aten.conv2d')],
    'bert': [('accuracy:gelu:node=gelu_7', 'aten.gelu'), ('accuracy:linear:node=linear_66', 'aten.linear')],
}
MODEL_LIMIT, MODEL_OPERATORS = 120, 3


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


class InBranch(RandomProgram):
    """The same, with the relu inside a branch of a cond in the middle."""

    def forward(self, x, y):
        def yes(v):
            return torch.sin(torch.relu(torch.cos(v)))

        def no(v):
            return torch.cos(v)

        choose = random.Random(self.seed)
        place = choose.randrange(self.nodes // 4, self.nodes * 3 // 4)
        values, kept, count = [x, y], None, 0
        while count < self.nodes:
            a, b = values[-1], choose.choice(values[-6:])
            if kept is None and count >= place:
                kept = torch.cond(y.sum() > -1e9, yes, no, (a,))
                value, cost = kept, 5
            else:
                kind = choose.randrange(3)
                value = torch.sigmoid(a) + b if kind == 0 else a * torch.tanh(b) if kind == 1 else torch.sin(a)
                cost = 1 if kind == 2 else 2
            values.append(value)
            count += cost
        return values[-1], kept


def export(model, inputs, path, dynamic=False):
    torch.manual_seed(0)
    shapes = None
    if dynamic:
        batch = torch.export.Dim('batch', min=2, max=1024)
        shapes = tuple({0: batch} for _ in inputs)
    torch.export.save(torch.export.export(model, inputs, dynamic_shapes=shapes), path)


def real_model(name):
    """The model and its inputs; nothing is downloaded."""
    torch.manual_seed(0)
    if name == 'resnet50':
        import torchvision
        return torchvision.models.resnet50(weights=None).eval(), (torch.randn(1, 3, 224, 224),)
    import transformers
    config = transformers.BertConfig()  # 12 layers of 768
    return transformers.BertModel(config).eval(), (torch.randint(0, config.vocab_size, (1, 128)),)


def without_each_operator(path):
    """Programs that lack one operator of this one: (name, exported program), made by PyTorch alone."""
    program = torch.export.load(path)
    module = program.module(check_guards=False)
    inputs = list(program.example_inputs[0])

    class Recorder(torch.fx.Interpreter):
        values = {}

        def run_node(self, n):
            self.values[n.name] = super().run_node(n)
            return self.values[n.name]

    Recorder(module).run(*inputs)

    def shapes(node):
        value = node.meta.get('val')
        if not isinstance(value, torch.Tensor):
            return None
        return {d: torch.export.Dim.AUTO for d, size in enumerate(value.shape) if not isinstance(size, int)} or None

    for victim in [n for n in module.graph.nodes if n.op == 'call_function']:
        value = Recorder.values[victim.name]
        if not isinstance(value, torch.Tensor):
            continue  # a number or a tuple: whoever takes its parts is taken out instead
        changed = copy.deepcopy(module)
        node = next(n for n in changed.graph.nodes if n.name == victim.name)
        last = [n for n in changed.graph.nodes if n.op == 'placeholder'][-1]
        with changed.graph.inserting_after(last):
            fresh = changed.graph.placeholder('taken_out')
        fresh.meta['val'] = victim.meta.get('val')
        node.replace_all_uses_with(fresh)
        changed.graph.erase_node(node)
        changed.graph.eliminate_dead_code()
        changed.graph.set_codegen(torch.fx.graph.CodeGen())
        changed.recompile()
        dynamic = [shapes(n) for n in changed.graph.nodes if n.op == 'placeholder']
        given = tuple(inputs) + (value.detach().clone(),)
        yield victim.name, torch.export.export(changed, given, dynamic_shapes=tuple(dynamic) if any(dynamic) else None,
                                               strict=False)


def kind_of(text):
    """What failed, without numbers: "wrong result (values)", "error K0411", "the process died of …", "no end of run"."""
    found = re.search(r'wrong result \(\w+\)|error \w+|the process died of [\w ]+|no end of \w+|out of memory', text)
    return found.group(0) if found else text


class Bench:
    def __init__(self, kiln, directory):
        self.kiln, self.directory, self.missed, self.rows = os.path.abspath(kiln), directory, 0, []
        self.environment = dict(os.environ, KILN_CACHE_DIR=os.path.join(directory, 'cache'),
                                TMPDIR=os.path.join(directory, 'tmp'))
        os.makedirs(self.environment['TMPDIR'], exist_ok=True)

    def left_behind(self):
        files = os.listdir(self.environment['TMPDIR'])
        children = subprocess.run(['pgrep', '-P', str(os.getpid())], capture_output=True, text=True).stdout.split()
        # Its trials end with their parent; what is orphaned has our temporary directory in its environment.
        orphans = []
        for process in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{process}/environ', 'rb') as file:
                    if process != str(os.getpid()) and self.environment['TMPDIR'].encode() in file.read():
                        orphans.append(process)
            except OSError:
                pass
        return files + [c for c in children if os.path.exists(f'/proc/{c}')] + orphans

    def not_minimal(self, work, settings, pinned):
        """Operators without which the repro still fails the same way."""
        still = []
        path = os.path.join(work, 'without.pt2')
        for name, program in without_each_operator(os.path.join(work, 'repro.pt2')):
            torch.export.save(program, path)
            command = [self.kiln, 'minify', path, '--command', 'run', '--accuracy', '--timeout', '30']
            result = subprocess.run(command + settings, env=self.environment, capture_output=True, text=True)
            if result.returncode != 0 and kind_of(result.stderr.strip().splitlines()[-1]) == pinned:
                still.append(name)
        return still

    def run(self, name, model, settings, limit, operators, culprit='aten.relu.'):
        work = tempfile.mkdtemp(dir=self.directory)
        settings = [word for setting in settings for word in ('--config', setting)]
        begin, used = time.time(), os.times()
        result = subprocess.run([self.kiln, 'minify', model, '--accuracy'] + settings, cwd=work, env=self.environment,
                                capture_output=True, text=True)
        seconds = time.time() - begin
        processor = sum(os.times()[2:4]) - sum(used[2:4])
        found = re.search(r'^(\d+) operators? left of (\d+), (\d+) candidates', result.stdout, re.M)
        left = int(found.group(1)) if found else -1
        wrong = []
        if result.returncode != 0 or not found:
            wrong.append(f'exit code {result.returncode}: ' + (result.stdout + result.stderr).strip()[-300:])
        else:
            if left > operators:
                wrong.append(f'more than {operators} left')
            if seconds > limit:
                wrong.append('too slow')
            pinned = kind_of(re.search(r'^The failure: (.*)$', result.stdout, re.M).group(1))
            with open(os.path.join(work, 'repro.py'), encoding='utf-8') as file:
                repro = file.read()
            if kind_of(re.search(r'^# fails with: (.*)$', repro, re.M).group(1)) != pinned:
                wrong.append('drifted to another failure')
            if culprit not in repro:
                wrong.append('drifted: the faulty operator is not in it')
            if 'Minimal: ' not in result.stdout:
                wrong.append('not said to be minimal')
            still = self.not_minimal(work, settings, pinned)
            if still:
                wrong.append('fails also without ' + ', '.join(still))
        stray = self.left_behind()
        if stray:
            wrong.append(f'left behind: {stray}')
        self.missed += bool(wrong)
        self.rows.append((name, found.group(2) if found else '?', left, seconds, limit, not wrong, processor))
        print(f"{'MISS' if wrong else 'ok  '} {name}: {left} left of {found.group(2) if found else '?'}"
              f" (at most {operators}), {seconds:.1f} s (at most {limit:g} s), {processor:.1f} s of the processor"
              f" {'; '.join(wrong)}", flush=True)
        return not wrong

    def table(self):
        if all(row[0].startswith('program ') for row in self.rows):
            return
        print('\n| case | operators | left | limit | took | processor |\n| --- | --- | --- | --- | --- | --- |')
        for name, operators, left, seconds, limit, good, processor in self.rows:
            if not name.startswith('program '):
                print(f"| {name} | {operators} | {left} | {limit:g} s | {seconds:.1f} s{'' if good else ', missed'} |"
                      f" {processor:.1f} s |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--kiln', default='build/release/bin/kiln')
    parser.add_argument('--only', default='example,large,random,models', help='parts, separated by commas (all four)')
    parser.add_argument('--nodes', default='1000,5000')
    parser.add_argument('--faults', default='',
                        help='only faults that contain one of these, of the large programs and the models')
    parser.add_argument('--programs', type=int, default=50)
    parser.add_argument('--first', type=int, default=0, help='the first seed of the random programs')
    parser.add_argument('--all', action='store_true', help='everything; the default')
    options = parser.parse_args()
    by_name(options.only.split(','), ('example', 'large', 'random', 'models'), 'part')
    wanted = [part for part in options.faults.split(',') if part]
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(options.kiln, directory)
        model = os.path.join(directory, 'model.pt2')
        if 'example' in options.only:
            export(Example(), (torch.randn(8, 10),), model)
            for bug, limit in (('compile_error', 5), ('runtime_error', 2), ('accuracy', 2)):
                bench.run(f'example, {bug}', model, [f'cpp.inject_relu_bug_TESTING_ONLY={bug}'], limit, 1)
        if 'large' in options.only:
            for nodes in map(int, options.nodes.split(',')):
                for fault, operators in FAULTS.items():
                    if wanted and not any(part in fault for part in wanted):
                        continue
                    inputs = (torch.randn(16, SIZE), torch.randn(16, SIZE))
                    made = InBranch if 'subgraph' in fault else RandomProgram
                    dynamic = 'dynamic' in fault
                    model = os.path.join(directory, f'{made.__name__}_{nodes}_{dynamic}.pt2')
                    if not os.path.exists(model):
                        export(made(nodes, 1), inputs, model, dynamic)
                    limit = nodes * 0.06 * (3 if 'hang' in fault else 1)
                    bench.run(f'{nodes} nodes, {fault}', model, [f'inject_fault_TESTING_ONLY={fault}'], limit, operators)
        if 'models' in options.only:
            for name, faults in MODEL_FAULTS.items():
                chosen = [row for row in faults if not wanted or any(part in row[0] for part in wanted)]
                model = os.path.join(directory, f'{name}.pt2')
                if chosen:
                    torch.export.save(torch.export.export(*real_model(name)), model)
                for fault, culprit in chosen:
                    bench.run(f'{name}, {fault}', model, [f'inject_fault_TESTING_ONLY={fault}'], MODEL_LIMIT,
                              MODEL_OPERATORS, culprit)
        model = os.path.join(directory, 'model.pt2')
        if 'random' in options.only:
            good = 0
            faults = [fault for fault in FAULTS if 'hang' not in fault]
            for seed in range(options.first, options.first + options.programs):
                fault = faults[seed % len(faults)]
                inputs = (torch.randn(16, SIZE), torch.randn(16, SIZE))
                made = InBranch if 'subgraph' in fault else RandomProgram
                export(made(random.Random(seed).randrange(20, 120), seed), inputs, model, 'dynamic' in fault)
                good += bench.run(f'program {seed}, {fault}', model, [f'inject_fault_TESTING_ONLY={fault}'], 60,
                                  FAULTS[fault])
        bench.table()
        if 'random' in options.only:
            print(f'\n{good} of {options.programs} random programs: minimal, the same failure, nothing left behind')
        sys.exit(bench.missed > 0)


if __name__ == '__main__':
    main()
