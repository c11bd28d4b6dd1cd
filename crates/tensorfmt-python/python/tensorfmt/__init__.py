"""Tensor files of all kinds: mag, zTensor, burnpack, AERO, primitiv and safetensors.

>>> import tensorfmt
>>> with tensorfmt.open("model.safetensors") as f:
...     print(f["w"][1:2].numpy())
[[3. 4. 5.]]
"""

from __future__ import annotations

from ._archive import load, open
from ._compat import load_file, safe_open, save_file
from ._convert import convert
from ._errors import (
    Error,
    FileError,
    InvalidFile,
    LimitExceeded,
    LossWarning,
    NoSuchTensor,
    Unsupported,
    UsageError,
)
from ._plan import Plan, PlannedPart, plan
from ._save import Loss, save, save_bytes
from ._tensorfmt import Archive, Tensor, __version__
from ._verbs import Report, diff, hash, inspect, stats, verify

__all__ = [
    "Archive",
    "Error",
    "FileError",
    "InvalidFile",
    "LimitExceeded",
    "Loss",
    "LossWarning",
    "NoSuchTensor",
    "Plan",
    "PlannedPart",
    "Report",
    "Tensor",
    "Unsupported",
    "UsageError",
    "__version__",
    "convert",
    "diff",
    "hash",
    "inspect",
    "load",
    "load_file",
    "open",
    "plan",
    "safe_open",
    "save",
    "save_bytes",
    "save_file",
    "stats",
    "verify",
]
