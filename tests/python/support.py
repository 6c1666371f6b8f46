"""What the tests of the Python package have in common. They need Kiln's package alone; those that need numpy or torch are
skipped, visibly, where it is not there."""

import atexit
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

import kiln

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
needs_numpy = unittest.skipUnless(numpy, "numpy is not installed")
needs_torch = unittest.skipUnless(torch, "torch is not installed")

_directory = tempfile.TemporaryDirectory(prefix="kiln_python_tests_")
atexit.register(_directory.cleanup)
scratch = _directory.name
_packages = {}


def case(name):
    """The exported program of tests/cases/NAME, or of another file below tests."""
    below = os.path.join(root, "tests", name)
    return below if name.endswith(".pt2") else os.path.join(root, "tests", "cases", name, "model.pt2")


def package(name, **settings):
    """The package of a case, compiled once."""
    key = (name, tuple(sorted(settings.items())))
    if key not in _packages:
        path = os.path.join(scratch, f"package_{len(_packages)}.kiln.pt2")
        _packages[key] = kiln.aoti_compile_and_package(case(name), package_path=path, inductor_configs=settings)
    return _packages[key]


def load(name, **settings):
    return kiln.aoti_load_package(package(name, **settings))


def python(script, *, directory=None, environment=None, check=True, arguments=(), as_file=False):
    """Runs a script in a process of its own; gives its output and what it said on standard error. ``as_file``: from a file,
    which processes that it spawns can import."""
    way = ["-c", textwrap.dedent(script)]
    if as_file:
        place = os.path.join(tempfile.mkdtemp(dir=scratch), "script.py")
        with open(place, "w") as file:
            file.write(textwrap.dedent(script))
        way = [place]
    done = subprocess.run(
        [sys.executable, *way, *arguments],
        cwd=directory or scratch,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})},
        capture_output=True,
        text=True,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done
