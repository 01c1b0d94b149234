"""``cooperator operator``: the controller of Workers and Connectors on Kubernetes."""

import os
import signal
import socket
import threading
import uuid
from pathlib import Path
from typing import Annotated

import typer

from cooperator.cli.options import LogFormatOption, server_certificates
from cooperator.log_lines import LogFormat, log_to_stderr
from cooperator.model.extras import Extra, NotInstalled, require
from cooperator.supervision import supervise_process
from cooperator.telemetry import OtlpInvalid, metrics_url
from cooperator.terminal.console import Console


def operator(
    namespace: Annotated[
        list[str] | None, typer.Option(help="Namespace to serve; may be repeated. Default: all namespaces.")
    ] = None,
    nodes: Annotated[
        bool,
        typer.Option(
            help="Watch nodes, which requires a cluster-wide right; otherwise drains are not anticipated."
        ),
    ] = True,
    image: Annotated[
        str, typer.Option(help="Default image for Workers without one.", envvar="COOPERATOR_IMAGE")
    ] = "",
    bootstrap_servers: Annotated[
        str,
        typer.Option(
            help="Default bootstrap servers for Workers without them.", envvar="COOPERATOR_BOOTSTRAP_SERVERS"
        ),
    ] = "",
    cluster: Annotated[
        str,
        typer.Option(help="Name of this Kubernetes cluster in Kafka. Default: the uid of kube-system."),
    ] = "",
    listen: Annotated[str, typer.Option(help="Address at which leaders listen.")] = "0.0.0.0",
    advertised_host: Annotated[
        str, typer.Option(help="Host name or address at which members reach leaders.", envvar="POD_IP")
    ] = "",
    identity: Annotated[
        str, typer.Option(help="Identity of this process in the Lease.", envvar="POD_NAME")
    ] = "",
    leader_election_lease_namespace: Annotated[
        str, typer.Option(help="Namespace of the Lease.", envvar="POD_NAMESPACE")
    ] = "default",
    leader_election_lease_name: Annotated[
        str, typer.Option(help="Name of the Lease; one for each operator.")
    ] = "cooperator",
    leader_election_lease_duration_ms: Annotated[
        int,
        typer.Option(
            help="Time without a renewal after which another operator may take the Lease.",
            min=3_000,
            max=600_000,
        ),
    ] = 15_000,
    health_port: Annotated[int, typer.Option(help="Port of /healthz and /metrics; 0: none.")] = 8080,
    rest: Annotated[
        bool,
        typer.Option("--rest/--no-rest", help="Serve Kafka Connect's REST API for Workers that ask for it."),
    ] = False,
    kafka_token_file: Annotated[
        Path | None,
        typer.Option(
            help="Projected ServiceAccount token with which leaders log in to the default brokers.",
            envvar="COOPERATOR_KAFKA_TOKEN_FILE",
        ),
    ] = None,
    kafka_token_audience: Annotated[
        str, typer.Option(help="Audience of that token.", envvar="COOPERATOR_KAFKA_TOKEN_AUDIENCE")
    ] = "",
    tls_directory: Annotated[
        Path | None,
        typer.Option(
            help="Directory with tls.crt, tls.key and ca.crt: leaders and the REST API serve https."
        ),
    ] = None,
    worker_secret: Annotated[
        list[str] | None,
        typer.Option(help="Secret that Workers may name, as NAME or NAMESPACE/NAME; may be repeated."),
    ] = None,
    worker_service_account: Annotated[
        list[str] | None,
        typer.Option(
            help="ServiceAccount that Workers may name, as NAME or NAMESPACE/NAME; may be repeated."
        ),
    ] = None,
    otlp_endpoint: Annotated[
        str,
        typer.Option(
            help=(
                "Base URL of an OTLP receiver (http/protobuf), such as http://collector:4318: the operator "
                "and members send their metrics there."
            )
        ),
    ] = "",
    any_worker_template: Annotated[
        bool,
        typer.Option(
            "--any-worker-template/--restricted-worker-template",
            help="Make pods of any template: authors of Workers can then do what the operator can.",
        ),
    ] = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Watch Workers and Connectors, run members as pods and lead their groups, until SIGTERM."""
    console = Console()
    try:
        require(Extra.KUBERNETES, "`cooperator operator`")
    except NotInstalled as error:
        console.error(str(error))
        raise typer.Exit(2) from None
    from cooperator.controller.api.client import Api, ApiError
    from cooperator.controller.main import cluster_name, run_operator
    from cooperator.controller.manifests.allowed import Allowance
    from cooperator.controller.manifests.pods import Defaults
    from cooperator.controller.options import OperatorOptions
    from cooperator.host.security import OwnToken
    from cooperator.leader.process import prepare_process

    log_to_stderr(log_format)
    supervise_process()
    prepare_process()
    if otlp_endpoint:
        try:
            metrics_url(otlp_endpoint)
        except OtlpInvalid as error:
            console.error(str(error))
            raise typer.Exit(2) from None
    tls = server_certificates(tls_directory)
    try:
        named = cluster or cluster_name(Api(1))
    except ApiError as error:
        console.error(f"the cluster's name is unknown: set --cluster to a name that never changes: {error}")
        raise typer.Exit(1) from None
    host = socket.gethostname()
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    options = OperatorOptions(
        cluster=named,
        # A restarted process needs another identity than its predecessor of the same name.
        identity=f"{identity or host}_{uuid.uuid4().hex[:8]}",
        defaults=Defaults(image, bootstrap_servers, leader_ca=tls is not None, otlp_endpoint=otlp_endpoint),
        namespaces=tuple(namespace or ()),
        nodes=nodes,
        host=listen,
        advertised_host=advertised_host or socket.gethostbyname(host),
        lease_namespace=leader_election_lease_namespace,
        lease_name=leader_election_lease_name,
        lease_duration_ms=leader_election_lease_duration_ms,
        health_port=health_port,
        rest=rest,
        tls=tls,
        allowance=Allowance(
            frozenset(worker_secret or ()), frozenset(worker_service_account or ()), any_worker_template
        ),
        kafka_token=OwnToken(kafka_token_file, kafka_token_audience) if kafka_token_file else None,
    )
    code = run_operator(options, ending)
    # Exit without waiting for threads that are blocked on a broker or an API server.
    os._exit(code)
