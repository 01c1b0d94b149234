"""Clients of librdkafka end on a thread of ours, whoever still refers to them (docs/decisions/134)."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "operator" / "cooperator"

OWNERS = {
    ("logs/kafka/settings.py", "consumer"): "the reader's; its thread makes it, polls it and closes it",
    ("logs/kafka/settings.py", "producer"): "of a writer or a transactor; ends with its last reference",
    ("logs/kafka/settings.py", "admin"): "shared by those who ask; ends with the last of their references",
    ("connectors/kafka_source.py", "_consumer"): "kept for the process, or until its brokers were away",
    ("connectors/microbatch/kafka_positions.py", "_writer"): "kept for the process, or until it has failed",
    ("connectors/microbatch/kafka_positions.py", "_fence"): "ends with its last reference",
    ("connectors/position_offsets.py", "move"): "ends with its last reference",
    ("connectors/kafka_log.py", "open"): "of a unit's log; ends with its last reference",
}
"""Functions that make a client and do not close it aside. A producer runs no code of ours on its own threads
(but for logins by a token's file), and its ``close`` waits for ever for records that nobody takes."""

MADE = ("Consumer", "Producer", "AdminClient")


def makers(text: str) -> Iterator[str]:
    """Functions that make a client of librdkafka, and leave its end to others."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            called = {ast.unparse(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
            if called.intersection(MADE) and "closing_aside" not in called:
                yield node.name


def test_whoever_makes_a_client_ends_it_or_is_named() -> None:
    found = {
        (str(path.relative_to(SOURCES)), name)
        for path in SOURCES.rglob("*.py")
        if "confluent_kafka" in (text := path.read_text())
        for name in makers(text)
    }
    assert found == OWNERS.keys()


def test_answers_of_clients_that_are_kept_are_read_without_raising_what_they_keep() -> None:
    """The frames of an error that an answer keeps hold the client, and librdkafka's thread holds the answer:
    ``result_of`` raises a new error."""
    raising = {
        (path.name, ast.unparse(node))
        for path in (SOURCES / "logs").rglob("*.py")
        if "confluent_kafka" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".result")
    }
    assert raising == {("settings.py", "answer.result(0)")}, "in result_of, after it has looked"


LATE_ANSWERS = """
import concurrent.futures, sys, threading, time
from contextlib import suppress

from confluent_kafka import KafkaException

from cooperator.connectors import topics
from cooperator.logs import connect_offsets
from cooperator.logs.errors import LogUnavailable

topics._TIMEOUT_S = connect_offsets._TIMEOUT_S = 0.02
SERVERS = "127.0.0.1:1"  # nobody listens
client = {"bootstrap.servers": SERVERS, "log_level": 0}

# librdkafka's thread is slow to let go of what it has answered: as on a machine that is busy.
set_exception = concurrent.futures.Future.set_exception

def slowly(answer, error):
    set_exception(answer, error)
    if threading.current_thread() is not threading.main_thread():
        time.sleep(0.05)

concurrent.futures.Future.set_exception = slowly

def cluster():
    with topics._asking(client) as admin:
        admin.describe_cluster(request_timeout=0.02).result(60)

offsets = connect_offsets.ConnectOffsets(SERVERS, {})
for ask in (
    cluster,
    lambda: topics.partition_counts(client, ["orders", "bills"], 0.02),
    lambda: topics.ensure_topic(client, "orders", 1, 1, None, 0.02),
    lambda: topics.matching_topics(client, bool),
    lambda: offsets.sink("connect-orders"),
    lambda: offsets.forget_sink("connect-orders"),
    lambda: topics.end_offsets(client, "us", "orders", [0], 0.02),
):
    for _ in range(5):
        with suppress(KafkaException, LogUnavailable):
            ask()
            sys.exit("somebody answered")
"""

EXIT = """
from cooperator.connectors import topics
from confluent_kafka import Consumer, KafkaException
from cooperator.supervision import closing_aside

client = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "group.id": "us"}
for _ in range(20):
    with closing_aside(Consumer(client), "consumer") as consumer:
        consumer.poll(0)
"""


def run(program: str) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-X", "faulthandler", "-c", program]
    return subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)


def test_a_client_whose_answer_failed_is_not_ended_by_the_thread_that_answered() -> None:
    """librdkafka aborts the process if one of its own threads ends its client."""
    ended = run(LATE_ANSWERS)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("_turn", range(3))
def test_a_process_may_exit_while_its_clients_are_being_closed(_turn: int) -> None:
    ended = run(EXIT)
    assert (ended.returncode, ended.stderr) == (0, "")
