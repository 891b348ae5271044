"""The entropy source: no word twice in any thread or process, erased after use, an error where there is no entropy."""

import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import rangebound as rb
from rangebound.errors import EntropyUnavailable
from rangebound.sampling import entropy
from rangebound.sampling.entropy import SECURE, SecureSource, secure_bits

WORDS = 64


def blocks(words: list[int]) -> list[tuple[int, int]]:
    """128-bit blocks: pairs of words."""
    return list(zip(words[::2], words[1::2], strict=True))


def some(source) -> list[int]:
    many = np.empty(WORDS, dtype=np.uint64)
    source.fill(many)
    return [*many.tolist(), *(source.word() for _ in range(WORDS))]


def in_children(source, count: int) -> list[int]:
    """What `count` forked children draw, one after the other, each from the state its parent had."""
    found: list[int] = []
    for _ in range(count):
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the test runner has threads of its own
            child = os.fork()
        if child == 0:
            with os.fdopen(write, "wb") as pipe:
                pipe.write(np.array(some(source), dtype=np.uint64).tobytes())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            found += np.frombuffer(pipe.read(), dtype=np.uint64).tolist()
        os.waitpid(child, 0)
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("forks", [4, pytest.param(100, marks=pytest.mark.long)])
def test_forks_share_no_block(forks):
    SECURE.word()  # the parent has words ready
    found = blocks(in_children(SECURE, forks) + some(SECURE))
    assert len(found) == (forks + 1) * WORDS
    assert len(set(found)) == len(found)


class Careless(SecureSource):
    """A source that does not notice a fork."""

    def word(self) -> int:
        kept = self._kept
        if not kept.left:
            self.fill(kept.words)
            kept.left = len(kept.words)
        kept.left -= 1
        return int(kept.words[kept.left])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_check_for_repeated_blocks_can_fail():
    careless = Careless()
    careless.word()
    found = blocks(in_children(careless, 3))
    assert len(set(found)) < len(found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_that_python_does_not_see_is_noticed_by_the_process_id(monkeypatch):
    source = SecureSource()
    source.word()
    before = source._kept.words.copy()
    monkeypatch.setattr(os, "getpid", lambda: -5)
    source.word()
    assert not np.isin(source._kept.words, before[before != 0]).any()


def test_sixty_four_threads_share_no_block():
    found: list[int] = []
    start = threading.Barrier(64)

    def work():
        start.wait()
        found.extend(some(SECURE))

    threads = [threading.Thread(target=work) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    drawn = blocks(found)
    assert len(drawn) == 64 * WORDS
    assert len(set(drawn)) == len(drawn)


@pytest.mark.slow
def test_new_processes_share_no_block():
    code = (
        "from rangebound.sampling.entropy import SECURE; import numpy as np\n"
        "many = np.empty(64, dtype=np.uint64); SECURE.fill(many)\n"
        "print(*many.tolist(), *(SECURE.word() for _ in range(64)))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    found = blocks([int(word) for run in runs for word in run.stdout.split()])
    assert len(found) == 3 * WORDS
    assert len(set(found)) == len(found)


def test_used_words_are_erased():
    source = SecureSource()
    first = [source.word() for _ in range(10)]
    kept = source._kept
    assert not np.isin(np.array(first, dtype=np.uint64), kept.words).any()
    assert not kept.words[kept.left :].any()
    assert kept.words[: kept.left].all()


def test_a_long_fill_changes_its_key(monkeypatch):
    keys = []
    fresh = entropy.fresh

    def watched(size):
        keys.append(fresh(size))
        return bytearray(keys[-1])

    monkeypatch.setattr(entropy, "fresh", watched)
    words = np.zeros(3 * 2**17 + 5, dtype=np.uint64)  # three megabytes and a little
    SECURE.fill(words)
    assert len(keys) == 4
    assert len({bytes(key) for key in keys}) == 4
    assert (words != 0).all()
    assert len(np.unique(words)) == len(words)


def test_the_keystream_is_aes_256_in_counter_mode(monkeypatch):
    """The standard's own example (NIST SP 800-38A, F.5.5), by its key and counter."""
    key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
    counter = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
    monkeypatch.setattr(entropy, "fresh", lambda size: bytearray.fromhex(key + counter))
    words = np.empty(4, dtype=np.uint64)
    SECURE.fill(words)
    assert words.tobytes()[:16].hex() == "0bdf7df1591716335e9a8b15c860c502"


@pytest.mark.parametrize("failure", [OSError("no device"), NotImplementedError("none")])
def test_no_entropy_no_release(monkeypatch, failure):
    def broken(count):
        raise failure

    monkeypatch.setattr(os, "urandom", broken)
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0))
    out = np.full(3, -7.0)
    with pytest.raises(EntropyUnavailable, match="returned no random bytes"):
        m.release(np.zeros(3), out=out)
    assert (out == -7.0).all()
    SECURE._kept.left = 0
    with pytest.raises(rb.RangeboundError, match="nothing was drawn"):
        m.release(0.5)


@pytest.mark.parametrize("answer", [b"", bytes(48), b"short"])
def test_an_answer_without_entropy_is_refused(monkeypatch, answer):
    monkeypatch.setattr(os, "urandom", lambda count: answer)
    with pytest.raises(EntropyUnavailable):
        SECURE.fill(np.empty(4, dtype=np.uint64))


def test_bits_are_the_first_ones_of_as_many_words_as_they_need(monkeypatch):
    words = iter(range(1, 100))
    monkeypatch.setattr(SecureSource, "word", lambda _: next(words) << 56)
    assert secure_bits(1) == 0
    assert secure_bits(64) == 2 << 56
    assert secure_bits(72) == 3 << 64 | 4
    assert secure_bits(0) == 0
