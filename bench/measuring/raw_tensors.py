"""Tensors as plain files, which every process here can read without PyTorch: N.bin, and index.json with their types."""
import json
import math
import pathlib

ITEM_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "int32": 4, "bool": 1, "uint8": 1, "int8": 1}


def dense_strides(shape):
    strides, size = [], 1
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= extent
    return strides


def item_count(spec):
    return math.prod(spec["shape"])


def storage_bytes(spec):
    """Of a tensor that begins at 0 and has these strides."""
    if item_count(spec) == 0:
        return 0
    last = sum((extent - 1) * stride for extent, stride in zip(spec["shape"], spec["strides"]))
    return (last + 1) * ITEM_BYTES[spec["dtype"]]


def write(folder, tensors):
    """tensors: [(dtype, shape, strides, bytes)]"""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    index = []
    for i, (dtype, shape, strides, data) in enumerate(tensors):
        (folder / f"{i}.bin").write_bytes(data)
        index.append({"dtype": dtype, "shape": list(shape), "strides": list(strides)})
    (folder / "index.json").write_text(json.dumps(index))


def write_torch(folder, tensors):
    import torch
    listed = []
    for tensor in tensors:
        tensor = tensor.detach().contiguous()
        data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
        listed.append((str(tensor.dtype).removeprefix("torch."), tensor.shape, tensor.stride(), data))
    write(folder, listed)


def write_numpy(folder, arrays):
    """Arrays of ml_dtypes' bfloat16 are written as what they are."""
    import numpy
    write(folder, [(str(a.dtype), a.shape, dense_strides(a.shape), numpy.ascontiguousarray(a).tobytes()) for a in arrays])


def specs(folder):
    return json.loads((pathlib.Path(folder) / "index.json").read_text())


def read_bytes(folder):
    folder = pathlib.Path(folder)
    return [(spec, (folder / f"{i}.bin").read_bytes()) for i, spec in enumerate(specs(folder))]


def read_torch(folder):
    import torch
    result = []
    for spec, data in read_bytes(folder):
        dtype = getattr(torch, spec["dtype"])
        tensor = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
        result.append(tensor.as_strided(spec["shape"], spec["strides"]).clone())
    return result


def read_numpy(folder, exact=False):
    """As float64 what is a float, unless `exact`."""
    import numpy
    result = []
    for spec, data in read_bytes(folder):
        if spec["dtype"] == "bfloat16":
            flat = (numpy.frombuffer(data, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
        else:
            flat = numpy.frombuffer(data, numpy.dtype(spec["dtype"]))
        strides = [stride * flat.itemsize for stride in spec["strides"]]
        array = numpy.lib.stride_tricks.as_strided(flat, spec["shape"], strides)
        floating = array.dtype.kind == "f"
        result.append(array.astype(numpy.float64) if floating and not exact else array.copy())
    return result
