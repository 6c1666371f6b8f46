"""The command ``kiln`` of this package: everything that needs the compiler is done by it, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from typing import IO, Iterable, NamedTuple, Sequence

from . import errors

_here = os.path.dirname(os.path.abspath(__file__))


def path() -> str:
    """Where the command is."""
    return os.environ.get("KILN") or os.path.join(_here, "bin", "kiln")


class Result(NamedTuple):
    code: int
    output: str
    errors: str


_heading = re.compile(r"^error\[(K\d{4})\]: ", re.MULTILINE)
_code_line = re.compile(r"^  code (K\d{4})$", re.MULTILINE)


def _drain(stream: IO[str], kept: list[str], show: bool) -> None:
    """Keeps what the command says on its standard error, and shows it as it comes, up to the error itself."""
    failing = False
    for line in stream:
        kept.append(line)
        failing = failing or line.startswith(("error[K", "Error: "))
        if show and not failing:
            sys.stderr.write(line)


def run(arguments: Sequence[str], *, show: bool = True, show_output: bool = False) -> Result:
    """Runs ``kiln ARGUMENTS``. What it notes on standard error is shown as it comes; its error is not, it is the caller's.
    With ``show_output`` the standard output is shown as well."""
    try:
        process = subprocess.Popen(
            [path(), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            encoding="utf-8",
            errors="surrogateescape",
        )
    except OSError as error:
        problem = errors.FileError(f"the command of Kiln cannot be started: {path()}: {error.strerror}")
        problem.code = "K0710"
        raise problem from None
    said: list[str] = []
    assert process.stdout is not None and process.stderr is not None
    reader = threading.Thread(target=_drain, args=(process.stderr, said, show), daemon=True)
    reader.start()
    output: list[str] = []
    try:
        for line in process.stdout:
            output.append(line)
            if show_output:
                sys.stdout.write(line)
        code = process.wait()
    except BaseException:  # Ctrl-C: the command ends as well, with what it has
        process.send_signal(2)
        process.wait()
        raise
    finally:
        reader.join()
        process.stdout.close()
        process.stderr.close()
    return Result(code, "".join(output), "".join(said))


def failure(result: Result, kind: type[errors.Error] = errors.CommandError) -> errors.Error:
    """The exception for a command that failed."""
    text = result.errors
    heading = _heading.search(text)
    contract = re.search(r"^Error: ", text, re.MULTILINE)
    found = heading or contract
    message = text[found.start() :] if found else text
    code = heading.group(1) if heading else ""
    if not code and (line := _code_line.search(text)):
        code = line.group(1)
    if result.code < 0:
        kind, message = errors.BugError, f"{text}the command of Kiln died of signal {-result.code}"
    elif "AOTIMinifierError" in message:
        kind = errors.AOTIMinifierError
    elif code in ("K0900", "K0901"):
        kind = errors.BugError if code == "K0900" else errors.OutOfMemoryError
    elif "K0140" <= code <= "K0149" or code in ("K0190", "K0403"):  # a setting, an option, the name of a target
        kind = errors.ArgumentError
    error = kind(message.strip() or f"the command of Kiln failed with exit code {result.code}")
    error.code = code
    return error


def checked(
    arguments: Sequence[str],
    *,
    kind: type[errors.Error] = errors.CommandError,
    show: bool = True,
    show_output: bool = False,
    fine: Iterable[int] = (0,),
) -> Result:
    result = run(arguments, show=show, show_output=show_output)
    if result.code not in fine:
        raise failure(result, kind)
    return result


def settings_arguments(settings: dict[str, str]) -> list[str]:
    out: list[str] = []
    for key, value in settings.items():
        out += ["--config", f"{key}={value}"]
    return out
