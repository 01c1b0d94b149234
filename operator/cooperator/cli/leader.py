"""``cooperator leader``: the leader of one Worker's group as a process of its own."""

import logging
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from cooperator.cli.options import LogFormatOption, address, server_certificates
from cooperator.crd import Connector, ResourceError, Worker, compile_desired, parse
from cooperator.crd.connector_names import named
from cooperator.crd.kafka import SecurityProtocol
from cooperator.log_lines import LogFormat, log_to_stderr
from cooperator.model import Desired
from cooperator.supervision import supervise_process, threads, trouble
from cooperator.terminal.console import Console

log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0

HAND_BACK_S: Final = 45
"""With the 30 s of the shutdown itself, this is less than the 90 s after which systemd kills."""

FENCED_EXIT_CODE: Final = 3
"""Another process leads under the same name: this one did not fail, and must not seem to have ended well."""


def leader(
    manifest: Annotated[
        Path, typer.Option("--manifest", "-f", help="Manifests of a Worker and its Connectors.", exists=True)
    ],
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            help="Bootstrap servers, host:port[,…]; overridden by the Worker's spec.bootstrapServers."
        ),
    ] = None,
    cluster: Annotated[
        str, typer.Option(help="Name of this installation, a part of the group's owner mark.")
    ] = "default",
    listen: Annotated[
        str, typer.Option(help="host:port at which members reach the leader; port 0 picks a free one.")
    ] = "127.0.0.1:0",
    tls_directory: Annotated[
        Path | None, typer.Option(help="Directory with tls.crt, tls.key and ca.crt: the leader serves https.")
    ] = None,
    hand_back: Annotated[
        bool,
        typer.Option(
            help=(
                "On exit, hand the group back to its stock workers, with tasks placed so that their own "
                "leader moves none."
            )
        ),
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(help="Delete connectors that are not in the manifest; otherwise they keep running."),
    ] = False,
    hand_back_seconds: Annotated[
        int,
        typer.Option(
            min=1,
            max=3600,
            help=(
                "Limit for --hand-back; must be 40 s less than the stop timeout of the service manager "
                "(systemd's TimeoutStopSec is 90 s). A second signal exits at once."
            ),
        ),
    ] = HAND_BACK_S,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Lead the group of a Worker, whose members run elsewhere, until SIGTERM.

    Problems are reported on stderr, such as why the group is not led. The exit code is 3 when another process
    with the same name has taken over.
    """
    from cooperator.host.leader import leader_settings
    from cooperator.leader.process import prepare_process
    from cooperator.leader.service import LeaderService, NotLeading

    log_to_stderr(log_format)
    supervise_process()
    prepare_process()
    console = Console()
    try:
        resources = parse(manifest.read_text(), str(manifest))
    except ResourceError as error:
        console.error(str(error))
        raise typer.Exit(1) from None
    workers = [resource for resource in resources if isinstance(resource, Worker)]
    if len(workers) != 1:
        console.error(f"{manifest} has {len(workers)} Workers: provide exactly one")
        raise typer.Exit(1)
    [worker] = workers
    if worker.spec.kafka.security_protocol is not SecurityProtocol.PLAINTEXT:
        console.error(
            "spec.kafka: its Secrets are on Kubernetes; this command supports PLAINTEXT only, not "
            f"{worker.spec.kafka.security_protocol.value}: remove it, and use a PLAINTEXT listener"
        )
        raise typer.Exit(1)
    servers = worker.spec.bootstrap_servers or bootstrap_servers
    if servers is None:
        console.error(
            "bootstrap servers are missing: set --bootstrap-servers, or spec.bootstrapServers of the Worker"
        )
        raise typer.Exit(1)
    tls = server_certificates(tls_directory)
    service = LeaderService(leader_settings(worker, servers, cluster, *address(listen), tls=tls))
    connectors = tuple(resource for resource in resources if isinstance(resource, Connector))
    for name, problem in named(worker, connectors).refused.items():
        console.error(f"Connector {name}: {problem}")
        raise typer.Exit(1)
    desired = replace(compile_desired(worker, connectors, revision=1), prune=prune)
    service.set_desired(desired)
    ended = threading.Event()

    def end(*_: object) -> None:
        if ended.is_set():
            service.stop_waiting()
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    threads.of_process.on_exhausted = ended.set
    service.start()
    console.say(f"taking the lead of group {worker.group_id}; its members reach this leader at {service.url}")
    unmanaged: Sequence[str] = ()
    while not ended.wait(_LOOK_S):
        try:
            # Reading the status evaluates conditions, whose changes are logged.
            unmanaged = _say_unmanaged(console, unmanaged, service.status(), desired)
        except Exception:
            # A failed status must not end the leader.
            log.exception("the status of group %s", worker.group_id)
        if service.is_fenced:
            break
    if hand_back and not service.is_fenced:
        console.say(f"handing back group {worker.group_id} within {hand_back_seconds} s")
        try:
            service.hand_back(hand_back_seconds, lambda what: console.say(f"hand-back pending: {what}"))
            console.say(f"group {worker.group_id} leads itself again")
            return
        except NotLeading as error:
            console.error(str(error))
        except TimeoutError as error:
            console.error(f"{error}. The tasks stay in place, but the next leader may move some of them")
    service.stop()
    if found := trouble():
        console.error(found)
        raise typer.Exit(1)
    if service.is_fenced:
        console.error(
            f"group {worker.group_id} is led by another process that was started with the same --cluster, "
            f"namespace and name ({cluster}, {worker.metadata.namespace}, {worker.metadata.name}): this "
            "process exits. Stop one of them, or use another --cluster"
        )
        raise typer.Exit(FENCED_EXIT_CODE)


def _say_unmanaged(
    console: Console, before: Sequence[str], status: Mapping[str, Any], desired: Desired
) -> Sequence[str]:
    """Report the group's connectors that are not in the manifest when they change, and return their names."""
    if not status.get("leading"):
        return before
    found = sorted(status["connectors"].keys() - desired.connectors.keys())
    if found and found != before and not desired.prune:
        console.say(f"connectors that are not in the manifest keep running (see --prune): {', '.join(found)}")
    return found
