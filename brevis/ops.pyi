from typing import Any

from brevis.words import Words

class Unfit(Exception): ...

def table() -> list[tuple[int, str, str, int]]: ...
def encode(
    name: str, operands: tuple[Any, ...], words: Words
) -> tuple[tuple[int, ...], list[Words], bytes | None]: ...
