"""One class per system: loads what prepare.py made, and has a call that does nothing but run it on prepared inputs."""
import raw_tensors


class Runner:
    """call: what is timed. start() imports the system's libraries, load() loads the model, bind() prepares inputs."""

    def __init__(self, system, exported, folder, threads, options):
        self.system, self.exported, self.folder, self.threads, self.options = system, exported, folder, threads, options

    def inputs(self):
        return raw_tensors.read_torch(self.exported / "inputs")

    def save(self, to):
        raw_tensors.write_torch(to, self.flat_outputs())


class Kiln(Runner):
    def start(self):
        import kiln_abi
        self.abi = kiln_abi

    def load(self):
        settings = [f"cpp.threads={self.threads}"]
        self.package = self.abi.Package(self.options["library"], self.folder / self.system.artifact, settings)

    def bind(self):
        self.call = self.package.bind(raw_tensors.read_bytes(self.exported / "inputs"))

    def save(self, to):
        raw_tensors.write(to, self.package.results())


class TorchRunner(Runner):
    def start(self):
        import torch
        self.torch = torch
        torch.set_num_threads(self.threads)
        torch.set_grad_enabled(False)

    def flat_outputs(self):
        from torch.utils import _pytree as pytree
        return [leaf for leaf in pytree.tree_leaves(self.out) if isinstance(leaf, self.torch.Tensor)]


class Inductor(TorchRunner):
    def load(self):
        self.model = self.torch._inductor.aoti_load_package(str(self.folder / self.system.artifact))

    def bind(self):
        inputs, run = self.inputs(), self.model.loader.run

        def call():
            self.out = run(inputs)
        self.call = call


class Eager(TorchRunner):
    def start(self):
        super().start()
        import export
        self.export = export

    def load(self):
        name, batch, dtype = (self.options[key] for key in ("model", "batch", "dtype"))
        self.module, self.args = self.export.make(name, batch, dtype)
        self.module.load_state_dict(self.torch.load(self.exported / "state.pt", weights_only=True))

    def bind(self):
        # make() gives these arguments too; the written ones are what everybody gets
        args, module = self.inputs(), self.module

        def call():
            self.out = module(*args)
        self.call = call


class OnnxRuntime(Runner):
    def start(self):
        import onnxruntime
        self.ort = onnxruntime

    def load(self):
        options = self.ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        options.graph_optimization_level = self.ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 4
        self.session = self.ort.InferenceSession(str(self.exported / "model.onnx"), options, providers=["CPUExecutionProvider"])

    def bind(self):
        import numpy
        self.binding, self.held = self.session.io_binding(), []
        given = raw_tensors.read_bytes(self.exported / "inputs")
        names = [value.name for value in self.session.get_inputs()]
        if len(names) != len(given):
            raise RuntimeError(f"the ONNX model has {len(names)} inputs, the program {len(given)}")
        made = [(spec, None) for spec in raw_tensors.specs(self.exported / "expected")]
        outputs = [value.name for value in self.session.get_outputs()]
        for bind, names, tensors in ((self.binding.bind_input, names, given), (self.binding.bind_output, outputs, made)):
            for name, (spec, data) in zip(names, tensors, strict=True):
                buffer = numpy.zeros(max(1, raw_tensors.item_count(spec) * raw_tensors.ITEM_BYTES[spec["dtype"]]), numpy.uint8)
                if data:
                    buffer[:] = numpy.frombuffer(data, numpy.uint8)
                # 16 is ONNX's number for a type that numpy has not
                kind = 16 if spec["dtype"] == "bfloat16" else numpy.dtype(spec["dtype"]).type
                bind(name, "cpu", 0, kind, spec["shape"], buffer.ctypes.data)
                self.held.append((bind == self.binding.bind_output, spec, buffer))
        session, binding = self.session, self.binding
        self.call = lambda: session.run_with_iobinding(binding)

    def save(self, to):
        raw_tensors.write(to, [(spec["dtype"], spec["shape"], raw_tensors.dense_strides(spec["shape"]), buffer.tobytes())
                               for output, spec, buffer in self.held if output])


class OpenVino(Runner):
    def start(self):
        import openvino
        self.ov = openvino

    def load(self):
        core = self.ov.Core()
        config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": self.threads, **self.system.settings}
        self.model = core.compile_model(str(self.folder / self.system.artifact), "CPU", config)

    def bind(self):
        self.request = self.model.create_infer_request()
        given = raw_tensors.read_bytes(self.exported / "inputs")
        if len(self.model.inputs) != len(given):
            raise RuntimeError(f"the OpenVINO model has {len(self.model.inputs)} inputs, the program {len(given)}")
        for i, (port, (spec, data)) in enumerate(zip(self.model.inputs, given)):
            tensor = self.ov.Tensor(port.element_type, self.ov.Shape(spec["shape"]))
            if data:
                import numpy
                raw = numpy.frombuffer(data, numpy.uint8)
                tensor.data.reshape(-1).view(numpy.uint8)[:] = raw
            self.request.set_input_tensor(i, tensor)
        infer = self.request.infer
        self.call = lambda: infer(share_outputs=True)  # views of its outputs, not copies

    def save(self, to):
        results = []
        for i, spec in enumerate(raw_tensors.specs(self.exported / "expected")):
            tensor = self.request.get_output_tensor(i)
            dtype = {"bf16": "bfloat16", "f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32",
                     "boolean": "bool", "f64": "float64"}[tensor.element_type.get_type_name()]
            results.append((dtype, list(tensor.shape), raw_tensors.dense_strides(list(tensor.shape)), tensor.data.tobytes()))
        raw_tensors.write(to, results)


class ExecuTorch(TorchRunner):
    def start(self):
        super().start()
        from executorch.extension.pybindings.portable_lib import _unsafe_reset_threadpool
        from executorch.runtime import Runtime
        _unsafe_reset_threadpool(self.threads)  # the only way to say how many; before anything is loaded it is safe
        self.runtime = Runtime.get()

    def load(self):
        self.program = self.runtime.load_program(str(self.folder / self.system.artifact))
        self.method = self.program.load_method("forward")

    def bind(self):
        inputs, execute = self.inputs(), self.method.execute

        def call():
            self.out = execute(inputs)
        self.call = call


RUNNERS = {"kiln": Kiln, "inductor": Inductor, "eager": Eager, "onnxruntime": OnnxRuntime, "openvino": OpenVino,
           "executorch": ExecuTorch}
