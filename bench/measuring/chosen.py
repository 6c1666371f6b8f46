"""What the commands of bench/ take of a list by name: a name that is none ends the command and says what there is."""
import fnmatch
import sys


def by_name(given, known, what):
    """Those given, in their order; none given: all."""
    _require(given, known, what, str.__eq__)
    return list(given or known)


def by_part(given, known, what):
    """Those whose names contain one of the given, in the list's order."""
    return _fitting(given, known, what, str.__contains__)


def by_pattern(given, known, what):
    """Those whose names fit one of the given ("resnet*"), in the list's order."""
    return _fitting(given, known, what, fnmatch.fnmatch)


def _require(given, known, what, fits):
    for one in given or ():
        if not any(fits(name, one) for name in known):
            sys.exit(f"there is no {what} '{one}'; there are: {', '.join(known)}")


def _fitting(given, known, what, fits):
    _require(given, known, what, fits)
    return [name for name in known if not given or any(fits(name, one) for one in given)]
