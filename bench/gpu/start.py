"""How long a GPU waits for a model: the rate of the weights' upload, load and first result, torch.compile(backend="kiln").

    python bench/gpu/start.py [--json result.json] [--gigabytes 1] [--times 5]

Needs torch with CUDA, and NVRTC: models are exported and compiled here. Every number is the median of --times; the GPU's
context is made before, and the package's file is in the page cache."""
import argparse
import json
import pathlib
import statistics
import tempfile
import time

import torch

import kiln


class Weights(torch.nn.Module):
    """So many bytes of weights, of which a call reads little: loading is all there is."""

    def __init__(self, gigabytes):
        super().__init__()
        rows = int(gigabytes * 1e9 / 8 / (8192 * 2))
        self.parts = torch.nn.ParameterList(
            torch.randn(rows, 8192, dtype=torch.bfloat16, device="cuda") for _ in range(8))

    def forward(self, x):
        for part in self.parts:
            x = x + part[0]
        return x


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.LayerNorm(4096),
                               torch.nn.Linear(4096, 1024)).to(torch.bfloat16)


def package_of(module, inputs, path):
    with torch.no_grad():
        program = torch.export.export(module.cuda(), tuple(x.cuda() for x in inputs))
    return kiln.aoti_compile_and_package(program, package_path=str(path))


def seconds_of(function):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    result = function()
    torch.cuda.synchronize()
    return time.perf_counter() - begin, result


def median_of(times, function):
    return statistics.median(seconds_of(function)[0] for _ in range(times))


def upload(folder, options):
    package = package_of(Weights(options.gigabytes), [torch.randn(8192, dtype=torch.bfloat16)], folder / "weights.pt2")
    size = pathlib.Path(package).stat().st_size
    kiln.aoti_load_package(package)  # into the page cache; memory of the GPU that is used again
    return size / median_of(options.times, lambda: kiln.aoti_load_package(package)) * 1e-9


def first_result(folder, options):
    inputs = [torch.randn(64, 1024, dtype=torch.bfloat16)]
    module = mlp()
    package = package_of(module, inputs, folder / "mlp.pt2")
    x = inputs[0].cuda()
    expected = module.cuda()(x)
    torch.testing.assert_close(kiln.aoti_load_package(package)(x), expected, atol=2e-2, rtol=2e-2)
    return median_of(options.times, lambda: kiln.aoti_load_package(package)(x)) * 1e3


def backend(options):
    """The first call, which compiles, and one of the later ones beside eager's."""
    module, x = mlp().cuda(), torch.randn(64, 1024, dtype=torch.bfloat16, device="cuda")
    compiled = torch.compile(module, backend="kiln")
    with torch.no_grad():
        first, result = seconds_of(lambda: compiled(x))
        torch.testing.assert_close(result, module(x), atol=2e-2, rtol=2e-2)
        return first, median_of(100, lambda: compiled(x)) * 1e6, median_of(100, lambda: module(x)) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    torch.zeros(1, device="cuda")  # the context
    rows = []

    def measured(what, unit, asked, work):
        try:
            rows.append((what, work(), unit, asked))
        except Exception as error:  # the others are worth having
            rows.append((what, f"failed: {type(error).__name__}: {str(error)[:300]}", unit, asked))
        print(rows[-1], flush=True)

    with tempfile.TemporaryDirectory() as folder:
        measured("load and first result", "ms", "at most 150", lambda: first_result(pathlib.Path(folder), options))
        try:
            first, call, eager = backend(options)
            rows += [("torch.compile, first call", first, "s", ""), ("torch.compile, a call", call, "µs", ""),
                     ("eager, the same call", eager, "µs", "")]
        except Exception as error:
            rows.append(("torch.compile", f"failed: {type(error).__name__}: {str(error)[:300]}", "", ""))
        measured("upload of weights", "GB/s", "at least 20", lambda: upload(pathlib.Path(folder), options))
    print(f"| {torch.cuda.get_device_name()}, torch {torch.__version__} | seen | asked |\n| --- | --- | --- |")
    for what, seen, unit, asked in rows:
        print(f"| {what} | {seen if isinstance(seen, str) else f'{seen:.3g} {unit}'} | {asked} |")
    if options.json:
        options.json.write_text(json.dumps([dict(zip(("what", "seen", "unit", "asked"), row)) for row in rows], indent=1))


if __name__ == "__main__":
    main()
