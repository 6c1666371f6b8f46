"""Tests of what turns measurements into tables and pages; needs numpy only.

    python bench/measuring/test_measuring.py
"""
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import chosen  # noqa: E402
import document  # noqa: E402
import kiln_abi  # noqa: E402
import machine  # noqa: E402
import model_kernels  # noqa: E402
import raw_tensors  # noqa: E402
import tables  # noqa: E402
from compare import compare  # noqa: E402
from harness import Setting, last_error, weights_seconds  # noqa: E402
from plots import bar_chart  # noqa: E402
from results import Results  # noqa: E402


def f32(*values):
    import numpy
    return ("float32", [len(values)], [1], numpy.array(values, numpy.float32).tobytes())


def f64(*values):
    import numpy
    return ("float64", [len(values)], [1], numpy.array(values, numpy.float64).tobytes())


class Comparing(unittest.TestCase):
    def compared(self, got, eager, exact):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            raw_tensors.write(folder / "outputs", got)
            raw_tensors.write(folder / "expected", eager)
            if exact:
                raw_tensors.write(folder / "exact", exact)
            return compare(folder / "outputs", folder)

    def test_rounding_is_right(self):
        facts = self.compared([f32(1.0000002, 2)], [f32(1, 2)], [f64(1.00000005, 2)])
        self.assertTrue(facts["right"])
        self.assertAlmostEqual(facts["difference"], 2e-7, delta=1e-7)

    def test_more_than_rounding_is_not(self):
        facts = self.compared([f32(1.01, 2)], [f32(1, 2)], [f64(1, 2)])
        self.assertFalse(facts["right"])
        self.assertIn("NOT equal", facts["verdict"])

    def test_sizes_counts_and_nan(self):
        for got in ([f32(1, 2, 3)], [f32(1, 2), f32(1)], [f32(1, float("nan"))]):
            facts = self.compared(got, [f32(1, 2)], None)
            self.assertFalse(facts["right"], got)
            self.assertTrue(facts["verdict"].startswith("WRONG"))

    def test_strided_and_bf16(self):
        transposed = ("float32", [2, 2], [1, 2], f32(1, 2, 3, 4)[3])
        with tempfile.TemporaryDirectory() as name:
            raw_tensors.write(name, [transposed, ("bfloat16", [1], [1], b"\x80\x3f")])
            strided, narrow = raw_tensors.read_numpy(name)
        self.assertEqual(strided.tolist(), [[1, 3], [2, 4]])
        self.assertEqual(narrow.tolist(), [1.0])


PEAK = {"f32": 100.0, "bf16": 0.0, "reading": [[1 << 20, 50.0], [1 << 30, 10.0]]}


class Limits(unittest.TestCase):
    def test_the_slower_of_arithmetic_and_memory(self):
        self.assertEqual(machine.least_seconds(PEAK, "f32", 1e11, 1), (1.0, "arithmetic"))
        self.assertEqual(machine.least_seconds(PEAK, "f32", 1, 1e9), (0.1, "memory"))
        self.assertEqual(machine.least_seconds(PEAK, "bf16", 1e11, 1)[0], 1.0)  # no instructions: as f32

    def test_a_cache_is_not_slower_than_what_is_behind_it(self):
        busy = {"reading": [[1, 5.0], [2, 9.0], [3, 7.0]]}
        self.assertEqual(machine.nearer_is_faster(busy)["reading"], [[1, 9.0], [2, 9.0], [3, 7.0]])

    def test_a_limit_is_what_was_ever_reached(self):
        lower = {"f32": 90.0, "bf16": 1.0, "reading": [[1 << 20, 60.0], [1 << 30, 5.0]]}
        self.assertEqual(machine.better(PEAK, lower), {"f32": 100.0, "bf16": 1.0, "reading": [[1 << 20, 60.0], [1 << 30, 10.0]]})


def measured(median, run="a", right=True):
    return {"status": "ok", "median": median, "spread": 0.01, "run": run, "load": 0.1, "first": 0.2, "compile": 1.0, "size": 1000, "resident": 3e6,
            "resident_before": 1e6, "difference": 1e-6, "error": 2e-6, "eager_error": 1e-6, "ratio": 0.5, "right": right, "version": "1"}


class Chosen(unittest.TestCase):
    KNOWN = ("resnet18", "resnet50", "bert")

    def test_what_fits(self):
        self.assertEqual(chosen.by_name(["bert", "resnet18"], self.KNOWN, "model"), ["bert", "resnet18"])
        self.assertEqual(chosen.by_part(["net"], self.KNOWN, "model"), ["resnet18", "resnet50"])
        self.assertEqual(chosen.by_pattern(["*50", "b*"], self.KNOWN, "model"), ["resnet50", "bert"])
        for choose in (chosen.by_name, chosen.by_part, chosen.by_pattern):
            self.assertEqual(choose([], self.KNOWN, "model"), list(self.KNOWN))

    def test_what_is_none_ends_the_command(self):
        for choose in (chosen.by_name, chosen.by_part, chosen.by_pattern):
            with self.assertRaises(SystemExit) as end:
                choose(["bert", "vgg"], self.KNOWN, "model")
            self.assertEqual(str(end.exception), "there is no model 'vgg'; there are: resnet18, resnet50, bert")


class ModelKernels(unittest.TestCase):
    PEAK = {"f32": 200.0, "bf16": 0, "reading": [[1 << 20, 50.0], [1 << 30, 10.0]]}

    def line(self, name, flops, size, seconds):
        facts = {"calls": 2, "seconds": 2 * seconds, "least": seconds}
        return model_kernels.Line("m", (name, flops, size), facts, None, [self.PEAK], 1 << 29)

    def test_kinds(self):
        for name, flops, size, kind in (("cpp_mm_linear_3", 151e6, 3e6, "product"),
                                        ("cpp_fused_linear_87", 77e6, 154e6, "one row"),
                                        ("cpp_fused_matmul_mul_where_amax_and6_3", 51e6, 1e6, "attention"),
                                        ("cpp_fused_convolution_sub_mul_add_silu_8", 30e6, 5e6, "points"),
                                        ("cpp_fused_add_var_mean_8", 1e6, 1e6, "other")):
            self.assertEqual(model_kernels.kind_of(name, flops, size), kind, name)

    def test_shares_and_what_is_lost(self):
        product = self.line("cpp_mm_linear_3", 100e9, 1e6, 1.0)  # half of the peak
        self.assertAlmostEqual(product.shares[0], 0.5)
        self.assertEqual(product.below(), [1])
        self.assertAlmostEqual(product.lost(), 2 * (1 - 0.5 / 0.85))
        row = self.line("cpp_fused_linear_87", 9e9, 9e9, 1.0)  # reads at nine tenths of what the memory of all of them can
        self.assertEqual((row.kind, row.below(), row.lost()), ("one row", [], 0.0))

    def test_the_least_of_several_profiles_counts(self):
        key = ("f", 1, 2)
        both = model_kernels.merged({key: {"calls": 1, "seconds": 3.0, "least": 3.0}}, {key: {"calls": 1, "seconds": 2.0, "least": 2.0}})
        self.assertEqual(both[key], {"calls": 1, "seconds": 2.0, "least": 2.0})


class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        results = self.results = Results(self.path / "results.json")
        results.machine = {"cpu": "C", "processors": 2, "flags": [], "caches": {}, "memory_gb": 1, "virtual": False, "system": "L"}
        results.peaks, results.versions = {"C 2": PEAK}, {"kiln": "1", "eager": "2"}
        results.exports = {"mlp/b1-f32": {"flops": 1e9, "bytes": 1e6, "parameters": 10, "weights": "random"}}
        results.put("mlp", "b1-f32-t2", "kiln", measured(0.02))
        results.put("mlp", "b1-f32-t2", "eager", measured(0.03))
        results.put("mlp", "b1-f32-t2", "onnxruntime", measured(0.04, run="b"))
        results.put("mlp", "b1-f32-t2", "openvino", measured(0.01, right=False))
        results.put("mlp", "b1-f32-t2", "executorch", {"status": "fails", "why": "cannot <do> it", "run": "a", "version": ""})

    def tearDown(self):
        self.folder.cleanup()

    def test_kept_results_are_read_again(self):
        self.assertEqual(Results(self.path / "results.json").measured, self.results.measured)

    def test_ratios_marks_and_failures(self):
        rows, failures = tables.model_rows(self.results, "mlp", "b1-f32-t2", ["kiln", "eager", "onnxruntime", "openvino", "executorch"])
        self.assertEqual([row[3] for row in rows], ["1.00", "1.50", "2.00*", "0.50"])
        self.assertEqual(rows[0][4], "50 %")
        self.assertTrue(rows[3][6].endswith("!"))
        self.assertEqual(failures, [("ExecuTorch", "cannot <do> it")])

    def test_what_is_wrong_is_in_no_mean(self):
        _, rows = tables.summary(self.results, "b1-f32-t2", ["mlp"], ["kiln", "eager", "openvino", "onnxruntime"])
        self.assertEqual(rows[-1], ["geometric mean", "1.00 (1)", "1.50 (1)", "–", "2.00* (1)"])

    def test_page_and_plots(self):
        written = document.write(self.results, self.path / "docs", ["mlp"], ["kiln", "eager", "openvino", "executorch"])
        page = written[0].read_text()
        self.assertIn("cannot &lt;do&gt; it", page)
        self.assertEqual(len(written), 4)
        for picture in written[1:]:
            self.assertIn(f"images/{picture.name}", page)
            xml.etree.ElementTree.parse(picture)
        self.assertIsNone(bar_chart("empty", [], {}, ""))


class Texts(unittest.TestCase):
    def test_settings(self):
        self.assertEqual(Setting.parse("b8-bf16-t1"), Setting(8, "bf16", 1))
        self.assertEqual(Setting(8, "bf16", 1).name, "b8-bf16-t1")
        for text in ("b8", "8-f32-t1", "b1-f16-t1"):
            with self.assertRaises(ValueError):
                Setting.parse(text)

    def test_an_error_is_its_line_not_its_stack(self):
        self.assertEqual(last_error("Traceback\n  File x\nRuntimeError: no\n  more\n"), "RuntimeError: no")
        self.assertEqual(last_error("warning\nerror[K0160]: bad\n"), "error[K0160]: bad")

    def test_weights_are_told_apart_from_the_compilation(self):
        said = ("7 kernels (13 compiled), 440 kB in 1.57 s: schedule 58.48 ms, C++ 35.99 ms, weights packed 281.00 ms, package 1.22 s\n"
                "picture.kiln.pt2\n")
        self.assertAlmostEqual(weights_seconds(said), 1.501)
        self.assertEqual(tables.compile_text({"compile": 2.5, "weights": 1.5}), "2.50 s (1.50 s weights)")
        self.assertEqual(tables.compile_text({"compile": 2.5}), "2.50 s")

    def test_units(self):
        self.assertEqual(tables.spread_text({"spread": 0.012, "rounds": [1.0, 1.1]}), "±1.2 %")
        self.assertEqual(tables.spread_text({"spread": 0.0, "rounds": [1.0]}), "–")
        self.assertEqual([tables.seconds_text(value) for value in (2.5, 0.0123, 4e-6, None)], ["2.50 s", "12.3 ms", "4.00 µs", "–"])

    def test_structures_have_the_sizes_of_the_header(self):
        import ctypes
        self.assertEqual([ctypes.sizeof(s) for s in (kiln_abi.Tensor, kiln_abi.Value, kiln_abi.LoadOptions, kiln_abi.Spec)], [48, 24, 112, 64])


if __name__ == "__main__":
    unittest.main()
