"""Options of stores, as fsspec and the packages on it have them."""

from __future__ import annotations

from . import _tensorfmt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Optional

    Options = Optional[Mapping[str, Any]]
    Settings = list[tuple[str, str]]


def settings(paths: Iterable[object], options: Options) -> Settings:
    """What the extension takes for the options of a call that is about these paths."""
    if not options:
        return []
    pairs: Settings = []
    for name, value in options.items():
        if name == "client_kwargs" and hasattr(value, "items"):
            # What is passed on to a client there.
            pairs += [(key, _text(key, inner)) for key, inner in value.items()]
        elif value is not None:
            pairs.append((name, _text(name, value)))
    return _tensorfmt.settings([path for path in paths if isinstance(path, str)], pairs)


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, dict) and name == "token":
        import json

        return json.dumps(value)
    if hasattr(value, "__fspath__"):
        import os

        return os.fspath(value)
    # The value may be a secret.
    raise TypeError(f"storage_options: {name!r} is a {type(value).__name__}, not a str, a number or a bool")
