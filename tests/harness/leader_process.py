"""An operator's leader as a process of its own, for tests that kill it.

Its settings are the first argument, as JSON; it writes its status to ``status_file`` repeatedly.
"""

import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from cooperator.leader.lease_confirmation import Candidates
from cooperator.leader.service import LeaderService, ServiceSettings
from cooperator.model import Desired, DesiredConnector, Policy, PolicyName
from cooperator.planner.view import Facts
from cooperator.wire import Owner


def settings_of(said: dict[str, Any]) -> ServiceSettings:
    policy = {"name": PolicyName.DEFAULT, **said.get("policy", {})}
    return ServiceSettings(
        bootstrap_servers=said["bootstrap_servers"],
        group_id=said["group_id"],
        owner=Owner(said.get("cluster", "test"), "default", said["group_id"]),
        policy=Policy(**{**policy, "name": PolicyName(policy["name"])}),
        host=said.get("host", "127.0.0.1"),
        session_timeout_ms=said.get("session_timeout_ms", 25_000),
        heartbeat_interval_ms=said.get("heartbeat_interval_ms", 1_000),
        rebalance_timeout_ms=said.get("rebalance_timeout_ms", 30_000),
        exactly_once_source=said.get("exactly_once_source", False),
        session_key_ttl_ms=said.get("session_key_ttl_ms", 3_600_000),
        group_security=said.get("security", {}),
        log_security=said.get("security", {}),
    )


def desired_of(connectors: dict[str, dict[str, str]]) -> Desired:
    return Desired(1, {name: DesiredConnector(config) for name, config in connectors.items()})


def main() -> None:
    said = json.loads(sys.argv[1])
    service = LeaderService(settings_of(said))
    service.start()
    service.set_facts(Facts(expected=frozenset(said["expected"]) if said.get("expected") else None))
    service.set_desired(desired_of(said["connectors"]))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    status_file = Path(said["status_file"])
    while not stop.wait(0.2):
        if said.get("expected"):
            # A host knows its pods in an outage of the broker as well.
            candidates = Candidates(frozenset(said["expected"]), int(time.monotonic() * 1000))
            service.set_candidates(candidates)
        part = status_file.with_suffix(".part")
        part.write_text(json.dumps(service.status()))
        part.replace(status_file)
    service.stop()


if __name__ == "__main__":
    main()
