"""torch.compile(f, backend=…) and operators defined in Python."""

import copy
import importlib.metadata
import unittest
import unittest.mock

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

    sums = []  # of what the operator below was called with

    @torch.library.custom_op("kiln_tests::noted", mutates_args=())
    def noted(x: torch.Tensor) -> torch.Tensor:
        sums.append(x.sum().item())
        return x + 1

    @noted.register_fake
    def _(x):
        return torch.empty_like(x)

    if hasattr(noted, "register_effect"):
        noted.register_effect(torch._library.effects.EffectType.ORDERED)

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

    def test_training_at_other_sizes(self):
        """The backward graph is given products of sizes, and views whose strides follow from an equation of sizes."""
        norm = torch.nn.GroupNorm(4, 8)
        for forward in (lambda x: norm(x).sum((2, 3)), lambda x: x.sin().flatten(2).transpose(1, 2).softmax(-1)):
            compiled = torch.compile(forward, backend=backend)
            for sizes in ((2, 8, 12, 12), (3, 8, 14, 13), (4, 8, 6, 6)):
                x = torch.randn(sizes, requires_grad=True)
                y = x.detach().clone().requires_grad_()
                weight = torch.rand_like(forward(x))
                (compiled(x) * weight).sum().backward()
                (forward(y) * weight).sum().backward()
                torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)

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

    def test_effects_are_called_in_order(self):
        def function(x):
            torch.ops.aten._print("one")
            y = torch.ops.kiln_tests.noted(x)
            torch._higher_order_ops.print("{}", x.shape[0])
            return torch.ops.kiln_tests.noted(y) + 1

        sums.clear()
        compiled = torch.compile(function, backend=backend)
        torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 4.0))
        self.assertEqual(sums, [3.0, 6.0])

    def test_what_pytorch_cannot_save_is_named(self):
        from torch.nn.attention.flex_attention import flex_attention

        def function(q):
            return flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s + (i - j))  # here

        with self.assertRaisesRegex(kiln.UnsupportedError, r"higher_order.flex_attention[^$]*--> .*# here") as caught:
            torch.compile(function, backend=backend)(torch.ones(1, 2, 16, 8))
        self.assertEqual(caught.exception.code, "K0717")

    def test_lines_are_the_users(self):
        def function(x):
            return torch.relu(x)  # here

        with kiln.config.patch("cpp.inject_relu_bug_TESTING_ONLY", "compile_error"):
            with self.assertRaisesRegex(kiln.CompileError, "test_torch_compile.py:.*# here"):
                torch.compile(function, backend=backend)(torch.ones(11))

    def test_threads_are_torchs(self):
        from kiln import _dynamo

        graphs = []
        before = _dynamo.CompiledGraph.__init__

        def noting(graph, *arguments):
            graphs.append(graph)
            before(graph, *arguments)

        threads = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, threads)
        with unittest.mock.patch.object(_dynamo.CompiledGraph, "__init__", noting):
            plain = torch.compile(lambda x: x * 3, backend=backend)
            chosen = torch.compile(lambda x: x * 5, backend=backend, options={"cpp.threads": 2})
            for number in (1, 2, 1):
                torch.set_num_threads(number)
                plain(torch.ones(3)), chosen(torch.ones(3))
                # Dynamo may compile again for another number of threads.
                used = [graph._models[0].threads for graph in graphs if graph._settings == {}]
                self.assertIn(min(number, threads), used[-1:] + used[:1])
                self.assertTrue(all(graph._models[0].threads == 2 for graph in graphs if graph._settings))

    def test_by_name(self):
        found = importlib.metadata.entry_points(group="torch_dynamo_backends")
        if not any(entry.name == "kiln" for entry in found):
            self.skipTest("the package is not installed, only on the path")
        done = python(
            "import torch\nprint(torch.compile(lambda x: x * 2, backend='kiln')(torch.ones(2)).tolist())"
        )
        self.assertEqual(done.stdout.strip(), "[2.0, 2.0]")


@needs_torch
class RandomNumbers(unittest.TestCase):
    """Seeds come from torch's default generator, one for each call of a graph that draws."""

    def setUp(self):
        torch._dynamo.reset()
        self.ones = torch.ones(400)

    @staticmethod
    def dropout(x):
        return torch.nn.functional.dropout(x, 0.5, True)

    def test_manual_seed(self):
        compiled = torch.compile(self.dropout, backend=backend)
        drawn = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            drawn.append((compiled(self.ones), compiled(self.ones)))
        self.assertTrue(torch.equal(drawn[0][0], drawn[1][0]) and torch.equal(drawn[0][1], drawn[1][1]))
        self.assertFalse(torch.equal(drawn[0][0], drawn[0][1]))
        self.assertFalse(torch.equal(drawn[0][0], drawn[2][0]))

    def test_graphs_differ(self):
        def function(x):
            first = self.dropout(x)
            torch._dynamo.graph_break()
            return first, self.dropout(x)

        first, second = torch.compile(function, backend=backend)(self.ones)
        self.assertLess((first == second).float().mean().item(), 0.7)
        other = torch.compile(lambda x: self.dropout(x * 1.0) + 0.0, backend=backend)(self.ones)
        self.assertLess((first == other).float().mean().item(), 0.7)

    def test_branches_draw_too(self):
        def function(x):
            return torch.cond(x.sum() > 0, lambda x: x * torch.rand_like(x), lambda x: x - 1, (x,))

        compiled = torch.compile(function, backend=backend)
        drawn = []
        for _ in range(2):
            torch.manual_seed(3)
            drawn.append(compiled(self.ones))
        self.assertTrue(torch.equal(*drawn))
        self.assertFalse(torch.equal(drawn[0], compiled(self.ones)))

    def test_fork_rng(self):
        compiled = torch.compile(self.dropout, backend=backend)
        with torch.random.fork_rng():
            first = compiled(self.ones)
        self.assertTrue(torch.equal(first, compiled(self.ones)))

    def test_nothing_is_drawn_for_other_graphs(self):
        compiled = torch.compile(lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x), backend=backend)
        state = torch.get_rng_state()
        compiled(torch.ones(1, 2, 4, 8))
        self.assertTrue(torch.equal(state, torch.get_rng_state()))

    def _check_one_mask(self, net):
        # The loss is homogeneous in x, and so equals the gradient times x where forward and backward have one mask.
        x = torch.rand(8, 64, requires_grad=True)
        loss = net(x)
        loss.backward()
        torch.testing.assert_close((x.grad * x).sum(), loss)

    def test_checkpoint_inside(self):
        from torch.utils.checkpoint import checkpoint

        lin = torch.nn.Linear(64, 64, bias=False)

        def block(x):
            return self.dropout(torch.relu(lin(x))) * torch.bernoulli(torch.full((8, 64), 0.5)) * 2

        self._check_one_mask(torch.compile(lambda x: checkpoint(block, x, use_reentrant=False).sum(), backend=backend))

    def test_checkpoint_around(self):
        from torch.utils.checkpoint import checkpoint

        lin = torch.nn.Linear(64, 64, bias=False)
        block = torch.compile(lambda x: self.dropout(torch.relu(lin(x))) * 2, backend=backend)
        self._check_one_mask(lambda x: checkpoint(block, x, use_reentrant=False).sum())
        # Here the first graph has no gradients, and is another one than that which computes again.
        self._check_one_mask(lambda x: checkpoint(block, x, use_reentrant=True).sum())


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
        with self.assertRaisesRegex(kiln.RunError, "thirteen") as caught:
            model(torch.ones(3))
        self.assertIsInstance(caught.exception.__cause__, ValueError)

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
