"""What an error of PostgreSQL is about is decided for each class of SQLSTATEs."""

import re
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg import errors

from cooperator.connectors.microbatch.batches import FailureKind
from cooperator.connectors.microbatch.spark_batches import failure_of
from cooperator.connectors.postgres_states import CLASSES, STATES, Meaning, meaning, meaning_of

CODE = re.compile(r"[0-9A-Z]{5}\Z")
KNOWN = {
    found.sqlstate: name
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, psycopg.Error) and CODE.match(found.sqlstate or "")
}
"""The SQLSTATEs of PostgreSQL's documentation, as its client has them."""


def test_each_class_that_the_server_has_is_decided_and_no_other() -> None:
    used = {state[:2] for state in KNOWN}
    assert len(KNOWN) > 240
    assert used <= CLASSES.keys()
    # Those that are no errors are in no client.
    assert CLASSES.keys() - used <= {"00", "01"}
    assert STATES.keys() <= KNOWN.keys()
    assert all(STATES[state] is not CLASSES[state[:2]] for state in STATES), "its class has the same"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("08006", Meaning.PASSES),
        ("0A000", Meaning.ROW),
        ("20000", Meaning.ROW),
        ("21000", Meaning.ROW),
        ("22P02", Meaning.ROW),
        ("23514", Meaning.ROW),
        ("25006", Meaning.PASSES),
        ("25P02", Meaning.SCHEMA),
        ("25P03", Meaning.PASSES),
        ("28P01", Meaning.LOGIN),
        ("38000", Meaning.ROW),
        ("3D000", Meaning.LOGIN),
        ("40P01", Meaning.PASSES),
        ("42501", Meaning.ROW),
        ("42703", Meaning.SCHEMA),
        ("42804", Meaning.SCHEMA),
        ("428C9", Meaning.SCHEMA),
        ("42P01", Meaning.SCHEMA),
        ("42P10", Meaning.SCHEMA),
        ("44000", Meaning.ROW),
        ("53100", Meaning.PASSES),
        ("54000", Meaning.ROW),
        ("55000", Meaning.PASSES),
        ("55P03", Meaning.PASSES),
        ("57P01", Meaning.PASSES),
        ("58030", Meaning.PASSES),
        ("HV000", Meaning.SCHEMA),
        ("HV00N", Meaning.PASSES),
        ("P0001", Meaning.ROW),
        ("P0004", Meaning.ROW),
        ("XX000", Meaning.PASSES),
        ("C0DED", Meaning.ROW),  # a function's own
    ],
)
def test_a_state_has_the_meaning_of_its_class_or_its_own(state: str, expected: Meaning) -> None:
    assert meaning_of(state) is expected


@pytest.mark.parametrize("state", sorted(KNOWN))
def test_what_a_function_raises_may_be_due_to_a_row_whatever_its_state_is(state: str) -> None:
    raised = meaning_of(state, "exec_stmt_raise")
    is_repeated = state.startswith("40") or state == "55P03"
    assert raised is (Meaning.PASSES if is_repeated else Meaning.ROW), KNOWN[state]


def test_errors_without_a_state_are_those_of_the_client() -> None:
    assert meaning(psycopg.OperationalError("gone")) is Meaning.PASSES
    assert meaning(psycopg.DataError("U+0000")) is Meaning.ROW
    assert meaning(psycopg.InterfaceError("closed")) is Meaning.SCHEMA
    raised: Any = SimpleNamespace(sqlstate="42501", diag=SimpleNamespace(source_function="aclcheck_error"))
    assert meaning(raised) is Meaning.ROW


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("40001", FailureKind.RETRIABLE),
        ("23505", FailureKind.REFUSED),
        ("42703", FailureKind.REFUSED),
        ("28P01", FailureKind.FAILED),
    ],
)
def test_what_sparks_tasks_report_is_judged_in_the_same_way(state: str, kind: FailureKind) -> None:
    told = {"kind": "database", "error": "ERROR", "state": state, "routine": ""}
    assert failure_of(told) == (kind, "ERROR")
    assert failure_of({"kind": "rows", "error": "x"}) == (FailureKind.ROWS, "x")
