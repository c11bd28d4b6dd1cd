"""``python -m tensorfmt`` is the command line."""

from ._command import main

if __name__ == "__main__":
    main()
