"""Whether what Kiln computes is what eager PyTorch computes."""

from __future__ import annotations

import copy
import os
import tempfile
from typing import Any, Mapping, NamedTuple, Optional

from . import errors
from ._package import aoti_compile_and_package, aoti_load_package

# rtol, atol of torch.testing.assert_close by dtype.
_tolerances = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex128": (1e-7, 1e-7),
}


class CorrectnessError(errors.Error, AssertionError):
    """The compiled program computes something else than eager."""


class OutputDifference(NamedTuple):
    name: str  # where in the results
    largest: float  # absolute difference
    allowed: float  # at that element
    ulp_like: float  # largest difference in units of the tolerance; above 1: too far
    rescued: bool  # further than the tolerance, but no further from the fp64 truth than eager is
    problem: str  # "" where it fits


class CorrectnessReport(NamedTuple):
    passed: bool
    outputs: list[OutputDifference]
    package: Optional[str]
    text: str

    def __bool__(self) -> bool:
        return self.passed


def export(module: Any, args: tuple[Any, ...], kwargs: Optional[Mapping[str, Any]], dynamic_shapes: Any) -> Any:
    """torch.export of a module, or of a function."""
    import torch

    if not isinstance(module, torch.nn.Module):
        function = module

        class Function(torch.nn.Module):
            def forward(self, *inputs: Any, **named: Any) -> Any:
                return function(*inputs, **named)

        module = Function()
        if dynamic_shapes is not None and not isinstance(dynamic_shapes, dict):
            dynamic_shapes = (tuple(dynamic_shapes),)
    with torch.no_grad():
        return torch.export.export(module, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)


def _cloned(value: Any) -> Any:
    """Every tensor of a structure anew, so that a call cannot change what another one sees."""
    import torch
    from torch.utils import _pytree

    return _pytree.tree_map(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v, value)


def _in_double(module: Any, args: Any, kwargs: Any) -> Optional[list[Any]]:
    """Eager in float64: the judge where two roundings differ. Nothing where the module cannot run in it."""
    import torch
    from torch.utils import _pytree

    def widened(v: Any) -> Any:
        if isinstance(v, torch.Tensor) and v.is_floating_point():
            return v.double()
        return v.to(torch.complex128) if isinstance(v, torch.Tensor) and v.is_complex() else v

    try:
        exact = copy.deepcopy(module).double() if isinstance(module, torch.nn.Module) else module
        with torch.no_grad():
            out = exact(*_pytree.tree_map(widened, args), **_pytree.tree_map(widened, kwargs))
        return list(_pytree.tree_leaves(out))
    except Exception:  # whatever a module does with another dtype
        return None


def _least_exact(program: Any) -> float:
    """The largest epsilon of the float types that an exported program has values of: float32 logits of a bfloat16 model
    are as exact as bfloat16. 8-bit floats are what is stored, not what is computed in."""
    import torch
    from torch.utils import _pytree

    largest = 0.0
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            for value in _pytree.tree_leaves(node.meta.get("val")):
                dtype = getattr(value, "dtype", None)
                if isinstance(dtype, torch.dtype) and (dtype.is_floating_point or dtype.is_complex) and dtype.itemsize > 1:
                    largest = max(largest, torch.finfo(dtype).eps)
    return largest


def compare_tensors(
    name: str,
    got: Any,
    expected: Any,
    exact: Any,
    rtol: Optional[float],
    atol: Optional[float],
    epsilon: float = 0.0,
) -> OutputDifference:
    """As `kiln check` compares: the tolerance of the dtype; a value further away passes only if the fp64 truth lies
    within ten tolerances of eager's value, and the result is at most twice as far from it as eager's is; or if no value
    of the tensor is further from the truth than four times what eager's furthest is. `epsilon`: of what the values were
    computed in, where that is less exact than what they are stored in."""
    import torch

    def wrong(problem: str) -> OutputDifference:
        return OutputDifference(name, float("inf"), 0.0, float("inf"), False, problem)

    if not isinstance(expected, torch.Tensor):
        same = got == expected or (got != got and expected != expected)
        return OutputDifference(name, 0.0, 0.0, 0.0, False, "") if same else wrong(f"{got!r} instead of {expected!r}")
    if not isinstance(got, torch.Tensor):
        return wrong(f"a {type(got).__name__} instead of a tensor")
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return wrong(f"{got.dtype} {list(got.shape)} instead of {expected.dtype} {list(expected.shape)}")
    if expected.numel() == 0:
        return OutputDifference(name, 0.0, 0.0, 0.0, False, "")
    kind = str(expected.dtype).replace("torch.", "")
    if kind not in _tolerances:
        if torch.equal(got, expected):
            return OutputDifference(name, 0.0, 0.0, 0.0, False, "")
        count = int((got != expected).sum())
        return wrong(f"{count} of {expected.numel()} values differ")
    relative, absolute = _tolerances[kind]
    relative, absolute = relative if rtol is None else rtol, absolute if atol is None else atol
    wide = torch.complex128 if expected.is_complex() else torch.float64
    g, e = got.detach().to(wide), expected.detach().to(wide)
    both_nan = torch.isnan(g) & torch.isnan(e)
    equal = both_nan | (g == e)
    difference = torch.where(equal, torch.zeros_like(g, dtype=torch.float64), (g - e).abs())
    difference = torch.nan_to_num(difference, nan=float("inf"))
    allowed = absolute + relative * torch.nan_to_num(e.abs(), nan=0.0, posinf=0.0)
    far = difference > allowed
    worst = int((difference / allowed.clamp_min(1e-300)).argmax())
    largest, limit = float(difference.flatten()[worst]), float(allowed.flatten()[worst])
    rescued = False
    if bool(far.any()):
        if isinstance(exact, torch.Tensor) and exact.shape == e.shape:
            truth = exact.detach().to(wide)
            near = (truth - e).abs() <= 10 * allowed
            as_good = (g - truth).abs() <= 2 * (e - truth).abs()
            rescued = bool((~far | (near & as_good)).all())
            # Of a deep model every value is off by what rounding did on the way; a single one may be near the truth by luck.
            # An eager that is far off itself has not rounded but computed something else, and proves nothing.
            # Nor do values of another size (a mask's -3e38) say what rounding did to the rest.
            size = truth.abs()
            some = size[torch.isfinite(size) & (size > 0)]
            usual = size <= 1e6 * some.kthvalue(some.numel() // 50 + 1).values if some.numel() else size == 0
            lost = float((e - truth)[usual].abs().max()) if bool(usual.any()) else 0.0
            largest_usual = float(size[usual].max()) if bool(usual.any()) else 0.0
            explained = lost <= min(1e4 * max(torch.finfo(expected.dtype).eps, epsilon), 0.1) * largest_usual
            own = (g - truth).abs() <= torch.where(usual, torch.full_like(allowed, 4 * lost), 4 * (e - truth).abs() + allowed)
            rescued = rescued or (explained and bool((equal | own).all()))
        if not rescued:
            place = list(torch.unravel_index(torch.tensor(worst), expected.shape)) if expected.dim() else []
            at = [int(i) for i in place]
            return OutputDifference(
                name,
                largest,
                limit,
                largest / max(limit, 1e-300),
                False,
                f"{int(far.sum())} of {expected.numel()} values differ, worst at {at}: got {got.flatten()[worst].item()!r}, "
                f"eager has {expected.flatten()[worst].item()!r}, allowed {limit:.3g}",
            )
    return OutputDifference(name, largest, limit, largest / max(limit, 1e-300), rescued, "")


def _draws_numbers(module: Any, args: Any, kwargs: Any, expected: list[Any]) -> bool:
    """Whether another call of eager gives other results: dropout, noise."""
    import torch
    from torch.utils import _pytree

    again = copy.deepcopy(module) if isinstance(module, torch.nn.Module) else module
    with torch.no_grad():
        leaves = _pytree.tree_leaves(again(*args, **kwargs))
    both = [(a, e) for a, e in zip(leaves, expected) if isinstance(a, torch.Tensor) and isinstance(e, torch.Tensor)]
    return any(a.shape != e.shape or not torch.allclose(a, e, rtol=0, atol=0, equal_nan=True) for a, e in both)


def _explained_by_rounding(
    program: Any, given: Any, expected: list[Any], after: Any, options: list[str], directory: str
) -> bool:
    """Whether `kiln check` lets the same call pass: beside samples of what rounding does to the fp64 reference. A program
    that magnifies rounding (vectors of a singular matrix), or decides by it (a sort of nearly equal numbers), computes
    something else than eager with the same right."""
    import torch
    from torch.utils import _pytree

    from . import _command

    case = os.path.join(directory, "case")
    os.mkdir(case)
    try:
        torch.export.save(program, os.path.join(case, "model.pt2"))
        for name, leaves in (("inputs", _pytree.tree_leaves(given)), ("expected", expected), ("mutated", _pytree.tree_leaves(after))):
            torch.save([leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], os.path.join(case, f"{name}_0.pt"))
    except Exception:  # what cannot be saved cannot be compared so
        return False
    return _command.run(["check", case, "--jobs", "1", *options], show=False).code == 0


def check_correctness(
    module: Any,
    args: tuple[Any, ...],
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    dynamic_shapes: Any = None,
    rtol: Optional[float] = None,
    atol: Optional[float] = None,
    inductor_configs: Optional[Mapping[str, Any]] = None,
    raise_on_difference: bool = True,
    quiet: bool = False,
) -> CorrectnessReport:
    """Exports a module (or function), compiles it, runs it, and compares results and changed inputs with eager's. Prints
    "Results match!", or where a difference starts: the first kernel, and the operator in it, that differs from the
    reference; then raises CorrectnessError. Of a module that draws random numbers only kinds and sizes of results are
    compared, and that is said."""
    import torch
    from torch.utils import _pytree

    args, kwargs = tuple(args), dict(kwargs or {})
    program = export(module, args, kwargs, dynamic_shapes)
    with tempfile.TemporaryDirectory(prefix="kiln_check_") as directory:
        package = aoti_compile_and_package(
            program, package_path=os.path.join(directory, "model.kiln.pt2"), inductor_configs=inductor_configs
        )
        compiled = aoti_load_package(package)
        eager_args, eager_kwargs = _cloned((args, kwargs))
        kiln_args, kiln_kwargs = _cloned((args, kwargs))
        state = copy.deepcopy(module) if isinstance(module, torch.nn.Module) else module
        with torch.no_grad():
            expected = state(*eager_args, **eager_kwargs)
            got = compiled(*kiln_args, **kiln_kwargs)
        exact = _in_double(module, *_cloned((args, kwargs)))
        expected_leaves, expected_spec = _pytree.tree_flatten(expected)
        got_leaves, got_spec = _pytree.tree_flatten(got)
        outputs: list[OutputDifference] = []
        epsilon = _least_exact(program)
        random = _draws_numbers(module, *_cloned((args, kwargs)), expected_leaves)
        if len(expected_leaves) != len(got_leaves):
            problem = f"{len(got_leaves)} results instead of {len(expected_leaves)}"
            outputs.append(OutputDifference("results", float("inf"), 0, float("inf"), False, problem))
        else:
            for i, (g, e) in enumerate(zip(got_leaves, expected_leaves)):
                if random and isinstance(e, torch.Tensor) and isinstance(g, torch.Tensor):
                    e = g.clone() if (g.dtype, g.shape) == (e.dtype, e.shape) else e
                truth = exact[i] if exact is not None and len(exact) == len(expected_leaves) else None
                outputs.append(compare_tensors(f"output {i}", g, e, truth, rtol, atol, epsilon))
        changed = zip(_pytree.tree_leaves((kiln_args, kiln_kwargs)), _pytree.tree_leaves((eager_args, eager_kwargs)))
        for i, (g, e) in enumerate(changed):
            if isinstance(e, torch.Tensor):
                after = compare_tensors(f"input {i} after the call", g, e, None, rtol, atol)
                if after.problem:
                    outputs.append(after)
        lines = [f"{output.name}: {output.problem}" for output in outputs if output.problem]
        passed = not lines
        if not passed and not random and len(expected_leaves) == len(got_leaves):
            from . import _tools

            options = _tools._settings(inductor_configs) + _tools._tolerances(rtol, atol)
            eager = (eager_args, eager_kwargs)
            passed = _explained_by_rounding(program, (args, kwargs), expected_leaves, eager, options, directory)
        if passed:
            rescued = sum(output.rescued or bool(output.problem) for output in outputs)
            outputs = [output._replace(rescued=True, problem="") if output.problem else output for output in outputs]
            text = "Results match!" + (f" ({rescued} judged by fp64)" if rescued else "")
            if random:
                text = "Kinds and sizes match; values were not compared: eager draws random numbers (dropout in training mode?)"
        else:
            from . import _tools

            try:
                found = _tools.bisect(compiled, (*args,) if not kwargs else None)
                lines.append("where it starts:" if found else "the package computes what its reference computes:")
                lines.append(found.text.strip())
            except errors.Error as problem:
                lines.append(f"where it starts could not be found: {problem}")
            text = "\n".join(lines)
    report = CorrectnessReport(passed, outputs, None, text)
    if not quiet:
        print(text)
    if not passed and raise_on_difference:
        error = CorrectnessError(text)
        error.code = "K0714"
        raise error
    return report
