"""``kubectl cooperator state`` and the operator's side of it, over one Connector in memory."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from cooperator.cli.kubectl import requests, state
from cooperator.connectors.state_query import StateQuery
from cooperator.controller.api.kubeconfig import ClusterAddress
from cooperator.rest.answers import RequestRefused
from tests.cli.test_kubectl_offsets import Cluster

COUNTS = {"ada": 3, "bob": 1}
Ask = Callable[..., Result]


class Counting(Cluster):
    """A cluster whose connector counts by user."""

    def state(self, name: str, config: Any, query: StateQuery) -> dict[str, Any]:
        if query.unit:
            raise RequestRefused(400, f"unit {query.unit!r} is not a unit of copy: use one of unit-0")
        about = {"unit": "unit-0", "batch": 4, "operator": 0, "kind": "stateStoreSave", "part": ""}
        rows = [{**about, "key": {"user": user}, "value": {"count": n}} for user, n in COUNTS.items()]
        asked = [row for row in rows if query.keys.get("user") in (None, row["key"]["user"])]
        return {"rows": asked[: query.limit], "cut": len(asked) > query.limit}


@pytest.fixture
def cluster() -> Counting:
    return Counting()


@pytest.fixture
def ask(cluster: Counting, monkeypatch: pytest.MonkeyPatch) -> Ask:
    place = ClusterAddress(cluster, "n", ())  # type: ignore[arg-type]
    monkeypatch.setattr(state, "connect", lambda *_: place)
    monkeypatch.setattr(requests, "_POLL_S", 0.001)
    app = typer.Typer()
    app.command()(state.state)
    return lambda *words: CliRunner().invoke(app, words)


def test_rows_are_a_table_or_json_and_nothing_of_them_stays(ask: Ask, cluster: Counting) -> None:
    cluster.target = "Running"
    found = ask("copy", "--key", "user=ada")
    assert (found.exit_code, found.stdout) == (
        0,
        "UNIT     BATCH   OPERATOR           KEY               VALUE\n"
        'unit-0   4       0 stateStoreSave   {"user": "ada"}   {"count": 3}\n',
    )
    as_json = json.loads(ask("copy", "-o", "json").stdout)
    assert ({row["key"]["user"]: row["value"]["count"] for row in as_json["rows"]}, as_json["cut"]) == (
        COUNTS,
        False,
    )
    assert cluster.annotations == {}, "rows of users do not stay in the object"


def test_an_unknown_key_has_no_rows(ask: Ask) -> None:
    found = ask("copy", "--key", "user=eve", "-o", "json")
    assert (found.exit_code, json.loads(found.stdout)) == (0, {"rows": [], "cut": False})


def test_a_cut_answer_says_so(ask: Ask) -> None:
    found = ask("copy", "--limit", "1")
    assert found.exit_code == 0
    assert len(found.stdout.splitlines()) == 2
    assert "there is more: name a --key, --unit or --operator, or raise --limit" in found.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--key", "ada"), "--key is 'ada': write COLUMN=VALUE, such as user=ada"),
        (("--key", "a=1", "--key", "a=2"), "--key names the column 'a' twice: give it one value"),
        (("--unit", "u-9"), "unit 'u-9' is not a unit of copy: use one of unit-0"),
    ],
)
def test_a_wrong_question_is_refused_with_the_remedy(ask: Ask, words: tuple[str, ...], said: str) -> None:
    found = ask("copy", *words)
    assert (found.exit_code, said in found.stderr) == (1, True)
