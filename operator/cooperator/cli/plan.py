"""``cooperator plan``: answers "what if" for a group. It joins no group and writes nothing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Final

import typer

from cooperator.cli.plan_source import PlanError, of_group, of_worker, regrouped
from cooperator.cli.plan_text import text_of
from cooperator.leader.plugins import installed_assignors
from cooperator.local.get import TableOrJson
from cooperator.local.layout import ClusterError
from cooperator.local.options import DEFAULT_STATE, NamespaceOption, StateOption
from cooperator.model import PolicyName
from cooperator.model.visible import to_visible_json
from cooperator.planner import Workspace
from cooperator.scenarios.answer import to_plain
from cooperator.scenarios.changes import (
    Add,
    Change,
    ChangeError,
    Delete,
    Die,
    Drain,
    Join,
    Leave,
    Resize,
    Restart,
    Vanish,
)
from cooperator.scenarios.snapshot import Snapshot, SnapshotError, from_json, to_json
from cooperator.scenarios.what_if import under, what_if
from cooperator.terminal.console import Console, write

_SOURCES: Final = (
    "select a group with --bootstrap-servers and --group, with --worker of a local installation, or with "
    "--file"
)


LeaveOption = Annotated[
    list[str] | None, typer.Option(metavar="MEMBER", help="The member ends and will not return.")
]
DieOption = Annotated[
    list[str] | None, typer.Option(metavar="MEMBER", help="The member ends; whether it returns is unknown.")
]
RestartOption = Annotated[
    list[str] | None,
    typer.Option(metavar="MEMBER=SECONDS", help="The member ends and returns after this time."),
]
VanishOption = Annotated[
    list[str] | None,
    typer.Option(metavar="MEMBER", help="The member is unreachable, without proof of its end."),
]
DrainOption = Annotated[
    list[str] | None,
    typer.Option(metavar="MEMBER", help="The member announces its departure and hands over."),
]
JoinOption = Annotated[
    list[str] | None, typer.Option(metavar="NUMBER", help="This number of new members joins.")
]
AddOption = Annotated[
    list[str] | None,
    typer.Option(metavar="CONNECTOR=TASKS", help="A connector with this number of tasks is created."),
]
TasksMaxOption = Annotated[
    list[str] | None, typer.Option(metavar="CONNECTOR=NUMBER", help="The connector's tasksMax is changed.")
]
DeleteOption = Annotated[
    list[str] | None, typer.Option(metavar="CONNECTOR", help="The connector is deleted.")
]
PolicyOption = Annotated[
    PolicyName | None, typer.Option(help="Simulate this policy; default: the group's own.")
]
MaxDelayOption = Annotated[
    int | None, typer.Option(help="Simulate this scheduled.rebalance.max.delay.ms.", min=0)
]


@dataclass(frozen=True, slots=True)
class PlanArguments:
    """The changes to play, as the options give them (None: not given); fields have the options' names."""

    leave: Sequence[str] | None = None
    die: Sequence[str] | None = None
    restart: Sequence[str] | None = None
    vanish: Sequence[str] | None = None
    drain: Sequence[str] | None = None
    join: Sequence[str] | None = None
    add: Sequence[str] | None = None
    tasks_max: Sequence[str] | None = None
    delete: Sequence[str] | None = None
    policy: PolicyName | None = None
    max_delay_ms: int | None = None

    def words(self) -> list[str]:
        """The options of a command line that asks the same."""
        found = []
        for each in fields(self):
            value, option = getattr(self, each.name), f"--{each.name.replace('_', '-')}"
            values = value if isinstance(value, list | tuple) else [] if value is None else [value]
            found += [word for text in values for word in (option, str(text))]
        return found


def plan(
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(help="Bootstrap servers of a live group, host:port[,host:port…]; with --group."),
    ] = None,
    group: Annotated[str | None, typer.Option(help="Group id of a live group.")] = None,
    worker: Annotated[str | None, typer.Option(help="Name of a Worker of a local installation.")] = None,
    namespace: NamespaceOption = "default",
    state: StateOption = DEFAULT_STATE,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Snapshot that was written with --save.", dir_okay=False),
    ] = None,
    config_topic: Annotated[
        str | None, typer.Option(help="Config topic of a Kafka Connect cluster; default GROUP-configs.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the snapshot that the answer starts from.", dir_okay=False)
    ] = None,
    leave: LeaveOption = None,
    die: DieOption = None,
    restart: RestartOption = None,
    vanish: VanishOption = None,
    drain: DrainOption = None,
    join: JoinOption = None,
    add: AddOption = None,
    tasks_max: TasksMaxOption = None,
    delete: DeleteOption = None,
    policy: PolicyOption = None,
    max_delay_ms: MaxDelayOption = None,
    output: Annotated[TableOrJson, typer.Option("--output", "-o")] = TableOrJson.TABLE,
) -> None:
    """Answer "what if": which members would release and start which tasks, and how long tasks would wait.

    All changes happen at once, now; each option may be repeated. Without changes, the answer shows the next
    rounds.
    """
    with errors_said():
        snapshot = _snapshot(bootstrap_servers, group, worker, namespace, state, file, config_topic)
        if save is not None:
            _write(save, to_json(snapshot))
        asked = PlanArguments(
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
        write(answer_text(snapshot, asked, output))


def answer_text(snapshot: Snapshot, asked: PlanArguments, output: TableOrJson) -> str:
    """Raises PlanError, ChangeError."""
    chosen = snapshot.view.policy
    if asked.policy is not None:
        chosen = replace(chosen, name=asked.policy)
    if asked.max_delay_ms is not None:
        chosen = replace(chosen, scheduled_rebalance_max_delay_ms=asked.max_delay_ms)
    snapshot = under(snapshot, chosen)
    changes: list[Change] = [
        *map(Leave, asked.leave or ()),
        *map(Die, asked.die or ()),
        *(Restart(name, ms) for name, ms in _pairs("--restart", asked.restart, _seconds_as_ms, "w-1=30")),
        *map(Vanish, asked.vanish or ()),
        *map(Drain, asked.drain or ()),
        *(Join(_number("--join", text)) for text in asked.join or ()),
        *(Add(name, tasks) for name, tasks in _pairs("--add", asked.add, int, "orders=4")),
        *map(Delete, asked.delete or ()),
    ]
    for name, number in _pairs("--tasks-max", asked.tasks_max, int, "orders=4"):
        change, note = regrouped(snapshot, Resize(name, number))
        changes.append(change)
        snapshot = replace(snapshot, notes=(*snapshot.notes, *note))
    answer = what_if(snapshot, _one_join(changes), Workspace(installed_assignors()))
    if output is TableOrJson.JSON:
        return to_visible_json(to_plain(answer), indent=2)
    return text_of(answer)


def _snapshot(
    bootstrap_servers: str | None,
    group: str | None,
    worker: str | None,
    namespace: str,
    state: Path,
    file: Path | None,
    config_topic: str | None,
) -> Snapshot:
    live = bootstrap_servers is not None or group is not None
    if [live, worker is not None, file is not None].count(True) != 1:
        raise PlanError(_SOURCES)
    if worker is not None:
        return of_worker(state, namespace, worker)
    if file is not None:
        return from_json(_read(file), str(file))
    if bootstrap_servers is None or group is None:
        missing = "--group" if group is None else "--bootstrap-servers"
        raise PlanError(
            f"{missing} is missing: a live group is selected with both --bootstrap-servers and --group"
        )
    return of_group(bootstrap_servers, group, config_topic)


def _pairs(
    option: str, texts: Sequence[str] | None, number_of: Callable[[str], int], example: str
) -> Iterator[tuple[str, int]]:
    """The values of an option that takes NAME=NUMBER."""
    for text in texts or ():
        name, equals, number = text.rpartition("=")
        try:
            if not equals or not name:
                raise ValueError
            yield name, number_of(number)
        except (ValueError, OverflowError):
            raise PlanError(
                f"{option} {text!r} is not NAME=NUMBER: write, for example, {option} {example}"
            ) from None


def _seconds_as_ms(text: str) -> int:
    return round(float(text) * 1000)


def _number(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise PlanError(f"{option} {text!r} is not a number: write, for example, {option} 2") from None


def _one_join(changes: Sequence[Change]) -> list[Change]:
    """Combine several joins into one."""
    joins = [change.count for change in changes if isinstance(change, Join)]
    others: list[Change] = [change for change in changes if not isinstance(change, Join)]
    return [*others, *([Join(sum(joins))] if joins and min(joins) > 0 else map(Join, joins))]


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PlanError(f"--file {file} cannot be read: {reason}") from None


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise PlanError(f"--save {file} cannot be written: {error.strerror}; use another file") from None


@contextmanager
def errors_said() -> Iterator[None]:
    """End the command with text and code 1 for questions that cannot be answered."""
    from cooperator.leader.observability.group_inspector import NotSeen

    try:
        yield
    except (PlanError, ChangeError, SnapshotError, ClusterError, NotSeen) as error:
        Console().error(str(error))
        raise typer.Exit(1) from None
