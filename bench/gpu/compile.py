"""Exports the benchmark's models and compiles them for GPUs, without weights: small packages for a machine with a GPU, where
nothing is compiled.

    python bench/gpu/compile.py --kiln build/release/bin/kiln --out packages [--target sm_90a] [--kernels] [MODEL…]
"""
import argparse
import pathlib
import subprocess
import tempfile
import time

import torch

from models import KERNELS, MODELS, package_name, seeded


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kiln", default="kiln")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--kernels", action="store_true", help="the single operators of kernels.py, too")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.models + (list(KERNELS) if options.kernels else []):
        module, inputs = seeded(name)
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            program = torch.export.export(module, inputs)
            program._example_inputs = None  # they would be in the package
            path = pathlib.Path(folder) / f"{name}.pt2"
            torch.export.save(program, path)
            del program, module
            begin = time.monotonic()
            package = options.out / package_name(name)
            subprocess.run([options.kiln, "compile", path, "--device", "cuda", "--target", options.target, "-o", package,
                            "--quiet", "--config", "aot_inductor.package_constants_in_so=0"], check=True)
            print(f"{name}: {package.stat().st_size} bytes, compiled in {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
