"""Unmet conditions are logged, whether or not a client reads statuses."""

import logging

import pytest

from cooperator.leader.observability.conditions import Conditions


def test_each_change_is_reported_once_and_a_problem_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    board = Conditions(lambda: 0)
    with caplog.at_level(logging.INFO, logger="cooperator.leader.observability.conditions"):
        for _ in range(3):
            board.put("Leading", False, "GroupConflict", "it is led by another: stop that one")
        board.put("Leading", True, "Leading")
        board.put("Leading", True, "Leading")
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "Leading is False (GroupConflict): it is led by another: stop that one"),
        ("INFO", "Leading is True (Leading)"),
    ]


def test_a_trouble_is_one_while_it_is_true(caplog: pytest.LogCaptureFixture) -> None:
    board = Conditions(lambda: 0)
    with caplog.at_level(logging.INFO, logger="cooperator.leader.observability.conditions"):
        board.put("Hung", False, "NoneHangs")
        board.put("KafkaReachable", True, "Connected")
        assert not caplog.records, "all is well from the start"
        board.put("Hung", True, "MemberHangs", "w-1 hangs")
        board.put("Hung", False, "NoneHangs")
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"]
