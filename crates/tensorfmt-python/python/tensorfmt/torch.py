"""The functions of ``safetensors.torch`` for dicts of tensors, for files of all formats."""

from __future__ import annotations

from . import _archive, _save
from ._compat import save_file
from ._torch import of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any, Optional, Union

__all__ = ["load", "load_file", "save", "save_file"]


def load_file(
    filename: Union[str, os.PathLike[str]], device: Union[str, int] = "cpu", *, backend: str = ""
) -> dict[str, Any]:
    """All tensors of a file of any format, on ``device``."""
    with _archive.open(filename) as archive:
        return {name: of(tensor, device) for name, tensor in archive.items()}


def load(data: bytes) -> dict[str, Any]:
    """All tensors of a file's content."""
    with _archive.open(data) as archive:
        return {name: of(tensor) for name, tensor in archive.items()}


def save(tensors: Mapping[str, Any], metadata: Optional[Mapping[str, Any]] = None) -> bytes:
    """The content of a safetensors file."""
    return _save.save_bytes(tensors, "safetensors", metadata=metadata)
