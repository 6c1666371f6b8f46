"""Writes the MLP as an ONNX file: a handful of protobuf messages, made here so that no ONNX package is needed."""


def _varint(value):
    out = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def _field(number, value):
    """One protobuf field: an int, or bytes or text with their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _message(*fields):
    return b"".join(_field(number, value) for number, value in fields)


FLOAT = 1  # TensorProto.FLOAT
INT_ATTRIBUTE = 2  # AttributeProto.INT


def _tensor(name, array):
    return _message(*((1, size) for size in array.shape), (2, FLOAT), (8, name), (9, array.tobytes()))


def _value(name, sizes):
    """ValueInfoProto of a float tensor; a size given as text is dynamic."""
    dims = [(1, _message((2 if isinstance(size, str) else 1, size))) for size in sizes]
    return _message((1, name), (2, _message((1, _message((1, FLOAT), (2, _message(*dims)))))))


def _node(kind, inputs, output, **ints):
    attributes = [(5, _message((1, key), (3, value), (20, INT_ATTRIBUTE))) for key, value in ints.items()]
    return _message(*((1, name) for name in inputs), (2, output), (4, kind), *attributes)


def write_mlp(path, state):
    """`state` is the model's state_dict with fc1 and fc2, as numpy arrays."""
    nodes = [
        _node("Gemm", ["x", "fc1.weight", "fc1.bias"], "a", transB=1),
        _node("Relu", ["a"], "b"),
        _node("Gemm", ["b", "fc2.weight", "fc2.bias"], "c", transB=1),
        _node("Sigmoid", ["c"], "y"),
    ]
    graph = _message(
        *((1, node) for node in nodes), (2, "mlp"), *((5, _tensor(name, array)) for name, array in state.items()),
        (11, _value("x", ["batch", state["fc1.weight"].shape[1]])), (12, _value("y", ["batch", 1])))
    with open(path, "wb") as out:
        out.write(_message((1, 8), (7, graph), (8, _message((1, ""), (2, 13)))))
