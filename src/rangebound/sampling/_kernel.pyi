from typing import Any

Buffer = Any  # anything with the buffer protocol, which has no name before Python 3.12

def draw(
    family: int, plan: Buffer, table: Buffer, words: Buffer, answers: Buffer, out: Buffer, undecided: Buffer, /
) -> int: ...
def draw_one(family: int, plan: Buffer, table: Buffer, word: int, answer: float, /) -> float | None: ...

API: int

def draw_table(
    thresholds: Buffer, entries: Buffer, outputs: Buffer, words: Buffer, answers: Buffer, out: Buffer, /
) -> None: ...
def draw_table_one(thresholds: Buffer, entries: Buffer, outputs: Buffer, word: int, answer: float, /) -> float: ...
