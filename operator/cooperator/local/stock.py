"""Stock Connect workers as processes of this machine: their files and their command lines."""

from pathlib import Path

from cooperator.connect import jvm
from cooperator.connect.log4j import logging_files
from cooperator.connect.properties import WorkerAddress, properties_text, rolling, worker_settings
from cooperator.crd import Worker
from cooperator.local.layout import write_atomically
from cooperator.local.settings import HOST, free_port


def stock_template(worker: Worker, bootstrap_servers: str) -> list[str]:
    """Returns the common template of all members: a change makes the pool roll."""
    return [
        worker.spec.version or "",
        *jvm.heap_options(worker),
        *jvm.user_options(worker),
        *jvm.jmx_options(worker.spec.stock.metrics.jmx_port),
        *logging_files(worker).values(),
        properties_text(rolling(_settings(worker, bootstrap_servers, WorkerAddress("", HOST, 0, HOST)))),
    ]


def stock_command(worker: Worker, bootstrap_servers: str, identity: str, folder: Path) -> list[str]:
    """Returns the command of one member's new incarnation, and writes its files into ``folder``.

    Its REST port is any free one. Raises the errors of ``jvm.command``, and ``OSError``.
    """
    for name, text in logging_files(worker).items():
        write_atomically(folder / name, text)
    settings = folder / "worker.properties"
    place = WorkerAddress(identity, HOST, free_port(), HOST)
    write_atomically(settings, properties_text(_settings(worker, bootstrap_servers, place)))
    jmx_port = worker.spec.stock.metrics.jmx_port
    # All members are on one machine here, so each needs a port of its own.
    ordinal = int(identity.rpartition("-")[2])
    return jvm.command(worker, folder, settings, None if jmx_port is None else jmx_port + ordinal)


def _settings(worker: Worker, bootstrap_servers: str, place: WorkerAddress) -> dict[str, str]:
    # Security is only supported on Kubernetes: there are no Secrets here.
    return worker_settings(worker, bootstrap_servers, place, security={}, providers={})
