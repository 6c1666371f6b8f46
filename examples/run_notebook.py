#!/usr/bin/env python3
"""Executes a notebook from its first cell to its last, prints what each cell printed, and fails where one fails.

    python examples/run_notebook.py [NOTEBOOK] [--output EXECUTED.ipynb] [--timeout SECONDS]

By default examples/export_to_report.ipynb. Needs nbclient and ipykernel beside what the notebook itself needs. The notebook in
the repository keeps no outputs; --output writes a copy that has them.
"""
import argparse
import os
import sys

import nbclient
import nbformat


def printed(cell):
    for output in cell.get("outputs", []):
        if output["output_type"] == "stream":
            yield output["text"]
        elif output["output_type"] in ("execute_result", "display_data"):
            yield output["data"].get("text/plain", "") + "\n"


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebook", nargs="?", default=os.path.join(here, "export_to_report.ipynb"))
    parser.add_argument("--output")
    parser.add_argument("--timeout", type=int, default=600, help="seconds that one cell may take")
    options = parser.parse_args()

    notebook = nbformat.read(options.notebook, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(notebook, timeout=options.timeout, kernel_name="python3")
    failure = None
    try:
        client.execute()
    except nbclient.exceptions.CellExecutionError as error:
        failure = error
    for cell in notebook.cells:
        if cell.cell_type == "code":
            print(">>> " + cell.source.replace("\n", "\n... "))
            print("".join(printed(cell)))
    if options.output:
        nbformat.write(notebook, options.output)
    if failure:
        print(f"a cell failed: {failure.ename}: {failure.evalue}", file=sys.stderr)
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
