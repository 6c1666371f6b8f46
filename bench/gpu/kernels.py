"""Single operators on a GPU: Kiln's kernels beside those that PyTorch calls (cuBLASLt, cuDNN, flash attention).

    python bench/gpu/kernels.py --packages packages --json kernels.json [--rounds 5] [KERNEL…]

A row is the sum of the GPU's own times of the kernels of one call, as CUPTI has them: what the call costs the host is not in
it. Systems take turns; between calls the second-level cache is written over, so that weights come from memory. The packages
come from compile.py --kernels."""
import argparse
import json
import pathlib
import statistics
import warnings

import torch
from torch.profiler import ProfilerActivity, profile

import kiln
from models import KERNELS, package_name, seeded
from run import BANDWIDTH, PEAK, error, first, kiln_system


def kernel_us(function, calls, cache):
    """Microseconds of the GPU per call, and how many kernels that were."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(activities=[ProfilerActivity.CUDA]) as profiled:
            for _ in range(calls):
                cache.fill_(1)
                function()
            torch.cuda.synchronize()
        times = [(event.name, event.device_time) for event in profiled.events()
                 if event.device_type == torch.autograd.DeviceType.CUDA]
    own = [t for name, t in times if "FillFunctor" not in name and "Memset" not in name]
    return sum(own) / calls, len(own) / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("kernels", nargs="*", default=list(KERNELS))
    options = parser.parse_args()
    cache = torch.empty(96 << 20, dtype=torch.uint8, device="cuda")
    result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "kiln": kiln.__version__, "models": {}}
    print("| operator | Kiln, µs | PyTorch, µs | of the limit | kernels | error |\n| --- | --- | --- | --- | --- | --- |")
    for name in options.kernels:
        if not (options.packages / package_name(name)).exists():
            print(f"{name}: no package")
            continue
        with torch.no_grad():
            module, inputs = seeded(name, "cuda")
            ours = kiln_system(name, options.packages, module, inputs, {"triton.cudagraphs": 0})
            systems = {"kiln": ours, "eager": lambda: module(*inputs)}
            off = error(first(ours()), first(module(*inputs)))
            times, counts = {system: [] for system in systems}, {}
            for turn in range(options.rounds + 1):
                for system, function in systems.items():
                    us, counts[system] = kernel_us(function, options.calls, cache)
                    if turn > 0:
                        times[system].append(us)
            us = {system: round(statistics.median(found), 2) for system, found in times.items()}
            limit = max(KERNELS[name].limit_bytes / BANDWIDTH, KERNELS[name].limit_flops / PEAK) * 1e6
            result["models"][name] = {"us": us, "kernels": counts, "limit_us": round(limit, 2), "error": off}
            print(f"| {name} | {us['kiln']} | {us['eager']} | {limit / us['kiln']:.0%} | {counts['kiln']:g} | {off:.1e} |",
                  flush=True)
        if options.json:
            options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
