from typing import Any

Buffer = Any  # anything with the buffer protocol, which has no name before Python 3.12

def clamped(
    a: Buffer,
    g: Buffer,
    out: Buffer,
    rows: int,
    columns: int,
    outputs: int,
    limit: float,
    first: int,
    last: int,
    /,
) -> None: ...
def squares(rows: Buffer, out: Buffer, first: int, last: int, /) -> None: ...
def weighted(rows: Buffer, weights: Buffer, out: Buffer, first: int, last: int, /) -> None: ...
