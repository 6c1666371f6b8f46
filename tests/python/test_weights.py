"""Weights given to a loaded model."""

import os
import threading
import unittest

import kiln
from support import load, needs_numpy, needs_torch, numpy, torch


@needs_numpy
class Weights(unittest.TestCase):
    def setUp(self):
        self.model = load("mlp")
        self.x = numpy.ones((8, 10), numpy.float32)

    def test_read(self):
        weight = numpy.asarray(self.model._read_constant("fc1.weight"))
        self.assertEqual(weight.shape, (16, 10))
        with self.assertRaises(kiln.ArgumentError) as caught:
            self.model.constant("fc3.weight")
        self.assertEqual(caught.exception.code, "K0705")

    def test_part(self):
        before = self.model(self.x)
        self.model.load_constants({"fc2.bias": numpy.full(1, 100, "f4")}, check_full_update=False)
        numpy.testing.assert_allclose(self.model(self.x), 1.0)
        self.model.update_constant_buffer({"fc2.bias": numpy.zeros(1, "f4")}, False, False)
        self.assertFalse(numpy.allclose(before, 1.0))

    def test_whole(self):
        values = {"fc1.weight": numpy.zeros((16, 10), "f4"), "fc1.bias": numpy.ones(16, "f4"), "fc2.weight": numpy.ones((1, 16), "f4")}
        with self.assertRaises(kiln.ArgumentError) as caught:
            self.model.load_constants(values, check_full_update=True)
        self.assertIn("fc2.bias", str(caught.exception))
        values["fc2.bias"] = numpy.full(1, -16, "f4")
        self.model.load_constants(values, check_full_update=True)
        numpy.testing.assert_allclose(self.model(self.x), 0.5)

    def test_wrong(self):
        before = self.model(self.x)
        for values in ({"fc2.bia": numpy.zeros(1, "f4")}, {"fc2.bias": numpy.zeros(2, "f4")}, {"fc2.bias": numpy.zeros(1, "f8")}, {"fc2.bias": 3}):
            with self.assertRaises(kiln.Error):
                self.model.load_constants(values, check_full_update=False)
        numpy.testing.assert_array_equal(self.model(self.x), before)

    def test_inactive(self):
        before = self.model(self.x)
        self.model.update_constant_buffer({"fc2.bias": numpy.full(1, 100, "f4")}, True, False)
        numpy.testing.assert_array_equal(self.model(self.x), before)
        self.model.swap_constant_buffer()
        numpy.testing.assert_allclose(self.model(self.x), 1.0)

    def test_while_others_run(self):
        """Every run sees all of an update or nothing of it."""
        ones = {"fc1.weight": numpy.zeros((16, 10), "f4"), "fc1.bias": numpy.ones(16, "f4"), "fc2.weight": numpy.ones((1, 16), "f4")}
        even = {**ones, "fc2.bias": numpy.full(1, -16, "f4")}
        odd = {**ones, "fc1.bias": numpy.zeros(16, "f4"), "fc2.bias": numpy.zeros(1, "f4")}
        self.model.load_constants(even, check_full_update=True)
        stop, wrong = threading.Event(), []

        def work():
            while not stop.is_set():
                if not numpy.allclose(self.model(self.x), 0.5):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for i in range(200):
            self.model.load_constants(odd if i % 2 else even, check_full_update=True)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


@needs_torch
class StateDicts(unittest.TestCase):
    def test_state_dict(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)

            def forward(self, x):
                return self.norm(self.fc(x))

        first, second = Net().eval(), Net().eval()
        with torch.no_grad():
            for parameter in second.parameters():
                parameter.add_(torch.rand_like(parameter))
            second.norm.running_mean.add_(1)
        x = torch.randn(3, 4)
        model = kiln.aoti_load_package(kiln.aoti_compile_and_package(torch.export.export(first, (x,))))
        torch.testing.assert_close(model(x), first(x).detach())
        model.load_state_dict(second.state_dict())
        torch.testing.assert_close(model(x), second(x).detach())
        model.load_constants(dict(first.named_parameters()), check_full_update=False)  # they need gradients: values count
        model.load_constants({"norm.running_mean": first.norm.running_mean}, check_full_update=False)
        torch.testing.assert_close(model(x), first(x).detach())
        with self.assertRaises(kiln.ArgumentError):
            model.load_state_dict({"fc.weight": first.fc.weight})
        model.load_state_dict({"fc.weight": second.fc.weight}, strict=False)
        with self.assertRaises(kiln.ArgumentError):
            model.load_state_dict({"module.fc.weight": second.fc.weight}, strict=False)

    def test_without_weights(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(64, 64)
                self.register_buffer("calls", torch.zeros(()))
                self.register_buffer("scale", torch.tensor(3.0), persistent=False)

            def forward(self, x):
                self.calls.add_(1)
                return self.fc(x) * self.scale + torch.tensor([1.0]) + self.calls

        net, x = Net(), torch.randn(2, 64)
        program = torch.export.export(net, (x,))
        whole = kiln.aoti_compile_and_package(program)
        path = kiln.aoti_compile_and_package(program, inductor_configs={"aot_inductor.package_constants_in_so": False})
        self.assertLess(os.path.getsize(path), os.path.getsize(whole) - 64 * 64 * 4 + 4096)
        model = kiln.aoti_load_package(path)
        with self.assertRaisesRegex(kiln.ArgumentError, "fc.weight") as caught:
            model(x)
        self.assertEqual(caught.exception.code, "K0720")
        model.load_constants({"fc.weight": net.fc.weight, "calls": net.calls}, check_full_update=False)
        with self.assertRaisesRegex(kiln.Error, "not given yet: fc.bias$"):
            model(x)
        model.load_state_dict(net.state_dict())
        reference = kiln.aoti_load_package(whole)
        for _ in range(2):
            torch.testing.assert_close(model(x), reference(x))

    def test_user_managed(self):
        class Scale(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.nn.Parameter(torch.ones(16))

            def forward(self, x):
                return x * self.scale

        model = kiln.aoti_load_package(kiln.aoti_compile_and_package(torch.export.export(Scale(), (torch.ones(16),))))
        mine = torch.full((16,), 3.0)
        model.load_constants({"scale": mine}, check_full_update=True, user_managed=True)
        torch.testing.assert_close(model(torch.ones(16)), torch.full((16,), 3.0))
        mine.fill_(5)  # the same memory
        torch.testing.assert_close(model(torch.ones(16)), torch.full((16,), 5.0))
        del mine
        torch.testing.assert_close(model(torch.ones(16)), torch.full((16,), 5.0))

    def test_user_managed_and_prepared(self):
        """What kernels read in an order of their own is prepared from the values as they were given."""
        net, x = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval(), torch.randn(8, 10)
        model = kiln.aoti_load_package(kiln.aoti_compile_and_package(torch.export.export(net, (x,))))
        mine = {name: value.clone() for name, value in net.state_dict().items()}
        model.load_constants(mine, check_full_update=True, user_managed=True)
        torch.testing.assert_close(model(x), net(x).detach())
        for value in mine.values():
            value.mul_(3)
        with self.assertRaisesRegex(kiln.Error, "give it again") as caught:
            model(x)
        self.assertEqual(caught.exception.code, "K0798")
        model.load_constants(mine, check_full_update=True, user_managed=True)
        torch.testing.assert_close(model(x), torch.func.functional_call(net, mine, (x,)).detach())

    def test_tied(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.emb = torch.nn.Embedding(7, 4)
                self.head = torch.nn.Linear(4, 7, bias=False)
                self.head.weight = self.emb.weight

            def forward(self, i):
                return self.head(self.emb(i))

        net, i = Tied().eval(), torch.arange(7)
        program = torch.export.export(net, (i,))
        for settings in ({}, {"freezing": True}, {"aot_inductor.package_constants_in_so": False}):
            path = kiln.aoti_compile_and_package(program, inductor_configs=settings)
            for names in (["emb.weight"], ["head.weight"], ["emb.weight", "head.weight"]):
                model, value = kiln.aoti_load_package(path), torch.randn(7, 4)
                model.load_state_dict({name: value for name in names})  # strict: one of the names is enough
                torch.testing.assert_close(model(i), value @ value.T)
                for name in ("emb.weight", "head.weight"):
                    torch.testing.assert_close(model.constant(name), value)
            with self.assertRaisesRegex(kiln.Error, "emb.weight and head.weight") as caught:
                model.load_state_dict({"emb.weight": value, "head.weight": value + 1})
            self.assertEqual(caught.exception.code, "K0797")
            torch.testing.assert_close(model(i), value @ value.T)


if __name__ == "__main__":
    unittest.main()
