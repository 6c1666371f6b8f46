"""Calls with torch's tensors, structures and gradients."""

import collections
import ctypes
import dataclasses
import typing
import unittest

import kiln
from support import load, needs_torch, package, python, torch

if torch is not None:

    class Pair(typing.NamedTuple):
        a: torch.Tensor
        b: torch.Tensor

    @dataclasses.dataclass
    class Parts:
        a: torch.Tensor
        b: object = None

    torch.export.register_dataclass(Parts, serialized_type_name=f"{__name__}.Parts")
    from torch.utils import _pytree

    _pytree._register_namedtuple(Pair, serialized_type_name=f"{__name__}.Pair")

    class Structured(torch.nn.Module):
        def forward(self, x, d, pair, *, how="mean", count=3, more=None, parts):
            y = x + d["a"] + pair.a + parts.a + (more["q"] if more is not None else 0)
            return {
                "pair": Pair(y, y * 2),
                "parts": Parts(y, None),
                "list": [y, (y,)],
                "number": 5,
                "how": how,
                "more": collections.OrderedDict([("q", y)]),
                "none": None,
            }


def compiled(module, args, kwargs=None, **more):
    return kiln.aoti_load_package(kiln.aoti_compile_and_package(torch.export.export(module, args, kwargs, **more)))


@needs_torch
class TorchCalls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = load("mlp")
        cls.x = torch.linspace(-1, 1, 80).reshape(8, 10)

    def refused(self, code, x):
        with self.assertRaises(kiln.InputError) as caught:
            self.model(x)
        self.assertEqual(caught.exception.code, code)
        return str(caught.exception)

    def test_bound(self):
        x = self.x.clone()
        step = self.model.bind(x)
        y = step()
        x.mul_(2)
        self.assertIs(step(), y)
        self.assertTrue(torch.equal(y, self.model(x)))
        x.data = self.x.clone()  # another memory
        with self.assertRaises(kiln.InputError) as caught:
            step()
        self.assertEqual(caught.exception.code, "K0709")
        step, y = self.model.bind(x), None
        y = step()
        y.data = torch.zeros(3)
        with self.assertRaises(kiln.InputError) as caught:
            step()
        self.assertIn("output 0", str(caught.exception))

    def test_bound_and_gradients(self):
        x = self.x.clone()
        step = self.model.bind(x)
        step()
        x.requires_grad_()
        with self.assertRaises(kiln.InputError) as caught:
            step()
        self.assertEqual(caught.exception.code, "K0702")
        with torch.no_grad():
            step()

    def test_bound_results(self):
        class Several(torch.nn.Module):
            def forward(self, x):
                return {"twice": x * 2, "list": [x + 1], "sum": x.sum()}

        x = torch.arange(4.0)
        step = compiled(Several(), (x,)).bind(x)
        first = step()
        kept = first["twice"]
        first["twice"] = None
        first["list"].clear()
        x.add_(1)
        second = step()
        self.assertIs(second["twice"], kept)
        self.assertTrue(torch.equal(second["twice"], x * 2) and torch.equal(second["list"][0], x + 1))
        self.assertEqual(second["sum"], x.sum())

    def test_bound_sizes_of_values(self):
        class Where(torch.nn.Module):
            def forward(self, x):
                return torch.nonzero(x > 0)

        x = torch.tensor([1.0, -1.0, 1.0])
        step = compiled(Where(), (x,)).bind(x)
        self.assertEqual(step().tolist(), [[0], [2]])
        x.neg_()
        with self.assertRaises(kiln.InputError) as caught:
            step()
        self.assertEqual(caught.exception.code, "K0621")
        self.assertIn("a bound call keeps", str(caught.exception))
        x.neg_()
        self.assertEqual(step().tolist(), [[0], [2]])

    def test_values(self):
        y = self.model(self.x)
        self.assertIs(type(y), torch.Tensor)
        torch.testing.assert_close(y, kiln.interpret(package_source("mlp"), (self.x,)))
        torch.testing.assert_close(torch.from_numpy(self.model(self.x.numpy())), y)
        torch.testing.assert_close(self.model(self.x.t().contiguous().t()), y)
        self.assertEqual(y.data_ptr() % 64, 0)

    def test_gradients(self):
        needs = self.x.clone().requires_grad_()
        self.assertIn("torch.no_grad()", self.refused("K0702", needs))
        self.refused("K0702", torch.nn.Parameter(self.x))
        for off in (torch.no_grad(), torch.inference_mode()):
            with off:
                torch.testing.assert_close(self.model(needs), self.model(self.x))
        torch.testing.assert_close(self.model(needs.detach()), self.model(self.x))

    def test_views_that_are_not_their_memory(self):
        negated = torch._neg_view(self.x)
        self.assertTrue(negated.is_neg())
        torch.testing.assert_close(self.model(negated), self.model(-self.x))

        class Magnitude(torch.nn.Module):
            def forward(self, z):
                return z.imag * 2

        z = torch.randn(4, dtype=torch.complex64)
        torch.testing.assert_close(compiled(Magnitude(), (z,))(z.conj()), z.conj().imag * 2)

    def test_other_tensors(self):
        self.assertIn("meta", self.refused("K0703", self.x.to("meta")))
        self.refused("K0703", self.x.to_sparse())
        self.assertIn("unmatched dtype", self.refused("K0614", self.x.half()))
        from torch._subclasses import FakeTensorMode

        with FakeTensorMode():
            fake = torch.ones(8, 10)
        self.assertIn("FakeTensor", self.refused("K0703", fake))

        class Plain(torch.Tensor):
            pass

        torch.testing.assert_close(self.model(self.x.as_subclass(Plain)), self.model(self.x))

    def test_another_device(self):
        """A tensor of a GPU, as DLPack shows one, without having a GPU."""

        class Gpu:
            def __init__(self, x):
                self.x = x

            def __dlpack__(self, **_):
                capsule = self.x.__dlpack__()
                get = ctypes.pythonapi.PyCapsule_GetPointer
                get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
                at = get(capsule, b"dltensor")
                ctypes.c_int32.from_address(at + 8).value = 2  # kDLCUDA
                return capsule

            def __dlpack_device__(self):
                return (2, 0)

        message = self.refused("K0613", Gpu(self.x))
        self.assertIn("Error: input_handles[0]: unmatched device type, expected: 0(cpu), but got: 1(cuda)", message)

    def test_anything_that_speaks_dlpack(self):
        class Other:
            def __init__(self, x):
                self.x = x

            def __dlpack__(self, **keywords):
                return self.x.__dlpack__(**keywords)

            def __dlpack_device__(self):
                return self.x.__dlpack_device__()

        class Old(Other):
            def __dlpack__(self):
                return self.x.__dlpack__()

        for kind in (Other, Old):
            y = self.model(kind(self.x))
            torch.testing.assert_close(torch.from_dlpack(y), self.model(self.x))
        with self.assertRaises(kiln.InputError):
            Other.__dlpack__ = lambda self, **_: 3
            self.model(Other(self.x))

    def test_no_copies(self):
        class Write(torch.nn.Module):
            def forward(self, x):
                x.add_(1)
                return x * 2

        model = compiled(Write(), (torch.zeros(4),))
        x = torch.zeros(4)
        torch.testing.assert_close(model(x), torch.full((4,), 2.0))
        torch.testing.assert_close(x, torch.ones(4))

    def test_structures(self):
        v = torch.ones(3)
        kwargs = {"how": "mean", "count": 3, "more": collections.OrderedDict(q=v), "parts": Parts(v)}
        args = (v, {"a": v, "b": v}, Pair(v, v))
        expected = Structured()(*args, **kwargs)
        model = compiled(Structured(), args, kwargs)
        for got in (
            model(*args, **kwargs),
            model(*args, **dict(reversed(kwargs.items()))),
            model(*args, more=kwargs["more"], parts=kwargs["parts"]),  # constants left out
            model(v, pair=Pair(v, v), d={"b": v, "a": v}, **kwargs),
        ):
            self.assertEqual(_pytree.tree_structure(got), _pytree.tree_structure(expected))
            self.assertIs(type(got["pair"]), Pair)
            self.assertIs(type(got["parts"]), Parts)
            self.assertIs(type(got["more"]), collections.OrderedDict)
            self.assertEqual((got["number"], got["how"], got["none"]), (5, "mean", None))
            torch.testing.assert_close(got["pair"].b, expected["pair"].b)
        for wrong in ({**kwargs, "parts": v}, {**kwargs, "parts": Parts(v, v)}, {**kwargs, "more": None}, {**kwargs, "extra": v}):
            with self.assertRaises(kiln.InputError) as caught:
                model(*args, **wrong)
            self.assertEqual(caught.exception.code, "K0701")
        # A field is None where another was: neither is taken for the other.
        for parts, what in ((Parts(None, None), "the field a is None, and was not in the export"),
                            (Parts(None, v), "the field a is None, and was not in the export, b was None in the export, and is not"),
                            (Parts(v, v), "the field b was None in the export, and is not")):
            with self.assertRaisesRegex(kiln.InputError, what):
                model(*args, **{**kwargs, "parts": parts})
        with self.assertRaises(kiln.InputError):
            model(*args, **{**kwargs, "how": "sum"})
        for keys in ("a", "ac"):  # too few, and another one
            with self.assertRaises(kiln.InputError) as caught:
                model(v, dict.fromkeys(keys, v), Pair(v, v), **kwargs)
            self.assertIn(f"d: expected a dict with the keys a, b as in the export, but got {list(keys)}", str(caught.exception))

    def test_numbers(self):
        class Repeat(torch.nn.Module):
            def forward(self, x, n: int):
                return x.expand(n, 3) * n

        model = compiled(Repeat(), (torch.ones(3), 4), dynamic_shapes=({}, torch.export.Dim.DYNAMIC))
        for n in (4, 7):
            torch.testing.assert_close(model(torch.ones(3), n), torch.ones(n, 3) * n)
        with self.assertRaises(kiln.InputError):
            model(torch.ones(3), 2.5)
        with self.assertRaises(kiln.InputError):
            model(torch.ones(3), 1 << 70)

    def test_no_tensors(self):
        class Count(torch.nn.Module):
            def forward(self, n: int):
                return torch.arange(n)

        model = compiled(Count(), (4,), dynamic_shapes=(torch.export.Dim.DYNAMIC,))
        torch.testing.assert_close(model(6), torch.arange(6))

    def test_a_named_type_without_torch(self):
        """The same package in a process that has no torch: classes are found by their names."""
        import os

        v = torch.ones(3)
        path = kiln.aoti_compile_and_package(
            torch.export.export(Structured(), (v, {"a": v, "b": v}, Pair(v, v)), {"parts": Parts(v)})
        )
        done = python(
            """
            import sys
            sys.modules["torch"] = None
            import types, typing, dataclasses, numpy, kiln
            home = types.ModuleType(sys.argv[2])
            home.Pair = typing.NamedTuple("Pair", [("a", object), ("b", object)])
            home.Parts = dataclasses.make_dataclass("Parts", [("a", object), ("b", object)])
            sys.modules[sys.argv[2]] = home
            v = numpy.ones(3, "f4")
            got = kiln.aoti_load_package(sys.argv[1])(v, {"a": v, "b": v}, home.Pair(v, v), parts=home.Parts(v, None))
            print(type(got["pair"]) is home.Pair, type(got["parts"]) is home.Parts, got["pair"].b.tolist())
            """,
            arguments=[path, __name__],
        )
        self.assertEqual(done.stdout.strip(), "True True [8.0, 8.0, 8.0]")

    def test_data_loader_workers(self):
        done = python(
            """
            import sys, torch, kiln
            class Data(torch.utils.data.Dataset):
                def __init__(self, model): self.model = model
                def __len__(self): return 4
                def __getitem__(self, i): return self.model(torch.full((8, 10), float(i)))
            if __name__ == "__main__":
                model = kiln.aoti_load_package(sys.argv[1])
                for way in ("fork", "spawn", "forkserver"):
                    loader = torch.utils.data.DataLoader(Data(model), num_workers=2, multiprocessing_context=way)
                    got = [batch[0] for batch in loader]
                    print(all(torch.equal(got[i], model(torch.full((8, 10), float(i)))) for i in range(4)))
            """,
            arguments=[package("mlp")],
            as_file=True,
        )
        self.assertEqual(done.stdout.split(), ["True"] * 3)


def package_source(name):
    from support import case

    return case(name)


if __name__ == "__main__":
    unittest.main()
