"""``cooperator leader``: the leader of one Worker's group as a process of its own."""

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from cooperator.cli.options import LogFormatOption
from cooperator.cli.worker import address
from cooperator.crd import Connector, ResourceError, Worker, compile_desired, parse
from cooperator.crd.kafka import SecurityProtocol
from cooperator.local.console import Console
from cooperator.log_lines import LogFormat, log_to_stderr


def leader(
    manifest: Annotated[
        Path, typer.Option("--manifest", "-f", help="A Worker, and the Connectors that it runs.", exists=True)
    ],
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(help="Kafka, host:port[,…]; overridden by the Worker's spec.bootstrapServers."),
    ] = None,
    cluster: Annotated[
        str, typer.Option(help="Who leads: part of the owner that the group is marked with.")
    ] = "default",
    listen: Annotated[
        str, typer.Option(help="host:port that members reach; port 0 picks one.")
    ] = "127.0.0.1:0",
    hand_back: Annotated[
        bool,
        typer.Option(
            help="At the end, give the group back to its stock workers: what they run is laid out first so "
            "that their own leader finds nothing to move."
        ),
    ] = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Lead the group of a Worker until SIGTERM; its members are started elsewhere."""
    from cooperator.host.leader import leader_settings
    from cooperator.leader.process import prepare_process
    from cooperator.leader.service import LeaderService

    log_to_stderr(log_format)
    prepare_process()
    console = Console()
    try:
        resources = parse(manifest.read_text(), str(manifest))
    except ResourceError as error:
        console.error(str(error))
        raise typer.Exit(1) from None
    workers = [resource for resource in resources if isinstance(resource, Worker)]
    if len(workers) != 1:
        console.error(f"{manifest} has {len(workers)} Workers: give exactly one")
        raise typer.Exit(1)
    [worker] = workers
    if worker.spec.kafka.security_protocol is not SecurityProtocol.PLAINTEXT:
        console.error(
            f"spec.kafka: its Secrets are on Kubernetes; this command speaks PLAINTEXT, not "
            f"{worker.spec.kafka.security_protocol.value}: remove it, and name a listener without security"
        )
        raise typer.Exit(1)
    servers = worker.spec.bootstrap_servers or bootstrap_servers
    if servers is None:
        console.error("where is Kafka? give --bootstrap-servers, or spec.bootstrapServers of the Worker")
        raise typer.Exit(1)
    service = LeaderService(leader_settings(worker, servers, cluster, *address(listen)))
    connectors = tuple(resource for resource in resources if isinstance(resource, Connector))
    service.set_desired(compile_desired(worker, connectors, revision=1))
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    service.start()
    console.say(f"leading group {worker.group_id} at {service.url}")
    ended.wait()
    if hand_back:
        try:
            service.hand_back()
            console.say(f"group {worker.group_id} leads itself again")
            return
        except TimeoutError as error:
            console.error(f"{error}. It is left as it is: whoever leads next may move some of it")
    service.stop()
