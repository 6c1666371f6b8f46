#!/usr/bin/env python3
"""Cases for operators whose own reference proves little: composites that are interpreted through their parts.

    python tests/operator_cases.py           # writes tests/cases/operators_<nn> anew from tests/operator_calls.txt
    python tests/operator_cases.py --try     # only runs each call in eager, and says which ones it refuses

tests/operator_calls.txt has one call per line, in Python: T(dtype, sizes, low, high) is an input of seeded values, D a
dtype. Calls that stand together become one exported program, which returns all results. A call that writes to its first
argument writes to a copy of it."""
import pathlib
import shutil
import sys
import zlib

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401: declares quantized_decomposed

from case_writer import write_case

HERE = pathlib.Path(__file__).resolve().parent
TOGETHER = 24
DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i8": torch.int8,
          "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool,
          "c64": torch.complex64, "c128": torch.complex128, "f8e4m3fn": torch.float8_e4m3fn,
          "f8e5m2": torch.float8_e5m2}


class Input:
    def __init__(self, dtype, sizes, low, high):
        self.dtype, self.sizes, self.low, self.high = DTYPES[dtype], sizes, low, high

    def make(self):
        if self.dtype == torch.bool:
            return torch.rand(self.sizes) < (0 if self.high < 1 else 1 if self.low > 0 else 0.5)
        if self.dtype.is_complex:
            return torch.complex(*(torch.rand(self.sizes, dtype=torch.float64) * (self.high - self.low) + self.low
                                   for _ in range(2))).to(self.dtype)
        if self.dtype.is_floating_point:
            return (torch.rand(self.sizes, dtype=torch.float64) * (self.high - self.low) + self.low).to(self.dtype)
        low, high = -(-self.low // 1), self.high // 1
        return torch.randint(int(low), int(high) + 1, self.sizes).to(self.dtype)


class Call:
    """One line: an operator and its arguments, inputs among them."""

    def __init__(self, line):
        name, self.line = line[: line.index("(")], line
        self.op = torch.ops
        for part in name.split("."):
            self.op = getattr(self.op, part)
        self.args, self.named = eval("f" + line[line.index("("):], {
            "f": lambda *args, **named: (list(args), named), "T": Input, "D": DTYPES.get, "inf": float("inf")})
        self.writes = self.op._schema.is_mutable

    def inputs(self):
        out = []
        for arg in [*self.args, *self.named.values()]:
            out += [arg] if isinstance(arg, Input) else [a for a in arg if isinstance(a, Input)] if isinstance(
                arg, list) else []
        return out

    def run(self, values):
        """Takes its inputs from the iterator of values."""
        def take(arg):
            if isinstance(arg, Input):
                return next(values)
            return [take(a) for a in arg] if isinstance(arg, list) else arg
        args = [take(a) for a in self.args]
        named = {name: take(a) for name, a in self.named.items()}
        if self.writes:
            args[0] = [a.clone() for a in args[0]] if isinstance(args[0], list) else args[0].clone()
        out = self.op(*args, **named)
        out = args[0] if out is None else out
        results = list(out) if isinstance(out, (list, tuple)) else [out]
        return [r for r in results if r is not None]


class Calls(torch.nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, *inputs):
        values = iter(inputs)
        return [result for call in self.calls for result in call.run(values)]


class Case:
    dynamic, bad, sequence, needs, decompose, keep_library_frames, example = None, (), False, None, False, False, None
    gradients = False

    def __init__(self, calls):
        names = list(dict.fromkeys(c.line[: c.line.index("(")] for c in calls))
        self.module, self.about = Calls(calls), "one call each: " + ", ".join(names)
        self.calls = [tuple(i.make() for c in calls for i in c.inputs())]


def read_calls():
    groups, lines = [[]], (HERE / "operator_calls.txt").read_text().splitlines()
    for line in lines:
        if line.startswith("#"):
            continue
        if not line.strip():
            groups.append([])
        else:
            try:
                groups[-1].append(Call(line))
            except AttributeError as error:
                sys.exit(f"{line}\n    {error}")
    return [group[i: i + TOGETHER] for group in groups for i in range(0, len(group), TOGETHER)]


def main():
    if "--try" in sys.argv:
        for calls in read_calls():
            for call in calls:
                torch.manual_seed(zlib.crc32(call.line.encode()))
                try:
                    call.run(iter([i.make() for i in call.inputs()]))
                except Exception as error:  # noqa: BLE001: whatever eager says
                    print(f"{call.line}\n    {str(error).splitlines()[0]}")
        return
    for folder in (HERE / "cases").glob("operators_[0-9]*"):
        shutil.rmtree(folder)
    for number, calls in enumerate(read_calls()):
        write_case(HERE / "cases" / f"operators_{number:02}", lambda: Case(calls))


if __name__ == "__main__":
    main()
