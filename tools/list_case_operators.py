#!/usr/bin/env python3
"""Lists the operators that cases made by PyTorch call: tests/operator_coverage.txt.

    tools/list_case_operators.py [CORPUS]      # default: $KILN_CORPUS, or ../shared/corpus beside the repository

One operator a line, and behind it where it occurs: `cases` (tests/cases) and `corpus`. Without a corpus the lines that say
`corpus` are kept as they are. Needs Python alone. A test demands an entry here of every operator whose reference is its
decomposition over again (src/ops/record_test.cpp), and another one compares the cases (src/check/record_test.cpp)."""
import os
import pathlib
import re
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "tests/operator_coverage.txt"
HEAD = """# The operators that cases made by PyTorch call, and where: in tests/cases, in the corpus. tools/list_case_operators.py writes
# this file.
"""


def operators(folder):
    found = set()
    for model in folder.rglob("model.pt2"):
        with zipfile.ZipFile(model) as archive:
            for name in archive.namelist():
                if re.search(r"models/[^/]*\.json$", name):
                    # A higher-order call names the operator it calls in a string.
                    found |= set(re.findall(r'"(?:target|as_string|as_operator)": "torch\.ops\.([\w.]+)"', archive.read(name).decode()))
    return found


def main():
    corpus = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("KILN_CORPUS", ROOT / "../shared/corpus"))
    if corpus.is_dir():
        in_corpus = operators(corpus)
    else:
        print(f"no corpus at {corpus}: what is known of it stays", file=sys.stderr)
        in_corpus = {line.split()[0] for line in LIST.read_text().splitlines() if line.endswith(" corpus")}
    in_cases = operators(ROOT / "tests/cases")
    lines = [" ".join([op, *["cases"][: op in in_cases], *["corpus"][: op in in_corpus]]) for op in
             sorted(in_cases | in_corpus)]
    LIST.write_text(HEAD + "\n".join(lines) + "\n")
    print(f"{len(lines)} operators, {len(in_cases)} in cases, {len(in_corpus)} in the corpus")


if __name__ == "__main__":
    main()
