"""`release` as it is called: shapes, types, buffers, threads, bad input, memory."""

import inspect
import math
import subprocess
import sys

import numpy as np
import pytest

import rangebound as rb
from rangebound.sampling import sampler
from rangebound.sampling.entropy import SECURE
from tests.numbers_given import BAD_ARRAYS

QUERY = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
M = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY)


def test_one_number_for_one_number_and_the_shape_of_an_array():
    for answer in (3, 3.0, np.float64(3), np.float32(3), np.int16(3)):
        assert type(M.release(answer)) is float
    for shape in ((), (0,), (1,), (7,), (3, 4), (2, 0, 3), (2, 3, 5)):
        published = M.release(np.full(shape, 3.0))
        assert isinstance(published, np.ndarray)
        assert (published.shape, published.dtype) == (shape, np.float64)


TIGHT = rb.Mechanism(noise=rb.Laplace(scale=1e-3), query=QUERY)
PLACES = np.arange(12.0).reshape(3, 4) * 0.8


@pytest.mark.parametrize(
    "answers",
    [
        PLACES,
        PLACES.T,
        PLACES[:, ::2],
        PLACES[::-1],
        PLACES.astype(">f8"),
        PLACES.astype("<f4"),
        PLACES.astype(np.longdouble),
        np.arange(10, dtype=np.int8),
        np.arange(10, dtype=np.uint64),
        np.broadcast_to(np.array(4.0), (3, 3)),
        PLACES.tolist(),
        (1, 2.5, 3),
        range(10),
    ],
    ids=lambda x: f"{type(x).__name__}-{getattr(x, 'dtype', '')}-{getattr(x, 'strides', '')}",
)
def test_each_answer_gets_its_own_number(answers):
    expected = np.clip(np.asarray(answers, dtype=np.float64), 0, 10)
    published = TIGHT.release(answers)
    assert published.shape == expected.shape
    assert (np.abs(published - expected) < 0.05).all()


def test_answers_are_clipped_to_the_nearest_span():
    assert (np.abs(TIGHT.release(np.array([-1e300, -5.0, 15.0, 1e300])) - [0, 0, 10, 10]) < 0.05).all()
    query = rb.Query(range=rb.Union((0, 1), (5, 6)), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Laplace(scale=1e-3), query=query, support=rb.Interval(-1, 7))
    assert (np.abs(m.release(np.array([0.5, 2.0, 4.5, 9.0])) - [0.5, 1, 5, 6]) < 0.05).all()
    assert abs(m.release(2.0) - 1) < 0.05


@pytest.mark.parametrize("layout", ["plain", "strided", "fortran"])
def test_a_buffer_is_filled_and_returned(layout):
    out = {"plain": np.zeros((3, 4)), "strided": np.zeros((3, 8))[:, ::2], "fortran": np.zeros((4, 3)).T}[layout]
    answers = PLACES.copy()
    answers.flags.writeable = False
    assert TIGHT.release(answers, out=out) is out
    assert (np.abs(out - PLACES) < 0.05).all()
    np.testing.assert_array_equal(answers, PLACES)


def test_answers_may_be_overwritten():
    data = np.concatenate([[0.0], PLACES.reshape(-1)])
    TIGHT.release(data[1:], out=data[:-1])
    assert (np.abs(data[:-1] - PLACES.reshape(-1)) < 0.05).all()
    TIGHT.release(data, out=data)
    assert (np.abs(data[:-1] - PLACES.reshape(-1)) < 0.1).all()


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_share_the_work(threads):
    answers = np.linspace(0, 10, 200_001)
    published = TIGHT.release(answers, threads=threads)
    assert (np.abs(published - answers) < 0.05).all()
    assert len(np.unique(published - answers)) > 190_000  # and no noise twice


BAD = BAD_ARRAYS | {
    "nan": math.nan,
    "inf": math.inf,
    "text": "1",
    "bytes": b"1",
    "bool": True,
    "none": None,
    "complex": 1j,
    "huge": 10**400,
    "inf inside": np.array([1.0, -math.inf, 2.0]),
    "long doubles beyond": np.array([1, 10], dtype=np.longdouble) * np.longdouble("1e400"),
}


@pytest.fixture
def no_entropy(monkeypatch):
    def refuse(*args):
        raise AssertionError("something was drawn")

    monkeypatch.setattr(type(SECURE), "fill", refuse)
    monkeypatch.setattr(type(SECURE), "word", refuse)


@pytest.mark.usefixtures("no_entropy")
@pytest.mark.parametrize("answer", BAD.values(), ids=BAD)
def test_bad_answers_are_refused_before_anything_is_drawn(answer):
    out = np.full(2, -1.0)
    with pytest.raises(rb.RangeboundError, match=r"^answer"):
        M.release(answer)
    with pytest.raises(rb.RangeboundError, match=r"^answer"):
        M.release(answer, out=out)
    assert (out == -1.0).all()


@pytest.mark.usefixtures("no_entropy")
@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("out", [0.0, 0.0, 0.0]),
        ("out", np.zeros(3, dtype=np.float32)),
        ("out", np.zeros(3, dtype=">f8")),
        ("out", np.zeros(4)),
        ("out", np.frombuffer(bytes(24))),  # read-only
        ("out", np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,))),
        ("threads", 0),
        ("threads", 1.5),
        ("threads", True),
        ("threads", "2"),
        ("progress", 1),
        ("step", -1.0),
    ],
)
def test_bad_options_are_refused_before_anything_is_drawn(keyword, value):
    with pytest.raises(rb.RangeboundError, match=f"{keyword}="):
        M.release(np.zeros(3), **{keyword: value})


def test_no_seed_and_no_source_can_be_given():
    assert set(inspect.signature(rb.Mechanism.release).parameters) == {
        "self", "answer", "step", "out", "threads", "progress",
    }  # fmt: skip
    assert set(inspect.signature(sampler.release).parameters) == {"sampler", "answer", "out", "threads", "progress"}


@pytest.mark.slow
def test_without_a_kernel_numpy_draws():
    code = (
        "import sys; sys.modules['rangebound.sampling._kernel'] = None\n"
        "import numpy as np, rangebound as rb\n"
        "m = rb.Mechanism(noise=rb.Laplace(scale=1e-3), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))\n"
        "assert m._sampler(None).compiled is m._sampler(1).compiled is m._sampler(2).compiled is None\n"
        "assert abs(m.release(5.0) - 5) < 0.05\n"
        "assert (abs(m.release(np.linspace(0, 10, 100_000)) - np.linspace(0, 10, 100_000)) < 0.05).all()\n"
    )
    said = ["-W", "error", "-W", "always:draws"]
    run = subprocess.run([sys.executable, *said, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("no compiled kernel") == 1  # once in a process, for three plans of a draw


MEMORY = """
import resource, numpy as np, rangebound as rb
m = rb.Mechanism(noise=rb.{noise}(scale=1.0), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))
answers = np.full({count}, 5.0)
out = np.full({count}, 1.0)
m.release(answers[:100_000], out=out[:100_000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
m.release(answers, out=out, threads={threads})
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in kilobytes here")
@pytest.mark.parametrize(("count", "threads"), [(5_000_000, 2), pytest.param(100_000_000, 2, marks=pytest.mark.long)])
def test_memory_does_not_grow_with_the_number_of_draws(count, threads):
    code = MEMORY.format(noise="Laplace", count=count, threads=threads)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(run.stdout) < (200 if count == 100_000_000 else 20)  # megabytes above the buffers
