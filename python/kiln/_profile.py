"""Where the time of a package's runs goes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional

from . import _kiln, errors
from ._package import AOTICompiledModel

if TYPE_CHECKING:
    from ._package import PathLike

# Columns by the names that torch.profiler and `kiln profile` give them.
_sorted_by = {
    None: "seconds",
    "time": "seconds",
    "share": "seconds",
    "cpu_time_total": "seconds",
    "self_cpu_time_total": "seconds",
    "cuda_time_total": "seconds",
    "self_cuda_time_total": "seconds",
    "device_time_total": "seconds",
    "self_device_time_total": "seconds",
    "cpu_time": "per_call",
    "cuda_time": "per_call",
    "device_time": "per_call",
    "count": "calls",
    "calls": "calls",
    "bytes": "bytes",
    "flops": "flops",
    "name": "name",
}


class KernelTime:
    """One kernel: all its calls together."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.key: str = row["name"]
        self.kind: str = row["kind"]
        self.origin: str = row["origin"]
        self.count: int = row["calls"]
        self.seconds: float = row["seconds"]
        self.least_seconds: float = row["least_seconds"]
        self.bytes: float = row["bytes"]
        self.flops: Optional[float] = row["flops"] if row["flops"] >= 0 else None

    @property
    def cpu_time_total(self) -> float:
        """in microseconds, as torch.profiler has it"""
        return self.seconds * 1e6

    @property
    def cpu_time(self) -> float:
        return self.seconds * 1e6 / max(self.count, 1)

    def __repr__(self) -> str:
        return f"<{self.key}: {self.count} calls, {self.cpu_time_total:.3f} us>"


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3f}{unit}"
    return ""


class KernelTimes(list[KernelTime]):
    def table(self, sort_by: Optional[str] = None, row_limit: int = 100, max_name_column_width: int = 60) -> str:
        """The table as text. ``sort_by``: the columns of torch.profiler (``cpu_time_total``, ``cpu_time``, ``count``)
        or of ``kiln profile`` (``time``, ``calls``, ``bytes``, ``flops``, ``name``)."""
        if sort_by not in _sorted_by:
            error = errors.ArgumentError(
                f"there is no column {sort_by!r} to sort by; there are "
                + ", ".join(sorted(name for name in _sorted_by if name is not None))
            )
            error.code = "K0679"
            raise error
        column = _sorted_by[sort_by]
        keys = {
            "seconds": lambda row: -row.seconds,
            "per_call": lambda row: -row.cpu_time,
            "calls": lambda row: -row.count,
            "bytes": lambda row: -row.bytes,
            "flops": lambda row: -(row.flops or 0),
            "name": lambda row: row.key,
        }
        rows = sorted(self, key=keys[column])[: row_limit if row_limit >= 0 else None]
        total = sum(row.seconds for row in self) or 1.0
        heading = ["Name", "CPU total %", "CPU total", "CPU time avg", "# of Calls", "GB/s", "GFLOP/s", "Origin"]
        lines = [heading]
        for row in rows:
            gflops = "" if row.flops is None or not row.seconds else f"{row.flops / row.seconds * 1e-9:.2f}"
            name = row.key if len(row.key) <= max_name_column_width else row.key[: max_name_column_width - 3] + "..."
            lines.append(
                [
                    name,
                    f"{row.seconds / total * 100:.2f}%",
                    _time(row.seconds),
                    _time(row.seconds / max(row.count, 1)),
                    str(row.count),
                    f"{row.bytes / row.seconds * 1e-9:.2f}" if row.seconds else "",
                    gflops,
                    row.origin,
                ]
            )
        widths = [max(len(line[i]) for line in lines) for i in range(len(heading))]
        rule = "  ".join("-" * width for width in widths)

        def text(line: list[str]) -> str:
            cells = [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1]))]
            return "  ".join([*cells, line[-1]]).rstrip()

        body = [text(line) for line in lines[1:]]
        return "\n".join([rule, text(lines[0]), rule, *body, rule, f"CPU time total: {_time(sum(r.seconds for r in self))}"])


class Profile:
    """Runs of a model with every kernel timed: ``with kiln.profile(model) as prof: model(x)``."""

    def __init__(self, model: AOTICompiledModel) -> None:
        self._model = model
        self._result: Optional[_kiln.Profile] = None

    def __enter__(self) -> "Profile":
        self._model._start_profile()
        return self

    def __exit__(self, *_: Any) -> None:
        self._result = self._model._stop_profile()

    def _finished(self) -> _kiln.Profile:
        if self._result is None:
            error = errors.ArgumentError("the profile is not finished: look at it after the with block")
            error.code = "K0711"
            raise error
        return self._result

    def key_averages(self) -> KernelTimes:
        return KernelTimes(KernelTime(row) for row in self._finished().kernels())

    def summary(self) -> dict[str, Any]:
        """runs, kernel_seconds, overhead_seconds, and what this machine was measured to do (GFLOP/s, GB/s)"""
        return self._finished().summary()

    def export_chrome_trace(self, path: PathLike) -> None:
        """The launches as a timeline for chrome://tracing and Perfetto."""
        self._finished().write_trace(os.fspath(path))

    def __repr__(self) -> str:
        return self.key_averages().table()


def profile(model: Any, *args: Any, runs: int = 20, **kwargs: Any) -> Profile:
    """Without arguments a context in which runs of the model are timed. With the arguments of a call, runs it ``runs``
    times (after a few that are not counted) and gives the finished profile."""
    loaded = model if isinstance(model, AOTICompiledModel) else AOTICompiledModel(model)
    made = Profile(loaded)
    if not args and not kwargs:
        return made
    for _ in range(3):
        loaded(*args, **kwargs)
    with made:
        for _ in range(runs):
            loaded(*args, **kwargs)
    return made
