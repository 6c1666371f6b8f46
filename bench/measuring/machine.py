"""The machine that measures: its description, and its limits measured by peak.c."""
import json
import os
import pathlib
import platform
import re
import subprocess

from processors import chosen_processors

HERE = pathlib.Path(__file__).resolve().parent
INTERESTING = ("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16",
               "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "asimd", "asimddp", "bf16", "i8mm", "sve", "sve2")


def busy_text():
    """What is said before measuring on a machine that others use; None: nobody does."""
    load, processors = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load <= 0.5 * processors:
        return None
    return f"note: this machine is busy (load {load:.1f} on {processors} processors): times will be longer and vary; look at the spread"


def cpu_field(name):
    found = re.search(rf"^{name}\s*:\s*(.+)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found.group(1).strip() if found else ""


def describe():
    memory = re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    flags = (cpu_field("flags") or cpu_field("Features")).split()
    caches = {}
    for entry in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, level = (entry / "type").read_text().strip(), (entry / "level").read_text().strip()
        if kind != "Instruction":
            caches["L" + level] = (entry / "size").read_text().strip()
    return {"cpu": cpu_field("model name") or platform.machine(), "processors": len(os.sched_getaffinity(0)),
            "flags": [flag for flag in INTERESTING if flag in flags], "caches": caches,
            "memory_gb": round(int(memory.group(1)) / 2**20, 1) if memory else 0,
            "virtual": "hypervisor" in flags, "system": f"{platform.system()} {platform.release()}"}


def build(folder, name):
    program = folder / name
    source = HERE / f"{name}.c"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run([os.environ.get("CC", "cc"), "-O3", "-march=native", "-ffp-contract=fast", "-pthread", str(source),
                        "-o", str(program)], check=True)
    return program


def run_peak(folder, threads, *more, name="peak"):
    program = build(folder, name)
    cpus = chosen_processors(threads)
    done = subprocess.run([str(program), str(threads), *more], capture_output=True, text=True, check=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    return json.loads(done.stdout)


def measure(folder, threads):
    """GFLOP/s of f32 and bf16, and [[bytes, GB/s], …] of reading that much over and over, on the cores that are measured."""
    return nearer_is_faster(run_peak(folder, threads))


def arithmetic_now(folder, threads):
    """GFLOP/s of f32 in this moment: clocks fall while all cores work, and with what others do."""
    return run_peak(folder, threads, "f32")["f32"]


def product_now(folder, threads):
    """GFLOP/s in this moment of a product whose threads share nothing (apart.c)."""
    return run_peak(folder, threads, name="apart")["f32"]


def nearer_is_faster(peak):
    """A cache is not slower than what is behind it, whatever happened while it was measured."""
    least = 0.0
    for pair in reversed(peak["reading"]):
        least = pair[1] = max(least, pair[1])
    return peak


def better(one, other):
    """The larger of each: a limit is what was ever reached."""
    if one is None:
        return other
    return {"f32": max(one["f32"], other["f32"]), "bf16": max(one["bf16"], other["bf16"]),
            "reading": [[a[0], max(a[1], b[1])] for a, b in zip(one["reading"], other["reading"])]}


def reading_rate(peak, size):
    """GB/s for something of this size: the smallest measured size that holds it."""
    for held, rate in peak["reading"]:
        if size <= held:
            return rate
    return peak["reading"][-1][1]


def least_seconds(peak, dtype, flops, size):
    """What the machine needs at least, and whether arithmetic or memory says so. bf16 without instructions for it
    is converted and computed in f32."""
    rate = peak[dtype] or peak["f32"]
    arithmetic, memory = flops / (rate * 1e9), size / (reading_rate(peak, size) * 1e9)
    return max(arithmetic, memory), "arithmetic" if arithmetic >= memory else "memory"
