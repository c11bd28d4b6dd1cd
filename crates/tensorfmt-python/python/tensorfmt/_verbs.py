"""What the command line does, as functions: each answers what ``--json`` prints, as a dict."""

from __future__ import annotations

from . import _storage, _tensorfmt
from ._errors import FileError, of_exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Optional, Union

    from ._tensorfmt import Archive

    Path = Union[str, os.PathLike[str]]
    Progress = Callable[[int, int], object]
    Patterns = Union[str, Iterable[str], Callable[[str], bool], None]


class Report(dict[str, "Any"]):
    """What became of checks or of a comparison: a dict with one word of summary."""

    __slots__ = ("ok",)

    def __init__(self, content: Mapping[str, Any], ok: bool) -> None:
        super().__init__(content)
        self.ok = ok


def fspath(path: Path) -> str:
    import os

    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError("a path is needed, as str or os.PathLike")
    # The command line has a meaning of its own for a dash.
    return os.path.join(".", text) if text.startswith("-") else text


def run(
    arguments: list[str],
    progress: Optional[Progress],
    settings: _storage.Settings,
    wrong: tuple[int, ...] = (),
) -> Any:
    """The exit code of a verb and what it answers; those that are wrong are errors, but for some with an answer."""
    import json

    code, answer, said = _tensorfmt.run(arguments, progress, settings)
    if code and not (code in wrong and answer):
        raise of_exit(code, said)
    return code, json.loads(answer)


def opened(path: Path, settings: _storage.Settings) -> Archive:
    """An archive; its errors say more than the exit code of a verb."""
    return _tensorfmt.open(path, settings=settings)


def patterns(option: str, patterns: Patterns, names: Iterable[str]) -> list[str]:
    if patterns is None:
        return []
    if callable(patterns):
        # What chooses nothing is an error, as it is of a pattern.
        chosen = [name for name in names if patterns(name)] or [""]
    else:
        chosen = [patterns] if isinstance(patterns, str) else list(patterns)
    return [f"{option}={pattern}" for pattern in chosen]


def names(patterns: Patterns, settings: _storage.Settings, *paths: Path) -> list[str]:
    """The names that a function chooses among."""
    if not callable(patterns):
        return []
    names: dict[str, None] = {}
    for path in paths:
        with opened(path, settings) as archive:
            names.update(dict.fromkeys(archive))
    return list(names)


def inspect(path: Path, *, storage_options: _storage.Options = None) -> dict[str, Any]:
    """What is in a file: format, metadata, and each tensor with its place.

    >>> import tensorfmt
    >>> [t["name"] for t in tensorfmt.inspect("model.safetensors")["tensors"]]
    ['w', 'b']
    """
    settings = _storage.settings([path], storage_options)
    opened(path, settings).close()
    found: dict[str, Any] = run(["inspect", "--json", fspath(path)], None, settings)[1]
    return found


def verify(
    path: Path,
    *,
    strict: bool = False,
    storage_options: _storage.Options = None,
    threads: int = 0,
    progress: Optional[Progress] = None,
) -> Report:
    """Makes every check that a file allows: structure, checksums, decompression.

    The report's ``ok`` says whether all is well; ``items`` has the outcome of each check and ``error`` what
    keeps the file from being opened. ``strict=True`` also fails on what readers tolerate.

    >>> import tensorfmt
    >>> report = tensorfmt.verify("model.mag")
    >>> report.ok, report["items"][0]["outcome"]
    (True, 'ok')
    """
    settings = _storage.settings([path], storage_options)
    arguments = ["verify", "--json", f"--threads={threads}", fspath(path)]
    if strict:
        arguments.insert(1, "--strict")
    code, answer = run(arguments, progress, settings, (1, 3, 4))
    file = answer["files"][0]
    if code == 3:
        # As every other function fails where there is nothing to read.
        opened(path, settings).close()
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
    storage_options: _storage.Options = None,
    threads: int = 0,
    progress: Optional[Progress] = None,
) -> Report:
    """Compares two files, whatever their formats and orders; ``ok`` says whether they are the same.

    Without a tolerance bits decide; with one, numbers are close as ``numpy.isclose`` has it.

    >>> import tensorfmt
    >>> tensorfmt.diff("model.safetensors", "model.mag").ok
    True
    """
    settings = _storage.settings([a, b], storage_options)
    for path in (a, b):
        opened(path, settings).close()
    arguments = ["diff", "--json", f"--threads={threads}", fspath(a), fspath(b)]
    if atol is not None:
        arguments.append(f"--atol={atol!r}")
    if rtol is not None:
        arguments.append(f"--rtol={rtol!r}")
    if values:
        arguments.append("--values")
    if tensors_only:
        arguments.append("--tensors-only")
    arguments += patterns("--filter", filter, names(filter, settings, a, b))
    arguments += patterns("--exclude", exclude, names(exclude, settings, a, b))
    code, answer = run(arguments, progress, settings, (1,))
    return Report(answer, code == 0)


def hash(
    path: Path,
    *,
    algorithm: str = "blake3",
    filter: Patterns = None,
    exclude: Patterns = None,
    storage_options: _storage.Options = None,
    threads: int = 0,
    progress: Optional[Progress] = None,
) -> dict[str, Any]:
    """A digest of each tensor, and of the model as a whole, which is the same in every format.

    >>> import tensorfmt
    >>> a, b = tensorfmt.hash("model.safetensors"), tensorfmt.hash("model.mag")
    >>> a["model"] == b["model"]
    True
    """
    settings = _storage.settings([path], storage_options)
    opened(path, settings).close()
    arguments = ["hash", "--json", f"--threads={threads}", f"--algorithm={algorithm}", fspath(path)]
    arguments += patterns("--filter", filter, names(filter, settings, path))
    arguments += patterns("--exclude", exclude, names(exclude, settings, path))
    found: dict[str, Any] = run(arguments, progress, settings)[1]
    return found


def stats(
    path: Path,
    *,
    filter: Patterns = None,
    exclude: Patterns = None,
    storage_options: _storage.Options = None,
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
    settings = _storage.settings([path], storage_options)
    opened(path, settings).close()
    arguments = ["stats", "--json", f"--threads={threads}", fspath(path)]
    arguments += patterns("--filter", filter, names(filter, settings, path))
    arguments += patterns("--exclude", exclude, names(exclude, settings, path))
    # What can't be read has a line of its own in the answer.
    found: dict[str, Any] = run(arguments, progress, settings, (4,))[1]
    return found

