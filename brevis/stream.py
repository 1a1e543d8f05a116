"""Archives piece by piece, without a file: `Compressor` and `Decompressor`, as in `bz2` and `lzma`.

It may assume that codec makes records, and that frame's parser takes a member apart wherever its bytes are
cut. It does not know where the bytes come from or go.
"""

from __future__ import annotations

import sys
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Any

from brevis import codec
from brevis.crew import Crew
from brevis.frame import CHUNK, Block, MemberEnd, parse
from brevis.memory import new_encoder

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NOTHING = memoryview(b"")


class Compressor:
    """Compresses content that comes in pieces to one member of an archive."""

    def __init__(self, level: int = 6, *, threads: int = 0) -> None:
        """Begin at a level from 1 to 9, with so many threads, 0 for one a processor."""
        self._encoder = new_encoder(level, threads)
        self._flushed = False
        self._lock = Lock()

    def compress(self, data: Buffer) -> bytes:
        """Take more content, and return what became ready of the archive, which may be nothing.

        What was returned makes an archive only together with all that comes later.
        """
        with self._lock:
            self._check()
            return b"".join(self._encoder.write(data))

    def flush(self) -> bytes:
        """Complete the archive, and return the rest of it; after that, nothing can be added."""
        with self._lock:
            self._check()
            self._flushed = True
            return b"".join(self._encoder.finish())

    def _check(self) -> None:
        if self._flushed:
            raise ValueError("the compressor has been flushed: make another one for more content")


class Decompressor:
    """Decompresses one member of an archive, however its bytes come in pieces.

    After the member's end `eof` is true, and `unused_data` holds what came behind it: another member, if it's
    not empty, for another Decompressor. Content is returned only when it's verified. A fault that comes
    behind some content is raised by the next call and all that follow; till then `needs_input` is false.
    """

    def __init__(self, *, threads: int = 0) -> None:
        """Begin, with so many threads, 0 for one a processor."""
        self.eof = False
        self.unused_data = b""
        self.needs_input = True
        self._crew = Crew(threads)
        self._parser = parse()
        self._asked = 0  # bytes that the parser waits for
        self._ended = False  # the member's last byte was seen
        self._input: deque[memoryview] = deque()
        self._input_size = 0
        self._content = _NOTHING  # verified, but not asked for yet
        self._fault: Exception | None = None
        self._lock = Lock()
        self._advance(None)

    def decompress(self, data: Buffer, max_length: int = -1) -> bytes:
        """Take more of the archive, and return content: at most `max_length` bytes, if that's not negative.

        Then `needs_input` tells whether more of the archive is needed; if not, an empty `data` gives more
        content. After the member's end this is an `EOFError`.
        """
        with self._lock:
            if self.eof:
                raise EOFError("the end of the member was reached: what follows takes another Decompressor")
            self._add(codec.byte_view(data))
            pieces: list[memoryview] = []
            left = sys.maxsize if max_length < 0 else max_length
            try:
                while left and self._next_content():
                    pieces.append(self._content[:left])
                    self._content = self._content[left:]
                    left -= len(pieces[-1])
            except Exception as fault:
                self._fault, self.needs_input = fault, False
                if not pieces:
                    raise
            except BaseException:  # an interruption, after which one may go on
                self._content = memoryview(b"".join([*pieces, self._content]))
                raise
            self._note_state()
            return b"".join(pieces)

    def _add(self, view: memoryview) -> None:
        """Keep input until the parser wants it."""
        if view:
            # The parser's bytes must not change, and whoever called may reuse a buffer of another type.
            self._input.append(view if isinstance(view.obj, bytes) else memoryview(bytes(view)))
            self._input_size += len(view)

    def _note_state(self) -> None:
        self._parse_all()
        more = bool(self._content or self._crew or self._fault is not None)
        self.eof = self._ended and not more
        self.needs_input = not self._ended and not more
        if self.eof:
            self.unused_data = self._take_input(self._input_size)
            self._crew.close(wait=True)

    def _next_content(self) -> bool:
        """Make sure that there's content, if there's any to be had from the input."""
        if self._fault is not None:
            raise self._fault.with_traceback(None)
        while not self._content:
            self._parse_all()
            if not self._crew:
                return False
            self._content = self._crew.take()
        return True

    def _parse_all(self) -> None:
        while not self._crew.full and self._parse():
            pass

    def _parse(self) -> bool:
        """Give the parser what it waits for, and tell whether there was enough."""
        if self._ended or self._input_size < self._asked:
            return False
        try:
            self._advance(self._take_input(self._asked))
        except Exception as fault:  # which waits for its turn
            self._ended = True
            self._crew.add(0, _fail, fault)
        return True

    def _advance(self, answer: bytes | None) -> None:
        """Let the parser go on to where it wants more."""
        item: Any = self._parser.send(answer)  # type: ignore[arg-type]
        while not isinstance(item, int):
            if isinstance(item, Block) and item.tag == CHUNK:
                self._crew.add(codec.decoding_memory(item), codec.decode_chunk, item)
            if isinstance(item, MemberEnd):
                self._ended = True
                return
            item = next(self._parser)
        self._asked = item

    def _take_input(self, size: int) -> bytes:
        """Return the next bytes of the input, which has so many."""
        self._input_size -= size
        pieces = []
        while size:
            piece = self._input.popleft()
            if len(piece) > size:
                self._input.appendleft(piece[size:])
                piece = piece[:size]
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _fail(fault: Exception) -> Any:
    raise fault
