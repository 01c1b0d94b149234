"""Fields of a Worker reach the command line of its members."""

from cooperator.host.member import member_options
from tests.controller.workers import worker


def test_a_revocation_timeout_reaches_members_and_the_default_replaces_none() -> None:
    assert "--revocation-timeout-ms" not in member_options(worker(), "kafka:9092")
    words = list(member_options(worker("{revocationTimeoutMs: 9000}"), "kafka:9092"))
    assert words[words.index("--revocation-timeout-ms") + 1] == "9000"
