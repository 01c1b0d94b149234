"""``kubectl cooperator story``: the history of a task, with reasons."""

import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from cooperator.cli.kubectl.errors import CommandError, errors_said, no_such
from cooperator.cli.kubectl.options import ContextOption, KubeconfigOption, NamespaceOption, TaskArgument
from cooperator.cli.kubectl.seen import Body, events_of, name_in_kafka, one, pods_of, see
from cooperator.controller.api.client import CONNECTORS, WORKERS, ApiError
from cooperator.controller.api.kubeconfig import ClusterAddress, connect
from cooperator.logs import LogHistory
from cooperator.model import TaskId
from cooperator.model.text import counted
from cooperator.terminal.console import write

_PATIENCE_MS = 6_000


def story(
    task: TaskArgument,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Show when and where a task started, waited, moved and failed, and why.

    The sources are statuses and events of the API, the members' pods, and the Worker's topics where they can
    be read from here.
    """
    from cooperator.cli.kubectl.kafka import exec_command, operator_pod
    from cooperator.cli.kubectl.story_text import Sources, story_text
    from cooperator.terminal.story import meant

    with errors_said():
        place = connect(namespace, context, kubeconfig)
        connectors = see(place).connectors
        item = meant(task, connectors)
        owner = _connector(place, connectors, item, task)
        worker = one(place, WORKERS, owner["spec"]["workerRef"]["name"])
        history, missing = history_of(place, worker)
        if history is None:
            words = exec_command(
                place, operator_pod(place), ["kubectl", "story", task, "-n", place.namespace]
            )
            missing = f"{missing}; run this where Kafka is reachable: {' '.join(words)}"
        try:
            events = events_of(place)
        except ApiError as error:
            missing = "; ".join(filter(None, (missing, f"without events: {error}")))
            events = []
        pods = list(pods_of(place, worker["metadata"]["name"]).values())
        sources = Sources(worker, connectors, events, pods, history, missing)
        write(story_text(sources, item, time.time_ns() // 1_000_000))


def _connector(place: ClusterAddress, connectors: Sequence[Body], item: TaskId, name: str) -> Body:
    for body in connectors:
        if name_in_kafka(body) == item.connector:
            listed = [entry["id"] for entry in (body.get("status") or {}).get("taskStatuses") or ()]
            count = ((body.get("status") or {}).get("tasks") or {}).get("desired", 0)
            if item.task >= 0 and item.task not in listed and item.task >= count:
                raise CommandError(
                    f"task {name!r} does not exist: Connector {item.connector} has {counted(count, 'task')}, "
                    "numbered from 0"
                )
            return body
    known = [body["metadata"]["name"] for body in connectors]
    raise CommandError(f"{name} is not a task: {no_such(CONNECTORS, item.connector, place.namespace, known)}")


def history_of(place: ClusterAddress, worker: Body) -> tuple[LogHistory | None, str]:
    """The history in Kafka's logs, or None and the reason why they cannot be read."""
    from cooperator.cli.kubectl.kafka import kafka_of
    from cooperator.logs import KafkaTransport, LogsConfig, LogUnavailable, read_history

    with TemporaryDirectory(prefix="cooperator-") as folder:
        try:
            kafka = kafka_of(place, worker, Path(folder))
            config = LogsConfig(kafka.bootstrap_servers, kafka.group_id, security=kafka.security)
            transport = KafkaTransport(
                kafka.bootstrap_servers, f"{kafka.group_id}-inspector", config.security
            )
            return read_history(transport, config, _PATIENCE_MS), ""
        except (LogUnavailable, CommandError) as error:
            return None, str(error)
        except ApiError as error:
            return None, f"you are not allowed to read its Secrets: {error}"
