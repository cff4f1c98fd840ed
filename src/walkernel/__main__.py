"""``python -m walkernel``: the command line."""

from walkernel.cli import main

if __name__ == "__main__":
    main()
