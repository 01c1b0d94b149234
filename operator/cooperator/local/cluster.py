"""The permanent settings of a state directory. This module is light: every command reads it first."""

from dataclasses import dataclass

from cooperator.local.layout import StateDir, read_json


class ClusterError(Exception):
    """The request cannot be carried out; the text has the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The permanent settings of a state directory.

    ``id`` is part of the groups' owner, so that two directories never lead one group. ``bootstrap_servers``
    is None for the embedded broker. ``down``: everything was brought down, or is being brought down.
    """

    id: str
    bootstrap_servers: str | None = None
    down: bool = False


def read_cluster(state: StateDir) -> Cluster | None:
    value = read_json(state.cluster)
    return Cluster(**value) if value is not None else None
