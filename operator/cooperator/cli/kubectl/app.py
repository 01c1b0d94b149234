"""The commands for a cluster: ``kubectl cooperator …``, or ``cooperator kubectl …``."""

from collections.abc import Sequence
from typing import Final

import typer

from cooperator.cli.on_demand import put_together

_COMMANDS: Final = {
    "status": "cooperator.cli.kubectl.status:status",
    "story": "cooperator.cli.kubectl.story:story",
    "picture": "cooperator.cli.kubectl.picture:picture",
    "plan": "cooperator.cli.kubectl.plan:plan",
    "restart": "cooperator.cli.kubectl.acts:restart",
    "pause": "cooperator.cli.kubectl.acts:pause",
    "resume": "cooperator.cli.kubectl.acts:resume",
    "stop": "cooperator.cli.kubectl.acts:stop",
    "start": "cooperator.cli.kubectl.acts:start",
    "offsets": "cooperator.cli.kubectl.offsets:app",
    "state": "cooperator.cli.kubectl.state:state",
    "top": "cooperator.cli.kubectl.top:top",
    "completion": "cooperator.cli.kubectl.completion:completion",
}


def program(words: Sequence[str] = ()) -> typer.Typer:
    """The program with the commands that ``words`` need, or with all commands for no words."""
    about = "Inspect and operate Workers and Connectors of a Kubernetes cluster."
    return put_together(about, _COMMANDS, words)
