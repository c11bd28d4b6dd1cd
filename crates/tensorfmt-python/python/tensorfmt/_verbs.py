"""What the command line does, as functions: each answers what ``--json`` prints, as a dict."""

from __future__ import annotations

from . import _tensorfmt
from ._archive import open as open_archive
from ._errors import FileError, of_exit
from ._save import Loss

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Optional, Union

    Path = Union[str, os.PathLike[str]]
    Progress = Callable[[int, int], object]
    Patterns = Union[str, Iterable[str], Callable[[str], bool], None]


class Report(dict[str, "Any"]):
    """What became of checks or of a comparison: a dict with one word of summary."""

    __slots__ = ("ok",)

    def __init__(self, content: Mapping[str, Any], ok: bool) -> None:
        super().__init__(content)
        self.ok = ok


def _fspath(path: Path) -> str:
    import os

    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError("a path is needed, as str or os.PathLike")
    # The command line has a meaning of its own for a dash.
    return os.path.join(".", text) if text.startswith("-") else text


def _run(arguments: list[str], progress: Optional[Progress], wrong: tuple[int, ...] = ()) -> Any:
    import json

    code, answer, said = _tensorfmt.run(arguments, progress)
    if code and not (code in wrong and answer):
        raise of_exit(code, said)
    return code, json.loads(answer)


def _patterns(option: str, patterns: Patterns, names: Iterable[str]) -> list[str]:
    if patterns is None:
        return []
    if callable(patterns):
        # What chooses nothing is an error, as it is of a pattern.
        chosen = [name for name in names if patterns(name)] or [""]
    else:
        chosen = [patterns] if isinstance(patterns, str) else list(patterns)
    return [f"{option}={pattern}" for pattern in chosen]


def _names(patterns: Patterns, *paths: Path) -> list[str]:
    """The names that a function chooses among."""
    if not callable(patterns):
        return []
    names: dict[str, None] = {}
    for path in paths:
        with open_archive(path) as archive:
            names.update(dict.fromkeys(archive))
    return list(names)


def inspect(path: Path) -> dict[str, Any]:
    """What is in a file: format, metadata, and each tensor with its place.

    >>> import tensorfmt
    >>> [t["name"] for t in tensorfmt.inspect("model.safetensors")["tensors"]]
    ['w', 'b']
    """
    open_archive(path).close()
    found: dict[str, Any] = _run(["inspect", "--json", _fspath(path)], None)[1]
    return found


def verify(
    path: Path, *, strict: bool = False, threads: int = 0, progress: Optional[Progress] = None
) -> Report:
    """Makes every check that a file allows: structure, checksums, decompression.

    The report's ``ok`` says whether all is well; ``items`` has the outcome of each check and ``error`` what
    keeps the file from being opened. ``strict=True`` also fails on what readers tolerate.

    >>> import tensorfmt
    >>> report = tensorfmt.verify("model.mag")
    >>> report.ok, report["items"][0]["outcome"]
    (True, 'ok')
    """
    arguments = ["verify", "--json", f"--threads={threads}", _fspath(path)]
    if strict:
        arguments.insert(1, "--strict")
    code, answer = _run(arguments, progress, (1, 3, 4))
    file = answer["files"][0]
    if code == 3:
        # As every other function fails where there is nothing to read.
        open_archive(path).close()
        raise FileError(file["error"]["message"])
    return Report(file, code == 0)


def diff(
    a: Path,
    b: Path,
    *,
    atol: Optional[float] = None,
    rtol: Optional[float] = None,
    values: bool = False,
    filter: Patterns = None,
    exclude: Patterns = None,
    tensors_only: bool = False,
    threads: int = 0,
    progress: Optional[Progress] = None,
) -> Report:
    """Compares two files, whatever their formats and orders; ``ok`` says whether they are the same.

    Without a tolerance bits decide; with one, numbers are close as ``numpy.isclose`` has it.

    >>> import tensorfmt
    >>> tensorfmt.diff("model.safetensors", "model.mag").ok
    True
    """
    for path in (a, b):
        open_archive(path).close()
    arguments = ["diff", "--json", f"--threads={threads}", _fspath(a), _fspath(b)]
    if atol is not None:
        arguments.append(f"--atol={atol!r}")
    if rtol is not None:
        arguments.append(f"--rtol={rtol!r}")
    if values:
        arguments.append("--values")
    if tensors_only:
        arguments.append("--tensors-only")
    arguments += _patterns("--filter", filter, _names(filter, a, b))
    arguments += _patterns("--exclude", exclude, _names(exclude, a, b))
    code, answer = _run(arguments, progress, (1,))
    return Report(answer, code == 0)


def hash(
    path: Path,
    *,
    algorithm: str = "blake3",
    filter: Patterns = None,
    exclude: Patterns = None,
    threads: int = 0,
    progress: Optional[Progress] = None,
) -> dict[str, Any]:
    """A digest of each tensor, and of the model as a whole, which is the same in every format.

    >>> import tensorfmt
    >>> a, b = tensorfmt.hash("model.safetensors"), tensorfmt.hash("model.mag")
    >>> a["model"] == b["model"]
    True
    """
    open_archive(path).close()
    arguments = ["hash", "--json", f"--threads={threads}", f"--algorithm={algorithm}", _fspath(path)]
    arguments += _patterns("--filter", filter, _names(filter, path))
    arguments += _patterns("--exclude", exclude, _names(exclude, path))
    found: dict[str, Any] = _run(arguments, progress)[1]
    return found


def stats(
    path: Path,
    *,
    filter: Patterns = None,
    exclude: Patterns = None,
    threads: int = 0,
    progress: Optional[Progress] = None,
) -> dict[str, Any]:
    """What the values of each tensor are like: counts of NaN, infinities and zeros, mean, deviation,
    quantiles, a histogram.

    >>> import tensorfmt
    >>> w = tensorfmt.stats("model.safetensors")["tensors"][0]
    >>> w["name"], w["min"], w["max"]
    ('w', 0.0, 5.0)
    """
    open_archive(path).close()
    arguments = ["stats", "--json", f"--threads={threads}", _fspath(path)]
    arguments += _patterns("--filter", filter, _names(filter, path))
    arguments += _patterns("--exclude", exclude, _names(exclude, path))
    # What can't be read has a line of its own in the answer.
    found: dict[str, Any] = _run(arguments, progress, (4,))[1]
    return found


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
    on_duplicate: Optional[str] = None,
    threads: int = 0,
    progress: Optional[Progress] = None,
) -> list[Loss]:
    """Converts a file, or several merged into one, and returns what the target can't hold.

    The ending of ``target`` names the format, or ``format`` does. ``cast`` is a dtype for all floats, or a
    mapping of patterns to dtypes. ``filter`` and ``exclude`` are patterns of names, or functions that are
    asked for each name; ``rename`` maps names or is a function of them. The input is checked first, unless
    ``verify`` is off; the target appears when it is complete. ``strict=True`` refuses losses.

    >>> import tensorfmt
    >>> tensorfmt.convert("model.safetensors", "half.aero", cast="f16", filter=lambda n: n == "w")
    []
    >>> for loss in tensorfmt.convert("model.safetensors", "model.zt"):
    ...     print(loss)
    metadata 'step': a zTensor 0.1 file has no metadata of its own
    """
    import os

    paths = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    for path in paths:
        # Its errors say more than an exit code.
        open_archive(path).close()
    arguments = ["convert", "--json", f"--threads={threads}", f"--layout={layout}"]
    flags = {
        "--skip-unsupported": skip_unsupported,
        "--allow-empty": allow_empty,
        "--promote-scalars": promote_scalars,
        "--with-stats": with_stats,
        "--no-verify": not verify,
        "--strict": strict,
        "--force": overwrite,
    }
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
        arguments += _patterns(option, patterns, _names(patterns, *paths))
    for key, value in (metadata or {}).items():
        arguments += _metadata(key, value)
    with _Table(rename, paths) as table:
        if table is not None:
            arguments.append(f"--rename-table={table}")
        arguments += ["--", *(_fspath(path) for path in paths), _fspath(target)]
        answer = _run(arguments, progress)[1]
    return [Loss(loss["kind"], loss["item"], loss["reason"]) for loss in answer["losses"]]


def _metadata(key: str, value: object) -> list[str]:
    if isinstance(value, str):
        return [f"--set-text={key}={value}"]
    if isinstance(value, bool):
        return [f"--set-metadata={key}={str(value).lower()}"]
    if isinstance(value, (int, float)):
        return [f"--set-metadata={key}={value!r}"]
    raise TypeError(f"metadata {key!r}: a number, a bool or a str is needed, not {value!r}")


class _Table:
    """A file with the new names, as long as it is needed."""

    def __init__(
        self, rename: Union[Callable[[str], str], Mapping[str, str], None], paths: list[Path]
    ) -> None:
        self._path: Optional[str] = None
        if rename is None:
            return
        import json
        import os
        import tempfile

        if callable(rename):
            pairs = {name: rename(name) for name in _names(lambda _: True, *paths)}
            pairs = {old: new for old, new in pairs.items() if old != new}
        else:
            pairs = dict(rename)
        if not pairs:
            return
        handle, self._path = tempfile.mkstemp(suffix=".json")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(pairs, file)

    def __enter__(self) -> Optional[str]:
        return self._path

    def __exit__(self, *exception: object) -> None:
        if self._path is not None:
            import os

            os.unlink(self._path)
