"""Refusals of ``cooperator import`` name the option, its value and the remedy."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cooperator.cli.app import program
from cooperator.local.broker import EmbeddedBroker


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
