"""Calls with numpy, buffers and Kiln's own tensors; no torch."""

import array
import concurrent.futures
import copy
import io
import multiprocessing
import os
import pickle
import unittest
import warnings

import kiln
from support import case, load, needs_numpy, numpy, package, python, scratch


def _call_in_child(model, values):
    return model(values).tolist()


@needs_numpy
class Calls(unittest.TestCase):
    @needs_numpy
    def test_loaded_from_bytes_and_files(self):
        with open(package("mlp"), "rb") as file:
            data = file.read()
            file.seek(0)
            x = numpy.ones((8, 10), numpy.float32)
            expected = load("mlp")(x)
            for source in (data, bytearray(data), io.BytesIO(data), file):
                model = kiln.aoti_load_package(source, model_name="model")
                for same in (model, copy.copy(model), pickle.loads(pickle.dumps(model))):
                    numpy.testing.assert_array_equal(same(x), expected)
        with self.assertRaisesRegex(kiln.ArgumentError, "no model 'other'"):
            kiln.aoti_load_package(data, model_name="other")
        with self.assertRaises(kiln.Error):
            kiln.aoti_load_package(io.BytesIO(data[:100]))

    @classmethod
    def setUpClass(cls):
        cls.model = load("mlp")
        cls.x = numpy.linspace(-1, 1, 80, dtype=numpy.float32).reshape(8, 10)

    def refused(self, code, *args, **kwargs):
        with self.assertRaises(kiln.InputError) as caught:
            self.model(*args, **kwargs)
        self.assertIsInstance(caught.exception, RuntimeError)
        self.assertEqual(caught.exception.code, code)
        return str(caught.exception)

    def test_agrees_with_the_reference(self):
        y = self.model(self.x)
        self.assertIsInstance(y, numpy.ndarray)
        numpy.testing.assert_allclose(y, kiln.interpret(case("mlp"), (self.x,)), rtol=1e-5)
        self.assertTrue(y.flags.writeable)

    def test_bound(self):
        x = self.x.copy()
        step = self.model.bind(x)
        for scale in (1, 2, -3):
            x[:] = self.x * scale
            y = step()
            numpy.testing.assert_array_equal(y, self.model(x))
            self.assertIs(y, step())
        for refused in (lambda: step(x), lambda: step(more=1), lambda: self.model.bind(x[::-1]), lambda: self.model.bind(3)):
            with self.assertRaises(kiln.InputError) as caught:
                refused()
            self.assertEqual(caught.exception.code, "K0709")
        with self.assertRaises(kiln.InputError):
            self.model.bind()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer numpys would rather have a copy
            x.shape = (10, 8)  # the same memory, another layout
            with self.assertRaises(kiln.InputError) as caught:
                step()
            self.assertEqual(caught.exception.code, "K0709")
            x.shape = (8, 10)
        numpy.testing.assert_array_equal(step(), self.model(x))

    def test_any_batch_any_layout(self):
        for batch in (1, 3, 1024):
            x = numpy.random.default_rng(batch).standard_normal((batch, 10), dtype=numpy.float32)
            y = self.model(x)
            numpy.testing.assert_array_equal(self.model(numpy.asfortranarray(x)), y)
            numpy.testing.assert_array_equal(self.model(numpy.repeat(x, 2, axis=1)[:, ::2]), y)
            numpy.testing.assert_array_equal(self.model(x[::-1]), y[::-1])  # copied: DLPack knows no way back
            numpy.testing.assert_array_equal(self.model(x.astype(">f4")), y)
            read_only = x.copy()
            read_only.flags.writeable = False
            numpy.testing.assert_array_equal(self.model(read_only), y)

    def test_by_name(self):
        numpy.testing.assert_array_equal(self.model(x=self.x), self.model(self.x))

    def test_wrong_inputs(self):
        x = self.x
        self.assertIn(
            "Error: input_handles[0]: unmatched dim value at 1, expected: 10, but got: 11", self.refused("K0616", numpy.zeros((8, 11), "f4"))
        )
        self.assertIn("unmatched dtype, expected: 6(float32), but got: 7(float64)", self.refused("K0614", x.astype("f8")))
        self.assertIn("unmatched number of dimensions", self.refused("K0615", x[0]))
        self.assertIn("too large at 0", self.refused("K0617", numpy.zeros((1025, 10), "f4")))
        self.refused("K0611", 1.0)
        self.refused("K0611", None)
        self.assertIn("the argument 'x' is missing", self.refused("K0701"))
        self.assertIn("the argument 'x' is missing; by name there is: y", self.refused("K0701", y=x))
        self.assertIn("takes 1 positional", self.refused("K0701", x, x))
        self.assertIn("the model takes no argument 'y'", self.refused("K0701", x, y=x))
        self.assertIn("those that the export was given: x", self.refused("K0701", x, y=x))
        self.assertIn("the argument 'x' is given twice", self.refused("K0701", x, x=x))
        self.refused("K0703", object())
        self.refused("K0703", [x])
        self.refused("K0703", numpy.array(["a"] * 80).reshape(8, 10))
        numpy.testing.assert_array_equal(self.model(x), self.model(x))  # and goes on

    def test_flat(self):
        (y,) = self.model.run_flat([self.x])
        box = [self.x]
        (z,) = self.model.boxed_run(box)
        self.assertEqual(box, [])
        numpy.testing.assert_array_equal(y, z)
        with self.assertRaises(kiln.InputError):
            self.model.run_flat([self.x, self.x])

    def test_writes_in_place(self):
        model = load("mutated_input")
        spec = next(i for i in model.inputs if i["kind"] == "tensor" and i["mutated"])
        shape = tuple(size if isinstance(size, int) else 4 for size in spec["shape"])
        x = numpy.zeros(shape, spec["dtype"])
        arguments = [x if i["name"] == spec["name"] else numpy.ones(i["shape"], i["dtype"]) for i in model.inputs]
        model.run_flat(arguments)
        self.assertTrue(x.any(), "the input was not written")
        x.flags.writeable = False
        with self.assertRaises(kiln.InputError) as caught:
            model.run_flat(arguments)
        self.assertEqual(caught.exception.code, "K0704")

    def test_results_outlive_the_model(self):
        model = load("mlp")
        y = model(self.x)
        before = y.copy()
        del model
        numpy.testing.assert_array_equal(y, before)

    def test_what_it_says_of_itself(self):
        model = load("mlp")
        self.assertEqual(model.get_constant_fqns(), ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"])
        self.assertEqual(model.inputs[0]["name"], "x")
        self.assertEqual((model.symbols[0]["low"], model.symbols[0]["high"]), (1, 1024))
        self.assertEqual(model.get_metadata()["AOTI_DEVICE_KEY"], "cpu")
        path = kiln.aoti_compile_and_package(
            case("mlp"), package_path=os.path.join(scratch, "told.pt2"), inductor_configs={"aot_inductor.metadata": {"author": "me"}}
        )
        self.assertEqual(kiln.aoti_load_package(path).get_metadata()["author"], "me")

    def test_bfloat16(self):
        model = load("add_bf16")
        shape = [s if isinstance(s, int) else 3 for s in model.inputs[0]["shape"]]
        count = 1
        for size in shape:
            count *= size
        tensors = [kiln._kiln.tensor_from_bytes(b"\x80\x3f" * count, "bfloat16", shape) for _ in model.inputs]
        y = model.run_flat(tensors)[0]
        self.assertIsInstance(y, kiln.Tensor)
        self.assertEqual(set(numpy.ravel(y.tolist())), {2.0})
        try:
            import ml_dtypes
        except ImportError:
            return
        z = model.run_flat([numpy.ones(shape, ml_dtypes.bfloat16)] * len(model.inputs))[0]
        self.assertEqual(z.dtype, ml_dtypes.bfloat16)
        self.assertEqual(set(z.astype("f4").ravel()), {2.0})

    # ---- Structures
    def test_structures(self):
        model = load("input_files/nested.pt2")
        x, left, first, second, bias = (numpy.full(i["shape"], 0.5, i["dtype"]) for i in model.inputs if i["kind"] == "tensor")
        y = model(x, {"left": left, "pair": [first, second]}, 1.5, bias=bias)
        flat = model.run_flat([x, left, first, second, 1.5, bias])
        numpy.testing.assert_array_equal(y if isinstance(y, numpy.ndarray) else y[0], flat[0])
        # Constants may be left out, dictionaries have no order, lists and tuples are both sequences.
        numpy.testing.assert_array_equal(model(x, {"pair": (first, second), "left": left}, bias=bias), y)
        for wrong in ({"left": left}, {"left": left, "pair": [first]}, {"left": left, "pear": [first, second]}, left):
            with self.assertRaises(kiln.InputError) as caught:
                model(x, wrong, 1.5, bias=bias)
            self.assertEqual(caught.exception.code, "K0701")
            self.assertIn("parts", str(caught.exception))
        with self.assertRaises(kiln.InputError) as caught:
            model(x, {"left": left, "pair": [first, second]}, 2.5, bias=bias)
        self.assertEqual(caught.exception.code, "K0612")

    def test_registered_classes(self):
        class Box:
            def __init__(self, parts):
                self.parts = list(parts)

        leaf = '{"type": null, "context": null, "children_spec": []}'
        text = f'[1, {{"type": "somewhere.Box", "context": "null", "children_spec": [{leaf}, {leaf}]}}]'
        with self.assertRaises(kiln.UnsupportedError) as caught:
            kiln._kiln.unflatten(kiln._trees.read(text), [1, 2])
        self.assertEqual(caught.exception.code, "K0708")
        kiln.register_pytree_node(Box, lambda box: box.parts, Box, serialized_type_name="somewhere.Box")
        box = kiln._kiln.unflatten(kiln._trees.read(text), [1, 2])
        self.assertEqual((type(box), box.parts), (Box, [1, 2]))
        with self.assertRaises(kiln.FileError):
            kiln._trees.read("[2, {}]")
        with self.assertRaises(kiln.FileError):
            kiln._trees.read("nonsense")

    def test_a_class_that_is_not_there(self):
        done = python(
            """
            import sys, kiln, numpy
            model = kiln.aoti_load_package(sys.argv[1])
            arguments = [numpy.ones([s if isinstance(s, int) else 2 for s in i["shape"]], i["dtype"]) for i in model.inputs]
            print(len(model.run_flat(arguments)))
            try:
                print(type(model(*arguments)).__name__)
            except kiln.UnsupportedError as error:
                print(error.code)
            """,
            arguments=[package("docs/keyed.pt2")],
        )
        self.assertIn(done.stdout.split()[1], ("K0708", "dict"))

    # ---- Threads and processes
    def test_threads_in_effect(self):
        model = kiln.aoti_load_package(package("mlp"))
        everything = model.threads
        self.assertGreaterEqual(everything, 1)
        model.set_threads(3)
        self.assertEqual(model.threads, 3)
        model.set_threads(-1)
        self.assertEqual(model.threads, everything)

    def test_eight_threads(self):
        inputs = [numpy.full((8, 10), i, numpy.float32) for i in range(8)]
        expected = [self.model(x) for x in inputs]

        def work(i):
            return all(numpy.array_equal(self.model(inputs[i]), expected[i]) for _ in range(300))

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertTrue(all(pool.map(work, range(8))))

    def test_copies(self):
        model = load("mlp")
        model.load_constants({"fc1.bias": numpy.ones(16, "f4")}, check_full_update=False)
        for other in (pickle.loads(pickle.dumps(model)), copy.copy(model), copy.deepcopy(model)):
            self.assertIsNot(other, model)
            numpy.testing.assert_array_equal(other(self.x), model(self.x))
        self.assertFalse(numpy.array_equal(model(self.x), self.model(self.x)))

    def test_state_is_copied(self):
        model = load("counter")
        call = [numpy.ones([s if isinstance(s, int) else 2 for s in i["shape"]], i["dtype"]) for i in model.inputs]
        first = model.run_flat(call)
        other = copy.copy(model)
        numpy.testing.assert_array_equal(model.run_flat(call)[0], other.run_flat(call)[0])
        self.assertFalse(numpy.array_equal(first[0], model.run_flat(call)[0]), "the case has no state")

    def test_processes(self):
        expected = self.model(self.x).tolist()
        for way in ("fork", "spawn"):
            with multiprocessing.get_context(way).Pool(2) as pool:
                results = pool.starmap(_call_in_child, [(self.model, self.x)] * 4)
            self.assertEqual(results, [expected] * 4, way)


class WithoutNumpy(unittest.TestCase):
    def test_buffers(self):
        model = load("mlp")
        x = memoryview(array.array("f", [0.5] * 80)).cast("B").cast("f", (8, 10))
        y = model(x)
        self.assertIsInstance(y, kiln.Tensor)
        self.assertEqual((y.shape, y.strides, y.dtype, y.ndim, len(y)), ((8, 1), (1, 1), "float32", 2, 8))
        self.assertEqual(memoryview(y).tolist(), y.tolist())
        again = pickle.loads(pickle.dumps(y))
        self.assertEqual(again.tolist(), y.tolist())
        self.assertEqual(model(kiln._kiln.tensor_from_bytes(array.array("f", [0.5] * 80).tobytes(), "float32", [8, 10])).tolist(), y.tolist())

    def test_nothing_else_is_imported(self):
        done = python(
            """
            import sys
            class Blocked:
                def find_spec(self, name, path=None, target=None):
                    if name.split(".")[0] in ("numpy", "torch"):
                        raise ImportError(name + " is not here")
            sys.meta_path.insert(0, Blocked())
            import array, kiln
            x = memoryview(array.array("f", [0.5] * 80)).cast("B").cast("f", (8, 10))
            print(kiln.aoti_load_package(sys.argv[1])(x).tolist()[0][0] > 0)
            print("numpy" in sys.modules, "torch" in sys.modules)
            """,
            arguments=[package("mlp")],
        )
        self.assertEqual(done.stdout.split(), ["True", "False", "False"])

    def test_import_is_quick(self):
        # The processor's time: a busy machine makes everything else slow too.
        script = "import time; t = time.process_time(); import kiln; print(time.process_time() - t)"
        best = min(float(python(script).stdout) for _ in range(5))
        self.assertLess(best, 0.05)


class Files(unittest.TestCase):
    def test_what_cannot_be_loaded(self):
        with self.assertRaises(kiln.FileError) as caught:
            kiln.aoti_load_package(case("mlp"))
        self.assertEqual(caught.exception.code, "K0520")
        with self.assertRaises(kiln.Error):
            kiln.aoti_load_package(os.path.join(scratch, "nothing.pt2"))
        damaged = os.path.join(scratch, "damaged.pt2")
        with open(package("mlp"), "rb") as file, open(damaged, "wb") as to:
            to.write(file.read()[:-2000])
        with self.assertRaises(kiln.FileError):
            kiln.aoti_load_package(damaged)

    def test_arguments_of_pytorchs_loader(self):
        model = kiln.aoti_load_package(package("mlp"), run_single_threaded=True, num_runners=2, use_stream_affinity=False)
        self.assertEqual(model.path, package("mlp"))
        with self.assertRaises(kiln.ArgumentError) as caught:
            kiln.aoti_load_package(package("mlp"), True)
        self.assertEqual(caught.exception.code, "K0711")

    def test_what_cannot_be_compiled(self):
        with self.assertRaises(kiln.CompileError) as caught:
            kiln.aoti_compile_and_package(os.path.join(scratch, "nothing.pt2"))
        self.assertEqual(caught.exception.code, "K0101")
        with self.assertRaises(kiln.ArgumentError):
            kiln.aoti_compile_and_package(42)
        with self.assertRaises(kiln.ArgumentError):
            kiln.aoti_compile_and_package(case("mlp"), package_path=os.path.join(scratch, "package.zip"))
        with self.assertRaises(kiln.ArgumentError) as caught:
            kiln.aoti_compile_and_package(case("mlp"), package_path=os.path.join(scratch, "x.pt2"), inductor_configs={"cpp.simdln": 1})
        self.assertEqual(caught.exception.code, "K0140")
        self.assertIn("cpp.simdlen", str(caught.exception))
        with self.assertRaises(kiln.ArgumentError) as caught:
            kiln.aoti_compile_and_package(case("mlp"), package_path=os.path.join(scratch, "x.pt2"), target="x86-65")
        self.assertEqual(caught.exception.code, "K0190")

    def test_targets_as_text_and_as_a_list(self):
        for target in ("generic,x86-64-v2", ["generic", "x86-64-v2"], ("generic", "x86-64-v2")):
            path = kiln.aoti_compile_and_package(case("mlp"), package_path=os.path.join(scratch, "targets.pt2"), target=target)
            self.assertIn("code for generic, x86-64-v2", kiln.inspect(path))

    def test_no_command(self):
        done = python(
            "import kiln, sys\ntry: kiln.inspect(sys.argv[1])\nexcept kiln.FileError as error: print(error.code)",
            environment={"KILN": os.path.join(scratch, "no_such_command")},
            arguments=[case("mlp")],
        )
        self.assertEqual(done.stdout.strip(), "K0710")


if __name__ == "__main__":
    unittest.main()
