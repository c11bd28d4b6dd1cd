"""Opening of files."""

from __future__ import annotations

from . import _storage, _tensorfmt
from ._tensorfmt import Archive

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping
    from typing import Any, BinaryIO, Optional, Union

    from typing_extensions import Buffer

    Path = Union[str, os.PathLike[str]]
    Openable = Union[Path, BinaryIO, Buffer]


def open(
    file: Openable,
    *,
    mmap: bool = False,
    limits: Optional[Mapping[str, int]] = None,
    storage_options: _storage.Options = None,
) -> Archive:
    """Opens a tensor file of any format: reads its index, none of its data.

    ``file`` is a path, also that of a set's index, an address such as ``s3://bucket/model.zt`` or
    ``https://host/model.zt``, a binary file object that can seek, or an object with the buffer protocol that
    holds a file's content. Bytes are content, never a path.

    With ``mmap=True`` arrays are read-only views of the mapped file. **That is a promise**: nobody may
    truncate or change the file while the archive, or an array of it, lives. A file that shrinks under a map
    ends the process with a signal that no Python code sees. Without it, which is the default, a file that
    shrinks is an error, and every array is one of its own.

    ``limits`` raises, or lowers, what the reader takes, by the names that LimitExceeded has.

    ``storage_options`` are settings of the store that an address is of, which outrank those of the environment, by
    the names that fsspec has for them (``key``, ``secret``, ``token``, ``anon``, ``endpoint_url``,
    ``account_name``, ...) or object_store (``aws_region``, ...). No message has their values in it.

    >>> import tensorfmt
    >>> with tensorfmt.open("model.safetensors") as f:
    ...     print(f.format, list(f), f["w"].shape, f["w"].dtype)
    ...     print(f["w"].numpy()[0])
    safetensors ['w', 'b'] (2, 3) float32
    [0. 1. 2.]
    """
    return _tensorfmt.open(
        file,
        mmap=mmap,
        limits=list(limits.items()) if limits else None,
        settings=_storage.settings([file], storage_options),
    )


def again(
    path: str, mmap: bool, limits: list[tuple[str, int]], settings: _storage.Settings
) -> Archive:
    """An archive from a pickle."""
    return _tensorfmt.open(path, mmap=mmap, limits=limits, settings=settings)


def load(
    file: Openable,
    *,
    names: Optional[Iterable[str]] = None,
    mmap: bool = False,
    limits: Optional[Mapping[str, int]] = None,
    storage_options: _storage.Options = None,
) -> dict[str, Any]:
    """All tensors of a file as arrays, or those of some names, in the order of the file.

    >>> import tensorfmt
    >>> arrays = tensorfmt.load("model.safetensors")
    >>> {name: a.shape for name, a in arrays.items()}
    {'w': (2, 3), 'b': (3,)}
    """
    with open(file, mmap=mmap, limits=limits, storage_options=storage_options) as archive:
        if names is not None:
            return {name: archive[name].numpy() for name in names}
        if len(set(archive)) < len(archive):
            from ._errors import make

            message = "two tensors have one name, which a dict can't hold; open() and values() have both"
            raise make("Unsupported", message, "unsupported")
        return {name: tensor.numpy() for name, tensor in archive.items()}
