"""Arrays: the only place that needs NumPy."""

from __future__ import annotations

import sys

import numpy as np

from ._errors import Error, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_KNOWN: dict[str, np.dtype[Any]] = {}


def dtype(name: str) -> np.dtype[Any]:
    """The dtype of a name; elements are little-endian, as in files."""
    known = _KNOWN.get(name)
    if known is None:
        known = _KNOWN[name] = _dtype(name)
    return known


def _dtype(name: str) -> np.dtype[Any]:
    if name.startswith(("bfloat", "float8")):
        try:
            import ml_dtypes
        except ImportError:
            message = (
                f"NumPy has no {name}: install ml_dtypes, or take astype('float32').numpy(), which is "
                "exact, torch.from_dlpack(tensor), or tobytes()"
            )
            raise make("Unsupported", message, "unsupported") from None
        return np.dtype(getattr(ml_dtypes, name))
    found = np.dtype(name)
    return found if sys.byteorder == "little" else found.newbyteorder("<")


def empty(shape: Sequence[int], name: str, order: Any) -> tuple[np.ndarray, np.ndarray]:
    """An array without values, and its bytes in a row."""
    try:
        array = np.empty(shape, dtype(name), order)
    except ValueError as error:
        raise _beyond(error) from None
    row = array.T if order == "F" else array
    return array, row.reshape(-1).view(np.uint8)


def view(memory: Any, shape: Sequence[int], name: str, order: Any) -> np.ndarray:
    """An array over bytes that somebody else holds."""
    try:
        return np.ndarray(shape, dtype(name), memory, order=order)
    except ValueError as error:
        raise _beyond(error) from None


def _beyond(error: ValueError) -> Exception:
    """The error for dims that NumPy doesn't take, of which a file may have more."""
    if isinstance(error, Error):
        return error
    return make("Unsupported", f"NumPy can't hold this: {error}", "unsupported")


def prepared(name: str, array: Any) -> tuple[str, tuple[int, ...], str, Any]:
    """Dtype, dims, order and bytes of an array, without a copy where its elements lie in a row."""
    if isinstance(array, np.ma.MaskedArray):
        raise make("UsageError", f"tensor {name!r}: a mask would be lost", "build", tensor=name)
    array = np.asarray(array)
    kind = array.dtype.name
    if array.dtype.hasobject or array.dtype.names is not None:
        message = f"tensor {name!r}: no format has elements of {array.dtype}"
        raise make("Unsupported", message, "unsupported", tensor=name)
    big = ">" if sys.byteorder == "little" else "="
    if array.dtype.byteorder == big and array.dtype.itemsize > 1:
        array = array.astype(array.dtype.newbyteorder("<"))
    if array.flags.c_contiguous:
        order, row = "C", array
    elif array.flags.f_contiguous:
        order, row = "F", array.T
    else:
        order, row = "C", array.copy(order="C")
    return kind, array.shape, order, row.reshape(-1).view(np.uint8)
