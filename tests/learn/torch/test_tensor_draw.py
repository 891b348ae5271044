"""The draw in tensors: the cipher against another's, the numbers word for word against the draw of the processor."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import rangebound as rb
from rangebound.errors import EntropyUnavailable
from rangebound.learn.torch import Elementwise, SecureNoise, tensor_draw
from rangebound.learn.torch.noise_source import _coarse_step, step_mechanism
from rangebound.sampling import entropy, sampler_for
from tests.sampling.sources import Repeating, mechanisms, name, words
from tests.statistical.test_goodness_of_fit import p_value

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
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


@pytest.mark.parametrize("device", DEVICES)
def test_the_cipher_is_chacha20(device):
    secret = bytes(range(100, 132))
    key = torch.frombuffer(bytearray(secret), dtype=torch.int32).to(device)
    found = tensor_draw.keystream(key, 1003).cpu().numpy().view(np.uint64)
    assert found.tolist() == [tensor_draw.word(secret, i) for i in range(1003)]


def test_the_first_block_is_the_published_one():
    """RFC 8439, A.1, test vectors 1 and 2: the key of zeros, counters 0 and 1."""
    found = tensor_draw.keystream(torch.zeros(8, dtype=torch.int32), 16).numpy().tobytes().hex()
    assert found.startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    assert found[128:].startswith("9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed")


GAUSSIAN = [m for m in mechanisms() if isinstance(m.noise, rb.Gaussian)] + [step(kind) for kind in BOUNDINGS]
IN_TENSORS = [m for m in GAUSSIAN if tensor_draw._constants(m, torch.device("cpu")) is not None]
ELSEWHERE = [m for m in GAUSSIAN if m not in IN_TENSORS]


def test_most_gaussian_mechanisms_on_one_interval_are_drawn_in_tensors():
    assert len(IN_TENSORS) == 28
    assert all(step(kind) in IN_TENSORS for kind in BOUNDINGS)
    assert len(ELSEWHERE) == 28


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("m", ELSEWHERE, ids=name)
def test_what_has_no_form_in_tensors_is_left_to_the_processor(m, device):
    assert tensor_draw.release_in_place(m, torch.zeros(3, dtype=torch.float64, device=device)) is None


@pytest.mark.few(14)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("m", IN_TENSORS, ids=name)
def test_what_it_decides_is_what_the_processor_draws(m, device):
    size = _coarse_step(m) if IN_TENSORS.index(m) % 2 else None  # on a coarser lattice, and on that of a release
    constants = tensor_draw._constants(m, torch.device(device), size)
    count = 20_000
    answers, random = np.linspace(-9, 9, count), words(count, 3)
    random[:40] >>= np.arange(40, dtype=np.uint64)  # both tails too
    random[40:80] = ~random[:40]
    value, undecided = tensor_draw.drawn(
        *constants, torch.from_numpy(random.view(np.int64)).to(device), torch.from_numpy(answers).to(device)
    )
    sampler, expected = sampler_for(m.noise, m.shape, m.query, size), np.empty(count)
    for start in range(0, count, sampler.chunk):
        part = slice(start, start + sampler.chunk)
        sampler.draw(random[part], answers[part], Repeating(4), expected[part])
    sure = ~undecided.cpu().numpy()
    assert sure.mean() > 0.99
    np.testing.assert_array_equal(value.cpu().numpy()[sure], expected[sure])
    wrong = tensor_draw.drawn(
        constants[0]._replace(scale=1.01 * constants[0].scale, scale_steps=1.01 * constants[0].scale_steps),
        *constants[1:],
        torch.from_numpy(random.view(np.int64)).to(device),
        torch.from_numpy(answers).to(device),
    )[0]
    assert (wrong.cpu().numpy() != expected).any()  # the control: noise that is a little too wide is noticed


def test_every_truncated_step_has_the_form():
    """Also where the ends of the range of the sums are rounded."""
    rng = np.random.default_rng(5)
    for clip, multiplier, width in np.exp(rng.normal(0, 2, (200, 3))).tolist():
        support = rb.Interval(-width * clip * multiplier, width * clip)
        m = step_mechanism(
            clipping=Elementwise(clip=clip), noise_multiplier=multiplier, bounding=rb.TRUNCATE, support=support
        )
        assert tensor_draw._constants(m, torch.device("cpu")) is not None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", BOUNDINGS)
def test_the_released_law(kind, device):
    m, at, count = step(kind), 0.75, 40_000
    drawn = tensor_draw.release_in_place(m, torch.full((count,), at, dtype=torch.float64, device=device)).cpu().numpy()
    cuts = np.linspace(-1.85, 2.9, 9)  # no cut on a point of a grid, no cell of few numbers
    assert p_value(drawn, m, at, cuts) > 1e-8
    assert p_value(drawn, m, at + 0.5, cuts) < 1e-8  # the control: the law at another answer


def test_undecided_numbers_are_settled_with_the_word_that_was_drawn(monkeypatch):
    """With a margin so wide that nothing is decided, every number comes from the balls: and is the same."""
    m, secret = step("truncate"), bytes(range(32))
    location = torch.linspace(-3, 3, 50, dtype=torch.float64)
    monkeypatch.setattr(tensor_draw, "fresh", lambda size: bytearray(secret))
    expected = tensor_draw.release_in_place(m, location)
    plan, table, cells = tensor_draw._constants(m, location.device)
    monkeypatch.setattr(tensor_draw, "_constants", lambda *_: (plan._replace(margin=1.0), table, cells))
    assert torch.equal(tensor_draw.release_in_place(m, location), expected)
    monkeypatch.setattr(tensor_draw, "word", lambda key, index: index)  # the control: other words, other numbers
    assert not torch.equal(tensor_draw.release_in_place(m, location), expected)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["unbounded", "truncate", "rectify"])
def test_training_steps_are_released_on_a_coarse_lattice_and_so_seldom_undecided(kind):
    m = step(kind)
    size = _coarse_step(m)
    assert _coarse_step(step("quantize")) is None  # a grid is its own lattice
    assert m.noise.scale * 2.0**-14 < size <= m.noise.scale * 2.0**-12
    drawn = SecureNoise().release(m, torch.zeros(1000, dtype=torch.float64))
    lower, upper = m.shape.ends
    assert bool(((drawn % size == 0.0) | (drawn == lower) | (drawn == upper)).all())
    assert not bool((m.release(np.zeros(100)) % size == 0.0).all())  # the control: a single release has a finer one
    count = 200_000
    random, location = torch.from_numpy(words(count, 7).view(np.int64)), torch.zeros(count, dtype=torch.float64)
    plan, *tables = tensor_draw._constants(m, torch.device("cpu"), size)
    wider = plan._replace(margin=1e3 * plan.margin)  # by so much that undecided numbers can be counted
    fine, *_ = tensor_draw._constants(m, torch.device("cpu"))
    finer = fine._replace(margin=1e3 * fine.margin)
    coarse = tensor_draw.drawn(wider, *tables, random, location)[1].sum()
    assert 20 * int(coarse) < int(tensor_draw.drawn(finer, *tables, random, location)[1].sum())


def test_each_release_has_a_key_of_its_own(monkeypatch):
    keys = []
    monkeypatch.setattr(tensor_draw, "fresh", lambda size: keys.append(entropy.fresh(size)) or bytearray(keys[-1]))
    location = torch.zeros(100, dtype=torch.float64)
    first, second = (tensor_draw.release_in_place(step("unbounded"), location) for _ in range(2))
    assert len(keys) == 2
    assert keys[0] != keys[1]
    assert not torch.equal(first, second)


def test_no_entropy_no_draw(monkeypatch):
    monkeypatch.setattr(entropy.os, "urandom", lambda size: bytes(size))
    with pytest.raises(EntropyUnavailable, match="nothing was drawn"):
        tensor_draw.release_in_place(step("rectify"), torch.zeros(3, dtype=torch.float64))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_noise_for_a_gpu_is_drawn_there(monkeypatch):
    monkeypatch.setattr(rb.Mechanism, "release", None)
    location = torch.zeros(1000, device="cuda", dtype=torch.float64)
    released = SecureNoise().release(step("truncate"), location)
    assert released.is_cuda
    assert released.unique().numel() > 900  # a lattice of 2^-12 of the scale repeats about 34 of 1000


def test_the_margin_of_a_rounded_draw_grows_with_the_location_and_with_the_noise():
    """0.1 of a step from a cell's end: sure near 0, and not where either of the two is large."""
    line = (-math.inf, math.inf)
    plan = tensor_draw.Numbers(
        answers=line, given=line, outputs=line, collected=line, largest=0.0,
        scale=1.0, scale_steps=1.0, per_step=1.0, margin=0.0, margin_growth=0.01,
    )  # fmt: skip
    for centre, noise, expected in ((0.0, 0.4, True), (20.0, 0.4, False), (0.0, 20.4, False), (20.0, -20.4, False)):
        value, sure = tensor_draw._rounded(plan, torch.tensor([centre]).double(), torch.tensor([noise]).double())
        assert value.item() == round(centre + noise)
        assert sure.item() is expected


@pytest.mark.parametrize("runs", [True, False])
def test_a_graph_that_did_not_run_publishes_nothing(monkeypatch, runs):
    """As one does that was captured on a stream of another device; what it was captured with had a key of zeros."""
    mechanism, location = step("unbounded"), torch.zeros(5, dtype=torch.float64)
    constants = tensor_draw._constants(mechanism, location.device)
    key, own = torch.zeros(8, dtype=torch.int32), location.clone()
    found = tensor_draw._once(constants, key, own)

    def replay():
        for old, new in zip(found, tensor_draw._once(constants, key, own), strict=True):
            if runs:
                old.copy_(new)

    stale = found[0].clone()
    captured = tensor_draw._CapturedDraw(graph=SimpleNamespace(replay=replay), key=key, location=own, found=found)
    monkeypatch.setattr(tensor_draw, "_repeated", lambda m, c, key, at: tensor_draw._replayed(captured, key, at))
    if runs:
        assert not torch.equal(tensor_draw.release_in_place(mechanism, location, graphs=True), stale)
    else:
        with pytest.raises(AssertionError, match="did not run"):
            tensor_draw.release_in_place(mechanism, location, graphs=True)


def test_all_mechanisms_share_the_tables():
    """Each step has another mechanism where the clipping norm adapts: tables of their own would fill the memory."""
    first, second = (tensor_draw._constants(step(kind), torch.device("cpu")) for kind in ("unbounded", "rectify"))
    assert first[1] is second[1]
    assert first[0] != second[0]


def test_no_draw_is_captured_unless_it_was_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(tensor_draw, "_repeated", lambda *given: asked.append(given))
    mechanism, location = step("unbounded"), torch.zeros(5, dtype=torch.float64)
    tensor_draw.release_in_place(mechanism, location)
    assert asked == []
    tensor_draw.release_in_place(mechanism, location, graphs=True)
    assert len(asked) == 1
