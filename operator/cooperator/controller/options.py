"""What an operator's process is told at its start."""

from dataclasses import dataclass

from cooperator.controller.pods import Defaults


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """``namespaces``: served; none: the whole cluster. ``nodes``: whether nodes are watched, too.
    ``cluster``: names this Kubernetes cluster to Kafka's: part of the owner that a group is marked with.
    ``host`` and ``advertised_host``: where leaders listen, and by what members reach them. ``identity``: of
    this process, for the Lease in ``lease_namespace``. ``rest``: whether Kafka Connect's REST API is served
    for Workers that ask for it.
    """

    cluster: str
    identity: str
    defaults: Defaults
    namespaces: tuple[str, ...] = ()
    nodes: bool = True
    host: str = "0.0.0.0"
    advertised_host: str = ""
    lease_namespace: str = "default"
    lease_name: str = "cooperator"
    lease_ms: int = 15_000
    health_port: int = 8080
    rest: bool = False
