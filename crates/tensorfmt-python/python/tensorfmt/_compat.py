"""The habits of the safetensors package, for files of all formats."""

from __future__ import annotations

from . import _archive, _save
from ._errors import make

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any, Optional, Union

    from ._tensorfmt import Archive, Tensor

    Path = Union[str, os.PathLike[str]]

_FRAMEWORKS = {
    "np": "numpy",
    "numpy": "numpy",
    "pt": "torch",
    "torch": "torch",
    "pytorch": "torch",
    "flax": "jax",
    "jax": "jax",
}
_CODES = {
    "bool": "BOOL",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "complex64": "C64",
    "complex128": "C128",
}


class safe_open:
    """Opens a file of any format and hands out its tensors one by one, as ``safetensors.safe_open`` does.

    >>> from tensorfmt import safe_open
    >>> with safe_open("model.safetensors", framework="np") as f:
    ...     for name in f.keys():
    ...         print(name, f.get_tensor(name).shape)
    b (3,)
    w (2, 3)
    """

    def __init__(self, filename: Path, framework: str, device: Union[str, int] = "cpu") -> None:
        known = _FRAMEWORKS.get(framework)
        if known is None:
            message = f"framework {framework!r}: there are {', '.join(_FRAMEWORKS)}"
            raise make("UsageError", message, "build")
        self._framework = known
        self._device = device
        self._archive: Archive = _archive.open(filename)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *exception: object) -> None:
        self._archive.close()

    def keys(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._archive)

    def offset_keys(self) -> list[str]:
        """The names, in the order of their data."""
        return [t.name for t in sorted(self._archive.values(), key=lambda t: t.offset)]

    def metadata(self) -> Optional[dict[str, Any]]:
        """The metadata of the file, None where there is none."""
        return self._archive.metadata or None

    def get_tensor(self, name: str) -> Any:
        """The tensor of this name in the framework's own form."""
        return _made(self._archive[name], self._framework, self._device)

    def get_tensors(self, names: Optional[list[str]] = None) -> dict[str, Any]:
        """Several tensors, or all."""
        wanted = self.keys() if names is None else names
        return {name: self.get_tensor(name) for name in wanted}

    def get_slice(self, name: str) -> Slice:
        """The tensor of this name, to be read in parts."""
        return Slice(self._archive[name], self._framework, self._device)


class Slice:
    """A tensor of which an index reads the rows that it needs."""

    def __init__(self, tensor: Tensor, framework: str, device: Union[str, int]) -> None:
        self._tensor = tensor
        self._framework = framework
        self._device = device

    def get_shape(self) -> list[int]:
        """The dims."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """The dtype as safetensors files spell it."""
        name = self._tensor.dtype
        known = _CODES.get(name)
        if known is not None:
            return known
        for prefix, letter in (("float", "F"), ("uint", "U"), ("int", "I")):
            if name.startswith(prefix):
                return letter + name.removeprefix(prefix)
        return name

    def __getitem__(self, index: Any) -> Any:
        parts = index if isinstance(index, tuple) else (index,)
        tensor, first = self._tensor, parts[0] if parts else ...
        if tensor.shape and isinstance(first, slice):
            # Of rows that are picked one by one, those from the first to the last are read.
            rows = range(tensor.shape[0])[first]
            if len(rows) == 0:
                tensor, first = tensor[0:0], slice(None)
            else:
                low, high = min(rows[0], rows[-1]), max(rows[0], rows[-1])
                tensor = tensor[low : high + 1]
                stop = rows[-1] - low + rows.step
                first = slice(rows[0] - low, stop if stop >= 0 else None, rows.step)
        elif tensor.shape and hasattr(first, "__index__") and not isinstance(first, bool):
            tensor = tensor[first]
            return _made(tensor, self._framework, self._device)[parts[1:] or ...]
        made = _made(tensor, self._framework, self._device)
        return made[(first, *parts[1:])]


def _made(tensor: Tensor, framework: str, device: Union[str, int]) -> Any:
    if framework == "torch":
        from ._torch import of

        return of(tensor, device)
    if framework == "jax":
        import jax

        return jax.numpy.asarray(tensor.numpy())
    return tensor.numpy()


def load_file(filename: Path, device: Union[str, int] = "cpu", *, backend: str = "") -> dict[str, Any]:
    """All tensors of a file of any format as arrays, as ``safetensors.numpy.load_file`` has them.

    How a file is read is this package's own choice; ``backend`` is there for the sake of the signature.
    """
    if device != "cpu":
        raise make("UsageError", "arrays of NumPy are on the host", "build")
    return _archive.load(filename)


def save_file(
    tensor_dict: Mapping[str, Any], filename: Path, metadata: Optional[Mapping[str, Any]] = None
) -> None:
    """Writes arrays to a file, as ``safetensors.numpy.save_file`` does; other formats by their endings.

    A name whose ending says nothing is that of a safetensors file.
    """
    import os

    name = os.fspath(filename).lower()
    known = (".mag", ".zt", ".ztensor", ".bpk", ".aero", ".json", ".model", ".param", ".optimizer")
    known += (".trainer", ".tensor", ".safetensors")
    format = None if name.endswith(known) else "safetensors"
    _save.save(tensor_dict, filename, metadata=metadata, format=format)
