"""A leader in a process of its own, for tests that kill it; prints each call of its listener as a line of
JSON."""

import json
import sys
import time
from typing import Any

from cooperator.wire import Role
from tests.group.recording_member import RecordingMember


class PrintingMember(RecordingMember):
    def _record(self, kind: str, what: Any) -> None:
        sys.stdout.write(json.dumps([kind, repr(what)]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    bootstrap_servers, group_id, instance_id, times = sys.argv[1:]
    leader = PrintingMember(
        bootstrap_servers, group_id, "operator", Role.LEADER, instance_id, **json.loads(times)
    )
    leader.membership.start()
    while True:
        time.sleep(60)
