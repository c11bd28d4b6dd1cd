"""Writing of files."""

from __future__ import annotations

import sys

from . import _tensorfmt
from ._errors import LossWarning, make
from ._tensorfmt import Archive, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from typing import Any, Optional, Union

    Path = Union[str, os.PathLike[str]]
    Progress = Callable[[int, int], object]


class Loss:
    """Something that a target can't hold: what ``kind`` of thing, which ``item``, and for what ``reason``."""

    __slots__ = ("kind", "item", "reason")

    def __init__(self, kind: str, item: str, reason: str) -> None:
        self.kind = kind
        self.item = item
        self.reason = reason

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Loss):
            return NotImplemented
        return (self.kind, self.item, self.reason) == (other.kind, other.item, other.reason)

    def __hash__(self) -> int:
        return hash((self.kind, self.item, self.reason))

    def __repr__(self) -> str:
        return f"Loss({self.kind!r}, {self.item!r}, {self.reason!r})"

    def __str__(self) -> str:
        return f"{self.kind} {self.item!r}: {self.reason}"


def save(
    tensors: Union[Mapping[str, Any], Archive],
    path: Path,
    *,
    metadata: Optional[Mapping[str, Any]] = None,
    format: Optional[str] = None,
    durable: bool = True,
    progress: Optional[Progress] = None,
) -> list[Loss]:
    """Writes tensors to a file, in the format that its ending names, or ``format``.

    Values are arrays of NumPy, torch or JAX, tensors of an open file, or anything else with DLPack or the
    buffer protocol; don't change them meanwhile. A file that is there is replaced, when the new one is
    complete; what fails leaves the old one as it was. ``durable=False`` doesn't wait for the disk.

    Returns what the format can't hold beside the tensors, such as metadata, and warns of it. A tensor that
    it can't hold is an error.

    >>> import numpy as np, tensorfmt
    >>> tensorfmt.save({"w": np.eye(2, dtype="float32")}, "new.mag", metadata={"step": 3})
    []
    >>> tensorfmt.open("new.mag").metadata
    {'step': 3}
    """
    losses = _saved(tensors, path, metadata, format, durable, progress)[0]
    if losses:
        import warnings

        lost = "; ".join(str(loss) for loss in losses[:5])
        more = f"; and {len(losses) - 5} more" if len(losses) > 5 else ""
        warnings.warn(f"not in {path}: {lost}{more}", LossWarning, stacklevel=2)
    return losses


def save_bytes(
    tensors: Union[Mapping[str, Any], Archive],
    format: str,
    *,
    metadata: Optional[Mapping[str, Any]] = None,
) -> bytes:
    """The bytes of a file of ``format``; see ``save``.

    >>> import numpy as np, tensorfmt
    >>> data = tensorfmt.save_bytes({"w": np.zeros(3, "float32")}, "ztensor")
    >>> tensorfmt.open(data).format
    'ztensor'
    """
    losses, data = _saved(tensors, None, metadata, format, False, None)
    if losses:
        import warnings

        lost = "; ".join(str(loss) for loss in losses[:5])
        warnings.warn(f"not in the {format} file: {lost}", LossWarning, stacklevel=2)
    assert data is not None
    return data


def _saved(
    tensors: Union[Mapping[str, Any], Archive],
    path: Optional[Path],
    metadata: Optional[Mapping[str, Any]],
    format: Optional[str],
    durable: bool,
    progress: Optional[Progress],
) -> tuple[list[Loss], Optional[bytes]]:
    pairs = []
    for name, value in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"names are str, not {type(name).__name__}: {name!r}")
        pairs.append((name, _prepared(name, value)))
    about = list((metadata or {}).items())
    for key, _ in about:
        if not isinstance(key, str):
            raise TypeError(f"keys of metadata are str, not {type(key).__name__}: {key!r}")
    losses, data = _tensorfmt.save(
        pairs, path, format, about, durable=durable, progress=progress
    )
    return [Loss(*loss) for loss in losses], data


def _prepared(name: str, value: Any) -> Any:
    """What the extension takes: a tensor, an object with DLPack, or dtype, dims, order and bytes."""
    if isinstance(value, Tensor):
        return value
    # An array of a library exists only where that is imported.
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        from ._numpy import prepared

        return prepared(name, value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        from ._torch import prepared as of_torch

        return of_torch(value)
    if hasattr(value, "__dlpack__"):
        return value
    try:
        view = memoryview(value)
    except TypeError:
        kind = type(value).__name__
        message = f"tensor {name!r}: a {kind} has neither DLPack nor the buffer protocol"
        raise TypeError(message) from None
    return _of_view(name, view)


_KINDS = {"?": "bool", "e": "float", "f": "float", "d": "float", "Zf": "complex", "Zd": "complex"}
_KINDS.update(dict.fromkeys("bhilqn", "int"))
_KINDS.update(dict.fromkeys("BHILQN", "uint"))


def _of_view(name: str, view: memoryview) -> tuple[str, tuple[int, ...], str, Any]:
    code = view.format.lstrip("@=<>!")
    kind = _KINDS.get(code)
    if kind is None:
        message = f"tensor {name!r}: no format has elements of the kind {view.format!r}"
        raise make("Unsupported", message, "unsupported", tensor=name)
    foreign = view.format[:1] in ("<" if sys.byteorder == "big" else ">!")
    if (foreign or sys.byteorder == "big") and view.itemsize > 1 and view.format[:1] != "<":
        from ._numpy import np, prepared

        return prepared(name, np.asarray(view))
    dtype = "bool" if kind == "bool" else f"{kind}{8 * view.itemsize}"
    shape = view.shape if view.shape is not None else ()
    if view.c_contiguous and view.nbytes and view.ndim:
        return dtype, shape, "C", view.cast("B")
    return dtype, shape, "C", view.tobytes()
