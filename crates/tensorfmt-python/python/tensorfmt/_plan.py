"""Conversions whose parts are run by whoever has the plan."""

from __future__ import annotations

from . import _verbs
from ._archive import open as open_archive
from ._convert import Conversion, losses_of
from ._errors import Error, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Optional, Union

    from typing_extensions import Unpack

    from ._convert import ConvertOptions, Path
    from ._save import Loss


class PlannedPart:
    """One part of a :class:`Plan`: ``number`` is which one it is, from 1, ``of`` how many there are, ``file`` where it
    is written, ``tensors`` how many tensors are in it, and ``nbytes`` how many bytes of their data."""

    __slots__ = ("number", "of", "file", "tensors", "nbytes")

    def __init__(self, number: int, of: int, file: str, tensors: int, nbytes: int) -> None:
        self.number = number
        self.of = of
        self.file = file
        self.tensors = tensors
        self.nbytes = nbytes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlannedPart):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((self.number, self.of, self.file))

    def __repr__(self) -> str:
        about = f"{self.tensors} tensors, {self.nbytes} bytes"
        return f"<tensorfmt.PlannedPart {self.number}/{self.of} {self.file!r}: {about}>"


def plan(
    source: Union[Path, Iterable[Path]],
    target: Path,
    *,
    parts: int,
    **options: Unpack[ConvertOptions],
) -> Plan:
    """Plans a conversion to a set of files that others write, each by itself: processes, machines, the workers of
    an engine. ``target`` is that of an AERO set (``*.aeroset.json``) or of a set of safetensors
    (``*.safetensors.index.json``); ``options`` are those of :func:`convert`.

    A plan can be pickled. What a part is made of is in the plan, so parts may be run in any order, again, and two
    at once; :meth:`Plan.join` makes the set of them, which is byte for byte what
    ``tensorfmt.convert(..., parts=...)`` writes.

    >>> import tensorfmt
    >>> plan = tensorfmt.plan("model.safetensors", "set.aeroset.json", parts=2, cast="f16")
    >>> for i, part in enumerate(plan.parts()):
    ...     print(i, part.tensors, part.nbytes)
    0 1 12
    1 1 6
    >>> for i in (1, 0):
    ...     part = plan.run(i)                 # in any process that has the plan
    >>> plan.join()
    True
    >>> len(tensorfmt.open("set.aeroset.json"))
    2
    """
    made = Conversion(source, target, **options)
    made.absolute()
    made.open_inputs()
    answer = made.run([f"--part=1/{parts}", "--dry-run"])
    return Plan(made, answer)


class Plan:
    """A conversion in parts, as :func:`plan` makes it.

    In a pickle are the paths or addresses of the inputs, the output, the options, how the tensors are shared out, and
    a fingerprint of all that the parts are made of; ``storage_options`` too, with the secrets that are in them.
    Whoever unpickles it opens the inputs where they are. If these have another fingerprint there, or if the release
    of this package is another one, nothing is written.
    """

    def __init__(self, conversion: Conversion, answer: dict[str, Any]) -> None:
        found = answer["plan"]
        self._conversion = conversion
        self._parts = [
            PlannedPart(part["part"], part["of"], part["file"], part["tensors"], part["bytes"])
            for part in found["parts"]
        ]
        self._fingerprint: str = found["fingerprint"]
        self._losses = losses_of(answer)

    @property
    def target(self) -> str:
        """The file that the set is opened by."""
        return self._conversion.target

    @property
    def fingerprint(self) -> str:
        """A digest of the inputs, the options and the number of parts."""
        return self._fingerprint

    @property
    def losses(self) -> list[Loss]:
        """What the target can't hold."""
        return list(self._losses)

    def parts(self) -> list[PlannedPart]:
        """The parts, each with its file and the bytes that are to be written."""
        return list(self._parts)

    def run(
        self, part: int, *, threads: int = 0, progress: Optional[_verbs.Progress] = None
    ) -> PlannedPart:
        """Writes one of :meth:`parts`, by its position there, from 0, and returns it.

        Its file appears when it is complete, and beside it a receipt for :meth:`join`. ``threads`` is how many are
        used, 0 for one a core; where an engine runs a worker a core it is 1.

        An error of class ``InvalidFile`` says that the plan was made of other inputs than are there now.
        """
        if isinstance(part, bool) or not hasattr(type(part), "__index__"):
            raise TypeError(f"a part is an int, not {part!r}")
        if not 0 <= part < len(self._parts):
            message = f"part {part}: there are {len(self._parts)}, counted from 0 to {len(self._parts) - 1}"
            raise make("UsageError", message, "build")
        planned = self._parts[part]
        more = [f"--part={planned.number}/{planned.of}", f"--fingerprint={self._fingerprint}"]
        try:
            self._conversion.run(more, threads, progress)
        except Error:
            # What keeps an input from being opened says more than an exit code.
            self._conversion.open_inputs()
            raise
        return planned

    def join(self, *, remove_leftovers: bool = False) -> bool:
        """Makes the set of the parts once all of them are written, and tells whether there was anything to do: not
        where the set was joined before.

        Parts that are missing, changed or of another plan are named by an error of class ``InvalidFile``, and no set
        appears. ``remove_leftovers`` deletes the temporary files of workers that were killed in the folder of the
        set; no part may be being written then.
        """
        arguments = ["join", "--json", f"--fingerprint={self._fingerprint}"]
        if self._conversion.overwrite:
            arguments.append("--force")
        if remove_leftovers:
            arguments.append("--remove-leftovers")
        answer: dict[str, Any] = _verbs.run([*arguments, "--", self.target], None, [])[1]
        before: bool = answer["joined_before"]
        if before and not self._is_there():
            message = f"{self.target} is another set than that of this plan, of which no part was run"
            raise make("UsageError", message, "build")
        return not before

    def _is_there(self) -> bool:
        """Whether the set that is there can be that of the plan."""
        import os

        with open_archive(self.target) as archive:
            count = len(archive)
        files = all(os.path.exists(part.file) for part in self._parts)
        return files and count == sum(part.tensors for part in self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        return f"<tensorfmt.Plan {self.target!r}: {len(self)} parts, {self._fingerprint[:12]}>"
