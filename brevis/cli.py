"""The command `brevis`: from its arguments to the exit status.

It may assume that the command reports what goes wrong with each source. It does not know how it works.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from brevis import __version__
from brevis.command import DONE, ERROR, Command
from brevis.console import complain, say, shown
from brevis.options import UsageError, parse, parser

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def _signals(command: Command) -> Iterator[None]:
    """Let a signal end the process as it would without a handler, but leave nothing half written behind.

    This happens at once, in the handler: work under way in other threads isn't waited for.
    """

    def stop(number: int, frame: object) -> None:
        if command.target is not None:
            command.target.discard()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {}
    try:
        for number in numbers:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup and the like
                with contextlib.suppress(ValueError):  # not in the main thread, which alone can have handlers
                    before[number] = signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    try:
        options, names = parse(sys.argv[1:] if arguments is None else arguments)
        if options.help:
            say(parser().format_help().rstrip())
        elif options.version:
            say(f"brevis {__version__}")
        else:
            command = Command(options)
            with _signals(command):
                command.run(names)
            return command.status
    except UsageError as error:
        complain(f"brevis: {shown(str(error))}\nTry 'brevis --help'.")
        return ERROR
    except BrokenPipeError:
        return ERROR
    except OSError as error:
        complain(f"brevis: {error.strerror or error}")
        return ERROR
    return DONE
