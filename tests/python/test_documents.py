"""The scripts and shell lines of the documents that describe AOT Inductor's debugging, with torch._inductor,
torch._dynamo.config, torch._dynamo.repro.aoti and torch._export replaced by kiln, on the CPU.

The documents are looked for in $DEBUGGING_DOCUMENTS or ../shared/spec; each has a test here. Where they are not there, the
tests are skipped."""

import glob
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

import kiln
from kiln import config
from support import case, needs_numpy, needs_torch, root, torch

folder = os.environ.get("DEBUGGING_DOCUMENTS") or os.path.join(os.path.dirname(root), "shared", "spec")


def document(number):
    found = glob.glob(os.path.join(folder, f"{number:03}_*.txt"))
    if not found:
        raise unittest.SkipTest(f"the documents are not there ({folder})")
    with open(found[0], encoding="utf-8") as file:
        return file.read()


def blocks(number):
    """The fenced blocks. In a document that lost its line ends, statements are separated again."""
    return [text for _, text in re.findall(r"```(\w*)[ \n](.*?)```", document(number), re.DOTALL)]


def kilns(script):
    """A script for Kiln on the CPU."""
    for theirs in ("torch._dynamo.repro.aoti", "torch._dynamo.config", "torch._inductor", "torch._export"):
        script = re.sub(r"(?<![\w.])" + re.escape(theirs), "kiln", script)
    return "import kiln\n" + script.replace('"cuda"', '"cpu"')


def shell_lines(text):
    """Lines that start a Python script, continued lines joined."""
    joined = re.sub(r"\\\s*\n\s*", "", text)
    return [line.strip() for line in joined.splitlines() if re.search(r"\bpython \S+\.py", line) and not line.strip().startswith("#")]


# What the documents call script.py: compiles, loads, runs. Without torch, which takes seconds to import.
SCRIPT = """
import kiln, numpy
package = kiln.aoti_compile_and_package({model!r}, package_path="model.kiln.pt2")
model = kiln.aoti_load_package(package)
inputs = [numpy.ones([n if isinstance(n, int) else 8 for n in spec["shape"]], spec["dtype"]) for spec in model.inputs]
print("result", model.run_flat(inputs)[0].shape)
"""
kernel = "cpp_fused_relu_linear_sigmoid_1"


class Documents(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="kiln_documents_")
        self.directory = os.path.realpath(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)
        self.addCleanup(config.reset)
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": self.directory}

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return path

    def run_script(self, path, code=0):
        done = subprocess.run([sys.executable, path], cwd=self.directory, env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, f"{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def run_line(self, line, code=0):
        """A shell line of a document; the kernels it names are those of the model here."""
        line = re.sub(r'(FILTERED_KERNELS_TO_PRINT)="[^"]*"', rf'\1="{kernel}"', line)
        line = line.replace("/path/to/trace", os.path.join(self.directory, "trace"))
        line = re.sub(r"\bpython \S+\.py.*$", f"{sys.executable} script.py", line)
        done = subprocess.run(["bash", "-c", line], cwd=self.directory, env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, f"{line}\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def script(self, model=None):
        self.write("script.py", SCRIPT.format(model=model or case("mlp")))

    def judge(self, line, said):
        """What a line of the documents must show."""
        if "PRINTER=3" in line:
            self.assertIn("before_launch - cpp_mm_linear_0", said)
        if "PRINTER=2" in line:
            self.assertIn(kernel, said)
            if "FILTERED" in line:
                self.assertNotIn("before_launch - cpp_mm_linear_0", said)
        if "PRINTER=1" in line:
            saved = glob.glob(os.path.join(self.directory, "aoti_torch", f"before_launch_{kernel}_*_cpu.pt"))
            self.assertTrue(saved, said)
            if torch is not None:
                self.assertIsInstance(torch.load(saved[0], weights_only=True), torch.Tensor)
        if "output_code" in line:
            self.assertIn("kiln_kernel_context", said)
        if re.search(r"(?<!DUMP_)AOTI_RUNTIME_CHECK_INPUTS|NAN_ASSERTS|CUDA", line):
            self.assertIn("result (8, 1)", said)

    # ---- The documents
    @needs_torch
    def test_minifier(self):
        texts = blocks(0)
        # The example fails to compile and leaves a launcher.
        said = self.run_script(self.write("example.py", kilns(texts[0])), 1)
        self.assertIn("CompileError", said)
        self.assertIn("compile error!", said)
        launcher = re.search(r"Writing minified repro to:\n(\S+minifier_launcher.py)", said).group(1)
        self.assertTrue(launcher.startswith(os.path.join(self.directory, "torch_compile_debug")), launcher)
        program = os.path.join(os.path.dirname(launcher), "checkpoints", "exported_program.pt2")
        self.assertEqual(len(torch.export.load(program).graph.nodes), 7)
        # The launcher of the document, and the one that Kiln wrote.
        checkpoints = os.path.dirname(program)
        theirs = kilns(re.sub(r"'/data/\S+?/exported_program.pt2'", repr(program), texts[4]))
        theirs = re.sub(r"save_dir='[^']*'", f"save_dir={checkpoints!r}", theirs)
        for path in (self.write("launcher.py", theirs), launcher):
            said = self.run_script(path)
            self.assertRegex(said, r"Writing checkpoint with 3 nodes to \S+checkpoints/3.py")
            self.assertIn(f"Copying repro file for convenience to {self.directory}/repro.py", said)
            self.assertIn("Wrote minimal repro out to repro.py", said)
        with open(os.path.join(self.directory, "repro.py"), encoding="utf-8") as file:
            self.assertIn("torch.ops.aten.relu.default", file.read())
        self.assertIn("K0411", self.run_script(os.path.join(self.directory, "repro.py"), 1))
        repro = os.path.join(self.directory, "repro.pt2")
        theirs = kilns(re.sub(r"'/data/\S+?/exported_program.pt2'", repr(repro), texts[6]))
        theirs = re.sub(r"save_dir='[^']*'", f"save_dir={checkpoints!r}", theirs)
        said = self.run_script(self.write("their_repro.py", theirs), 1)
        self.assertIn("compile", said)

    @needs_numpy
    def test_debugging(self):
        self.script()
        for text in blocks(1):
            for line in shell_lines(text):
                if "minifier_launcher" in line or "repro.py" in line or "tlparse" in line or "DUMP_AOTI" in line:
                    continue
                self.judge(line, self.run_line(line))
        self.assertTrue(os.listdir(os.path.join(self.directory, "trace")))
        kiln.report(os.path.join(self.directory, "trace"), os.path.join(self.directory, "report.html"))
        # The minifier: the script fails, its launcher runs, its repro fails again.
        broken = 'config.cpp.inject_relu_bug_TESTING_ONLY = "runtime_error"\n'
        self.write("script.py", "from kiln import config\n" + broken + SCRIPT.format(model=case("mlp")))
        said = self.run_line("DUMP_AOTI_MINIFIER=1 python your_script.py", 1)
        launcher = re.search(r"Writing minified repro to:\n(\S+)", said).group(1)
        self.assertIn("Wrote minimal repro out to repro.py", self.run_script(launcher))
        self.assertIn("injected runtime error", self.run_script(os.path.join(self.directory, "repro.py"), 1))

    @needs_numpy
    def test_debugging_settings(self):
        texts = blocks(1)
        names = {"kiln": kiln}
        exec(kilns(texts[6]), names)
        self.assertIs(config.aot_inductor.dump_aoti_minifier, True)
        exec(kilns(texts[8]), names)
        self.assertEqual(config.debug_dir_root, "/path/to/debug/output")

    @needs_torch
    def test_devices_and_deprecated_names(self):
        """Its one script lost its line ends: the statements are the document's, in its order."""
        text = blocks(2)[0]
        statements = re.split(r"(?=\bmodel = |\binp = |\bcompiled_so = |\bloaded = |\bout = )", text)[1:]
        script = "\n".join(statement.split("#")[0].strip() for statement in statements)
        script = kilns(script.replace("MyModel()", "torch.nn.Linear(10, 4)").replace('"???"', '"cpu"'))
        names = {"torch": torch}
        with self.assertWarns(FutureWarning):
            exec(script, names)
        torch.testing.assert_close(names["out"], names["model"](names["inp"]).detach())
        self.script()
        for text in blocks(2)[1:7]:
            if "input_handles" not in text:
                line = re.sub(r"\s*(python \S+)?\s*$", " python script.py", text.strip())
                self.judge(line, self.run_line(line))

    @needs_numpy
    def test_value_printer(self):
        self.script()
        lines = shell_lines(document(3))
        self.assertEqual(len(lines), 3)
        for line in lines:
            self.judge(line, self.run_line(line))
        names = {os.path.basename(path) for path in glob.glob(os.path.join(self.directory, "aoti_torch", "*.pt"))}
        self.assertTrue(all(re.match(r"(before|after)_launch_\w+_\w+_cpu\.pt$", name) for name in names), names)

    def test_inductor_settings(self):
        for text in blocks(4):
            if not text.startswith("import torch._inductor.config as config"):
                continue
            config.reset()
            exec(kilns(re.sub(r"import triton\nprint\(.*\)", "", text)), {})
            for key, value in re.findall(r"^config\.([\w.]+) = (\S+)", text, re.MULTILINE):
                found = config
                for part in key.split("."):
                    found = getattr(found, part)
                self.assertEqual(found, eval(value), key)

    @needs_numpy
    def test_inductor_lines(self):
        self.script()
        assignments = [line.split("#")[0].strip() for line in blocks(4)[8].splitlines() if re.match(r"[A-Z_]+=", line)]
        self.assertGreaterEqual(len(assignments), 6)
        for assignment in assignments:
            said = self.run_line(assignment + " python script.py")
            self.assertIn("result (8, 1)", said)
            self.judge(assignment, said)
        found = {name for _, _, names in os.walk(os.path.join(self.directory, "torch_compile_debug")) for name in names}
        self.assertLessEqual({"fx_graph_readable.py", "fx_graph_runnable.py", "output_code.py"}, found)
        for line in shell_lines(blocks(4)[12]):
            self.judge(line, self.run_line(line))
        broken = 'config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"\n'
        self.write("script.py", "from kiln import config\n" + broken + SCRIPT.format(model=case("mlp")))
        for line in shell_lines(blocks(4)[9]):
            self.assertRegex(self.run_line(line, 1), r"Writing minified repro to:\n\S+minifier_launcher.py")

    @needs_torch
    def test_inductor_scripts(self):
        names = {}
        exec(blocks(4)[7], names)  # the document's own check_correctness, on a function
        torch._dynamo.reset()
        from kiln._dynamo import backend

        script = blocks(4)[7].replace("torch.compile(fn)", "torch.compile(fn, backend=backend)")
        names = {"backend": backend}
        exec(script, names)
        names["check_correctness"](lambda x: torch.relu(x) + 1, (torch.randn(8),))
        profiled = blocks(4)[10].replace("torch.compile(fn)", "torch.compile(fn, backend=backend)")
        profiled = profiled.replace("ProfilerActivity.CUDA", "ProfilerActivity.CPU").replace("cuda_time", "cpu_time")
        names = {"backend": backend, "fn": lambda x: torch.relu(x) * 3, "x": torch.randn(8)}
        exec(profiled, names)
        self.assertTrue(any(event.key.startswith("cpp_fused") for event in names["prof"].key_averages()))


if __name__ == "__main__":
    unittest.main()
