"""Kiln's C interface (include/kiln/kiln.h) by ctypes: load a package, run it on prepared tensors. No numpy, no PyTorch."""
import ctypes
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint64, c_void_p

from raw_tensors import dense_strides, storage_bytes

ALIGNMENT = 64
CODES = {"int8": (0, 8), "int32": (0, 32), "int64": (0, 64), "uint8": (1, 8), "float16": (2, 16), "float32": (2, 32),
         "float64": (2, 64), "bfloat16": (4, 16), "bool": (6, 8)}
NAMES = {code: name for name, code in CODES.items()}
TENSOR = 1


class DataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("dtype", DataType),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class ValueOf(ctypes.Union):
    _fields_ = [("tensor", POINTER(Tensor)), ("integer", c_int64), ("floating", c_double), ("boolean", c_int32), ("string", c_char_p)]


class Value(ctypes.Structure):
    _fields_ = [("kind", c_int32), ("reserved", c_int32), ("as_", ValueOf), ("owner", c_void_p)]


class LoadOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("settings", POINTER(c_char_p)), ("setting_count", c_size_t),
                ("ignore_environment", c_int32), ("device_index", c_int32), ("allocator", c_void_p), ("log", c_void_p),
                ("log_user", c_void_p), ("parallel_for", c_void_p), ("parallel_for_user", c_void_p),
                ("custom_op_libraries", POINTER(c_char_p)), ("custom_op_library_count", c_size_t),
                ("verify_weights", c_int32), ("reserved", c_int32), ("fault", c_void_p), ("fault_user", c_void_p)]


class Spec(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("kind", c_int32), ("mutated", c_int32), ("dtype", DataType),
                ("device", c_int32), ("rank", c_int32), ("sizes", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("size_texts", POINTER(c_char_p))]


class HeldTensor:
    """Memory, its description, and the kiln_value that points to them."""

    def __init__(self, spec, data=None):
        self.spec, self.bytes = spec, storage_bytes(spec)
        self.memory = ctypes.create_string_buffer(self.bytes + ALIGNMENT)
        address = ctypes.addressof(self.memory)
        self.address = address + -address % ALIGNMENT
        if data:
            ctypes.memmove(self.address, data, len(data))
        rank = len(spec["shape"])
        self.shape, self.strides = (c_int64 * rank)(*spec["shape"]), (c_int64 * rank)(*spec["strides"])
        code, bits = CODES[spec["dtype"]]
        self.tensor = Tensor(self.address, 1, 0, rank, DataType(code, bits, 1), self.shape, self.strides, 0)

    def fill(self, value):
        value.kind, value.as_.tensor, value.owner = TENSOR, ctypes.pointer(self.tensor), None

    def contents(self):
        return ctypes.string_at(self.address, self.bytes)


class Package:
    def __init__(self, library, path, settings):
        self.library = ctypes.CDLL(str(library))
        self.library.kiln_last_error.restype = c_char_p
        for name in ("kiln_input_count", "kiln_output_count"):
            getattr(self.library, name).restype = c_size_t
        listed = (c_char_p * len(settings))(*(text.encode() for text in settings))
        options = LoadOptions(struct_size=ctypes.sizeof(LoadOptions), settings=listed, setting_count=len(settings), device_index=-1)
        self.model, self.instance = c_void_p(), c_void_p()
        self.check(self.library.kiln_load(str(path).encode(), byref(options), byref(self.model)))
        self.check(self.library.kiln_instance_create(self.model, byref(self.instance)))

    def check(self, status):
        if status:
            raise RuntimeError(self.library.kiln_last_error().decode())

    def output_specs(self):
        specs = []
        for i in range(self.library.kiln_output_count(self.model)):
            spec = Spec(struct_size=ctypes.sizeof(Spec))
            self.check(self.library.kiln_output_spec(self.model, c_size_t(i), byref(spec)))
            if spec.kind != TENSOR:
                raise RuntimeError(f"output {i} is no tensor")
            shape, strides = spec.sizes[:spec.rank], spec.strides[:spec.rank]
            if min(shape, default=0) < 0:
                raise RuntimeError(f"output {i} has a dynamic size")
            if min(strides, default=0) < 0:
                strides = dense_strides(shape)
            specs.append({"dtype": NAMES[(spec.dtype.code, spec.dtype.bits)], "shape": list(shape), "strides": list(strides)})
        return specs

    def bind(self, inputs):
        """inputs: [(spec, bytes)]. Returns the call: nothing but kiln_run on memory that is there."""
        self.inputs = [HeldTensor(spec, data) for spec, data in inputs]
        self.outputs = [HeldTensor(spec) for spec in self.output_specs()]
        given, made = (Value * max(1, len(self.inputs)))(), (Value * max(1, len(self.outputs)))()
        for values, tensors in ((given, self.inputs), (made, self.outputs)):
            for value, tensor in zip(values, tensors):
                tensor.fill(value)
        run = self.library.kiln_run
        run.argtypes = [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t]
        arguments = (self.instance, ctypes.cast(given, c_void_p), len(self.inputs), ctypes.cast(made, c_void_p), len(self.outputs))
        self.kept = (given, made)

        def call():
            if run(*arguments):
                raise RuntimeError(self.library.kiln_last_error().decode())
        return call

    def results(self):
        return [(t.spec["dtype"], t.spec["shape"], t.spec["strides"], t.contents()) for t in self.outputs]
