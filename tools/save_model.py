"""Saves an exported program as `.pt2` without any path of the machine that exported it.

Each node of a `.pt2` carries the Python stack that made it, with absolute file names. Files that are committed must not
say where they were made: user frames keep their file's base name, frames inside PyTorch either keep their path from
`site-packages` on (as in a real export, for tests of readers) or are left out.
"""
import re
import pathlib

import torch

_FRAME = re.compile(r'File "([^"]+)", line')


def _frames(stack_trace):
    """Splits a stack trace into frames: the `File …` line with the source lines that follow it."""
    frames = []
    for line in stack_trace.split("\n"):
        if _FRAME.search(line) or not frames:
            frames.append([line.strip()])
        else:
            frames[-1].append(line)
    return frames


def strip_paths(stack_trace, keep_library_frames=False):
    kept = []
    for frame in _frames(stack_trace):
        match = _FRAME.search(frame[0])
        if match:
            path = match.group(1)
            library = path.find("site-packages/")
            if library >= 0 and not keep_library_frames:
                continue
            short = path[library:] if library >= 0 else pathlib.PurePath(path).name
            short = re.sub(r"^<eval_with_key>\.\d+$", "<eval_with_key>", short)  # the number counts earlier exports
            frame[0] = frame[0].replace(path, short)
        kept.append("\n".join(frame))
    return "\n  ".join(kept)


def save_model(program, path, keep_library_frames=False, extra_files=None):
    """Like torch.export.save(program, path, extra_files=…), with the paths stripped."""
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if node.meta.get("stack_trace"):
                node.meta["stack_trace"] = strip_paths(node.meta["stack_trace"], keep_library_frames)
    torch.export.save(program, path, extra_files=extra_files)
    left = re.search(rb'"File \\"/[^"]*', pathlib.Path(path).read_bytes())
    if left:
        raise RuntimeError(f"{path} still names a local path: {left.group().decode()}")
