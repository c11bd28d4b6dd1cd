"""Conversions: at once, or planned and run in parts by whoever has the plan."""

from __future__ import annotations

from . import _storage, _tensorfmt, _verbs
from ._save import Loss

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Optional, TypedDict, Union

    Path = Union[str, os.PathLike[str]]
    Patterns = Union[str, Iterable[str], Callable[[str], bool], None]

    class ConvertOptions(TypedDict, total=False):
        """What :func:`convert` does with tensors and metadata on the way."""

        format: Optional[str]
        cast: Union[str, Mapping[str, str], None]
        keep: Patterns
        filter: Patterns
        exclude: Patterns
        rename: Union[Callable[[str], str], Mapping[str, str], None]
        metadata: Optional[Mapping[str, object]]
        transpose: Patterns
        layout: str
        skip_unsupported: bool
        allow_empty: bool
        promote_scalars: bool
        with_stats: bool
        verify: bool
        strict: bool
        overwrite: bool
        zstd: Optional[int]
        max_shard_size: Optional[int]
        on_duplicate: Optional[str]
        storage_options: _storage.Options


def convert(
    source: Union[Path, Iterable[Path]],
    target: Path,
    *,
    format: Optional[str] = None,
    cast: Union[str, Mapping[str, str], None] = None,
    keep: Patterns = None,
    filter: Patterns = None,
    exclude: Patterns = None,
    rename: Union[Callable[[str], str], Mapping[str, str], None] = None,
    metadata: Optional[Mapping[str, object]] = None,
    transpose: Patterns = None,
    layout: str = "keep-dims",
    skip_unsupported: bool = False,
    allow_empty: bool = False,
    promote_scalars: bool = False,
    with_stats: bool = False,
    verify: bool = True,
    strict: bool = False,
    overwrite: bool = True,
    zstd: Optional[int] = None,
    max_shard_size: Optional[int] = None,
    parts: Optional[int] = None,
    on_duplicate: Optional[str] = None,
    storage_options: _storage.Options = None,
    threads: int = 0,
    progress: Optional[_verbs.Progress] = None,
) -> list[Loss]:
    """Converts a file, or several merged into one, and returns what the target can't hold.

    The ending of ``target`` names the format, or ``format`` does. ``cast`` is a dtype for all floats, or a
    mapping of patterns to dtypes. ``filter`` and ``exclude`` are patterns of names, or functions that are
    asked for each name; ``rename`` maps names or is a function of them. The input is checked first, unless
    ``verify`` is off; the target appears when it is complete. ``strict=True`` refuses losses. ``parts`` is how
    many files a set gets; :func:`plan` has others write them. ``storage_options`` are those of :func:`open`, for all
    addresses of the call.

    >>> import tensorfmt
    >>> tensorfmt.convert("model.safetensors", "half.aero", cast="f16", filter=lambda n: n == "w")
    []
    >>> for loss in tensorfmt.convert("model.safetensors", "model.zt"):
    ...     print(loss)
    metadata 'step': a zTensor 0.1 file has no metadata of its own
    """
    made = Conversion(
        source,
        target,
        format=format,
        cast=cast,
        keep=keep,
        filter=filter,
        exclude=exclude,
        rename=rename,
        metadata=metadata,
        transpose=transpose,
        layout=layout,
        skip_unsupported=skip_unsupported,
        allow_empty=allow_empty,
        promote_scalars=promote_scalars,
        with_stats=with_stats,
        verify=verify,
        strict=strict,
        overwrite=overwrite,
        zstd=zstd,
        max_shard_size=max_shard_size,
        on_duplicate=on_duplicate,
        storage_options=storage_options,
    )
    made.open_inputs()
    more = [] if parts is None else [f"--parts={parts}"]
    answer = made.run(more, threads, progress)
    return losses_of(answer)


def losses_of(answer: Mapping[str, Any]) -> list[Loss]:
    """What the command line lists as lost."""
    return [Loss(loss["kind"], loss["item"], loss["reason"]) for loss in answer["losses"]]


class Conversion:
    """Inputs, output and options of a conversion as the command line takes them: text alone, so that it can be
    pickled whatever functions the options were."""

    def __init__(
        self,
        source: Union[Path, Iterable[Path]],
        target: Path,
        *,
        format: Optional[str] = None,
        cast: Union[str, Mapping[str, str], None] = None,
        keep: Patterns = None,
        filter: Patterns = None,
        exclude: Patterns = None,
        rename: Union[Callable[[str], str], Mapping[str, str], None] = None,
        metadata: Optional[Mapping[str, object]] = None,
        transpose: Patterns = None,
        layout: str = "keep-dims",
        skip_unsupported: bool = False,
        allow_empty: bool = False,
        promote_scalars: bool = False,
        with_stats: bool = False,
        verify: bool = True,
        strict: bool = False,
        overwrite: bool = True,
        zstd: Optional[int] = None,
        max_shard_size: Optional[int] = None,
        on_duplicate: Optional[str] = None,
        storage_options: _storage.Options = None,
    ) -> None:
        import os

        alone = isinstance(source, (str, os.PathLike))
        self.inputs = [_verbs.fspath(path) for path in ([source] if alone else source)]
        self.target = _verbs.fspath(target)
        self.overwrite = overwrite
        self.settings = _storage.settings([*self.inputs, self.target], storage_options)
        flags = {
            "--skip-unsupported": skip_unsupported,
            "--allow-empty": allow_empty,
            "--promote-scalars": promote_scalars,
            "--with-stats": with_stats,
            "--no-verify": not verify,
            "--strict": strict,
            "--force": overwrite,
        }
        arguments = [f"--layout={layout}"]
        arguments += [flag for flag, wanted in flags.items() if wanted]
        values = {
            "--to": format,
            "--zstd": zstd,
            "--max-shard-size": max_shard_size,
            "--on-duplicate": on_duplicate,
        }
        arguments += [f"{option}={value}" for option, value in values.items() if value is not None]
        casts = [cast] if isinstance(cast, str) else [f"{p}={to}" for p, to in (cast or {}).items()]
        arguments += [f"--cast={each}" for each in casts]
        for option, patterns in (
            ("--keep", keep),
            ("--filter", filter),
            ("--exclude", exclude),
            ("--transpose", transpose),
        ):
            names = _verbs.names(patterns, self.settings, *self.inputs)
            arguments += _verbs.patterns(option, patterns, names)
        for key, value in (metadata or {}).items():
            arguments += _metadata(key, value)
        self.arguments = arguments
        self.renamed = self._renamed(rename)

    def _renamed(
        self, rename: Union[Callable[[str], str], Mapping[str, str], None]
    ) -> dict[str, str]:
        if not callable(rename):
            return dict(rename or {})
        pairs = {name: rename(name) for name in _verbs.names(lambda _: True, self.settings, *self.inputs)}
        return {old: new for old, new in pairs.items() if old != new}

    def absolute(self) -> None:
        """Makes all paths those that another process, in another folder, finds."""
        self.inputs = [_absolute(path) for path in self.inputs]
        self.target = _absolute(self.target)

    def open_inputs(self) -> None:
        """Raises what keeps an input from being opened, whose errors say more than an exit code."""
        for path in self.inputs:
            _verbs.opened(path, self.settings).close()

    def run(
        self, more: list[str], threads: int = 0, progress: Optional[_verbs.Progress] = None
    ) -> dict[str, Any]:
        """Runs it, with more arguments, and returns what the command line answers."""
        with _Table(self.renamed) as table:
            arguments = ["convert", "--json", f"--threads={threads}", *self.arguments, *more, *table]
            arguments += ["--", *self.inputs, self.target]
            answer: dict[str, Any] = _verbs.run(arguments, progress, self.settings)[1]
            return answer


def _absolute(path: str) -> str:
    import os

    return path if _tensorfmt.is_address(path) else os.path.abspath(path)


def _metadata(key: str, value: object) -> list[str]:
    if isinstance(value, str):
        return [f"--set-text={key}={value}"]
    if isinstance(value, bool):
        return [f"--set-metadata={key}={str(value).lower()}"]
    if isinstance(value, (int, float)):
        return [f"--set-metadata={key}={value!r}"]
    raise TypeError(f"metadata {key!r}: a number, a bool or a str is needed, not {value!r}")


class _Table:
    """A file with the new names, as long as it is needed: the arguments that name it."""

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self._path: Optional[str] = None
        if not pairs:
            return
        import json
        import os
        import tempfile

        handle, self._path = tempfile.mkstemp(suffix=".json")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(dict(pairs), file)

    def __enter__(self) -> list[str]:
        return [] if self._path is None else [f"--rename-table={self._path}"]

    def __exit__(self, *exception: object) -> None:
        if self._path is not None:
            import os

            os.unlink(self._path)
