"""The commands ``cooperator local …``, put together."""

import typer

from cooperator.local import commands, offsets, picture, resource_commands, restart, top

app = typer.Typer(
    no_args_is_help=True, help="Run workers and connectors on this machine, without Kubernetes."
)
for command in (
    commands.up,
    commands.down,
    resource_commands.apply,
    resource_commands.get,
    resource_commands.scale,
    restart.restart,
    top.top,
    picture.picture,
    resource_commands.delete,
    resource_commands.kill,
    resource_commands.logs,
):
    app.command()(command)
app.command(hidden=True)(commands.host)
app.add_typer(offsets.app, name="offsets")
