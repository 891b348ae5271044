"""What others have used: every line has a unit and a source, and the numbers are those of the sources."""

from rangebound.explore.deployments import deployments


def test_every_deployment_has_unit_and_source():
    found = deployments()
    assert len({(each.who, each.what) for each in found}) == len(found) >= 8
    for each in found:
        assert each.unit
        assert each.source
        assert each.link.startswith("https://")
        assert 0.0 < each.epsilon < 100.0
        assert 0.0 <= each.delta < 1e-4
    assert [each.epsilon for each in found] == sorted(each.epsilon for each in found)


def test_the_census_spent_what_its_total_says():
    census = [each.epsilon for each in deployments() if "Census" in each.who]
    assert round(sum(census), 2) == 19.61
