"""Requests for offsets (KIP-875), over parts in memory."""

import pytest

from tests.rest.fake_front import FakeFront

ENTRY = {"partition": {"file": "x"}, "offset": {"position": 3}}


def test_only_offsets_of_a_stopped_connector_can_be_changed(fake: FakeFront) -> None:
    fake.create("a")
    assert fake.ok("GET /connectors/a/offsets") == {"offsets": []}
    for line in (
        "PATCH /connectors/a/offsets",
        "DELETE /connectors/a/offsets",
        "POST /connectors/a/offsets/migrate",
    ):
        assert "PUT /connectors/a/stop first" in fake.refused(line, {"offsets": [ENTRY]})
    fake.ok("PUT /connectors/a/stop", code=204)
    assert fake.ok("PATCH /connectors/a/offsets", {"offsets": [ENTRY]}) == {"message": "altered"}
    assert fake.ok("GET /connectors/a/offsets") == {"offsets": [ENTRY]}
    fake.ok("PATCH /connectors/a/offsets", {"offsets": [{**ENTRY, "offset": None}]})
    assert fake.ok("GET /connectors/a/offsets") == {"offsets": []}
    assert fake.ok("POST /connectors/a/offsets/migrate") == {"message": "migrated"}
    assert fake.ok("DELETE /connectors/a/offsets") == {"message": "reset"}


def test_offsets_cannot_be_changed_before_the_tasks_have_stopped(fake: FakeFront) -> None:
    fake.create("a")
    fake.ok("PUT /connectors/a/stop", code=204)
    fake.group.busy.add("a")
    assert "is RUNNING" in fake.refused("DELETE /connectors/a/offsets", code=409)
    assert "is RUNNING" in fake.refused("PATCH /connectors/a/offsets", {"offsets": [ENTRY]}, 409)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "are missing"),
        ({"offsets": []}, "are missing"),
        ({"offsets": [ENTRY], "more": 1}, "unknown field 'more'"),
        ({"offsets": [{"offset": {}}]}, "offsets[0].partition is not an object"),
        ({"offsets": [ENTRY, {"partition": {}}]}, "offsets[1].offset is neither"),
    ],
)
def test_malformed_offsets_are_refused(fake: FakeFront, body: object, said: str) -> None:
    assert said in fake.refused("PATCH /connectors/a/offsets", body)
