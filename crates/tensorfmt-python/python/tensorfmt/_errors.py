"""What can go wrong: one class for everything, and under it one for each way to deal with it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional


class Error(Exception):
    """Anything that this package can't do.

    ``kind`` is one of ``invalid``, ``unsupported``, ``limit``, ``build`` (the call makes no sense) and
    ``io``; ``rule`` names the rule of the format that a file breaks, ``offset`` the byte where, and
    ``tensor`` the tensor that it is about. What isn't known is None.
    """

    kind: Optional[str] = None
    rule: Optional[str] = None
    offset: Optional[int] = None
    tensor: Optional[str] = None
    _message: str = ""

    def __str__(self) -> str:
        return self._message or super().__str__()

    def __reduce__(self) -> tuple[object, ...]:
        about = (self.kind, self.rule, self.offset, self.tensor)
        number = getattr(self, "errno", None)
        name = getattr(self, "filename", None)
        return make, (type(self).__name__, self._message or str(self), *about, number, name)


class InvalidFile(Error, ValueError):
    """The file breaks a rule of its format, is damaged, or ends too early."""


class Unsupported(Error, ValueError):
    """The file is well-formed, but this can't be read, or the target can't hold it."""


class LimitExceeded(Error, ValueError):
    """The file is beyond a limit, which ``open(..., limits={name: value})`` raises."""


class UsageError(Error, ValueError):
    """The call makes no sense."""


class NoSuchTensor(Error, KeyError):
    """There is no tensor of this name; the message has the nearest ones."""


class FileError(Error, OSError):
    """The operating system failed."""


class FileMissing(FileError, FileNotFoundError):
    """There is no such file."""


class FileDenied(FileError, PermissionError):
    """The file may not be read or written."""


class FileIsFolder(FileError, IsADirectoryError):
    """The path is that of a folder."""


class LossWarning(UserWarning):
    """What a format could not hold of what was saved in it."""


_CLASSES: dict[str, type[Error]] = {
    known.__name__: known
    for known in (
        Error,
        InvalidFile,
        Unsupported,
        LimitExceeded,
        UsageError,
        NoSuchTensor,
        FileError,
        FileMissing,
        FileDenied,
        FileIsFolder,
    )
}
_BY_NUMBER: dict[int, type[FileError]] = {
    1: FileDenied,
    2: FileMissing,
    13: FileDenied,
    21: FileIsFolder,
}


def make(
    name: str,
    message: str,
    kind: Optional[str] = None,
    rule: Optional[str] = None,
    offset: Optional[int] = None,
    tensor: Optional[str] = None,
    errno: Optional[int] = None,
    filename: Optional[object] = None,
) -> Error:
    """An error with all that is known about it."""
    found = _CLASSES[name]
    error: Error
    if issubclass(found, FileError):
        if errno is not None:
            found = _BY_NUMBER.get(errno, found)
        error = found(errno, message)
        if filename is not None:
            error.filename = filename if isinstance(filename, str) else str(filename)
    else:
        error = found(message)
    error.kind = kind
    error.rule = rule
    error.offset = offset
    error.tensor = tensor
    error._message = message
    return error


def of_exit(code: int, message: str) -> Error:
    """The error for the exit code of a verb."""
    names = {
        1: ("InvalidFile", "invalid"),
        2: ("UsageError", "build"),
        3: ("FileError", "io"),
        4: ("Unsupported", "unsupported"),
    }
    name, kind = names.get(code, ("Error", "invalid"))
    lines = [line.removeprefix("tensorfmt: ") for line in message.strip().splitlines()]
    return make(name, "\n".join(lines) or f"exit code {code}", kind)
