"""``python -m imsbench``: the command."""

import sys

from imsbench.cli import main

if __name__ == "__main__":
    sys.exit(main())
