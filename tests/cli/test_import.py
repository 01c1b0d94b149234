"""Refusals of ``cooperator import`` name the option, its value and the remedy."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cooperator.cli import import_command
from cooperator.cli.app import program
from cooperator.crd import parse
from cooperator.group import DescribedGroup, DescribedMember, GroupState
from cooperator.local.broker import EmbeddedBroker
from cooperator.logs import LeaderRecords, LogsRead
from cooperator.model import ClusterConfig
from cooperator.wire import AgentReport, Metadata, Owner, Protocol, Role, encode_metadata


def refused(*words: object) -> str:
    result = CliRunner().invoke(program(), ["import", *map(str, words)])
    assert result.exit_code == 1, result.output
    return " ".join(result.output.split())


@pytest.mark.real
def test_a_group_that_does_not_exist(broker: EmbeddedBroker, unique: str) -> None:
    said = refused("--bootstrap-servers", broker.bootstrap_servers, "--group", unique)
    assert f"group '{unique}' does not exist" in said
    assert "check --group" in said


def test_a_group_whose_name_no_worker_can_have() -> None:
    said = refused("--bootstrap-servers", "127.0.0.1:1", "--group", "My_Group")
    assert "--name" in said


def test_a_password_that_is_missing(tmp_path: Path) -> None:
    empty = tmp_path / "password"
    empty.touch()
    where = ("--bootstrap-servers", "127.0.0.1:1", "--group", "etl")
    assert f"--password-file {empty}: is empty" in refused(*where, "--password-file", empty)
    assert "requires --sasl-mechanism" in refused(*where, "--security-protocol", "SASL_SSL")


OTHER = Owner("production", "pipelines", "etl")
LED = Metadata("http://elsewhere/", 0, None, AgentReport(Role.LEADER, "cooperator.production", "1"))


@pytest.mark.parametrize(
    ("owner", "members", "said"),
    [
        (OTHER, (), "belongs to Worker pipelines/etl of cluster 'production'"),
        (None, (LED,), "is led by another cooperator (cooperator.production)"),
        (Owner("production", "default", "etl"), (), ""),
        (None, (), ""),
    ],
)
def test_a_group_of_another_manager_is_imported_with_the_refusal_to_lead_it(
    owner: Owner | None, members: tuple[Metadata, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = tuple(
        DescribedMember(f"m-{n}", None, f"c-{n}", "/127.0.0.1", encode_metadata(each, Protocol.SESSIONED))
        for n, each in enumerate(members)
    )
    group = DescribedGroup(GroupState.STABLE, "connect", "sessioned", described)
    read = LogsRead(ClusterConfig(offset=3), LeaderRecords(owner=owner), 4)
    monkeypatch.setattr(import_command, "describe_group", lambda *_: group)
    monkeypatch.setattr(import_command, "read_logs", lambda *_: read)
    done = CliRunner().invoke(
        program(), ["import", "--bootstrap-servers", "127.0.0.1:1", "--group", "etl", "--name", "etl"]
    )
    assert done.exit_code == 0, done.output
    in_file, on_stderr = done.stdout, done.stderr
    assert parse(in_file, "stdout"), "the file can be applied once the refusal is settled"
    refusals = [line for line in in_file.splitlines() if line.startswith("# This group cannot be led: ")]
    assert [said in line for line in refusals] == ([True] if said else [])
    assert on_stderr.count("this group cannot be led: ") == len(refusals)
    assert said in on_stderr
