"""The command ``kiln``: becomes the program that the package carries."""

from __future__ import annotations

import os
import sys


def main() -> None:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "kiln")
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"error[K0710]: the command of Kiln cannot be started: {program}: {error.strerror}")


if __name__ == "__main__":
    main()
