"""The notebook of examples/, executed from its first cell to its last; and it keeps no outputs in the repository."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

from support import needs_torch, root, scratch

notebook = os.path.join(root, "examples", "export_to_report.ipynb")
missing = [name for name in ("nbclient", "ipykernel") if importlib.util.find_spec(name) is None]


class Notebook(unittest.TestCase):
    @needs_torch
    @unittest.skipIf(missing, f"{' and '.join(missing)} not installed")
    def test_runs(self):
        executed = os.path.join(tempfile.mkdtemp(dir=scratch), "executed.ipynb")
        done = subprocess.run(
            [sys.executable, os.path.join(root, "examples", "run_notebook.py"), "--output", executed],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for text in ("weights updated", "first divergence: kernel", "report.html", "K0617"):
            self.assertIn(text, done.stdout)
        with open(executed) as file:
            self.assertTrue(any(cell.get("outputs") for cell in json.load(file)["cells"]))

    def test_has_no_outputs(self):
        with open(notebook) as file:
            for cell in json.load(file)["cells"]:
                self.assertFalse(cell.get("outputs"), "the notebook was saved with outputs: clear them")
                self.assertIsNone(cell.get("execution_count"))


if __name__ == "__main__":
    unittest.main()
