"""Compiling programs into packages and loading them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from . import _kiln, _python_ops, _trees, config, errors

TYPE_CHECKING = False  # typing itself is not imported: importing kiln stays quick
if TYPE_CHECKING:
    import tempfile
    from typing import Any, Optional, Union

    PathLike = Union[str, "os.PathLike[str]"]
    Targets = Union[str, Sequence[str], None]  # "x86-64-v3,x86-64-v4", or a list of them


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, bytes, os.PathLike))


class ExportedFile:
    """An exported program as a file: the path it was given as, or a temporary one it is saved to."""

    def __init__(self, program: Any) -> None:
        self._directory: Optional[tempfile.TemporaryDirectory[str]] = None
        if _is_path(program):
            self.path = os.fsdecode(program)
            return
        if not (hasattr(program, "graph_signature") and hasattr(program, "module_call_graph")):
            error = errors.ArgumentError(
                f"expected a torch.export.ExportedProgram or the path of a .pt2, but got a {type(program).__name__}"
                + ("; export it first: torch.export.export(module, args)" if hasattr(program, "forward") else "")
            )
            error.code = "K0711"
            raise error
        import tempfile
        import warnings

        import torch

        from . import _unsaved

        _unsaved.check_values(program)
        self._directory = tempfile.TemporaryDirectory(prefix="kiln_export_")
        self.path = os.path.join(self._directory.name, "model.pt2")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.export.save(program, self.path)
        except BaseException as problem:
            self._directory.cleanup()
            # The second is said of classes that are registered without a name for files.
            if type(problem).__name__ not in ("SerializeError", "NotImplementedError"):
                raise
            raise _unsaved.cannot_be_saved(program, problem) from problem

    def __enter__(self) -> "ExportedFile":
        return self

    def __exit__(self, *_: Any) -> None:
        if self._directory is not None:
            self._directory.cleanup()


def compile_package(
    program: Any,
    package_path: str,
    settings: Mapping[str, Any],
    *,
    custom_op_libraries: Sequence[PathLike] = (),
    target: Targets = None,
    options: Sequence[str] = (),
) -> str:
    """Compiles a program (an ExportedProgram or a path). The settings win over those of ``kiln.config``."""
    from . import _command

    given = {**_of_torch(), **config._for_compile(), **{key: config._text(value) for key, value in settings.items()}}
    with ExportedFile(program) as file:
        arguments = ["compile", file.path, "--output", package_path, *options]
        for library in custom_op_libraries:
            arguments += ["--custom-op-lib", os.fspath(library)]
        if target is not None:
            arguments += ["--target", target if isinstance(target, str) else ",".join(target)]
        _command.checked(arguments + _command.settings_arguments(given), kind=errors.CompileError)
    return package_path


def _of_torch() -> dict[str, str]:
    """What the process has told PyTorch of its products (torch.set_float32_matmul_precision)."""
    torch = sys.modules.get("torch")
    asked = torch.get_float32_matmul_precision() if torch and hasattr(torch, "get_float32_matmul_precision") else "highest"
    return {} if asked == "highest" else {"float32_matmul_precision": asked}


def aoti_compile_and_package(
    exported_program: Any,
    *,
    package_path: Optional[PathLike] = None,
    inductor_configs: Optional[Mapping[str, Any]] = None,
    custom_op_libraries: Sequence[PathLike] = (),
    target: Targets = None,
    bundle: Optional[PathLike] = None,
) -> str:
    """Compiles an exported program, or the ``.pt2`` of that path, into a package and gives the package's path.

    ``package_path`` is where it goes: by default beside the ``.pt2``, or a new temporary file for a program in memory.
    ``inductor_configs`` are settings by their names, as in PyTorch's Inductor; ``kiln.config`` holds those of the
    process. ``target`` names processors to compile for ("x86-64-v3,x86-64-v4", or a list of them; by default this
    machine's). ``bundle`` is a case directory (inputs_0.pt, expected_0.pt, …) that goes into the package: see ``self_test``."""
    import tempfile

    if package_path is None:
        if _is_path(exported_program):
            path = os.fsdecode(exported_program)
            package_path = (path[: -len(".pt2")] if path.endswith(".pt2") else path) + ".kiln.pt2"
        else:
            package_path = os.path.join(tempfile.mkdtemp(prefix="kiln_package_"), "model.kiln.pt2")
    place = os.fspath(package_path)
    if not place.endswith(".pt2"):
        error = errors.ArgumentError(f"the path of a package ends in .pt2, and {place!r} does not")
        error.code = "K0711"
        raise error
    options = [] if bundle is None else ["--bundle", os.fspath(bundle)]
    return compile_with_callbacks(
        exported_program, place, inductor_configs or {}, custom_op_libraries, target, options=options
    )


def compile_with_callbacks(
    program: Any,
    place: str,
    settings: Mapping[str, Any],
    libraries: Sequence[PathLike] = (),
    target: Targets = None,
    pytorchs_too: bool = False,
    options: Sequence[str] = (),
) -> str:
    """As ``compile_package``; operators that Kiln does not know and PyTorch in this process does are called back."""
    import tempfile

    with ExportedFile(program) as file:
        try:
            return compile_package(
                file.path, place, settings, custom_op_libraries=libraries, target=target, options=options
            )
        except errors.CompileError as error:
            with tempfile.TemporaryDirectory(prefix="kiln_ops_") as directory:
                names = _python_ops.unknown_operators(error, pytorchs_too)
                library = _python_ops.build_library(names, directory)
                if library is None:
                    raise
                return compile_package(
                    file.path,
                    place,
                    settings,
                    custom_op_libraries=[*libraries, library],
                    target=target,
                    options=options,
                )


def _read_manifest(path: str) -> dict[str, Any]:
    import json
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                parts = name.split("/")
                if len(parts) == 5 and parts[1:3] == ["data", "kiln"] and parts[4] == "manifest.json":
                    return json.loads(archive.read(name))  # type: ignore[no-any-return]
    except (OSError, ValueError, zipfile.BadZipFile) as problem:
        error = errors.FileError(f"{path}: the package's manifest cannot be read: {problem}")
        error.code = "K0700"
        raise error from None
    return {}


def _chosen_device(path: str, device_index: int) -> int:
    """Which GPU a package goes to: the one that was asked for, else torch's current one."""
    torch = sys.modules.get("torch")
    if device_index >= 0 or torch is None or not torch.cuda.is_initialized():
        return device_index
    return int(torch.cuda.current_device()) if _read_manifest(path).get("device") == "cuda" else device_index


def _bytes_of(source: Any) -> Optional[bytes]:
    """What a file-like object, or the bytes of a package, hold; nothing for a path."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        held = bytes(source)
        return held if held.startswith(b"PK\x03\x04") or not isinstance(source, bytes) else None
    return bytes(source.read()) if hasattr(source, "read") else None


class AOTICompiledModel(_kiln.Model):
    """A loaded package. Call it as the exported module: the same structures of arguments, positional and by keyword, and
    the same structure of results. Tensors are torch's, numpy's, or of anything that speaks DLPack; results come as what
    the arguments were. Nothing is copied, and other Python threads run meanwhile."""

    _path: str
    _device_index: int

    def __init__(
        self,
        path: Any,
        device_index: int = -1,
        *,
        settings: Optional[Mapping[str, Any]] = None,
        custom_op_libraries: Sequence[PathLike] = (),
    ) -> None:
        held = _bytes_of(path)
        self._is_own_file = held is not None
        if held is not None:
            import shutil
            import tempfile
            import weakref

            directory = tempfile.mkdtemp(prefix="kiln_package_")
            weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)  # goes with the model
            path = os.path.join(directory, "model.kiln.pt2")
            with open(path, "wb") as file:
                file.write(held)
        place = os.path.abspath(os.fsdecode(path))
        _python_ops.ready()
        explicit = {key: config._text(value) for key, value in (settings or {}).items()}
        given = [f"{key}={value}" for key, value in {**config._for_run(), **explicit}.items()]
        libraries = [os.fsdecode(library) for library in custom_op_libraries]
        device_index = _chosen_device(place, device_index)
        super().__init__(place, given, device_index, libraries)
        self._path, self._device_index = place, device_index
        self._explicit, self._libraries = dict(settings or {}), libraries
        self._changed: set[str] = set()
        self._kept: dict[str, Any] = {}
        self._manifest = _read_manifest(place)
        manifest = self._manifest
        inputs = manifest.get("inputs", [])
        in_spec, out_spec = manifest.get("in_spec"), manifest.get("out_spec")
        empty_dict: Any = ("dict", [], [], None)
        in_tree = _trees.read(in_spec) if in_spec else ("tuple", [_trees.leaves(len(self._inputs)), empty_dict])
        out_tree = _trees.read(out_spec) if out_spec else _trees.leaves(len(self._outputs))
        constants = {i: spec["constant"] for i, spec in enumerate(inputs) if "constant" in spec}
        self._set_structure(in_tree, out_tree, manifest.get("argument_names", []), constants)

    @property
    def path(self) -> str:
        return self._path

    @property
    def loader(self) -> "AOTICompiledModel":
        """The object that PyTorch's documents call the loader: this one has its methods."""
        return self

    # ---- Calls
    def run_flat(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs on the flat list of inputs, in the order of the exported graph, and gives the flat list of outputs."""
        return self._run_flat(inputs)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        return self._run_flat(inputs)

    def boxed_run(self, inputs: list[Any]) -> list[Any]:
        """As ``run_flat``, and takes the tensors out of the list: what nobody else holds is freed early."""
        given = list(inputs)
        if isinstance(inputs, list):
            inputs.clear()
        return self._run_flat(given)

    def bind(self, *args: Any, **kwargs: Any) -> _kiln.BoundCall:
        """The call with these arguments, to be made again and again: ``step = model.bind(x); y = step()``. It reads what the
        tensors hold then, and writes its results into the same tensors each time, which the next call overwrites. A tensor
        that has moved or changed its layout meanwhile is refused. For one thread at a time."""
        return self._bind(args, kwargs)

    def self_test(self) -> dict[str, Any]:
        """Makes the calls that were bundled with the package, on a state of their own, and compares the results with
        the expected ones. Gives ``calls``, how many were made, and ``worst``, the largest error in units of its
        tolerance; raises RunError where a result is another one, FileError where the package carries no test."""
        return self._self_test()

    # ---- What it is
    def get_metadata(self) -> dict[str, str]:
        """What the user put into the package, beside what Kiln says of it (the keys that begin with AOTI_)."""
        device = str(self._manifest.get("device", "cpu"))
        own = {"AOTI_DEVICE_KEY": device, "AOTI_PLATFORM": "linux", "KILN_VERSION": str(self._manifest.get("kiln", ""))}
        return {**own, **self._user_metadata}

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """The flat inputs: name, kind, dtype, shape (names of dynamic sizes as text), whether runs write to them."""
        return self._inputs

    @property
    def outputs(self) -> list[dict[str, Any]]:
        return self._outputs

    @property
    def symbols(self) -> list[dict[str, Any]]:
        """The dynamic sizes with their ranges."""
        return self._symbols

    # ---- Weights
    def get_constant_fqns(self) -> list[str]:
        """The names of weights and buffers, as in the module's state_dict."""
        return [constant["name"] for constant in self._constants]

    def constant(self, name: str) -> Any:
        """The value of a weight or buffer: a torch tensor where torch is imported, else a numpy array where numpy is,
        else a kiln.Tensor."""
        return _native(self._read_constant(name))

    def load_constants(
        self,
        constants_map: Mapping[str, Any],
        *,
        check_full_update: bool,
        user_managed: bool = False,
        allow_h2d_copy: bool = False,
    ) -> None:
        """Gives weights and buffers new values, by name. ``check_full_update``: an error unless all of the
        state dict are given.
        ``user_managed``: the tensors' memory is used as it is, without a copy; the model keeps them alive. After changing
        their values in place give them again."""
        del allow_h2d_copy  # on the CPU there is nothing to copy to
        self.update_constant_buffer(constants_map, False, check_full_update, user_managed)

    def update_constant_buffer(
        self,
        constants_map: Mapping[str, Any],
        use_inactive: bool = False,
        validate_full_updates: bool = False,
        user_managed: bool = False,
    ) -> None:
        """As ``load_constants``; with ``use_inactive`` into the set that ``swap_constant_buffer`` makes active."""
        flags = _kiln.UPDATE_ALL if validate_full_updates else 0
        flags |= _kiln.UPDATE_BORROW if user_managed else 0
        flags |= _kiln.UPDATE_INACTIVE if use_inactive else 0
        for value in constants_map.values():
            if getattr(getattr(value, "device", None), "type", "cpu") == "cuda":  # torch may still be computing it
                sys.modules["torch"].cuda.synchronize(value.device)
                break
        self._update_constants(dict(constants_map), flags)
        self._changed.update(constants_map)
        if user_managed:
            for name, value in constants_map.items():
                self._kept.setdefault(name, []).append(value)
        if self._idle and not use_inactive:  # nobody reads the values before these any more
            for name in list(self._kept):
                if not user_managed and name in constants_map:
                    del self._kept[name]
                else:
                    del self._kept[name][:-1]

    def swap_constant_buffer(self) -> None:
        self._swap_constants()

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Weights from a module's ``state_dict()``. ``strict``: every weight of the model must be there; names that the
        compiled program does not use (PyTorch keeps some) are left out either way."""
        known = {constant["name"] for constant in self._constants}
        # Tensors in the code and buffers that are not persistent are constants of the program, and in no state dict.
        wanted = known & set(self._manifest.get("state", known))
        used = {name: value for name, value in state_dict.items() if name in known}
        # Of tied weights (several names of one constant) one is enough.
        first = {constant["name"]: constant["same_as"] or constant["name"] for constant in self._constants}
        given = {first[name] for name in used}
        lacking = sorted(name for name in wanted - set(used) if first[name] not in given)
        problem = ""
        if strict and lacking:
            problem = f"the state dict lacks {', '.join(lacking)}"
        elif not used and known:
            problem = f"the state dict has none of the model's names ({', '.join(sorted(known)[:3])}, …)"
        if problem:
            unknown = sorted(set(state_dict) - known)
            error = errors.ArgumentError(problem + (f"; it has {', '.join(unknown[:3])}, …" if unknown else ""))
            error.code = "K0705"
            raise error
        self.update_constant_buffer(used)

    # ---- Copies: by the path, with the weights and buffers that were changed since it was loaded
    def _state(self) -> dict[str, Any]:
        names = set(self._changed)
        names.update(constant["name"] for constant in self._constants if constant["mutable"])
        return {name: self._read_constant(name) for name in sorted(names)}

    def _source(self) -> Union[str, bytes]:
        if not self._is_own_file:
            return self._path
        with open(self._path, "rb") as file:
            return file.read()

    def __reduce__(self) -> Any:
        return _reload, (self._source(), self._device_index, self._explicit, self._libraries, self._state())

    def __copy__(self) -> "AOTICompiledModel":
        return _reload(self._source(), self._device_index, self._explicit, self._libraries, self._state())

    def __deepcopy__(self, memo: Any) -> "AOTICompiledModel":
        return self.__copy__()

    def __repr__(self) -> str:
        return f"<kiln.AOTICompiledModel {self._path}>"


def _tensor(values: bytes, dtype: str, shape: Sequence[int]) -> _kiln.Tensor:
    """A kiln.Tensor that was pickled."""
    return _kiln.tensor_from_bytes(values, dtype, list(shape))


def _native(tensor: Any) -> Any:
    import sys

    if "torch" in sys.modules:
        return sys.modules["torch"].from_dlpack(tensor)
    if "numpy" in sys.modules:
        try:
            return sys.modules["numpy"].asarray(tensor) if _has_buffer(tensor) else tensor
        except Exception:
            return tensor
    return tensor


def _has_buffer(tensor: Any) -> bool:
    try:
        memoryview(tensor)
    except BufferError:
        return False
    return True


def _reload(
    path: Union[str, bytes], device_index: int, settings: Mapping[str, Any], libraries: Sequence[str], state: Mapping[str, Any]
) -> AOTICompiledModel:
    model = AOTICompiledModel(path, device_index, settings=settings, custom_op_libraries=libraries)
    if state:
        model.update_constant_buffer(state)
    return model


def aoti_load_package(
    path: Any,
    device_index: int = -1,
    *,
    settings: Optional[Mapping[str, Any]] = None,
    custom_op_libraries: Sequence[PathLike] = (),
    run_single_threaded: bool = False,
    num_runners: int = 1,
    use_stream_affinity: bool = False,
    model_name: str = "model",
) -> AOTICompiledModel:
    """Loads a package: a path, an open file, or its bytes. ``settings`` are those that act while running, for this model alone; ``kiln.config`` holds those
    of the process. The device type is the package's; ``device_index`` chooses among devices of that type.

    ``model_name`` is that of PyTorch's load_package; a package of Kiln's has one model.

    ``run_single_threaded``, ``num_runners`` and ``use_stream_affinity`` are PyTorch's and change nothing: one loaded model
    runs the calls of many threads at once, without a lock."""
    del run_single_threaded, num_runners, use_stream_affinity
    if isinstance(device_index, bool):
        error = errors.ArgumentError("device_index is a number; PyTorch's second argument is run_single_threaded=…, by name")
        error.code = "K0711"
        raise error
    model = AOTICompiledModel(path, device_index, settings=settings, custom_op_libraries=custom_op_libraries)
    if model_name not in ("model", known := str(model._manifest.get("model", "model"))):
        error = errors.ArgumentError(f"the package has no model {model_name!r}; it has {known!r}")
        error.code = "K0711"
        raise error
    return model
