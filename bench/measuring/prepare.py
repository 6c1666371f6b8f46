"""Makes what one system runs from the exported program, and times it.

    python prepare.py SYSTEM EXPORT_FOLDER SYSTEM_FOLDER THREADS        (a process of its own; started by harness.py)

The last line of its standard output is JSON: the seconds of the compilation itself, imports and reading not counted.
Kiln is not made here: its compile is a whole process of `kiln compile`, started by harness.py.
"""
import json
import pathlib
import sys
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from processors import use_processors  # noqa: E402
from systems import SYSTEMS  # noqa: E402


def inductor(system, exported, artifact, threads):
    import torch
    torch.set_num_threads(threads)
    program = torch.export.load(exported / "model.pt2")
    started = time.perf_counter()
    with torch.no_grad():
        torch._inductor.aoti_compile_and_package(program, package_path=str(artifact), inductor_configs=dict(system.settings))
    return time.perf_counter() - started


def openvino(system, exported, artifact, threads):
    import openvino as ov
    started = time.perf_counter()
    ov.save_model(ov.convert_model(str(exported / "model.onnx")), str(artifact), compress_to_fp16=False)
    return time.perf_counter() - started


def executorch(system, exported, artifact, threads):
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    torch.set_num_threads(threads)
    program = torch.export.load(exported / "model.pt2")
    started = time.perf_counter()
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    with open(artifact, "wb") as file:
        lowered.write_to_file(file)
    return time.perf_counter() - started


MAKERS = {"inductor": inductor, "openvino": openvino, "executorch": executorch}


def main():
    name, exported, folder, threads = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), int(sys.argv[4])
    warnings.simplefilter("ignore")
    use_processors(threads)
    system = SYSTEMS[name]
    seconds = MAKERS[name.split("-")[0]](system, exported, folder / system.artifact, threads)
    print(json.dumps({"compile": seconds}), flush=True)


if __name__ == "__main__":
    main()
