"""Incarnations of stock workers: which member ids end with a pod, and which never end before it."""

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cooperator.host.stock import StockIncarnations


def leader(*members: str, incarnations: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
    """A projection with members named like ``lake-0/a``, and incarnations that are only remembered."""
    facts = [dict(zip(("identity", "member_id"), name.split("/"), strict=True)) for name in members]
    return {
        "members": [{**each, "incarnation": each["member_id"], "is_agent": False} for each in facts],
        "incarnations": [
            *([each["identity"], each["member_id"]] for each in facts),
            *map(list, incarnations),
        ],
    }


def test_the_end_of_a_pod_is_the_end_of_the_member_it_was() -> None:
    incarnations = StockIncarnations().seen(leader("lake-0/a", "lake-1/b"), {"lake-0": "p0", "lake-1": "p1"})

    assert incarnations.ended({("lake-0", "p0")}) == {("lake-0", "a")}
    assert incarnations.ended({("lake-0", "another")}) == frozenset()


def test_the_next_pods_member_has_not_ended_with_the_one_before() -> None:
    incarnations = StockIncarnations().seen(leader("lake-0/a"), {"lake-0": "p0"})
    incarnations = incarnations.seen(leader("lake-0/b", incarnations=[("lake-0", "a")]), {"lake-0": "p1"})

    assert incarnations.ended({("lake-0", "p0")}) == {("lake-0", "a")}


def test_a_member_whose_pod_has_gone_without_proof_has_not_ended() -> None:
    incarnations = StockIncarnations().seen(leader("lake-0/a"), {"lake-0": "p0"})
    incarnations = incarnations.seen(leader("lake-0/b", incarnations=[("lake-0", "a")]), {"lake-0": "p1"})

    assert incarnations.ended({("lake-0", "p1")}) == {("lake-0", "b")}


def test_a_worker_that_the_broker_has_dropped_is_over_under_its_old_id_once_it_is_back() -> None:
    pods = {"lake-0": "p0"}
    incarnations = StockIncarnations().seen(leader("lake-0/a"), pods)
    incarnations = incarnations.seen(leader(incarnations=[("lake-0", "a")]), pods)
    assert incarnations.ended(()) == frozenset(), "it may run on"

    incarnations = incarnations.seen(leader("lake-0/b", incarnations=[("lake-0", "a")]), pods)

    assert incarnations.ended(()) == {("lake-0", "a")}


def test_two_members_of_one_name_are_both_alive_while_both_are_members() -> None:
    pods = {"lake-0": "p0"}
    incarnations = (
        StockIncarnations().seen(leader("lake-0/a"), pods).seen(leader("lake-0/a", "lake-0/b"), pods)
    )

    assert incarnations.ended(()) == frozenset()


def test_a_foreign_worker_is_never_reported_as_ended() -> None:
    incarnations = StockIncarnations().seen(leader("connect-1/a", "lake-0/b"), {"lake-0": "p0"})

    assert incarnations.ended({("connect-1", "a"), ("connect-1", "p0")}) == frozenset()


def test_the_pool_reads_its_own_names_and_of_two_of_one_name_the_newer() -> None:
    pods = {"lake-0": "p0"}
    now = leader("lake-0/a", "lake-0/b", "connect-1/c")
    incarnations = StockIncarnations().seen(leader("lake-0/a"), pods).seen(now, pods)

    facts = incarnations.in_pool_names(now)

    assert [(m["identity"], m["incarnation"]) for m in facts["members"]] == [
        ("lake-0", "p0"),
        ("connect-1", "c"),
    ]


def test_a_hanging_worker_is_named_by_its_pod_even_after_it_left() -> None:
    pods = {"lake-0": "p0"}
    facts = {**leader(incarnations=[("lake-0", "a")]), "hung": [{"identity": "lake-0", "incarnation": "a"}]}
    incarnations = StockIncarnations().seen(leader("lake-0/a"), pods).seen(facts, pods)

    assert incarnations.in_pool_names(facts)["hung"] == [{"identity": "lake-0", "incarnation": "p0"}]


def test_a_leader_that_does_not_answer_changes_nothing() -> None:
    incarnations = StockIncarnations().seen(leader("lake-0/a"), {"lake-0": "p0"})

    assert incarnations.seen({}, {"lake-0": "p1"}) == incarnations
    assert incarnations.in_pool_names({"settled": False}) == {"settled": False}


@given(st.lists(st.sampled_from(["joins", "drops", "dies", "looks"]), max_size=30))
def test_reported_ends_are_true(steps: list[str]) -> None:
    """One worker: dropped and back, dead and made again; the leader is looked at late."""
    number, pod, member = 0, 0, ""
    members: list[str] = []
    ended_pods: set[tuple[str, str]] = set()
    incarnations = StockIncarnations()
    for step in steps:
        if step == "joins" and not member:
            number += 1
            member = f"m{number}"
            members.append(member)
        elif step == "drops":
            # Alive still, and no member until it joins under another id.
            member = ""
        elif step == "dies":
            # Its end is seen after all that it has been was; only then there is another.
            incarnations = incarnations.seen(_projection(members, member), {"lake-0": f"p{pod}"})
            ended_pods.add(("lake-0", f"p{pod}"))
            assert {("lake-0", each) for each in members} <= incarnations.ended(ended_pods)
            pod, member = pod + 1, ""
        incarnations = incarnations.seen(_projection(members, member), {"lake-0": f"p{pod}"})
        assert ("lake-0", member) not in incarnations.ended(ended_pods)


class TestTwoPodsOfOneNameThatRunAtATime:
    """The first one was deleted by force, on a machine that its kubelet does not reach."""

    STEPS = ("joins", "drops", "dies", "forced")
    HOSTS = MappingProxyType({("lake-0", "p0"): "10.0.0.1", ("lake-0", "p1"): "10.0.0.2"})

    def test_one_that_joins_again_under_another_id_has_not_ended_with_its_successor(self) -> None:
        first = serving(leader("lake-0/a"), a="10.0.0.1")
        both = serving(
            leader("lake-0/b", "lake-0/c", incarnations=[("lake-0", "a")]), b="10.0.0.1", c="10.0.0.2"
        )
        incarnations = StockIncarnations().seen(first, {"lake-0": "p0"}, self.HOSTS)
        incarnations = incarnations.seen(both, {"lake-0": "p1"}, self.HOSTS)

        assert incarnations.ended({("lake-0", "p1")}) == {("lake-0", "c")}
        assert incarnations.ended({("lake-0", "p0")}) == {("lake-0", "a"), ("lake-0", "b")}
        assert [each["incarnation"] for each in incarnations.in_pool_names(both)["members"]] == ["p1"]

    def test_one_at_an_address_that_no_pod_is_known_to_have_has_not_ended_with_any(self) -> None:
        unknown = serving(leader("lake-0/a"), a="10.0.0.9")
        incarnations = StockIncarnations().seen(unknown, {"lake-0": "p1"}, self.HOSTS)

        assert incarnations.ended({("lake-0", "p0"), ("lake-0", "p1")}) == frozenset()
        assert incarnations.in_pool_names(unknown)["members"][0]["incarnation"] == "a"

    def test_one_whose_pod_gets_its_address_later_is_known_from_then_on(self) -> None:
        member = serving(leader("lake-0/a"), a="fd00::1")
        incarnations = StockIncarnations().seen(member, {"lake-0": "p0"}, {("lake-0", "p0"): ""})
        assert incarnations.ended({("lake-0", "p0")}) == frozenset()

        incarnations = incarnations.seen(member, {"lake-0": "p0"}, {("lake-0", "p0"): "fd00::1"})

        assert incarnations.ended({("lake-0", "p0")}) == {("lake-0", "a")}

    @given(st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from([1, 2])), min_size=8, max_size=30))
    def test_reported_ends_are_true(self, steps: list[tuple[str, int]]) -> None:
        """``joins``: under another id. ``forced``: the newest pod's object is deleted, its process runs on,
        and a successor is made."""
        pods = [Process("p0")]
        members: dict[str, Process] = {}
        ended: set[tuple[str, str]] = set()
        incarnations = StockIncarnations()
        for what, number in steps:
            process = pods[-min(number, len(pods))]
            if what == "joins" and process.runs:
                process.member = f"m{len(members)}"
                members[process.member] = process
            elif what == "drops":
                process.member = ""
            elif what == "dies":
                process.runs, process.member = False, ""
                # Nobody sees the end of one whose object is gone.
                ended |= {("lake-0", process.pod)} if process is pods[-1] else set()
            if what == "forced" or not pods[-1].runs:
                pods.append(Process(f"p{len(pods)}"))
            present = [process.member for process in pods if process.member]
            past = [("lake-0", each) for each in members if each not in present]
            told = leader(*(f"lake-0/{each}" for each in present), incarnations=past)
            told = serving(told, **{each: members[each].host for each in present})
            newest = pods[-1]
            hosts = {("lake-0", newest.pod): newest.host}
            incarnations = incarnations.seen(told, {"lake-0": newest.pod}, hosts)
            for identity, member_id in incarnations.ended(ended):
                process = members[member_id]
                rejoined = process.member not in ("", member_id)
                assert not process.runs or rejoined, f"{identity} {member_id} runs in {process.pod}"


@dataclass
class Process:
    """The process of a pod. ``member``: its present member id."""

    pod: str
    runs: bool = True
    member: str = ""

    @property
    def host(self) -> str:
        return f"10.0.0.{self.pod}"


def serving(projection: dict[str, Any], **hosts: str) -> dict[str, Any]:
    """A projection whose members, by id, serve at these hosts."""
    return {**projection, "addresses": {member_id: f"{host}:8083" for member_id, host in hosts.items()}}


def _projection(members: list[str], present: str) -> dict[str, Any]:
    past = [("lake-0", each) for each in members if each != present]
    return leader(*([f"lake-0/{present}"] if present else []), incarnations=past)
