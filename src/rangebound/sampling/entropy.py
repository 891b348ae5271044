"""Random words for releases: AES-256 keystream under keys from the operating system that are never stored.

Every block of words is the keystream of a key of its own, fresh from the operating system. The key exists only while
its block is made; what stays in memory is the part of a block that has not been used yet, and a word that is used is
erased. So a copy of the process's memory tells nothing about any noise drawn before, and there is no state that two
processes could share but that unused part, which a child throws away after a fork. Each thread has words of its own.
"""

from __future__ import annotations

import functools
import os
import threading
from typing import Any, Protocol

from rangebound.errors import EntropyUnavailable
from rangebound.values.array_types import Words, np

_KEY, _COUNTER = 32, 16
_BLOCK = 1 << 20  # bytes under one key
_ZEROS = bytes(_BLOCK)
_KEPT = 512  # words that a thread keeps ready for single draws


class WordSource(Protocol):
    """Where random words come from: here the only one that `release` knows; tests bring their own to the draw."""

    def fill(self, words: Words) -> None:
        """Overwrite `words` (contiguous) with random ones."""

    def word(self) -> int:
        """One random word of 64 bits."""


def fresh(size: int) -> bytearray:
    """This many bytes from the operating system, which must answer."""
    try:
        seed = bytearray(os.urandom(size))
    except (OSError, NotImplementedError) as error:
        raise EntropyUnavailable(
            f"entropy={error}: the operating system returned no random bytes; nothing was drawn"
        ) from (error)
    if len(seed) != size or not any(seed):
        raise EntropyUnavailable("entropy=none: the operating system returned no random bytes; nothing was drawn")
    return seed


def keystream(into: memoryview) -> None:
    """Overwrite a buffer of bytes with keystream, a new key for every block of a megabyte."""
    from cryptography.hazmat.primitives.ciphers import Cipher  # here, because it is not needed to import the package
    from cryptography.hazmat.primitives.ciphers.algorithms import AES256
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    zeros = memoryview(_ZEROS)
    for start in range(0, len(into), _BLOCK):
        part = into[start : start + _BLOCK]
        seed = fresh(_KEY + _COUNTER)
        # The library wants room for one more block than CTR mode ever writes, so the last bytes go another way.
        stream = Cipher(AES256(seed[:_KEY]), CTR(bytes(seed[_KEY:]))).encryptor()
        direct = max(len(part) - _COUNTER, 0)
        stream.update_into(zeros[:direct], part)
        part[direct:] = stream.update(zeros[: len(part) - direct])
        seed[:] = bytes(len(seed))


class _Kept(threading.local):
    """The words that one thread has ready, and the process they were made in."""

    def __init__(self) -> None:
        self.words: Words = np.zeros(_KEPT, dtype=np.uint64)
        self.left = 0
        self.owner = (-1, -1)


class SecureSource:
    """The source of every release: a thread's own keystream, dropped after a fork."""

    @functools.cached_property
    def _kept(self) -> _Kept:
        return _Kept()

    def fill(self, words: Words) -> None:
        """Overwrite `words` with keystream made for this call alone."""
        keystream(words.view(np.uint8).data)

    def word(self) -> int:
        """One word from this thread's block; it is erased there."""
        kept = self._kept
        owner = (os.getpid(), _forks)
        if not kept.left or kept.owner != owner:
            kept.left = 0
            self.fill(kept.words)
            kept.left, kept.owner = _KEPT, owner
        kept.left -= 1
        value = int(kept.words[kept.left])
        kept.words[kept.left] = 0
        return value


_forks = 0


def _after_fork() -> None:
    global _forks  # a child may be given its grandparent's process id, so the id alone is not enough
    _forks += 1


def _watch_forks(system: Any = os) -> None:
    if hasattr(system, "register_at_fork"):  # there is no fork on Windows
        system.register_at_fork(after_in_child=_after_fork)


_watch_forks()
SECURE = SecureSource()


def secure_bits(count: int) -> int:
    """This many secure random bits, as an integer."""
    words = -(-count // 64)
    value = 0
    for _ in range(words):
        value = value << 64 | SECURE.word()
    return value >> (64 * words - count)
