"""`python -m brevis` is the command `brevis`.

It may assume nothing. It does not know any option.
"""

import sys

from brevis.cli import main

if __name__ == "__main__":
    sys.exit(main())
