"""What can be wrong with an archive: one exception class for each class of FORMAT.md, section 6.

It may assume that whoever raises knows the class and the offset, because the specification fixes both. It
does not know what an archive looks like.
"""

from __future__ import annotations


class Error(Exception):
    """An archive was refused; `offset` is the place in it that is to blame, where there is one."""

    offset: int | None

    def __init__(self, message: str, offset: int | None = None) -> None:
        # A pickled exception keeps its `args` and its dictionary, and so the offset.
        super().__init__(message)
        self.offset = offset

    def __str__(self) -> str:
        message = super().__str__()
        return message if self.offset is None else f"{message} (at byte {self.offset})"


class MalformedError(Error, ValueError):
    """This is no archive, or its container breaks a rule."""


class TruncatedError(Error, EOFError):
    """The archive ends too early."""


class CorruptError(Error, ValueError):
    """Bytes were changed since they were written, or the run of a program failed."""


class UnsupportedError(Error, ValueError):
    """The archive is from a later version, or needs a part that is not installed."""


class InvalidProgramError(Error, ValueError):
    """The container is sound, but a program breaks the rules of the language."""


class LimitError(Error, ValueError):
    """The receiver's own policy refuses."""
