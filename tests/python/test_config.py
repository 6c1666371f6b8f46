"""kiln.config: attributes, patches, where values come from."""

import os
import unittest

import kiln
from kiln import config
from support import load, needs_numpy, needs_torch, numpy, package, python, root, scratch


class Config(unittest.TestCase):
    def tearDown(self):
        config.reset()

    def test_every_setting_of_the_table_is_there(self):
        with open(os.path.join(root, "docs", "settings.md"), encoding="utf-8") as file:
            keys = [line.split("`")[1] for line in file if line.startswith("| `")]
        self.assertGreater(len(keys), 40)
        for key in keys:
            value = config
            for part in key.split("."):
                value = getattr(value, part)
            self.assertEqual(value, config.shallow_copy_dict()[key], key)

    def test_values_are_pythons(self):
        self.assertIs(config.debug, False)
        self.assertIsNone(config.cpp.simdlen)
        self.assertEqual(config.cpp.threads, -1)
        self.assertIs(config.triton.unique_kernel_names, True)
        config.aot_inductor.dump_aoti_minifier = True
        self.assertIs(config.aot_inductor.dump_aoti_minifier, True)
        del config.aot_inductor.dump_aoti_minifier
        self.assertIs(config.aot_inductor.dump_aoti_minifier, False)

    def test_unknown_names(self):
        for assign in (lambda: setattr(config.cpp, "simdln", 1), lambda: setattr(config, "max_autotun", True)):
            with self.assertRaises(kiln.ArgumentError) as caught:
                assign()
            self.assertEqual(caught.exception.code, "K0140")
            self.assertIn("the nearest is", str(caught.exception))
        with self.assertRaises(AttributeError):
            config.nonsense
        with self.assertRaises(kiln.ArgumentError) as caught:
            config.cpp.simdlen = 7
        self.assertEqual(caught.exception.code, "K0142")
        with self.assertRaises(kiln.ArgumentError):
            config.patch({"cpp.simdln": 1})

    def test_keys_that_only_pytorch_uses(self):
        config.benchmark_kernel = True
        self.assertIs(config.benchmark_kernel, True)

    def test_patch(self):
        config.cpp.threads = 2
        with config.patch({"cpp.threads": 1, "debug": True}):
            self.assertEqual((config.cpp.threads, config.debug), (1, True))
            with config.patch("cpp.threads", 3):
                self.assertEqual(config.cpp.threads, 3)
            self.assertEqual(config.cpp.threads, 1)
        self.assertEqual((config.cpp.threads, config.debug), (2, False))

        @config.patch(debug=True)
        def inside():
            return config.debug

        self.assertTrue(inside())
        self.assertFalse(config.debug)
        with self.assertRaises(ZeroDivisionError), config.patch(debug=True):
            1 / 0
        self.assertFalse(config.debug)

    def test_environment(self):
        script = "from kiln import config; print(config.aot_inductor.debug_intermediate_value_printer, config.nan_asserts)"
        given = {"AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER": "3", "TORCHINDUCTOR_NAN_ASSERTS": "1"}
        self.assertEqual(python(script, environment=given).stdout.split(), ["3", "True"])

    def test_kinds_of_import(self):
        done = python(
            """
            import kiln.config
            import kiln.config as a
            from kiln import config as b
            import kiln
            assert a is b is kiln.config
            a.debug = True
            print(kiln.config.debug)
            kiln.debug_dir_root = "there"
            print(b.debug_dir_root)
            """
        )
        self.assertEqual(done.stdout.split(), ["True", "there"])

    @needs_torch
    def test_what_torch_says_counts(self):
        done = python(
            """
            import torch._inductor.config, torch._dynamo.config, kiln
            print(kiln.config.cpp.simdlen, kiln.config.debug_dir_root)
            torch._inductor.config.cpp.simdlen = 256
            torch._dynamo.config.debug_dir_root = "torchs"
            print(kiln.config.cpp.simdlen, kiln.config.debug_dir_root, sorted(kiln.config._for_compile()))
            kiln.config.cpp.simdlen = 1
            print(kiln.config.cpp.simdlen)
            """
        )
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "None torch_compile_debug")
        self.assertEqual(lines[1], "256 torchs ['cpp.simdlen', 'debug_dir_root']")
        self.assertEqual(lines[2], "1")

    @needs_numpy
    def test_it_acts(self):
        path = package("mlp")
        script = """
            import sys, numpy, kiln
            kiln.config.aot_inductor.debug_intermediate_value_printer = 3
            model = kiln.aoti_load_package(sys.argv[1])
            kiln.config.reset()
            model(numpy.zeros((8, 10), "f4"))
            kiln.aoti_load_package(sys.argv[1], settings={"aot_inductor.debug_intermediate_value_printer": 0})(numpy.zeros((8, 10), "f4"))
            kiln.config.max_autotune = True  # not for this phase: no error
            kiln.aoti_load_package(sys.argv[1])
            try:
                kiln.aoti_load_package(sys.argv[1], settings={"max_autotune": 1})
            except kiln.Error as error:
                print(error.code)
            """
        done = python(script, arguments=[path])
        self.assertEqual(done.stderr.count("before_launch - cpp_mm_linear_0"), 1, done.stderr)
        self.assertEqual(done.stdout.strip(), "K0141")

    def test_while_compiling(self):
        with config.patch({"debug": True, "debug_dir_root": os.path.join(scratch, "debug")}):
            kiln.aoti_compile_and_package(os.path.join(root, "tests/cases/add/model.pt2"), package_path=os.path.join(scratch, "a.pt2"))
        found = [name for _, _, names in os.walk(os.path.join(scratch, "debug")) for name in names]
        self.assertIn("output_code.py", found)
        self.assertIn("fx_graph_runnable.py", found)


if __name__ == "__main__":
    unittest.main()
