"""The draw in tensors: the cipher against another's, the numbers word for word against the draw of the processor."""

import numpy as np
import pytest
import torch

import rangebound as rb
from rangebound.errors import EntropyUnavailable
from rangebound.learn.torch import Elementwise, SecureNoise, noise_source
from rangebound.learn.torch.noise_source import _coarse_step, step_mechanism
from rangebound.sampling import entropy, sampler_for
from tests.sampling.sources import Repeating, mechanisms, name, words
from tests.statistical.test_goodness_of_fit import p_value

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
if torch.cuda.is_available():
    from rangebound.learn.torch import triton_kernels
CPU = torch.device("cpu")
BOUNDINGS = {
    "truncate": (rb.TRUNCATE, rb.Interval(-3, 2)),
    "rectify": (rb.RECTIFY, rb.Interval(-1, 1)),
    "quantize": (rb.QUANTIZE, rb.Grid(step=0.5, within=rb.Interval(-4, 4))),
    "sign": (rb.QUANTIZE, rb.Grid(step=2.0, within=rb.Interval(-1, 1))),
    "unbounded": (rb.UNBOUNDED, None),
}


def step(kind: str) -> rb.Mechanism:
    bounding, support = BOUNDINGS[kind]
    return step_mechanism(clipping=Elementwise(clip=0.5), noise_multiplier=2.0, bounding=bounding, support=support)


@on_gpu
def test_the_cipher_is_chacha20():
    secret = bytes(range(100, 132))
    key = torch.frombuffer(bytearray(secret), dtype=torch.int32).cuda()
    found = triton_kernels.keystream(key, 1003).cpu().numpy().view(np.uint64)
    assert found.tolist() == [noise_source.word(secret, i) for i in range(1003)]


def test_the_first_words_are_the_published_ones():
    """RFC 8439, A.1, test vectors 1 and 2: the key of zeros, counters 0 and 1."""
    found = b"".join(noise_source.word(bytes(32), i).to_bytes(8, "little") for i in range(16)).hex()
    assert found.startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    assert found[128:].startswith("9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed")


GAUSSIAN = [m for m in mechanisms() if isinstance(m.noise, rb.Gaussian)] + [step(kind) for kind in BOUNDINGS]
IN_TENSORS = [m for m in GAUSSIAN if noise_source.constants_for(m, CPU) is not None]
ELSEWHERE = [m for m in GAUSSIAN if m not in IN_TENSORS]


def test_most_gaussian_mechanisms_on_one_interval_are_drawn_in_tensors():
    assert len(IN_TENSORS) == 28
    assert all(step(kind) in IN_TENSORS for kind in BOUNDINGS)
    assert len(ELSEWHERE) == 28


def test_on_the_processor_nothing_is_drawn_here():
    assert all(noise_source.release_in_place(m, torch.zeros(3, dtype=torch.float64)) is None for m in GAUSSIAN)


@on_gpu
@pytest.mark.parametrize("m", ELSEWHERE, ids=name)
def test_what_has_no_such_form_is_left_to_the_processor(m):
    assert noise_source.release_in_place(m, torch.zeros(3, dtype=torch.float64, device="cuda")) is None


def in_kernel(m: rb.Mechanism, random, location, step=None, **changed):
    """What the kernel draws with these words, and which numbers are undecided."""
    plan, table, cells = noise_source.constants_for(m, torch.device("cuda"), step)
    named = noise_source.packed(noise_source._sampler(m, step).plan)
    plan = plan.new_tensor([changed.get(name, value) for name, value in named.items()])
    words_there = torch.from_numpy(random.view(np.int64)).cuda()
    value, undecided = triton_kernels.drawn(plan, table, cells, words_there, torch.as_tensor(location).double().cuda())
    return value.cpu().numpy(), undecided.cpu().numpy()


@on_gpu
@pytest.mark.parametrize("m", IN_TENSORS, ids=name)
def test_what_it_decides_is_what_the_processor_draws(m):
    size = _coarse_step(m) if IN_TENSORS.index(m) % 2 else None  # on a coarser lattice, and on that of a release
    count = 20_000
    answers, random = np.linspace(-9, 9, count), words(count, 3)
    random[:40] >>= np.arange(40, dtype=np.uint64)  # both tails too
    random[40:80] = ~random[:40]
    value, undecided = in_kernel(m, random, answers, size)
    sampler, expected = sampler_for(m.noise, m.shape, m.query, size), np.empty(count)
    for start in range(0, count, sampler.chunk):
        part = slice(start, start + sampler.chunk)
        sampler.draw(random[part], answers[part], Repeating(4), expected[part])
    assert undecided.mean() < 0.01
    np.testing.assert_array_equal(value[~undecided], expected[~undecided])
    plan = noise_source.packed(sampler.plan)
    wider = {name: 1.01 * plan[name] for name in ("scale", "scale_steps")}
    assert (in_kernel(m, random, answers, size, **wider)[0] != expected).any()  # the control: noise a little too wide


def test_every_truncated_step_has_the_form():
    """Also where the ends of the range of the sums are rounded."""
    rng = np.random.default_rng(5)
    for clip, multiplier, width in np.exp(rng.normal(0, 2, (200, 3))).tolist():
        support = rb.Interval(-width * clip * multiplier, width * clip)
        m = step_mechanism(
            clipping=Elementwise(clip=clip), noise_multiplier=multiplier, bounding=rb.TRUNCATE, support=support
        )
        assert noise_source.constants_for(m, CPU) is not None


@on_gpu
@pytest.mark.parametrize("kind", BOUNDINGS)
def test_the_released_law(kind):
    m, at, count = step(kind), 0.75, 40_000
    drawn = noise_source.release_in_place(m, torch.full((count,), at, dtype=torch.float64, device="cuda")).cpu().numpy()
    cuts = np.linspace(-1.85, 2.9, 9)  # no cut on a point of a grid, no cell of few numbers
    assert p_value(drawn, m, at, cuts) > 1e-11
    assert p_value(drawn, m, at + 0.5, cuts) < 1e-11  # the control: the law at another answer


@on_gpu
def test_undecided_numbers_are_settled_with_the_word_that_was_drawn(monkeypatch):
    """With a margin so wide that nothing is decided, every number comes from the balls: and is the same."""
    m, secret = step("truncate"), bytes(range(32))
    location = torch.linspace(-3, 3, 50, dtype=torch.float64, device="cuda")
    monkeypatch.setattr(noise_source, "fresh", lambda size: bytearray(secret))
    expected = noise_source.release_in_place(m, location)
    plan, table, cells = noise_source.constants_for(m, location.device)
    wide = plan.clone()
    wide[list(noise_source.packed(noise_source._sampler(m, None).plan)).index("margin")] = 1.0
    monkeypatch.setattr(noise_source, "constants_for", lambda *_: (wide, table, cells))
    assert torch.equal(noise_source.release_in_place(m, location), expected)
    monkeypatch.setattr(noise_source, "word", lambda key, index: index)  # the control: other words, other numbers
    assert not torch.equal(noise_source.release_in_place(m, location), expected)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["unbounded", "truncate", "rectify"])
def test_training_steps_are_released_on_a_coarse_lattice(kind):
    m = step(kind)
    size = _coarse_step(m)
    assert _coarse_step(step("quantize")) is None  # a grid is its own lattice
    assert m.noise.scale * 2.0**-14 < size <= m.noise.scale * 2.0**-12
    drawn = SecureNoise().release(m, torch.zeros(1000, dtype=torch.float64))
    lower, upper = m.shape.ends
    assert bool(((drawn % size == 0.0) | (drawn == lower) | (drawn == upper)).all())
    assert not bool((m.release(np.zeros(100)) % size == 0.0).all())  # the control: a single release has a finer one


@on_gpu
@pytest.mark.parametrize("kind", ["unbounded", "truncate", "rectify"])
def test_on_the_coarse_lattice_numbers_are_seldom_undecided(kind):
    m, count = step(kind), 200_000
    random, location, few = words(count, 7), np.zeros(count), []
    for size in (_coarse_step(m), None):
        margin = 1e3 * noise_source.packed(noise_source._sampler(m, size).plan)["margin"]  # so that they can be counted
        few.append(int(in_kernel(m, random, location, size, margin=margin)[1].sum()))
    assert 20 * few[0] < few[1]


@on_gpu
def test_each_release_has_a_key_of_its_own(monkeypatch):
    keys = []
    monkeypatch.setattr(noise_source, "fresh", lambda size: keys.append(entropy.fresh(size)) or bytearray(keys[-1]))
    location = torch.zeros(100, dtype=torch.float64, device="cuda")
    first, second = (noise_source.release_in_place(step("unbounded"), location) for _ in range(2))
    assert len(keys) == 2
    assert keys[0] != keys[1]
    assert not torch.equal(first, second)


@on_gpu
def test_no_entropy_no_draw(monkeypatch):
    monkeypatch.setattr(entropy.os, "urandom", lambda size: bytes(size))
    with pytest.raises(EntropyUnavailable, match="nothing was drawn"):
        noise_source.release_in_place(step("rectify"), torch.zeros(3, dtype=torch.float64, device="cuda"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_noise_for_a_gpu_is_drawn_there(monkeypatch):
    monkeypatch.setattr(rb.Mechanism, "release", None)
    location = torch.zeros(1000, device="cuda", dtype=torch.float64)
    released = SecureNoise().release(step("truncate"), location)
    assert released.is_cuda
    assert released.unique().numel() > 900  # a lattice of 2^-12 of the scale repeats about 34 of 1000


@on_gpu
def test_the_margin_of_a_rounded_draw_grows_with_the_location_and_with_the_noise():
    """In steps of the coarse lattice: of numbers at 0, fewer are undecided than of those far from it."""
    m, count = step("unbounded"), 100_000
    random, growth = words(count, 9), 1e-6
    found = [in_kernel(m, random, np.full(count, at), margin_growth=growth)[1].mean() for at in (0.0, 0.4)]
    assert found[1] > 1.2 * found[0] > 0.0


def test_all_mechanisms_share_the_tables():
    """Each step has another mechanism where the clipping norm adapts: tables of their own would fill the memory."""
    first, second = (noise_source.constants_for(step(kind), CPU) for kind in ("unbounded", "rectify"))
    assert first[1] is second[1]
    assert not torch.equal(first[0], second[0])
