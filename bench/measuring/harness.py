"""Exports, compiles and measures: the systems of one model take turns, each in a process of its own that otherwise is stopped."""
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import machine
from compare import compare
from results import Results
from systems import EXECUTORCH, PEERS, PROBE, SYSTEMS, TORCH, artifact_size

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


@dataclasses.dataclass(frozen=True)
class Setting:
    batch: int
    dtype: str
    threads: int

    @property
    def name(self):
        return f"b{self.batch}-{self.dtype}-t{self.threads}"

    @property
    def exported(self):
        return f"b{self.batch}-{self.dtype}"

    def __str__(self):
        return f"batch {self.batch}, {self.dtype}, {self.threads} thread{'s' if self.threads > 1 else ''}"

    @staticmethod
    def parse(text):
        """"b1-f32-t2" """
        batch, dtype, threads = text.split("-")
        if batch[0] != "b" or threads[0] != "t" or dtype not in ("f32", "bf16"):
            raise ValueError(f"{text} is no setting; one is b1-f32-t2: batch, f32 or bf16, threads")
        return Setting(int(batch[1:]), dtype, int(threads[1:]))


def first_line(text):
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[0][:300] if lines else "no message"


def last_error(text):
    """Of what a Python process wrote: the line that names the exception, not the stack before it."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    for line in reversed(lines):
        name = line.split(":")[0].split(".")[-1]
        if not line.startswith(" ") and (name.endswith(("Error", "Exception")) or line.startswith("error[")):
            return line.strip()[:300]
    return lines[-1].strip()[:300] if lines else "no message"


class Failure(Exception):
    pass


class Progress:
    """One line per finished step; on a terminal also what is being done, rewritten in place."""

    def __init__(self):
        self.live, self.open = sys.stderr.isatty(), False

    def doing(self, text):
        if self.live:
            print(f"\r\033[K  {text} …", end="", file=sys.stderr, flush=True)
            self.open = True

    def done(self, text):
        if self.open:
            print("\r\033[K", end="", file=sys.stderr)
            self.open = False
        print(f"  {text}", file=sys.stderr, flush=True)


class Worker:
    def __init__(self, python, job, log, environment):
        self.log = log
        self.process = subprocess.Popen([python, str(HERE / "worker.py"), str(job)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=open(log, "w"), env=environment, start_new_session=True)
        self.text = b""

    def read(self, limit):
        end = time.monotonic() + limit
        while b"\n" not in self.text:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise Failure(f"no answer within {limit} s")
            more = os.read(self.process.stdout.fileno(), 1 << 20)
            if not more:
                code = self.process.wait()
                how = f"died of signal {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                raise Failure(f"the process {how}: {last_error(pathlib.Path(self.log).read_text(errors='replace'))}")
            self.text += more
        line, self.text = self.text.split(b"\n", 1)
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(first_line(answer["error"]))
        return answer

    def ask(self, limit, **what):
        try:
            self.process.stdin.write(json.dumps(what).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # read() says why it died
        return self.read(limit)

    def pause(self):
        """Threads that spin while they wait for work would take the others' time."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self):
        os.killpg(self.process.pid, signal.SIGCONT)

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def weights_seconds(said):
    """Of what `kiln compile` says: the seconds in which it packed weights and wrote them."""
    parts = re.findall(r"(?:weights packed|package) ([0-9.]+) (s|ms|µs)", said)
    return sum(float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit] for number, unit in parts)


class Harness:
    def __init__(self, options, results_name="results.json"):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stopped workers must not be left behind
        self.options = options
        self.out = pathlib.Path(options.out).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.out / "lock", "w")
        if not options.report:
            try:  # two at once would disturb each other's times and lose each other's results
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                sys.exit(f"another run measures in {os.path.relpath(self.out)}; wait for it, or take another --out")
        self.results = Results(self.out / results_name)
        self.progress = Progress()
        self.run_id = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        self.pythons = {TORCH: options.python, PEERS: options.peers_python, EXECUTORCH: options.executorch_python}
        self.kiln, self.library = pathlib.Path(options.kiln).resolve(), pathlib.Path(options.library).resolve()

    # ---- What is there ----

    def find_systems(self, names):
        """Those that can run; each of the others is said to be skipped, with what installs it."""
        found, versions = [], self.results.versions
        for name in names:
            system = SYSTEMS[name]
            missing = self.missing_kiln(name) if name.startswith("kiln") else self.missing_package(name, system, versions)
            if missing:
                self.progress.done(f"skipped {system.label}: {missing}")
            else:
                found.append(name)
        return found

    def missing_kiln(self, name):
        for path in (self.kiln, self.library):
            if not path.exists():
                return f"{os.path.relpath(path)} is not there; build it: {SYSTEMS[name].install}"
        if SYSTEMS[name].settings:
            key = next(iter(SYSTEMS[name].settings))
            told = subprocess.run([self.kiln, "settings", key], capture_output=True, text=True).stdout
            if "not built yet" in told:
                return f"this Kiln has no {key} yet ('kiln settings {key}' says so)"
        version = subprocess.run([self.kiln, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
        self.results.versions[name] = f"{version.removeprefix('kiln ')} ({self.kiln_print()})"
        return ""

    def missing_package(self, name, system, versions):
        python = self.pythons[system.python]
        if not python:
            return f"no environment for it: {system.install} in a virtual environment, then --{system.python}-python ITS/bin/python"
        probe = subprocess.run([python, "-c", PROBE, *system.packages], capture_output=True, text=True)
        if probe.returncode:
            return f"{system.install} ({last_error(probe.stderr)})"
        versions[name] = probe.stdout.strip().splitlines()[-1]
        return ""

    def kiln_print(self):
        """Of command and runtime: results of another build are another system's."""
        digest = hashlib.sha256(self.kiln.read_bytes())
        digest.update(self.library.read_bytes())
        return digest.hexdigest()[:10]

    # ---- Steps ----

    def command(self, command, limit, environment=None):
        """Runs it in a session of its own, so that all of it ends with its time."""
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   errors="replace", env=environment, start_new_session=True)
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise Failure(f"not done within {limit} s") from None
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        if process.returncode:
            raise Failure(last_error(err or out))
        return out

    def once(self, mark, work):
        """Does a step unless its mark is there; a step that failed fails again with the same words, until --again."""
        if mark.exists():
            kept = json.loads(mark.read_text())
            if "error" not in kept:
                return kept
            if self.options.again is None:
                raise Failure(kept["error"])
        mark.parent.mkdir(parents=True, exist_ok=True)
        try:
            facts = work() or {}
        except Failure as failure:
            mark.write_text(json.dumps({"error": str(failure)}))
            raise
        mark.write_text(json.dumps(facts))
        return facts

    def export(self, model, setting):
        folder = self.out / "exports" / model / setting.exported

        def work():
            self.progress.doing(f"{model}: exporting")
            folder.mkdir(parents=True, exist_ok=True)
            self.command([self.options.python, HERE / "export.py", model, folder, setting.batch, setting.dtype], self.options.limit)
            return json.loads((folder / "export.json").read_text())
        facts = self.once(folder / "exported.json", work)
        self.results.exports[f"{model}/{setting.exported}"] = facts
        return folder

    def onnx(self, model, exported):
        def work():
            self.progress.doing(f"{model}: to ONNX")
            self.command([self.pythons[PEERS], HERE / "export.py", "--onnx", exported], self.options.limit)
        self.once(exported / "onnx.json", work)

    def fresh_caches(self, folder):
        """An environment whose compile caches are empty directories."""
        return {**os.environ, "XDG_CACHE_HOME": str(folder), "KILN_CACHE_DIR": f"{folder}/kiln",
                "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}

    def compile(self, name, model, setting, exported, folder):
        system = SYSTEMS[name]
        artifact = folder / system.artifact
        if not system.artifact:
            return {}

        def work():
            self.progress.doing(f"{model}: {system.label} compiles")
            with tempfile.TemporaryDirectory(dir=self.out) as caches:
                environment = self.fresh_caches(caches)
                if name.startswith("kiln"):
                    given = [f"{key}={value}" for key, value in system.settings.items()]
                    started = time.perf_counter()
                    said = self.command([self.kiln, "compile", exported / "model.pt2", "-o", artifact,
                                         *(part for text in given for part in ("--config", text))], self.options.limit, environment)
                    return {"compile": time.perf_counter() - started, "weights": weights_seconds(said)}
                said = self.command([self.pythons[system.python], HERE / "prepare.py", name, exported, folder, setting.threads],
                                    self.options.limit, environment)
                return json.loads(said.splitlines()[-1])
        # A new build of Kiln compiles anew.
        mark = f"compiled-{self.kiln_print()}.json" if name.startswith("kiln") else "compiled.json"
        return self.once(folder / mark, work)

    def start(self, name, model, setting, exported, folder):
        job = folder / "job.json"
        job.write_text(json.dumps({"system": name, "model": model, "batch": setting.batch, "dtype": setting.dtype,
                                   "threads": setting.threads, "exported": str(exported), "folder": str(folder),
                                   "outputs": str(folder / "outputs"), "library": str(self.library)}))
        worker = Worker(self.pythons[SYSTEMS[name].python], job, folder / "worker.log", dict(os.environ))
        try:
            started = worker.read(self.options.limit)
        except BaseException:
            worker.end()
            raise
        return worker, started

    # ---- One model ----

    def measure(self, model, setting, names):
        names = [name for name in names if setting.dtype in SYSTEMS[name].dtypes]
        wanted = [name for name in names if self.is_wanted(model, setting, name)]
        if not wanted:
            self.progress.done("kept from before: " + ", ".join(names))
            return
        try:
            exported = self.export(model, setting)
        except Failure as failure:
            for name in wanted:
                self.fail(model, setting, name, f"export: {failure}")
            return
        workers = {}
        try:
            for name in wanted:
                self.prepare_one(name, model, setting, exported, workers)
            self.take_turns(model, setting, exported, workers)
        finally:
            for worker, _ in workers.values():
                worker.end()

    def is_wanted(self, model, setting, name):
        kept = self.results.get(model, setting.name, name)
        again = self.options.again is not None and (not self.options.again or name in self.options.again)
        if kept is None or again or self.options.turns or (kept["version"] != self.results.versions[name] and name.startswith("kiln")):
            folder = self.folder(model, setting, name)
            if again and folder.exists():
                shutil.rmtree(folder)
            return True
        return False

    def folder(self, model, setting, name):
        return self.out / "systems" / model / setting.name / name

    def fail(self, model, setting, name, why):
        self.results.put(model, setting.name, name, {"status": "fails", "why": why, "run": self.run_id,
                                                     "version": self.results.versions.get(name, "")})
        self.progress.done(f"{SYSTEMS[name].label}: {why}")

    def prepare_one(self, name, model, setting, exported, workers):
        system, folder = SYSTEMS[name], self.folder(model, setting, name)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if system.onnx:
                self.onnx(model, exported)
            facts = dict(self.compile(name, model, setting, exported, folder))
            if system.artifact:
                facts["size"] = artifact_size(folder, system.artifact)
            elif system.onnx:
                facts["size"] = artifact_size(exported, "model.onnx")
            self.progress.doing(f"{model}: {system.label} loads")
            worker, started = self.start(name, model, setting, exported, folder)
            workers[name] = (worker, {**facts, **started})
            worker.pause()
            facts = workers[name][1]
            facts.update(compare(folder / "outputs", exported))
        except Failure as failure:
            if name in workers:
                workers.pop(name)[0].end()
            self.fail(model, setting, name, str(failure))
            return
        compiled = f"compiled in {facts['compile']:.2f} s, " if "compile" in facts else ""
        self.progress.done(f"{system.label}: {compiled}loaded in {facts['load']:.3f} s, {facts['verdict']}")

    def take_turns(self, model, setting, exported, workers):
        """Rounds in which each has its turn; who begins moves on by one each round. The first round warms up."""
        rounds, calls = {name: [] for name in workers}, dict.fromkeys(workers, 0)
        for number in range(self.options.rounds + 1):
            order = list(workers)
            shift = number % max(1, len(order))
            for name in order[shift:] + order[:shift]:
                worker = workers[name][0]
                self.progress.doing(f"{model}: round {number} of {self.options.rounds}, {SYSTEMS[name].label}")
                worker.resume()
                try:
                    times = worker.ask(self.options.limit, turn=self.options.seconds, least=2)["times"]
                except Failure as failure:
                    workers.pop(name)[0].end()
                    self.fail(model, setting, name, f"while running: {failure}")
                    continue
                worker.pause()
                if number:
                    rounds[name].append(statistics.median(times))
                    calls[name] += len(times)
        for name, (worker, facts) in workers.items():
            worker.resume()
            try:
                facts.update(worker.ask(60, end=1))
            except Failure as failure:
                self.fail(model, setting, name, f"at its end: {failure}")
                continue
            middle = statistics.median(rounds[name])
            facts.update(status="ok", rounds=rounds[name], calls=calls[name], median=middle, run=self.run_id,
                         spread=(max(rounds[name]) - min(rounds[name])) / 2 / middle, version=self.results.versions[name])
            self.results.put(model, setting.name, name, facts)

    def measure_machine(self, threads):
        """Limits are kept beside the results of both commands: they take a while, and the best ever reached counts."""
        self.results.machine, file = machine.describe(), self.out / "limits.json"
        kept = json.loads(file.read_text()) if file.exists() else {}
        for count in sorted(threads):
            key = f"{self.results.machine['cpu']} {count}"
            if key not in kept or self.options.limits:
                self.progress.doing(f"this machine's limits on {count} of its processors")
                kept[key] = machine.better(kept.get(key), machine.measure(self.out, count))
                file.write_text(json.dumps(kept, indent=1) + "\n")
            peak = self.results.peaks[key] = kept[key]
            bf16 = f", {peak['bf16']:.0f} GFLOP/s in bf16" if peak["bf16"] else ""
            self.progress.done(f"limits on {count} of {self.results.machine['processors']} processors: {peak['f32']:.0f} GFLOP/s in f32{bf16}, "
                               f"{peak['reading'][-1][1]:.1f} GB/s from memory")
        self.results.save()
