"""``cooperator local plan WORKER``: ``cooperator plan --worker``, named as in ``kubectl cooperator``."""

from typing import Annotated

import typer

from cooperator.cli import plan as what_if
from cooperator.cli.plan_source import of_worker
from cooperator.local.get import TableOrJson
from cooperator.local.options import DEFAULT_STATE, NamespaceOption, StateOption
from cooperator.terminal.console import write


def plan(
    worker: Annotated[str, typer.Argument(help="the Worker's name")],
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
    state: StateOption = DEFAULT_STATE,
    namespace: NamespaceOption = "default",
) -> None:
    """Answer "what if": which members would release and start which tasks, and how long tasks would wait."""
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
    with what_if.errors_said():
        write(what_if.answer_text(of_worker(state, namespace, worker), asked, output))
