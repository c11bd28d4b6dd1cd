"""The command line."""

from __future__ import annotations

import signal
import sys

from . import _tensorfmt


def main() -> None:
    """Runs the program as if it were one without Python around it."""
    # Its own handlers come next; one that ignores the signal, as under nohup, stays.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_tensorfmt.main(["tensorfmt", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
