"""A group that is not ours is left alone, and the refusal says what to do."""

from cooperator.leader.ownership import (
    GroupPolicy,
    adoption_refusals,
    instance_id,
    log_refusal,
    member_refusal,
)
from cooperator.model import ClusterConfig, ConnectorConfig
from cooperator.wire import AgentReport, Metadata, Owner, Protocol, Role, encode_metadata

OURS = Owner("blue", "data", "lake")
THEIRS = Owner("green", "data", "lake")
EMPTY = ClusterConfig()
USED = ClusterConfig(3, {"jdbc": ConnectorConfig({"connector.class": "x"})})


def metadata(role: Role | None, identity: str = "lake-0") -> bytes:
    agent = AgentReport(role, identity, "incarnation-1") if role else None
    return encode_metadata(Metadata("http://a/", 3, None, agent), Protocol.SESSIONED)


def test_a_new_group_and_our_own_are_led() -> None:
    assert log_refusal(OURS, None, EMPTY, GroupPolicy.CREATE, "g") == ""
    assert log_refusal(OURS, OURS, USED, GroupPolicy.CREATE, "g") == ""


def test_a_group_of_another_owner_is_refused_whatever_the_policy() -> None:
    for policy in GroupPolicy:
        text = log_refusal(OURS, THEIRS, EMPTY, policy, "g")
        assert "green" in text
        assert "spec.groupId" in text
        assert "topic g-leader" in text, "the remedy if the owner is gone"


def test_a_foreign_config_topic_needs_adoption() -> None:
    assert "groupPolicy" in log_refusal(OURS, None, USED, GroupPolicy.CREATE, "g")
    assert log_refusal(OURS, None, USED, GroupPolicy.ADOPT, "g") == ""


def test_the_lead_is_taken_from_our_own_members() -> None:
    members = [("lake-0", metadata(Role.WORKER)), ("lake-1", metadata(Role.WORKER, "lake-1"))]
    assert member_refusal("me", members, GroupPolicy.CREATE, "g") == ""


def test_the_lead_is_never_taken_from_another_cooperator() -> None:
    members = [("x", metadata(Role.LEADER, "cooperator.green"))]
    for policy in GroupPolicy:
        assert "cooperator.green" in member_refusal("me", members, policy, "g")


def test_our_own_earlier_incarnation_is_no_stranger() -> None:
    assert member_refusal("me", [("x", metadata(Role.LEADER, "me"))], GroupPolicy.CREATE, "g") == ""


def test_stock_workers_need_adoption() -> None:
    members = [("connect-1", metadata(None))]
    assert "connect-1" in member_refusal("me", members, GroupPolicy.CREATE, "g")
    assert member_refusal("me", members, GroupPolicy.ADOPT, "g") == ""


def test_stock_workers_that_share_a_client_id_are_led() -> None:
    """They are told apart round by round (``test_identities``)."""
    two = [("connect", metadata(None)), ("connect", metadata(None))]
    assert member_refusal("me", two, GroupPolicy.ADOPT, "g") == ""


def test_stock_workers_of_the_pool_are_ours_and_no_others() -> None:
    def refusal(client_id: str) -> str:
        return member_refusal("me", [(client_id, metadata(None))], GroupPolicy.CREATE, "g", stock_pool="lake")

    assert refusal("lake-0") == refusal("lake-12") == ""
    for foreign in ("lake", "lake-x", "my-lake-0", "connect-1"):
        assert foreign in refusal(foreign)


def test_members_that_the_broker_does_not_describe_are_not_judged() -> None:
    assert member_refusal("me", [("connect-1", b"")], GroupPolicy.CREATE, "g") == ""


def test_the_instance_id_is_one_per_owner_and_legal() -> None:
    odd = Owner("c/1", "n s", "ü" * 300)
    assert instance_id(OURS) != instance_id(THEIRS)
    assert instance_id(odd) == instance_id(odd)
    assert len(instance_id(odd)) <= 249
    assert all(c.isascii() and (c.isalnum() or c in "._-") for c in instance_id(odd))


def test_refusals_of_a_worker_are_known_before_it_is_created() -> None:
    stock = [("connect-1", metadata(None))]
    led = [*stock, ("x", metadata(Role.LEADER, "cooperator.green"))]
    assert adoption_refusals("g", None, stock, ("data", "lake")) == ()
    assert adoption_refusals("g", THEIRS, stock, ("data", "lake")) == (), "its own mark"
    [of_member] = adoption_refusals("g", None, led, ("data", "lake"))
    assert "led by another cooperator (cooperator.green)" in of_member
    [of_log] = adoption_refusals("g", THEIRS, stock, ("data", "pond"))
    assert "belongs to Worker data/lake of cluster 'green'" in of_log
