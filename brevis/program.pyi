from typing import Any, NamedTuple

from brevis.frame import Buffer
from brevis.words import Words

LITERAL: str

class Term(NamedTuple):
    op: str
    operands: tuple[Any, ...] = ()
    children: tuple[Term, ...] = ()
    payload: bytes | None = None
    width: int = 0
    count: int = 0  # type: ignore[assignment]

class Program:
    @staticmethod
    def parse(
        body: Buffer, width: int, content: int, offset: int | None = None, code_offset: int = 0
    ) -> Program: ...
    def term(self) -> Term: ...

def encode(term: Term, words: Words) -> Term: ...
def write(term: Term) -> bytes: ...
