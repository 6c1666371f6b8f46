"""One system with one model in a process of its own: loads, calls once, then waits for its turns.

    python worker.py JOB.json        (started by harness.py; speaks JSON lines over its standard input and output)

Asked {"turn": seconds, "least": calls} it answers {"times": [...]}; asked {"end": 1} it says what memory it holds and goes.
"""
import json
import os
import pathlib
import sys
import time
import traceback
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from processors import use_processors  # noqa: E402

MOST_CALLS = 20_000


def memory(field):
    """Bytes; VmRSS now, VmHWM at most."""
    for line in open("/proc/self/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def timed(work):
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def turn(call, seconds, least):
    times, clock = [], time.perf_counter
    end = clock() + seconds
    while len(times) < MOST_CALLS:
        before = clock()
        call()
        after = clock()
        times.append(after - before)
        if after >= end and len(times) >= least:
            break
    return times


def main():
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not part of the conversation

    def say(**what):
        channel.write(json.dumps(what) + "\n")
        channel.flush()

    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    warnings.simplefilter("ignore")
    use_processors(job["threads"])
    try:
        from runners import RUNNERS
        from systems import SYSTEMS
        runner = RUNNERS[job["system"].split("-")[0]](
            SYSTEMS[job["system"]], pathlib.Path(job["exported"]), pathlib.Path(job["folder"]), job["threads"], job)
        runner.start()
        before = memory("VmRSS")
        load = timed(runner.load)
        runner.bind()
        first = timed(runner.call)
        runner.save(job["outputs"])
        say(load=load, first=first, resident_before=before)
        for line in sys.stdin:
            asked = json.loads(line)
            if "end" in asked:
                break
            say(times=turn(runner.call, asked["turn"], asked["least"]))
        say(resident=memory("VmRSS"), resident_most=memory("VmHWM"))
    except Exception as problem:  # shown in the tables
        traceback.print_exc()
        say(error=f"{type(problem).__name__}: {problem}".strip())
        sys.exit(1)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # no library's teardown is measured or waited for
