"""The functions of ``safetensors.numpy``, for files of all formats."""

from __future__ import annotations

from . import _archive, _save
from ._compat import load_file, save_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Optional

__all__ = ["load", "load_file", "save", "save_file"]


def load(data: bytes) -> dict[str, Any]:
    """All tensors of a file's content."""
    return _archive.load(data)


def save(tensor_dict: Mapping[str, Any], metadata: Optional[Mapping[str, Any]] = None) -> bytes:
    """The content of a safetensors file."""
    return _save.save_bytes(tensor_dict, "safetensors", metadata=metadata)
