"""What Kiln raises: one class per kind of failure, all of them RuntimeErrors, each with Kiln's stable ``code``."""

from __future__ import annotations

from . import _kiln


class Error(RuntimeError):
    """Of everything that Kiln raises. ``code`` is stable ("K0616"; docs/errors.md lists them)."""

    code: str = ""


class ArgumentError(Error):
    """A call that makes no sense: an unknown name, a setting that does not exist, a wrong value."""


class InputError(Error):
    """A tensor, number or structure does not fit the model. Nothing was run."""


class FileError(Error):
    """A package cannot be read, is damaged, or does not fit this runtime or machine."""


class RunError(Error):
    """The program itself raised while running: an index out of range, an assertion, a custom operator."""


class UnsupportedError(Error):
    """Right, but Kiln cannot do it (yet)."""


class OutOfMemoryError(Error):
    """There is not enough memory."""


class StoppedError(Error):
    """A hook asked to stop."""


class BugError(Error):
    """Kiln contradicts itself. Please report it."""


class CompileError(Error):
    """A program cannot be compiled; the message names the operator, your source line, the module and the pass."""


class AOTIMinifierError(Error):
    """The failure that was to be minified does not come back."""


class CommandError(Error):
    """A command of Kiln's failed."""


# In the order of ErrorClass in python/module/errors.h.
_kiln.set_error_classes(
    (Error, ArgumentError, InputError, FileError, RunError, UnsupportedError, OutOfMemoryError, StoppedError, BugError)
)
