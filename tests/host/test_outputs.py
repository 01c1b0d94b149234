"""One of several Connectors keeps a directory that they would share."""

import random
from itertools import product

from cooperator.host.outputs import Claim, newly_withheld, withheld


def claim(name: str, *directories: str, rank: int = 0, namespace: str = "default") -> Claim:
    pairs = tuple((directory, f"file:{directory}") for directory in directories)
    return Claim((namespace, name), pairs, (rank,))


def test_the_first_keeps_the_directory_and_the_later_is_told_whose_it_is() -> None:
    found = withheld([claim("late", "/a", "/b", rank=2), claim("early", "/b", rank=1)])
    assert found == {
        (
            "default",
            "late",
        ): "spec.config: it would write to /b, as Connector early does, and a directory belongs to one "
        "Connector: give it another directory; or delete Connector early, and remove that directory or move "
        "it away"
    }
    [inside] = withheld([claim("inner", "/a/b/c", rank=2), claim("outer", "/a", rank=1)]).values()
    assert "would write to /a/b/c, and Connector outer writes to /a, one inside the other" in inside
    [around] = withheld([claim("inner", "/a/b/c", rank=1), claim("outer", "/a", rank=2)]).values()
    assert "would write to /a, and Connector inner writes to /a/b/c, one inside the other" in around
    assert withheld([claim("one", "/a", rank=1), claim("other", "/ab", rank=2)]) == {}
    [elsewhere] = withheld([claim("a", "/a", rank=1, namespace="x"), claim("a", "/a", rank=2)]).values()
    assert "as Connector a of namespace x does" in elsewhere


def test_a_connector_that_does_not_start_blocks_no_other() -> None:
    claims = [claim("a", "/a", rank=1), claim("b", "/a", "/b", rank=2), claim("c", "/b", rank=3)]
    assert set(withheld(claims)) == {("default", "b")}


def test_running_connectors_share_no_directory_and_each_withheld_one_meets_an_earlier_one() -> None:
    for seed in range(300):
        seeded = random.Random(seed)
        claims = [
            claim(
                f"c{number}",
                *seeded.sample(("/a", "/a/b", "/a/b/c", "/ab", "/b", "/b/a"), seeded.randrange(3)),
                rank=seeded.randrange(4),
            )
            for number in range(seeded.randrange(8))
        ]
        found = withheld(claims)
        assert withheld(seeded.sample(claims, len(claims))) == found, "no matter who is looked at first"
        runs = [each for each in claims if each.connector not in found]

        def meet(one: Claim, other: Claim) -> bool:
            return any(
                f"{a}/".startswith(f"{b}/") or f"{b}/".startswith(f"{a}/")
                for (_, a), (_, b) in product(one.outputs, other.outputs)
            )

        assert not any(meet(a, b) for a in runs for b in runs if a is not b), seed
        for each in claims:
            if each.connector in found:
                order = (each.rank, each.connector)
                assert any(meet(each, other) and (other.rank, other.connector) < order for other in runs)


def test_connectors_that_always_shared_a_directory_may_change() -> None:
    before = [claim("a", "/a", rank=1), claim("b", "/a", rank=2)]
    assert newly_withheld(before, before) == {}
    assert set(newly_withheld(before, [*before, claim("c", "/a", rank=3)])) == {("default", "c")}
    # However old it is: a Connector that gets a directory anew comes after its owner.
    before = [claim("a", "/a", rank=1), claim("b", "/b", rank=2)]
    assert set(newly_withheld(before, [claim("a", "/b", rank=1), before[1]])) == {("default", "a")}
