"""Writes a case directory: the exported program, calls with what PyTorch gives, and inputs that must be refused.

tests/README.md describes the files. A case has a module, calls (the first is the export's, unless there is an example), about, dynamic, bad, sequence,
needs, tolerance, decompose, keep_library_frames and gradients: Case of generate_cases.py."""
import copy
import json
import pathlib
import shutil
import sys
import zlib

import torch
from torch.utils import _pytree as pytree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from save_model import save_model  # noqa: E402


def snapshot(values):
    """Copies with their own strides, offsets and shared storages."""
    return copy.deepcopy([v.detach() if isinstance(v, torch.Tensor) else v for v in values])


def call_fresh(module, inputs):
    """Outputs, inputs afterwards and buffers afterwards, of one call on a copy of the module."""
    fresh, given = copy.deepcopy(module), snapshot(inputs)
    outputs = pytree.tree_leaves(fresh(*given))
    return snapshot(outputs), given, dict(fresh.named_buffers())


def same(a, b):
    if a.dtype.is_floating_point and a.dtype.itemsize == 1:  # of which PyTorch knows little else
        a, b = a.float(), b.float()
    return torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


def write_calls(folder, made):
    stateful = False
    for i, inputs in enumerate(made.calls):
        outputs, after, state = call_fresh(made.module, inputs)
        torch.save(snapshot(inputs), folder / f"inputs_{i}.pt")
        torch.save(outputs, folder / f"expected_{i}.pt")
        if any(isinstance(a, torch.Tensor) and not same(a, b) for a, b in zip(inputs, after)):
            torch.save(after, folder / f"mutated_{i}.pt")
        before = dict(made.module.named_buffers())
        if any(not same(before[name], state[name]) for name in state):
            torch.save(state, folder / f"state_{i}.pt")
            stateful = True
    if stateful != made.sequence:
        raise RuntimeError(f"{folder.name}: buffers change, but no sequence was asked for, or the other way round")
    if made.sequence:
        fresh = copy.deepcopy(made.module)
        order = [*made.calls, made.calls[0]]
        rows = [snapshot(pytree.tree_leaves(fresh(*snapshot(inputs)))) for inputs in order]
        torch.save(rows, folder / "expected_sequence.pt")
    for j, inputs in enumerate(made.bad):
        torch.save(list(inputs), folder / f"bad_inputs_{j}.pt")


def write_case(folder, make):
    """Makes one case directory anew; its values depend on its name alone."""
    torch.manual_seed(zlib.crc32(folder.name.encode()))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with torch.no_grad():
        made = make()
        made.module.eval()
        with torch.set_grad_enabled(made.gradients):
            program = torch.export.export(made.module, tuple(snapshot(made.example or made.calls[0])), dynamic_shapes=made.dynamic)
        if made.decompose:
            program = program.run_decompositions()
        save_model(program, folder / "model.pt2", made.keep_library_frames)
        write_calls(folder, made)
    about = {"about": made.about}
    if made.needs:
        about["needs"] = made.needs
    if made.tolerance:
        about["tolerance"] = made.tolerance
    (folder / "case.json").write_text(json.dumps(about) + "\n")
    targets = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    print(f"{folder.name}: {len(made.calls)} calls, {len(made.bad)} refused; {', '.join(dict.fromkeys(targets))}")
