"""torch.compile(f, backend=…) and operators defined in Python."""

import copy
import importlib.metadata
import unittest

import kiln
from support import needs_torch, python, torch

if torch is not None:
    from kiln._dynamo import backend

    @torch.library.custom_op("kiln_tests::triple", mutates_args=())
    def triple(x: torch.Tensor, k: int = 3) -> torch.Tensor:
        if k == 13:
            raise ValueError("thirteen")
        return x * k

    @triple.register_fake
    def _(x, k=3):
        return torch.empty_like(x)

    @torch.library.custom_op("kiln_tests::add_to", mutates_args=("x",))
    def add_to(x: torch.Tensor, y: torch.Tensor) -> None:
        x.add_(y)


def _compiled(module, args):
    return kiln.aoti_load_package(kiln.aoti_compile_and_package(torch.export.export(module, args)))


@needs_torch
class TorchCompile(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()

    def test_functions_and_sizes(self):
        def function(x, y):
            return torch.softmax(x @ y, -1).relu() + 1

        compiled = torch.compile(function, backend=backend)
        with torch.no_grad():
            for n in (4, 8, 16, 5):
                x, y = torch.randn(n, 8), torch.randn(8, n)
                torch.testing.assert_close(compiled(x, y), function(x, y))

    def test_graph_break_and_branches(self):
        def function(x):
            y = x.sin()
            torch._dynamo.graph_break()
            return y + 1 if y.sum() > 0 else y - 1

        compiled = torch.compile(function, backend=backend)
        for x in (torch.ones(3), -torch.ones(3)):
            torch.testing.assert_close(compiled(x), function(x))

    def test_aliases_and_writes(self):
        def function(x, y):
            y.add_(1)
            return x.view(-1)[2:]

        compiled = torch.compile(function, backend=backend)
        x, y = torch.ones(2, 3), torch.zeros(2)
        compiled(x, y).add_(5)
        torch.testing.assert_close(x, torch.tensor([[1.0, 1, 6], [6, 6, 6]]))
        torch.testing.assert_close(y, torch.ones(2))

    def test_training(self):
        net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
        other = copy.deepcopy(net)
        compiled = torch.compile(other, backend=backend)
        x = torch.randn(5, 8)
        compiled(x).sum().backward()
        net(x).sum().backward()
        torch.testing.assert_close(other[1].running_mean, net[1].running_mean)
        for a, b in zip(other.parameters(), net.parameters()):
            torch.testing.assert_close(a.grad, b.grad)

    def test_options(self):
        compiled = torch.compile(lambda x: x + 1, backend=backend, options={"cpp.simdlen": 1})
        torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 2.0))
        with self.assertRaisesRegex(Exception, "simdlen"):
            torch.compile(lambda x: x + 2, backend=backend, options={"cpp.simdln": 1})(torch.ones(3))

    def test_modes(self):
        x = torch.ones(3)
        for mode in ("reduce-overhead", "max-autotune"):
            torch.testing.assert_close(torch.compile(lambda x: x + 3, backend=backend, mode=mode)(x), x + 3)
        with self.assertRaisesRegex(Exception, "no mode 'bogus'"):
            torch.compile(lambda x: x + 4, backend=backend, mode="bogus")(x)

    def test_a_fault_is_not_hidden(self):
        with kiln.config.patch("cpp.inject_relu_bug_TESTING_ONLY", "compile_error"):
            with self.assertRaises(kiln.CompileError):
                torch.compile(torch.relu, backend=backend)(torch.ones(7))

    def test_by_name(self):
        found = importlib.metadata.entry_points(group="torch_dynamo_backends")
        if not any(entry.name == "kiln" for entry in found):
            self.skipTest("the package is not installed, only on the path")
        done = python(
            "import torch\nprint(torch.compile(lambda x: x * 2, backend='kiln')(torch.ones(2)).tolist())"
        )
        self.assertEqual(done.stdout.strip(), "[2.0, 2.0]")


@needs_torch
class PythonOperators(unittest.TestCase):
    def test_called_back(self):
        class Net(torch.nn.Module):
            def forward(self, x):
                return torch.ops.kiln_tests.triple(x + 1, 4) - 1

        model = _compiled(Net(), (torch.ones(3),))
        torch.testing.assert_close(model(torch.ones(3)), torch.full((3,), 7.0))

    def test_writes(self):
        class Net(torch.nn.Module):
            def forward(self, x, y):
                z = x.clone()
                torch.ops.kiln_tests.add_to(z, y)
                return z * 2

        args = (torch.ones(3), torch.full((3,), 2.0))
        torch.testing.assert_close(_compiled(Net(), args)(*args), torch.full((3,), 6.0))

    def test_what_it_raises(self):
        class Net(torch.nn.Module):
            def forward(self, x):
                return torch.ops.kiln_tests.triple(x, 13)

        model = _compiled(Net(), (torch.ones(3),))
        with self.assertRaisesRegex(kiln.RunError, "thirteen"):
            model(torch.ones(3))

    def test_without_python(self):
        class Net(torch.nn.Module):
            def forward(self, x):
                return torch.ops.kiln_tests.triple(x)

        path = kiln.aoti_compile_and_package(torch.export.export(Net(), (torch.ones(3),)))
        from kiln import _command

        result = _command.run(["run", path])
        self.assertEqual(result.code, 1)
        self.assertIn("defined in Python", result.errors)


if __name__ == "__main__":
    unittest.main()
