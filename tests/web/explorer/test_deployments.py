"""What others have used: every line has a unit and a source, and the numbers are those of the sources."""

import math
import re

import numpy

from rangebound.web.explorer.page_server import deployments


def test_every_deployment_has_unit_and_source():
    found = deployments()
    assert len({(each["who"], each["what"]) for each in found}) == len(found) >= 8
    for each in found:
        assert each["unit"]
        assert each["source"]
        assert each["link"].startswith("https://")
        assert 0.0 < each["epsilon"] < 100.0
        assert 0.0 <= each["delta"] < 1e-4
    assert [each["epsilon"] for each in found] == sorted(each["epsilon"] for each in found)


def converted(rho, delta):
    """The epsilon of zCDP at a delta [canonne2020, Cor 13], over a fine grid of orders."""
    order = numpy.linspace(1.01, 400.0, 100_000)
    spare = order * numpy.log1p(-1.0 / order) - numpy.log(order - 1.0) - numpy.log(delta)
    return float(numpy.min(order * rho + spare / (order - 1.0)))


def agrees(epsilon, rho, delta):
    """Between the best conversion, for a rho that was rounded, and the first one that was published."""
    return 0.95 * converted(rho, delta) <= epsilon <= 1.01 * (rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta)))


def test_a_rho_that_is_named_gives_the_epsilon_beside_it():
    named = [(each, re.search(r"rho = ([\d.]+)", each["note"])) for each in deployments()]
    found = [(each["epsilon"], float(rho[1]), each["delta"]) for each, rho in named if rho]
    assert len(found) >= 3
    for epsilon, rho, delta in found:
        assert agrees(epsilon, rho, delta)
        assert not agrees(2.0 * epsilon, rho, delta)  # the control
        assert not agrees(0.5 * epsilon, rho, delta)
