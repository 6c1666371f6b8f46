"""The package is typed: the stubs have the names that are there."""

import ast
import importlib.util
import os
import unittest

import kiln
from kiln import _kiln
from support import root

folder = os.path.dirname(kiln.__file__)


class Types(unittest.TestCase):
    def test_marked(self):
        self.assertTrue(os.path.exists(os.path.join(folder, "py.typed")))

    def test_settings(self):
        tool = os.path.join(root, "tools", "config_stub.py")
        spec = importlib.util.spec_from_file_location("config_stub", tool)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with open(os.path.join(root, "python", "kiln", "config.pyi"), encoding="utf-8") as file:
            self.assertEqual(file.read(), module.stub(), "run tools/config_stub.py > python/kiln/config.pyi")

    def test_module(self):
        with open(os.path.join(folder, "_kiln.pyi"), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        told = {}
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                told[node.name] = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            elif isinstance(node, (ast.FunctionDef,)):
                told[node.name] = None
            elif isinstance(node, ast.AnnAssign):
                told[node.target.id] = None
        there = {name for name in dir(_kiln) if not name.startswith("__")}
        self.assertEqual(set(told), there)
        for name, methods in told.items():
            for method in methods or ():
                if method != "__buffer__":  # Python 3.12 shows it
                    self.assertTrue(hasattr(getattr(_kiln, name), method), f"{name}.{method}")
            if methods is not None:
                public = {m for m in vars(getattr(_kiln, name)) if not m.startswith("__")}
                self.assertLessEqual(public, methods, name)

    def test_names(self):
        for name in kiln.__all__:
            self.assertTrue(hasattr(kiln, name), name)
        with self.assertRaises(AttributeError):
            kiln.nonsense


if __name__ == "__main__":
    unittest.main()
