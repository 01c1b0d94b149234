"""The rights that requests to the front need, over parts in memory."""

import pytest

from cooperator.rest.answers import Right
from tests.rest.fake_front import FakeFront


def test_an_unknown_caller_is_401_and_a_caller_without_the_right_403() -> None:
    fake = FakeFront({"Bearer reader": {Right("list"), Right("get", name="a")}})
    assert fake("GET /connectors").status == 401
    assert fake("GET /connectors", authorization="Bearer reader").status == 200
    assert fake("DELETE /connectors/a", authorization="Bearer reader").status == 403
    assert fake("GET /connectors/b", authorization="Bearer reader").status == 403
    assert fake("GET /health").status == 200
    assert fake("GET /openapi.json").status == 200


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("GET /", Right("get", "workers", name="lake")),
        ("GET /connectors?expand=status", Right("list")),
        ("POST /connectors", Right("create")),
        ("GET /connectors/a/status", Right("get", name="a")),
        ("PUT /connectors/a/config", Right("update", name="a")),
        ("PATCH /connectors/a/config", Right("patch", name="a")),
        ("PUT /connectors/a/pause", Right("patch", name="a")),
        ("PUT /connectors/a/stop", Right("patch", name="a")),
        ("DELETE /connectors/a", Right("delete", name="a")),
        ("POST /connectors/a/restart", Right("update", subresource="restart", name="a")),
        ("POST /connectors/a/tasks/0/restart", Right("update", subresource="restart", name="a")),
        ("GET /connectors/a/offsets", Right("get", subresource="offsets", name="a")),
        ("PATCH /connectors/a/offsets", Right("patch", subresource="offsets", name="a")),
        ("DELETE /connectors/a/offsets", Right("delete", subresource="offsets", name="a")),
        ("GET /connector-plugins", Right("get", "workers", name="lake")),
        ("PUT /connector-plugins/noop/config/validate", Right("create")),
        ("GET /admin/loggers", Right("get", "workers", "loggers", "lake")),
        ("PUT /admin/loggers/root", Right("update", "workers", "loggers", "lake")),
    ],
)
def test_each_route_checks_its_right_first(line: str, right: Right) -> None:
    fake = FakeFront({"Bearer nobody": set()})
    assert fake(line, authorization="Bearer nobody").status == 403
    assert fake.access.asked == [right]
