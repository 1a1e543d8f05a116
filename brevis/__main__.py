"""`python -m brevis` is the command `brevis`, and so is `main` here.

It may assume nothing. It does not know any option; it only makes an interruption in the first moments, while
the rest is loaded, as quiet as one later on.
"""

import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from brevis.cli import main  # only now, as it takes a while

if __name__ == "__main__":
    sys.exit(main())
