"""The three routes of the draw agree word for word: kernel, NumPy, ball arithmetic."""

import dataclasses
import math
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import rangebound as rb
from rangebound.laws.boundings import Shape
from rangebound.sampling import sampler_for
from rangebound.sampling.inversion import Drawn, rounded, weighed_gaussian
from tests.sampling.sources import RANGES, Repeating, mechanisms, name, random_mechanisms, words
from tests.thinning import crossed, some_pairs

INF = math.inf
STEPS = (None, 0.01, 0.3)


@pytest.mark.few(3)
@pytest.mark.parametrize("m", mechanisms(RANGES[:1]), ids=name)
def test_floats_and_balls_agree_word_by_word(m):
    """The slow path, forced for every word as by an endless margin, gives what the fast path decides."""
    for step in STEPS if m.shape.spans else STEPS[:1]:
        s = sampler_for(m.noise, m.shape, m.query, step)
        count = 40
        drawn, undecided = s.estimate(words(count, 1), m.query.clip(np.linspace(-4, 5, count)))
        assert undecided.mean() < 0.2
        for i, word in enumerate(words(count, 1).tolist()):
            answer = m.query.clip(np.linspace(-4, 5, count)[i]).item()
            guess = float(drawn[i]) if i % 2 else math.nan  # a guess only saves time
            exact = s.fallback(word, answer, guess, Repeating(2))
            assert undecided[i] or exact == drawn[i]


@pytest.mark.few(6)
@pytest.mark.parametrize("m", mechanisms(RANGES[::2]), ids=name)
def test_kernel_and_numpy_agree_word_by_word(m):
    pytest.importorskip("rangebound.sampling._kernel", reason="installed without a compiler")
    for step in STEPS if m.shape.spans else STEPS[:1]:
        s = sampler_for(m.noise, m.shape, m.query, step)
        if s.compiled is None:
            continue
        count = 20_000
        answers, random = np.linspace(-5, 6, count), words(count, 3)
        random[:40] >>= np.arange(40, dtype=np.uint64)  # both tails too
        random[40:80] = ~random[:40]
        by_kernel, by_numpy = np.empty(count), np.empty(count)
        s.draw(random, answers, Repeating(4), by_kernel)
        reference = dataclasses.replace(s, compiled=None)
        reference.draw(random, answers, Repeating(4), by_numpy)
        np.testing.assert_array_equal(by_kernel, by_numpy)
        ones = [s.draw_one(answers[i], Given(int(random[i]), Repeating(4))) for i in range(1000, 1100)]
        np.testing.assert_array_equal(ones, by_numpy[1000:1100])


def decided(m, answers, random, step=None):
    """What the draw makes of these words, which is what balls decide for each of them."""
    s, out = sampler_for(m.noise, m.shape, m.query, step), np.empty(len(random))
    s.draw(random, answers, Repeating(1), out)
    given = zip(random.tolist(), m.query.clip(answers).tolist(), out.tolist(), strict=True)
    np.testing.assert_array_equal(out, [s.fallback(*each, Repeating(1)) for each in given])
    return out


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.long)])
def test_what_is_published_is_what_balls_decide_for_random_parameters(count):
    for seed, (m, step) in enumerate(random_mechanisms(count)):
        shift = 5 * m.noise.scale * np.random.default_rng(seed).uniform(-1, 2, 20)
        decided(m, m.query.range.hull.lower + shift, words(20, seed), step)


class Given:
    def __init__(self, first, source):
        self._first, self._source = [first], source

    def word(self):
        return self._first.pop() if self._first else self._source.word()


def test_a_wrong_formula_is_noticed():
    """The control: noise one part in a thousand too wide disagrees with the balls."""
    query = rb.Query(range=rb.Interval(-3, 4), sensitivity=1.0)
    right = rb.Mechanism(noise=rb.Laplace(scale=0.8), query=query)
    wrong = rb.Mechanism(noise=rb.Laplace(scale=0.8008), query=query)
    s, other = (sampler_for(m.noise, m.shape, m.query, 2.0**-21) for m in (right, wrong))
    answers, random = np.linspace(-3, 4, 50), words(50, 1)
    drawn, _ = other.estimate(random, answers)
    exact = [s.fallback(w, a, math.nan, Repeating(1)) for w, a in zip(random.tolist(), answers.tolist(), strict=True)]
    assert (np.array(exact) != drawn).mean() > 0.9


@crossed(
    {
        "support": [rb.Interval(-1, 2), rb.Interval(0.1, INF), rb.Interval(-INF, 3)],
        "spread": [3.0, 20.0, 1e3, 1e9, 1e100],
    },
    ids=repr,
)
def test_locations_far_from_the_support(support, spread):
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=0.8), query=query, support=support)
    answers, random = spread * np.linspace(-2, 2, 40), words(40, 5)
    assert not sampler_for(m.noise, m.shape, m.query).estimate(random, answers)[1].any()
    decided(m, answers, random)


def test_spans_out_of_the_reach_of_floats_are_left_to_balls():
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=query, support=rb.Union((0, 1), (2, 3)))
    assert m.release(-1e6) == pytest.approx(0.0, abs=1e-4)
    assert m.release(1e6) == pytest.approx(3.0, abs=1e-4)


def test_more_bits_are_asked_for_when_a_word_does_not_tell():
    """The first words of the left tail: 64 bits leave the number open, so the source is asked again."""
    m = rb.Mechanism(
        noise=rb.Laplace(scale=1.0), query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0), bounding=rb.UNBOUNDED
    )
    s = sampler_for(m.noise, m.shape, m.query)

    class Counting(Repeating):
        asked = 0

        def word(self):
            self.asked += 1
            return super().word()

    sources = [Counting(seed) for seed in range(5)]
    found = [s.fallback(0, 0.5, math.nan, source) for source in sources]
    assert all(source.asked for source in sources)
    assert len(set(found)) == 5
    assert max(found) < 0.5 - 42.0


@pytest.mark.parametrize("noise", [rb.Laplace(scale=1.0), rb.Gaussian(scale=1.0)], ids=repr)
def test_undecided_draws_are_as_rare_as_promised(noise):
    m = rb.Mechanism(noise=noise, query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))
    s = sampler_for(m.noise, m.shape, m.query)
    count = 2**20
    _, undecided = s.estimate(words(count, 6), np.linspace(0, 10, count))
    assert undecided.sum() < 20  # 3 expected


@pytest.mark.few(7)
@pytest.mark.parametrize("family", [rb.Laplace, rb.Gaussian])
@pytest.mark.parametrize(
    ("start", "scale", "low", "high"),
    [
        *((1.0, 1.0, 0.0, ratio) for ratio in (1e-3, 1e-6, 1e-12, 1e6)),  # supports much narrower or wider
        *((place, abs(place) * 1e-12, -5.0, 7.0) for place in (1e15, -3e200, 1e-200)),  # places much larger or smaller
    ],
)
def test_supports_and_places_of_another_size_than_the_scale(family, start, scale, low, high):
    ends = start + low * scale, start + high * scale
    m = rb.Mechanism(noise=family(scale=scale), query=rb.Query(range=rb.Interval(*ends), sensitivity=1.0))
    assert len(set(decided(m, np.linspace(*ends, 30), words(30, 7)))) > 20


@pytest.mark.few(4)
@crossed({"power": range(44, 60), "sign": [-1.0, 1.0]})
def test_places_as_many_steps_away_as_doubles_can_count(power, sign):
    """Around 2^52 steps from zero, where a double has no digits left behind the point."""
    place = sign * 1.37 * 2.0**power
    query = rb.Query(range=rb.Interval(place - 9.0 * 2**20, place + 9.0 * 2**20), sensitivity=1.0)
    for noise in (rb.Laplace(scale=2.0**20), rb.Gaussian(scale=2.0**20)):
        for bounding in (rb.TRUNCATE, rb.RECTIFY):
            m = rb.Mechanism(noise=noise, query=query, bounding=bounding)
            decided(m, place + 2.0**20 * np.linspace(-8, 8, 20), words(20, 9), 1.0)


EXTREMES = np.array([0.0, 5e-324, -5.0, 50.0, -1e4, 1e9, -1e300, 1.79e308, -1.79e308])


@pytest.mark.few(1)
@pytest.mark.parametrize(("family", "scale"), some_pairs([rb.Laplace, rb.Gaussian], [1e300, 1e6, 1e-3], of=2))
def test_numbers_at_the_end_of_the_doubles(family, scale):
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0)
    grid = rb.Grid(step=0.1, within=rb.Interval(-1, 2))
    for support in (rb.Interval(-1, 2), rb.Interval(0, INF), rb.Interval(-INF, INF), grid):
        for bounding in (rb.TRUNCATE, rb.QUANTIZE if support is grid else rb.RECTIFY):
            m = rb.Mechanism(noise=family(scale=scale), query=query, support=support, bounding=bounding)
            published = m.release(EXTREMES)
            assert np.isfinite(published).all()
            assert ((published >= support.hull.lower) & (published <= support.hull.upper)).all()


@pytest.mark.parametrize("centre", [0.0, 1000.0, -1000.0])
@pytest.mark.parametrize("noise", [0.0, 20.0, -20.0])
def test_a_number_nearer_to_the_edge_of_a_cell_than_its_margin_is_undecided(centre, noise):
    """The margin grows with the size of the location and of the noise, in steps of the lattice."""
    plan = SimpleNamespace(
        outputs=(-INF, INF),
        collected=(-INF, INF),
        lattice=Fraction(1),
        scale_steps=1.0,
        per_step=1.0,
        margin=1e-3,
        margin_growth=1e-4,
    )
    margin = 1e-3 + 1e-4 * (abs(centre) + abs(noise))
    for away, sure in ((0.9 * margin, False), (1.1 * margin, True)):
        drawn = Drawn(np.array([centre]), np.array([noise + 0.5 - away]), np.array([True]))
        assert rounded(plan, drawn)[1].tolist() == [not sure]


def test_words_at_the_edge_between_two_points_are_undecided():
    """The running sum of Gaussian weights decides no word so close to where one point ends and the next begins."""
    noise, shape = rb.Gaussian(scale=0.8), Shape(points=(0.0, 0.5, 1.0, 1.5), normalised=True)

    def drawn(word):
        found, undecided = weighed_gaussian(noise, shape, np.array([word], dtype=np.uint64), np.array([0.6]))
        return found[0], undecided[0]

    for before, after in pairwise(shape.points):
        low, high = 0, 2**64 - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if drawn(middle)[0] <= before else (low, middle)
        assert drawn(low) == (before, True)
        assert drawn(high) == (after, True)
        assert drawn(high + 2**40) == (after, False)  # the control: further from the edge it is decided
