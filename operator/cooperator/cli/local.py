"""The commands ``cooperator local …``."""

from collections.abc import Sequence
from typing import Final

import typer

from cooperator.cli.on_demand import put_together

_COMMANDS: Final = {
    "up": "cooperator.local.commands:up",
    "down": "cooperator.local.commands:down",
    "apply": "cooperator.local.resource_commands:apply",
    "get": "cooperator.local.get:get",
    "scale": "cooperator.local.resource_commands:scale",
    "restart": "cooperator.local.restart:restart",
    "pause": "cooperator.local.resource_commands:pause",
    "resume": "cooperator.local.resource_commands:resume",
    "stop": "cooperator.local.resource_commands:stop",
    "start": "cooperator.local.resource_commands:start",
    "top": "cooperator.local.top:top",
    "picture": "cooperator.local.picture:picture",
    "story": "cooperator.local.story:story",
    "plan": "cooperator.cli.local_plan:plan",
    "delete": "cooperator.local.resource_commands:delete",
    "kill": "cooperator.local.member_commands:kill",
    "logs": "cooperator.local.member_commands:logs",
    "host": "cooperator.local.commands:host",
    "offsets": "cooperator.local.offsets:app",
    "state": "cooperator.local.state:state",
}


def program(words: Sequence[str] = ()) -> typer.Typer:
    """The program with the commands that ``words`` need, or with all commands for no words."""
    about = "Run workers and connectors on this machine, without Kubernetes."
    return put_together(about, _COMMANDS, words, hidden=("host",))
