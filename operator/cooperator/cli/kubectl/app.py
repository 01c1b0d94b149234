"""The commands for a cluster, put together: ``kubectl cooperator …``, or ``cooperator kubectl …``."""

import os

import typer

from cooperator.cli.kubectl import acts, completion, plan, status, story, top

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Look at Workers and Connectors of a Kubernetes cluster, and ask things of them.",
)
app.command()(status.status)
app.command()(story.story)
app.command()(plan.plan)
app.command()(acts.restart)
app.command()(acts.pause)
app.command()(acts.resume)
app.command()(acts.stop)
app.command()(top.top)
app.command()(completion.completion)


def main() -> None:
    """Run the command that the arguments name; ends the process."""
    if completion.VARIABLE in os.environ:
        # A shell asks, by the script that ``completion`` has printed.
        completion.prepare()
        app(prog_name=completion.PROGRAM)
    app(prog_name="kubectl cooperator")
