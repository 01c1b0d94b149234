"""Finds Connectors of a state directory that would share a file sink's directory. Follows symbolic links."""

import os
from collections.abc import Iterable
from typing import Final

from cooperator.connectors.output_paths import LOCAL
from cooperator.crd import Connector, Worker
from cooperator.host.outputs import ENDPOINT, Claim, Locate, Name, claim_of, normal_for, withheld

_STORE: Final = "s3:"


def shared_directories(workers: Iterable[Worker], connectors: Iterable[Connector]) -> dict[Name, str]:
    """Returns the Connectors that must not start, since one that was created earlier has the directory."""
    return withheld(claims(workers, connectors))


def claims(workers: Iterable[Worker], connectors: Iterable[Connector]) -> list[Claim]:
    """Returns the claims of Connectors, possibly of several Workers: all of them run on this machine.

    The Connector that was created first has the lowest rank.
    """
    known = {(w.metadata.namespace, w.metadata.name): w for w in workers}
    found = []
    for connector in connectors:
        metadata = connector.metadata
        worker = known.get((metadata.namespace, connector.spec.worker_ref.name))
        found.append(claim_of(connector, worker, _locate(worker), (metadata.creation_timestamp or "",)))
    return found


def _locate(worker: Worker | None) -> Locate:
    spelled = normal_for(worker)
    endpoint = str(worker.spec.spark.conf.get(ENDPOINT, "")) if worker is not None else ""

    def locate(directory: str) -> str:
        found = spelled(directory)
        if found.startswith(LOCAL):
            return f"{LOCAL}{os.path.realpath(found.removeprefix(LOCAL) or '/')}".rstrip("/")
        return f"{endpoint} {found}" if endpoint and found.startswith(_STORE) else found

    return locate
