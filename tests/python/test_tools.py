"""Kiln's tools from Python: inspect, interpret, profile, bisect, minify, run_repro, report, deprecated names."""

import glob
import os
import subprocess
import sys
import tempfile
import unittest

import kiln
from support import case, load, needs_numpy, needs_torch, numpy, package, python, scratch, torch

broken = {"cpp.inject_relu_bug_TESTING_ONLY": "accuracy"}


class Tools(unittest.TestCase):
    @needs_torch
    def test_inputs_by_name(self):
        class Difference(torch.nn.Module):
            def forward(self, x, d):
                return x - d["a"]

        three, one = torch.full((3,), 3.0), torch.ones(3)
        program = torch.export.export(Difference(), (three, {"a": one}))
        torch.testing.assert_close(kiln.interpret(program, {"d": {"a": one}, "x": three}), three - one)

    @needs_torch
    def test_weights_without_values(self):
        with torch.device("meta"):
            linear = torch.nn.Linear(3, 3)
        with self.assertRaisesRegex(kiln.ArgumentError, "'weight' has no values.*meta") as caught:
            kiln.aoti_compile_and_package(torch.export.export(linear, (torch.ones(2, 3, device="meta"),)))
        self.assertEqual(caught.exception.code, "K0718")

    def test_inspect(self):
        self.assertIn("fc1.weight", kiln.inspect(case("mlp")))
        self.assertIn("steps of a run", kiln.inspect(package("mlp")))
        self.assertIn("cpp_mm_linear_0", kiln.inspect(load("mlp")))
        self.assertIn("ok", kiln.inspect(package("mlp"), verify=True))
        with self.assertRaises(kiln.Error):
            kiln.inspect(os.path.join(scratch, "nothing.pt2"))

    def test_command(self):
        done = subprocess.run([sys.executable, "-m", "kiln", "--version"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertTrue(done.stdout.startswith(f"kiln {kiln.__version__}\n"), done.stderr)
        done = subprocess.run([sys.executable, "-m", "kiln", "nonsense"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(done.returncode, 2)

    def test_self_test(self):
        directory = os.path.dirname(case("mlp"))
        path = kiln.aoti_compile_and_package(case("mlp"), package_path=os.path.join(scratch, "tested.pt2"), bundle=directory)
        done = kiln.aoti_load_package(path).self_test()
        self.assertGreater(done["calls"], 3)
        self.assertLessEqual(done["worst"], 1)
        path = kiln.aoti_compile_and_package(
            case("mlp"), package_path=os.path.join(scratch, "wrong.pt2"), bundle=directory, inductor_configs=broken
        )
        with self.assertRaises(kiln.RunError) as caught:
            kiln.aoti_load_package(path).self_test()
        self.assertEqual(caught.exception.code, "K0742")
        self.assertIn("output 0: 8 of 8 values differ", str(caught.exception))
        with self.assertRaises(kiln.FileError) as caught:
            load("mlp").self_test()
        self.assertEqual(caught.exception.code, "K0739")
        with self.assertRaises(kiln.CompileError):
            kiln.aoti_compile_and_package(case("mlp"), package_path=os.path.join(scratch, "none.pt2"), bundle=scratch + "/no")

    def test_report(self):
        trace = os.path.join(scratch, "trace")
        with kiln.config.patch("TORCH_TRACE", trace):
            kiln.aoti_compile_and_package(case("add"), package_path=os.path.join(scratch, "traced.pt2"))
        page = kiln.report(trace, os.path.join(scratch, "report.html"))
        with open(page, encoding="utf-8") as file:
            self.assertIn("<html", file.read())

    def test_minify(self):
        with tempfile.TemporaryDirectory() as directory:
            done = python(
                """
                import sys, kiln
                print(kiln.minify(sys.argv[1], config_patches={"cpp.inject_relu_bug_TESTING_ONLY": "compile_error"}, save_dir="checkpoints"))
                try:
                    kiln.minify(sys.argv[1])
                except kiln.AOTIMinifierError as error:
                    print(error.code)
                """,
                arguments=[case("mlp")],
                directory=directory,
            )
            lines = done.stdout.splitlines()
            self.assertIn("Wrote minimal repro out to repro.py", lines)
            self.assertIn(os.path.join(os.path.realpath(directory), "repro.pt2"), lines)
            self.assertEqual(lines[-1], "K0680")
            self.assertTrue(os.path.exists(os.path.join(directory, "repro.py")))


@needs_numpy
class Values(unittest.TestCase):
    def test_interpret(self):
        x = numpy.ones((8, 10), numpy.float32)
        y = kiln.interpret(case("mlp"), (x,))
        self.assertEqual(tuple(y.shape), (8, 1))
        exact = kiln.interpret(case("mlp"), (x,), fp64=True)
        self.assertEqual(str(exact.dtype).replace("torch.", ""), "float64")
        with self.assertRaises(kiln.Error):
            kiln.interpret(case("mlp"), (x[0],))

    def test_profile(self):
        model = load("mlp")
        x = numpy.ones((8, 10), numpy.float32)
        profile = kiln.profile(model, x, runs=7)
        rows = profile.key_averages()
        self.assertEqual({row.key: row.count for row in rows}, {"cpp_mm_linear_0": 7, "cpp_fused_relu_linear_sigmoid_1": 7})
        self.assertIn("cpp_mm_linear_0", rows.table(sort_by="cpu_time_total"))
        self.assertTrue(all(row.flops for row in rows))
        with self.assertRaises(kiln.ArgumentError):
            rows.table(sort_by="nonsense")
        with kiln.profile(model) as profile:
            model(x)
        self.assertEqual(profile.summary()["runs"], 1)
        trace = os.path.join(scratch, "trace.json")
        profile.export_chrome_trace(trace)
        with open(trace, encoding="utf-8") as file:
            self.assertIn("cpp_mm_linear_0", file.read())

    def test_bisect(self):
        self.assertFalse(kiln.bisect(load("mlp"), (numpy.ones((8, 10), "f4"),)))
        found = kiln.bisect(package("mlp", **broken), (numpy.ones((8, 10), "f4"),))
        self.assertTrue(found)
        self.assertIn("aten.relu.default", found.text)
        with self.assertRaises(kiln.Error):
            kiln.bisect(case("mlp"))


@needs_torch
class WithTorch(unittest.TestCase):
    def test_check_correctness(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(10, 16)

            def forward(self, x):
                return torch.relu(self.fc(x))

        args = (torch.randn(8, 10),)
        report = kiln.check_correctness(Net(), args, quiet=True)
        self.assertTrue(report)
        self.assertTrue(kiln.check_correctness(Net(), args, dynamic_shapes={"x": {0: torch.export.Dim("batch")}}, quiet=True))
        self.assertTrue(kiln.check_correctness(lambda x, y: (x @ y).softmax(-1), (torch.randn(3, 4), torch.randn(4, 5)), quiet=True))
        with self.assertRaises(AssertionError) as caught:
            kiln.check_correctness(Net(), args, inductor_configs=broken, quiet=True)
        self.assertIsInstance(caught.exception, kiln.Error)
        self.assertIn("values differ", str(caught.exception))
        self.assertIn("aten.relu.default", str(caught.exception))

    def test_what_rounding_decides_is_no_difference(self):
        def steps(x):
            return (x.softmax(-1).cumsum(-1) * 3).floor()

        def logits(x, a, b):
            return ((x.bfloat16() @ a).relu() @ b).float()

        weights = [(torch.randn(64, 64) / 8).bfloat16() for _ in range(2)]
        for function, args in (
            (steps, (torch.randn(40, 40),)),
            (lambda x: torch.linalg.svd(x @ x.mT)[0], (torch.randn(16, 4),)),
            (logits, (torch.randn(16, 64), *weights)),
        ):
            self.assertTrue(kiln.check_correctness(function, args, quiet=True))
        fault = {"inject_fault_TESTING_ONLY": "accuracy:floor"}
        self.assertFalse(kiln.check_correctness(steps, (torch.randn(40, 40),), inductor_configs=fault, quiet=True, raise_on_difference=False))

    def test_deprecated(self):
        net = torch.nn.Linear(4, 3)
        x = torch.randn(2, 4)
        with self.assertWarnsRegex(FutureWarning, "aoti_compile_and_package"):
            path = kiln.aot_compile(net, (x,))
        with self.assertWarnsRegex(FutureWarning, "aoti_load_package"):
            model = kiln.aot_load(path, "cpu")
        torch.testing.assert_close(model(x), net(x).detach())
        with self.assertWarns(FutureWarning), self.assertRaises(kiln.FileError) as caught:
            kiln.aot_load(path, "cuda")
        self.assertEqual(caught.exception.code, "K0712")
        self.assertIn("cpu", str(caught.exception))
        self.assertIn("cuda", str(caught.exception))

    def test_torch_profiler(self):
        from torch.profiler import ProfilerActivity, profile

        model = load("mlp")
        with profile(activities=[ProfilerActivity.CPU]) as prof:
            model(torch.ones(8, 10))
        self.assertIn("cpp_mm_linear_0", {event.key for event in prof.key_averages()})
        before = model(torch.ones(8, 10))  # and without it again
        torch.testing.assert_close(model(torch.ones(8, 10)), before)

    def test_scripts_of_the_debug_directory(self):
        """What a compile writes down runs as it is."""
        with tempfile.TemporaryDirectory() as directory:
            with kiln.config.patch({"debug": True, "debug_dir_root": directory}):
                kiln.aoti_compile_and_package(case("mlp"), package_path=os.path.join(directory, "mlp.kiln.pt2"))
            for name in ("fx_graph_runnable.py", "output_code.py"):
                (script,) = glob.glob(os.path.join(directory, "run_*", "*", name))
                done = subprocess.run(
                    [sys.executable, script],
                    cwd=directory,
                    capture_output=True,
                    text=True,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("tensor", done.stdout)


if __name__ == "__main__":
    unittest.main()
