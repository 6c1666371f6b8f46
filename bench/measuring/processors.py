"""Which processors a measurement runs on: as many whole cores as it has threads, the same for every system."""
import os
import pathlib


def chosen_processors(count):
    """One processor of each core first; hardware threads of the same core only when cores run out."""
    allowed = sorted(os.sched_getaffinity(0))
    firsts, seconds, seen = [], [], set()
    for cpu in allowed:
        siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        core = siblings.read_text() if siblings.exists() else str(cpu)
        (seconds if core in seen else firsts).append(cpu)
        seen.add(core)
    return (firsts + seconds)[:count]


def use_processors(count):
    """Before any library is loaded: each sizes its pool of threads by what it may use."""
    os.sched_setaffinity(0, chosen_processors(count))
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(count)
