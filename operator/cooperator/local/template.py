"""The template of a Worker's members: its resource as command lines."""

import sys
from collections.abc import Callable, Sequence

from cooperator.crd import Worker
from cooperator.host.member import member_options
from cooperator.local.layout import WorkerDir
from cooperator.local.stock import stock_command, stock_template

MemberCommand = Callable[[Worker, str, str, str], Sequence[str]]
"""Maps (worker, bootstrap servers, identity, incarnation) to the command of a member's process.

With an empty identity it returns the common template of all members.
"""


def member_command(directory: WorkerDir) -> MemberCommand:
    """Returns the command of members that keep their files below ``directory``."""

    def command(worker: Worker, bootstrap_servers: str, identity: str, incarnation: str) -> list[str]:
        if worker.spec.is_stock:
            if not identity:
                return stock_template(worker, bootstrap_servers)
            return stock_command(worker, bootstrap_servers, identity, directory.members / identity)
        return [
            *(sys.executable, "-m", "cooperator.cli", "worker"),
            *("--identity", identity, "--incarnation", incarnation),
            *("--state-dir", str(directory.members / identity)),
            *("--checkpoints", worker.spec.checkpoint_location or str(directory.checkpoints)),
            *member_options(worker, bootstrap_servers),
        ]

    return command
