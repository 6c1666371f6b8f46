"""The systems that are compared: which Python each needs, how it is found and installed, what it is given."""
import dataclasses

TORCH, PEERS, EXECUTORCH = "torch", "peers", "executorch"  # which interpreter (models.py --help)


@dataclasses.dataclass
class System:
    label: str
    about: str
    python: str
    packages: tuple  # of Python that must be installed; the first one's version is the system's
    install: str
    artifact: str  # what prepare.py makes of the exported program, beneath the system's folder; "": nothing
    onnx: bool = False
    dtypes: tuple = ("f32", "bf16")
    settings: dict = dataclasses.field(default_factory=dict)


TORCH_PACKAGES = ("torch",)
INSTALL_TORCH = "pip install torch torchvision transformers"
KILN_PACKAGES = ()  # its version is asked of the command itself
# Prints the version of the first package named, and fails where one is missing. Imports none: that takes seconds each.
PROBE = "import sys, importlib.metadata as m; print([m.version(name) for name in sys.argv[1:]][0])"

SYSTEMS = {
    "kiln": System("Kiln", "kiln compile, called through the C interface", TORCH, KILN_PACKAGES, "tools/build.sh release",
                   "model.kiln.pt2"),
    "kiln-freezing": System("Kiln, freezing", "the same with freezing=1", TORCH, KILN_PACKAGES, "tools/build.sh release",
                            "model.kiln.pt2", settings={"freezing": 1}),
    "kiln-medium": System("Kiln, medium", "with freezing=1 and float32_matmul_precision=medium: factors of products are rounded to bf16",
                          TORCH, KILN_PACKAGES, "tools/build.sh release", "model.kiln.pt2",
                          settings={"freezing": 1, "float32_matmul_precision": "medium"}),
    "inductor": System("AOT Inductor", "aoti_compile_and_package, default settings", TORCH, TORCH_PACKAGES, INSTALL_TORCH,
                       "model.aoti.pt2"),
    "inductor-freezing": System("AOT Inductor, freezing", "the same with freezing", TORCH, TORCH_PACKAGES, INSTALL_TORCH,
                                "model.aoti.pt2", settings={"freezing": True}),
    "inductor-autotune": System("AOT Inductor, max-autotune", "the same with freezing and max_autotune", TORCH, TORCH_PACKAGES,
                                INSTALL_TORCH, "model.aoti.pt2", settings={"freezing": True, "max_autotune": True}),
    "eager": System("PyTorch eager", "the module itself", TORCH, TORCH_PACKAGES, INSTALL_TORCH, ""),
    "onnxruntime": System("ONNX Runtime", "CPU provider, all optimisations, bound inputs and outputs", PEERS,
                          ("onnxruntime", "onnxscript", "torch"), "pip install onnxruntime onnxscript",
                          "", onnx=True),
    "openvino-f32": System("OpenVINO, f32", "latency hint, inference precision f32", PEERS,
                           ("openvino", "onnxscript", "torch"), "pip install openvino onnxscript",
                           "model.xml", onnx=True, dtypes=("f32",), settings={"INFERENCE_PRECISION_HINT": "f32"}),
    "openvino": System("OpenVINO", "latency hint, its own choice of precision (bf16 where the processor has it)", PEERS,
                       ("openvino", "onnxscript", "torch"), "pip install openvino onnxscript",
                       "model.xml", onnx=True),
    "executorch": System("ExecuTorch", "XNNPACK, portable kernels for the rest", EXECUTORCH,
                         ("executorch", "torch"),
                         "pip install torch executorch", "model.pte"),
}
REFERENCE = "kiln"


def artifact_size(folder, name):
    """Bytes of a file and of what belongs to it: weights beside it (model.bin, model.onnx.data)."""
    path = folder / name
    beside = [path.with_suffix(".bin"), path.with_name(path.name + ".data")]
    return sum(file.stat().st_size for file in [path, *beside] if file.exists())
