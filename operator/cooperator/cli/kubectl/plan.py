"""``kubectl cooperator plan``: answers "what if" for the live group of a Worker."""

import subprocess
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from cooperator.cli import plan as what_if
from cooperator.cli.kubectl.errors import CommandError, errors_said
from cooperator.cli.kubectl.options import ContextOption, KubeconfigOption, NamespaceOption, WorkerArgument
from cooperator.cli.kubectl.seen import Body, Seen, name_in_kafka, see, status_of
from cooperator.cli.plan_source import with_conditions
from cooperator.controller.api.kubeconfig import ClusterAddress, connect
from cooperator.crd.conditions import SUMMARIES
from cooperator.local.get import TableOrJson
from cooperator.scenarios.snapshot import LedBy, Snapshot
from cooperator.terminal.console import say, write

_UNSEEN = (
    "the answer does not include what only the operator knows (expected, cordoned and quarantined members)"
)


def plan(
    worker: WorkerArgument,
    leave: what_if.LeaveOption = None,
    die: what_if.DieOption = None,
    restart: what_if.RestartOption = None,
    vanish: what_if.VanishOption = None,
    drain: what_if.DrainOption = None,
    join: what_if.JoinOption = None,
    add: what_if.AddOption = None,
    tasks_max: what_if.TasksMaxOption = None,
    delete: what_if.DeleteOption = None,
    policy: what_if.PolicyOption = None,
    max_delay_ms: what_if.MaxDelayOption = None,
    output: Annotated[TableOrJson, typer.Option("--output", "-o")] = TableOrJson.TABLE,
    here: Annotated[
        bool, typer.Option("--here", help="Do not fall back to the operator's pod if Kafka is out of reach.")
    ] = False,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Answer "what if": which members would release and start which tasks, and how long tasks would wait.

    Kafka is read from here, or else by the same command in the operator's pod. The command joins no group and
    writes nothing.
    """
    asked = what_if.PlanArguments(
        leave=leave,
        die=die,
        restart=restart,
        vanish=vanish,
        drain=drain,
        join=join,
        add=add,
        tasks_max=tasks_max,
        delete=delete,
        policy=policy,
        max_delay_ms=max_delay_ms,
    )
    with errors_said(), what_if.errors_said():
        place = connect(namespace, context, kubeconfig)
        seen = see(place, worker)
        found = _snapshot(place, seen)
        if isinstance(found, Snapshot):
            write(what_if.answer_text(found, asked, output))
            return
        words = ["kubectl", "plan", worker, "-n", place.namespace, "--here", *asked.words(), "-o", output]
        _in_the_pod(place, words, found, here)


def _snapshot(place: ClusterAddress, seen: Seen) -> Snapshot | str:
    """The starting point, or why Kafka is out of reach. Raises CommandError, ApiError, NotSeen."""
    from cooperator.cli.kubectl.kafka import OutOfReach, kafka_of
    from cooperator.group import GroupUnavailable
    from cooperator.leader.observability.group_inspector import GroupAddress, NotSeen, look
    from cooperator.logs import LogUnavailable

    [body] = seen.workers
    with TemporaryDirectory(prefix="cooperator-") as folder:
        try:
            kafka = kafka_of(place, body, Path(folder))
        except OutOfReach as error:
            return str(error)
        where = GroupAddress(
            kafka.bootstrap_servers,
            kafka.group_id,
            group_security=kafka.security,
            log_security=kafka.security,
        )
        try:
            snapshot = look(where)
        except NotSeen as error:
            if isinstance(error.__cause__, GroupUnavailable | LogUnavailable):
                return f"Kafka at {kafka.bootstrap_servers} cannot be reached from here: {error.__cause__}"
            raise CommandError(
                f"{error.args[0].partition('; check --group')[0]}: check `kubectl cooperator status`"
            ) from None
    conditions = status_of(body).get("conditions") or ()
    # Conditions that summarize others add nothing.
    snapshot = with_conditions(snapshot, (each for each in conditions if each["type"] not in SUMMARIES))
    if snapshot.led_by is not LedBy.OPERATOR:
        return snapshot
    view = replace(snapshot.view, weights=_weights(seen.connectors_of(body)))
    return replace(snapshot, view=view, notes=(*snapshot.notes, _UNSEEN))


def _weights(connectors: list[Body]) -> dict[str, float]:
    weights = {name_in_kafka(body): float(body["spec"].get("taskWeight", 1)) for body in connectors}
    return {name: weight for name, weight in weights.items() if weight != 1.0}


def _in_the_pod(place: ClusterAddress, words: list[str], why: str, here: bool) -> None:
    """Run the command in the operator's pod, with the operator's rights and access to Kafka."""
    from cooperator.cli.kubectl.kafka import exec_command, kubectl_program, operator_pod

    pod = None if here else operator_pod(place)
    command = exec_command(place, pod, words)
    program = kubectl_program()
    if here or pod is None or program is None:
        missing = (
            ""
            if here
            else "; no pod of the operator is visible"
            if pod is None
            else "; kubectl is not installed"
        )
        raise CommandError(f"{why}{missing}. Run this where Kafka is reachable: {' '.join(command)}")
    say(f"{why}\nrunning in the operator's pod: {' '.join(command)}")
    raise typer.Exit(subprocess.run([program, *command[1:]], check=False).returncode)
