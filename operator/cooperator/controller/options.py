"""Options of an operator process."""

from dataclasses import dataclass, field

from cooperator.controller.manifests.allowed import Allowance
from cooperator.controller.manifests.pods import Defaults
from cooperator.host.security import OwnToken
from cooperator.leader.tls import ServerCertificates


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """``namespaces`` are those served; none means the whole cluster. ``nodes`` enables the watch of nodes.
    ``cluster`` names this Kubernetes cluster to Kafka's, as a part of the owner that a group is marked with.
    Leaders listen on ``host``; members reach them at ``advertised_host``. ``identity`` is this process's, for
    the Lease in ``lease_namespace``. ``rest`` serves Kafka Connect's REST API for Workers that ask for it.
    ``allowance`` is what Workers may ask of their pods. With ``tls``, leaders and the REST API serve https;
    then ``defaults.leader_ca`` is set, too. ``kafka_token`` logs in to the default brokers for Workers that
    use ServiceAccount tokens."""

    cluster: str
    identity: str
    defaults: Defaults
    namespaces: tuple[str, ...] = ()
    nodes: bool = True
    host: str = "0.0.0.0"
    advertised_host: str = ""
    lease_namespace: str = "default"
    lease_name: str = "cooperator"
    lease_duration_ms: int = 15_000
    health_port: int = 8080
    rest: bool = False
    tls: ServerCertificates | None = None
    allowance: Allowance = field(default_factory=Allowance)
    kafka_token: OwnToken | None = None
